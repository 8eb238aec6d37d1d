"""Before anything is read: by which name we were called, from whose page, and whether the caller is one.

A page from elsewhere can have its name lead to this machine (DNS rebinding) and would then speak to us as if it were
ours, with whatever the browser remembers for this machine. It cannot hide the name. And a stranger's body is not
looked at: reading eight megabytes of JSON costs everybody else's time. What a caller may do is the guard's question.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from fairpool.control import rbac
from fairpool.control.guard import TOKEN_HASH, identify
from fairpool.control.plane import Plane
from fairpool.control.refusal import Refused, refusal_of, refused
from fairpool.control.settings import Settings, is_loopback
from fairpool.control.store.trouble import Unavailable

STRANGERS_BODY_MAX_BYTES = 16 * 1024
"""Names, passwords and tokens: all that somebody sends who is no caller yet."""

OWN_NAMES_MAX = 64

_OPEN = [(method, path) for (method, path), action in rbac.ROUTES.items() if action is rbac.Action.OPEN]
_OPEN_PATHS = {
    method: re.compile("|".join(compile_path(path)[0].pattern for other, path in _OPEN if other == method))
    for method, _ in _OPEN
}
_PORTS = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}


class Threshold:
    """Lets nobody further who is not known, but to where they can become so."""

    def __init__(self, app: ASGIApp, plane: Plane) -> None:
        self._app = app
        self._plane = plane
        self._own_names: set[str] = set()
        """By which we were called, and which were found to be ours: nearly always the same."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            try:
                self._check_name(headers.get("host", ""))
                if scope["type"] == "websocket":
                    check_origin(headers.get("origin"), headers.get("host", ""))
                if not is_open(scope):
                    caller = await identify(self._plane, headers.get("authorization"))
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
            check_name(self._plane.settings, host)
            if len(self._own_names) < OWN_NAMES_MAX:
                self._own_names.add(host)


def is_open(scope: Scope) -> bool:
    """Whether this is where a stranger becomes a caller."""
    paths = _OPEN_PATHS.get(scope.get("method", ""))
    return paths is not None and paths.match(scope["path"]) is not None


def check_name(settings: Settings, host: str) -> None:
    """Go no further when we were called by a name that is not ours."""
    name = name_of(host)
    if is_ours(name, settings):
        return
    what = f"{name[:128]!r} is not a host name of this server" if name else "the request has no Host header"
    fix = "use the server's IP address; or, if the name is the server's, start it with: fairpool up --host-name NAME"
    raise refused(421, "access.not_our_name", what, fix)


def is_ours(name: str, settings: Settings) -> bool:
    """This machine's own names, those that were configured, and, where others can reach us, any number."""
    if name in _lowered(settings.host_names) or is_loopback(name):
        return True
    if settings.is_local:
        return False
    # A number stands for no name, so that nobody can have made it lead here.
    return name == settings.host.lower() or _is_number(name)


def check_origin(origin: str | None, host: str) -> None:
    """Go no further when a page from elsewhere opens the socket: browsers let it, and say where it comes from."""
    if origin is None:
        return
    there = urlsplit(origin)
    default = _PORTS.get(there.scheme, "")
    if not there.netloc or there.netloc.lower().removesuffix(default) != host.lower().removesuffix(default):
        what = f"web pages from {origin[:128]!r} are not allowed to connect"
        raise refused(403, "access.other_origin", what, "connect from a page on this server, or without a browser")


def name_of(host: str) -> str:
    """The name in a `Host`, without its port."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return name.removesuffix(".")


def _lowered(names: Collection[str]) -> set[str]:
    return {each.lower().removesuffix(".") for each in names}


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
