"""What the engine really did, pod by pod, and which of it no rule allows.

Starts and ends are the engine's own. The ledger is asked for one thing only: which look at the engine was written down,
since an end that was not written down before it was lost may lawfully be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from fairpool.engines.simulated.behaviour import Behaviour, BehaviourOf
from fairpool.engines.simulated.clock import Clock, VirtualClock
from fairpool.engines.simulated.timeline import PodTimeline
from fairpool.model.ids import Instant, PodId, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.observation import Observation, ObservedPod, Order, OrderResult, PodState, StartOrder
from fairpool.model.spec import Arrangement, RestartPolicy, WorkloadSpec
from fairpool.model.workload import WorkloadKind
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.faults import Faults
from tests.fault_injection.faulty_engine import FaultyEngine

Run = tuple[WorkloadId, int]
PodSlot = tuple[WorkloadId, int]
"""A workload and a pod index."""
KNOWN = (PodPhase.BOUND, PodPhase.RUNNING, PodPhase.RELEASING)


@dataclass(slots=True)
class PodRun:
    """One pod on the engine."""

    order: StartOrder
    seen_running: bool = False
    seen_end: bool = False
    end: PodTimeline | None = None

    @property
    def was_taken(self) -> bool:
        """It ran, and then was stopped, fenced or lost: it did not end by itself."""
        if not self.seen_running or self.end is None:
            return False
        return self.end.notice_at is not None or not self.seen_end


class EngineRecord:
    """Every pod that was ever started, and what was wrong with its start."""

    def __init__(self) -> None:
        self.wrong: list[tuple[str, WorkloadId]] = []
        self.running_since: dict[Run, Instant] = {}
        """When a workload was first seen running in one of its runs."""
        self.failures: Counter[Run] = Counter()
        """Ends of pods by themselves, with an error, that were written down: never more than were counted."""
        self._failures_when_given: dict[PodId, int] = {}
        self._declared: dict[WorkloadId, WorkloadSpec] = {}
        self._pod_runs: dict[PodId, PodRun] = {}
        self._of_run: dict[tuple[WorkloadId, int, int], list[PodRun]] = {}
        self._done: dict[PodSlot, PodId] = {}

    def declare(self, spec: WorkloadSpec) -> None:
        """As it was submitted: what is looked at here does not change later."""
        self._declared[spec.id] = spec

    def forget(self, known_done: Iterable[PodSlot]) -> None:
        """The ledger is lost, and with it every end that was not reported."""
        kept = set(known_done)
        self._done = {place: pod for place, pod in self._done.items() if place in kept}
        self._of_run.clear()
        self.failures.clear()
        self.running_since.clear()

    def given(self, order: StartOrder) -> None:
        """The loop gives an order. It may arrive late, when more is known; whether it was right is judged by this."""
        self._failures_when_given[order.pod] = self.failures[order.workload, order.run]

    def started(self, order: StartOrder) -> None:
        """The engine has accepted an order: may this workload start another pod of this index?

        A pod starts once, once more for each failure that is forgiven, and once for each time that it was stopped or
        lost. That no two of them run at once is checked by the engine's invariants.
        """
        spec = self._declared[order.workload]
        if (order.workload, order.index) in self._done and not _comes_back(spec):
            first = self._done[order.workload, order.index]
            self._complain(order, f"starts, although {first} had done its work")
        runs_of_pod = self._of_run.setdefault((order.workload, order.index, order.run), [])
        failures, most = self._failures_when_given[order.pod], failures_forgiven(spec)
        if most is not None and failures > most:
            self._complain(order, f"starts after {failures} failures, of which {most} are forgiven")
        taken = next((run_of_pod for run_of_pod in runs_of_pod if run_of_pod.was_taken), None)
        if taken is not None and spec.kind is WorkloadKind.BUILD:
            self._complain(order, f"comes back by itself, after {taken.order.pod} was taken away")
        self._pod_runs[order.pod] = run_of_pod = PodRun(order)
        runs_of_pod.append(run_of_pod)

    def ended(self, course: PodTimeline) -> None:
        """It does not run any more, for whatever reason."""
        self._pod_runs[course.order.pod].end = course

    def end_of(self, pod: PodId) -> PodTimeline | None:
        """How this pod went; None while it runs."""
        return self._pod_runs[pod].end

    def looked(self, observation: Observation, phase_of: Mapping[PodId, PodPhase]) -> None:
        """What the loop saw was written down; the ledger had these phases before."""
        failed: Counter[Run] = Counter()
        for pod, observed in observation.pods.items():
            phase = phase_of.get(pod)
            if phase not in KNOWN:
                continue  # the ledger had not heard of it, or had given it up
            order = observed.order
            run = (order.workload, order.run)
            if (
                observed.state is PodState.RUNNING
                and phase is not PodPhase.RELEASING
                and observed.running_since is not None
            ):
                self._pod_runs[pod].seen_running = True
                self.running_since[run] = min(
                    observed.running_since, self.running_since.get(run, observed.running_since)
                )
            elif observed.state is PodState.EXITED and not observed.after_notice:
                failed[run] += self._saw_end(observed, was_stopping=phase is PodPhase.RELEASING)
        for run, count in failed.items():
            spec = self._declared[run[0]]
            together = spec.arrangement is Arrangement.TOGETHER and spec.kind is not WorkloadKind.BUILD
            self.failures[run] += min(count, 1) if together else count  # one of a gang drags the others down

    def _saw_end(self, observed: ObservedPod, was_stopping: bool) -> bool:
        """Whether it is a failure that counts."""
        order = observed.order
        self._pod_runs[order.pod].seen_end = True
        if observed.exit_code == 0:
            self._done.setdefault((order.workload, order.index), order.pod)
        return observed.exit_code != 0 and not was_stopping

    def _complain(self, order: StartOrder, what: str) -> None:
        self.wrong.append((f"{order.pod} {what}", order.workload))


def failures_forgiven(spec: WorkloadSpec) -> int | None:
    """How many failures a run of it survives; None: any number."""
    return 0 if spec.restart_rule.restart is RestartPolicy.NEVER else spec.restart_rule.retries


def _comes_back(spec: WorkloadSpec) -> bool:
    return spec.arrangement is Arrangement.REPLICAS or spec.restart_rule.restart is RestartPolicy.ALWAYS


class RecordedEngine(FaultableEngine):
    """The simulated engine, with a record of what it does and shows."""

    def __init__(self, clock: Clock, nodes: Iterable[Node], behaviour_of: BehaviourOf, record: EngineRecord) -> None:
        self.record = record
        self.shown: dict[Token, Observation] = {}
        """What the loop with this token saw last."""
        self._behaviour_of_order = behaviour_of
        super().__init__(clock, nodes, self._recorded)

    def observe(self, token: Token) -> Observation:
        self.shown[token] = super().observe(token)
        return self.shown[token]

    def courses(self) -> list[PodTimeline]:
        """Of all that is starting or running at this moment."""
        found = (self.timeline(pod) for pod in self.alive())
        return [course for course in found if course is not None]

    def _recorded(self, order: StartOrder) -> Behaviour:
        self.record.started(order)  # asked for exactly when an order is accepted
        return self._behaviour_of_order(order)

    def _settle_pod(self, pod: PodId) -> None:
        was_alive = pod in self._alive
        super()._settle_pod(pod)
        course = self._timelines.get(pod)  # gone: what was there to say was said when it went
        if was_alive and pod not in self._alive and course is not None:
            self.record.ended(course)


class RecordedNetwork(FaultyEngine):
    """The way to the engine, with a record of the orders that are sent on it."""

    def __init__(self, engine: RecordedEngine, faults: Faults, rng: Random, clock: VirtualClock) -> None:
        self._record = engine.record
        super().__init__(engine, faults, rng, clock)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        for order in orders:
            if isinstance(order, StartOrder):
                self._record.given(order)
        return super().carry_out(orders, token)
