"""Calls to a server from one thread: as fast as so many connections can, or at given moments; and streams beside them.

What a request costs here is about 15 us, a tenth of what the emptiest answer costs a server in Python, so one process
can keep one busy. Requests are made beforehand as bytes; of an answer only status and length are read.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

CHUNK = 1 << 18
STALE_S = 45.0
"""A connection that was idle for so long is made anew: servers end idle ones, and ours after 75 s."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and how we show who we are."""

    host: str
    port: int
    token: str

    def request(self, method: str, path: str, body: bytes = b"", key: str = "") -> bytes:
        """One request as it goes over the wire."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}"]
        lines += [f"Authorization: Bearer {self.token}"]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if key:
            lines += [f"Idempotency-Key: {key}"]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        return connection


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, and the status that is right."""

    kind: str
    request: bytes
    status: int = 200
    at: float = 0.0
    """When it is due, in seconds from the beginning; only where there is a timetable."""


@dataclass(slots=True)
class Heard:
    """What came back."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    began: float = 0.0
    """From when `Ask.at` is counted."""
    took_s: float = 0.0
    bytes_read: int = 0
    bodies: list[bytes] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.latencies.values()))

    def all_latencies(self) -> list[float]:
        return [each for kind in self.latencies.values() for each in kind]


class _Caller:
    """One connection, with at most one request under way."""

    __slots__ = ("asked", "asked_at", "buffer", "socket", "used_at", "whole")

    def __init__(self, address: Address) -> None:
        self.socket = address.connect()
        self.buffer = b""
        self.whole = 0
        self.asked: Ask | None = None
        self.asked_at = 0.0
        self.used_at = time.perf_counter()

    def ask(self, ask: Ask, at: float) -> None:
        self.asked, self.asked_at = ask, at
        sent = self.socket.send(ask.request)
        assert sent == len(ask.request), "a request of ours fits into the buffer of a socket"

    def answer(self) -> tuple[int, bytes] | None:
        """Status and body once all of it is here."""
        piece = self.socket.recv(CHUNK)
        if not piece:
            raise ConnectionError("the server hung up")
        self.buffer += piece
        if not self.whole:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = self.buffer[:end].lower()
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self.whole = end + 4 + int(length or b"0")
        if len(self.buffer) < self.whole:
            return None
        whole, self.buffer, self.whole = self.buffer, b"", 0
        return int(whole[9:12]), whole[whole.find(b"\r\n\r\n") + 4 :]


class Stream:
    """A stream of changes that stays open. What wraps its pieces on the wire stands between events and is left out."""

    def __init__(self, address: Address, hear: Callable[[bytes, float], None] | None = None) -> None:
        self.socket = address.connect()
        self.socket.send(address.request("GET", "/api/v1/changes"))
        self.events = 0
        self._hear = hear
        self._rest = b""
        self._in_body = False

    def read(self) -> int:
        """Take in what has come; how many bytes."""
        piece = self.socket.recv(CHUNK)
        if not piece:
            raise ConnectionError("the server ended a stream")
        text = self._rest + piece
        if not self._in_body:
            head, mark, text = text.partition(b"\r\n\r\n")
            if not mark:
                self._rest = head
                return len(piece)
            assert b" 200 " in head.partition(b"\r\n")[0], head.decode()
            self._in_body = True
        *events, self._rest = text.split(b"\n\n")
        now = time.perf_counter()
        for event in events:
            self.events += b"\nevent: " in event
            if self._hear is not None:
                self._hear(event, now)
        return len(piece)

    @property
    def is_open(self) -> bool:
        return self._in_body


class Load:
    """Connections and streams to one server, and what is heard on them."""

    def __init__(self, address: Address, connections: int, streams: Sequence[Stream] = (), keep: bool = False) -> None:
        self.heard = Heard()
        self._address, self._keep = address, keep
        self._poll = select.epoll()
        self._callers = {each.socket.fileno(): each for each in (_Caller(address) for _ in range(connections))}
        self._streams = {each.socket.fileno(): each for each in streams}
        for number in (*self._callers, *self._streams):
            self._poll.register(number, select.EPOLLIN)

    def close(self) -> None:
        self._hang_up()
        self._poll.close()

    def _hang_up(self) -> None:
        """Before the server does it, to whom nothing is said any more."""
        for caller in list(self._callers.values()):
            self._drop(caller)

    def at_full_speed(self, asks: Iterator[Ask], seconds: float) -> Heard:
        """Every connection asks again as soon as it was answered, until time is over or there are no more asks."""
        gc.collect()
        began = time.perf_counter()
        end, busy = began + seconds, 0
        for caller in self._callers.values():
            busy += self._ask_next(caller, asks)
        while busy:
            for caller in self._answered(60.0):
                busy -= 1
                if time.perf_counter() < end:
                    busy += self._ask_next(caller, asks)
        self.heard.took_s = time.perf_counter() - began
        self._hang_up()
        return self.heard

    def _ask_next(self, caller: _Caller, asks: Iterator[Ask]) -> bool:
        ask = next(asks, None)
        if ask is not None:
            caller.ask(ask, time.perf_counter())
        return ask is not None

    def by_timetable(self, asks: Sequence[Ask], until: Callable[[], bool], patience_s: float) -> Heard:
        """Each is asked when it is due, and waited for from then on, also while no connection was free.

        Ends when all were answered and `until` holds.
        """
        gc.collect()
        began = self.heard.began = time.perf_counter()
        idle, due = deque(self._callers.values()), deque(asks)
        busy, progress = 0, (began, 0)
        while due or busy or not until():
            now = time.perf_counter()
            while due and idle and began + due[0].at <= now:
                ask = due.popleft()
                self._fresh(idle.popleft(), now).ask(ask, began + ask.at)
                busy += 1
            wait_s = max(0.0, began + due[0].at - now) if due and idle else 0.1
            for caller in self._answered(wait_s):
                idle.append(caller)
                busy -= 1
            progress = self._progress(progress, now)
            if now - progress[0] > patience_s:
                self.heard.faults.append(f"nothing more was heard within {patience_s:.0f} s")
                break
        self.heard.took_s = time.perf_counter() - began
        self._hang_up()
        return self.heard

    def _fresh(self, caller: _Caller, now: float) -> _Caller:
        if now - caller.used_at < STALE_S and caller.socket.fileno() >= 0:
            return caller
        self._drop(caller)
        fresh = _Caller(self._address)
        self._callers[fresh.socket.fileno()] = fresh
        self._poll.register(fresh.socket.fileno(), select.EPOLLIN)
        return fresh

    def _drop(self, caller: _Caller) -> None:
        if caller.socket.fileno() >= 0:
            del self._callers[caller.socket.fileno()]
            self._poll.unregister(caller.socket.fileno())
            caller.socket.close()

    def listen(self, seconds: float, until: Callable[[], bool]) -> bool:
        """Only to the streams, until nothing happens for so many seconds."""
        now = time.perf_counter()
        progress = (now, 0)
        while not until() and now - progress[0] < seconds:
            list(self._answered(0.05))
            now = time.perf_counter()
            progress = self._progress(progress, now)
        return until()

    def _progress(self, before: tuple[float, int], now: float) -> tuple[float, int]:
        """When something was heard for the last time, and how much by then. Signs of life on a stream do not count."""
        heard = self.heard.count + sum(stream.events for stream in self._streams.values())
        return (now, heard) if heard != before[1] else before

    def _answered(self, wait_s: float) -> Iterator[_Caller]:
        """Who has an answer; streams are read on the way."""
        for number, _ in self._poll.poll(wait_s):
            stream = self._streams.get(number)
            if stream is not None:
                self.heard.bytes_read += stream.read()
                continue
            caller = self._callers[number]
            if caller.asked is None:
                self._drop(caller)  # the server hung up on a caller that said nothing
                continue
            answer = caller.answer()
            if answer is not None:
                self._note(caller, *answer)
                yield caller

    def _note(self, caller: _Caller, status: int, body: bytes) -> None:
        ask, caller.asked, caller.used_at = caller.asked, None, time.perf_counter()
        assert ask is not None
        self.heard.latencies.setdefault(ask.kind, []).append(caller.used_at - caller.asked_at)
        if status != ask.status:
            self.heard.faults.append(f"{ask.kind}: answered {status}, not {ask.status}: {body[:200].decode()}")
        if self._keep:
            self.heard.bodies.append(body)
