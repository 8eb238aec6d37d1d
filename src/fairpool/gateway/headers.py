"""Header fields that pass through the gateway, and those that do not. Pure.

Names are compared without case. Fields come and go as pairs, so that repeated ones stay repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairpool.api.gateway import Credential, is_platform_token

Fields = list[tuple[str, str]]

HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade"),
    }
)
"""About one connection only (RFC 9110, 7.6.1)."""
NOT_FROM_CLIENTS = frozenset({"expect", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"})
"""Answered by the gateway, or set by it: a client could claim another address."""
NEVER_NOMINATED = frozenset({"host", "content-length", "content-type", ""})
NOT_FROM_PODS = frozenset({"alt-svc"})
"""Would lead the browser past the gateway."""
DROPPED_ON_THE_WAY = HOP_BY_HOP | NOT_FROM_CLIENTS | {"cookie"}
DROPPED_ON_THE_WAY_BACK = HOP_BY_HOP | NOT_FROM_PODS
PLATFORM_COOKIES = ("fairpool_", "__Host-fairpool_", "__Secure-fairpool_")
SESSION, BROWSER = "fairpool_tool", "fairpool_browser"
"""Cookies of the gateway, on the origin of a tool."""


def cookie_name(name: str, *, is_secure: bool) -> str:
    """With TLS the browser itself ensures that no other host has set the cookie."""
    return f"__Host-{name}" if is_secure else name


def cookies_in(fields: Iterable[str]) -> Fields:
    """The cookies of all `Cookie` fields, as they were sent."""
    pieces = (piece.strip() for field in fields for piece in field.split(";"))
    return [(name.strip(), value.strip()) for name, _, value in (each.partition("=") for each in pieces if each)]


def credential_in(authorization: str, cookies: Iterable[tuple[str, str]], session_cookie: str) -> Credential:
    """What the request shows to the platform."""
    token = platform_token(authorization)
    if token:
        return Credential(token=token)
    return Credential(sessions=tuple(value for name, value in cookies if name == session_cookie and value)[:4])


def platform_token(authorization: str) -> str:
    """The token, if it is one of the platform; others are the tool's own affair."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and is_platform_token(token) else ""


def to_pod(fields: Iterable[tuple[str, str]], cookies: Fields, set_here: Mapping[str, str]) -> Fields:
    """The fields of a request as the pod receives them: without tokens and cookies of the platform.

    `set_here` are added; what the client sent of these does not pass in any case.
    """
    pairs = list(fields)
    nominated = _nominated(pairs)
    kept: Fields = []
    for name, value in pairs:
        low = name.lower()
        if low in DROPPED_ON_THE_WAY or low in nominated or (low == "authorization" and platform_token(value)):
            continue
        kept.append((name, value))
    own = [(name, value) for name, value in cookies if not name.startswith(PLATFORM_COOKIES)]
    if own:
        kept.append(("Cookie", "; ".join(f"{name}={value}" if value else name for name, value in own)))
    kept.extend(set_here.items())
    return kept


def to_client(fields: Iterable[tuple[str, str]]) -> Fields:
    """The fields of a response as the client receives them."""
    pairs = list(fields)
    nominated = _nominated(pairs)
    kept: Fields = []
    for name, value in pairs:
        low = name.lower()
        if low in DROPPED_ON_THE_WAY_BACK or low in nominated:
            continue
        if low == "set-cookie":
            value = _host_only(value)
            if not value:
                continue
        kept.append((name, value))
    return kept


def _nominated(pairs: Fields) -> set[str] | frozenset[str]:
    """Fields that `Connection` declares to be about this connection. `Host` and lengths are never."""
    said = [value for name, value in pairs if name.lower() == "connection"]
    if not said:
        return frozenset()
    return {each.strip().lower() for value in said for each in value.split(",")} - NEVER_NOMINATED


def _host_only(cookie: str) -> str:
    """A cookie of a tool is for its own origin only; empty: it pretends to be one of the platform."""
    first, *attributes = cookie.split(";")
    if first.strip().startswith(PLATFORM_COOKIES):
        return ""
    kept = [each for each in attributes if each.partition("=")[0].strip().lower() != "domain"]
    return ";".join([first, *kept])
