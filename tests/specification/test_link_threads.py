"""A link with threads of its own: the loop is answered at once, no change is lost, and reports are sent beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TypeVar

import pytest

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport, WorkloadReport
from fairpool.cluster.control_link import FIRST_WAIT_MS
from fairpool.cluster.link_threads import LinkThreads
from fairpool.cluster.report_queue import PIECE_ROWS, Acknowledged, Offered
from fairpool.model.ids import Instant, Revision, Token, WorkloadId
from fairpool.model.status import WorkloadPhase

SOON_S = 30.0
T = TypeVar("T")


class Plane:
    """A control plane whose revision is set by the test, and which takes in reports when the test lets it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.revision = 5
        self.is_away = self.is_closed = self.is_holding = False
        self.asked: list[tuple[int, float]] = []
        self.reports: list[PushReport] = []

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        with self.changed:
            self.asked.append((after, wait_s))
            self.changed.notify_all()
            if wait_s:
                self.changed.wait_for(lambda: self.revision != after or self.is_away or self.is_closed, SOON_S)
            self._answer()
            return PullAnswer(after=after, revision=Revision(self.revision), whole=after == 0)

    def push(self, report: PushReport) -> PushAnswer:
        with self.changed:
            self.reports.append(report)
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.is_holding or self.is_closed, SOON_S)
            self._answer()
            return PushAnswer(token=report.token, number=report.number, events_through=0)

    def _answer(self) -> None:
        if self.is_away or self.is_closed:
            raise ControlPlaneUnreachable("away")

    def change(self, **to: object) -> None:
        with self.changed:
            for name, value in to.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def wait_for_reports(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.reports) >= count, SOON_S)


class Setting:
    """A link, its control plane, a clock that is set by hand, and whether the loop was woken."""

    def __init__(self) -> None:
        self.plane, self.poked = Plane(), threading.Event()
        self.now = Instant(0)
        self.link = LinkThreads(self.plane, self.plane, "here", lambda: self.now, self.poked.set, wait_s=SOON_S)
        self.link.open()

    def pull(self, after: int) -> PullAnswer | None:
        return self.link.pull(self.now, Revision(after))

    def report(self, *phases: WorkloadPhase) -> None:
        rows = {
            (name := WorkloadId(f"w{number:05d}")): WorkloadReport(id=name, phase=phase, since=Instant(0))
            for number, phase in enumerate(phases)
        }
        self.link.report(self.now, Token(1), Offered(workloads=rows))

    def wait_for_poke(self) -> None:
        assert self.poked.wait(SOON_S)
        self.poked.clear()

    def acknowledged(self, count: int) -> Acknowledged:
        """What is acknowledged, once so many workloads are."""
        found: list[WorkloadId] = []
        while len(found) < count:
            self.wait_for_poke()
            found += self.link.collect().workloads
        return Acknowledged(workloads=tuple(found))


@pytest.fixture
def setting() -> Iterator[Setting]:
    setting = Setting()
    yield setting
    setting.plane.change(is_closed=True)
    assert setting.link.close(SOON_S)


# --- pull ---


def test_everything_is_asked_for_without_being_held(setting: Setting) -> None:
    assert setting.pull(0) is None, "the loop does not wait for it"
    setting.wait_for_poke()
    answer = setting.pull(0)
    assert answer is not None
    assert answer.whole
    assert setting.plane.asked == [(0, 0.0)]


def test_nothing_new_is_answered_at_once_and_a_change_wakes_the_loop(setting: Setting) -> None:
    assert setting.pull(5) is None
    setting.plane.change(revision=6)
    setting.wait_for_poke()
    answer = setting.pull(5)
    assert answer is not None
    assert answer.revision == 6


def test_an_answer_is_given_again_until_the_loop_has_moved_on(setting: Setting) -> None:
    setting.plane.change(revision=6)
    setting.pull(5)
    setting.wait_for_poke()
    assert [setting.pull(5), setting.pull(5)].count(None) == 0, "it failed to record the first"
    assert setting.pull(6) is None


def test_an_unreachable_control_plane_is_an_error_until_it_answers(setting: Setting) -> None:
    setting.pull(5)
    setting.plane.change(is_away=True)
    setting.wait_for_poke()
    assert (setting.pull(5), setting.link.error) == (None, "away")
    setting.plane.change(is_away=False, revision=6)
    setting.now = Instant(FIRST_WAIT_MS)
    setting.pull(4)  # anything that lets the thread look at the clock
    setting.wait_for_poke()
    setting.pull(5)
    while setting.pull(5) is None:
        setting.wait_for_poke()
    assert setting.link.error == ""


# --- push ---


def test_the_loop_goes_on_while_a_report_is_on_its_way(setting: Setting) -> None:
    setting.plane.change(is_holding=True)
    setting.report(WorkloadPhase.PENDING)
    setting.plane.wait_for_reports(1)
    setting.report(WorkloadPhase.RUNNING)
    setting.plane.change(is_holding=False)
    assert setting.acknowledged(1).workloads == ("w00000",), "the first report is not that of its present state"
    assert [each.workloads[0].phase for each in setting.plane.reports] == [WorkloadPhase.PENDING, WorkloadPhase.RUNNING]


def test_much_is_sent_in_pieces_without_the_loop(setting: Setting) -> None:
    setting.report(*[WorkloadPhase.PENDING] * (2 * PIECE_ROWS + 1))
    assert len(setting.acknowledged(2 * PIECE_ROWS + 1).workloads) == 2 * PIECE_ROWS + 1
    assert [len(each.workloads) for each in setting.plane.reports] == [PIECE_ROWS, PIECE_ROWS, 1]


def test_a_report_that_cannot_be_sent_is_tried_again_later(setting: Setting) -> None:
    setting.plane.change(is_away=True)
    setting.report(WorkloadPhase.PENDING)
    setting.wait_for_poke()
    assert setting.link.error == "away"
    setting.plane.change(is_away=False)
    setting.now = Instant(FIRST_WAIT_MS)
    setting.report(WorkloadPhase.RUNNING)
    assert setting.acknowledged(1).workloads == ("w00000",)
    assert setting.plane.reports[-1].workloads[0].phase is WorkloadPhase.RUNNING


def test_another_loop_on_the_same_link_tells_everything_and_is_answered_anew(setting: Setting) -> None:
    setting.report(WorkloadPhase.PENDING, WorkloadPhase.PENDING)
    setting.acknowledged(2)
    setting.link.start_over()
    setting.report(WorkloadPhase.RUNNING)
    setting.acknowledged(1)
    assert setting.plane.reports[-1].whole
    assert [each.id for each in setting.plane.reports[-1].workloads] == ["w00000"]
