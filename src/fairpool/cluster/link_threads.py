"""The link of a running cluster: one thread pulls, another pushes, so that the loop never waits for the network.

The loop takes the latest answer to its pull from here and leaves here what is to be reported. An answer is kept until
the loop asks for another revision, because the loop may fail to record it and ask again. The control plane holds a pull
until something changes; the loop is woken when an answer has arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from fairpool.api.clusters import PullAnswer
from fairpool.cluster.control_link import BackOff, ControlPlane, ControlPlaneUnreachable, LinkState
from fairpool.cluster.report_queue import Acknowledged, Offered
from fairpool.model.ids import SECOND_MS, Instant, Revision, Token

WAIT_S: Final = 20.0
"""How long the control plane holds a pull while nothing changes."""


class LinkThreads:
    """A link whose calls are made in two threads."""

    def __init__(
        self,
        pulls: ControlPlane,
        pushes: ControlPlane,
        cluster: str,
        clock: Callable[[], Instant],
        poke: Callable[[], None],
        wait_s: float = WAIT_S,
    ) -> None:
        """`pulls` and `pushes` are two clients of one control plane, one for each thread; `poke` wakes the loop."""
        self._pulls, self._pushes = pulls, pushes
        self._cluster, self._clock, self._poke, self._wait_s = cluster, clock, poke, wait_s
        self._changed = threading.Condition()
        self._state = LinkState(cluster)
        self._after: Revision | None = None
        """The revision that the loop has recorded; None: it has not asked yet."""
        self._answer: PullAnswer | None = None
        self._token: Token | None = None
        """Of the loop that reports; None: it has not reported yet."""
        self._is_closed = False
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (("pull", self._pull_forever), ("push", self._push_forever))
        ]

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self, timeout_s: float) -> bool:
        """Stop the threads, and return whether they have ended. The caller ends the calls under way first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def start_over(self) -> None:
        """Another loop takes over this link: it knows nothing of what was acknowledged to the last one."""
        with self._changed:
            self._state = LinkState(self._cluster)
            self._after = self._answer = self._token = None

    # --- what the loop calls ---

    @property
    def fenced_by(self) -> Token | None:
        return self._state.fenced_by

    @property
    def reported_events(self) -> int:
        return self._state.reported_events

    @property
    def error(self) -> str:
        return self._state.error

    @property
    def retry_at(self) -> Instant | None:
        """The threads retry by themselves."""
        return None

    @property
    def events_waiting(self) -> int:
        return self._state.reports.events_waiting

    def pull(self, now: Instant, after: Revision) -> PullAnswer | None:
        with self._changed:
            asked = self._state.question(after)
            if after != self._after or (self._answer is not None and self._answer.after != asked):
                self._after, self._answer = after, None
                self._changed.notify_all()
            return self._answer

    def report(self, now: Instant, token: Token, offered: Offered) -> None:
        with self._changed:
            self._token = token
            self._state.reports.offer(offered)
            self._changed.notify_all()

    def collect(self) -> Acknowledged:
        with self._changed:
            return self._state.reports.collect()

    def pull_everything(self) -> None:
        with self._changed:
            self._state.pull_all = True

    # --- the threads ---

    def _pull_forever(self) -> None:
        while self._wait(lambda state: self._has_to_pull(), lambda state: state.pulls):
            with self._changed:
                state, after = self._state, self._after
                if after is None:
                    continue
                asked = state.question(after)
            try:
                # Everything is answered at once: there is nothing to wait for.
                answer = self._pulls.pull(asked, self._wait_s if asked else 0.0)
            except ControlPlaneUnreachable as error:
                self._note(state, partial(state.pulls.fail, self._clock(), str(error)))
                continue
            self._deliver(state, asked, answer)

    def _has_to_pull(self) -> bool:
        return self._after is not None and self._answer is None

    def _deliver(self, state: LinkState, asked: Revision, answer: PullAnswer) -> None:
        answer.convert()  # many of them take long, and the loop should not wait for it
        with self._changed:
            news = state.pulled(self._clock(), asked, answer)
            self._changed.notify_all()  # a push need not wait any longer
            if state is not self._state or self._after is None or asked != state.question(self._after):
                return  # the loop asks for another revision now
            self._answer = news
        if news is not None:
            self._poke()

    def _push_forever(self) -> None:
        while self._wait(lambda state: self._token is not None and state.reports.has_more, lambda state: state.pushes):
            with self._changed:
                state, token, now = self._state, self._token, self._clock()
                report = state.next_piece(now, token) if token is not None else None
            if report is None:
                continue
            try:
                answer = self._pushes.push(report)
            except ControlPlaneUnreachable as error:
                self._note(state, partial(state.push_failed, self._clock(), str(error)))
            else:
                self._note(state, partial(state.pushed, self._clock(), report, answer))

    def _note(self, state: LinkState, change: Callable[[], None]) -> None:
        """Note what became of a call, and let the loop see it."""
        with self._changed:
            change()
            self._changed.notify_all()
            is_current = state is self._state and not self._is_closed
        if is_current:
            self._poke()

    def _wait(self, is_due: Callable[[LinkState], bool], back_off: Callable[[LinkState], BackOff]) -> bool:
        """Wait until there is something to do, and it is time to do it. False: closed."""
        with self._changed:
            while not self._is_closed:
                if not is_due(self._state):
                    self._changed.wait()
                    continue
                now, waits = self._clock(), back_off(self._state)
                if waits.is_due(now):
                    return True
                assert waits.retry_at is not None
                self._changed.wait((waits.retry_at - now) / SECOND_MS)
            return False
