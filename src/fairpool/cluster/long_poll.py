"""The control plane as the loop reaches it without waiting: what is desired is waited for in a thread of its own.

`Link` asks at the beginning of every turn and must be answered at once; the control plane holds a question until it has
something new. Between them a thread keeps one question asked, and pokes the loop when an answer has come. An answer is
kept until the loop asks about another revision, because it may come to grief over it and ask again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport, Unreachable
from fairpool.cluster.control_link import ControlPlane
from fairpool.model.ids import Revision

WAIT_S: Final = 20.0
"""How long a question is held where nothing is new."""


class LongPoll:
    """Both verbs of a control plane, neither of which waits for something to happen."""

    def __init__(
        self, direct: ControlPlane, waiting: ControlPlane, poke: Callable[[], None], wait_s: float = WAIT_S
    ) -> None:
        """Two ways to the same control plane, because each is for one thread: ours, and that of the loop."""
        self._direct, self._waiting, self._poke, self._wait_s = direct, waiting, poke, wait_s
        self._changed = threading.Condition()
        self._asked: Revision | None = None
        self._answer: PullAnswer | None = None
        self._is_away = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._ask_for_ever, name="pull", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> bool:
        """Ask no more; says whether the thread has ended. Whoever made `waiting` ends the question under way first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # --- what the loop calls ---

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        """What came meanwhile, or that nothing is new. Raises `Unreachable`."""
        with self._changed:
            # Who has read nothing is told everything at once: there is nothing to wait for.
            asked = after or None
            if asked != self._asked:
                self._asked, self._answer = asked, None
                self._changed.notify_all()
            if asked is not None and not self._is_away:
                return self._answer or PullAnswer(after=after, revision=after)
        # After trouble the loop asks for itself, when its patience says so, until somebody answers again.
        answer = self._direct.pull(after, 0.0)
        with self._changed:
            self._is_away = False
            self._changed.notify_all()
        return answer

    def push(self, report: PushReport) -> PushAnswer:
        """Take in what is so. Raises `Unreachable`."""
        return self._direct.push(report)

    # --- the thread ---

    def _ask_for_ever(self) -> None:
        while (after := self._next_question()) is not None:
            try:
                answer = self._waiting.pull(after, self._wait_s)
            except Unreachable:
                self._note_absence()
            else:
                self._deliver(answer)

    def _next_question(self) -> Revision | None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_question())
            return None if self._is_closed else self._asked

    def _has_question(self) -> bool:
        return self._asked is not None and self._answer is None and not self._is_away

    def _note_absence(self) -> None:
        with self._changed:
            self._is_away = True
            is_closed = self._is_closed
        if not is_closed:
            self._poke()

    def _deliver(self, answer: PullAnswer) -> None:
        with self._changed:
            if answer.after != self._asked or not answer.says_something:
                return  # the loop has moved on, or nothing happened in all that time: ask again
            self._answer = answer
        self._poke()
