"""The link of a loop to its control plane: pull and push, with back-off.

Neither keeps the loop from scheduling: while the control plane is unreachable both are retried after 1 s, 2 s and so on
up to a minute. What was not acknowledged is sent again, as it is by then. `LinkState` decides what to ask and what to
send next; there is no clock and no network in it. `ControlLink` makes the calls in the loop's own thread, as
simulations need it; `LinkThreads` makes them in threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from fairpool.api.clusters import ControlPlaneUnreachable as ControlPlaneUnreachable  # part of the protocol below
from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport
from fairpool.api.message import VERSION
from fairpool.cluster.report_queue import PIECE_ROWS, Acknowledged, Offered, ReportQueue
from fairpool.model.ids import SECOND_MS, Instant, Revision, Token

FIRST_WAIT_MS: Final = 1 * SECOND_MS
LONGEST_WAIT_MS: Final = 60 * SECOND_MS
RESTARTS_MAX: Final = 2
"""How often a report of everything is begun without a wait, before one was sent to its end."""


class ControlPlane(Protocol):
    """Desired state in, reports out. Either call may be repeated without harm."""

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What changed after a revision; waits up to `wait_s` for a change. Raises `ControlPlaneUnreachable`."""

    def push(self, report: PushReport) -> PushAnswer:
        """Store a report or a piece of one. Raises `ControlPlaneUnreachable`."""


class Link(Protocol):
    """What a loop needs of its link. No call waits for the network, unless the calls are made in the loop's thread."""

    @property
    def fenced_by(self) -> Token | None:
        """The control plane has seen a loop with this higher token, and refuses reports of this one."""

    @property
    def reported_events(self) -> int:
        """The highest event number that the control plane has. Above those of the ledger: the ledger is old."""

    @property
    def error(self) -> str:
        """Why the control plane does not answer; empty while it does."""

    @property
    def retry_at(self) -> Instant | None:
        """When the loop should run for the link's sake; None: when there is something to report."""

    @property
    def events_waiting(self) -> int:
        """Events that were offered and are not acknowledged."""

    def pull(self, now: Instant, after: Revision) -> PullAnswer | None:
        """What changed; None if nothing did, or if it is not known yet."""

    def report(self, now: Instant, token: Token, offered: Offered) -> None:
        """Take over what is to be reported."""

    def collect(self) -> Acknowledged:
        """What was acknowledged since the last call."""

    def pull_everything(self) -> None:
        """Ask for everything with the next pull."""


class LinkState:
    """What to ask next, what to send next, and what the answers mean."""

    def __init__(self, cluster: str, piece_rows: int = PIECE_ROWS) -> None:
        self.fenced_by: Token | None = None
        self.reported_events = 0
        self.reports = ReportQueue(cluster, piece_rows)
        self.pulls = BackOff()
        self.pushes = BackOff()
        self.pull_all = False
        self._offered: Revision | None = None
        self._version = VERSION
        """Of the control plane, as far as it is known."""

    @property
    def error(self) -> str:
        return self.pulls.error or self.pushes.error

    @property
    def away_since(self) -> Instant | None:
        """Since when the control plane has not answered; None while it does."""
        return _earliest(self.pulls.away_since, self.pushes.away_since)

    # --- pull ---

    def question(self, after: Revision) -> Revision:
        """The revision to ask about, for a loop that has recorded this one."""
        if after == self._offered:
            self.pull_all = False  # only now: the loop may have failed to record the answer
        return Revision(0) if self.pull_all else after

    def pulled(self, now: Instant, asked: Revision, answer: PullAnswer) -> PullAnswer | None:
        """Take note of an answer; None: it says nothing."""
        self.pushes.hurry(now, self.pulls)
        self.reports.even_nothing |= self.pulls.away_since is not None
        self.pulls.succeed()
        self._version = answer.version
        if answer.after != asked or not answer.says_something:
            return None
        self._offered = answer.revision if answer.whole else None
        self.reported_events = max(self.reported_events, answer.reported_events)
        if answer.whole and asked:
            self.reports.send_all = True  # it sent everything unasked: it lost its state, and needs all reports
        return answer

    # --- push ---

    def next_piece(self, now: Instant, token: Token) -> PushReport | None:
        """The next piece to send; None: there is nothing to send, or not yet."""
        if not self.pushes.is_due(now):
            return None
        piece = self.reports.next_piece(now, token, self._version)
        if piece is None:
            self.pushes.succeed()  # what could not be sent is no longer true: nothing to retry
        return piece

    def pushed(self, now: Instant, report: PushReport, answer: PushAnswer) -> None:
        """Take note of the answer to a piece."""
        self.reported_events = max(self.reported_events, answer.events_through)
        self.fenced_by = answer.token if answer.token > report.token else None
        if self.fenced_by is not None:
            self.push_failed(now, f"another loop has taken over this cluster, with token {answer.token}")
        elif answer.takes(report):
            self.pushes.succeed()
            if not self.reports.acknowledge(report, answer):
                self.pushes.fail(now, "the control plane has not stored all events of a report")
            self._note_resync(now, answer.resync)
        elif answer.resync and (answer.token, answer.number) < (report.token, report.number):
            self.pushes.succeed()  # the pieces before this one are not known there
            self._note_resync(now, True)
        else:
            # A late answer, or a loop with the same token has counted further: continue from there.
            self.push_failed(now, "the answer was for another report", answer.number)

    def _note_resync(self, now: Instant, resync: bool) -> None:
        if not resync:
            return
        self.reports.send_all = True
        self.pull_all = True  # it lost our reports, so it may have lost declarations too
        if self.reports.beginnings > RESTARTS_MAX:
            self.pushes.fail(now, "the control plane asks for everything again and again")

    def push_failed(self, now: Instant, error: str, highest: int = 0) -> None:
        self.pushes.fail(now, error)
        self.reports.fail(highest)


class ControlLink:
    """A link whose calls are made in the loop's own thread."""

    def __init__(
        self,
        control: ControlPlane,
        cluster: str,
        *,
        piece_rows: int = PIECE_ROWS,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """`on_step` is called between two pieces; what it raises is a crash at that point."""
        self._control, self._on_step = control, on_step
        self.state = LinkState(cluster, piece_rows)

    @property
    def fenced_by(self) -> Token | None:
        return self.state.fenced_by

    @property
    def reported_events(self) -> int:
        return self.state.reported_events

    @property
    def error(self) -> str:
        return self.state.error

    @property
    def retry_at(self) -> Instant | None:
        pull_at = self.state.pulls.retry_at
        if self.state.pull_all and pull_at is None:
            return Instant(0)
        return _earliest(pull_at, self.state.pushes.retry_at)

    @property
    def events_waiting(self) -> int:
        return self.state.reports.events_waiting

    def pull(self, now: Instant, after: Revision) -> PullAnswer | None:
        if not self.state.pulls.is_due(now):
            return None
        asked = self.state.question(after)
        try:
            answer = self._control.pull(asked, 0.0)
        except ControlPlaneUnreachable as error:
            self.state.pulls.fail(now, str(error))
            return None
        return self.state.pulled(now, asked, answer)

    def report(self, now: Instant, token: Token, offered: Offered) -> None:
        self.state.reports.offer(offered)
        self.send(now, token)

    def send(self, now: Instant, token: Token) -> None:
        """Send what is to be reported, piece by piece, until one fails."""
        while (piece := self.state.next_piece(now, token)) is not None:
            try:
                answer = self._control.push(piece)
            except ControlPlaneUnreachable as error:
                self.state.push_failed(now, str(error))
                return
            self.state.pushed(now, piece, answer)
            self._on_step("piece sent")

    def collect(self) -> Acknowledged:
        return self.state.reports.collect()

    def pull_everything(self) -> None:
        self.state.pull_all = True


class BackOff:
    """Exponential back-off of one call."""

    def __init__(self) -> None:
        self.away_since: Instant | None = None
        self.retry_at: Instant | None = None
        self.error = ""
        self._wait_ms = FIRST_WAIT_MS

    def is_due(self, now: Instant) -> bool:
        # A clock that was set back must not cause a wait of hours.
        return self.retry_at is None or not now < self.retry_at <= now + LONGEST_WAIT_MS

    def fail(self, now: Instant, error: str) -> None:
        self.away_since = now if self.away_since is None else self.away_since
        self.error = error or "no answer"
        self.retry_at = Instant(now + self._wait_ms)
        self._wait_ms = min(2 * self._wait_ms, LONGEST_WAIT_MS)

    def succeed(self) -> None:
        self.away_since, self.retry_at, self.error, self._wait_ms = None, None, "", FIRST_WAIT_MS

    def hurry(self, now: Instant, other: BackOff) -> None:
        """The other call succeeded after a failure: retry at once."""
        if other.away_since is not None and self.retry_at is not None:
            self.retry_at = now


def _earliest(*moments: Instant | None) -> Instant | None:
    return min((each for each in moments if each is not None), default=None)
