"""The gateway as a server: its port, its address for users, and its requests until the platform stops."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from fairpool.agent.durable import write_durably
from fairpool.api.gateway_address import GatewayAddress
from fairpool.control.tool_access import Tools
from fairpool.gateway import aio
from fairpool.gateway.proxy import Gateway
from fairpool.model.problem import Problem
from fairpool.platform.address import Address, listening_socket, other_loopback
from fairpool.platform.data_directory import DataDirectory, PlatformError
from fairpool.platform.gateway_options import DEFAULT_PORT, GatewayOptions

log = logging.getLogger("fairpool.gateway")

LOCAL = "127.0.0.1"
ANY_ADDRESS = ("0.0.0.0", "::")
SHUTDOWN_S = 2.0


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """A gateway that can begin: its socket is bound."""

    listeners: Sequence[socket.socket]
    address: GatewayAddress
    control_url: str
    warning: Problem | None = None


def bind_gateway(
    data_directory: DataDirectory, options: GatewayOptions, control: Address, host_names: Sequence[str]
) -> GatewayPlace:
    """Bind the port. Raises `PlatformError`. `control`: where the control plane listens."""
    if options.listen is not None:
        listener, bound = listening_socket(options.listen, "--gateway-listen")
        other = other_loopback(listener)
    else:
        listener, bound, other = _default_socket(data_directory)
    address = options.url or GatewayAddress("http", "localhost", bound.port)
    control_url = options.control_url or _control_url(control, host_names)
    if isinstance(other, socket.socket):
        return GatewayPlace((listener, other), address, control_url)
    return GatewayPlace((listener,), address, control_url, other)


def _default_socket(
    data_directory: DataDirectory,
) -> tuple[socket.socket, Address, socket.socket | Problem | None]:
    """At the same port as last time, so that addresses remain; where it is taken, at another."""
    file = data_directory.gateway_port
    try:
        port = int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        port = DEFAULT_PORT
    try:
        listener, bound = listening_socket(Address(LOCAL, port), "--gateway-listen")
        other = other_loopback(listener)
        if isinstance(other, Problem):
            listener.close()
            raise PlatformError(other)
    except (PlatformError, OverflowError):
        listener, bound = listening_socket(Address(LOCAL, 0), "--gateway-listen")
        other = other_loopback(listener)
    with suppress(OSError):  # a full disk; the port is then another one next time
        write_durably(file, str(bound.port).encode())
    return listener, bound, other


def _control_url(control: Address, host_names: Sequence[str]) -> str:
    if control.host not in ANY_ADDRESS:
        return control.url
    return f"{control.scheme}://{host_names[0] if host_names else LOCAL}:{control.port}"


@asynccontextmanager
async def serving_gateway(place: GatewayPlace, state: Any, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Pass requests on to pods. `state` is that of the control plane's application."""
    tools = Tools(state.plane, place.address, place.control_url)
    gateway = Gateway(tools, place.address)
    server = aio.make_server(gateway.handle)
    secured = tls if place.address.is_secure else None
    listening = [await aio.listen(server, each, secured) for each in place.listeners]
    watching = asyncio.create_task(gateway.watch(), name="gateway")
    log.info("gateway at %s", place.address.url)
    try:
        yield
    finally:
        for each in listening:
            each.close()
        watching.cancel()
        server.pre_shutdown()
        await server.shutdown(SHUTDOWN_S)
        await gateway.close()
