"""Access to the pods of this machine for the control plane: logs, reports, shells, uploads.

The agent's calls block for a moment, so they are made in threads; output of shells is read when the event loop reports
it. Nothing is read ahead: a client that does not read slows down only its own shell.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, cast

from fairpool.agent.exec_client import AttachSession, ExecSession
from fairpool.agent.pod_log import LogChunk
from fairpool.agent.supervisor import Supervisor
from fairpool.api.shell import Channel, Frame, ended
from fairpool.control.pod_access import LogPiece, LogRange, PodAccessError, PodAddress, PortStream, ShellSession
from fairpool.model.ids import PodId
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload

T = TypeVar("T")

READ_BYTES = 65536
CHUNK_BYTES, PIECE_BYTES = 1 << 18, 1 << 16
"""Of a log: read at a time, and passed on at a time."""
READ_AGAIN_S, READ_RARELY_S = 0.05, 0.5
"""Between two reads of a log that is followed: often while output comes, less when none does."""
DRAIN_S = 0.1
"""How long silence must last after a command has ended: its children may still hold its output open."""
END_OF_INPUT = b"\x04"
"""What a terminal interprets as the end of input."""


class LocalPodAccess:
    """The pods of one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._threads = ThreadPoolExecutor(8, "pod-access")
        self._unpackers = ThreadPoolExecutor(1, "uploads")

    def close(self) -> None:
        self._unpackers.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        """What the pod wrote; raises `PodAccessError`."""
        stamped = wanted.timestamps
        offset = wanted.offset if wanted.tail is None and wanted.since is None else None
        chunk = await self._chunk(pod, offset=offset, tail_lines=wanted.tail, since_ms=wanted.since, timestamps=stamped)
        pause_s = READ_AGAIN_S
        expected = chunk.offset if offset is None else offset
        if chunk.dropped:
            yield LogPiece(rotated_away(chunk.dropped), chunk.offset)
        if not chunk.data and follow:
            yield LogPiece(b"", chunk.next_offset)  # where it is followed from
        while True:
            if chunk.data and chunk.offset > expected:
                yield LogPiece(_gap(chunk.offset - expected), chunk.offset)
            if chunk.data:
                pause_s = READ_AGAIN_S
                for data, following in chunk.parts(PIECE_BYTES):
                    yield LogPiece(data, following)
            elif not follow or chunk.is_complete:
                return
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, READ_RARELY_S)
            expected = chunk.next_offset
            chunk = await self._chunk(pod, offset=expected, timestamps=stamped)

    async def open_shell(self, pod: PodAddress, command: tuple[str, ...], tty: bool) -> ShellSession:
        """A process beside the pod's own, or with no command the pod's own; raises `PodAccessError`."""
        pod_id = PodId(pod.pod)
        if not command:
            attached = await self._in_thread(lambda: self._supervisor.attach(pod_id))
            if isinstance(attached, Problem):
                raise PodAccessError(attached)
            return AttachShell(attached, self._in_thread)
        begun = await self._in_thread(lambda: self._supervisor.execute(pod_id, command, tty=tty))
        if isinstance(begun, Problem):
            raise PodAccessError(begun)
        return ExecShell(begun, is_terminal=tty)

    async def open_port(self, pod: PodAddress, port: int) -> PortStream:
        """A connection to a port of the pod; raises `PodAccessError`."""
        connected = await self._in_thread(lambda: self._supervisor.connect(PodId(pod.pod), port))
        if isinstance(connected, Problem):
            raise PodAccessError(connected)
        return LocalPort(*await asyncio.open_connection(sock=connected, limit=READ_BYTES))

    async def reports(self, pod: PodAddress) -> Mapping[str, Any]:
        """What the job reports about itself; read only on request."""
        return await self._in_thread(lambda: self._supervisor.reports(PodId(pod.pod)))

    # --- uploads ---

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None:
        """Make room for an archive; raises `PodAccessError`."""
        problem = await self._in_thread(lambda: self._supervisor.uploads.begin(upload, total_bytes))
        if problem is not None:
            raise PodAccessError(problem)

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        """Write a piece of an archive; raises `PodAccessError`."""
        written = await self._in_thread(lambda: self._supervisor.uploads.write(upload_id, offset, piece))
        if isinstance(written, Problem):
            raise PodAccessError(written)
        return written

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        """Unpack it; raises `PodAccessError`. It may take a while, and others read logs meanwhile: one at a time."""
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(self._unpackers, lambda: self._supervisor.uploads.finish(upload_id, bounds))
        if isinstance(done, Problem):
            raise PodAccessError(done)
        return done

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return await self._in_thread(lambda: self._supervisor.uploads.claim(upload_id))

    async def uploads(self) -> list[Upload]:
        return await self._in_thread(self._supervisor.uploads.all)

    async def remove_upload(self, upload_id: str) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._unpackers, lambda: self._supervisor.uploads.remove(upload_id))

    async def remove_claim(self, project: str, name: str) -> None:
        """With its data; raises `PodAccessError`."""
        try:
            await self._in_thread(lambda: self._supervisor.remove_claim(project, name))
        except OSError as error:
            what = f"the data of claim {name} of project {project} cannot be removed ({error.strerror})"
            raise PodAccessError(Problem("claim.not_removed", what, "see the server's log")) from error

    async def set_aside_claims(self, project: str, kept_as: str) -> None:
        """Raises `PodAccessError`."""
        try:
            await self._in_thread(lambda: self._supervisor.state.set_aside_claims(project, kept_as))
        except OSError as error:
            what = f"the volume claims of an earlier project {project} cannot be set aside ({error.strerror})"
            raise PodAccessError(Problem("claim.not_set_aside", what, "try again, or choose another name")) from error

    async def _chunk(self, pod: PodAddress, **wanted: int | None) -> LogChunk:
        chunk = await self._in_thread(
            lambda: self._supervisor.read_log(PodId(pod.pod), limit_bytes=CHUNK_BYTES, **wanted)
        )
        if isinstance(chunk, Problem):
            raise PodAccessError(chunk)
        return chunk

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class ExecShell:
    """A command that runs beside a pod's program."""

    def __init__(self, session: ExecSession, *, is_terminal: bool) -> None:
        self._session, self._is_terminal = session, is_terminal
        self._channels = {session.stdout: Channel.OUTPUT}
        if session.stderr is not None:
            self._channels[session.stderr] = Channel.ERRORS
        for descriptor in {session.stdin, *self._channels}:
            os.set_blocking(descriptor, False)
        self._has_ended = self._is_over = self._is_closed = False

    async def send(self, frame: Frame) -> None:
        match frame.channel:
            case Channel.INPUT:
                await self._type(frame.data)
            case Channel.SIZE if self._is_terminal and not self._is_closed:
                rows, columns = _size(frame.data)
                self._session.resize(rows, columns)
            case Channel.CLOSE if self._is_terminal:
                await self._type(END_OF_INPUT)
            case Channel.CLOSE:
                self._session.end_input()

    async def receive(self) -> Frame | None:
        if self._is_over or self._is_closed:
            return None
        while self._channels or not self._has_ended:
            watched = [*self._channels, *([] if self._has_ended else [self._session.fileno()])]
            ready = await _first_readable(watched, DRAIN_S if self._has_ended else None)
            if ready is None:
                break
            if ready not in self._channels:
                self._has_ended = True
                continue
            data = _read(ready)
            if data:
                return Frame(self._channels[ready], data)
            if data is not None:
                del self._channels[ready]
        self._is_over = True
        code = self._session.wait(DRAIN_S)
        return ended(code, "" if code is not None else "the pod ended")

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._session.close()

    async def _type(self, data: bytes) -> None:
        while data and self._session.stdin >= 0 and not self._is_closed:
            try:
                data = data[os.write(self._session.stdin, data) :]
            except BlockingIOError:
                await _writable(self._session.stdin)
            except OSError:
                return  # it has closed its input


class AttachShell:
    """The program of a pod itself. Detaching does not end it."""

    def __init__(self, session: AttachSession, in_thread: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self._session, self._in_thread = session, in_thread
        self._is_over = self._is_closed = False

    async def send(self, frame: Frame) -> None:
        session = self._session
        with suppress(OSError):
            match frame.channel:
                case Channel.INPUT:
                    # A program that does not read its input blocks only this session.
                    await self._in_thread(lambda: session.write(frame.data))
                case Channel.SIZE:
                    session.resize(*_size(frame.data))
                case Channel.CLOSE:
                    session.end_input()

    async def receive(self) -> Frame | None:
        while not self._is_over and not self._is_closed:
            await _first_readable([self._session.fileno()], None)
            data = self._session.read(DRAIN_S)
            if data:
                return Frame(Channel.OUTPUT, data)
            if data is not None:
                self._is_over = True
                return ended(None, "the program has ended")
        return None

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._session.close()


class LocalPort:
    """A connection to a port of a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        with suppress(OSError):  # the program has closed it; `receive` reports that
            self._writer.write(data)
            await self._writer.drain()

    async def end(self) -> None:
        with suppress(OSError, RuntimeError):
            self._writer.write_eof()

    async def receive(self) -> bytes | None:
        try:
            return await self._reader.read(READ_BYTES) or None
        except OSError:
            return None

    async def close(self) -> None:
        self._writer.close()

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Leave the connection to a protocol, before anything was sent. This object must be kept as long."""
        transport = cast(asyncio.Transport, self._writer.transport)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return transport


def rotated_away(dropped: int) -> bytes:
    """Before the last lines of a log whose beginning is gone."""
    return f"[fairpool: {dropped} bytes of earlier output were rotated away]\n".encode()


def _gap(missing: int) -> bytes:
    """In place of output that was rotated away before it was read: a log with a gap must not look complete."""
    return f"\n[fairpool: {missing} bytes of output were rotated away]\n".encode()


def _size(data: bytes) -> tuple[int, int]:
    """Rows and columns; invalid values are replaced by something a terminal accepts."""
    try:
        size = json.loads(data)
        rows, columns = int(size["rows"]), int(size["columns"])
    except (ValueError, LookupError, TypeError):
        return 24, 80
    return max(1, min(rows, 65535)), max(1, min(columns, 65535))


def _read(descriptor: int) -> bytes | None:
    """What can be read; empty at the end, None if there is nothing yet."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:  # a terminal whose other side is closed
        return b""


async def _first_readable(descriptors: list[int], timeout_s: float | None) -> int | None:
    """The first in this order that can be read; None: none in time."""
    loop = asyncio.get_running_loop()
    ready: set[int] = set()
    rung = asyncio.Event()

    def ring(descriptor: int) -> None:
        ready.add(descriptor)
        rung.set()

    for descriptor in descriptors:
        loop.add_reader(descriptor, ring, descriptor)
    try:
        async with asyncio.timeout(timeout_s):
            await rung.wait()
    except TimeoutError:
        return None
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
    return next(each for each in descriptors if each in ready)


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    free = asyncio.Event()
    loop.add_writer(descriptor, free.set)
    try:
        await free.wait()
    finally:
        loop.remove_writer(descriptor)
