"""Long poll: the loop pulls and is answered at once, a thread waits for changes, and none of them is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.cluster.long_poll import LongPoll
from fairpool.model.ids import Revision

SOON_S = 10.0


class Plane:
    """A control plane whose revision is set by the test."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.revision = 5
        self.is_away = False
        self.is_closed = False
        self.asked: list[tuple[int, float]] = []

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        with self.changed:
            self.asked.append((after, wait_s))
            if wait_s:
                self.changed.wait_for(lambda: self.revision != after or self.is_away or self.is_closed, SOON_S)
            if self.is_away or self.is_closed:
                raise ControlPlaneUnreachable("away")
            return PullAnswer(after=after, revision=Revision(self.revision), whole=after == 0)

    def push(self, report: PushReport) -> PushAnswer:
        raise NotImplementedError

    def change(self, **to: object) -> None:
        with self.changed:
            for name, value in to.items():
                setattr(self, name, value)
            self.changed.notify_all()


class Setting:
    """A long poll, its control plane, and whether it has woken the loop."""

    def __init__(self) -> None:
        self.plane, self.poked = Plane(), threading.Event()
        self.long_poll = LongPoll(self.plane, self.plane, self.poked.set, wait_s=SOON_S)
        self.long_poll.open()

    def pull(self, after: int) -> PullAnswer:
        return self.long_poll.pull(Revision(after), 0.0)

    def wait_for_poke(self) -> None:
        assert self.poked.wait(SOON_S)
        self.poked.clear()


@pytest.fixture
def setting() -> Iterator[Setting]:
    setting = Setting()
    yield setting
    setting.plane.change(is_closed=True)
    assert setting.long_poll.close(SOON_S)


def test_revision_zero_is_answered_with_everything_at_once(setting: Setting) -> None:
    assert setting.pull(0).whole
    assert setting.plane.asked == [(0, 0.0)]


def test_nothing_new_is_answered_at_once_and_a_change_wakes_the_loop(setting: Setting) -> None:
    assert not setting.pull(5).says_something
    setting.plane.change(revision=6)
    setting.wait_for_poke()
    assert setting.pull(5).revision == 6


def test_an_answer_is_given_again_until_the_loop_has_moved_on(setting: Setting) -> None:
    setting.plane.change(revision=6)
    setting.pull(5)
    setting.wait_for_poke()
    assert [setting.pull(5).revision, setting.pull(5).revision] == [6, 6], "it failed to record the first"
    assert not setting.pull(6).says_something


def test_unreachable_is_raised_until_an_answer_arrives(setting: Setting) -> None:
    setting.pull(5)
    setting.plane.change(is_away=True)
    setting.wait_for_poke()
    for _ in range(2):
        with pytest.raises(ControlPlaneUnreachable):
            setting.pull(5)
    setting.plane.change(is_away=False)
    assert not setting.pull(5).says_something
    setting.plane.change(revision=6)
    setting.wait_for_poke()
    assert setting.pull(5).revision == 6


def test_a_late_answer_to_an_older_question_is_not_used(setting: Setting) -> None:
    setting.pull(5)
    assert not setting.pull(7).says_something, "the loop has pulled another way"
    setting.plane.change(revision=8)
    setting.wait_for_poke()
    assert setting.pull(7).after == 7
