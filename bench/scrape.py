"""A scrape by Prometheus of a large cluster: its size, how long it takes, and how long others wait for the event loop.

    python -m bench.scrape [--nodes N] [--runs N]

A control plane in this process, on a database with N nodes of 8 GPUs (1 000: 4 500 workloads in the case `ordinary` of
`bench.devices`) and a sample of all of them, asked for everything. The first scrape reads every declaration; those that
follow only what changed.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import devices
from bench._report import Setting
from fairpool.api.samples import DeviceSampleWire, DeviceUseWire, NodeSampleWire, PodSampleWire, SamplesReport
from fairpool.control.app import create_app
from fairpool.control.cluster_facts import facts_of
from fairpool.control.plane import Plane
from fairpool.control.sample_intake import sampled
from fairpool.control.scrape import EVERYTHING, scrape
from fairpool.control.scrape_names import ScrapeSubject
from fairpool.control.settings import Settings
from fairpool.control.store import clusters
from fairpool.metrics.totals import ClusterFacts, PodHolding

TICK_S = 0.001


def sample_of(plane: Plane, facts: ClusterFacts) -> SamplesReport:
    """Every device and every pod at work."""
    there: dict[str, list[PodHolding]] = {}
    for each in facts.holdings:
        there.setdefault(each.node, []).append(each)
    nodes = [
        NodeSampleWire(
            node=node.name,
            cpu_cores=64.0,
            memory_bytes=1 << 38,
            devices=tuple(
                DeviceSampleWire(
                    index=index,
                    utilization=87.5,
                    memory_bytes=60 << 30,
                    power_watts=350.0,
                    temperature_celsius=61.0,
                    clock_mhz=1410.0,
                    errors=0,
                )
                for index in range(node.gpus)
            ),
            pods=tuple(_pod(each) for each in there.get(node.name, ())),
        )
        for node in facts.nodes
    ]
    return SamplesReport(at=plane.now(), nodes=tuple(nodes))


def _pod(held: PodHolding) -> PodSampleWire:
    uses = tuple(DeviceUseWire(index=index, utilization=80.0, memory_bytes=30 << 30) for index in held.devices)
    return PodSampleWire(pod=held.pod, cpu_cores=7.5, memory_bytes=1 << 33, devices=uses)


async def longest_wait(until: asyncio.Event) -> float:
    """How late the event loop comes back at most."""
    longest = 0.0
    while not until.is_set():
        began = time.perf_counter()
        await asyncio.sleep(TICK_S)
        longest = max(longest, time.perf_counter() - began - TICK_S)
    return longest


async def scraped(plane: Plane) -> tuple[bytes, float, float]:
    """The answer, the time it took, and the longest wait of others."""
    is_over = asyncio.Event()
    waiting = asyncio.create_task(longest_wait(is_over))
    began = time.perf_counter()
    body = await scrape(plane, EVERYTHING, list(ScrapeSubject), packs=True)
    took_s = time.perf_counter() - began
    is_over.set()
    return body, took_s, await waiting


async def measured(folder: Path, nodes: int, runs: int) -> list[tuple[bytes, float, float]]:
    await devices.fill(folder, "ordinary", nodes)
    app = create_app(Settings(data=folder))
    async with app.router.lifespan_context(app):
        plane: Any = app.state.plane
        (row,) = await plane.read(clusters.all_clusters)
        facts = await plane.read_apart(lambda connection: facts_of(plane, connection, row.id, plane.now()))
        await sampled(plane, row.id, sample_of(plane, facts))
        while not plane.samples.written:
            await asyncio.sleep(0.05)
        return [await scraped(plane) for _ in range(runs)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scrape", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    print(Setting.here())
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder), chosen.nodes, chosen.runs))
    body = found[-1][0]
    text = gzip.decompress(body)
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    times = [took_s for _, took_s, _ in found[1:] or found]
    print(
        f"{chosen.nodes} nodes  {series} series  {len(text) / 1e6:.1f} MB  {len(body) / 1e6:.2f} MB gzip  "
        f"first {found[0][1]:.2f} s  median {statistics.median(times):.2f} s  "
        f"event loop held up for at most {1000 * max(wait_s for _, _, wait_s in found):.0f} ms"
    )
    return 0 if b"runai_gpu_utilization_per_gpu" in text and b"runai_job_gpu_utilization" in text else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
