"""The books: what the ledger holds, in memory and arranged as a cycle needs it, and the draft of the next entry.

A cycle never changes the books. It writes a draft; when the ledger has recorded it, the books absorb it. A draft that
could not be recorded is thrown away, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.dependencies import unmet
from fairpool.cluster.entry import Entry, Image
from fairpool.cluster.grace_period import to_stop
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.survey import Ground, Rows
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, PoolName, Revision, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.observation import Observation, ObservedNode, ObservedPod, Order
from fairpool.model.organization import Organization
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import WorkloadSpec
from fairpool.scheduler.decision import Plan, Verdict

SENTENCES_S = 10
"""How often the numbers in the reasons of those who wait are brought up to date."""

NO_PODS: Mapping[PodId, ObservedPod] = {}
NO_NODES: Mapping[NodeName, ObservedNode] = {}


class Books:
    """What is recorded, and what was worked out from it."""

    def __init__(self, image: Image) -> None:
        self.specs: dict[WorkloadId, WorkloadSpec] = {spec.id: spec for spec in image.specs}
        self.standings: dict[WorkloadId, WorkloadState] = {each.workload: each for each in image.standings}
        self.organization: Organization = image.organization or Organization()
        self.cursor: Revision | None = image.cursor
        self.lives: dict[WorkloadId, tuple[PodRecord, ...]] = {}
        for life in sorted(image.lives, key=lambda each: (each.workload, each.index, each.incarnation)):
            self.lives[life.workload] = (*self.lives.get(life.workload, ()), life)
        # Worked out, and worked out again after a restart:
        self.observation: Observation | None = None
        self.ground = Ground({}, {})
        self.workload_of: dict[PodId, WorkloadId] = {
            life.id: workload for workload, lives in self.lives.items() for life in lives
        }
        self.rows: dict[WorkloadId, Rows] = {}
        self.wakes: dict[WorkloadId, Instant] = {}
        self.levels: dict[WorkloadId, WorkloadReport] = {}
        self.verdicts: dict[GroupId, Verdict] = {}
        self.plans: dict[PoolName, Plan] = {}
        self.owing: set[WorkloadId] = set()
        """Workloads for which the engine may still have to do something."""
        self.orphans: set[PodId] = set()
        """Pods that the engine sees and the ledger does not know."""
        self.intruders: frozenset[PodId] = frozenset()
        """Those of them that run: they hold devices that the scheduler must not give away."""
        self.gone: dict[WorkloadId, int] = {}
        """Workloads of which nothing is left, with the run in which that was so."""
        self.reported: set[WorkloadId] = set()
        """Workloads whose present level the control plane has confirmed."""
        self.unswept: set[WorkloadId] = set()
        """Of those, the ones that may have something to clear away."""
        self.stops_confirmed: dict[PodId, int] = {}
        """With the shortest grace that the engine was told, in seconds."""
        self.quiet_until: Instant | None = Instant(0)
        """Until then time alone changes nothing; None: for ever."""
        self.rounds: dict[WorkloadId, int] = {}
        """How many pools a workload has tried since anything changed."""
        self.stale_sentences: set[WorkloadId] = set()
        """Workloads whose reason for waiting holds old numbers."""
        self.sentences_at = Instant(0)
        self.dependents: dict[WorkloadId, set[WorkloadId]] = {}
        """Which workloads name one as what they wait for."""
        self._note_dependents(self.specs.values())

    def _note_dependents(self, specs: Iterable[WorkloadSpec]) -> None:
        for spec in specs:
            for each in spec.after:
                self.dependents.setdefault(each.workload, set()).add(spec.id)

    def confirm(self, workloads: Iterable[WorkloadId]) -> None:
        """The control plane knows the present levels of these."""
        for workload in workloads:
            self.reported.add(workload)
            lives = self.lives.get(workload, ())
            if workload in self.owing or len(lives) > len({life.index for life in lives}):
                self.unswept.add(workload)

    def next_wake(self) -> Instant | None:
        """When time alone may change something; None: never."""
        moments = list(self.wakes.values())
        if self.quiet_until is not None:
            moments.append(self.quiet_until)
        if self.stale_sentences:
            moments.append(Instant(self.sentences_at + SENTENCES_S * SECOND_MS))
        return min(moments, default=None)

    def absorb(self, draft: Draft) -> None:
        """Take over what has been recorded."""
        self.specs.update(draft.specs)
        self._note_dependents(draft.specs.values())
        for workload in draft.undesired | draft.dropped:
            spec = self.specs.pop(workload, None)
            for each in spec.after if spec is not None else ():
                self.dependents.get(each.workload, set()).discard(workload)
        self.standings.update(draft.standings)
        for workload, lives in draft.lives.items():
            over = {life.id for life in self.lives.get(workload, ()) if life.is_over}
            for life in lives:
                if life.is_over and life.id not in over:
                    self.stops_confirmed.pop(life.id, None)  # if it is seen after this, it is told again
            self.lives[workload] = lives
            self.workload_of.update((life.id, workload) for life in lives)
        for pod in draft.forgotten:
            self.workload_of.pop(pod, None)
            self.stops_confirmed.pop(pod, None)
        if draft.organization is not None:
            self.organization = draft.organization
        if draft.cursor is not None:
            self.cursor = draft.cursor
        self._absorb_derived(draft)
        for workload in draft.undesired:
            self.levels.pop(workload, None)  # nobody asks any more how it stands, also while its pods leave
        for workload in draft.dropped:
            self._forget(workload)

    def _absorb_derived(self, draft: Draft) -> None:
        self.observation, self.ground = draft.observation, draft.ground
        for workload, rows in draft.rows.items():
            if rows.pods:
                self.rows[workload] = rows
            else:
                self.rows.pop(workload, None)
        for workload, wake in draft.wakes.items():
            if wake is not None:
                self.wakes[workload] = wake
            else:
                self.wakes.pop(workload, None)
        self.levels.update(draft.levels)
        self.reported -= draft.levels.keys()
        self.verdicts = draft.verdicts
        if draft.plans:
            self.plans = draft.plans
        if draft.orphans != self.orphans:
            known = self.workload_of.keys() | draft.orphans
            self.stops_confirmed = {pod: s for pod, s in self.stops_confirmed.items() if pod in known}
        self.owing, self.orphans = draft.owing, draft.orphans
        self.intruders = draft.intruders
        for workload in draft.looked_at:
            self.gone.pop(workload, None)
        self.gone.update(draft.gone)
        self.unswept = set()
        self.quiet_until = draft.quiet_until
        self.rounds = draft.rounds
        self.stale_sentences, self.sentences_at = draft.stale_sentences, draft.sentences_at

    def _forget(self, workload: WorkloadId) -> None:
        for life in self.lives.pop(workload, ()):
            self.workload_of.pop(life.id, None)
            self.stops_confirmed.pop(life.id, None)
        for each in (self.standings, self.rows, self.wakes, self.levels, self.rounds, self.gone, self.dependents):
            each.pop(workload, None)
        self.owing.discard(workload)
        self.reported.discard(workload)


class Draft:
    """What a cycle wants to write down, on top of the books."""

    def __init__(self, books: Books, now: Instant, observation: Observation) -> None:
        self.books, self.now, self.observation = books, now, observation
        self.specs: dict[WorkloadId, WorkloadSpec] = {}
        self.undesired: set[WorkloadId] = set()
        self.dropped: set[WorkloadId] = set()
        self.standings: dict[WorkloadId, WorkloadState] = {}
        self.lives: dict[WorkloadId, tuple[PodRecord, ...]] = {}
        self.forgotten: set[PodId] = set()
        self.organization: Organization | None = None
        self.cursor: Revision | None = None
        self.events: list[Event] = []
        self.orders: list[Order] = []
        self.ground = books.ground
        self.rows: dict[WorkloadId, Rows] = {}
        self.wakes: dict[WorkloadId, Instant | None] = {}
        self.levels: dict[WorkloadId, WorkloadReport] = {}
        self.verdicts = books.verdicts
        self.plans: dict[PoolName, Plan] = {}
        self.owing = books.owing
        self.orphans = set(books.orphans)
        self.intruders: frozenset[PodId] = frozenset()
        self.intruder_rows: list[Rows] = []
        """The strangers that run, as they are to the scheduler: until they have left they hold their devices."""
        self.gone: dict[WorkloadId, int] = {}
        self.looked_at: set[WorkloadId] = set()
        self.quiet_until: Instant | None = books.quiet_until
        self.rounds = dict(books.rounds)
        self.must_plan = False
        self.stale_sentences = set(books.stale_sentences)
        self.sentences_at = books.sentences_at

    def spec(self, workload: WorkloadId) -> WorkloadSpec | None:
        if workload in self.undesired:
            return None
        return self.specs.get(workload) or self.books.specs.get(workload)

    def standing(self, workload: WorkloadId) -> WorkloadState:
        known = self.standings.get(workload) or self.books.standings.get(workload)
        return known or WorkloadState(workload=workload)

    def waiting_for(self, workloads: set[WorkloadId]) -> set[WorkloadId]:
        """Those that wait for one of these, and have not come to an end."""
        named = {each for workload in workloads for each in self.books.dependents.get(workload, ())}
        named |= {spec.id for spec in self.specs.values() if any(each.workload in workloads for each in spec.after)}
        found = set()
        for each in named:
            spec, standing = self.spec(each), self.standing(each)
            if spec is not None and standing.halt is None and unmet(spec, standing):
                found.add(each)
        return found

    def lives_of(self, workload: WorkloadId) -> tuple[PodRecord, ...]:
        return self.lives[workload] if workload in self.lives else self.books.lives.get(workload, ())

    def workload_of(self, pod: PodId) -> WorkloadId | None:
        return self.books.workload_of.get(pod)

    @property
    def charter(self) -> Organization:
        """What is declared beside the workloads."""
        return self.organization if self.organization is not None else self.books.organization

    @property
    def pools(self) -> frozenset[PoolName]:
        """The node pools there are."""
        return frozenset(pool.name for pool in self.charter.pools)

    def put_lives(self, workload: WorkloadId, lives: tuple[PodRecord, ...]) -> None:
        before = self.lives_of(workload)
        if len(before) != len(lives) or any(new is not old for new, old in zip(lives, before, strict=True)):
            self.lives[workload] = lives

    def put_standing(self, standing: WorkloadState) -> None:
        if standing != self.books.standings.get(standing.workload):
            self.standings[standing.workload] = standing

    def put_rows(self, workload: WorkloadId, rows: Rows) -> None:
        if rows != self.books.rows.get(workload, Rows()):
            self.must_plan = True
            self.rows[workload] = rows
        else:
            self.rows.pop(workload, None)

    def all_rows(self) -> Iterable[Rows]:
        merged = {**self.books.rows, **self.rows}
        return merged.values()

    def changed_lives(self) -> Iterator[PodRecord]:
        """Lives that are not in the books as they are here."""
        for workload, lives in self.lives.items():
            known = {life.id: life for life in self.books.lives.get(workload, ())}
            for life in lives:
                if known.get(life.id) is not life:
                    yield life

    def entry(self) -> Entry:
        """All of it, as the ledger writes it down."""
        changed = tuple(self.changed_lives())
        return Entry(
            specs=tuple(self.specs.values()),
            undesired=tuple(sorted(self.undesired)),
            dropped=tuple(sorted(self.dropped)),
            lives=changed,
            forgotten=tuple(sorted(self.forgotten)),
            standings=tuple(self.standings.values()),
            events=(*self.events, *self._story(changed)),
            organization=self.organization,
            cursor=self.cursor,
        )

    def _story(self, changed: Iterable[PodRecord]) -> Iterator[Event]:
        known = {life.id: life for workload in self.lives for life in self.books.lives.get(workload, ())}
        adopted = {event.pod for event in self.events if event.kind is EventKind.ADOPTED}
        for life in changed:
            was = known.get(life.id)
            before = was.phase if was is not None else PodPhase.BOUND if life.id in adopted else None
            hurried = was is not None and life.phase is PodPhase.RELEASING and life.grace_s < was.grace_s
            if before is not life.phase or hurried:
                yield from _told(life, before, self.now)


PHASE_EVENTS: Mapping[PodPhase, EventKind] = {
    PodPhase.WAITING: EventKind.BORN,
    PodPhase.PROMISED: EventKind.PROMISED,
    PodPhase.BOUND: EventKind.BOUND,
    PodPhase.RUNNING: EventKind.STARTED,
    PodPhase.RELEASING: EventKind.RELEASING,
    PodPhase.ENDED: EventKind.ENDED,
}


def _told(life: PodRecord, before: PodPhase | None, now: Instant) -> Iterator[Event]:
    """What the history says about a life that is in another phase than before."""
    if before is PodPhase.PROMISED and life.phase is PodPhase.WAITING:
        kind = EventKind.WITHDRAWN
    else:
        kind = PHASE_EVENTS[life.phase]
    if before is None and kind is not EventKind.BORN:
        yield Event(at=now, kind=EventKind.BORN, workload=life.workload, pod=life.id)
    yield Event(
        at=now,
        kind=kind,
        workload=life.workload,
        pod=life.id,
        node=life.node,
        cause=life.cause.value if life.cause is not None else "",
        detail=_words(life),
        outcome=life.outcome,
        exit_code=life.exit_code,
    )


def _words(life: PodRecord) -> str:
    words = life.detail or life.trouble
    if life.phase is not PodPhase.RELEASING:
        return words
    return f"{words}; {to_stop(life.grace_s)}" if words else to_stop(life.grace_s)
