"""Connections between the processes of one control plane: each passes on streams to the clusters connected to it.

A process opens one connection for each cluster that another process holds, when it is first needed, and opens streams
on it as on a tunnel. The other end opens a stream of the tunnel for each and copies between the two, with the credit of
both, so that a slow reader holds up its own stream only. It knows its own tunnels and nothing else: what was passed on
once is never passed on again. The connection ends with the tunnel.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.http11 import Request, Response

from fairpool.api.multiplexer import MESSAGE_MAX_BYTES, Multiplexer, Stream, StreamClosed
from fairpool.api.tunnel import PING_S
from fairpool.control.plane import Plane
from fairpool.control.pod_access import PodAccessError
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.tunnel import Tunnels
from fairpool.control.tunnel_holders import TunnelHolders
from fairpool.model.problem import Problem
from fairpool.platform.address import Address, listening_socket
from fairpool.platform.data_directory import PlatformError
from fairpool.platform.peer_identity import tls_contexts
from fairpool.platform.stream_socket import carry_frames

log = logging.getLogger("fairpool.control")
_quiet = logging.getLogger("fairpool.peers")
_quiet.setLevel(logging.CRITICAL)  # of the library, which reports every connection and every refusal

PATH = "/tunnels/"
CONNECT_S = 2.0
NOT_AGAIN_S = 2.0
"""How long a process that could not be reached is not tried again: requests for its clusters are refused at once."""
CLOSE_S = 1.0
ANY_ADDRESS = ("0.0.0.0", "::")
FLAG = "--peer-listen"


@dataclass(frozen=True, slots=True)
class PeerPlace:
    """Where the other processes reach this one: its socket is bound."""

    listener: socket.socket
    address: Address


def bind_peers(listen: Address) -> PeerPlace:
    """Raises `PlatformError`."""
    if listen.host in ANY_ADDRESS:
        what = f"{FLAG} {listen.place} does not say where the other control planes reach this one"
        raise PlatformError(Problem("peers.any_address", what, f"name the machine's own address: {FLAG} 10.0.0.5:7443"))
    return PeerPlace(*listening_socket(listen, FLAG))


@asynccontextmanager
async def serving_peers(plane: Plane, place: PeerPlace) -> AsyncIterator[None]:
    """Pass streams on between this process and the others."""
    server_side, client_side = tls_contexts(plane.key_file.key())
    tunnels = plane.pod_access.tunnels
    holders = TunnelHolders(plane, place.address.place)
    others = PeerConnections(holders, client_side)
    async with peer_server(tunnels, place.listener, server_side):
        noting = asyncio.create_task(holders.run(), name="tunnel holders")
        tunnels.others = others
        try:
            yield
        finally:
            tunnels.others = None
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)
            await others.close()
            await holders.end()


# --- the end that holds the tunnel -----------------------------------------------------------------------------


@asynccontextmanager
async def peer_server(tunnels: Tunnels, listener: socket.socket, context: ssl.SSLContext) -> AsyncIterator[None]:
    """Listens for other processes."""
    async with serve(
        partial(_pass_on_all, tunnels),
        sock=listener,
        ssl=context,
        process_request=partial(_refuse_unless_here, tunnels),
        compression=None,
        max_size=MESSAGE_MAX_BYTES,
        ping_interval=PING_S,
        ping_timeout=PING_S,
        close_timeout=CLOSE_S,
        server_header=None,
        logger=_quiet,
    ):
        yield


def _refuse_unless_here(tunnels: Tunnels, connection: ServerConnection, request: Request) -> Response | None:
    if request.path.removeprefix(PATH) in tunnels.here():
        return None
    return connection.respond(HTTPStatus.NOT_FOUND, "the cluster is not connected here\n")


async def _pass_on_all(tunnels: Tunnels, link: ServerConnection) -> None:
    """The streams of one connection, until it ends or the tunnel does."""
    tunnel = tunnels.here().get(link.request.path.removeprefix(PATH)) if link.request is not None else None
    if tunnel is None:
        return
    tasks: set[asyncio.Task[None]] = set()

    def on_open(stream: Stream, request: bytes) -> None:
        task = asyncio.create_task(_pass_on(stream, tunnel, request))
        stream.on_closed = task.cancel
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    streams = Multiplexer(on_open)
    carrying = asyncio.create_task(carry_frames(link, streams))
    ended = asyncio.create_task(tunnel.ended())
    try:
        await asyncio.wait({carrying, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        streams.break_off(_LOST)
        leaving = [carrying, ended, *tasks]
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)


async def _pass_on(stream: Stream, tunnel: Multiplexer, request: bytes) -> None:
    """One stream of another process, as a stream of the tunnel."""
    try:
        inner = tunnel.open(request)
    except StreamClosed as error:
        stream.close(error.problem)
        return
    sending = asyncio.create_task(_copy(stream, inner))
    is_closed = asyncio.Event()
    inner.on_closed = is_closed.set
    problem: Problem | None = None
    try:
        await inner.accepted()
        stream.accept()
        await _copy(inner, stream)
        if not inner.is_over:  # one direction has ended; the other may go on
            await is_closed.wait()
        await inner.receive()  # raises why it was closed
    except StreamClosed as error:
        problem = error.problem
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        inner.close()
        stream.close(problem)


async def _copy(source: Stream, target: Stream) -> None:
    """All data of one direction, and its end. Raises `StreamClosed`."""
    while (data := await source.receive()) is not None:
        await target.send(data)
    if not source.is_over:
        target.end()


# --- the end that asks -----------------------------------------------------------------------------------------


class PeerConnections:
    """Connections to the processes that hold the tunnels of clusters, for one event loop."""

    def __init__(self, holders: TunnelHolders, context: ssl.SSLContext) -> None:
        self._holders, self._context = holders, context
        self._open: dict[str, Multiplexer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failed: dict[str, float] = {}

    async def connection(self, cluster: str) -> Multiplexer | None:
        """Raises `PodAccessError`."""
        async with self._locks[cluster]:
            found = self._open.get(cluster)
            if found is not None and found.broken is None:
                return found
            try:
                holder = (await self._holders.elsewhere()).get(cluster)
            except Unavailable as error:
                raise PodAccessError(error.problem) from error
            if holder is None or time.monotonic() - self._failed.get(holder[0], -NOT_AGAIN_S) < NOT_AGAIN_S:
                return None
            return await self._connected(cluster, *holder)

    async def clusters(self) -> list[str]:
        """Raises `Unavailable`."""
        return list(await self._holders.elsewhere())

    async def _connected(self, cluster: str, process: str, address: str) -> Multiplexer | None:
        try:
            link = await connect(
                f"wss://{address}{PATH}{cluster}",
                ssl=self._context,
                compression=None,
                max_size=MESSAGE_MAX_BYTES,
                open_timeout=CONNECT_S,
                ping_interval=PING_S,
                ping_timeout=PING_S,
                close_timeout=CLOSE_S,
                proxy=None,
                logger=_quiet,
            )
        except InvalidStatus:  # the process answers, and the cluster has left it
            return None
        except (OSError, TimeoutError, WebSocketException) as error:
            self._failed[process] = time.monotonic()
            fields = {"address": address, "reason": str(error) or type(error).__name__}
            log.warning("the control process that a cluster is connected to does not answer", extra={"fields": fields})
            return None
        streams = self._open[cluster] = Multiplexer()
        task = asyncio.create_task(self._carry(link, streams))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return streams

    async def _carry(self, link: Connection, streams: Multiplexer) -> None:
        try:
            await carry_frames(link, streams)
        finally:
            streams.break_off(_LOST)
            await link.close()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_LOST = Problem("tunnel.lost", "the connection to the cluster was lost", "try again when it is connected")
