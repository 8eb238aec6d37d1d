"""Runs the same jobs through the whole cluster loop: control plane, ledger, link and engine, in virtual time.

Each job is submitted to the control plane as by a user, and goes of itself once it is done. The loop runs when a job
was submitted, something looks different to the engine, or it asked to be woken, but at most once in `every_s`, and
then until it is quiet. What happened is read from the events that were reported to the control plane; only the second
in which a job ended is read from the engine, because the loop observes no more often than it runs. Ledger and control
plane keep their rows in memory: no disk is measured here. Levels inside a queue are left out: people cannot lower a
priority.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bench._fair import NEVER, Knobs, pod_sizes, with_use
from bench._philly import Job, Meter
from bench._worlds import gpus
from fairpool.api.clusters import EventReport, PullAnswer
from fairpool.api.declarations import OrganizationWire
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.history import EventKind
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.loop import Loop
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, PoolName, QueueId, Revision, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.observation import StartOrder
from fairpool.model.organization import NodeOverrides, Organization, Queue
from fairpool.model.spec import PodTemplate, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.scheduler.snapshot import Snapshot
from fairpool.simulation.control_driver import ControlDriver

CLUSTER = "bench"
CYCLES_MAX = 1000
"""A loop that is not quiet after so many cycles at one moment never will be."""

Happening = tuple[int, Callable[[], None]]
"""When, and the call that reports it to the meter."""


class Laps:
    """CPU time by step of a cycle. A lap ends with the step that is named."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}
        self._since = time.process_time()

    def start(self) -> None:
        self._since = time.process_time()

    def end(self, step: str) -> None:
        now = time.process_time()
        self.cpu_s[step] = self.cpu_s.get(step, 0.0) + now - self._since
        self._since = now


@dataclass(slots=True)
class Stay:
    """The time for which a job has its GPUs."""

    began_s: int
    ends_s: int
    """When its work will be done, if nothing interferes."""
    pods: set[PodId] = field(default_factory=set)


class _Control(ControlDriver):
    """A control plane that also declares what each queue has used, which the real one leaves to the cluster."""

    _used: tuple[Queue, ...] = ()

    def remember_use(self, queues: tuple[Queue, ...]) -> None:
        """Wake the cluster at the next pull: a revision is made by a label of a node that there is not."""
        self._used = queues
        self.override_node(NodeName("usage"), NodeOverrides(labels=(("revision", str(self.revision)),)))

    def pull(self, after: Revision, wait_s: float = 0.0) -> PullAnswer:
        answer = super().pull(after, wait_s)
        if answer.organization is None or not self._used:
            return answer
        organization = replace(answer.organization.to_organization(), queues={DEFAULT_POOL: self._used})
        return answer.model_copy(update={"organization": OrganizationWire.of(organization)})


class ThroughLoop:
    """Jobs from the first submission until nothing is left of the last."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[Queue], knobs: Knobs, meter: Meter) -> None:
        assert not knobs.levels_gpu_h, "people cannot lower the priority of a workload"
        self.jobs: Sequence[Job] = meter.jobs
        self.meter = meter
        self.knobs = knobs
        self.now_s = 0
        self.plans = self.cycles = self.moments = 0
        self.faults: list[str] = []
        self._laps = Laps()
        self._queues = tuple(queues)
        self._coming = 0
        self._ran_at_s = -knobs.every_s
        self._used_at_s = 0
        self._heard = 0
        self._stays: dict[int, Stay] = {}
        self._started: set[int] = set()
        self._complete: set[int] = set()
        self.clock = VirtualClock()
        self.engine = SimulatedEngine(self.clock, nodes, self._behaviour)
        self.control = _Control(self.clock.now)
        self.control.declare(Organization(queues={DEFAULT_POOL: tuple(map(_declared, self._queues))}))
        self.loop = Loop(
            Ledger(None),
            self.engine,
            ControlLink(self.control, CLUSTER),
            self.clock.now,
            policy=knobs.policy,
            on_snapshot=self._note_plan,
            on_step=self._laps.end,
        )

    @property
    def next_s(self) -> int:
        """When the loop runs next."""
        # What the loop only has to report, such as the use of nodes, can wait for the next cycle.
        moments = [self.engine.next_change_at, self.loop.cache.next_wake() if self.moments else None]
        seconds = [-(-moment // SECOND_MS) for moment in moments if moment is not None]
        if self._coming < len(self.jobs):
            seconds.append(self.jobs[self._coming].submit_s)
        return max(min(seconds), self._ran_at_s + self.knobs.every_s) if seconds else NEVER

    @property
    def unfinished(self) -> int:
        """Jobs that are there."""
        return self._coming - len(self.meter.ended_s)

    def step(self) -> None:
        """Go on to the next moment, and let the loop run until it is quiet."""
        self.now_s = self._ran_at_s = self.next_s
        self.clock.set(Instant(self.now_s * SECOND_MS))
        happenings = [*self._submit()]
        self._remember_use()
        self._run_cycles()
        for event in self.control.events(self._heard):
            self._heard = event.number
            happenings += self._from_event(event)
        for _, report in sorted(happenings, key=lambda each: each[0]):
            report()

    def run(self) -> None:
        while self.next_s < NEVER:
            self.step()

    def costs(self) -> dict[str, float]:
        """What it took, in plans, cycles and CPU time by step of a cycle."""
        steps = {f"{step}_cpu_s": cpu_s for step, cpu_s in self._laps.cpu_s.items()}
        return {"plans": self.plans, "cycles": self.cycles, "moments": self.moments, **steps}

    def leftovers(self) -> list[str]:
        """What should not be there in the end, or ever."""
        cache = self.loop.cache
        left = [f"{len(self.engine.alive())} pods run"] if self.engine.alive() else []
        left += [
            f"{len(rows)} {name} are left" for name, rows in (("pods", cache.pods), ("reports", cache.reports)) if rows
        ]
        return [*self.faults[:3], *self.engine.violations[:3], *left]

    # --- what people do ---

    def _submit(self) -> Iterator[Happening]:
        while self._coming < len(self.jobs) and self.jobs[self._coming].submit_s <= self.now_s:
            job = self.jobs[self._coming]
            answer = self.control.submit(_spec(job))
            assert answer is None, answer
            self._coming += 1
            yield job.submit_s, partial(self.meter.submitted, job, job.submit_s)

    def _remember_use(self) -> None:
        """Declare anew what each queue has used, where that counts."""
        if self.knobs.usage_half_life_s:
            fade = 0.5 ** ((self.now_s - self._used_at_s) / self.knobs.usage_half_life_s)
            self._queues = with_use(self._queues, self.meter.held, self.meter.gpus, fade)
            self._used_at_s = self.now_s
            self.control.remember_use(tuple(map(_declared, self._queues)))

    # --- what the cluster does ---

    def _behaviour(self, order: StartOrder) -> Behaviour:
        job = self.jobs[_number(order.workload)]
        return Behaviour(run_s=job.duration_s, start_s=self.knobs.restart_s if order.incarnation else 0)

    def _run_cycles(self) -> None:
        self.moments += 1
        for _ in range(CYCLES_MAX):
            self.cycles += 1
            self._laps.start()
            went_on = self.loop.run_cycle()
            assert not self.loop.error, self.loop.error
            if not went_on:
                return
        raise AssertionError(f"the loop is not quiet after {CYCLES_MAX} cycles at {self.now_s} s")

    def _note_plan(self, pool: PoolName, snapshot: Snapshot) -> None:
        self.plans += 1
        self._laps.end("surveyed")

    # --- what is measured ---

    def _from_event(self, event: EventReport) -> Iterator[Happening]:
        number = _number(event.workload)
        match event.kind:
            case EventKind.HALTED if event.detail == WorkloadPhase.COMPLETED:
                self._complete.add(number)
            case EventKind.HALTED:
                self.faults.append(f"job {number}: {event.detail}")
            case EventKind.BOUND if event.pod is not None:
                if number not in self._stays:
                    course = self.engine.timeline(event.pod)
                    ends_at = course.ends_at if course is not None else None
                    self._stays[number] = Stay(self.now_s, ends_at // SECOND_MS if ends_at is not None else NEVER)
                    yield self.now_s, partial(self.meter.started, self.jobs[number], self.now_s)
                self._stays[number].pods.add(event.pod)
            case EventKind.ENDED if number in self._stays and event.pod in self._stays[number].pods:
                self._stays[number].pods.remove(event.pod)
                if not self._stays[number].pods:
                    yield self._left(self.jobs[number], self._stays.pop(number))

    def _left(self, job: Job, stay: Stay) -> Happening:
        """It has no GPUs any more, because its work is done or because another job has them."""
        complete = job.number in self._complete
        at_s = stay.ends_s if complete else self.now_s
        lost_s = min(at_s - stay.began_s, self.knobs.restart_s) if job.number in self._started else 0
        self._started.add(job.number)
        return at_s, partial(self.meter.ended if complete else self.meter.stopped, job, at_s, lost_s)


def _spec(job: Job) -> WorkloadSpec:
    """A job as a person declares it. Where a gang needs a smaller pod for the rest, that is its leader."""
    sizes = pod_sizes(job.gpus)
    name = f"job-{job.number:06d}"
    return WorkloadSpec(
        id=WorkloadId(name),
        name=name,
        project=_project(job.queue),
        created_at=Instant(job.submit_s * SECOND_MS),
        template=PodTemplate(shape=gpus(sizes[0])),
        leader=PodTemplate(shape=gpus(sizes[-1])) if sizes[-1] != sizes[0] else None,
        pods=len(sizes),
        ttl_s=0,
    )


def _number(workload: str) -> int:
    return int(workload.rpartition("-")[2])


def _declared(queue: Queue) -> Queue:
    return replace(queue, id=_project(queue.id))


def _project(queue: QueueId) -> QueueId:
    """The queues of the trace are called by numbers, and projects begin with a letter."""
    return QueueId(f"vc-{queue}".lower())
