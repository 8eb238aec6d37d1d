"""Streams that one control process passes on for another, over a real connection between the two."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from fairpool.api.multiplexer import ConnectionBroken, Multiplexer, Stream, StreamClosed
from fairpool.control.pod_access import PodAccessError
from fairpool.control.sealing import SealingKey
from fairpool.control.tunnel import AWAY, Tunnels
from fairpool.control.tunnel_holders import TunnelHolders
from fairpool.model.problem import Problem
from fairpool.platform.peer_identity import tls_contexts
from fairpool.platform.peer_link import PeerConnections, peer_server

KEY, OTHER_KEY = SealingKey(b"k" * 32), SealingKey(b"o" * 32)
FULL = Problem("pod.full", "the pod takes no more", "try again")


@dataclass
class Holders:
    """As the database has them."""

    noted: Mapping[str, tuple[str, str]]
    reads: int = 0

    async def elsewhere(self) -> Mapping[str, tuple[str, str]]:
        self.reads += 1
        return self.noted


class Cluster:
    """A tunnel whose other end answers in this process."""

    def __init__(self) -> None:
        self.near, self.far = Multiplexer(), Multiplexer(self._opened)
        self._tasks = [
            asyncio.create_task(self.near.send_all(self._carried(self.far))),
            asyncio.create_task(self.far.send_all(self._carried(self.near))),
        ]

    @staticmethod
    def _carried(to: Multiplexer) -> Callable[[bytes], Awaitable[None]]:
        async def write(message: bytes) -> None:
            to.received(message)

        return write

    def _opened(self, stream: Stream, request: bytes) -> None:
        self._tasks.append(asyncio.create_task(getattr(self, request.decode())(stream)))

    async def echo(self, stream: Stream) -> None:
        """Half-closed by its user, it still answers."""
        stream.accept()
        while (data := await stream.receive()) is not None:
            await stream.send(data)
        await stream.send(b"end")
        stream.end()
        stream.close()

    async def refuse(self, stream: Stream) -> None:
        stream.close(FULL)

    async def fail_after_end(self, stream: Stream) -> None:
        stream.accept()
        stream.end()
        await stream.receive()
        stream.close(FULL)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass
class Pair:
    """A process that holds the tunnel of the cluster `east`, and one that does not."""

    cluster: Cluster
    holding: Tunnels
    asking: Tunnels
    holders: Holders


@asynccontextmanager
async def two_processes(key: SealingKey = KEY) -> AsyncIterator[Pair]:
    holding, asking, cluster = Tunnels(), Tunnels(), Cluster()
    holding.join("east", cluster.near)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    holders = Holders({"east": ("one", address), "west": ("one", address)})
    others = PeerConnections(cast(TunnelHolders, holders), tls_contexts(key)[1])
    asking.others = others
    async with peer_server(holding, listener, tls_contexts(KEY)[0]):
        try:
            yield Pair(cluster, holding, asking, holders)
        finally:
            await others.close()
            await cluster.close()


def played(scene: Callable[[Pair], Awaitable[Any]], key: SealingKey = KEY) -> None:
    async def play() -> None:
        async with asyncio.timeout(60), two_processes(key) as pair:
            await scene(pair)

    asyncio.run(play())


async def away(tunnels: Tunnels, cluster: str) -> bool:
    try:
        await tunnels.connection(cluster)
    except PodAccessError as error:
        return error.problem is AWAY
    return False


def test_data_and_ends_pass_in_both_directions() -> None:
    async def scene(pair: Pair) -> None:
        large = bytes(range(256)) * 400
        connection = await pair.asking.connection("east")
        streams = [connection.open(b"echo") for _ in range(3)]
        for stream in streams:
            await stream.accepted()
            await stream.send(b"hello")
            assert await stream.receive() == b"hello"
            for _ in range(10):  # more than a window
                await stream.send(large)
                assert await stream.receive() == large
            stream.end()
            assert [await stream.receive(), await stream.receive()] == [b"end", None]
        assert await pair.asking.connection("east") is connection, "one connection carries them all"
        assert pair.holders.reads == 1

    played(scene)


def test_the_reason_of_a_refusal_arrives() -> None:
    async def scene(pair: Pair) -> None:
        connection = await pair.asking.connection("east")
        refused = connection.open(b"refuse")
        with pytest.raises(StreamClosed) as caught:
            await refused.accepted()
        assert caught.value.problem == FULL
        failing = connection.open(b"fail_after_end")
        assert await failing.receive() is None
        failing.end()
        closed = asyncio.Event()
        failing.on_closed = closed.set
        await closed.wait()
        with pytest.raises(StreamClosed):
            await failing.receive()

    played(scene)


def test_streams_break_with_the_tunnel_and_the_cluster_is_away() -> None:
    async def scene(pair: Pair) -> None:
        stream = (await pair.asking.connection("east")).open(b"echo")
        await stream.accepted()
        pair.holding.leave("east", pair.cluster.near)
        pair.cluster.near.break_off(FULL)
        with pytest.raises(ConnectionBroken):
            await stream.receive()
        assert await away(pair.asking, "east")

    played(scene)


def test_a_cluster_that_is_not_there_any_more_is_away_and_is_not_looked_for_again() -> None:
    async def scene(pair: Pair) -> None:
        pair.holding.others = pair.asking.others  # it could pass on what it gets, and must not
        assert await away(pair.asking, "west")
        assert await away(pair.asking, "nowhere")
        assert not await away(pair.asking, "east"), "the process answered: its other clusters are reached"

    played(scene)


def test_a_process_that_was_killed_is_noticed_at_once() -> None:
    async def scene(pair: Pair) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        pair.holders.noted = {"east": ("killed", f"127.0.0.1:{port}")}
        began = time.monotonic()
        assert await away(pair.asking, "east")
        assert await away(pair.asking, "east"), "and is not tried again at once"
        assert time.monotonic() - began < 30

    played(scene)


def test_a_process_with_other_keys_gets_nothing() -> None:
    async def scene(pair: Pair) -> None:
        assert await away(pair.asking, "east")

    played(scene, OTHER_KEY)


def test_a_program_that_took_the_port_of_a_process_gets_nothing() -> None:
    async def scene(pair: Pair) -> None:
        said = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            said.append(await reader.read(10_000))
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=tls_contexts(OTHER_KEY)[0])
        pair.holders.noted = {"east": ("stolen", f"127.0.0.1:{server.sockets[0].getsockname()[1]}")}
        assert await away(pair.asking, "east")
        server.close()
        assert not any(said)

    played(scene)
