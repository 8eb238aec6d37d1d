"""Long poll of the control plane: a thread keeps one pull open, so that the loop never waits.

`ControlLink` pulls at the beginning of every cycle and needs an answer at once; the control plane holds a pull until
something changes. The thread in between keeps one pull open and wakes the loop when an answer has arrived. An answer is
kept until the loop asks for another revision, because the loop may fail to record it and ask again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.cluster.control_link import ControlPlane
from fairpool.model.ids import Revision

WAIT_S: Final = 20.0
"""How long the control plane holds a pull while nothing changes."""


class LongPoll:
    """A `ControlPlane` whose `pull` returns at once."""

    def __init__(
        self, direct: ControlPlane, waiting: ControlPlane, poke: Callable[[], None], wait_s: float = WAIT_S
    ) -> None:
        """`direct` and `waiting` are two clients of one control plane, for the loop and for the thread; `poke` wakes
        the loop."""
        self._direct, self._waiting, self._poke, self._wait_s = direct, waiting, poke, wait_s
        self._changed = threading.Condition()
        self._asked: Revision | None = None
        self._answer: PullAnswer | None = None
        self._is_unreachable = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._pull_forever, name="pull", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> bool:
        """Stop the thread, and return whether it has ended. The caller ends the open pull of `waiting` first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # --- what the loop calls ---

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What has arrived since, or that nothing changed. Raises `ControlPlaneUnreachable`."""
        with self._changed:
            # Revision 0 is answered at once with everything: there is nothing to wait for.
            asked = after or None
            if asked != self._asked:
                self._asked, self._answer = asked, None
                self._changed.notify_all()
            if asked is not None and not self._is_unreachable:
                return self._answer or PullAnswer(after=after, revision=after)
        # After a failure the loop pulls directly, at the pace of its back-off, until it gets an answer.
        answer = self._direct.pull(after, 0.0)
        with self._changed:
            self._is_unreachable = False
            self._changed.notify_all()
        return answer

    def push(self, report: PushReport) -> PushAnswer:
        """Store a report. Raises `ControlPlaneUnreachable`."""
        return self._direct.push(report)

    # --- the thread ---

    def _pull_forever(self) -> None:
        while (after := self._next_revision()) is not None:
            try:
                answer = self._waiting.pull(after, self._wait_s)
            except ControlPlaneUnreachable:
                self._note_unreachable()
            else:
                self._deliver(answer)

    def _next_revision(self) -> Revision | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_to_pull())
            return None if self._is_closed else self._asked

    def _has_to_pull(self) -> bool:
        return self._asked is not None and self._answer is None and not self._is_unreachable

    def _note_unreachable(self) -> None:
        with self._changed:
            self._is_unreachable = True
            is_closed = self._is_closed
        if not is_closed:
            self._poke()

    def _deliver(self, answer: PullAnswer) -> None:
        with self._changed:
            if answer.after != self._asked or not answer.says_something:
                return  # the loop asks for another revision now, or nothing changed: pull again
            self._answer = answer
        self._poke()
