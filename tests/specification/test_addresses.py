"""Sockets of the server: at both loopback addresses, because `localhost` leads to both."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from fairpool.model.problem import Problem
from fairpool.platform.address import Address, listening_socket, other_loopback
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.gateway_options import GatewayOptions
from fairpool.platform.gateway_server import bind_gateway

OTHERS = {"127.0.0.1": "::1", "::1": "127.0.0.1"}


@pytest.fixture(autouse=True)
def ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")


def listening(host: str, port: int = 0) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


@pytest.mark.parametrize("host", OTHERS)
def test_the_same_port_is_listened_on_at_the_other_loopback_address(host: str) -> None:
    listener, address = listening_socket(Address(host, 0))
    other = other_loopback(listener)
    assert isinstance(other, socket.socket)
    with listener, other, socket.create_connection((OTHERS[host], address.port), 10) as connection:
        assert other.accept()[1][:2] == connection.getsockname()[:2]


def test_a_port_that_is_open_to_other_machines_is_listened_on_once() -> None:
    with listening("0.0.0.0") as listener:
        assert other_loopback(listener) is None


def at_both_addresses() -> tuple[socket.socket, socket.socket]:
    """Two that listen on the same port. Another program may have it at one of the addresses."""
    for _ in range(100):
        one = listening("::1")
        try:
            return one, listening("127.0.0.1", one.getsockname()[1])
        except OSError:
            one.close()
    raise AssertionError("no port is free at both addresses")


def test_a_program_that_has_the_port_at_the_other_address_is_named(tmp_path: Path) -> None:
    taken, listener = at_both_addresses()
    with taken:
        port = taken.getsockname()[1]
        with listener:
            problem = other_loopback(listener)
        assert isinstance(problem, Problem)
        assert f"listens on [::1]:{port}" in problem.what
        assert str(os.getpid()) not in problem.what, "which listens at the other address"
        data_directory = DataDirectory(tmp_path)
        control = Address("127.0.0.1", 1)
        chosen = GatewayOptions(listen=Address("127.0.0.1", port))
        place = bind_gateway(data_directory, chosen, control, ())
        assert (len(place.listeners), place.warning) == (1, problem)
        place.listeners[0].close()
        data_directory.gateway_port.write_text(str(port))
        place = bind_gateway(data_directory, GatewayOptions(), control, ())
        assert (len(place.listeners), place.warning) == (2, None)
        assert place.address.port not in (None, port), "the default port gives way"
        for each in place.listeners:
            each.close()
