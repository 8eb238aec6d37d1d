"""Runs jobs in simulated time through the real scheduler, plan after plan, on machines that never fail.

A job is a pod group of preemptible training: one pod up to 8 GPUs, beyond that a gang of 8-GPU pods and one with the
rest. A plan is made when a job was submitted, stopped or ended, and when the last plan said that time alone changes
something, but at most once in `every_s`. Stopping takes no time: a job that was promised a place starts on it at once.
A job that was stopped or moved keeps the work that is done and spends `restart_s` before going on with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from bench._philly import HOUR_S, Job, Meter
from bench._worlds import GPUS_PER_NODE, gpus
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Queue
from fairpool.model.workload import Pod, PodGroup, PodSet, SubGroup, WorkloadKind
from fairpool.scheduler.decision import Bind, Plan, Promise
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

NEVER = 1 << 60
USAGE_DIGITS = 4

Place = tuple[NodeName, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How jobs are run and shared."""

    policy: Policy = field(default_factory=Policy.product)
    restart_s: int = 300
    every_s: int = 60
    levels_gpu_h: tuple[float, ...] = ()
    """Order inside a queue: a job that has had so many GPU hours is from then on of lower priority, by one for each."""
    usage_half_life_s: int = 0
    """How long what a queue has used is remembered against it; 0: not at all."""


class Cluster:
    """Jobs on nodes, as the rows that the scheduler is shown. Rows that do not change are the same objects."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[Queue], knobs: Knobs) -> None:
        self.nodes = tuple(nodes)
        self.queues = tuple(queues)
        self.knobs = knobs
        self.groups: dict[int, PodGroup] = {}
        self.pods: dict[int, tuple[Pod, ...]] = {}
        self._incarnations: dict[int, int] = {}
        self._priority = knobs.policy.kinds[WorkloadKind.TRAIN].priority
        self._used_at_s = 0

    def snapshot(self, now_s: int) -> Snapshot:
        return Snapshot(
            now=_instant(now_s),
            nodes=self.nodes,
            queues=self.queues,
            groups=tuple(self.groups.values()),
            pods=tuple(pod for pods in self.pods.values() for pod in pods),
            policy=self.knobs.policy,
        )

    def add(self, job: Job) -> None:
        sizes = pod_sizes(job.gpus)
        name = GroupId(f"job-{job.number:06d}")
        tree = SubGroup(pod_sets=(PodSet(minimum=len(sizes)),))
        group = PodGroup(id=name, queue=job.queue, created_at=_instant(job.submit_s), tree=tree)
        self.groups[job.number] = group
        self.pods[job.number] = tuple(
            Pod(id=PodId(f"{name}-{place}"), group=name, shape=gpus(size), created_at=group.created_at)
            for place, size in enumerate(sizes)
        )

    def remove(self, number: int) -> None:
        del self.groups[number], self.pods[number]

    def start(self, number: int, places: Mapping[int, Place], now_s: int) -> None:
        """Start a job, each pod on its place."""
        self.groups[number] = replace(self.groups[number], started_at=_instant(now_s))
        self.pods[number] = tuple(
            replace(pod, phase=PodPhase.RUNNING, node=places[each][0], devices=places[each][1])
            for each, pod in enumerate(self.pods[number])
        )

    def stop(self, number: int) -> None:
        """Its pods come back as their replacements."""
        life = self._incarnations[number] = self._incarnations.get(number, 0) + 1
        group = self.groups[number]
        self.groups[number] = replace(group, started_at=None)
        self.pods[number] = tuple(
            replace(pod, id=PodId(f"{group.id}-{each}.{life}"), phase=PodPhase.WAITING, node=None, devices=())
            for each, pod in enumerate(self.pods[number])
        )

    def sink(self, number: int, level: int) -> None:
        self.groups[number] = replace(self.groups[number], priority=self._priority - level)

    def remember_use(self, held: Mapping[QueueId, int], gpus: int, now_s: int) -> None:
        """Let what queues hold now count as what they held since the last call."""
        fade = 0.5 ** ((now_s - self._used_at_s) / self.knobs.usage_half_life_s)
        self._used_at_s = now_s
        self.queues = with_use(self.queues, held, gpus, fade)


def with_use(queues: Iterable[Queue], held: Mapping[QueueId, int], gpus: int, fade: float) -> tuple[Queue, ...]:
    """The queues, what they used before faded to such a part, and the rest made up of what they hold."""
    return tuple(
        replace(queue, gpu=replace(queue.gpu, usage=round(fade * queue.gpu.usage + (1 - fade) * part, USAGE_DIGITS)))
        for queue in queues
        for part in (held.get(queue.id, 0) / gpus,)
    )


def pod_sizes(count: int) -> list[int]:
    """GPUs of each pod of a job: whole nodes, and a rest."""
    whole, rest = divmod(count, GPUS_PER_NODE)
    return [GPUS_PER_NODE] * whole + [rest] * bool(rest)


def _instant(seconds: int) -> Instant:
    return Instant(seconds * SECOND_MS)


@dataclass(slots=True)
class Progress:
    """How far a job is."""

    job: Job
    left_s: int
    """Work."""
    held_s: int = 0
    """Time it had its GPUs for in earlier pods."""
    life: int = 0
    level: int = 0
    runs: bool = False
    began_s: int = 0
    """When it got the place it has."""
    loading_s: int = 0
    """How long it spends there before it goes on."""


Event = tuple[int, int, int]
"""When, to which job, in which of its pods."""


class Simulation:
    """Jobs from the first submission to the last end."""

    def __init__(self, jobs: Sequence[Job], cluster: Cluster, meter: Meter) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.meter = meter
        self.knobs = cluster.knobs
        self.now_s = 0
        self.progress: dict[int, Progress] = {}
        """Jobs that are there."""
        self.plans = 0
        self.planning_s = 0.0
        """CPU time."""
        self._coming = 0
        self._ends: list[Event] = []
        self._sinks: list[Event] = []
        self._plan_at_s = NEVER
        self._planned_at_s = -NEVER

    @property
    def next_s(self) -> int:
        """When something happens next."""
        return min(
            self.jobs[self._coming].submit_s if self._coming < len(self.jobs) else NEVER,
            self._ends[0][0] if self._ends else NEVER,
            self._sinks[0][0] if self._sinks else NEVER,
            self._plan_at_s,
        )

    @property
    def unfinished(self) -> int:
        """Jobs that are there."""
        return len(self.progress)

    def costs(self) -> dict[str, float]:
        """What it took, in plans and their CPU time."""
        return {"planning_cpu_s": self.planning_s, "plans": self.plans}

    def leftovers(self) -> list[str]:
        """Nothing can be left here but in what is measured."""
        return []

    def run(self, until_s: int = NEVER) -> None:
        while self.next_s < until_s:
            self.step()

    def step(self) -> None:
        """Go on to the next thing that happens, and plan if it is time."""
        self.now_s = self.next_s
        if self._end_jobs() | self._sink_jobs() | self._submit_jobs():
            self._plan_soon(self.now_s)
        if self._plan_at_s <= self.now_s:
            self._plan()

    def _submit_jobs(self) -> bool:
        first = self._coming
        while self._coming < len(self.jobs) and self.jobs[self._coming].submit_s <= self.now_s:
            job = self.jobs[self._coming]
            self.cluster.add(job)
            self.meter.submitted(job, self.now_s)
            self.progress[job.number] = Progress(job, job.duration_s)
            self._coming += 1
        return self._coming > first

    def _end_jobs(self) -> bool:
        ended = self._due(self._ends)
        for progress in ended:
            self.meter.ended(progress.job, self.now_s, progress.loading_s)
            self.cluster.remove(progress.job.number)
            del self.progress[progress.job.number]
        return bool(ended)

    def _sink_jobs(self) -> bool:
        sinking = self._due(self._sinks)
        for progress in sinking:
            progress.level += 1
            self.cluster.sink(progress.job.number, progress.level)
            self._sink_later(progress)
        return bool(sinking)

    def _due(self, events: list[Event]) -> list[Progress]:
        """Jobs that something happens to now, unless they were stopped in the meantime."""
        due = []
        while events and events[0][0] <= self.now_s:
            _, number, life = heappop(events)
            progress = self.progress.get(number)
            if progress is not None and progress.runs and progress.life == life:
                due.append(progress)
        return due

    def _sink_later(self, progress: Progress) -> None:
        levels = self.knobs.levels_gpu_h
        if progress.level < len(levels):
            after_s = math.ceil(levels[progress.level] * HOUR_S / progress.job.gpus) - progress.held_s
            heappush(self._sinks, (progress.began_s + max(after_s, 0), progress.job.number, progress.life))

    def _plan_soon(self, at_s: int) -> None:
        self._plan_at_s = min(self._plan_at_s, max(at_s, self._planned_at_s + self.knobs.every_s))

    def _plan(self) -> None:
        if self.knobs.usage_half_life_s:
            self.cluster.remember_use(self.meter.held, self.meter.gpus, self.now_s)
        seen = self.cluster.snapshot(self.now_s)
        before = time.process_time()
        planned = plan(seen)
        self.planning_s += time.process_time() - before
        self.plans += 1
        self._planned_at_s, self._plan_at_s = self.now_s, NEVER
        self._carry_out(planned)
        if planned.quiet_until is not None:
            self._plan_soon(-(-planned.quiet_until // SECOND_MS))
        if planned.evictions:
            self._plan_soon(self.now_s)

    def _carry_out(self, planned: Plan) -> None:
        for number in sorted({_job(each.group) for each in planned.evictions}):
            self._stop(self.progress[number])
        places: dict[int, dict[int, Place]] = {}
        given: tuple[Bind | Promise, ...] = (*planned.binds, *planned.promises)
        for each in given:
            places.setdefault(_job(each.group), {})[_pod(each.pod)] = (each.node, each.devices)
        for number, mine in places.items():
            self._start(self.progress[number], mine)

    def _stop(self, progress: Progress) -> None:
        held_s = self.now_s - progress.began_s
        lost_s = min(held_s, progress.loading_s)
        progress.left_s -= held_s - lost_s
        progress.held_s += held_s
        progress.runs = False
        progress.life += 1
        self.cluster.stop(progress.job.number)
        self.meter.stopped(progress.job, self.now_s, lost_s)

    def _start(self, progress: Progress, places: Mapping[int, Place]) -> None:
        number = progress.job.number
        self.cluster.start(number, places, self.now_s)
        self.meter.started(progress.job, self.now_s)
        progress.runs, progress.began_s = True, self.now_s
        progress.loading_s = self.knobs.restart_s if progress.life else 0
        heappush(self._ends, (self.now_s + progress.loading_s + progress.left_s, number, progress.life))
        self._sink_later(progress)


def _job(group: GroupId) -> int:
    return int(group.rpartition("-")[2])


def _pod(pod: PodId) -> int:
    return int(pod.rpartition("-")[2].partition(".")[0])
