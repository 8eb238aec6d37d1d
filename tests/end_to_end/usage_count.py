"""GPU time of real pods, counted without the code that accounts for it.

When a pod was bound and when it had ended is read from the ledger's file with SQL; what it held, and whose it is, from
the scenario; when its program ran, from the process table. What the API answers is compared with that.
"""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from fairpool.api.client import Client
from fairpool.control.moments import instant, iso
from fairpool.model.ids import Instant

HOUR_S = 3600
FOR_OTHERS = ("preempted", "moved")
"""Causes by which work is lost here."""
ROUNDED_S = 0.02
"""Hours have six decimals."""


@dataclass(frozen=True, slots=True)
class Job:
    """What was submitted."""

    name: str
    project: str
    gpus: float


@dataclass(frozen=True, slots=True)
class PodTime:
    """One pod, from the moment it was bound until its end was recorded; in milliseconds."""

    pod: str
    job: Job
    node: str
    begin: int
    end: int | None
    cause: str

    def seconds(self, until: int) -> float:
        end = until if self.end is None else min(self.end, until)
        return max(0, end - self.begin) / 1000

    def holds_at(self, moment: int) -> bool:
        return self.begin <= moment and (self.end is None or moment < self.end)


def pod_times(ledger: Path, jobs: Mapping[str, Job]) -> list[PodTime]:
    """All pods that were ever bound. `jobs`: by the ids of their workloads."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as file:
        lines = file.execute(
            "SELECT kind, pod, workload, node, at, cause FROM events WHERE pod NOT NULL ORDER BY number"
        )
        ends: dict[str, tuple[int, str]] = {}
        bound: dict[str, tuple[str, str, int]] = {}
        for kind, pod, workload, node, at, cause in lines:
            if kind == "bound":
                assert pod not in bound, f"{pod} was bound twice"
                bound[pod] = workload, node, at
            elif kind == "ended":
                assert pod not in ends, f"{pod} ended twice"
                ends[pod] = at, cause
    return [
        PodTime(pod, jobs[workload], node, at, *ends.get(pod, (None, "")))
        for pod, (workload, node, at) in sorted(bound.items(), key=lambda each: each[1][2])
    ]


def soon(check: Callable[[], None], patience_s: float = 60.0) -> None:
    """The last lines may still be on their way to the control plane."""
    end = time.monotonic() + patience_s
    while True:
        try:
            check()
        except AssertionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return


def held(times: Iterable[PodTime], project: str, moment: int) -> float:
    """GPUs of a project at a moment."""
    return round(sum(each.job.gpus for each in times if each.job.project == project and each.holds_at(moment)), 3)


def over_quota_s(times: Sequence[PodTime], project: str, quota: float, until: int) -> float:
    """GPU seconds beyond the quota, one piece after the other in which nothing changes."""
    moments = {until}
    for each in times:
        moments |= {min(each.begin, until), until if each.end is None else min(each.end, until)}
    return sum(
        max(0.0, held(times, project, begin) - quota) * (end - begin) / 1000 for begin, end in pairwise(sorted(moments))
    )


def compare_accounting(
    client: Client,
    times: Sequence[PodTime],
    user: str,
    quotas: Mapping[str, float] | None = None,
    *,
    now: int | None = None,
    within_s: float = ROUNDED_S,
) -> None:
    """Every figure of the accounting is that of this count; what is over quota, where there are quotas."""
    now = int(time.time() * 1000) if now is None else now
    groups: dict[str, Callable[[PodTime], str]] = {
        "project": lambda each: each.job.project,
        "workload": lambda each: each.job.name,
        "node": lambda each: each.node,
        "user": lambda each: user,
        "nodePool": lambda each: "default",
    }
    for group, value in groups.items():
        allocated: dict[str, float] = defaultdict(float)
        lost: dict[str, float] = defaultdict(float)
        for each in (each for each in times if each.job.gpus):
            allocated[value(each)] += each.job.gpus * each.seconds(now)
            lost[value(each)] += each.job.gpus * each.seconds(now) if each.cause in FOR_OTHERS else 0.0
        rows = client.usage(start="1d", end=iso(Instant(now)), groupBy=group).rows
        field = {"nodePool": "node_pool"}.get(group, group)
        found = {getattr(row, field): row for row in rows if row.gpu_hours_allocated}
        assert {name: row.gpu_hours_allocated * HOUR_S for name, row in found.items()} == pytest.approx(
            dict(allocated), abs=within_s
        ), group
        assert {name: row.gpu_hours_lost * HOUR_S for name, row in found.items()} == pytest.approx(
            dict(lost), abs=within_s
        ), group
        if group == "project" and quotas is not None:
            beyond = {name: (row.gpu_hours_over_quota or 0.0) * HOUR_S for name, row in found.items()}
            assert beyond == pytest.approx(
                {name: over_quota_s(times, name, quotas[name], now) for name in found}, abs=within_s
            )


# --- samples -----------------------------------------------------------------------------------------------------

SAMPLE_MS = 10_000
LATE_MS = 15_000
"""A sample is added up with what the control plane knows when it comes: a little older or newer than the sample."""


def series(client: Client, path: str, metric: str, since: int, until: int | None = None) -> dict[int, float]:
    """Values by moment, in milliseconds: every sample that was taken since then."""
    now = int(time.time() * 1000) if until is None else until
    first = -(-since // SAMPLE_MS) * SAMPLE_MS
    if first + 1000 > now:
        return {}
    query = {"metricType": metric, "start": iso(Instant(first)), "end": iso(Instant(now)), "numberOfSamples": 1000}
    answer = client._get(f"{path}/metrics", query)
    assert answer["pointSeconds"] * 1000 == SAMPLE_MS
    return {
        int(instant(point["timestamp"]) or 0): float(point["value"])
        for measured in answer["measurements"]
        for point in measured["values"]
    }


def compare_allocation(client: Client, times: Sequence[PodTime], projects: Iterable[str], since: int) -> None:
    """What a sample says a project held, it held around that time; all together, never more than there is."""
    by_project = {
        project: series(client, f"/api/v1/org-unit/projects/{project}", "GPU_ALLOCATION", since) for project in projects
    }
    changes = {moment for each in times for moment in (each.begin, each.end) if moment is not None}
    for project, values in by_project.items():
        for at, value in values.items():
            around = {at - LATE_MS, at + LATE_MS, *(each for each in changes if abs(each - at) < LATE_MS)}
            possible = {held(times, project, each) for each in around}
            assert round(value, 3) in possible, (project, at, value, possible)
    for at in set.intersection(*(set(each) for each in by_project.values())):
        assert sum(values[at] for values in by_project.values()) <= 16.001


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds of CPU that programs had used by a moment, by workload and the mark of the pod."""

    at: int
    used_s: Mapping[tuple[str, str], float]


def compare_cpu(client: Client, before: CpuTimes, after: CpuTimes, jobs: Mapping[str, Job]) -> None:
    """What the samples between two moments add up to is what the kernel counted, of those that ran all the time; and
    simulated devices are as busy as their pods."""
    stayed = before.used_s.keys() & after.used_s.keys()
    assert stayed
    for workload, mark in stayed:
        path = f"/api/v1/workloads/{workload}"
        cores = series(client, path, "CPU_USAGE_CORES", before.at)
        counted_s = after.used_s[workload, mark] - before.used_s[workload, mark]
        assert sum(cores.values()) * SAMPLE_MS / 1000 == pytest.approx(counted_s, rel=0.2, abs=0.15), jobs[workload]
        gpus = jobs[workload].gpus
        part = gpus if gpus < 1 else 1 / gpus
        expected = {at: 100 * value * part for at, value in cores.items()}
        assert series(client, path, "GPU_UTILIZATION", before.at) == pytest.approx(expected, rel=0.01)


# --- processes ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ProgramTime:
    """The program of a pod, as it was seen in the process table; in milliseconds since the epoch."""

    job: str
    began: int
    last_seen: int


def compare_processes(times: Sequence[PodTime], program_times: Iterable[ProgramTime]) -> None:
    """No program ran while its pod held nothing."""
    seen: dict[str, list[ProgramTime]] = defaultdict(list)
    for each in sorted(program_times, key=lambda each: each.began):
        seen[each.job].append(each)
    for job in {each.job.name for each in times}:
        mine = [each for each in times if each.job.name == job]
        assert len(mine) == len(seen[job]), (job, mine, seen[job])
        for pod, program in zip(mine, seen[job], strict=True):
            assert pod.begin <= program.began + CLOCK_MS, (pod, program)
            assert pod.end is None or program.last_seen <= pod.end + CLOCK_MS, (pod, program)


CLOCK_MS = 50
"""Process start times are in hundredths of a second since the machine was started."""
