"""Audit of the ledger, entry by entry: every change has its event and its reason, and no group overtakes another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fairpool.api.clusters import EventReport
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.ledger import AFTER_COMMIT, Ledger, LedgerEntry
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.pod_slots import latest_pods
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import Instant, PodId, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.spec import Arrangement, DesiredState, WorkloadSpec

Wrong = tuple[str, WorkloadId | None]

KIND_OF = {
    PodPhase.WAITING: EventKind.CREATED,
    PodPhase.PROMISED: EventKind.PROMISED,
    PodPhase.BOUND: EventKind.BOUND,
    PodPhase.RUNNING: EventKind.STARTED,
    PodPhase.RELEASING: EventKind.RELEASING,
    PodPhase.ENDED: EventKind.ENDED,
}
OF_THE_SCHEDULER = (Cause.PREEMPTED, Cause.MOVED, Cause.STALE)
UNPLACED = (None, PodPhase.WAITING)


class WatchedLedger(Ledger):
    """A ledger that reports each entry that was committed, also if the process dies right after."""

    def __init__(
        self,
        path: Path | None,
        *,
        lease_s: int,
        between: Callable[[str], None],
        written: Callable[[LedgerEntry, Token, Instant], None],
        started_over: Callable[[], None],
    ) -> None:
        self._may_die = between
        self._written, self._started_over = written, started_over
        self._then: Callable[[], None] | None = None
        """What to report when the present transaction is committed."""
        super().__init__(path, on_step=self._note_step, lease_s=lease_s)

    def record(self, entry: LedgerEntry, token: Token, now: Instant) -> None:
        with self._reporting(lambda: self._written(entry, token, now)):
            super().record(entry, token, now)

    def start_over(self, token: Token, now: Instant) -> None:
        with self._reporting(self._started_over):
            super().start_over(token, now)

    @contextmanager
    def _reporting(self, then: Callable[[], None]) -> Iterator[None]:
        self._then = then
        try:
            yield
        finally:
            self._then = None

    def _note_step(self, step: str) -> None:
        if step == AFTER_COMMIT and self._then is not None:
            self._then()
        self._may_die(step)


class LedgerAudit:
    """The phase of every pod, and all events, as they were written."""

    def __init__(self) -> None:
        self.phase_of: dict[PodId, PodPhase] = {}
        self._grace_of: dict[PodId, int] = {}
        self.events: list[Event] = []
        self.is_complete = True
        """No ledger was lost, and with it lines that were nowhere else."""
        self.has_gaps = False
        """A loop has started over: events that were numbered and not reported by then are never reported."""
        self.rigid_since: dict[WorkloadId, Instant] = {}
        """Since when those workloads need all their pods that once did with fewer."""
        self._halts: dict[WorkloadId, Halt | None] = {}
        self._elastic: set[WorkloadId] = set()

    def forget(self) -> None:
        """The ledger is lost."""
        self.phase_of.clear()
        self._grace_of.clear()
        self._halts.clear()
        self.is_complete = False

    def take_in(self, entry: LedgerEntry, now: Instant) -> list[Wrong]:
        """Another entry was written. The answer: changes without an event or without a reason."""
        for spec in entry.specs:
            if spec.is_elastic:
                self._elastic.add(spec.id)
            elif spec.id in self._elastic:
                self._elastic.discard(spec.id)
                self.rigid_since[spec.id] = now
        self.events += entry.events
        wrong = [*self._missing_events(entry), *_unexplained(entry)]
        wrong += self._longer_graces(entry)
        self.phase_of.update((pod.id, pod.phase) for pod in entry.pods)
        self._grace_of.update((pod.id, pod.grace_s) for pod in entry.pods)
        self._halts.update((each.workload, each.halt) for each in entry.states)
        return wrong

    def _longer_graces(self, entry: LedgerEntry) -> Iterator[Wrong]:
        for pod in entry.pods:
            if pod.grace_s > self._grace_of.get(pod.id, pod.grace_s):
                yield f"{pod.id} has {pod.grace_s} s to leave, and had {self._grace_of[pod.id]} s", pod.workload

    def _missing_events(self, entry: LedgerEntry) -> Iterator[Wrong]:
        found: dict[PodId, Counter[EventKind]] = {}
        for event in entry.events:
            if event.pod is not None:
                found.setdefault(event.pod, Counter())[event.kind] += 1
        for pod in entry.pods:
            adopted = found.get(pod.id, Counter())[EventKind.ADOPTED]
            before = self.phase_of.get(pod.id)
            expected = Counter(_expected(before, pod.phase, bool(adopted)))
            if before is pod.phase is PodPhase.RELEASING and pod.grace_s < self._grace_of[pod.id]:
                expected[EventKind.RELEASING] += 1  # it has less time than before
            if found.pop(pod.id, Counter()) != expected:
                yield f"{pod.id} became {pod.phase.value}, and history should say {dict(expected)}", pod.workload
        for pod_id, kinds in found.items():
            yield f"history says {dict(kinds)} of {pod_id}, with which nothing happened", None
        halted = {event.workload for event in entry.events if event.kind is EventKind.HALTED}
        for each in entry.states:
            if each.halt is not None and each.halt != self._halts.get(each.workload) and not _said(each, halted):
                yield f"{each.workload} came to its end, and history does not say so", each.workload


def _said(state: WorkloadState, halted: set[WorkloadId]) -> bool:
    """An end that was remembered by the control plane had been reported before the ledger was lost."""
    return state.workload in halted or state.first_incarnation > 0


def _expected(before: PodPhase | None, phase: PodPhase, adopted: bool) -> Iterator[EventKind]:
    """The events of a pod that was in one phase and is in another."""
    if adopted:
        yield EventKind.ADOPTED
        before = PodPhase.BOUND
    if before is None and phase is not PodPhase.WAITING:
        yield EventKind.CREATED
    if before is PodPhase.PROMISED and phase is PodPhase.WAITING:
        yield EventKind.WITHDRAWN
    elif before is not phase:
        yield KIND_OF[phase]


def _unexplained(entry: LedgerEntry) -> Iterator[Wrong]:
    for event in entry.events:
        if event.kind is EventKind.RELEASING and not event.cause:
            yield f"{event.pod} has to leave without a cause", event.workload
        if event.cause in OF_THE_SCHEDULER and event.kind is not EventKind.CREATED and not event.detail:
            yield f"{event.pod} is {event.cause} without a word why", event.workload


def unreported_events(ledger_audit: LedgerAudit, received: list[EventReport]) -> Iterator[Wrong]:
    """The control plane has every line once, in the order in which they were written."""
    numbers = [event.number for event in received]
    if numbers != list(range(1, len(numbers) + 1)) and not ledger_audit.has_gaps:
        yield f"events have the numbers {numbers}", None
    if not ledger_audit.is_complete:
        return
    there = [(each.at, each.kind, each.workload, each.pod, each.node, each.cause, each.detail) for each in received]
    here = [
        (each.at, each.kind.value, each.workload, each.pod, each.node, each.cause, each.detail)
        for each in ledger_audit.events
    ]
    if there != here:
        first = next((n for n, (one, other) in enumerate(zip(there, here, strict=False)) if one != other), len(there))
        yield f"{len(here)} events were written and {len(there)} reported; they differ from number {first + 1} on", None


def overtaken(cache: LedgerCache, entry: LedgerEntry, now: Instant) -> Iterator[Wrong]:
    """Of two that ask for the same in the same queue and both could start, the older goes first.

    Looked at only where it is exact: single pods without a preferred node, in one pool.
    """
    changed = {pod.id: pod for pod in entry.pods}
    binds = [pod for pod in entry.pods if pod.phase is PodPhase.BOUND]
    if not binds:
        return
    specs: Mapping[WorkloadId, WorkloadSpec] = {**cache.specs, **{spec.id: spec for spec in entry.specs}}
    states = {**cache.states, **{each.workload: each for each in entry.states}}
    for pod in binds:
        younger = specs.get(pod.workload)
        if younger is None or not _is_plain(younger) or not _was_free(cache, pod, states):
            continue
        for older in specs.values():
            if older.created_at >= younger.created_at or _asks_for(older) != _asks_for(younger):
                continue
            waiting = _latest(cache, changed, older.id)
            if waiting is not None and _could_start(waiting, now) and _was_free(cache, waiting, states):
                yield f"{pod.id} goes before {waiting.id}, which is older and asks for the same", older.id


def _latest(cache: LedgerCache, changed: Mapping[PodId, PodRecord], workload: WorkloadId) -> PodRecord | None:
    pods = {pod.id: pod for pod in cache.pods.get(workload, ())}
    pods.update((pod.id, pod) for pod in changed.values() if pod.workload == workload)
    return latest_pods(tuple(pods.values())).get(0)


def _could_start(pod: PodRecord, now: Instant) -> bool:
    return pod.phase is PodPhase.WAITING and pod.not_before <= now


def _was_free(cache: LedgerCache, pod: PodRecord, states: Mapping[WorkloadId, WorkloadState]) -> bool:
    """It had no promise before, prefers no node and avoids none, and no earlier pod of it is being stopped."""
    before = cache.pods.get(pod.workload, ())
    state = states.get(pod.workload)
    return (
        pod.nominated is None
        and state is not None
        and not state.avoided
        and next((each.phase for each in before if each.id == pod.id), None) in UNPLACED
        and all(each.is_over for each in before if each.id != pod.id)
    )


def _is_plain(spec: WorkloadSpec) -> bool:
    together = spec.arrangement is Arrangement.TOGETHER and spec.pods == 1 and spec.leader is None
    return together and len(spec.pools) < 2 and spec.desired_state is DesiredState.RUN


def _asks_for(spec: WorkloadSpec) -> tuple[object, ...]:
    """All that decides the order, apart from age."""
    shape = (spec.template.shape, spec.constraint, spec.pools, _is_plain(spec))
    return (spec.project, spec.kind, spec.priority, spec.preemptible, *shape)
