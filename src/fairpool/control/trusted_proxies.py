"""The address of a client behind a proxy: `X-Forwarded-For` is believed only from proxies that an administrator named.

Limits of sign-in attempts, the audit log and lists of sessions use the address of the client. Any client can send the
header, so it counts only where the connection comes from a trusted proxy, and of its addresses only the last one that
is no proxy itself: what stands before it was sent by the client. No header changes the host or scheme of links. Behind
a proxy that ends TLS, the scheme is that of `--public-url`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from fairpool.model.problem import Problem

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

HEADER = b"x-forwarded-for"
SECURE = {"http": "https", "ws": "wss"}


class TrustedProxies:
    """The networks of proxies whose header is believed."""

    def __init__(self, networks: Sequence[IpNetwork] = ()) -> None:
        self._networks = tuple(networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def has(self, host: str) -> bool:
        """Whether this is the address of such a proxy."""
        address = _read(host) if self._networks else None
        return address is not None and self._trusts(address)

    def client(self, forwarded: Sequence[bytes]) -> str | None:
        """The client that a proxy names in its header; None: it does not, or not in a way that can be understood."""
        address: IpAddress | None = None
        for text in reversed(b",".join(forwarded).decode("latin-1").split(",")):
            address = _read(_without_port(text.strip()))
            if address is None or not self._trusts(address):
                break
        return str(address) if address is not None else None

    def _trusts(self, address: IpAddress) -> bool:
        return any(address in network for network in self._networks)


NO_PROXIES = TrustedProxies()


def read_proxies(texts: Sequence[str]) -> TrustedProxies | Problem:
    """Networks and single addresses, as an administrator writes them."""
    found: list[IpNetwork] = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text.strip())
        except ValueError:
            fix = "expected an address or a network, e.g. 10.0.0.7 or 10.0.0.0/24"
            return Problem("up.trusted_proxy", f"{text!r} is not an IP address or network", fix)
        if network.prefixlen == 0:
            what = f"{text!r} contains every address, so that every client could claim any"
            return Problem("up.trusted_proxy", what, "name only the addresses of the proxies")
        found.append(network)
    return TrustedProxies(found)


class ForwardedClients:
    """Middleware: requests that come through a trusted proxy get the address of their client."""

    def __init__(self, app: ASGIApp, proxies: TrustedProxies, *, is_secure: bool) -> None:
        """`is_secure`: clients reach the proxies over TLS."""
        self._app, self._proxies, self._is_secure = app, proxies, is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("client")
        if peer and self._proxies.has(peer[0]):
            client = self._proxies.client([value for name, value in scope["headers"] if name == HEADER])
            scope["client"] = peer if client is None else (client, 0)
            if self._is_secure:
                scope["scheme"] = SECURE.get(scope["scheme"], scope["scheme"])
        await self._app(scope, receive, send)


def _read(text: str) -> IpAddress | None:
    """IPv4 in the form of IPv6 is IPv4. A zone (`%eth0`) means nothing on another machine, and may be any text."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _without_port(text: str) -> str:
    """`192.0.2.1:4711` and `[2001:db8::1]:4711`, as some proxies write them."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
