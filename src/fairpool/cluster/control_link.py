"""The loop's connection to its control plane: pull and push, with back-off.

The loop pulls at the beginning of a cycle and pushes at its end. Neither keeps it from scheduling: while the control
plane is unreachable both return None, and are retried after 1 s, 2 s and so on up to a minute. What was not
acknowledged is sent again, as it is by then. There is no clock here: the loop passes the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from fairpool.api.clusters import ControlPlaneUnreachable as ControlPlaneUnreachable  # part of the protocol below
from fairpool.api.clusters import (
    EventReport,
    GoneReport,
    NodeReport,
    PullAnswer,
    PushAnswer,
    PushReport,
    QueueReport,
    WorkloadReport,
)
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PoolName, QueueId, Revision, Token, WorkloadId

FIRST_WAIT_MS: Final = 1 * SECOND_MS
LONGEST_WAIT_MS: Final = 60 * SECOND_MS
EVENTS_MAX: Final = 1000
"""In one report. More are sent in the next one, at once."""

Key = TypeVar("Key", bound=Hashable)
Report = TypeVar("Report")


class ControlPlane(Protocol):
    """Desired state in, reports out. Either call may be repeated without harm."""

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision; waits up to `wait_s` for a change. Raises `ControlPlaneUnreachable`."""

    def push(self, report: PushReport) -> PushAnswer:
        """Store a report. Raises `ControlPlaneUnreachable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What the control plane has acknowledged in one push."""

    events_through: int | None = None
    """It has every event up to this one. None: no more than before."""
    workloads: tuple[WorkloadId, ...] = ()
    """Their reports are stored as they are now."""
    gone: tuple[WorkloadId, ...] = ()


class ControlLink:
    """Pull and push of one cluster, for one loop."""

    def __init__(self, control: ControlPlane, cluster: str, wait_s: float = 0.0) -> None:
        self.fenced_by: Token | None = None
        """The control plane has seen a loop with this higher token, and refuses reports of this one."""
        self.heard_events = 0
        """The highest event number that the control plane has. Above those of the ledger: the ledger is old."""
        self._control = control
        self._cluster = cluster
        self._wait_s = wait_s
        self._pulls = _BackOff()
        self._pushes = _BackOff()
        self._pull_all = False
        self._offered: Revision | None = None
        self._push_all = True  # a new loop does not know what was acknowledged before
        self._push_even_nothing = False
        self._push_again: Instant | None = None
        self._number = 0
        self._answered = 0
        self._events_through = 0
        self._workloads = _Unacknowledged[WorkloadId, WorkloadReport]()
        self._gone = _Unacknowledged[WorkloadId, GoneReport]()
        self._nodes = _Unacknowledged[NodeName, NodeReport]()
        self._queues = _Unacknowledged[tuple[PoolName, QueueId], QueueReport]()

    @property
    def away_since(self) -> Instant | None:
        """Since when the control plane has not answered; None while it does."""
        return _earliest(self._pulls.away_since, self._pushes.away_since)

    @property
    def trouble(self) -> str:
        """Why it does not answer."""
        return self._pulls.trouble or self._pushes.trouble

    @property
    def retry_at(self) -> Instant | None:
        """When the loop should run for a retry; None: when there is something to report."""
        return _earliest(self._pulls.retry_at, self._pushes.retry_at, self._push_again)

    def pull(self, now: Instant, after: Revision) -> PullAnswer | None:
        """What changed; None if nothing did, or if the control plane is unreachable."""
        if not self._pulls.is_due(now):
            return None
        if after == self._offered:
            self._pull_all = False  # only now: the loop may have failed to record the answer
        asked = Revision(0) if self._pull_all else after
        try:
            answer = self._control.pull(asked, self._wait_s)
        except ControlPlaneUnreachable as error:
            self._pulls.fail(now, str(error))
            return None
        self._pushes.hurry(now, self._pulls)
        self._push_even_nothing |= self._pulls.away_since is not None
        self._pulls.succeed()
        if answer.after != asked or not answer.says_something:
            return None
        self._offered = answer.revision if answer.whole else None
        self.heard_events = max(self.heard_events, answer.heard_events)
        if answer.whole and asked:
            self._push_all = True  # it sent everything unasked: it lost its state, and needs all reports
        return answer

    def push(
        self,
        now: Instant,
        token: Token,
        *,
        workloads: Mapping[WorkloadId, WorkloadReport],
        changed: Collection[WorkloadId],
        gone: Mapping[WorkloadId, int],
        nodes: Iterable[NodeReport] | None = None,
        queues: Iterable[QueueReport] | None = None,
        events: Callable[[int, int], Sequence[EventReport]],
    ) -> Pushed | None:
        """Report the current state; None if it could not be sent now.

        `workloads` are the reports of all workloads, `changed` those that may differ from the last call or no longer
        exist, `gone` (with their runs) those whose declaration may be removed. `nodes` and `queues` are all of them,
        or None: unchanged. What is unchanged should be the same object, then comparing costs nothing.
        `events(after, limit)` reads events of the ledger.
        """
        self._workloads.set_current(workloads, sorted(changed))
        self._gone.set_current({each: GoneReport(id=each, run=run) for each, run in gone.items()})
        if nodes is not None:
            self._nodes.set_current({each.name: each for each in nodes})
        if queues is not None:
            self._queues.set_current({(each.pool, each.queue): each for each in queues})
        if not self._pushes.is_due(now):
            return None
        unchanged = self._workloads.unchanged()
        report = self._report(now, token, events)
        if not report.says_something and not self._push_even_nothing:
            self._push_again = None
            self._pushes.succeed()  # what could not be sent is no longer true: nothing to retry
            return Pushed(workloads=unchanged)
        try:
            answer = self._control.push(report)
        except ControlPlaneUnreachable as error:
            self._fail(report, now, str(error))
            return None
        self.heard_events = max(self.heard_events, answer.events_through)
        return self._answer_to(report, answer, now, unchanged)

    def _report(self, now: Instant, token: Token, events: Callable[[int, int], Sequence[EventReport]]) -> PushReport:
        whole = self._push_all
        self._number += 1
        return PushReport(
            cluster=self._cluster,
            token=token,
            number=self._number,
            after=self._answered,
            whole=whole,
            at=now,
            workloads=self._workloads.to_send(whole),
            gone=self._gone.to_send(whole),
            nodes=self._nodes.to_send(whole),
            nodes_gone=() if whole else self._nodes.removed(),
            queues=self._queues.to_send(whole),
            queues_gone=() if whole else self._queues.removed(),
            events=tuple(events(self._events_through, EVENTS_MAX)),
        )

    def _answer_to(
        self, report: PushReport, answer: PushAnswer, now: Instant, unchanged: tuple[WorkloadId, ...]
    ) -> Pushed | None:
        self.fenced_by = answer.token if answer.token > report.token else None
        if self.fenced_by is not None:
            self._pushes.fail(now, f"another loop has taken over this cluster, with token {answer.token}")
            return None
        if not answer.takes(report):
            # A late answer, or a loop with the same token has counted further: continue from there.
            self._number = max(self._number, answer.number)
            self._fail(report, now, "the answer was for another report")
            return None
        self._pushes.succeed()
        self._answered = report.number
        self._push_all = answer.want_whole
        self._pull_all |= answer.want_whole  # it lost our reports, so it may have lost declarations too
        self._push_even_nothing = False
        more = answer.want_whole or len(report.events) >= EVENTS_MAX
        self._push_again = now if more else None
        for tracked in (self._workloads, self._gone, self._nodes, self._queues):
            tracked.acknowledge(report.whole)
        return Pushed(
            events_through=self._acknowledged_events(report, answer),
            workloads=(*(each.id for each in report.workloads), *unchanged),
            gone=tuple(each.id for each in report.gone),
        )

    def _fail(self, report: PushReport, now: Instant, trouble: str) -> None:
        """Retry later. The report may have been stored and only the answer lost: which of the two is unknown."""
        self._pushes.fail(now, trouble)
        if not report.whole:  # a whole report is sent again as a whole
            for tracked in (self._workloads, self._gone, self._nodes, self._queues):
                tracked.mark_unknown()

    def _acknowledged_events(self, report: PushReport, answer: PushAnswer) -> int | None:
        """The last event of this report that is stored; None: no more than before."""
        if not report.events:
            return None
        through = min(answer.events_through, report.events[-1].number)
        if through <= self._events_through:
            return None
        self._events_through = through
        return through


class _BackOff:
    """Exponential back-off of one call."""

    def __init__(self) -> None:
        self.away_since: Instant | None = None
        self.retry_at: Instant | None = None
        self.trouble = ""
        self._wait_ms = FIRST_WAIT_MS

    def is_due(self, now: Instant) -> bool:
        # A clock that was set back must not cause a wait of hours.
        return self.retry_at is None or not now < self.retry_at <= now + LONGEST_WAIT_MS

    def fail(self, now: Instant, trouble: str) -> None:
        self.away_since = now if self.away_since is None else self.away_since
        self.trouble = trouble or "no answer"
        self.retry_at = Instant(now + self._wait_ms)
        self._wait_ms = min(2 * self._wait_ms, LONGEST_WAIT_MS)

    def succeed(self) -> None:
        self.away_since, self.retry_at, self.trouble, self._wait_ms = None, None, "", FIRST_WAIT_MS

    def hurry(self, now: Instant, other: _BackOff) -> None:
        """The other call succeeded after a failure: retry at once."""
        if other.away_since is not None and self.retry_at is not None:
            self.retry_at = now


class _Unacknowledged(Generic[Key, Report]):
    """Reports of one kind: their current values, and which of them are not acknowledged."""

    def __init__(self) -> None:
        self._current: Mapping[Key, Report] = {}
        self._acknowledged: dict[Key, Report | None] = {}
        """None: sent, and the answer was lost."""
        self._unconfirmed: dict[Key, None] = {}  # a set that keeps its order

    def set_current(self, reports: Mapping[Key, Report], changed: Iterable[Key] | None = None) -> None:
        """Set the current values. Without `changed`, all are compared."""
        self._current = reports
        if changed is None:
            changed = [key for key, report in reports.items() if self._acknowledged.get(key) is not report]
            changed += [key for key in self._acknowledged if key not in reports]
        self._unconfirmed.update(dict.fromkeys(changed))

    def to_send(self, whole: bool) -> tuple[Report, ...]:
        if whole:
            return tuple(self._current.values())
        present = [key for key in self._unconfirmed if key in self._current]
        return tuple(self._current[key] for key in present if self._acknowledged.get(key) != self._current[key])

    def unchanged(self) -> tuple[Key, ...]:
        """Possibly changed reports that are as they were acknowledged."""
        there = [key for key in self._unconfirmed if key in self._current]
        return tuple(key for key in there if self._acknowledged.get(key) == self._current[key])

    def removed(self) -> tuple[Key, ...]:
        """Acknowledged reports that no longer exist."""
        return tuple(key for key in self._unconfirmed if key not in self._current and key in self._acknowledged)

    def mark_unknown(self) -> None:
        """Whether the last report was stored is unknown."""
        for key in self._unconfirmed:
            report = self._current.get(key)
            if report is None and key not in self._acknowledged:
                continue  # it was never sent
            if report is None or self._acknowledged.get(key) != report:
                self._acknowledged[key] = None

    def acknowledge(self, whole: bool) -> None:
        """All that was to be sent is stored."""
        if whole:
            self._acknowledged = dict(self._current)
            self._unconfirmed.clear()
        for key in self._unconfirmed:
            if key in self._current:
                self._acknowledged[key] = self._current[key]
            else:
                self._acknowledged.pop(key, None)
        self._unconfirmed.clear()


def _earliest(*moments: Instant | None) -> Instant | None:
    return min((each for each in moments if each is not None), default=None)
