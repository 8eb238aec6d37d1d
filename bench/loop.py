"""Cycles of the cluster loop, in process: idle, after one change, after a burst of submits, and its start.

    python -m bench.loop [--size N ...] [--nodes N --running N --waiting N] [--queues N] [--cycles K] [--json FILE]

A simulated cluster runs a pod on every GPU, and more pods wait. `--size N` is short for N nodes with 8 GPUs each and as
many waiting pods as nodes. `--queues` spreads the work over so many projects, in departments, in divisions. Ledger (a
file, every commit on disk), control plane (in memory) and simulated engine are the real ones. The loop leaves its
reports with its link and is not slowed down by what becomes of them, as in a cluster: they are sent between cycles,
outside of what is measured; so are pulls, of which the loop takes the answer.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench._report import Column, Line, Setting, Table, progress
from fairpool.api.clusters import PullAnswer
from fairpool.api.declarations import OrganizationWire
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.loop import Loop
from fairpool.cluster.report_queue import Offered
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import Instant, NodeName, QueueId, Revision, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.organization import Organization, Queue, gpu_entitlement
from fairpool.model.spec import Arrangement, PodTemplate, WorkloadSpec
from fairpool.model.workload import PodShape, whole_gpus
from fairpool.simulation.control_driver import ControlDriver

GPUS = 8
SIZES = (100, 1000, 10_000)
FAN_OUT = 10
"""Projects in a department, departments in a division."""
BURST = 10_000
ONE_GPU = PodTemplate(shape=PodShape(gpu=whole_gpus(1), cpu_milli=1000, memory_bytes=1 << 30))
COLUMNS = (
    Column("pods", 8, "pods"),
    Column("median", 10, "median_s", is_time=True),
    Column("p99", 10, "p99_s", is_time=True),
    Column("max", 10, "max_s", is_time=True),
    Column("cycles", 7, "samples"),
    Column("MiB", 7, "memory_mib"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the cluster is."""

    nodes: int
    running: int
    waiting: int
    queues: int = 1

    @property
    def gpus(self) -> int:
        """Of each node."""
        return self.running // self.nodes


class LevelledControl(ControlDriver):
    """A control plane whose departments belong to divisions, a third level of queues."""

    divisions: tuple[Queue, ...] = ()
    levelled: tuple[Queue, ...] = ()

    def pull(self, after: Revision, wait_s: float = 0.0) -> PullAnswer:
        answer = super().pull(after, wait_s)
        if answer.organization is None or not self.levelled:
            return answer
        organization = replace(answer.organization.to_organization(), queues={DEFAULT_POOL: self.levelled})
        return answer.model_copy(update={"organization": OrganizationWire.of(organization)})


class BesideLink(ControlLink):
    """A link that calls the control plane when it is called, not while the loop runs."""

    answer: PullAnswer | None = None

    def pull(self, now: Instant, after: Revision) -> PullAnswer | None:
        return self.answer if self.answer is not None and self.answer.after == after else None

    def report(self, now: Instant, token: Token, offered: Offered) -> None:
        self.state.reports.offer(offered)

    def exchange(self, now: Instant, after: Revision, token: Token) -> None:
        """What the threads of a link do."""
        self.send(now, token)
        self.answer = super().pull(now, after)
        if self.answer is not None:
            self.answer.convert()


class Cluster:
    """A full cluster with its loop, settled."""

    def __init__(self, size: Size, folder: Path) -> None:
        self.size = size
        self.clock = VirtualClock(Instant(1_000_000))
        machines = (
            Node(
                name=NodeName(f"n{number:05d}"),
                cpu_milli=64_000,
                memory_bytes=256 << 30,
                gpus=size.gpus,
                gpu_memory_mib=32_510,
            )
            for number in range(size.nodes)
        )
        self.engine = SimulatedEngine(self.clock, machines)
        self.control = LevelledControl(self.clock.now)
        self.projects = self._declare_queues()
        self.submitted = 0
        for _ in range(size.nodes):
            self.submit("run", size.gpus)
        self.path = folder / "ledger.db"
        self.ledger = Ledger(self.path)
        self.link = BesideLink(self.control, "bench")
        self.loop = Loop(self.ledger, self.engine, self.link, self.clock.now)
        self.settle()
        for _ in range(size.waiting):
            self.submit("wait", 1)
        self.settle()

    def _declare_queues(self) -> list[QueueId]:
        size = self.size
        names = [QueueId(f"team-{number:04d}") for number in range(size.queues)]
        quota = gpu_entitlement(size.running * 1000 // size.queues)
        self.control.declare(Organization(queues={DEFAULT_POOL: tuple(Queue(id=name, gpu=quota) for name in names)}))
        if size.queues > 1:
            self.control.levelled = tuple(_levelled(names, quota.quota))
        return names

    def submit(self, name: str, pods: int) -> None:
        name = f"{name}-{self.submitted:06d}"
        spec = WorkloadSpec(
            id=WorkloadId(name),
            name=name,
            project=self.projects[self.submitted % len(self.projects)],
            created_at=self.clock.now(),
            template=ONE_GPU,
            arrangement=Arrangement.SWEEP,
            pods=pods,
        )
        self.submitted += 1
        refused = self.control.submit(spec)
        assert refused is None, refused

    def exchange(self) -> None:
        self.link.exchange(self.clock.now(), self.loop.cache.cursor or Revision(0), self.loop.token)

    def settle(self) -> None:
        """Until there is nothing left to do, nor to report."""
        for _ in range(1000):
            self.clock.advance(1)
            self.exchange()
            if not self.loop.run_cycle() and not self.link.state.reports.has_more and self.link.answer is None:
                break
        gc.collect()
        gc.freeze()

    def running(self) -> int:
        return sum(pod.phase is PodPhase.RUNNING for pods in self.loop.cache.pods.values() for pod in pods)

    # --- what is measured; each returns the function to measure ---

    def idle(self) -> Callable[[], None]:
        """Nothing is new."""
        self.clock.advance(0.1)
        return self._cycle

    def _cycle(self) -> None:
        self.loop.run_cycle()

    def one_change(self) -> Callable[[], None]:
        """One pod ends, another takes its place: until the loop is quiet again."""
        self.settle()
        self.clock.advance(60)
        self.engine.crash(self.engine.alive()[0], exit_code=0)
        return self._until_quiet

    def _until_quiet(self) -> None:
        for _ in range(20):
            if not self.loop.run_cycle():
                return

    def burst(self) -> Callable[[], None]:
        """Many submits at once, until each has a place or a verdict."""
        self.settle()
        before = len(self.loop.cache.verdicts)
        for _ in range(BURST):
            self.submit("burst", 1)
        self.exchange()

        def decide() -> None:
            self.loop.run_cycle()
            assert len(self.loop.cache.verdicts) >= before + BURST, "not all of them were decided"

        return decide

    def restart(self) -> Callable[[], None]:
        """The cache from the ledger, as at the start of a process."""

        def load() -> None:
            LedgerCache(self.ledger.load())

        return load


def _levelled(projects: Sequence[QueueId], quota_milli: int) -> list[Queue]:
    """Projects in departments in divisions."""
    queues: list[Queue] = []
    names = list(projects)
    level = 0
    while True:
        level += 1
        above = [QueueId(f"level-{level}-{number:03d}") for number in range(-(-len(names) // FAN_OUT))]
        is_top = level == 3
        for number, name in enumerate(names):
            parent = None if is_top else above[number // FAN_OUT]
            queues.append(Queue(id=name, parent=parent, gpu=gpu_entitlement(quota_milli)))
        if is_top:
            return queues
        names, quota_milli = above, quota_milli * FAN_OUT


def measure(prepare: Callable[[], Callable[[], None]], cycles: int, limit_s: float = 60) -> dict[str, Any]:
    """How long it takes, again and again."""
    times: list[float] = []
    while len(times) < cycles and sum(times) < limit_s:
        work = prepare()
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    times.sort()
    return {
        "median_s": times[len(times) // 2],
        "p99_s": times[min(len(times) - 1, int(0.99 * len(times)))],
        "max_s": times[-1],
        "samples": len(times),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def measured(size: Size, cycles: int, changes: int) -> list[Line]:
    """All cases at one size."""
    progress(f"{size.nodes} nodes: building")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(size, Path(folder))
        running = cluster.running()
        faults = [] if running == size.running else [f"{running} pods run, not {size.running}"]
        lines = []
        cases = [
            ("idle", cluster.idle, cycles),
            ("one-change", cluster.one_change, changes),
            ("restart", cluster.restart, 3),
            ("burst", cluster.burst, 1),
        ]
        for name, prepare, times in cases:
            progress(f"{size.nodes} nodes: {name}")
            prepare()()
            line = Line(name, {"nodes": size.nodes, "queues": size.queues}, size.nodes)
            line.metrics, line.faults = {"pods": running, **measure(prepare, times)}, list(faults)
            lines.append(line)
        cluster.ledger.close()
    gc.unfreeze()
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.loop", description=__doc__.split("\n")[0])
    parser.add_argument("--size", action="extend", nargs="+", default=[], type=int, metavar="N", help="nodes")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes of one size of your own")
    parser.add_argument("--running", type=int, metavar="N", help="pods that run there (default 8 a node)")
    parser.add_argument("--waiting", type=int, metavar="N", help="pods that wait there (default one a node)")
    parser.add_argument("--queues", type=int, default=1, metavar="N", help="projects; above 1 in three levels")
    parser.add_argument("--cycles", type=int, default=1000, metavar="K", help="idle cycles (default 1000)")
    parser.add_argument("--changes", type=int, default=50, metavar="K", help="changes, one at a time (default 50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS)
    table.head()
    lines = []
    for size in _sizes(options):
        for line in measured(size, options.cycles, options.changes):
            table.add(line, "; ".join(line.faults))
            lines.append(line)
    if options.json:
        options.json.write_text("".join(f"{line.as_json('loop', setting)}\n" for line in lines))
    return 1 if any(line.faults for line in lines) else 0


def _sizes(options: argparse.Namespace) -> list[Size]:
    nodes = [options.nodes] if options.nodes else sorted(set(options.size)) or SIZES
    return [
        Size(
            nodes=each,
            running=options.running or each * GPUS,
            waiting=each if options.waiting is None else options.waiting,
            queues=options.queues,
        )
        for each in nodes
    ]


if __name__ == "__main__":
    sys.exit(main())
