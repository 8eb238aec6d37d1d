"""Endpoint of a route: guard, body, validation, handler, answer.

The guard is asked before the body is read, so that a caller who is refused costs nothing else, and again after it,
because permissions may have been revoked while it was on its way. All that is wrong with a request is reported at once.

Parsing holds the interpreter's lock, so that another thread would not help: a body is bounded in bytes (`BodyLimit`)
and in values, and what is done with a large one is done in steps, between which other requests are answered. A large
answer is sent in pieces.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from fairpool.api import wire
from fairpool.control.discretion import MARK, redacted_response
from fairpool.control.guard import guard
from fairpool.control.plane import IS_DRY_RUN, REQUEST_ID, plane_of
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, validation_problems
from fairpool.control.routes import WEBSOCKET, Parameters, Route

JSON = re.compile(r"application/([\w.-]+\+)?json", re.IGNORECASE)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MARKS = tuple(
    mark for number in (0xE000, 0xE001, 0xE002) for mark in (chr(number).encode(), b"\\u%x" % number, b"\\u%X" % number)
)
"""Only clusters may mention projects with marks around their names, see `model/mentions.py`."""
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""In JSON, after an even number of backslashes: with one more, it is the text of an escape. Not every database system
can store it."""
MARK_BYTES_MAX = max(map(len, MARKS))
LARGE_BYTES = 64 * 1024
PIECE_BYTES = 256 * 1024
"""Searched, or sent, at once."""
SEPARATORS = (b",", b":", b"{", b"[")
SEPARATORS_MAX = 60_000
"""In a large body: so many are parsed in about 5 ms, whatever is between them."""
PROBLEMS_MAX = 100
"""Reported one by one."""
NOTHING: Any = object()
"""In place of a body, where there is none."""
MISSING = {"type": "missing", "loc": ("body",), "msg": "Field required"}


class Endpoint:
    """The ASGI application of one route."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._route.method == WEBSOCKET:
            socket = WebSocket(scope, receive, send)
            await guard(socket, self._route)
            await self._route.handler(**self._arguments(socket))
            return
        request = Request(scope, receive, send)
        response = await self._response(request)
        if REQUEST_ID in scope:  # it has an entry in the audit log
            response.headers["X-Request-Id"] = scope[REQUEST_ID]
        if self._route.action is not Action.OPEN:
            response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        if MARK in getattr(response, "body", b""):
            response = await redacted_response(plane_of(request), getattr(request.state, "caller", None), response)
        if len(getattr(response, "body", b"")) > PIECE_BYTES:
            await _send_in_pieces(response, send)
        else:
            await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        route, body = self._route, NOTHING
        await guard(request, route)
        if route.before is not None:
            await route.before(request)
        if route.takes.body is not None:
            text = await _read(request)
            await guard(request, route)
            if route.action is not Action.LINK:
                await _check_marks(text)
                _check_nul(text)
            _check_is_json(request, text)
            body = await _parsed(text) if text else NOTHING
        answer = await route.handler(**self._arguments(request, body))
        if isinstance(answer, Response):
            return answer
        assert isinstance(answer, list) or type(answer) is route.answer, "an answer is of the declared model"
        return Response(_json(answer), route.status, media_type="application/json")

    def _arguments(self, connection: HTTPConnection, body: Any = NOTHING) -> dict[str, Any]:
        """What the handler is called with, or everything that is wrong with the request."""
        if "\0" in connection.scope["path"] or b"%00" in connection.scope["query_string"]:
            raise _nul()
        takes, path = self._route.takes, connection.scope["path_params"]
        arguments: dict[str, Any] = {name: path[name] for name in takes.in_path}
        if takes.connection is not None:
            arguments[takes.connection] = connection
        if takes.plane is not None:
            arguments[takes.plane] = plane_of(connection)
        if takes.caller is not None:
            arguments[takes.caller] = connection.state.caller
        errors: list[Mapping[str, Any]] = []
        for each in takes.parameters:
            _take_parameters(each, connection, arguments, errors)
        if arguments.get("dry_run") is True:
            connection.scope[IS_DRY_RUN] = True
        if takes.body is not None:
            try:
                if body is not NOTHING:
                    arguments["body"] = takes.body.validate_python(body)
                else:
                    errors.append(MISSING)
            except ValidationError as error:
                errors += _located("body", error)
        if errors:
            raise Refused(422, validation_problems(errors))
        return arguments


def _take_parameters(
    wanted: Parameters, connection: HTTPConnection, arguments: dict[str, Any], errors: list[Mapping[str, Any]]
) -> None:
    given = _given(wanted, connection)
    if not given and wanted.defaults is not None:
        arguments.update(wanted.defaults)
        return
    try:
        values = wanted.model.model_validate(given, by_alias=True, by_name=False)
    except ValidationError as error:
        errors += _located(wanted.where, error)
        return
    if wanted.argument is not None:
        arguments[wanted.argument] = values
    else:
        arguments.update((name, getattr(values, name)) for name in wanted.model.model_fields)


def _given(wanted: Parameters, connection: HTTPConnection) -> dict[str, Any]:
    if wanted.where == "header":
        return {name: connection.headers[name] for name, _ in wanted.names if name in connection.headers}
    if not connection.scope["query_string"]:
        return {}
    query = connection.query_params
    return {name: query.getlist(name) if is_list else query[name] for name, is_list in wanted.names if name in query}


def _located(where: str, error: ValidationError) -> list[Mapping[str, Any]]:
    count = error.error_count()
    if count > PROBLEMS_MAX:  # to make a list of them all would take as long as a hundred requests
        return [{"type": "too_many", "loc": (where,), "msg": f"{count} values are not valid"}]
    return [{**each, "loc": (where, *each["loc"])} for each in error.errors(include_url=False)]


# --- bodies --------------------------------------------------------------------------------------------------


async def _read(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect as gone:
        raise refused(400, "request.not_json", "the request body is incomplete", "send it again") from gone


def _check_is_json(connection: HTTPConnection, body: bytes) -> None:
    kind = connection.headers.get("content-type", "").partition(";")[0].strip()
    if JSON.fullmatch(kind) is None and (body or kind):
        what = f"the Content-Type is {kind[:64].lower() or 'missing'}, but the body must be JSON"
        raise refused(415, "request.not_json", what, "send the header Content-Type: application/json")


async def _check_marks(body: bytes) -> None:
    for start in range(0, len(body), PIECE_BYTES):
        if start:
            await asyncio.sleep(0)
        piece = body[start : start + PIECE_BYTES + MARK_BYTES_MAX]
        if not any(mark in piece for mark in MARKS):
            continue
        fix = "leave out the private-use characters U+E000 to U+E002"
        raise refused(422, "request.reserved_characters", "the request contains reserved characters", fix)


def _check_nul(body: bytes) -> None:
    if b"\\u0000" in body and NUL.search(body) is not None:
        raise _nul()


def _nul() -> Refused:
    what = "the request contains the character NUL (U+0000), which no name or text may have"
    return refused(422, "request.reserved_characters", what, "leave it out")


async def _parsed(body: bytes) -> Any:
    """The JSON value. Validated after that: straight from the text, a field given under two names goes unnoticed."""
    is_large = len(body) > LARGE_BYTES
    if is_large and sum(map(body.count, SEPARATORS)) > SEPARATORS_MAX:
        what = f"the request body has more than {SEPARATORS_MAX} separators ({b' '.join(SEPARATORS).decode()})"
        raise refused(413, "request.too_many_values", what, "send several smaller requests")
    if is_large:
        await asyncio.sleep(0)
    try:
        value = wire.parse_json(body.removeprefix(BYTE_ORDER_MARK))
    except ValueError as error:
        raise refused(400, "request.not_json", "the request body is not valid JSON", "send a JSON object") from error
    if is_large:
        await asyncio.sleep(0)
    return value


async def _send_in_pieces(response: Response, send: Send) -> None:
    body = memoryview(response.body)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for start in range(0, len(body), PIECE_BYTES):
        piece = bytes(body[start : start + PIECE_BYTES])
        await send({"type": "http.response.body", "body": piece, "more_body": start + PIECE_BYTES < len(body)})
        await asyncio.sleep(0)


def _json(answer: BaseModel | list[BaseModel]) -> str:
    if isinstance(answer, list):
        return f"[{','.join(_json(each) for each in answer)}]"
    return answer.model_dump_json(by_alias=True, exclude_none=True)
