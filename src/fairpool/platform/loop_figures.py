"""What the scheduling loop of a cluster counts and times, and what jobs report about themselves, for Prometheus.

The loop knows nothing of it: times are taken around its steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram

from fairpool.api.exposition import LookedUp, ProcessFigure, SeriesTable, labels, name_part, registry_text
from fairpool.model.ids import PoolName
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.snapshot import Snapshot

LOOP_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
JOB_VALUE: Final = "reporter_push_gateway_parameter_"
VALUES_MAX: Final = 64
"""Values of one job that have series."""
NAMES_MAX: Final = 256
"""Different names of such values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that runs, with what it reports."""

    workload: str
    name: str
    project: str
    pod: str
    reports: Mapping[str, Any]


class LoopFigures:
    """Of one loop."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """`registry`: that of the process; none: another part of this process has it."""
        self.registry = registry or CollectorRegistry(auto_describe=False)
        self._cycle_s = self._histogram("fairpool_loop_cycle_seconds", "Time of cycles in which something was decided")
        self._plan_s = self._histogram("fairpool_loop_plan_seconds", "Time to plan a node pool")
        self._commit_s = self._histogram("fairpool_ledger_commit_seconds", "Time to record a cycle in the ledger")
        self._since = 0.0
        self._look: Callable[[], Iterable[ProcessFigure]] | None = None

    def _histogram(self, name: str, words: str) -> Histogram:
        return Histogram(name, words, buckets=LOOP_S, registry=self.registry)

    def watch(self, look: Callable[[], Iterable[ProcessFigure]]) -> None:
        """`look`: what is looked up when a scrape comes, in place of what was before."""
        if self._look is None:
            self.registry.register(LookedUp(lambda: self._look() if self._look is not None else ()))
        self._look = look

    @property
    def text(self) -> str:
        return registry_text(self.registry)

    # --- called by the thread of the loop ---

    def note_cycle(self, took_s: float, was_busy: bool) -> None:
        if was_busy:
            self._cycle_s.observe(took_s)

    def note_snapshot(self, pool: PoolName, snapshot: Snapshot) -> None:
        self._since = time.perf_counter()

    def note_plan(self, pool: PoolName, snapshot: Snapshot, planned: Plan) -> None:
        self._plan_s.observe(time.perf_counter() - self._since)

    def note_step(self, step: str) -> None:
        if step == "decided":
            self._since = time.perf_counter()
        elif step == "recorded":
            self._commit_s.observe(time.perf_counter() - self._since)


def job_series(jobs: Iterable[RunningJob], cluster: str) -> str:
    """The numbers that jobs report, each as a series named after it. Names are whatever a job says."""
    table, names = SeriesTable({}), set[str]()
    left_out = 0
    for job in jobs:
        about = {"clusterId": cluster} if cluster else {}
        here = labels(**about, job_uuid=job.workload, job_name=job.name, project=job.project, pod_name=job.pod)
        seen: set[str] = set()
        for said, value in _numbers(job.reports):
            name = f"{JOB_VALUE}{name_part(said)}"
            if name in seen:
                continue
            if len(seen) >= VALUES_MAX or (name not in names and len(names) >= NAMES_MAX):
                left_out += 1
                continue
            seen.add(name)
            names.add(name)
            table.described(name, "Reported by jobs about themselves").add(here, value)
    table.described("fairpool_job_values_left_out", "Values of jobs without series, because there are too many").add(
        "", left_out
    )
    return "".join(table.texts)


def _numbers(reports: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    """Metrics, and parameters that are numbers."""
    for kind in ("metrics", "parameters"):
        values = reports.get(kind)
        for name, value in values.items() if isinstance(values, dict) else ():
            try:
                yield str(name), float(value)
            except (TypeError, ValueError):
                continue
