"""Every device of a large cluster in one answer: its size, compressed, and how long a caller waits for it.

    python -m bench.devices [--nodes N] [--runs N] [--case NAME ...]

A server of its own process on a database with N nodes of 8 GPUs (1 250: 10 000 devices), asked over HTTP by a caller
who may see everything. Two cases: `ordinary`, where half of the devices belong to jobs of 8 GPUs, a quarter to jobs of
one, an eighth is shared by two jobs each and the rest is free; and `single`, the worst for the size, where every device
is held by another job, since ids do not compress. Fails if an answer is larger than 300 kB or slower than 300 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import http.client
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from bench._report import Setting
from bench._server import Server, end_in_good_order
from fairpool.api.clusters import NodeReport
from fairpool.api.devices import DevicePage
from fairpool.control.app import create_app
from fairpool.control.settings import Settings
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import clusters, holdings, nodes, pods, workloads
from fairpool.control.submit import new_id
from fairpool.model.ids import Instant, NodeName, PoolName
from fairpool.model.node import PRODUCT_LABEL

GPUS = 8
PROJECTS = 40
USERS = 200
BEGIN, MONTH_MS = 1_790_000_000_000, 30 * 86_400_000
"""Jobs were submitted within a month, as their ids show."""
SIZE_MAX = 300_000
MEDIAN_MAX_S = 0.3
CASES = ("ordinary", "single")


@dataclass(frozen=True, slots=True)
class Job:
    """A job and the devices it holds of one node."""

    devices: tuple[int, ...]
    milli: int


def jobs_of(case: str, node: int) -> list[Job]:
    """What holds the devices of a node."""
    if case == "single":
        return [Job((device,), 1000) for device in range(GPUS)]
    match node % 8:
        case 0 | 1 | 2 | 3:
            return [Job(tuple(range(GPUS)), 1000)]
        case 4 | 5:
            return [Job((device,), 1000) for device in range(GPUS)]
        case 6:
            return [Job((device,), 500) for device in range(GPUS) for _ in range(2)]
        case _:
            return []


async def fill(folder: Path, case: str, count: int) -> None:
    """A database with the rows that reports of such a cluster leave."""
    app = create_app(Settings(data=folder))
    async with app.router.lifespan_context(app):
        await app.state.plane.write(lambda connection: _fill(connection, case, count))


def _fill(connection: Connection, case: str, count: int) -> None:
    cluster = connection.execute(select(clusters.c.id)).scalar_one()
    rng = random.Random(1)
    rows: dict[Any, list[dict[str, Any]]] = {nodes: [], workloads: [], pods: [], holdings: []}
    for number in range(count):
        rows[nodes].append(_node(cluster, f"gpu-{number // 32:03d}-{number % 32:02d}", number))
        for job in jobs_of(case, number):
            for table, row in _job(rng, cluster, rows[nodes][-1]["name"], job):
                rows[table].append(row)
    for table, values in rows.items():
        connection.execute(insert(table), values)


def _node(cluster: str, name: str, number: int) -> dict[str, Any]:
    report = NodeReport(
        name=NodeName(name),
        pool=PoolName("a100" if number % 2 else "default"),
        gpus=GPUS,
        cpu_milli=128_000,
        memory_bytes=1 << 40,
        gpu_memory_mib=81_920,
        labels={PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB"},
        gpus_withheld=(3,) if number % 50 == 7 else (),
        message="GPU 3 is not scheduled: the driver reports GPU is lost" if number % 50 == 7 else "",
    )
    return {
        "cluster": cluster,
        "name": name,
        "document": report.to_json(),
        "revision": 1,
        "created_at": 1,
        "updated_at": 1,
    }


def _job(rng: random.Random, cluster: str, node: str, job: Job) -> Iterator[tuple[Any, dict[str, Any]]]:
    name = new_id(Instant(BEGIN + rng.randrange(MONTH_MS)))
    gpus = job.milli * len(job.devices)
    yield (
        workloads,
        {
            "id": name,
            "name": f"train-{rng.randrange(10**5)}",
            "project": f"team-{rng.randrange(PROJECTS):02d}",
            "department": "default",
            "cluster": cluster,
            "kind": "Training",
            "submitted_by": f"user{rng.randrange(USERS)}@example.com",
            "created_at": 1,
            "requested_gpus_milli": gpus,
            "desired_state": "run",
            "run": 0,
            "revision": 1,
            "declaration": "{}",
            "report": "{}",
            "phase": "Running",
            "allocated_gpus_milli": gpus,
            "running_pods": 1,
        },
    )
    pod = f"{name}-0-0"
    yield (
        pods,
        {
            "id": pod,
            "workload": name,
            "pod_index": 0,
            "incarnation": 0,
            "phase": "running",
            "document": "{}",
            "created_at": 1,
            "since": 1,
        },
    )
    yield (
        holdings,
        {
            "pod": pod,
            "workload": name,
            "cluster": cluster,
            "node": node,
            "devices": json.dumps(job.devices),
            "gpus_milli": gpus,
            "cpu_milli": 8000,
            "memory_bytes": 1 << 34,
        },
    )


def asked(port: int, token: str) -> tuple[bytes, float]:
    """One answer as it travels, and how long it took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
    began = time.perf_counter()
    connection.request("GET", "/api/v1/devices", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    took_s = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"answered with {answer.status}: {body[:200]!r}")
    return body, took_s


def measured(case: str, count: int, runs: int, folder: Path) -> list[str]:
    """Print one line; what is wrong with the outcome."""
    asyncio.run(fill(folder, case, count))
    server = Server("bench._api_server", str(folder))
    try:
        port, token = server.hello["port"], server.hello["token"]
        asked(port, token)  # the first one opens connections
        found = [asked(port, token) for _ in range(runs)]
    finally:
        server.kill()
    body, text = found[0][0], gzip.decompress(found[0][0])
    times = [took_s for _, took_s in found]
    median_s = statistics.median(times)
    page = DevicePage.model_validate_json(text)
    held = sum(milli * len(devices) for node in page.nodes for _, milli, devices in node.holders)
    expected = sum(job.milli * len(job.devices) for number in range(count) for job in jobs_of(case, number))
    print(
        f"{case:10} {page.devices:>7} devices {len(page.workloads.ids):>6} jobs {len(text) / 1000:>7.0f} kB "
        f"{len(body) / 1000:>6.0f} kB gzip  median {1000 * median_s:>5.0f} ms  max {1000 * max(times):>5.0f} ms"
    )
    faults = []
    if (page.devices, held) != (GPUS * count, expected):
        faults.append(f"{case}: {page.devices} devices, {held} held; expected {GPUS * count} and {expected}")
    if len(body) > SIZE_MAX:
        faults.append(f"{case}: {len(body)} bytes, more than {SIZE_MAX}")
    if median_s > MEDIAN_MAX_S:
        faults.append(f"{case}: {median_s:.3f} s, more than {MEDIAN_MAX_S} s")
    return faults


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.devices", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--case", choices=CASES, nargs="+", default=CASES)
    chosen = parser.parse_args(arguments)
    end_in_good_order()
    print(Setting.here())
    faults = []
    for case in chosen.case:
        with tempfile.TemporaryDirectory() as folder:
            faults += measured(case, chosen.nodes, chosen.runs, Path(folder))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
