"""Traces: submitted jobs, read from a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import SECOND_MS, Instant, QueueId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI, parse_gpus
from fairpool.model.spec import PodTemplate, Program, WorkloadSpec
from fairpool.model.workload import NO_GPU, GpuRequest, PodShape, WorkloadKind, gpu_portion, whole_gpus

POD_GPUS_MAX = 8
"""A job of a table with more GPUs than this is spread over several pods."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload and the moment at which it is submitted."""

    at: Instant
    spec: WorkloadSpec


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a table, and how long each works."""

    arrivals: tuple[Arrival, ...]
    work_s: Mapping[WorkloadId, float]

    def behaviour_of(self, order: StartOrder) -> Behaviour:
        """No delay but the work itself, all of which is kept when the pod is moved."""
        return Behaviour(run_s=self.work_s[order.workload])


def read_trace(lines: Iterable[str], start: Instant) -> Trace | tuple[Problem, ...]:
    """Read a table with the columns job, project, submit_s, gpus, duration_s and, optionally, kind; or all problems."""
    found: list[Arrival] = []
    work_s: dict[WorkloadId, float] = {}
    problems: list[Problem] = []
    for number, row in enumerate(csv.DictReader(lines), start=2):
        arrival = _arrival(row, start, number)
        if isinstance(arrival, Problem):
            problems.append(arrival)
        elif arrival.spec.id in work_s:
            problems.append(
                Problem("trace.twice", f"line {number}: {arrival.spec.id} appears twice", "rename one of them")
            )
        else:
            work_s[arrival.spec.id] = float(row["duration_s"])
            found.append(arrival)
    if problems:
        return tuple(problems)
    return Trace(tuple(sorted(found, key=lambda arrival: (arrival.at, arrival.spec.id))), work_s)


def _arrival(row: Mapping[str, str], start: Instant, number: int) -> Arrival | Problem:
    try:
        submit_s, duration_s = float(row["submit_s"]), float(row["duration_s"])
        job, project, gpus = row["job"], row["project"], parse_gpus(row["gpus"])
        kind = WorkloadKind(row.get("kind") or WorkloadKind.TRAIN)
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        fix = "every line needs job, project, submit_s, gpus and duration_s; kind is build, train or inference"
        return Problem("trace.line", f"line {number} cannot be read: {error!r}", fix)
    if isinstance(gpus, Problem):
        return replace(gpus, what=f"line {number}: {gpus.what}")
    if not 0 <= submit_s < float("inf") or not 0 <= duration_s < float("inf"):
        return Problem("trace.time", f"line {number} has a negative or infinite time", "give times in seconds")
    at = Instant(start + round(submit_s * SECOND_MS))
    pods, request = _pods(gpus)
    template = PodTemplate(shape=PodShape(gpu=request), program=Program(image="example/program:1"))
    spec = WorkloadSpec(
        id=WorkloadId(job), name=job, project=QueueId(project), created_at=at, kind=kind, template=template, pods=pods
    )
    return Arrival(at, spec)


def _pods(gpu_milli: int) -> tuple[int, GpuRequest]:
    """How many equal pods, and the request of each, that together have exactly these GPUs."""
    if gpu_milli == 0:
        return 1, NO_GPU
    if gpu_milli < WHOLE_GPU_MILLI:
        return 1, gpu_portion(gpu_milli)
    gpus = gpu_milli // WHOLE_GPU_MILLI
    pods = next(pods for pods in range(-(-gpus // POD_GPUS_MAX), gpus + 1) if gpus % pods == 0)
    return pods, whole_gpus(gpus // pods)
