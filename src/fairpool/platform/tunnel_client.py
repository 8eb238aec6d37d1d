"""The cluster's side of the tunnel: keeps one connection to the control plane open, and answers what comes through it.

The connection is opened from here, with the cluster's token, and opened again whenever it breaks, after a pause that
grows to half a minute. Each stream is served by a task of its own, which is cancelled when the stream is closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from fairpool.api import tunnel as wire
from fairpool.api.limits import PIECE_MAX_BYTES
from fairpool.api.loopback import JobListens, job_at
from fairpool.api.multiplexer import MESSAGE_MAX_BYTES, Multiplexer, Stream, StreamClosed
from fairpool.api.shell import Frame
from fairpool.api.shell import decode_shell_frame as decode_shell
from fairpool.control.pod_access import (
    Answering,
    LogRange,
    PodAccess,
    PodAccessError,
    PodAddress,
    PortStream,
    ShellSession,
)
from fairpool.model.ids import Instant
from fairpool.model.problem import Problem
from fairpool.platform.stream_socket import carry_frames

log = logging.getLogger("fairpool.cluster")

CONNECT_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STABLE_S = 10.0
"""A connection that lasted so long makes the next pause short again."""
SCHEMES = {"http": "ws", "https": "wss"}
QUESTIONS_MAX = 8


class TunnelEnd:
    """What is behind this end of the tunnel."""

    def __init__(self, pod_access: PodAccess, questions: Answering | None) -> None:
        self.pod_access, self._questions = pod_access, questions
        self._thread = ThreadPoolExecutor(1, "questions")
        self._asking = 0

    async def ask(self, question: bytes) -> bytes:
        """Raises `PodAccessError`. One question at a time, in a thread of its own; few may wait."""
        if self._questions is None:
            raise PodAccessError(_NO_QUESTIONS)
        if self._asking >= QUESTIONS_MAX:
            raise PodAccessError(_BUSY)
        self._asking += 1
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._thread, self._questions.answer, question)
        finally:
            self._asking -= 1
        if isinstance(answer, Problem):
            raise PodAccessError(answer)
        return answer

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


_NO_QUESTIONS = Problem("question.unknown", "this cluster answers no questions", "run `fairpool plan` on a snapshot")
_BUSY = Problem("cluster.busy", "too many questions are waiting for an answer", "try again in a few seconds")


class TunnelClient:
    """The tunnel of one cluster, in a thread of its own."""

    def __init__(
        self,
        address: str,
        token: str,
        pod_access: PodAccess,
        questions: Answering | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
        on_end: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """`address` is the URL of the control plane; `pod_access` is used on the event loop of this thread only, and
        `on_end` is called there at last."""
        self._on_end = on_end
        self._address, self._token = address, token
        self._machine = TunnelEnd(pod_access, questions)
        self._ssl, self._first_pause_s = ssl_context, first_pause_s
        self.error = "not connected yet"
        """Why there is no connection; empty while there is one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._due = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="tunnel", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Close the connection and its streams; returns whether the thread has ended."""
        self._is_stopping = True
        loop, running = self._loop, self._running
        if loop is not None and running is not None and not loop.is_closed():
            loop.call_soon_threadsafe(running.cancel)
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def connect_soon(self) -> None:
        """The control plane was reached in another way: the next try need not wait as long as planned."""
        loop = self._loop
        if not self.is_connected and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._due.set)

    @property
    def is_connected(self) -> bool:
        return not self.error

    async def run(self) -> None:
        """Keep the connection open until cancelled."""
        pause_s = self._first_pause_s
        while not self._is_stopping:
            began = time.monotonic()
            error = await self._connected()
            if error != self.error:
                log.warning("the tunnel to the control plane is closed: %s", error)
            self.error = error
            if time.monotonic() - began >= STABLE_S:
                pause_s = self._first_pause_s
            pause_s = await self._pause(pause_s)

    async def _pause(self, pause_s: float) -> float:
        """Wait for the next try; returns how long to wait for the one after that. At random, so that the clusters of a
        control plane that was restarted do not come all at once."""
        self._due.clear()
        try:
            await asyncio.wait_for(self._due.wait(), random.uniform(pause_s / 2, pause_s))
        except TimeoutError:
            return min(2 * pause_s, LONGEST_PAUSE_S)
        return self._first_pause_s

    async def _main(self) -> None:
        self._loop, self._running = asyncio.get_running_loop(), asyncio.current_task()
        if self._is_stopping:
            return
        try:
            await self.run()
        except asyncio.CancelledError:
            return
        finally:
            self._machine.close()
            if self._on_end is not None:
                await self._on_end()

    async def _connected(self) -> str:
        """One connection, from beginning to end; returns why it ended."""
        uid = await asyncio.to_thread(job_at, self._address)
        if uid is not None:
            return str(JobListens(self._address, uid))
        try:
            async with connect(
                tunnel_address(self._address),
                additional_headers={"Authorization": f"Bearer {self._token}"},
                subprotocols=[Subprotocol(each) for each in wire.SUBPROTOCOLS],
                ssl=self._ssl,
                compression=None,
                max_size=MESSAGE_MAX_BYTES,
                open_timeout=CONNECT_S,
                ping_interval=wire.PING_S,
                ping_timeout=wire.PING_S,
                close_timeout=1.0,
            ) as socket:
                self.error = ""
                log.info("tunnel connected", extra={"fields": {"control": self._address}})
                return await serve_connection(socket, self._machine)
        except InvalidStatus as error:
            said = bytes(error.response.body or b"").decode(errors="replace")[:500]
            return f"the control plane refused the tunnel ({error.response.status_code}): {said}".strip()
        except (InvalidHandshake, InvalidURI) as error:
            return f"{self._address} is not a Fairpool control plane: {error}"
        except (OSError, TimeoutError, WebSocketException) as error:
            return f"{self._address} does not answer: {str(error) or type(error).__name__}"


def tunnel_address(address: str) -> str:
    """The address of the tunnel of a control plane."""
    parts = urlsplit(address)
    path = parts.path.rstrip("/") + wire.PATH
    return urlunsplit((SCHEMES.get(parts.scheme, parts.scheme), parts.netloc, path, "", ""))


async def serve_connection(socket: ClientConnection, machine: TunnelEnd) -> str:
    """Answer what comes through one connection until it ends; returns why it ended."""
    tasks: set[asyncio.Task[None]] = set()

    def on_open(stream: Stream, request: bytes) -> None:
        task = asyncio.create_task(_serve(stream, request, machine))
        stream.on_closed = task.cancel
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    connection = Multiplexer(on_open)
    try:
        return await carry_frames(socket, connection)
    finally:
        connection.break_off(_LOST)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_LOST = Problem("tunnel.lost", "the connection to the control plane was lost", "")
_BUG = Problem("tunnel.failed", "the cluster failed to answer", "see the log of the cluster")


async def _serve(stream: Stream, data: bytes, machine: TunnelEnd) -> None:
    """One stream, from its request to its end."""
    request = wire.read_request(data)
    if isinstance(request, Problem):
        stream.close(request)
        return
    try:
        await _answer(stream, request, machine)
    except PodAccessError as error:
        stream.close(error.problem)
    except StreamClosed:
        stream.close()
    except Exception:
        log.exception("could not answer a request of the control plane")
        stream.close(_BUG)
    else:
        stream.close()


async def _answer(stream: Stream, request: wire.TunnelRequest, machine: TunnelEnd) -> None:
    pod_access = machine.pod_access
    match request:
        case wire.ReadLog():
            await _send_log(stream, request, pod_access)
        case wire.OpenShell():
            shell = await pod_access.open_shell(_address(request.pod), request.command, request.tty)
            await _join(stream, shell, lambda: _shell_input(stream, shell), lambda: _shell_output(stream, shell))
        case wire.OpenPort():
            port = await pod_access.open_port(_address(request.pod), request.port)
            await _join(stream, port, lambda: _port_input(stream, port), lambda: _port_output(stream, port))
        case wire.Ask():
            stream.accept()
            await stream.send_pieces(await machine.ask(await _body(stream)))
        case _:
            stream.accept()
            body = await _body(stream)
            await stream.send_pieces(wire.answer_text(await _one_answer(request, body, pod_access)))


async def _one_answer(request: wire.TunnelRequest, body: bytes, pod_access: PodAccess) -> Any:
    match request:
        case wire.ReadReports():
            return dict(await pod_access.reports(_address(request.pod)))
        case wire.BeginUpload():
            return await pod_access.begin_upload(request.upload.to_model(), request.total_bytes)
        case wire.WriteUpload():
            return await pod_access.write_upload(request.upload_id, request.offset, body)
        case wire.FinishUpload():
            done = await pod_access.finish_upload(request.upload_id, request.bounds.to_model())
            return wire.UploadWire.of(done)
        case wire.ClaimUpload():
            found = await pod_access.claim_upload(request.upload_id)
            return [] if found is None else [wire.UploadWire.of(found)]
        case wire.ListUploads():
            return [wire.UploadWire.of(each) for each in await pod_access.uploads()]
        case wire.RemoveUpload():
            return await pod_access.remove_upload(request.upload_id)
        case wire.SetAsideClaims():
            return await pod_access.set_aside_claims(request.project, request.kept_as)
        case wire.RemoveClaim():
            return await pod_access.remove_claim(request.project, request.name)
    raise AssertionError(f"{request.kind} has no single answer")


async def _body(stream: Stream) -> bytes:
    """What follows a request."""
    parts: list[bytes] = []
    size = 0
    while (data := await stream.receive()) is not None:
        size += len(data)
        if size > PIECE_MAX_BYTES:
            raise PodAccessError(Problem("tunnel.too_large", "the request is too large", "send smaller pieces"))
        parts.append(data)
    return b"".join(parts)


async def _send_log(stream: Stream, request: wire.ReadLog, pod_access: PodAccess) -> None:
    since = None if request.since is None else Instant(request.since)
    wanted = LogRange(request.offset, request.tail, since, request.timestamps)
    pieces = pod_access.read_log(_address(request.pod), wanted, follow=request.follow)
    stream.accept()
    try:
        async for piece in pieces:
            await stream.send(wire.log_message(piece.next_offset, piece.data))
    finally:
        await pieces.aclose()


async def _join(
    stream: Stream,
    end: ShellSession | PortStream,
    inwards: Callable[[], Coroutine[Any, Any, None]],
    outwards: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Pass data both ways until the pod has ended its side."""
    stream.accept()
    into = asyncio.create_task(inwards())
    try:
        await outwards()
    finally:
        into.cancel()
        await asyncio.gather(into, return_exceptions=True)
        await end.close()


async def _shell_input(stream: Stream, shell: ShellSession) -> None:
    while (message := await stream.receive()) is not None:
        frame = decode_shell(message)
        if isinstance(frame, Frame):
            await shell.send(frame)


async def _shell_output(stream: Stream, shell: ShellSession) -> None:
    while (frame := await shell.receive()) is not None:
        await stream.send(frame.encode())


async def _port_input(stream: Stream, port: PortStream) -> None:
    while (data := await stream.receive()) is not None:
        await port.send(data)
    await port.end()


async def _port_output(stream: Stream, port: PortStream) -> None:
    while (data := await port.receive()) is not None:
        await stream.send_pieces(data)


def _address(pod: wire.PodWire) -> PodAddress:
    return PodAddress(pod.cluster, pod.pod, pod.node, pod.workload)
