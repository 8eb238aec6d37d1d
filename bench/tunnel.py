"""The tunnel between a control plane and a cluster elsewhere: bytes a second, calls a second, and what each costs.

    python -m bench.tunnel [--mib N] [--calls N]

The cluster's end is a process of its own with generated logs instead of files, so that only the tunnel is measured. A
call is one small log, read to its end. The same calls without a tunnel, as in `fairpool up`, are the line to compare
with. CPU time is that of both processes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import cast

import uvicorn

from bench._report import Setting
from bench._server import cpu_s
from fairpool.control.app import ClusterIdentity, cluster_identity, create_app
from fairpool.control.pod_access import LogPiece, LogRange, PodAccess, PodAddress
from fairpool.control.settings import Settings
from fairpool.model.upload import Upload
from fairpool.platform.tunnel_client import TunnelClient

MIB = 1 << 20
PIECE = bytes(64 * 1024)
SMALL = bytes(1024)
AT_ONCE = 16
SLOW_S = 0.01
"""A slow reader rests so long after each piece."""


class GeneratedLogs:
    """Pods whose id is the size of their log, in bytes."""

    async def read_log(self, pod: PodAddress, wanted: LogRange, *, follow: bool) -> AsyncGenerator[LogPiece]:
        size = int(pod.pod)
        for offset in range(0, size, len(PIECE)):
            data = PIECE[: size - offset]
            yield LogPiece(data, offset + len(data))

    async def uploads(self) -> list[Upload]:
        """The control plane looks for those that are left over."""
        return []


def serve_cluster(address: str, token: str) -> None:
    """The cluster's end, until it is killed."""
    asyncio.run(TunnelClient(address, token, cast(PodAccess, GeneratedLogs())).run())


@asynccontextmanager
async def tunnel(folder: Path) -> AsyncIterator[tuple[PodAccess, int]]:
    """The pods of a cluster that has connected, and the process at its end."""
    app = create_app(Settings(data=folder))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="off"))
    async with app.router.lifespan_context(app):
        identity: ClusterIdentity = await cluster_identity(app)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        context = multiprocessing.get_context("spawn")
        cluster = context.Process(target=serve_cluster, args=(address, identity.token), daemon=True)
        cluster.start()
        try:
            while identity.id not in app.state.plane.pod_access.tunnels.here():
                await asyncio.sleep(0.01)
            assert cluster.pid is not None
            yield app.state.plane.pod_access.of(identity.id), cluster.pid
        finally:
            cluster.kill()
            cluster.join()
            server.should_exit = True
            await serving


async def read(pods: PodAccess, size: int, rest_s: float = 0.0) -> int:
    """Read a log of this size to its end."""
    seen = 0
    async for piece in pods.read_log(PodAddress("", str(size), None, ""), LogRange(), follow=False):
        seen += len(piece.data)
        if rest_s:
            await asyncio.sleep(rest_s)
    assert seen == size, f"{seen} of {size} bytes came"
    return seen


async def stream(pods: PodAccess, mib: int, other: int | None) -> str:
    began, cpu = time.perf_counter(), _cpu_s(other)
    await read(pods, mib * MIB)
    took, used = time.perf_counter() - began, _cpu_s(other) - cpu
    return f"{mib / took:8.0f} MiB/s, {used / mib * 1000:6.2f} ms of CPU a MiB"


async def calls(pods: PodAccess, count: int, other: int | None) -> str:
    left = iter(range(count))

    async def client() -> None:
        for _ in left:
            await read(pods, len(SMALL))

    began, cpu = time.perf_counter(), _cpu_s(other)
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    took, used = time.perf_counter() - began, _cpu_s(other) - cpu
    return f"{count / took:8.0f} calls/s, {used / count * 1000:6.2f} ms of CPU a call"


async def latency(pods: PodAccess, count: int) -> str:
    """Of one small call after the other."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await read(pods, len(SMALL))
        took.append((time.perf_counter() - began) * 1000)
    cuts = quantiles(took, n=100, method="inclusive")
    return f"{cuts[49]:8.2f} ms, p99 {cuts[98]:.2f} ms"


async def beside_slow_reader(pods: PodAccess, count: int, mib: int) -> str:
    slow = asyncio.create_task(read(pods, 1024 * mib * MIB, rest_s=SLOW_S))
    await asyncio.sleep(20 * SLOW_S)  # until its window is full
    try:
        return await latency(pods, count)
    finally:
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


def _cpu_s(other: int | None) -> float:
    return time.process_time() + (cpu_s(other) if other is not None else 0.0)


async def measure(options: argparse.Namespace) -> None:
    here = cast(PodAccess, GeneratedLogs())
    with tempfile.TemporaryDirectory() as folder:
        async with tunnel(Path(folder)) as (far, cluster):
            await calls(far, min(options.calls, 50), cluster)  # what is loaded at the first call is not measured
            for title, pods, other in (("tunnel", far, cluster), ("in process", here, None)):
                figures = {
                    "one stream": await stream(pods, options.mib, other),
                    f"{AT_ONCE} clients": await calls(pods, options.calls, other),
                    "one call": await latency(pods, options.calls),
                    "one call beside a slow reader": await beside_slow_reader(pods, options.calls, options.mib),
                }
                for what, figure in figures.items():
                    print(f"{title}: {what:<32}{figure}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.tunnel", description=__doc__)
    parser.add_argument("--mib", type=int, default=200, help="size of the streamed log")
    parser.add_argument("--calls", type=int, default=1000)
    options = parser.parse_args(arguments)
    print(Setting.here())
    asyncio.run(measure(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
