"""The loop asks and is answered at once; what is desired is waited for elsewhere, and nothing of it is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport, Unreachable
from fairpool.cluster.long_poll import LongPoll
from fairpool.model.ids import Revision

SOON_S = 10.0


class Plane:
    """A control plane whose revision is turned by hand."""

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
                raise Unreachable("away")
            return PullAnswer(after=after, revision=Revision(self.revision), whole=after == 0)

    def push(self, report: PushReport) -> PushAnswer:
        raise NotImplementedError

    def turn(self, **to: object) -> None:
        with self.changed:
            for name, value in to.items():
                setattr(self, name, value)
            self.changed.notify_all()


class AdminSocket:
    """A mailbox, its plane, and whether it poked."""

    def __init__(self) -> None:
        self.plane, self.poked = Plane(), threading.Event()
        self.mailbox = LongPoll(self.plane, self.plane, self.poked.set, wait_s=SOON_S)
        self.mailbox.open()

    def pull(self, after: int) -> PullAnswer:
        return self.mailbox.pull(Revision(after), 0.0)

    def wait_for_poke(self) -> None:
        assert self.poked.wait(SOON_S)
        self.poked.clear()


@pytest.fixture
def admin_socket() -> Iterator[AdminSocket]:
    admin_socket = AdminSocket()
    yield admin_socket
    admin_socket.plane.turn(is_closed=True)
    assert admin_socket.mailbox.close(SOON_S)


def test_who_has_read_nothing_is_told_everything_at_once(admin_socket: AdminSocket) -> None:
    assert admin_socket.pull(0).whole
    assert admin_socket.plane.asked == [(0, 0.0)]


def test_nothing_new_is_said_at_once_and_news_pokes(admin_socket: AdminSocket) -> None:
    assert not admin_socket.pull(5).says_something
    admin_socket.plane.turn(revision=6)
    admin_socket.wait_for_poke()
    assert admin_socket.pull(5).revision == 6


def test_an_answer_is_given_again_until_the_loop_has_moved_on(admin_socket: AdminSocket) -> None:
    admin_socket.plane.turn(revision=6)
    admin_socket.pull(5)
    admin_socket.wait_for_poke()
    assert [admin_socket.pull(5).revision, admin_socket.pull(5).revision] == [6, 6], "it came to grief over the first"
    assert not admin_socket.pull(6).says_something


def test_absence_is_raised_until_somebody_answers_again(admin_socket: AdminSocket) -> None:
    admin_socket.pull(5)
    admin_socket.plane.turn(is_away=True)
    admin_socket.wait_for_poke()
    for _ in range(2):
        with pytest.raises(Unreachable):
            admin_socket.pull(5)
    admin_socket.plane.turn(is_away=False)
    assert not admin_socket.pull(5).says_something
    admin_socket.plane.turn(revision=6)
    admin_socket.wait_for_poke()
    assert admin_socket.pull(5).revision == 6


def test_a_late_answer_to_an_older_question_is_not_used(admin_socket: AdminSocket) -> None:
    admin_socket.pull(5)
    assert not admin_socket.pull(7).says_something, "the loop was told more by another way"
    admin_socket.plane.turn(revision=8)
    admin_socket.wait_for_poke()
    assert admin_socket.pull(7).after == 7
