"""Turns of the cluster loop, in process: idle, after one change, and its start from a full ledger.

    python -m bench.loop [--size N ...] [--turns K] [--json FILE]

A simulated cluster of nodes with 8 GPUs each runs a pod on every GPU, and as many pods again as nodes wait. Ledger
(a file, every commit on disk), link, control plane (in memory) and simulated engine are the real ones.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench._report import Column, Line, Setting, Table, progress
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.loop import Loop
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import Instant, NodeName, QueueId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.organization import Organization, Queue, gpu_entitlement
from fairpool.model.spec import Arrangement, PodTemplate, WorkloadSpec
from fairpool.model.workload import PodShape, whole_gpus
from fairpool.simulation.control_driver import ControlDriver

GPUS = 8
SIZES = (100, 1000, 10_000)
ONE_GPU = PodTemplate(shape=PodShape(gpu=whole_gpus(1), cpu_milli=1000, memory_bytes=1 << 30))
COLUMNS = (
    Column("pods", 8, "pods"),
    Column("median", 10, "median_s", is_time=True),
    Column("p99", 10, "p99_s", is_time=True),
    Column("max", 10, "max_s", is_time=True),
    Column("turns", 7, "samples"),
)


class Cluster:
    """A full cluster with its loop, settled."""

    def __init__(self, nodes: int, folder: Path) -> None:
        self.clock = VirtualClock(Instant(1_000_000))
        machines = (
            Node(
                name=NodeName(f"n{number:05d}"),
                cpu_milli=64_000,
                memory_bytes=256 << 30,
                gpus=GPUS,
                gpu_memory_mib=32_510,
            )
            for number in range(nodes)
        )
        self.engine = SimulatedEngine(self.clock, machines)
        self.control = ControlDriver(self.clock.now)
        queue = Queue(id=QueueId("team"), gpu=gpu_entitlement(nodes * GPUS * 1000))
        self.control.declare(Organization(queues={DEFAULT_POOL: (queue,)}))
        for number in range(nodes):
            self.submit(f"run-{number:05d}", GPUS)
        self.path = folder / "ledger.db"
        self.ledger = Ledger(self.path)
        self.loop = self.start()
        self.settle()
        for number in range(nodes):
            self.submit(f"wait-{number:05d}", 1)
        self.settle()

    def submit(self, name: str, pods: int) -> None:
        spec = WorkloadSpec(
            id=WorkloadId(name),
            name=name,
            project=QueueId("team"),
            created_at=self.clock.now(),
            template=ONE_GPU,
            arrangement=Arrangement.SWEEP,
            pods=pods,
        )
        refused = self.control.submit(spec)
        assert refused is None, refused

    def start(self) -> Loop:
        return Loop(self.ledger, self.engine, ControlLink(self.control, "bench"), self.clock.now)

    def settle(self) -> None:
        """Until there is nothing left to do, nor to tell."""
        for _ in range(1000):
            self.clock.advance(1)
            self.loop.run_cycle()
            if self.loop.next_wake() is None:
                break
        gc.collect()
        gc.freeze()

    def running(self) -> int:
        return sum(life.phase is PodPhase.RUNNING for lives in self.loop.cache.pods.values() for life in lives)

    # --- what is measured ---

    def idle(self) -> None:
        """Nothing is new."""
        self.clock.advance(0.1)
        self.loop.run_cycle()

    def one_change(self) -> None:
        """One pod ends, another takes its place: until the loop is quiet again."""
        self.clock.advance(60)
        self.engine.crash(self.engine.alive()[0], exit_code=0)
        for _ in range(20):
            if not self.loop.run_cycle():
                return

    def restart(self) -> None:
        """The books from the ledger, as at the start of a process."""
        LedgerCache(self.ledger.load())


def measure(work: Callable[[], None], turns: int, limit_s: float = 60) -> dict[str, Any]:
    """How long it takes, again and again."""
    times: list[float] = []
    while len(times) < turns and sum(times) < limit_s:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    times.sort()
    return {
        "median_s": times[len(times) // 2],
        "p99_s": times[min(len(times) - 1, int(0.99 * len(times)))],
        "max_s": times[-1],
        "samples": len(times),
    }


def measured(nodes: int, turns: int) -> list[Line]:
    """All cases at one size."""
    progress(f"{nodes} nodes: building")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(nodes, Path(folder))
        running = cluster.running()
        faults = [] if running == nodes * GPUS else [f"{running} pods run, not {nodes * GPUS}"]
        lines = []
        cases = (("idle", cluster.idle, turns), ("one-change", cluster.one_change, 50), ("restart", cluster.restart, 3))
        for name, work, times in cases:
            progress(f"{nodes} nodes: {name}")
            work()
            line = Line(name, {"nodes": nodes}, nodes)
            line.metrics, line.faults = {"pods": running, **measure(work, times)}, list(faults)
            lines.append(line)
        cluster.ledger.close()
    gc.unfreeze()
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.loop", description=__doc__.split("\n")[0])
    parser.add_argument("--size", action="extend", nargs="+", default=[], type=int, metavar="N", help="nodes")
    parser.add_argument("--turns", type=int, default=1000, metavar="K", help="idle turns (default 1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS)
    table.head()
    lines = []
    for nodes in sorted(set(options.size)) or SIZES:
        for line in measured(nodes, options.turns):
            table.add(line, "; ".join(line.faults))
            lines.append(line)
    if options.json:
        options.json.write_text("".join(f"{line.as_json('loop', setting)}\n" for line in lines))
    return 1 if any(line.faults for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
