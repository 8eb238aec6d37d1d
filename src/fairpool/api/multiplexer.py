"""Multiplexer: many streams of bytes over one connection, each with its own flow control in both directions.

One side opens streams, the other accepts or refuses them. Every message of the connection is one frame: its kind, the
number of its stream, and data.

- `OPEN` (a request), answered by `ACCEPT`, or by `CLOSE` with the reason.
- `DATA` uses up credit of the sender. The receiver returns it with `CREDIT` when the data was consumed, as in HTTP/2: a
  slow reader holds up its own stream only, and no stream buffers more than a window.
- `END`: the sender has no more data. `CLOSE`: the stream is over in both directions; each side sends it once.

Streams take turns, one frame each. A frame that breaks these rules raises `ProtocolError`, and the connection is to be
closed. Nothing here does I/O: the owner of the connection passes messages in (`received`) and out (`send_all`).
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum

from fairpool.model.problem import Problem

FRAME_MAX_BYTES = 128 * 1024
"""Data of one frame."""
WINDOW_BYTES = 256 * 1024
"""Credit of a new stream, in each direction."""
FRAME_COST_BYTES = 64
"""Added to the size of each frame of data: a window of one-byte frames would otherwise take fifty times its size."""
RETURN_BYTES = 64 * 1024
"""Credit is returned in portions of this size. Sender and receiver never wait for each other, because a window without
an unreturned portion still holds the largest frame."""
STREAMS_MAX = 512
"""Open at one time on one connection."""
HEADER = struct.Struct("!BI")
CREDIT = struct.Struct("!I")
MESSAGE_MAX_BYTES = HEADER.size + FRAME_MAX_BYTES
TEXT_MAX = 2000
"""Characters of a reason that the other side gave."""


class FrameKind(IntEnum):
    """What a frame is for."""

    OPEN = 1
    ACCEPT = 2
    DATA = 3
    CREDIT = 4
    END = 5
    CLOSE = 6


_KINDS = frozenset(kind.value for kind in FrameKind)


class ProtocolError(Exception):
    """The other side broke the rules; the connection cannot be used any more."""


class StreamClosed(Exception):
    """The other side closed the stream before its end; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class ConnectionBroken(StreamClosed):
    """The connection is gone, and all its streams with it."""


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """One message of the connection."""

    kind: FrameKind
    stream: int
    data: bytes = b""

    def encode(self) -> bytes:
        return HEADER.pack(self.kind, self.stream) + self.data


def decode_frame(message: bytes) -> StreamFrame:
    """A message from the other side; raises `ProtocolError`."""
    if len(message) < HEADER.size:
        raise ProtocolError("a frame is shorter than its header")
    if len(message) > MESSAGE_MAX_BYTES:
        raise ProtocolError(f"a frame has more than {FRAME_MAX_BYTES} bytes of data")
    kind, stream = HEADER.unpack_from(message)
    if kind not in _KINDS:
        raise ProtocolError(f"there are no frames of kind {kind}")
    return StreamFrame(FrameKind(kind), stream, message[HEADER.size :])


class Stream:
    """One stream, from either side. One task may send and one may receive at a time."""

    def __init__(self, number: int, schedule: Callable[[Stream], None], *, is_accepted: bool) -> None:
        self.number = number
        self.on_closed: Callable[[], object] | None = None
        """Called once when the other side has closed the stream, or the connection broke."""
        self._schedule = schedule
        self._is_opener = not is_accepted
        self._is_accepted = is_accepted
        self._inbox: deque[bytes] = deque()
        self._outbox: deque[StreamFrame] = deque()
        self._credit = self._window = WINDOW_BYTES
        self._consumed = 0
        self._is_closed = self._is_ended = False
        """By this side."""
        self._is_over = self._peer_ended = False
        """Closed or ended by the other side."""
        self._failure: StreamClosed | None = None
        self._readable, self._writable = asyncio.Event(), asyncio.Event()

    # --- for the user of the stream ---

    def accept(self) -> None:
        """Answer the request to open it."""
        self.put(FrameKind.ACCEPT)

    async def accepted(self) -> None:
        """Wait for the answer of the other side; raises `StreamClosed`."""
        while not self._is_accepted:
            self._raise_failure()
            if self._is_over or self._is_closed:
                return  # refused without a reason
            await _changed(self._readable)

    async def send(self, data: bytes) -> None:
        """Send data as one frame, waiting for credit; raises `StreamClosed`."""
        assert 0 < len(data) <= FRAME_MAX_BYTES
        cost = len(data) + FRAME_COST_BYTES
        while True:
            self._raise_failure()
            if self._is_over or self._is_closed:
                raise StreamClosed(_CLOSED)
            if self._credit >= cost and not self._outbox:
                break
            await _changed(self._writable)
        self._credit -= cost
        self.put(FrameKind.DATA, data)

    async def send_pieces(self, data: bytes) -> None:
        """Send data in as many frames as it takes."""
        for start in range(0, len(data), FRAME_MAX_BYTES):
            await self.send(data[start : start + FRAME_MAX_BYTES])

    def end(self) -> None:
        """Nothing more is sent from here; data of the other side is still received."""
        if not self._is_ended and not self._is_closed and not self._is_over:
            self._is_ended = True
            self.put(FrameKind.END)

    async def receive(self) -> bytes | None:
        """The next data; None: the other side has ended. Raises `StreamClosed` after the last data."""
        while not self._inbox:
            if self._is_closed:
                return None
            self._raise_failure()
            if self._peer_ended or self._is_over:
                return None
            await _changed(self._readable)
        data = self._inbox.popleft()
        self._consumed += len(data) + FRAME_COST_BYTES
        if self._consumed >= RETURN_BYTES and not (self._is_over or self._is_closed):
            self.put(FrameKind.CREDIT, CREDIT.pack(self._consumed))
            self._window += self._consumed
            self._consumed = 0
        return data

    def close(self, problem: Problem | None = None) -> None:
        """End the stream. Without a problem the other side still gets what was sent. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._inbox.clear()
        if not self._is_over:
            self._put_close(problem)
        self._wake()

    @property
    def is_over(self) -> bool:
        """Whether the other side has closed it, or the connection broke. Data may still be waiting to be received."""
        return self._is_over

    # --- for the multiplexer ---

    @property
    def has_frames(self) -> bool:
        return bool(self._outbox)

    def put(self, kind: FrameKind, data: bytes = b"") -> None:
        self._outbox.append(StreamFrame(kind, self.number, data))
        self._schedule(self)

    def next_frame(self) -> bytes:
        frame = self._outbox.popleft()
        if not self._outbox:
            self._writable.set()
        return frame.encode()

    def take(self, frame: StreamFrame) -> bool:
        """A frame from the other side. True: the stream is over, and no frame may follow. Raises `ProtocolError`."""
        match frame.kind:
            case FrameKind.ACCEPT:
                self._take_accept()
            case FrameKind.DATA:
                self._take_data(frame.data)
            case FrameKind.CREDIT:
                self._take_credit(frame.data)
            case FrameKind.END:
                if self._peer_ended or not self._is_accepted:
                    raise self._broken_rule("ended twice or before it was accepted")
                self._peer_ended = True
                self._readable.set()
            case FrameKind.CLOSE:
                self._take_close(frame.data)
                return True
        return False

    def fail(self, problem: Problem) -> None:
        """The connection broke."""
        self._outbox.clear()
        self._finish(ConnectionBroken(problem))

    def _take_accept(self) -> None:
        if self._is_accepted or not self._is_opener:
            raise self._broken_rule("was accepted twice")
        self._is_accepted = True
        self._readable.set()

    def _take_data(self, data: bytes) -> None:
        if not data or self._peer_ended or not self._is_accepted:
            raise self._broken_rule("got data that is empty, after its end, or before it was accepted")
        self._window -= len(data) + FRAME_COST_BYTES
        if self._window < 0:
            raise self._broken_rule("got more data than it has credit for")
        if not self._is_closed:
            self._inbox.append(data)
            self._readable.set()

    def _take_credit(self, data: bytes) -> None:
        returned = CREDIT.unpack(data)[0] if len(data) == CREDIT.size else 0
        if not returned or self._credit + returned > WINDOW_BYTES:
            raise self._broken_rule("got credit that it had not used")
        self._credit += returned
        self._writable.set()

    def _take_close(self, data: bytes) -> None:
        if not self._is_closed:
            self._outbox.clear()
            self._put_close(None)
        problem = _problem_in(data)
        self._finish(StreamClosed(problem) if problem is not None else None)

    def _finish(self, failure: StreamClosed | None) -> None:
        if not self._is_over:
            self._is_over, self._failure = True, failure
            self._wake()
            if self.on_closed is not None and not self._is_closed:
                self.on_closed()

    def _broken_rule(self, what: str) -> ProtocolError:
        return ProtocolError(f"stream {self.number} {what}")

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _put_close(self, problem: Problem | None) -> None:
        if problem is not None:
            self._outbox.clear()
        self.put(FrameKind.CLOSE, b"" if problem is None else _problem_text(problem))

    def _wake(self) -> None:
        self._readable.set()
        self._writable.set()


_CLOSED = Problem("stream.closed", "the stream was closed", "try again")


class Multiplexer:
    """The streams of one connection, on one event loop."""

    def __init__(self, on_open: Callable[[Stream, bytes], None] | None = None) -> None:
        """`on_open` is called with each stream that the other side opens, and its request; None: it may open none."""
        self._on_open = on_open
        self._streams: dict[int, Stream] = {}
        self._highest = 0
        self._ready: dict[Stream, None] = {}
        """Streams with frames to send, in the order of their turns."""
        self._wake = asyncio.Event()
        self._has_ended = asyncio.Event()
        self.broken: Problem | None = None

    def open(self, request: bytes) -> Stream:
        """A new stream; raises `StreamClosed`."""
        if self.broken is not None:
            raise ConnectionBroken(self.broken)
        if len(self._streams) >= STREAMS_MAX:
            what = f"{STREAMS_MAX} logs, shells and transfers are open on this cluster"
            raise StreamClosed(Problem("tunnel.too_many", what, "close some, or try again later"))
        if len(request) > FRAME_MAX_BYTES:
            raise StreamClosed(Problem("tunnel.request_too_large", "the request is too large", "send a smaller one"))
        self._highest += 1
        stream = self._streams[self._highest] = Stream(self._highest, self._schedule, is_accepted=False)
        stream.put(FrameKind.OPEN, request)
        return stream

    def received(self, message: bytes) -> None:
        """A message of the other side; raises `ProtocolError`."""
        frame = decode_frame(message)
        if frame.kind is FrameKind.OPEN:
            self._opened(frame)
            return
        stream = self._streams.get(frame.stream)
        if stream is None:
            raise ProtocolError(f"there is no stream {frame.stream}")
        if stream.take(frame):
            del self._streams[frame.stream]

    async def send_all(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send frames as they come, until cancelled. `write` waits while the connection is busy."""
        while True:
            while self._ready:
                stream = next(iter(self._ready))
                del self._ready[stream]
                message = stream.next_frame()
                if stream.has_frames:
                    self._ready[stream] = None  # its next turn comes after those of the others
                await write(message)
            await _changed(self._wake)

    def break_off(self, problem: Problem) -> None:
        """The connection is gone."""
        if self.broken is None:
            self.broken = problem
            self._has_ended.set()
            streams, self._streams, self._ready = list(self._streams.values()), {}, {}
            for stream in streams:
                stream.fail(problem)

    async def ended(self) -> None:
        """Returns when the connection was broken off."""
        await self._has_ended.wait()

    def _opened(self, frame: StreamFrame) -> None:
        if self._on_open is None or frame.stream <= self._highest:
            raise ProtocolError(f"stream {frame.stream} may not be opened by this side, or was before")
        if len(self._streams) >= 2 * STREAMS_MAX:  # as many again may be waiting for their CLOSE
            raise ProtocolError("too many streams are open")
        self._highest = frame.stream
        stream = self._streams[frame.stream] = Stream(frame.stream, self._schedule, is_accepted=True)
        self._on_open(stream, frame.data)

    def _schedule(self, stream: Stream) -> None:
        if self.broken is None:
            self._ready.setdefault(stream, None)
            self._wake.set()


async def _changed(event: asyncio.Event) -> None:
    event.clear()
    await event.wait()


def _problem_text(problem: Problem) -> bytes:
    said = {name: getattr(problem, name)[:TEXT_MAX] for name in ("code", "what", "fix")}
    return json.dumps(said).encode()


def _problem_in(data: bytes) -> Problem | None:
    """The reason in a CLOSE; raises `ProtocolError`."""
    if not data:
        return None
    try:
        said = json.loads(data)
        code, what, fix = (said[name] for name in ("code", "what", "fix"))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ProtocolError("a stream was closed with an unreadable reason") from None
    if not all(isinstance(each, str) for each in (code, what, fix)):
        raise ProtocolError("a stream was closed with an unreadable reason")
    return Problem(code[:TEXT_MAX], what[:TEXT_MAX], fix[:TEXT_MAX])
