"""Tunnels: access to the pods of clusters elsewhere, over the connection that each cluster keeps open.

A cluster answers only on streams that were opened to it, and streams are opened for its own pods, so that no cluster
can speak for another. If the connection breaks, shells and ports end with a message; a log is read on from the offset
it had reached as soon as the cluster is connected again.

Of several control processes, one holds a cluster's tunnel; the others open their streams through it (`OtherProcesses`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import NoneType
from typing import Any, Protocol, TypeVar

from fairpool.api import tunnel as wire
from fairpool.api.multiplexer import FRAME_MAX_BYTES, ConnectionBroken, Multiplexer, Stream, StreamClosed
from fairpool.api.shell import Channel, Frame, decode_shell_frame, ended
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, PortStream, ShellSession
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload

T = TypeVar("T")

RECONNECT_S = 600.0
"""How long a reader of a log waits for a cluster whose connection broke."""
LOOK_AGAIN_S = 2.0
"""Between two looks whether a cluster has connected to another process, where no announcement came."""
OPEN_S = 10.0
ANSWER_S = 10.0
REPORTS_S = 2.0
"""Metrics are shown beside pods; a list of pods does not wait long for them."""
UNPACK_S = 600.0
FROM_POD = frozenset({Channel.OUTPUT, Channel.ERRORS, Channel.ENDED})


class OtherProcesses(Protocol):
    """Control processes that share the database: a cluster may have its tunnel to one of them."""

    async def connection(self, cluster: str) -> Multiplexer | None:
        """A connection through which the process that holds the cluster's tunnel passes streams on; None: none does.

        Raises `PodAccessError`."""

    async def clusters(self) -> list[str]:
        """Those whose tunnels are held by other processes. Raises `Unavailable`."""


class Tunnels:
    """The connected clusters, by id."""

    def __init__(self) -> None:
        self._connections: dict[str, Multiplexer] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self.others: OtherProcesses | None = None
        """None: this process is the only one."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a cluster has connected to this process or left it."""

    def join(self, cluster: str, connection: Multiplexer) -> None:
        """Use this connection for the cluster; one that it had before is given up."""
        before = self._connections.get(cluster)
        self._connections[cluster] = connection
        if before is not None:
            before.break_off(REPLACED)
        self.on_change()
        self.look_again()

    def leave(self, cluster: str, connection: Multiplexer) -> None:
        if self._connections.get(cluster) is connection:
            del self._connections[cluster]
            self.on_change()

    def look_again(self) -> None:
        """A cluster may have connected, here or at another process: those who wait for one look again."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def here(self) -> dict[str, Multiplexer]:
        """The tunnels that this process holds, by cluster."""
        return {cluster: each for cluster, each in self._connections.items() if each.broken is None}

    async def clusters(self) -> list[str]:
        """All that are connected, to whichever process. Raises `Unavailable`."""
        elsewhere = await self.others.clusters() if self.others is not None else []
        return sorted({*self._connections, *elsewhere})

    async def connection(self, cluster: str) -> Multiplexer:
        """Raises `PodAccessError`."""
        found = self._connections.get(cluster)
        if (found is None or found.broken is not None) and self.others is not None:
            found = await self.others.connection(cluster)
        if found is None or found.broken is not None:
            raise PodAccessError(AWAY)
        return found

    async def wait(self, cluster: str, timeout_s: float) -> None:
        """Until the cluster is connected; raises `PodAccessError` if it is not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    waiting = asyncio.get_running_loop().create_future()
                    self._waiting.add(waiting)
                    try:
                        await self.connection(cluster)
                        return
                    except PodAccessError:
                        await asyncio.wait({waiting}, timeout=LOOK_AGAIN_S if self.others is not None else None)
                    finally:
                        self._waiting.discard(waiting)
        except TimeoutError:
            raise PodAccessError(AWAY) from None


AWAY = Problem("cluster.away", "the cluster is away", "try again when it is connected; running pods are not affected")
REPLACED = Problem("tunnel.replaced", "the cluster has connected again", "try again")
_SILENT = Problem("cluster.silent", "the cluster does not answer", "try again")
_MISLEADING = Problem("tunnel.answer", "the cluster sent data of the wrong form", "run the same release on both sides")


class TunnelPodAccess:
    """The pods and uploads of one cluster."""

    def __init__(self, tunnels: Tunnels, cluster: str) -> None:
        self._tunnels, self._cluster = tunnels, cluster

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        """The log of a pod, also across broken connections; raises `PodAccessError`."""
        at = wanted
        while True:
            request = wire.ReadLog(
                pod=_pod(pod),
                offset=at.offset,
                tail=at.tail,
                since=at.since,
                timestamps=at.timestamps,
                follow=follow,
            )
            try:
                async with self._stream(request) as stream:
                    while (message := await stream.receive()) is not None:
                        piece = _log_piece(message)
                        at = LogRange(piece.next_offset, timestamps=wanted.timestamps)
                        yield piece
                return
            except ConnectionBroken:
                await self._tunnels.wait(self._cluster, RECONNECT_S)
            except StreamClosed as error:
                raise PodAccessError(error.problem) from error

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        """Raises `PodAccessError`."""
        return TunnelShell(await self._opened(wire.OpenShell(pod=_pod(pod), command=command, tty=tty)))

    async def open_port(self, pod: PodAddress, port: int) -> PortStream:
        """Raises `PodAccessError`."""
        return TunnelPort(await self._opened(wire.OpenPort(pod=_pod(pod), port=port)))

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        """Empty if the cluster is away."""
        try:
            return await self._ask(dict[str, Any], wire.ReadReports(pod=_pod(pod)), timeout_s=REPORTS_S)
        except PodAccessError:
            return {}

    # --- uploads ---

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        """Raises `PodAccessError`."""
        await self._ask(NoneType, wire.BeginUpload(upload=wire.UploadWire.of(upload), total_bytes=total_bytes))

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        """Raises `PodAccessError`."""
        return await self._ask(int, wire.WriteUpload(upload_id=upload_id, offset=offset), piece)

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        """Raises `PodAccessError`."""
        request = wire.FinishUpload(upload_id=upload_id, bounds=wire.BoundsWire.of(bounds))
        done: Upload = (await self._ask(wire.UploadWire, request, timeout_s=UNPACK_S)).to_model()
        return done

    async def claim_upload(self, upload_id: str) -> Upload | None:
        """Raises `PodAccessError`."""
        found = await self._ask(list[wire.UploadWire], wire.ClaimUpload(upload_id=upload_id))
        return found[0].to_model() if found else None

    async def uploads(self) -> list[Upload]:
        """Raises `PodAccessError`."""
        return [each.to_model() for each in await self._ask(list[wire.UploadWire], wire.ListUploads())]

    async def remove_upload(self, upload_id: str) -> None:
        """Raises `PodAccessError`."""
        await self._ask(NoneType, wire.RemoveUpload(upload_id=upload_id), timeout_s=UNPACK_S)

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        """Raises `PodAccessError`. A cluster that has just started may still be connecting."""
        await self._tunnels.wait(self._cluster, OPEN_S)
        await self._ask(NoneType, wire.SetAsideClaims(project=project, kept_as=kept_as))

    async def remove_claim(self, project: str, name: str) -> None:
        """Raises `PodAccessError`."""
        await self._ask(NoneType, wire.RemoveClaim(project=project, name=name))

    async def ask(self, question: bytes) -> AsyncGenerator[bytes]:
        """The answer to a question about the scheduler, in pieces; raises `PodAccessError`."""
        stream = await self._open(wire.Ask())
        try:
            await stream.send_pieces(question)
            stream.end()
            while (data := await stream.receive()) is not None:
                yield data
        except StreamClosed as error:
            raise PodAccessError(error.problem) from error
        finally:
            stream.close()

    # --- streams ---

    @asynccontextmanager
    async def _stream(self, request: wire.TunnelRequest) -> AsyncIterator[Stream]:
        stream = (await self._tunnels.connection(self._cluster)).open(request.to_json().encode())
        try:
            yield stream
        finally:
            stream.close()

    async def _opened(self, request: wire.TunnelRequest) -> Stream:
        """A stream that the cluster has accepted."""
        stream = await self._open(request)
        try:
            async with asyncio.timeout(OPEN_S):
                await stream.accepted()
        except TimeoutError:
            stream.close()
            raise PodAccessError(_SILENT) from None
        except StreamClosed as error:
            raise PodAccessError(error.problem) from error
        except BaseException:
            stream.close()
            raise
        return stream

    async def _open(self, request: wire.TunnelRequest) -> Stream:
        try:
            return (await self._tunnels.connection(self._cluster)).open(request.to_json().encode())
        except StreamClosed as error:
            raise PodAccessError(error.problem) from error

    async def _ask(
        self, kind: type[T], request: wire.TunnelRequest, body: bytes = b"", timeout_s: float = ANSWER_S
    ) -> T:
        """One request with one answer, of this type."""
        stream = await self._open(request)
        try:
            async with asyncio.timeout(timeout_s):
                await stream.send_pieces(body)
                stream.end()
                data = await _whole(stream, wire.ANSWER_MAX_BYTES)
        except TimeoutError:
            raise PodAccessError(_SILENT) from None
        except StreamClosed as error:
            raise PodAccessError(error.problem) from error
        finally:
            stream.close()
        answer = wire.read_answer(kind, data)
        if isinstance(answer, Problem):
            raise PodAccessError(answer)
        return answer


class TunnelShell:
    """A shell in a cluster elsewhere."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._is_over = False

    async def send(self, frame: Frame) -> None:
        """Input of any size; other frames are small."""
        pieces = [frame.data[start : start + INPUT_BYTES] for start in range(0, len(frame.data), INPUT_BYTES)]
        try:
            for piece in pieces or [b""]:
                await self._stream.send(Frame(frame.channel, piece).encode())
        except StreamClosed:
            return  # `receive` reports it

    async def receive(self) -> Frame | None:
        if self._is_over:
            return None
        try:
            message = await self._stream.receive()
        except StreamClosed as error:
            self._is_over = True
            return ended(None, f"the connection to the pod broke: {error.problem}")
        if message is None:
            return None
        frame = decode_shell_frame(message)
        if isinstance(frame, Problem) or frame.channel not in FROM_POD:
            self._is_over = True
            self._stream.close(_MISLEADING)
            return ended(None, str(_MISLEADING))
        return frame

    async def close(self) -> None:
        self._stream.close()


INPUT_BYTES = FRAME_MAX_BYTES // 2


class TunnelPort:
    """A connection to a port of a pod in a cluster elsewhere."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_pieces(data)
        except StreamClosed:
            return  # `receive` reports it

    async def end(self) -> None:
        self._stream.end()

    async def receive(self) -> bytes | None:
        try:
            return await self._stream.receive()
        except StreamClosed:
            return None

    async def close(self) -> None:
        self._stream.close()


async def _whole(stream: Stream, most: int) -> bytes:
    """All data of a stream."""
    parts: list[bytes] = []
    size = 0
    while (data := await stream.receive()) is not None:
        size += len(data)
        if size > most:
            raise StreamClosed(_MISLEADING)
        parts.append(data)
    return b"".join(parts)


def _log_piece(message: bytes) -> LogPiece:
    piece = wire.log_piece_in(message)
    if isinstance(piece, Problem):
        raise StreamClosed(piece)
    return LogPiece(piece[1], piece[0])


def _pod(pod: PodAddress) -> wire.PodWire:
    return wire.PodWire(cluster=pod.cluster, pod=pod.pod, node=pod.node, workload=pod.workload)
