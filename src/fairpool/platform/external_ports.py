"""Listens on the external ports of workloads and passes connections on to their running pods, which take turns.

The ports are of the machine of the control plane, at the address of its API; pods of clusters elsewhere are reached
through their tunnels. What is listened to follows from the rows of workloads, so a restart finds the same.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from fairpool.control.external_ports import Pairs, has_own_services
from fairpool.control.plane import Plane
from fairpool.control.pod_access import PodAccessError, PortStream
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.tool_access import open_any
from fairpool.control.tool_routes import running_pods
from fairpool.control.workload_documents import declaration_of

log = logging.getLogger("fairpool.ports")

CONNECTIONS_MAX = 1000
"""At one time, over all ports: each is a connection to a pod, perhaps through a tunnel."""
READ_BYTES = 1 << 16
CHECK_S = 5.0
"""Between two attempts to listen on a port that another program has."""
SETTLE_S = 0.5
"""Commits in this time are looked at together."""


@dataclass(slots=True)
class ExternalRoute:
    """An external port."""

    workload: str
    port: int
    """Of the pods."""
    server: asyncio.Server | None = None
    turn: int = 0
    is_reported: bool = False
    """The log says that it cannot be listened on."""


class ExternalPorts:
    """The external ports of all workloads. For one event loop."""

    def __init__(self, plane: Plane, host: str) -> None:
        self._plane, self._host = plane, host
        self._routes: dict[int, ExternalRoute] = {}
        self._changed = asyncio.Event()
        self._connections = 0

    def is_free(self, port: int) -> bool:
        if port in self._routes:
            return False
        try:
            _bound(self._host, port).close()
        except OSError:
            return False
        return True

    def set_ports(self, workload: str, pairs: Pairs) -> None:
        wanted = dict(pairs)
        for external, route in list(self._routes.items()):
            if route.workload == workload and wanted.get(external) != route.port:
                self._close(external)
        for external, port in pairs:
            self._routes.setdefault(external, ExternalRoute(workload, port))
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled: listen on what is declared, and on nothing that is gone."""
        try:
            while True:
                with suppress(Unavailable):  # a database that does not answer: the ports stay as they are
                    await self._drop_gone()
                self._changed.clear()
                for external, route in list(self._routes.items()):
                    if route.server is None:
                        await self._listen(external, route)
                await self._wait()
        finally:
            for external in list(self._routes):
                self._close(external)

    async def load(self) -> None:
        """Find the ports of workloads that were declared before."""

        def unit(connection: Connection) -> list[Any]:
            rows = store.with_external_ports(connection)
            return [row for row in rows if not has_own_services(connection, row.cluster)]

        for row in await self._plane.read(unit):
            self.set_ports(row.id, declaration_of(row).external_ports)

    async def _wait(self) -> None:
        notifier = self._plane.notifier
        waiting: set[asyncio.Task[bool]] = {asyncio.create_task(self._changed.wait())}
        if self._routes:
            waiting.add(asyncio.create_task(notifier.wait(notifier.listen(), CHECK_S)))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        if not self._changed.is_set():
            await asyncio.sleep(SETTLE_S)

    async def _drop_gone(self) -> None:
        workloads = {route.workload for route in self._routes.values()}
        if not workloads:
            return

        def unit(connection: Connection) -> set[str]:
            rows = store.some(connection, sorted(workloads))
            return {each for each in workloads if each in rows and rows[each].deleted_at is None}

        there = await self._plane.read(unit)
        for external, route in list(self._routes.items()):
            if route.workload in workloads and route.workload not in there:
                self._close(external)

    async def _listen(self, external: int, route: ExternalRoute) -> None:
        try:
            listener = _bound(self._host, external)
        except OSError as error:
            if not route.is_reported:
                route.is_reported = True
                log.warning("external port %d of %s cannot be used: %s", external, route.workload, error.strerror)
            return

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(route, reader, writer)

        server = await asyncio.start_server(serve, sock=listener, limit=READ_BYTES)
        if self._routes.get(external) is not route:  # it was given back, or changed, meanwhile
            server.close()
            return
        route.server, route.is_reported = server, False

    def _close(self, external: int) -> None:
        route = self._routes.pop(external)
        if route.server is not None:
            route.server.close()

    async def _serve(self, route: ExternalRoute, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections += 1
        try:
            await self._pass_on(route, reader, writer)
        except (OSError, PodAccessError, Unavailable):  # no pod takes it, or either side is gone
            pass
        finally:
            self._connections -= 1
            writer.close()

    async def _pass_on(self, route: ExternalRoute, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        row = await self._plane.read(lambda connection: store.one(connection, route.workload))
        pods = running_pods(row) if row is not None else ()
        if not pods:
            return
        route.turn += 1
        first = route.turn % len(pods)
        stream = await open_any(self._plane, [*pods[first:], *pods[:first]], route.port)
        sending = asyncio.create_task(_send(reader, stream))
        try:
            while (data := await stream.receive()) is not None:
                writer.write(data)
                await writer.drain()
        finally:
            sending.cancel()
            await stream.close()


@asynccontextmanager
async def serving_external_ports(plane: Plane, host: str) -> AsyncIterator[None]:
    """Listen on the external ports of workloads, at this address."""
    ports = ExternalPorts(plane, host)
    await ports.load()
    plane.port_server = ports
    running = asyncio.create_task(ports.run(), name="external ports")
    try:
        yield
    finally:
        plane.port_server = None
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _send(reader: asyncio.StreamReader, stream: PortStream) -> None:
    try:
        while data := await reader.read(READ_BYTES):
            await stream.send(data)
        await stream.end()
    except OSError:  # the client is gone; the pod would wait for the rest without end
        await stream.close()


def _bound(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
