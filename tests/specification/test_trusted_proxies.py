"""Whose word counts about the address of a client: that of the proxies an administrator named, and of no other peer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairpool.control.trusted_proxies import ForwardedClients, TrustedProxies, read_proxies
from fairpool.model.problem import Problem

PEER = "10.0.0.7"


def proxies(*texts: str) -> TrustedProxies:
    found = read_proxies(texts or ("10.0.0.0/24", "2001:db8:1::/48"))
    assert isinstance(found, TrustedProxies)
    return found


def seen(
    peer: str | None, *forwarded: str, kind: str = "http", is_secure: bool = False, **more: str
) -> tuple[Any, str]:
    """The client and the scheme that the application sees."""
    found: list[tuple[Any, str]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append((scope["client"][0] if scope["client"] else None, scope["scheme"]))

    headers = [(b"x-forwarded-for", each.encode("latin-1")) for each in forwarded]
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    client = (peer, 4711) if peer is not None else None
    scope = {"type": "http", "client": client, "scheme": kind, "headers": headers}
    asyncio.run(ForwardedClients(app, proxies(), is_secure=is_secure)(scope, None, None))  # type: ignore[arg-type]
    return found[0]


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (("203.0.113.9",), "203.0.113.9"),
        (("203.0.113.9:4711",), "203.0.113.9"),
        (("[2001:db8:2::9]:4711",), "2001:db8:2::9"),
        (("2001:DB8:2:0::9",), "2001:db8:2::9"),
        (("::ffff:203.0.113.9",), "203.0.113.9"),
        (("198.51.100.1, 203.0.113.9, 10.0.0.8, 2001:db8:1::5",), "203.0.113.9"),
        (("198.51.100.1", "203.0.113.9", "10.0.0.8"), "203.0.113.9"),
        (("not an address, 203.0.113.9",), "203.0.113.9"),
        (("10.0.0.9, 10.0.0.8",), "10.0.0.9"),
        (("fe80::1%\x1b[31m",), "fe80::1"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(forwarded: tuple[str, ...], client: str) -> None:
    assert seen(PEER, *forwarded)[0] == client


@pytest.mark.parametrize(
    "forwarded",
    ["", ",", "unknown", "203.0.113.9, none", "203.0.113.9,", "1.2.3", "999.1.1.1", "[]", "203.0.113.9, \xff"],
)
def test_a_header_that_cannot_be_understood_changes_nothing(forwarded: str) -> None:
    assert seen(PEER, forwarded)[0] == PEER
    assert seen(PEER)[0] == PEER


@pytest.mark.parametrize("peer", ["10.0.1.7", "127.0.0.1", "2001:db8:2::1", "testclient", "", None])
def test_others_are_not_believed(peer: str | None) -> None:
    assert seen(peer, "203.0.113.9", is_secure=True) == (peer, "http")


def test_a_proxy_is_recognized_at_a_socket_for_both_families() -> None:
    assert seen("::ffff:10.0.0.7", "203.0.113.9")[0] == "203.0.113.9"


def test_the_scheme_is_that_of_the_public_url_and_of_no_header() -> None:
    said: dict[str, Any] = {"x_forwarded_proto": "https", "x_forwarded_host": "evil.example"}
    assert seen(PEER, **said)[1] == "http"
    assert seen(PEER, kind="https", x_forwarded_proto="http")[1] == "https"
    assert [seen(PEER, kind=each, is_secure=True)[1] for each in ("http", "ws", "https")] == ["https", "wss", "https"]


@pytest.mark.parametrize("text", ["", "proxy.example.com", "10.0.0.7/24", "10.0.0.0/33", "0.0.0.0/0", "::/0"])
def test_what_is_no_network_of_proxies_is_refused(text: str) -> None:
    assert isinstance(read_proxies(["10.0.0.7", text]), Problem)


def test_without_any_no_peer_is_trusted() -> None:
    none = read_proxies([])
    assert isinstance(none, TrustedProxies)
    assert not none
    assert not none.has("127.0.0.1")
