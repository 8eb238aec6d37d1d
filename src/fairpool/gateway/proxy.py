"""Reverse proxy: decides whether a request may pass, and passes it to the pod.

1. The host name says which tool is meant (`api/gateway_address.py`).
2. The request shows a session of this origin or a token; the control plane says whether it is good.
3. The request goes to the pod without what is the platform's, and the answer comes back.

Everything is streamed, in both directions. An open exchange ends when the caller loses the permission or the tool
stops.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

from fairpool.api.gateway import (
    ENTER,
    OWN_PATHS,
    AccessUnavailable,
    Admission,
    Credential,
    NotAdmitted,
    StreamRefused,
    ToolAccess,
    browser_hash,
)
from fairpool.api.gateway_address import GatewayAddress, local_path
from fairpool.gateway import answers
from fairpool.gateway.aio import (
    ClientError,
    ClientResponse,
    Connection,
    PassedResponse,
    PodClient,
    Request,
    Response,
    Upgraded,
    connection_of,
    passed_response,
    splice,
)
from fairpool.gateway.headers import (
    BROWSER,
    SESSION,
    Fields,
    cookie_name,
    cookies_in,
    credential_in,
    to_client,
    to_pod,
)
from fairpool.gateway.origin import is_foreign, is_page_request
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.gateway")

SLOW_S = 60.0
"""How long a client may send nothing of a body, or read nothing of an answer."""
LOOK_AGAIN_S, LOOK_PAUSE_S = 5.0, 0.2
"""Open exchanges are checked at least, and at most, this often."""
RETRY_S = 1.0
"""After a check that failed."""
RETRIED = frozenset({"GET", "HEAD", "OPTIONS"})
BROWSER_COOKIE_S = 600
BROWSER_COOKIES_MAX = 4
"""A browser has several only if a page of another host below the same domain set some."""

BAD_REQUEST = Problem("gateway.request", "the request is not valid", "send a plain path that begins with /")
WRONG_HOST = Problem("gateway.host", "this is not a host name of the gateway", "use the URL that `runai list` shows")
FOREIGN = Problem("gateway.foreign_page", "a page of another origin made this request", "open the tool's own page")
GRPC = Problem("gateway.grpc", "gRPC is not supported by the gateway", "use `runai port-forward`")
TOO_SLOW = Problem("gateway.slow", f"nothing of the request body came for {SLOW_S:g} s", "send it again")
BAD_TICKET = Problem("gateway.ticket", "this link was already used or is too old", "open the tool's URL again")
GONE = Problem("gateway.pod_closed", "the tool closed the connection before it answered", "try again")
BUG = Problem("gateway.bug", "the gateway failed to handle this request", "see its log: `fairpool logs`")
BAD_ANSWER = Problem("gateway.answer", "the answer of the tool is not valid HTTP", "see its log: `runai logs JOB`")


class Gateway:
    """Handles the requests of one server."""

    def __init__(self, access: ToolAccess, address: GatewayAddress) -> None:
        self._access, self._address = access, address
        self._client = PodClient(access.connect)
        self._session_cookie = cookie_name(SESSION, is_secure=address.is_secure)
        self._browser_cookie = cookie_name(BROWSER, is_secure=address.is_secure)
        self._open: dict[Connection, Admission] = {}
        """The exchange of each connection that has one now."""

    async def close(self) -> None:
        await self._client.close()

    async def handle(self, request: Request) -> Response:
        """The answer to a request. Errors are answered, never raised."""
        try:
            response = await self._handled(request)
        except AccessUnavailable as error:
            response = _last(answers.refused(request, error.status, error.problem))
        except Exception:
            log.exception("request failed")
            response = _last(answers.refused(request, 500, BUG))
        if "Upgrade" in request.headers:
            response.force_close()  # what followed the head was not HTTP
        return response

    async def _handled(self, request: Request) -> Response:
        hosts = request.headers.getall("Host", ())
        target = request.raw_path
        if len(hosts) != 1 or not target.startswith("/") or "#" in target or not target.isascii():
            return answers.refused(request, 400, BAD_REQUEST)
        origin = self._address.label_in(hosts[0])
        if origin is None:
            return answers.refused(request, 421, WRONG_HOST)
        cookies = cookies_in(request.headers.getall("Cookie", ()))
        credential = credential_in(request.headers.get("Authorization", ""), cookies, self._session_cookie)
        if not origin:
            return await self._at_base(request, target, credential)
        if target.startswith(OWN_PATHS):
            return await self._own(request, origin, cookies)
        refusal = self._refusal(request, origin, credential)
        if refusal is not None:
            return refusal
        admission = self._access.known(origin, credential) or await self._access.admit(origin, credential)
        if isinstance(admission, NotAdmitted):
            return self._not_admitted(request, origin, target, admission, cookies)
        connection = connection_of(request)
        self._open[connection] = admission
        try:
            return await self._forward(request, admission, target, cookies)
        finally:
            del self._open[connection]

    def _refusal(self, request: Request, origin: str, credential: Credential) -> Response | None:
        """What no caller may send."""
        if request.headers.get("Content-Type", "").startswith("application/grpc"):
            return answers.refused(request, 501, GRPC)
        own, headers = self._address.origin_url(origin), request.headers
        if not credential.token and is_foreign(own, headers, request.method, is_upgrade="Upgrade" in headers):
            return answers.refused(request, 403, FOREIGN)
        return None

    # --- signing in ---

    async def _at_base(self, request: Request, target: str, credential: Credential) -> Response:
        """The gateway's own name: documented paths lead to the origin of the tool."""
        if credential.token:
            found = await self._access.origin_of(target, credential)
            if isinstance(found, NotAdmitted):
                return answers.refused(request, found.status, found.problem)
            return answers.redirect(found, 307)
        return answers.redirect(self._access.path_url(local_path(target)), 302)

    def _not_admitted(self, request: Request, origin: str, target: str, why: NotAdmitted, cookies: Fields) -> Response:
        if why.status != 401 or not is_page_request(request.headers, request.method):
            return answers.refused(request, why.status, why.problem)
        known = next((value for name, value in cookies if name == self._browser_cookie and len(value) >= 32), "")
        secret = known or secrets.token_urlsafe(32)
        answer = answers.redirect(self._access.sign_in_url(origin, browser_hash(secret), local_path(target)), 302)
        self._set_cookie(answer, self._browser_cookie, secret, BROWSER_COOKIE_S)
        return answer

    async def _own(self, request: Request, origin: str, cookies: Fields) -> Response:
        """Exchange a ticket for a session."""
        ticket, path = request.query.get("ticket", ""), local_path(request.query.get("path", "/"))
        if request.path != ENTER or request.method != "GET" or not ticket:
            return answers.refused(request, 404, BAD_REQUEST)
        browsers = [browser_hash(value) for name, value in cookies if name == self._browser_cookie]
        session = await self._access.enter(origin, ticket, tuple(browsers[:BROWSER_COOKIES_MAX]))
        if session is None:
            return answers.refused(request, 403, BAD_TICKET)
        answer = answers.redirect(path, 303)
        self._set_cookie(answer, self._session_cookie, session, None)
        return answer

    def _set_cookie(self, answer: Response, name: str, value: str, lifetime_s: int | None) -> None:
        answer.set_cookie(
            name, value, max_age=lifetime_s, path="/", httponly=True, samesite="Lax", secure=self._address.is_secure
        )

    # --- passing on ---

    async def _forward(self, request: Request, admission: Admission, target: str, cookies: Fields) -> Response:
        is_upgrade = request.headers.get("Upgrade", "").lower() == "websocket"
        set_here = {
            "X-Forwarded-For": request.remote or "",
            "X-Forwarded-Host": request.headers["Host"],
            "X-Forwarded-Proto": self._address.scheme,
        }
        if is_upgrade:
            set_here |= {"Connection": "Upgrade", "Upgrade": "websocket"}
        fields = to_pod(request.headers.items(), cookies, set_here)
        try:
            pod = await self._send(request, admission, target, fields)
        except StreamRefused as error:
            return answers.refused(request, 503, error.problem)
        except TimeoutError:
            return _last(answers.refused(request, 408, TOO_SLOW))
        except UnicodeError:
            return _last(answers.refused(request, 400, BAD_REQUEST))
        except (ClientError, OSError):
            return _last(answers.refused(request, 502, GONE))
        try:
            if pod.status == 101:
                if not is_upgrade:  # the client would take what follows for HTTP
                    return _last(answers.refused(request, 502, BAD_ANSWER))
                return await self._spliced(request, pod)
            return await self._answer(request, pod)
        finally:
            if pod.content.is_eof() and pod.status != 101:
                pod.release()
            else:
                pod.close()

    async def _send(self, request: Request, admission: Admission, target: str, fields: Fields) -> ClientResponse:
        """Sent again if the connection was one that the pod has just closed, and nothing was lost with it."""
        method = request.method
        if request.body_exists:
            return await self._client.request(admission, method, target, fields, _body(request))
        try:
            return await self._client.request(admission, method, target, fields, None)
        except (ClientError, OSError):
            if method not in RETRIED:
                raise
        return await self._client.request(admission, method, target, fields, None)

    async def _answer(self, request: Request, pod: ClientResponse) -> Response:
        response = passed_response(pod.status, pod.reason, to_client(pod.headers.items()))
        try:
            await response.prepare(request)
            content = pod.content
            if not content.is_eof():
                if not content.total_bytes:
                    response.flush_head()
                async for piece in content.iter_any():
                    await _written(response, piece)
            elif piece := content.read_nowait():
                await response.write_eof(piece)
        except UnicodeError:
            return _last(answers.refused(request, 502, BAD_ANSWER))
        except (ClientError, OSError, TimeoutError) as error:
            # The client must not take a part for the whole.
            log.info("answer of a pod broke off", extra={"fields": {"why": str(error) or type(error).__name__}})
            _abort(connection_of(request))
        return response

    async def _spliced(self, request: Request, pod: ClientResponse) -> Response:
        response = Upgraded(status=101)
        response.headers.extend(to_client(pod.headers.items()))
        response.headers["Connection"], response.headers["Upgrade"] = "Upgrade", "websocket"
        await response.prepare(request)
        with suppress(OSError, ClientError):
            await splice(request, pod)
        if request.transport is not None:
            request.transport.close()
        return response

    # --- permissions that end ---

    async def watch(self) -> None:
        """Ends exchanges whose caller lost the permission or whose tool has stopped. Runs until cancelled."""
        is_failing = False
        while True:
            try:
                if not is_failing:  # otherwise what has changed was not looked at yet
                    await self._access.changed(LOOK_AGAIN_S)
                await self._end_revoked()
                is_failing = False
            except Exception as error:
                if not is_failing:
                    trace = None if isinstance(error, AccessUnavailable) else error
                    why = {"fields": {"why": str(error) or type(error).__name__}}
                    log.error("cannot end revoked connections now; trying again", exc_info=trace, extra=why)
                is_failing = True
            await asyncio.sleep(RETRY_S if is_failing else LOOK_PAUSE_S)

    async def _end_revoked(self) -> None:
        if self._open:
            ended = set(await self._access.ended(set(self._open.values())))
            for connection in [each for each, admission in self._open.items() if admission in ended]:
                _abort(connection)


async def _body(request: Request) -> AsyncIterator[bytes]:
    """Raises `TimeoutError` if the client is too slow."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    while True:
        async with asyncio.timeout(SLOW_S):
            piece = await request.content.readany()
        if not piece:
            return
        yield piece


async def _written(response: PassedResponse, piece: bytes) -> None:
    async with asyncio.timeout(SLOW_S):
        await response.write(piece)


def _last(response: Response) -> Response:
    """The connection is closed after it: some of the request may still be unread."""
    response.force_close()
    return response


def _abort(connection: Connection) -> None:
    if connection.transport is not None:
        connection.transport.abort()
