"""Streams of pods when the API server is old, refuses, or goes away in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer, Credentials, Identification
from fairpool.engines.kubernetes.failures import ApiUnreachable, Refused, StreamFailed
from fairpool.engines.kubernetes.streams import StreamChannel, open_exec, open_port, read_logs
from tests.kubernetes.event_loop import within
from tests.kubernetes.faulty_server import FaultyAnswer, SeenRequest, client_of, with_token

LIMIT_S = 20.0
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def client_to(handler: Handler, credentials: Credentials | None = None) -> AsyncIterator[KubernetesClient]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        at = ApiServer(f"http://127.0.0.1:{runner.addresses[0][1]}", credentials or with_token("secret"))
        async with KubernetesClient(at, timeout_s=2.0) as client:
            yield client
    finally:
        await runner.cleanup()


async def upgraded(request: web.BaseRequest, *protocols: str) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=protocols)
    await socket.prepare(request)
    return socket


@within(LIMIT_S)
async def test_an_old_api_server_is_not_asked_to_close_the_input() -> None:
    received: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query.getall("command") == ["cat", "a b"]
        socket = await upgraded(request, "v4.channel.k8s.io")
        received.append(await socket.receive_bytes())
        await socket.send_bytes(b"\x01")  # an empty message begins each stream
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x02err")
        await socket.send_bytes(b"\x09from a later version")
        await socket.send_bytes(b'\x03{"status":"Success"}')
        await socket.close()
        return socket

    async with client_to(handler) as client:
        stream = await open_exec(client, "a", ["cat", "a b"], namespace="test", has_input=True)
        await stream.close_input()
        await stream.send(b"in")
        assert await stream.receive() == (StreamChannel.OUTPUT, b"out")
        assert await stream.receive() == (StreamChannel.ERRORS, b"err")
        assert await stream.receive() is None
        assert stream.end is not None
        assert stream.end.exit_code == 0
    assert received == [b"\x00in"]


@within(LIMIT_S)
async def test_a_refusal_is_told_in_the_servers_words() -> None:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        content = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"}
        return web.json_response(content, status=403)

    async with client_to(handler) as client:
        with pytest.raises(Refused, match="exec in pod test/a: pods is forbidden") as failure:
            await open_exec(client, "a", ["true"], namespace="test")
        assert failure.value.status == 403


@within(LIMIT_S)
async def test_a_rejected_token_is_read_again_once() -> None:
    tokens = iter(["old", "new"])

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer old":
            return web.json_response({"message": "expired"}, status=401)
        return await upgraded(request, "v5.channel.k8s.io")

    async with client_to(handler, Credentials(lambda _rejected: Identification(token=next(tokens)))) as client:
        stream = await open_exec(client, "a", ["true"], namespace="test")
        assert await stream.receive() is None
        assert stream.end is not None
        assert stream.end.exit_code is None
        assert "closed before the program ended" in stream.end.message


@within(LIMIT_S)
async def test_a_connection_that_is_lost_ends_the_stream_without_an_exit_code() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        socket = await upgraded(request, "v5.channel.k8s.io")
        await socket.send_bytes(b"\x01half")
        assert request.transport is not None
        request.transport.abort()
        return socket

    async with client_to(handler) as client:
        stream = await open_exec(client, "a", ["true"], namespace="test")
        assert await stream.receive() == (StreamChannel.OUTPUT, b"half")
        assert await stream.receive() is None
        assert stream.end is not None
        assert stream.end.exit_code is None


@within(LIMIT_S)
async def test_an_api_server_that_does_not_upgrade_in_time_is_unreachable() -> None:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(LIMIT_S)
        raise AssertionError

    async with client_to(handler) as client:
        client._timeout_s = 0.2
        with pytest.raises(ApiUnreachable, match=r"exec in pod test/a: .* no answer within 0\.2 s"):
            await open_exec(client, "a", ["true"], namespace="test")


@within(LIMIT_S)
async def test_the_errors_of_a_forwarded_port_are_told_and_its_first_messages_are_not_data() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        port = int(request.query["ports"])
        socket = await upgraded(request, "v4.channel.k8s.io")
        for channel in (b"\x00", b"\x01"):
            await socket.send_bytes(channel + port.to_bytes(2, "little"))
        if port == 80:
            await socket.send_bytes(b"\x00data")
        else:
            await socket.send_bytes(b"\x01connection refused")
        await socket.close()
        return socket

    async with client_to(handler) as client:
        stream = await open_port(client, "a", 80, namespace="test")
        assert await stream.receive() == b"data"
        assert await stream.receive() is None
        await stream.close()
        refused = await open_port(client, "a", 81, namespace="test")
        with pytest.raises(StreamFailed, match="connect to port 81 of pod test/a: connection refused"):
            await refused.receive()


@within(LIMIT_S)
async def test_a_log_that_is_cut_off_is_not_taken_for_a_whole_one() -> None:
    async def answer(_request: SeenRequest, to: FaultyAnswer) -> None:
        await to.streams()
        await to.chunk(b"one line\n")
        await asyncio.sleep(0.05)
        to.is_cut_off()

    seen: list[bytes] = []

    async def follow(client: KubernetesClient) -> None:
        async for part in read_logs(client, "a", namespace="test", follow=True):
            seen.append(part)

    async with client_of(answer) as (client, server):
        with pytest.raises(ApiUnreachable, match="read the log of pod test/a"):
            await follow(client)
    assert seen == [b"one line\n"]
    assert server.requests[0].query == {"follow": "true"}
