"""The shell around the cycle: look, decide, **write down, then act**, tell. Whatever it does may be done twice.

If it dies between any two lines, the next loop derives the same work from what is written and what is running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fairpool.api.clusters import EventReport, PullAnswer
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.cycle import CycleInput, SnapshotHook, cycle
from fairpool.cluster.history import Event
from fairpool.cluster.ledger import DiskTrouble, LeaseLost, Ledger
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.pending_reports import PendingReports
from fairpool.engines.port import Engine, EngineUnreachable, Fenced
from fairpool.model.ids import SECOND_MS, Instant, PodId, Revision, Token
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    Order,
    OrderResult,
    OrderStatus,
    PodState,
    StartOrder,
    StopOrder,
)
from fairpool.model.spec import WorkloadSpec
from fairpool.scheduler.policy import Policy

BATCH = 100
"""Orders that are given to the engine at a time."""
ASK_AGAIN_S = 1
RENEW_S = 5
"""How often an idle loop says that it is still there."""


class LeadershipLost(Exception):
    """Another loop looks after this cluster now."""


def no_hook(step: str) -> None:
    """The loop of every day stops at no step; simulations let it crash at any."""


class Loop:
    """Looks after one cluster, for as long as it holds the lease."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        link: ControlLink,
        clock: Callable[[], Instant],
        *,
        holder: str = "loop",
        policy: Policy | None = None,
        on_snapshot: SnapshotHook | None = None,
        on_step: Callable[[str], None] = no_hook,
        report_delay_ms: int = 0,
        on_event: Callable[[Event, WorkloadSpec | None], None] | None = None,
    ) -> None:
        """`note` hears of every event once it was written down.

        `tell_within_ms`: what was started is told when it runs, if it does so soon; people wait for that, and a
        report that it starts would only be in its way."""
        self._ledger, self._engine, self._link, self._clock = ledger, engine, link, clock
        self._policy = policy or Policy.product()
        self._on_snapshot, self._on_step = on_snapshot, on_step
        self._tell_within_ms = report_delay_ms
        self._note = on_event
        self._tell_at: Instant | None = None
        self.trouble = ""
        """What kept the last turn from being finished: a full disk, an engine that does not answer."""
        now = clock()
        self._holder = holder
        self._ledger_was_new = ledger.is_new()
        # Tokens of a new ledger begin with the time of day: a ledger that was lost may have given out any below that,
        # and orders with them may still be on their way.
        self.token = ledger.acquire(holder, now, at_least=Token(now if self._ledger_was_new else 0))
        self._load()
        self._pending = PendingReports()
        self._answers: dict[PodId, OrderResult] = {}
        self._news = True
        self._act_again_at: Instant | None = None
        self._renewed_at = now
        self._last_now = now
        self._acknowledged: int | None = None
        self._untold = True
        """The ledger may hold events that were not delivered."""

    def run_cycle(self) -> bool:
        """Once round. False: there was nothing to do."""
        now = self._clock()
        self.trouble = ""
        try:
            observation = self._observe(now)
            self._on_step("observed")
            pulled = self._link.pull(now, self.cache.cursor or Revision(0))
            self._on_step("pulled")
            heard_token = (pulled.heard_token if pulled is not None else None) or self.token
            if heard_token > self.token or self._ledger_is_old():
                self._rank_above(now, heard_token)
                return True  # look and ask anew
            if self._is_quiet(now, observation, pulled) or self._must_wait(observation, pulled):
                self._stay(now)
                return False
            orders = self._write_down(now, observation, pulled)
            self._on_step("recorded")
            self._act(now, orders)
            if not self._waits_with_telling(now, orders, observation):
                self._report_state(now)
                self._on_step("reported")
        except (EngineUnreachable, DiskTrouble) as error:
            self.trouble = str(error)
            self._act_again_at = Instant(now + ASK_AGAIN_S * SECOND_MS)
            return True
        except (LeaseLost, Fenced) as error:
            raise LeadershipLost(str(error)) from error
        return True

    @property
    def link_trouble(self) -> str:
        """Why the control plane and this cluster do not hear each other; empty while they do."""
        return self._link.trouble

    def next_wake(self) -> Instant | None:
        """When the loop should turn again by itself; None: when something happens."""
        if self._news or self._answers or self.cache.to_clean_up:
            return Instant(0)
        moments = [
            self.cache.next_wake(),
            self._link.retry_at,
            self._act_again_at,
            self._tell_at,
        ]
        return min((each for each in moments if each is not None), default=None)

    def release(self) -> None:
        """Leave in good order: the next loop need not wait for the lease to run out."""
        self._ledger.release(self.token)

    # --- look ---

    def _observe(self, now: Instant) -> Observation:
        try:
            return self._engine.observe(self.token)
        except Fenced as error:
            self._rank_above(now, error.highest)
            return self._engine.observe(self.token)

    def _rank_above(self, now: Instant, highest: Token) -> None:
        """Somebody has seen a higher token than ours. If the lease is not ours any more, another loop has taken over.

        If it is, the ledger is new after a loss, or was put back from a copy. A copy knows of pods that ended long ago
        and not of those that run: it is not believed, and all is read back from what runs and what is declared.
        """
        self._ledger.renew(self.token, now)
        self._ledger_was_new = False
        self.token = self._ledger.acquire(self._holder, now, at_least=highest)
        if self.cache.cursor is not None:
            self._ledger.start_over(self.token, now)
        self._load()

    def _load(self) -> None:
        image = self._ledger.load()
        self.cache = LedgerCache(image)
        self._events_written = image.events_through

    def _ledger_is_old(self) -> bool:
        """The control plane has heard of events that this ledger has not written yet."""
        return self.cache.cursor is not None and self._link.heard_events > self._events_written

    def _is_quiet(self, now: Instant, observation: Observation, pulled: PullAnswer | None) -> bool:
        """Nothing is new, and the hour alone changes nothing: all that an idle cluster costs."""
        if now < self._last_now:
            self.cache.observation = None  # the clock was set back: every moment we wait for may be wrong
        self._last_now = now
        if pulled is not None or observation is not self.cache.observation:
            return False
        wake = self.next_wake()
        return wake is None or now < wake

    def _must_wait(self, observation: Observation, pulled: PullAnswer | None) -> bool:
        """A ledger without memory decides nothing before it knows what is wanted and what every node runs."""
        if self.cache.cursor is not None:
            return False
        return (
            pulled is None
            or not pulled.whole
            or any(observed.silent_since is not None and not observed.gone for observed in observation.nodes.values())
        )

    def _stay(self, now: Instant) -> None:
        if abs(now - self._renewed_at) >= RENEW_S * SECOND_MS:
            self._ledger.renew(self.token, now)
            self._renewed_at = now

    # --- decide, write down ---

    def _write_down(self, now: Instant, observation: Observation, pulled: PullAnswer | None) -> Sequence[Order]:
        inputs = CycleInput(
            now=now,
            observation=observation,
            pulled=pulled,
            answers=self._answers,
            policy=self._policy,
            recovered=self.cache.cursor is None and self._is_not_the_first(observation, pulled),
        )
        draft = cycle(self.cache, inputs, self._on_snapshot)
        self._on_step("decided")
        entry = replace(draft.entry(), acknowledged=self._acknowledged)
        if self.cache.cursor is None and pulled is not None:
            entry = replace(entry, heard_events=pulled.heard_events)
        self._ledger.record(entry, self.token, now)  # from here on a crash loses nothing
        self._untold |= bool(entry.events)
        self._events_written = max(self._events_written, entry.heard_events or 0) + len(entry.events)
        self._renewed_at = now
        if self._note is not None:
            for event in entry.events:
                self._note(event, draft.spec(event.workload))
        self.cache.apply(draft)
        self._pending.note(draft)
        self._answers, self._news, self._act_again_at, self._acknowledged = {}, False, None, None
        return draft.orders

    def _is_not_the_first(self, observation: Observation, pulled: PullAnswer | None) -> bool:
        """Whether this cluster may have had a ledger before the empty one that we found."""
        heard = pulled is not None and pulled.heard_token is not None
        return heard or bool(observation.pods) or not self._ledger_was_new

    # --- act ---

    def _act(self, now: Instant, orders: Iterable[Order]) -> None:
        """Give the orders, those that free something first, so many at a time."""
        queue = sorted(orders, key=_urgency)
        for first in range(0, len(queue), BATCH):
            batch = queue[first : first + BATCH]
            try:
                answers = self._engine.carry_out(batch, self.token)
            except EngineUnreachable as error:
                self.trouble = str(error)
                self._act_again_at = Instant(now + ASK_AGAIN_S * SECOND_MS)
                return
            for order, answer in zip(batch, answers, strict=True):
                self._note_answer(now, order, answer)
            self._on_step("acted")

    def _note_answer(self, now: Instant, order: Order, answer: OrderResult) -> None:
        if answer.status is not OrderStatus.DONE:
            if isinstance(order, StartOrder):
                self._answers[order.pod] = answer
            else:
                self._act_again_at = Instant(now + ASK_AGAIN_S * SECOND_MS)
        elif isinstance(order, StopOrder):
            confirmed = self.cache.stops_confirmed
            confirmed[order.pod] = min(confirmed.get(order.pod, order.grace_s), order.grace_s)
            self._news = True

    # --- tell ---

    def _waits_with_telling(self, now: Instant, orders: Sequence[Order], observation: Observation) -> bool:
        """Whether something starts that will run in a moment."""
        if self._tell_within_ms and self._tell_at is None and any(isinstance(each, StartOrder) for each in orders):
            self._tell_at = Instant(now + self._tell_within_ms)
            return True
        is_early = self._tell_at is not None and now < self._tell_at <= now + self._tell_within_ms
        if is_early and any(each.state is PodState.STARTING for each in observation.pods.values()):
            return True
        self._tell_at = None
        return False

    def _report_state(self, now: Instant) -> None:
        cache = self.cache
        pushed = self._link.push(
            now,
            self.token,
            workloads=cache.reports,
            changed=self._pending.changed_reports,
            gone=cache.gone,
            nodes=self._pending.nodes(cache),
            queues=self._pending.queues(cache),
            events=self._events,
        )
        self._pending.changed_reports = set()
        if self._link.fenced_by is not None:
            self._rank_above(now, self._link.fenced_by)
        if pushed is None:
            return
        if pushed.events_through is not None:
            self._acknowledged = pushed.events_through
        cache.acknowledge(pushed.workloads)

    def _events(self, after: int, limit: int) -> list[EventReport]:
        if not self._untold:
            return []
        lines = self._ledger.events(after, limit)
        self._untold = bool(lines)
        return [
            EventReport(
                number=number,
                at=event.at,
                kind=event.kind.value,
                workload=event.workload,
                pod=event.pod,
                node=event.node,
                cause=event.cause,
                detail=event.detail,
                outcome=event.outcome,
                exit_code=event.exit_code,
            )
            for number, event in lines
        ]


def _urgency(order: Order) -> int:
    match order:
        case StopOrder():
            return 0
        case ForgetOrder():
            return 1
    return 2
