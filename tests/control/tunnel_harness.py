"""A control plane behind a socket and clusters that reach it through a tunnel, over a link that a test can cut."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette

from fairpool.control.app import ClusterIdentity, cluster_identity, create_app
from fairpool.control.plane import Plane
from fairpool.control.pod_access import PodAccess
from fairpool.control.settings import Settings
from fairpool.platform.tunnel_client import TunnelClient
from tests.control.control_plane import CHEAP, choose_password

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Until a test gives up; test machines are busy."""


def until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < end, f"gave up waiting: {what}"
        time.sleep(0.005)


class Link:
    """A TCP proxy: what a network between two machines does, including breaking."""

    def __init__(self, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self._target, self._loop = port, loop
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0
        self.connections = 0
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), loop).result(TIMEOUT_S)

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    def cut(self) -> None:
        """Break what is open, and let nothing through."""
        self._is_cut = True
        self.break_once()

    def break_once(self) -> None:
        def abort() -> None:
            for each in self._writers:
                each.transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def freeze(self) -> None:
        """Nothing gets through and nothing ends, as on a dead cable."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def mend(self) -> None:
        self._is_cut = False
        self._loop.call_soon_threadsafe(self._flows.set)

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._server.close)


@dataclass
class TunnelControl:
    """A control plane without pods of its own."""

    app: Starlette
    port: int
    loop: asyncio.AbstractEventLoop
    identity: ClusterIdentity
    clients: list[TunnelClient] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    @property
    def plane(self) -> Plane:
        plane: Plane = self.app.state.plane
        return plane

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the control plane's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def link(self) -> Link:
        self.links.append(Link(self.port, self.loop))
        return self.links[-1]

    def join(
        self, pod_access: PodAccess, identity: ClusterIdentity | None = None, link: Link | None = None, **more: Any
    ) -> TunnelClient:
        """Connect a cluster, and wait until it is."""
        identity = identity or self.identity
        address = self.address if link is None else f"http://127.0.0.1:{link.port}"
        client = TunnelClient(address, identity.token, pod_access, first_pause_s=0.05, **more)
        self.clients.append(client)
        client.start()
        until(lambda: self.is_connected(identity.id), f"the tunnel is open: {client.error}")
        return client

    def is_connected(self, cluster: str) -> bool:
        async def look() -> bool:
            return cluster in self.plane.pod_access.tunnels.here()

        return self.call(look())

    def pods(self, cluster: str | None = None) -> PodAccess:
        return self.plane.pod_access.of(cluster or self.identity.id)


@contextmanager
def tunnel_control(data: Path, pod_access: PodAccess | None = None) -> Iterator[TunnelControl]:
    app = create_app(Settings(data=data, keep_alive_s=3600), pod_access=pod_access, hasher=CHEAP)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    until(lambda: server.started, "the server starts")
    port = server.servers[0].sockets[0].getsockname()[1]
    asyncio.run_coroutine_threadsafe(choose_password(app), loops[0]).result(TIMEOUT_S)
    identity = asyncio.run_coroutine_threadsafe(cluster_identity(app), loops[0]).result(TIMEOUT_S)
    control = TunnelControl(app, port, loops[0], identity)
    try:
        yield control
    finally:
        for client in control.clients:
            client.stop(TIMEOUT_S)
        for link in control.links:
            link.close()
        server.should_exit = server.force_exit = True
        thread.join(TIMEOUT_S)
