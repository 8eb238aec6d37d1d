"""Who submits what and when: made up from a seed, or read from a table of what was submitted somewhere."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import SECOND_MS, Instant, QueueId, WorkloadId
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI, parse_gpus
from fairpool.model.spec import Arrangement, PodTemplate, Program, RestartPolicy, WorkloadSpec
from fairpool.model.workload import NO_GPU, GpuRequest, PodShape, WorkloadKind, gpu_memory, gpu_portion, whole_gpus

GIB = 1024**3
POD_GPUS_MAX = 8
"""A job of a table with more GPUs than this is spread over several pods."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload and the moment at which it is submitted."""

    at: Instant
    spec: WorkloadSpec


def arrivals(seed: int, projects: Sequence[QueueId], count: int, *, start: Instant, gap_s: float = 30) -> list[Arrival]:
    """So many workloads of every kind, `gap_s` apart on average. The first seven are of seven kinds."""
    dice = Random(f"arrivals {seed}")
    at = start
    listed: list[Arrival] = []
    makers: list[Maker] = []
    for number in range(count):
        at = Instant(at + round(dice.expovariate(1 / gap_s) * SECOND_MS))
        makers = makers or dice.sample(list(MAKERS), len(MAKERS))
        listed.append(Arrival(at, _workload(makers.pop(), number, at, dice.choice(projects), dice)))
    return listed


Maker = Callable[[WorkloadSpec, Random], WorkloadSpec]


def _workload(make: Maker, number: int, at: Instant, project: QueueId, dice: Random) -> WorkloadSpec:
    name = f"{make.__name__.strip('_').replace('_', '-')}-{number:05}"
    plain = WorkloadSpec(id=WorkloadId(name), name=name, project=project, created_at=at, template=_template(dice))
    spec = make(plain, dice)
    return replace(
        spec,
        priority=dice.choice((None, None, None, 50, 75, 100, 125)),
        deadline_s=dice.choice((None, None, None, 1800, 14400)),
        ttl_s=dice.choice((None, None, 0, 600)),
        retries=dice.choice((None, None, 0, 1, 3)),
        grace_s=dice.choice((30, 30, 0, 5, 60)),
    )


def _train(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    return replace(spec, restart=dice.choice((None, None, RestartPolicy.NEVER)))


def _build(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    return replace(spec, kind=WorkloadKind.BUILD, preemptible=dice.choice((None, False)))


def _preemptible_build(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    return replace(spec, kind=WorkloadKind.BUILD, preemptible=True)


def _sweep(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    at_once = dice.randint(1, 4)
    completions = dice.choice((None, at_once + dice.randint(0, 6)))
    return replace(spec, arrangement=Arrangement.SWEEP, pods=at_once, completions=completions)


def _distributed(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    leader = PodTemplate(shape=PodShape(cpu_milli=1000, memory_bytes=2 * GIB), program=spec.template.program)
    return replace(spec, pods=dice.randint(2, 5), leader=dice.choice((None, leader)))


def _elastic(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    pods = dice.randint(2, 6)
    return replace(spec, pods=pods, minimum=dice.randint(1, pods - 1))


def _inference(spec: WorkloadSpec, dice: Random) -> WorkloadSpec:
    return replace(spec, kind=WorkloadKind.INFERENCE, arrangement=Arrangement.REPLICAS, pods=dice.randint(1, 4))


MAKERS: tuple[Maker, ...] = (_train, _build, _preemptible_build, _sweep, _distributed, _elastic, _inference)


def _template(dice: Random) -> PodTemplate:
    shape = PodShape(
        gpu=_gpu_request(dice),
        cpu_milli=dice.choice((0, 500, 1000, 4000)),
        memory_bytes=dice.choice((0, 1, 4, 16)) * GIB,
    )
    return PodTemplate(shape=shape, program=Program(image="example/program:1", command=("run",)))


def _gpu_request(dice: Random) -> GpuRequest:
    return dice.choice(
        (
            whole_gpus(dice.choice((1, 1, 2, 4, 8))),
            whole_gpus(1),
            gpu_portion(dice.choice((100, 250, 333, 500, 750))),
            gpu_portion(500, devices=2),
            gpu_memory(dice.choice((2_000, 8_000, 20_000))),
            NO_GPU,
        )
    )


@dataclass(frozen=True, slots=True)
class Trace:
    """What a table says: who comes when, and how long each works."""

    arrivals: tuple[Arrival, ...]
    work_s: Mapping[WorkloadId, float]

    def behaviour_of(self, order: StartOrder) -> Behaviour:
        """Everything at once but the work itself, all of which is kept when the pod is moved."""
        return Behaviour(run_s=self.work_s[order.workload])


def read_trace(lines: Iterable[str], start: Instant) -> Trace | tuple[Problem, ...]:
    """A table with the columns job, project, submit_s, gpus, duration_s and, if it has it, kind. Or what is wrong."""
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
    """How many equal pods, and what each asks for, so that together they have just these GPUs."""
    if gpu_milli == 0:
        return 1, NO_GPU
    if gpu_milli < WHOLE_GPU_MILLI:
        return 1, gpu_portion(gpu_milli)
    gpus = gpu_milli // WHOLE_GPU_MILLI
    pods = next(pods for pods in range(-(-gpus // POD_GPUS_MAX), gpus + 1) if gpus % pods == 0)
    return pods, whole_gpus(gpus // pods)
