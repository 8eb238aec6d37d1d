"""Streams over one connection: order, credit, turns, and what a side does that breaks the rules."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from fairpool.api.multiplexer import (
    CREDIT,
    FRAME_COST_BYTES,
    FRAME_MAX_BYTES,
    STREAMS_MAX,
    WINDOW_BYTES,
    ConnectionBroken,
    FrameKind,
    Multiplexer,
    ProtocolError,
    Stream,
    StreamClosed,
    StreamFrame,
)
from fairpool.model.problem import Problem

LOST = Problem("tunnel.lost", "it was lost", "")


class Pair:
    """Two sides of one connection, in memory."""

    def __init__(self) -> None:
        self.opened: list[tuple[Stream, bytes]] = []
        self.left = Multiplexer()
        self.right = Multiplexer(lambda stream, request: self.opened.append((stream, request)))
        self.sent: list[StreamFrame] = []

    async def __aenter__(self) -> Pair:
        async def to_left(message: bytes) -> None:
            await asyncio.sleep(0)
            self.left.received(message)

        async def to_right(message: bytes) -> None:
            await asyncio.sleep(0)
            kind, number = FrameKind(message[0]), int.from_bytes(message[1:5], "big")
            self.sent.append(StreamFrame(kind, number, message[5:]))
            self.right.received(message)

        self._tasks = [
            asyncio.create_task(self.left.send_all(to_right)),
            asyncio.create_task(self.right.send_all(to_left)),
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        done = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in done), done

    async def stream(self) -> tuple[Stream, Stream]:
        near = self.left.open(b"hello")
        while not self.opened:
            await asyncio.sleep(0)
        far, request = self.opened.pop()
        assert request == b"hello"
        far.accept()
        await near.accepted()
        return near, far


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(bounded())


async def read_all(stream: Stream) -> bytes:
    parts = []
    while (data := await stream.receive()) is not None:
        parts.append(data)
    return b"".join(parts)


def test_what_is_sent_arrives_in_order_and_both_ways() -> None:
    async def work() -> None:
        async with Pair() as pair:
            near, far = await pair.stream()
            chance = random.Random(7)
            there, back = (chance.randbytes(3 * WINDOW_BYTES + 17) for _ in range(2))

            async def send(stream: Stream, data: bytes) -> None:
                await stream.send_pieces(data)
                stream.end()

            *_, got_there, got_back = await asyncio.gather(
                send(near, there), send(far, back), read_all(far), read_all(near)
            )
            assert (got_there, got_back) == (there, back)

    run(work)


def test_a_slow_reader_holds_up_its_own_stream_only() -> None:
    async def work() -> None:
        async with Pair() as pair:
            slow, _ = await pair.stream()
            quick, quick_far = await pair.stream()
            sending = asyncio.create_task(slow.send_pieces(bytes(10 * WINDOW_BYTES)))
            for number in range(1000):
                await quick.send(b"%d" % number)
                assert await quick_far.receive() == b"%d" % number
            assert not sending.done()
            in_flight = sum(
                len(frame.data) for frame in pair.sent if frame.kind is FrameKind.DATA and frame.stream == 1
            )
            assert in_flight <= WINDOW_BYTES, "no more than a window is held for a reader that does not read"
            sending.cancel()

    run(work)


def test_streams_take_turns() -> None:
    async def work() -> None:
        async with Pair() as pair:
            ends = [await pair.stream() for _ in range(4)]
            pair.sent.clear()

            async def send(near: Stream) -> None:
                for _ in range(50):
                    await near.send(bytes(4000))
                near.end()

            await asyncio.gather(*(send(near) for near, _ in ends), *(read_all(far) for _, far in ends))
            order = [frame.stream for frame in pair.sent if frame.kind is FrameKind.DATA]
            for start in range(0, 150, 4):
                assert len(set(order[start : start + 8])) == 4, "none was sent twice while another waited"

    run(work)


@pytest.mark.parametrize("size", [1, FRAME_MAX_BYTES - 1, FRAME_MAX_BYTES])
def test_frames_of_every_size_get_through_a_window_without_standstill(size: int) -> None:
    async def work() -> None:
        async with Pair() as pair:
            near, far = await pair.stream()
            frames = 4 * WINDOW_BYTES // (size + FRAME_COST_BYTES)

            async def send() -> None:
                for _ in range(frames):
                    await near.send(bytes(size))
                near.end()

            _, got = await asyncio.gather(send(), read_all(far))
            assert len(got) == frames * size

    run(work)


def test_what_was_sent_before_the_close_is_received_and_the_reason_after_it() -> None:
    async def work() -> None:
        async with Pair() as pair:
            near, far = await pair.stream()
            await far.send(b"last words")
            far.close()
            assert (await near.receive(), await near.receive()) == (b"last words", None)
            near, far = await pair.stream()
            far.close(Problem("pod.gone", "it is gone", "try another"))
            with pytest.raises(StreamClosed) as refusal:
                await near.receive()
            assert refusal.value.problem == Problem("pod.gone", "it is gone", "try another")
            with pytest.raises(StreamClosed):
                await near.send(b"too late")
            assert not pair.left._streams

    run(work)


def test_data_on_its_way_to_a_closed_stream_is_dropped_and_breaks_nothing() -> None:
    async def work() -> None:
        async with Pair() as pair:
            for _ in range(50):
                near, far = await pair.stream()
                sending = asyncio.create_task(near.send_pieces(bytes(WINDOW_BYTES * 2)))
                await asyncio.sleep(0)
                far.close()
                with pytest.raises(StreamClosed):
                    await sending
            near, far = await pair.stream()
            await near.send(b"still here")
            assert await far.receive() == b"still here"
            assert (len(pair.left._streams), len(pair.right._streams)) == (1, 1)

    run(work)


def test_the_other_side_hears_of_a_close_at_once() -> None:
    async def work() -> None:
        async with Pair() as pair:
            near, far = await pair.stream()
            heard = asyncio.Event()
            far.on_closed = heard.set
            near.close()
            await heard.wait()

    run(work)


def test_a_broken_connection_ends_every_stream_after_what_was_received() -> None:
    async def work() -> None:
        async with Pair() as pair:
            near, far = await pair.stream()
            await far.send(b"before")
            while not near._inbox:
                await asyncio.sleep(0)
            pair.left.break_off(LOST)
            assert await near.receive() == b"before"
            for _ in range(2):
                with pytest.raises(ConnectionBroken):
                    await near.receive()
            with pytest.raises(ConnectionBroken):
                await near.send(b"x")
            with pytest.raises(ConnectionBroken):
                pair.left.open(b"another")

    run(work)


def test_streams_on_one_connection_are_limited() -> None:
    async def work() -> None:
        left = Multiplexer()
        for _ in range(STREAMS_MAX):
            left.open(b"r")
        with pytest.raises(StreamClosed, match="512"):
            left.open(b"r")

    run(work)


def frame(kind: FrameKind, stream: int = 1, data: bytes = b"") -> bytes:
    return StreamFrame(kind, stream, data).encode()


FULL = frame(FrameKind.DATA, data=bytes(FRAME_MAX_BYTES))
ACCEPT = frame(FrameKind.ACCEPT)

HOSTILE = {
    "nothing": [b""],
    "half a header": [b"\x03\x00"],
    "an unknown kind": [b"\x09\x00\x00\x00\x01"],
    "a stream that was never opened": [frame(FrameKind.DATA, 99, b"x")],
    "a close of a stream that was never opened": [frame(FrameKind.CLOSE, 2)],
    "a stream opened by the side that may not": [frame(FrameKind.OPEN, 5, b"{}")],
    "data before it was accepted": [frame(FrameKind.DATA, data=b"x")],
    "empty data": [ACCEPT, frame(FrameKind.DATA)],
    "an oversize frame": [ACCEPT, FULL + b"x"],
    "more data than credit": [ACCEPT, FULL, FULL],
    "accepted twice": [ACCEPT, ACCEPT],
    "data after the end": [ACCEPT, frame(FrameKind.END), frame(FrameKind.DATA, data=b"x")],
    "ended twice": [ACCEPT, frame(FrameKind.END), frame(FrameKind.END)],
    "credit for what was not sent": [ACCEPT, frame(FrameKind.CREDIT, data=CREDIT.pack(1))],
    "credit of nothing": [ACCEPT, frame(FrameKind.CREDIT, data=CREDIT.pack(0))],
    "credit that is no number": [ACCEPT, frame(FrameKind.CREDIT, data=b"abc")],
    "data after the close": [frame(FrameKind.CLOSE), frame(FrameKind.DATA, data=b"x")],
    "a reason that is no JSON": [frame(FrameKind.CLOSE, data=b"{")],
    "a reason of another form": [frame(FrameKind.CLOSE, data=b'{"code": 1, "what": 2, "fix": []}')],
    "a reason nested without end": [frame(FrameKind.CLOSE, data=b"[" * 100_000)],
}


@pytest.mark.parametrize("messages", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_frame_that_breaks_the_rules_is_refused(messages: list[bytes]) -> None:
    async def work() -> None:
        left = Multiplexer()
        left.open(b"request")
        for message in messages[:-1]:
            left.received(message)
        with pytest.raises(ProtocolError):
            left.received(messages[-1])

    run(work)


def test_streams_that_are_opened_twice_or_without_end_are_refused() -> None:
    async def work() -> None:
        right = Multiplexer(lambda stream, request: None)
        right.received(frame(FrameKind.OPEN, 7))
        for number in (7, 3):
            with pytest.raises(ProtocolError):
                right.received(frame(FrameKind.OPEN, number))
        for number in range(8, 7 + 2 * STREAMS_MAX):
            right.received(frame(FrameKind.OPEN, number))
        with pytest.raises(ProtocolError, match="too many"):
            right.received(frame(FrameKind.OPEN, 8 + 2 * STREAMS_MAX))

    run(work)


def test_a_closed_stream_takes_no_more_than_the_credit_it_had() -> None:
    """A side that goes on sending after it was told to stop is not a way around the window."""

    async def work() -> None:
        left = Multiplexer()
        stream = left.open(b"request")
        left.received(ACCEPT)
        stream.close()
        left.received(FULL)
        assert not stream._inbox
        with pytest.raises(ProtocolError, match="credit"):
            left.received(FULL)

    run(work)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_refused_or_harmless(seed: int) -> None:
    async def work() -> None:
        chance = random.Random(seed)
        left = Multiplexer()
        for _ in range(20):
            left.open(b"r")
        refused = 0
        for _ in range(1000):
            head = bytes([chance.randrange(9)]) + chance.randrange(24).to_bytes(4, "big")
            try:
                left.received(head + chance.randbytes(chance.randrange(6)))
            except ProtocolError:
                refused += 1
        assert refused > 500

    run(work)
