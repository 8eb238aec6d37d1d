"""The loop: observe, pull, decide, **record, then act**, report. Every step may be repeated without harm.

If it crashes between any two steps, the next loop derives the same work from the ledger and the observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fairpool.api.clusters import DecisionReport, EventReport, PullAnswer, UsageReport
from fairpool.api.message import VERSION
from fairpool.cluster.clock_jumps import ClockJumps
from fairpool.cluster.control_link import Link
from fairpool.cluster.cycle import CycleInput, cycle
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.idle_time import PodIdleTimes
from fairpool.cluster.idle_work import idle_work
from fairpool.cluster.ledger import LeaseLost, Ledger, LedgerUnavailable
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.pending_reports import PendingReports
from fairpool.cluster.planning import PlanHook, SnapshotHook
from fairpool.cluster.report_queue import PIECE_ROWS, Acknowledged, Offered
from fairpool.engines.port import Engine, EngineUnreachable, Fenced
from fairpool.model.bulk_read import without_garbage_collection
from fairpool.model.ids import SECOND_MS, Instant, PodId, Revision, Token, WorkloadId
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
"""Orders that are sent to the engine in one call."""
ACT_S = 1
"""How long orders are sent at most, beyond the call that is under way. The rest is due again in the next cycle."""
FORGOTTEN_AT_LEAST = 20
"""Orders to forget pods that each cycle sends however many others there are, so that ended pods do not pile up."""
RETRY_S = 1
RENEW_S = 5
"""How often an idle loop renews its lease."""


class LeadershipLost(Exception):
    """Another loop has taken over this cluster."""


def no_hook(step: str) -> None:
    """Default of `on_step`; simulations crash the loop at any step."""


class Loop:
    """The control loop of one cluster, for as long as it holds the lease."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        link: Link,
        clock: Callable[[], Instant],
        *,
        holder: str = "loop",
        policy: Policy | None = None,
        on_snapshot: SnapshotHook | None = None,
        on_plan: PlanHook | None = None,
        on_step: Callable[[str], None] = no_hook,
        report_delay_ms: int = 0,
        on_event: Callable[[Event, WorkloadSpec | None], None] | None = None,
        steady_ms: Callable[[], int] | None = None,
        idle: Callable[[], PodIdleTimes] = PodIdleTimes,
    ) -> None:
        """`steady_ms` is a clock that is never set, from any beginning: with it the loop notices that `clock` was.

        `on_event` is called with every event after it was recorded, `on_snapshot` with every snapshot before it is
        planned, `on_plan` with its plan. `idle` says how long pods have left their GPUs idle.

        `report_delay_ms`: after a start order the report waits so long for the pod to run; a user waits for that, and a
        report that it is starting would only delay it.
        """
        self._ledger, self._engine, self._link, self._clock = ledger, engine, link, clock
        self._policy = policy or Policy.product()
        self._on_snapshot, self._on_plan, self._on_step = on_snapshot, on_plan, on_step
        self._report_delay_ms = report_delay_ms
        self._on_event = on_event
        self._jumps = ClockJumps(steady_ms)
        self._idle, self._idle_seen = idle, PodIdleTimes()
        self._warned: dict[WorkloadId, int] = {}
        self._report_at: Instant | None = None
        self.error = ""
        """Why the last cycle was not completed: a full disk, an engine that does not respond."""
        now = clock()
        self._holder = holder
        self._ledger_was_new = ledger.is_new()
        # Tokens of a new ledger start at the current time: a lost ledger may have issued any below that, and orders
        # with them may still be on their way.
        self.token = ledger.acquire(holder, now, at_least=Token(now if self._ledger_was_new else 0))
        self._pending = PendingReports()
        self._events_offered = self._delivered = 0
        """The last event that the link has got, and the last one that was acknowledged when the ledger was read."""
        self._load()
        self._answers: dict[PodId, OrderResult] = {}
        self._run_again = True
        self._retry_at: Instant | None = None
        self._renewed_at = now
        self._last_now = now
        self._acknowledged: int | None = None

    def run_cycle(self) -> bool:
        """Run one cycle. False: there was nothing to do."""
        with without_garbage_collection():  # it would go through all that is kept, in the middle of a decision
            return self._run_cycle()

    def _run_cycle(self) -> bool:
        now = self._clock()
        self._jumps.look(now)
        self.error = ""
        try:
            self._take_acknowledged(self._link.collect())
            if self._link.fenced_by is not None and self._link.fenced_by > self.token:
                self._take_higher_token(now, self._link.fenced_by)
            observation = self._observe(now)
            self._on_step("observed")
            pulled = self._link.pull(now, self.cache.cursor or Revision(0))
            self._on_step("pulled")
            reported_token = (pulled.reported_token if pulled is not None else None) or self.token
            if reported_token > self.token or self._ledger_is_old():
                self._take_higher_token(now, reported_token)
                return True  # observe and pull again
            if self._is_quiet(now, observation, pulled) or self._must_wait(observation, pulled):
                self._keep_lease(now)
                return False
            orders = self._decide_and_record(now, observation, pulled)
            self._on_step("recorded")
            self._act(now, orders)
            if not self._delays_report(now, orders, observation):
                self._report_state(now)
                self._on_step("reported")
        except (EngineUnreachable, LedgerUnavailable) as error:
            self.error = str(error)
            self._retry_at = Instant(now + RETRY_S * SECOND_MS)
            return True
        except (LeaseLost, Fenced) as error:
            raise LeadershipLost(str(error)) from error
        return True

    @property
    def link_error(self) -> str:
        """Why the control plane cannot be reached; empty while it can."""
        return self._link.error

    @property
    def lease_renewed_at(self) -> Instant:
        return self._renewed_at

    @property
    def reports_waiting(self) -> int:
        """Events that the control plane has not acknowledged: recorded, and not yet there."""
        return max(0, self._events_recorded - max(self._delivered, self._acknowledged or 0))

    def next_wake(self) -> Instant | None:
        """When to run the next cycle; None: when something happens."""
        if self._run_again or self._answers or self.cache.to_clean_up or self._has_events_to_offer:
            return Instant(0)
        if self._jumps.jumped_ms:
            return Instant(0)
        moments = [
            self.cache.next_wake(),
            self._link.retry_at,
            self._retry_at,
            self._report_at,
        ]
        return min((each for each in moments if each is not None), default=None)

    def release(self) -> None:
        """Release the lease, so that the next loop need not wait until it expires."""
        self._ledger.release(self.token)

    # --- observe ---

    def _observe(self, now: Instant) -> Observation:
        try:
            return self._engine.observe(self.token)
        except Fenced as error:
            self._take_higher_token(now, error.highest)
            return self._engine.observe(self.token)

    def _take_higher_token(self, now: Instant, highest: Token) -> None:
        """The engine or the control plane has seen a higher token. If the lease is lost, another loop has taken over.

        Otherwise the ledger is new after a loss, or was restored from a backup. A backup contains pods that ended long
        ago and not those that run: it is discarded, and rebuilt from the observation and the declarations.
        """
        self._ledger.renew(self.token, now)
        self._ledger_was_new = False
        self.token = self._ledger.acquire(self._holder, now, at_least=highest)
        if self.cache.cursor is not None:
            self._ledger.start_over(self.token, now)
        self._pending.changed_reports |= self.cache.reports.keys()
        self._load()

    def _load(self) -> None:
        contents = self._ledger.load()
        self.cache = LedgerCache(contents)
        self._events_recorded = contents.events_through
        self._delivered = contents.delivered
        self._events_offered = max(self._events_offered, contents.delivered)
        if contents.protocol != VERSION:
            self._link.pull_everything()  # what an earlier version did not know was not sent

    def _ledger_is_old(self) -> bool:
        """Whether the control plane has events that this ledger has not recorded yet."""
        return self.cache.cursor is not None and self._link.reported_events > self._events_recorded

    def _is_quiet(self, now: Instant, observation: Observation, pulled: PullAnswer | None) -> bool:
        """Whether nothing changed and no timer is due: all that an idle cluster costs."""
        if now < self._last_now:
            self.cache.observation = None  # the clock was set back: every timer may be wrong
        self._last_now = now
        has_idle_work = self._has_idle_work()
        if pulled is not None or observation is not self.cache.observation or has_idle_work:
            return False
        wake = self.next_wake()
        return wake is None or now < wake

    def _has_idle_work(self) -> bool:
        """Whether the latest sample shows a workload that is to be stopped or warned."""
        idle = self._idle()
        if idle == self._idle_seen:
            return False
        self._idle_seen = idle
        found = idle_work(self.cache, idle, self._warned)
        self._warned = {workload: at_ms for workload, at_ms in self._warned.items() if workload in found.near}
        return bool(found.over or found.unwarned)

    def _must_wait(self, observation: Observation, pulled: PullAnswer | None) -> bool:
        """Whether the ledger is empty and all declarations or some nodes are still unknown."""
        if self.cache.cursor is not None:
            return False
        return (
            pulled is None
            or not pulled.whole
            or any(observed.silent_since is not None and not observed.gone for observed in observation.nodes.values())
        )

    def _keep_lease(self, now: Instant) -> None:
        if abs(now - self._renewed_at) >= RENEW_S * SECOND_MS:
            self._ledger.renew(self.token, now)
            self._renewed_at = now

    # --- decide, record ---

    def _decide_and_record(self, now: Instant, observation: Observation, pulled: PullAnswer | None) -> Sequence[Order]:
        inputs = CycleInput(
            now=now,
            observation=observation,
            pulled=pulled,
            answers=self._answers,
            policy=self._policy,
            recovered=self.cache.cursor is None and self._had_ledger_before(observation, pulled),
            jumped_ms=self._jumps.jumped_ms,
            idle=self._idle(),
            warned=self._warned,
        )
        draft = cycle(self.cache, inputs, self._on_snapshot, self._on_plan)
        self._on_step("decided")
        entry = replace(draft.entry(), acknowledged=self._acknowledged)
        if self.cache.cursor is None and pulled is not None:
            entry = replace(entry, reported_events=pulled.reported_events)
        self._ledger.record(entry, self.token, now)  # from here on a crash loses nothing
        self._jumps.jumped_ms = 0
        warned = (event.workload for event in entry.events if event.kind is EventKind.NEAR_LIMIT)
        self._warned.update(dict.fromkeys(warned, inputs.idle.at_ms))
        self._events_recorded = max(self._events_recorded, entry.reported_events or 0) + len(entry.events)
        self._renewed_at = now
        if self._on_event is not None:
            for event in entry.events:
                self._on_event(event, draft.spec(event.workload))
        self.cache.apply(draft)
        self._pending.note(draft)
        self._answers, self._run_again, self._retry_at, self._acknowledged = {}, False, None, None
        return draft.orders

    def _had_ledger_before(self, observation: Observation, pulled: PullAnswer | None) -> bool:
        """Whether this cluster may have had a ledger before this empty one."""
        reported = pulled is not None and pulled.reported_token is not None
        return reported or bool(observation.pods) or not self._ledger_was_new

    # --- act ---

    def _act(self, now: Instant, orders: Iterable[Order]) -> None:
        """Send the orders in batches for about a second: those that free devices first, those that tidy up last."""
        queue = sorted(orders, key=_urgency)
        while queue:
            batch, queue = queue[:BATCH], queue[BATCH:]
            if not self._send(now, batch):
                return
            passed_ms = self._clock() - now
            if queue and not 0 <= passed_ms < ACT_S * SECOND_MS:
                # The rest follows from the ledger: it is due again after the next observation, behind new stops.
                self._renewed_at = self._clock()
                self._ledger.renew(self.token, self._renewed_at)
                self._run_again = True
                if tidying := [order for order in queue if isinstance(order, ForgetOrder)]:
                    self._send(now, tidying[:FORGOTTEN_AT_LEAST])
                return

    def _send(self, now: Instant, batch: Sequence[Order]) -> bool:
        """Have these carried out. False: the engine cannot be reached."""
        try:
            answers = self._engine.carry_out(batch, self.token)
        except EngineUnreachable as error:
            self.error = str(error)
            self._retry_at = Instant(now + RETRY_S * SECOND_MS)
            return False
        for order, answer in zip(batch, answers, strict=True):
            self._note_answer(now, order, answer)
        self._on_step("acted")
        return True

    def _note_answer(self, now: Instant, order: Order, answer: OrderResult) -> None:
        if answer.status is not OrderStatus.DONE:
            if isinstance(order, StartOrder):
                self._answers[order.pod] = answer
            else:
                self._retry_at = Instant(now + RETRY_S * SECOND_MS)
        elif isinstance(order, StopOrder):
            confirmed = self.cache.stops_confirmed
            confirmed[order.pod] = min(confirmed.get(order.pod, order.grace_s), order.grace_s)
            self._run_again = True

    # --- report ---

    def _delays_report(self, now: Instant, orders: Sequence[Order], observation: Observation) -> bool:
        """Whether a pod was started that will soon be running."""
        if self._report_delay_ms and self._report_at is None and any(isinstance(each, StartOrder) for each in orders):
            self._report_at = Instant(now + self._report_delay_ms)
            return True
        is_early = self._report_at is not None and now < self._report_at <= now + self._report_delay_ms
        if is_early and any(each.state is PodState.STARTING for each in observation.pods.values()):
            return True
        self._report_at = None
        return False

    def _report_state(self, now: Instant) -> None:
        """Leave what is to be reported with the link."""
        pending, cache = self._pending, self.cache
        changed, pending.changed_reports = pending.changed_reports, set()
        self._link.report(
            now,
            self.token,
            Offered(
                workloads={each: cache.reports.get(each) for each in sorted(changed)},
                gone=cache.gone,
                nodes=pending.nodes(cache),
                queues=pending.queues(cache),
                events=self._next_events(),
                events_after=self._delivered,
            ),
        )
        self._take_acknowledged(self._link.collect())

    def _take_acknowledged(self, acknowledged: Acknowledged) -> None:
        if acknowledged.events_through is not None:
            self._acknowledged = acknowledged.events_through
        if acknowledged.is_put_back and acknowledged.events_through is not None:
            self._events_offered = acknowledged.events_through
            self._run_again = True
        # A report that was drafted meanwhile and not offered yet is another one than was acknowledged.
        not_offered = self._pending.changed_reports
        self.cache.acknowledge(each for each in acknowledged.workloads if each not in not_offered)

    @property
    def _has_events_to_offer(self) -> bool:
        """Whether the ledger has events that the link has not got, and the link has room for them."""
        is_delayed = self._report_at is not None
        return (
            self._events_offered < self._events_recorded and self._link.events_waiting < PIECE_ROWS and not is_delayed
        )

    def _next_events(self) -> list[EventReport]:
        if self._events_offered >= self._events_recorded or self._link.events_waiting >= PIECE_ROWS:
            return []
        events = self._ledger.events(self._events_offered, 2 * PIECE_ROWS)
        self._events_offered = events[-1][0] if events else self._events_recorded
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
                usage=None if event.usage is None else UsageReport.of(event.usage),
                decision=None if event.decision is None else DecisionReport.of(event.decision),
            )
            for number, event in events
        ]


def _urgency(order: Order) -> int:
    match order:
        case StopOrder():
            return 0
        case ForgetOrder():
            return 2
    return 1
