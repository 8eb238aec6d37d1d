"""The cluster's end of the seam to its control plane: pull and push, with patience.

The loop pulls when a turn begins and pushes when it ends. Neither ever keeps it from scheduling: while the control
plane is away both answer None, and are tried again after 1 s, 2 s and so on up to a minute. What was not acknowledged
is said again, as it is by then. There is no clock here, the loop says what time it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

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
from fairpool.api.clusters import Unreachable as Unreachable  # whoever implements the seam finds all of it here
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PoolName, QueueId, Revision, Token, WorkloadId

FIRST_WAIT_MS: Final = 1 * SECOND_MS
LONGEST_WAIT_MS: Final = 60 * SECOND_MS
EVENTS_MAX: Final = 1000
"""In one report. More are told in the next one, at once."""

Key = TypeVar("Key", bound=Hashable)
Level = TypeVar("Level")


class ControlPlane(Protocol):
    """Where a cluster learns what is desired, and says what is so. Either verb may be repeated without harm."""

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision, waiting a while for something to change. Raises `Unreachable`."""

    def push(self, report: PushReport) -> PushAnswer:
        """Take in what is so. Raises `Unreachable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What the control plane has acknowledged in one push."""

    events_through: int | None = None
    """It has every event up to this one, which is news. None: no more than it had."""
    workloads: tuple[WorkloadId, ...] = ()
    """Their levels are known there as they are now."""
    gone: tuple[WorkloadId, ...] = ()


class ControlLink:
    """Pull and push of one cluster, for as long as one loop lives."""

    def __init__(self, control: ControlPlane, cluster: str, wait_s: float = 0.0) -> None:
        self.fenced_by: Token | None = None
        """The control plane has heard a loop with this higher token, and does not listen to ours."""
        self.heard_events = 0
        """The highest number of an event that the control plane has: not above what our ledger has written."""
        self._control = control
        self._cluster = cluster
        self._wait_s = wait_s
        self._pulls = _BackOff()
        self._pushes = _BackOff()
        self._pull_all = False
        self._offered: Revision | None = None
        self._push_all = True  # a loop that starts cannot know what was acknowledged before
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
        """Why it does not answer, in words."""
        return self._pulls.trouble or self._pushes.trouble

    @property
    def retry_at(self) -> Instant | None:
        """When the loop should wake on our account; None: only when it has something to say."""
        return _earliest(self._pulls.retry_at, self._pushes.retry_at, self._push_again)

    def pull(self, now: Instant, after: Revision) -> PullAnswer | None:
        """What is newly desired; None if nothing is, or if nobody can tell."""
        if not self._pulls.is_due(now):
            return None
        if after == self._offered:
            self._pull_all = False  # not before: the loop may have come to grief over what it was given
        asked = Revision(0) if self._pull_all else after
        try:
            answer = self._control.pull(asked, self._wait_s)
        except Unreachable as error:
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
            self._push_all = True  # nobody asked for everything: it does not remember, so it needs ours as well
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
        """Say what is so; None if it could not be said now.

        `workloads` are the levels of all, `changed` those that may differ from the last call or are no more, `gone`
        (with their runs) all whose declaration may go. `nodes` and `queues` are all there are, None: as before; hand
        in the very same object for what is unchanged, and comparing costs nothing. `events(after, limit)` are lines
        of the ledger.
        """
        self._workloads.now_is(workloads, sorted(changed))
        self._gone.now_is({each: GoneReport(id=each, run=run) for each, run in gone.items()})
        if nodes is not None:
            self._nodes.now_is({each.name: each for each in nodes})
        if queues is not None:
            self._queues.now_is({(each.pool, each.queue): each for each in queues})
        if not self._pushes.is_due(now):
            return None
        unchanged = self._workloads.unchanged()
        report = self._report(now, token, events)
        if not report.says_something and not self._push_even_nothing:
            self._push_again = None
            self._pushes.succeed()  # what could not be said has become untrue again: there is nothing to try again
            return Pushed(workloads=unchanged)
        try:
            answer = self._control.push(report)
        except Unreachable as error:
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
            workloads=self._workloads.to_say(whole),
            gone=self._gone.to_say(whole),
            nodes=self._nodes.to_say(whole),
            nodes_gone=() if whole else self._nodes.left(),
            queues=self._queues.to_say(whole),
            queues_gone=() if whole else self._queues.left(),
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
            # Late, or a loop with our token has counted further than we have: go on from there.
            self._number = max(self._number, answer.number)
            self._fail(report, now, "the answer was for another report")
            return None
        self._pushes.succeed()
        self._answered = report.number
        self._push_all = answer.want_whole
        self._pull_all |= answer.want_whole  # who forgot what we said may also have forgotten what it said
        self._push_even_nothing = False
        more = answer.want_whole or len(report.events) >= EVENTS_MAX
        self._push_again = now if more else None
        for said in (self._workloads, self._gone, self._nodes, self._queues):
            said.acknowledge(report.whole)
        return Pushed(
            events_through=self._acknowledged_events(report, answer),
            workloads=(*(each.id for each in report.workloads), *unchanged),
            gone=tuple(each.id for each in report.gone),
        )

    def _fail(self, report: PushReport, now: Instant, trouble: str) -> None:
        """It may have been taken in, and only the answer lost: what it said is known there, or what was said before."""
        self._pushes.fail(now, trouble)
        if not report.whole:  # a whole one is said again as a whole
            for said in (self._workloads, self._gone, self._nodes, self._queues):
                said.doubt()

    def _acknowledged_events(self, report: PushReport, answer: PushAnswer) -> int | None:
        """How far the events of this report are known there. Never more than it told, nor less than was known."""
        if not report.events:
            return None
        through = min(answer.events_through, report.events[-1].number)
        if through <= self._events_through:
            return None
        self._events_through = through
        return through


class _BackOff:
    """Back-off of one verb."""

    def __init__(self) -> None:
        self.away_since: Instant | None = None
        self.retry_at: Instant | None = None
        self.trouble = ""
        self._wait_ms = FIRST_WAIT_MS

    def is_due(self, now: Instant) -> bool:
        # A clock that was set back must not make us wait for hours.
        return self.retry_at is None or not now < self.retry_at <= now + LONGEST_WAIT_MS

    def fail(self, now: Instant, trouble: str) -> None:
        self.away_since = now if self.away_since is None else self.away_since
        self.trouble = trouble or "no answer"
        self.retry_at = Instant(now + self._wait_ms)
        self._wait_ms = min(2 * self._wait_ms, LONGEST_WAIT_MS)

    def succeed(self) -> None:
        self.away_since, self.retry_at, self.trouble, self._wait_ms = None, None, "", FIRST_WAIT_MS

    def hurry(self, now: Instant, other: _BackOff) -> None:
        """The other verb has come through after an absence: no need to wait any longer."""
        if other.away_since is not None and self.retry_at is not None:
            self.retry_at = now


class _Unacknowledged(Generic[Key, Level]):
    """Levels of one kind: as they are, and which of them the other side has not acknowledged."""

    def __init__(self) -> None:
        self._levels: Mapping[Key, Level] = {}
        self._acknowledged: dict[Key, Level | None] = {}
        """None: one of several levels, nobody knows which."""
        self._doubtful: dict[Key, None] = {}  # a set that keeps its order

    def now_is(self, levels: Mapping[Key, Level], changed: Iterable[Key] | None = None) -> None:
        """What is so now. Without word of what changed, all is compared."""
        self._levels = levels
        if changed is None:
            changed = [key for key, level in levels.items() if self._acknowledged.get(key) is not level]
            changed += [key for key in self._acknowledged if key not in levels]
        self._doubtful.update(dict.fromkeys(changed))

    def to_say(self, whole: bool) -> tuple[Level, ...]:
        if whole:
            return tuple(self._levels.values())
        present = [key for key in self._doubtful if key in self._levels]
        return tuple(self._levels[key] for key in present if self._acknowledged.get(key) != self._levels[key])

    def unchanged(self) -> tuple[Key, ...]:
        """What may have changed and is as it was acknowledged."""
        there = [key for key in self._doubtful if key in self._levels]
        return tuple(key for key in there if self._acknowledged.get(key) == self._levels[key])

    def left(self) -> tuple[Key, ...]:
        """What was acknowledged and is no more."""
        return tuple(key for key in self._doubtful if key not in self._levels and key in self._acknowledged)

    def doubt(self) -> None:
        """Nobody knows whether what was to say is known there."""
        for key in self._doubtful:
            level = self._levels.get(key)
            if level is None and key not in self._acknowledged:
                continue  # it came and went without a word
            if level is None or self._acknowledged.get(key) != level:
                self._acknowledged[key] = None

    def acknowledge(self, whole: bool) -> None:
        """All that was to say is known there."""
        if whole:
            self._acknowledged = dict(self._levels)
            self._doubtful.clear()
        for key in self._doubtful:
            if key in self._levels:
                self._acknowledged[key] = self._levels[key]
            else:
                self._acknowledged.pop(key, None)
        self._doubtful.clear()


def _earliest(*moments: Instant | None) -> Instant | None:
    return min((each for each in moments if each is not None), default=None)
