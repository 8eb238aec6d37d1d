"""Logs, exec, attach and port-forward of the Kubernetes client, to real pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import NotFound, Refused, StreamFailed
from fairpool.engines.kubernetes.kubeconfig import read_kubeconfig
from fairpool.engines.kubernetes.resources import PODS
from fairpool.engines.kubernetes.streams import (
    ProgramEnd,
    ProgramStream,
    StreamChannel,
    open_attach,
    open_exec,
    open_port,
    read_end,
    read_logs,
)
from tests.kubernetes import images
from tests.kubernetes.event_loop import within
from tests.kubernetes.nodes import Cluster

LIMIT_S = 90.0


class PodPhase(msgspec.Struct):
    """The part of a pod's status that says whether it runs."""

    phase: str = ""


class RunningPod(msgspec.Struct):
    """A pod, of which only the phase is read."""

    status: PodPhase


@pytest.fixture
def team(cluster: Cluster) -> Iterator[str]:
    with cluster.plane.namespace("streams") as made:
        yield made


@asynccontextmanager
async def client_for(cluster: Cluster) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(read_kubeconfig([cluster.plane.kubeconfig()])) as made:
        yield made


async def start(client: KubernetesClient, namespace: str, script: str, node: int = 1, **more: Any) -> None:
    """A pod named `a` that runs; the script is that of its container."""
    container = {"name": "main", "image": images.BUSYBOX, "command": ["sh", "-c", script], **more}
    policy = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    spec = {"nodeName": f"node-{node}", "containers": [container], **policy}
    await client.create(PODS, {"metadata": {"name": "a"}, "spec": spec}, namespace=namespace)
    while (await client.get(PODS, "a", RunningPod, namespace=namespace)).status.phase == "Pending":
        await asyncio.sleep(0.1)


async def everything(stream: ProgramStream) -> tuple[bytes, bytes, ProgramEnd]:
    written = {StreamChannel.OUTPUT: b"", StreamChannel.ERRORS: b""}
    while (part := await stream.receive()) is not None:
        written[part[0]] += part[1]
    await stream.close()
    assert stream.end is not None
    return written[StreamChannel.OUTPUT], written[StreamChannel.ERRORS], stream.end


async def output_until(stream: ProgramStream, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        part = await stream.receive()
        assert part is not None, (seen, stream.end)
        seen += part[1]
    return seen


@pytest.mark.slow
@within(LIMIT_S)
async def test_logs_are_read_followed_and_cut(cluster: Cluster, team: str) -> None:
    async with client_for(cluster) as client:
        script = "for i in 1 2 3; do echo line $i; done; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo last"
        await start(client, team, script)

        async def log(**how: Any) -> str:
            return b"".join([part async for part in read_logs(client, "a", namespace=team, **how)]).decode()

        while "line 3" not in await log():
            await asyncio.sleep(0.1)
        assert await log(container="main") == "line 1\nline 2\nline 3\n"
        assert await log(tail_lines=1) == "line 3\n"
        assert await log(tail_lines=0) == ""
        assert await log(limit_bytes=6) == "line 1"
        assert all(" line " in each and each.startswith("20") for each in (await log(timestamps=True)).splitlines())
        following = asyncio.create_task(log(follow=True))
        run = await open_exec(client, "a", ["touch", "/tmp/go"], namespace=team)
        assert (await everything(run))[2] == ProgramEnd(0)
        assert await following == "line 1\nline 2\nline 3\nlast\n"
        with pytest.raises(Refused, match=f"read the log of pod {team}/a: .*previous terminated container"):
            await log(previous=True)
        with pytest.raises(NotFound, match=f'read the log of pod {team}/other: pods "other" not found'):
            await anext(read_logs(client, "other", namespace=team))


@pytest.mark.slow
@within(LIMIT_S)
async def test_programs_run_in_a_container(cluster: Cluster, team: str) -> None:
    async with client_for(cluster) as client:
        await start(client, team, "sleep 600", node=2)

        async def run(*command: str) -> tuple[bytes, bytes, ProgramEnd]:
            return await everything(await open_exec(client, "a", command, namespace=team, container="main"))

        written, errors, end = await run("sh", "-c", "echo out & echo 'a b' $0 >&2; wait; exit 3")
        assert (written, errors, end.exit_code) == (b"out\n", b"a b sh\n", 3)
        assert (await run("true"))[2] == ProgramEnd(0)
        missing = (await run("no-such-program"))[2]
        assert missing.exit_code in (None, 127)
        assert "no-such-program" in missing.message
        killed = (await run("sh", "-c", "kill -9 $$"))[2]
        assert killed.exit_code == 137
        long = (await run("sh", "-c", "head -c 3000000 /dev/zero"))[0]
        assert len(long) == 3_000_000
        with pytest.raises(NotFound, match=f'exec in pod {team}/other: pods "other" not found'):
            await open_exec(client, "other", ["true"], namespace=team)
        with pytest.raises(Refused, match=f"exec in pod {team}/a: container other is not valid for pod a"):
            await open_exec(client, "a", ["true"], namespace=team, container="other")


@pytest.mark.slow
@within(LIMIT_S)
async def test_a_program_reads_its_input_to_the_end(cluster: Cluster, team: str) -> None:
    async with client_for(cluster) as client:
        await start(client, team, "sleep 600")
        stream = await open_exec(client, "a", ["wc", "-c"], namespace=team, has_input=True)
        await stream.send(b"x" * 200_000)
        await stream.send(b"y")
        await stream.close_input()
        assert (await everything(stream))[0].strip() == b"200001"


@pytest.mark.slow
@within(LIMIT_S)
async def test_a_terminal_has_a_size_that_changes(cluster: Cluster, team: str) -> None:
    async with client_for(cluster) as client:
        await start(client, team, "sleep 600")
        stream = await open_exec(client, "a", ["sh"], namespace=team, has_input=True, has_terminal=True)
        await stream.resize(101, 33)
        for size in (b"33 101", b"44 120"):
            await until_size(stream, size)
            await stream.resize(120, 44)
        await stream.send(b"sleep 100\n")
        await output_until(stream, b"sleep 100")
        await asyncio.sleep(0.3)
        await stream.send(b"\x03exit 7\n")
        assert (await everything(stream))[2].exit_code == 7


async def until_size(stream: ProgramStream, size: bytes) -> None:
    """A new size reaches the terminal some time after it was sent."""
    seen = b""
    while size not in seen:
        await stream.send(b"stty size; echo do''ne\n")
        seen = await output_until(stream, b"done")


@pytest.mark.slow
@within(LIMIT_S)
async def test_attach_joins_the_streams_of_the_main_program(cluster: Cluster, team: str) -> None:
    async with client_for(cluster) as client:
        script = 'while read line; do echo "got $line"; [ "$line" = end ] && exit 4; done'
        await start(client, team, script, stdin=True)
        stream = await open_attach(client, "a", namespace=team, has_input=True)
        await stream.send(b"hello\n")
        assert await output_until(stream, b"hello") == b"got hello\n"
        other = await open_attach(client, "a", namespace=team)
        await asyncio.sleep(0.3)
        await stream.send(b"again\nend\n")
        assert b"got again\ngot end\n" in (await everything(stream))[0]
        assert b"got again\ngot end\n" in (await everything(other))[0]


@pytest.mark.slow
@within(LIMIT_S)
async def test_a_port_of_a_pod_is_connected_to(cluster: Cluster, team: str) -> None:
    async with client_for(cluster) as client:
        files = "mkdir /tmp/w; head -c 2000000 /dev/zero > /tmp/w/big; echo hello > /tmp/w/small"
        script = f"{files}; httpd -f -p 8080 -h /tmp/w"
        await start(client, team, script, node=2)
        small = await fetched(client, team, "small")
        assert small.endswith(b"\r\n\r\nhello\n")
        answers = await asyncio.gather(*(fetched(client, team, "big") for _ in range(5)))
        assert {len(each.partition(b"\r\n\r\n")[2]) for each in answers} == {2_000_000}
        nothing = await open_port(client, "a", 9999, namespace=team)
        with pytest.raises(StreamFailed, match=f"connect to port 9999 of pod {team}/a: .*refused"):
            await nothing.receive()
        await nothing.close()
        with pytest.raises(NotFound, match='pods "other" not found'):
            await open_port(client, "other", 80, namespace=team)


async def fetched(client: KubernetesClient, namespace: str, name: str) -> bytes:
    while True:
        stream = await open_port(client, "a", 8080, namespace=namespace)
        try:
            await stream.send(f"GET /{name} HTTP/1.0\r\n\r\n".encode())
            seen = b""
            while (part := await stream.receive()) is not None:
                seen += part
            return seen
        except StreamFailed:
            await asyncio.sleep(0.1)  # the server in the pod has not begun to listen
        finally:
            await stream.close()


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (b'{"metadata":{},"status":"Success"}', ProgramEnd(0)),
        (
            b'{"status":"Failure","message":"failed","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}',
            ProgramEnd(3, "failed"),
        ),
        (b'{"status":"Failure","message":"no such container","code":500}', ProgramEnd(None, "no such container")),
        (b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}', ProgramEnd(None, "")),
        (b"error from an old kubelet", ProgramEnd(None, "error from an old kubelet")),
        (b"\xff", ProgramEnd(None, "\ufffd")),
    ],
)
def test_the_end_of_a_program_is_read(content: bytes, end: ProgramEnd) -> None:
    assert read_end(content) == end
