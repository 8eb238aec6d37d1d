"""Host check: middleware that refuses foreign host names and origins, and callers without a valid token.

A foreign page can point its own name at this machine (DNS rebinding) and would then call the API with the credentials
that the browser keeps for this machine; but it cannot change the Host header. Bodies of unauthenticated callers are not
read, since parsing megabytes of JSON would delay other requests. Permissions are checked by the guard.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from fairpool.api.gateway_address import is_ip_address
from fairpool.control.browser_session import foreign_page
from fairpool.control.guard import BROWSER_TOKENS, TOKEN_HASH, TOKEN_KINDS, identify
from fairpool.control.plane import Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refusal_of, refused
from fairpool.control.router import Router
from fairpool.control.settings import Settings, is_loopback
from fairpool.control.store.unavailable import Unavailable

OWN_NAMES_MAX = 64

_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}


class HostCheck:
    """Middleware: requests under a name of this server, with a valid token unless the route is open."""

    def __init__(self, app: ASGIApp, plane: Plane, router: Router) -> None:
        self._app = app
        self._plane = plane
        self._router = router
        self._own_names: set[str] = set()
        """Names that were checked before: nearly always the same one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            try:
                self._check_name(headers.get("host", ""))
                if scope["type"] == "websocket":
                    check_origin(headers.get("origin"), headers.get("host", ""))
                match = self._router.match(scope)
                if match is None or match.route.action is not Action.OPEN:
                    is_secure = scope.get("scheme") in ("https", "wss")
                    method = scope.get("method", "GET")
                    caller, scope[TOKEN_KINDS] = await identify(self._plane, headers, method, is_secure=is_secure)
                    if scope["type"] == "websocket" and scope[TOKEN_KINDS] is BROWSER_TOKENS:
                        check_has_origin(headers)
                    scope[TOKEN_HASH] = caller.token_hash
            except Refused as refusal:
                await refusal.response()(scope, receive, send)
                return
            except Unavailable as error:
                await refusal_of(error).response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_name(self, host: str) -> None:
        if host not in self._own_names:
            check_host(self._plane.settings, host)
            if len(self._own_names) < OWN_NAMES_MAX:
                self._own_names.add(host)


def check_host(settings: Settings, host: str) -> None:
    """Refuse a Host header that is not a name of this server."""
    name = host_without_port(host)
    if is_ours(name, settings):
        return
    what = f"{name[:128]!r} is not a host name of this server" if name else "the request has no Host header"
    fix = "use the server's IP address; or, if the name is the server's, start it with: fairpool up --host-name NAME"
    raise refused(421, "access.not_our_name", what, fix)


def is_ours(name: str, settings: Settings) -> bool:
    """Loopback names, configured names, and any IP address if the server listens on more than loopback."""
    if name in _lowered(settings.host_names) or is_loopback(name):
        return True
    if settings.is_local:
        return False
    # An IP address cannot be rebound: it is not looked up.
    return name == settings.host.lower() or is_ip_address(name)


def check_origin(origin: str | None, host: str) -> None:
    """Refuse a WebSocket that a foreign page opens: browsers allow it, and send the Origin header."""
    if origin is None:
        return
    there = urlsplit(origin)
    default = _PORTS.get(there.scheme, "")
    if not there.netloc or there.netloc.lower().removesuffix(default) != host.lower().removesuffix(default):
        what = f"web pages from {origin[:128]!r} are not allowed to connect"
        raise refused(403, "access.other_origin", what, "connect from a page on this server, or without a browser")


def check_has_origin(headers: Headers) -> None:
    """Refuse a WebSocket with a session cookie and no Origin: browsers always send it, and it is all that there is to
    check, since pages cannot add headers of their own."""
    if headers.get("origin") is None:
        raise foreign_page("a WebSocket in a browser session needs the header Origin")


def host_without_port(host: str) -> str:
    """The name in a `Host`, without its port."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return name.removesuffix(".")


def _lowered(names: Collection[str]) -> set[str]:
    return {each.lower().removesuffix(".") for each in names}
