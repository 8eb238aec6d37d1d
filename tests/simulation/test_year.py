"""A year of work leaves no more behind than a month: rows, memory and files stay bounded."""

from __future__ import annotations

import gc
from pathlib import Path
from random import Random

import pytest

from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.loop import Loop
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import SECOND_MS, Instant, NodeName, QueueId
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.organization import Organization, Queue, gpu_entitlement
from fairpool.model.status import HOLDS_NOTHING
from fairpool.model.workload import WorkloadKind
from fairpool.simulation.control_driver import ControlDriver
from tests.fault_injection.random_workloads import arrivals, random_behaviour

DAY_S = 86_400
DAYS = 365
JOBS_A_DAY = 3


class Year:
    """A small cluster with jobs every day, whose users delete what is over."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(Instant(0))
        nodes = [
            Node(name=NodeName(f"n{number}"), cpu_milli=64_000, memory_bytes=256 << 30, gpus=8, gpu_memory_mib=32_510)
            for number in (1, 2)
        ]
        self.engine = SimulatedEngine(self.clock, nodes, random_behaviour(1, run_s=(600, 20_000), failing=0.1))
        self.control = ControlDriver(self.clock.now)
        self.projects = [QueueId("team-a"), QueueId("team-b")]
        queues = tuple(Queue(id=each, gpu=gpu_entitlement(8000)) for each in self.projects)
        self.control.declare(Organization(queues={DEFAULT_POOL: queues}))
        self.path = folder / "ledger.db"
        self.ledger = Ledger(self.path)
        self.link = ControlLink(self.control, "year")
        self.loop = Loop(self.ledger, self.engine, self.link, self.clock.now)
        jobs = arrivals(1, self.projects, DAYS * JOBS_A_DAY, start=Instant(0), gap_s=DAY_S / JOBS_A_DAY)
        self.jobs = [job for job in jobs if job.spec.kind is not WorkloadKind.INFERENCE]
        self.rng = Random(1)

    def run(self, until: Instant) -> None:
        while self.clock.now() < until:
            while self.jobs and self.jobs[0].at <= self.clock.now():
                self.control.submit(self.jobs.pop(0).spec)
            while self.loop.run_cycle():
                pass
            moments = [until, *(job.at for job in self.jobs[:1])]
            moments += [each for each in (self.engine.next_change_at, self.loop.next_wake()) if each is not None]
            self.clock.set(Instant(max(min(moments), self.clock.now() + 1000)))

    def clear_away(self) -> None:
        """Users delete what is over, and what can never run."""
        for report in self.control.workloads():
            spec = self.control.spec(report.id)
            waits_long = spec is not None and self.clock.now() - spec.created_at > 5 * DAY_S * SECOND_MS
            if report.phase in HOLDS_NOTHING or waits_long:
                self.control.delete(report.id)

    def sizes(self) -> dict[str, int]:
        """Everything that could grow without end."""
        gc.collect()
        cache = self.loop.cache
        image = self.ledger.load()
        return {
            "pods": len(image.pods),
            "states": len(image.states),
            "specs": len(image.specs),
            "events": len(self.ledger.events(0, 10**6)),
            "file": sum(each.stat().st_size for each in self.path.parent.iterdir()),
            "known pods": len(cache.workload_of),
            "reports": len(cache.reports),
            "stops": len(cache.stops_confirmed),
            "orphans": len(cache.orphans),
            "seen": len(self.engine.observe(self.loop.token).pods),
            "link": sum(len(kind._acknowledged) for kind in self.link.state.reports._kinds),
        }


@pytest.mark.slow
def test_a_year_leaves_no_more_behind_than_two_months(tmp_path: Path) -> None:
    year = Year(tmp_path)
    after: list[dict[str, int]] = []
    for day in range(1, DAYS + 1):
        year.run(Instant(day * DAY_S * SECOND_MS))
        year.clear_away()
        if day in (60, DAYS):
            after.append(year.sizes())
    two_months, a_year = after
    assert not year.engine.violations
    for name, size in a_year.items():
        assert size <= 2 * two_months[name] + 100, f"{name} grew from {two_months[name]} to {size}"
