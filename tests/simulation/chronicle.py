"""What was written into the ledger, entry by entry: every change is told, with its reason, and none is overtaken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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
    PodPhase.WAITING: EventKind.BORN,
    PodPhase.PROMISED: EventKind.PROMISED,
    PodPhase.BOUND: EventKind.BOUND,
    PodPhase.RUNNING: EventKind.STARTED,
    PodPhase.RELEASING: EventKind.RELEASING,
    PodPhase.ENDED: EventKind.ENDED,
}
OF_THE_SCHEDULER = (Cause.PREEMPTED, Cause.MOVED, Cause.STALE)
UNPLACED = (None, PodPhase.WAITING)


class WatchedLedger(Ledger):
    """A ledger that says what was written in it, also if the process dies right after."""

    def __init__(
        self,
        path: Path | None,
        *,
        lease_s: int,
        between: Callable[[str], None],
        written: Callable[[LedgerEntry, Token, Instant], None],
        started_over: Callable[[], None],
    ) -> None:
        self._step = ""
        self._may_die = between
        self._written, self._started_over = written, started_over
        super().__init__(path, on_step=self._note_step, lease_s=lease_s)

    def record(self, entry: LedgerEntry, token: Token, now: Instant) -> None:
        self._step = ""
        try:
            super().record(entry, token, now)
        finally:
            if self._step == AFTER_COMMIT:
                self._written(entry, token, now)

    def start_over(self, token: Token, now: Instant) -> None:
        self._step = ""
        try:
            super().start_over(token, now)
        finally:
            if self._step == AFTER_COMMIT:
                self._started_over()

    def _note_step(self, step: str) -> None:
        self._step = step
        self._may_die(step)


class Chronicle:
    """The phase of every life, and all events, as they were written."""

    def __init__(self) -> None:
        self.phase_of: dict[PodId, PodPhase] = {}
        self._grace_of: dict[PodId, int] = {}
        self.events: list[Event] = []
        self.is_complete = True
        """No ledger was lost, and with it lines that were nowhere else."""
        self.has_gaps = False
        """A loop has started over: what it had not told by then was numbered, and is not told any more."""
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
        """Another entry was written. The answer: what it does not tell, or tells without a reason."""
        for spec in entry.specs:
            if spec.is_elastic:
                self._elastic.add(spec.id)
            elif spec.id in self._elastic:
                self._elastic.discard(spec.id)
                self.rigid_since[spec.id] = now
        self.events += entry.events
        wrong = [*self._untold(entry), *_unexplained(entry)]
        wrong += self._prolonged(entry)
        self.phase_of.update((life.id, life.phase) for life in entry.pods)
        self._grace_of.update((life.id, life.grace_s) for life in entry.pods)
        self._halts.update((each.workload, each.halt) for each in entry.states)
        return wrong

    def _prolonged(self, entry: LedgerEntry) -> Iterator[Wrong]:
        for life in entry.pods:
            if life.grace_s > self._grace_of.get(life.id, life.grace_s):
                yield f"{life.id} has {life.grace_s} s to leave, and had {self._grace_of[life.id]} s", life.workload

    def _untold(self, entry: LedgerEntry) -> Iterator[Wrong]:
        told: dict[PodId, Counter[EventKind]] = {}
        for event in entry.events:
            if event.pod is not None:
                told.setdefault(event.pod, Counter())[event.kind] += 1
        for life in entry.pods:
            adopted = told.get(life.id, Counter())[EventKind.ADOPTED]
            before = self.phase_of.get(life.id)
            expected = Counter(_expected(before, life.phase, bool(adopted)))
            if before is life.phase is PodPhase.RELEASING and life.grace_s < self._grace_of[life.id]:
                expected[EventKind.RELEASING] += 1  # it has less time than it was told
            if told.pop(life.id, Counter()) != expected:
                yield f"{life.id} became {life.phase.value}, and history should say {dict(expected)}", life.workload
        for pod, kinds in told.items():
            yield f"history says {dict(kinds)} of {pod}, with which nothing happened", None
        halted = {event.workload for event in entry.events if event.kind is EventKind.HALTED}
        for each in entry.states:
            if each.halt is not None and each.halt != self._halts.get(each.workload) and not _said(each, halted):
                yield f"{each.workload} came to its end, and history does not say so", each.workload


def _said(standing: WorkloadState, halted: set[WorkloadId]) -> bool:
    """An end that was remembered by the control plane had been told before the ledger was lost."""
    return standing.workload in halted or standing.first_incarnation > 0


def _expected(before: PodPhase | None, phase: PodPhase, adopted: bool) -> Iterator[EventKind]:
    """What history says of a life that was in one phase and is in another."""
    if adopted:
        yield EventKind.ADOPTED
        before = PodPhase.BOUND
    if before is None and phase is not PodPhase.WAITING:
        yield EventKind.BORN
    if before is PodPhase.PROMISED and phase is PodPhase.WAITING:
        yield EventKind.WITHDRAWN
    elif before is not phase:
        yield KIND_OF[phase]


def _unexplained(entry: LedgerEntry) -> Iterator[Wrong]:
    for event in entry.events:
        if event.kind is EventKind.RELEASING and not event.cause:
            yield f"{event.pod} has to leave without a cause", event.workload
        if event.cause in OF_THE_SCHEDULER and event.kind is not EventKind.BORN and not event.detail:
            yield f"{event.pod} is {event.cause} without a word why", event.workload


def told_at_rest(chronicle: Chronicle, received: list[EventReport]) -> Iterator[Wrong]:
    """The control plane has every line once, in the order in which they were written."""
    numbers = [event.number for event in received]
    if numbers != list(range(1, len(numbers) + 1)) and not chronicle.has_gaps:
        yield f"events have the numbers {numbers}", None
    if not chronicle.is_complete:
        return
    there = [(each.at, each.kind, each.workload, each.pod, each.node, each.cause, each.detail) for each in received]
    here = [
        (each.at, each.kind.value, each.workload, each.pod, each.node, each.cause, each.detail)
        for each in chronicle.events
    ]
    if there != here:
        first = next((n for n, (one, other) in enumerate(zip(there, here, strict=False)) if one != other), len(there))
        yield f"{len(here)} events were written and {len(there)} told; they differ from number {first + 1} on", None


def overtaken(books: LedgerCache, entry: LedgerEntry, now: Instant) -> Iterator[Wrong]:
    """Of two that ask for the same in the same queue and both could start, the older goes first.

    Looked at only where it is exact: single pods without a node of their own wish, in one pool.
    """
    changed = {life.id: life for life in entry.pods}
    binds = [life for life in entry.pods if life.phase is PodPhase.BOUND]
    if not binds:
        return
    specs: Mapping[WorkloadId, WorkloadSpec] = {**books.specs, **{spec.id: spec for spec in entry.specs}}
    standings = {**books.states, **{each.workload: each for each in entry.states}}
    for life in binds:
        younger = specs.get(life.workload)
        if younger is None or not _is_plain(younger) or not _was_free(books, life, standings):
            continue
        for older in specs.values():
            if older.created_at >= younger.created_at or _asks_for(older) != _asks_for(younger):
                continue
            waiting = _latest(books, changed, older.id)
            if waiting is not None and _could_start(waiting, now) and _was_free(books, waiting, standings):
                yield f"{life.id} goes before {waiting.id}, which is older and asks for the same", older.id


def _latest(books: LedgerCache, changed: Mapping[PodId, PodRecord], workload: WorkloadId) -> PodRecord | None:
    lives = {life.id: life for life in books.pods.get(workload, ())}
    lives.update((pod, life) for pod, life in changed.items() if life.workload == workload)
    return latest_pods(tuple(lives.values())).get(0)


def _could_start(life: PodRecord, now: Instant) -> bool:
    return life.phase is PodPhase.WAITING and life.not_before <= now


def _was_free(books: LedgerCache, life: PodRecord, standings: Mapping[WorkloadId, WorkloadState]) -> bool:
    """It had no promise before, wishes for no node and shuns none, and no earlier life of it is on its way out."""
    before = books.pods.get(life.workload, ())
    standing = standings.get(life.workload)
    return (
        life.nominated is None
        and standing is not None
        and not standing.avoided
        and next((each.phase for each in before if each.id == life.id), None) in UNPLACED
        and all(each.is_over for each in before if each.id != life.id)
    )


def _is_plain(spec: WorkloadSpec) -> bool:
    together = spec.arrangement is Arrangement.TOGETHER and spec.pods == 1 and spec.leader is None
    return together and len(spec.pools) < 2 and spec.want is DesiredState.RUN


def _asks_for(spec: WorkloadSpec) -> tuple[object, ...]:
    """All that decides whose turn it is, apart from age."""
    shape = (spec.template.shape, spec.constraint, spec.pools, _is_plain(spec))
    return (spec.project, spec.kind, spec.priority, spec.preemptible, *shape)
