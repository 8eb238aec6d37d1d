"""The link between a cluster and its control plane: levels are said until they are known, whatever gets lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from fairpool.api.clusters import EventReport, NodeReport, PullAnswer, PushAnswer, PushReport, WorkloadReport
from fairpool.cluster.control_link import EVENTS_MAX, ControlLink, ControlPlane, ControlPlaneUnreachable, Pushed
from fairpool.model.ids import SECOND_MS, Instant, NodeName, QueueId, Revision, Token, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import Organization, Queue
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.simulation.control_driver import ControlDriver

A, B, C = WorkloadId("a"), WorkloadId("b"), WorkloadId("c")
PROJECT = QueueId("p")
HOUR_S = 3600


class Road:
    """The way to a control plane, on which everything can happen to a message."""

    def __init__(self, control: ControlPlane) -> None:
        self.control = control
        self.closed = False
        self.loses_answers = False
        self.brings_late_answers = False
        self.understates_events = False
        self.reports: list[PushReport] = []
        """All that came through."""
        self.tries = 0
        self._answers: list[PushAnswer] = []

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        self._pass()
        return self.control.pull(after, wait_s)

    def push(self, report: PushReport) -> PushAnswer:
        self._pass()
        self.reports.append(report)
        self._answers.append(self.control.push(report))
        if self.loses_answers:
            raise ControlPlaneUnreachable("the answer was lost")
        answer = self._answers[-2 if self.brings_late_answers else -1]
        return answer.model_copy(update={"events_through": 1}) if self.understates_events else answer

    def _pass(self) -> None:
        self.tries += 1
        if self.closed:
            raise ControlPlaneUnreachable("the road is closed")


class Cluster:
    """As much of a loop as a link can see: levels, what changed since the last turn, lines of history."""

    def __init__(self, road: Road, token: int = 1) -> None:
        self.link = ControlLink(road, "here")
        self.road = road
        self.token = Token(token)
        self.now_s = 0.0
        self.cursor = Revision(0)
        self.desired: set[WorkloadId] = set()
        self.levels: dict[WorkloadId, WorkloadReport] = {}
        self.changed: set[WorkloadId] = set()
        self.gone: dict[WorkloadId, int] = {}
        self.nodes: list[NodeReport] = []
        self.events: list[EventReport] = []

    @property
    def now(self) -> Instant:
        return Instant(int(self.now_s * SECOND_MS))

    def becomes(self, workload: WorkloadId, phase: WorkloadPhase) -> None:
        self.levels[workload] = WorkloadReport(id=workload, phase=phase, since=self.now)
        self.changed.add(workload)
        self.events.append(EventReport(number=len(self.events) + 1, at=self.now, kind=phase.value, workload=workload))

    def pull(self) -> PullAnswer | None:
        answer = self.link.pull(self.now, self.cursor)
        if answer is not None:
            self.cursor = answer.revision
            self.desired = set() if answer.whole else self.desired
            self.desired |= {each.id for each in answer.workloads}
            self.desired -= set(answer.removed)
        return answer

    def push(self) -> Pushed | None:
        changed, self.changed = self.changed, set()
        return self.link.push(
            self.now,
            self.token,
            workloads=self.levels,
            changed=changed,
            gone=self.gone,
            nodes=self.nodes,
            events=lambda after, limit: [each for each in self.events if each.number > after][:limit],
        )

    def turn(self) -> None:
        self.pull()
        self.push()


def new_control(path: Path | None = None) -> ControlDriver:
    """A control plane with one project."""
    control = ControlDriver(lambda: Instant(0), path)
    control.declare(Organization(queues={DEFAULT_POOL: (Queue(id=PROJECT),)}))
    return control


def met() -> tuple[ControlDriver, Road, Cluster]:
    """A control plane and a cluster that have told each other everything."""
    control = new_control()
    submitted(control, A, B)
    road = Road(control)
    cluster = Cluster(road)
    cluster.becomes(A, WorkloadPhase.RUNNING)
    cluster.becomes(B, WorkloadPhase.PENDING)
    cluster.turn()
    road.reports.clear()
    return control, road, cluster


def ids(reports: Collection[WorkloadReport]) -> list[str]:
    return [each.id for each in reports]


def submitted(control: ControlDriver, *workloads: WorkloadId) -> None:
    for workload in workloads:
        refused = control.submit(WorkloadSpec(id=workload, name=workload, project=PROJECT, created_at=Instant(0)))
        assert refused is None, refused


# --- what is said ---


def test_a_loop_that_starts_says_everything_once() -> None:
    road = Road(new_control())
    cluster = Cluster(road)
    cluster.levels = {each: WorkloadReport(id=each, phase=WorkloadPhase.RUNNING, since=Instant(0)) for each in (A, B)}
    cluster.push()
    cluster.changed = {A, B}  # so the loop thinks, and it is not so
    cluster.push()
    assert [(report.whole, ids(report.workloads)) for report in road.reports] == [(True, ["a", "b"])]


def test_only_what_changed_is_said_after_that() -> None:
    _, road, cluster = met()
    cluster.becomes(B, WorkloadPhase.RUNNING)
    pushed = cluster.push()
    assert pushed == Pushed(events_through=3, workloads=(B,))
    (report,) = road.reports
    assert (report.whole, ids(report.workloads), [each.number for each in report.events]) == (False, ["b"], [3])


def test_where_nothing_is_new_nothing_is_said() -> None:
    _, road, cluster = met()
    cluster.changed = {A, B}  # they may differ, and do not
    assert cluster.push() == Pushed(workloads=(A, B))
    assert road.reports == []


def test_the_order_of_a_report_is_no_accident() -> None:
    _, road, cluster = met()
    names = [WorkloadId(f"w{number:02d}") for number in random.Random(1).sample(range(60), 60)]
    for name in names:
        cluster.becomes(name, WorkloadPhase.PENDING)
    cluster.push()
    assert ids(road.reports[0].workloads) == sorted(names)


def test_nodes_are_said_when_they_change_and_when_they_leave() -> None:
    control, road, cluster = met()
    n1, n2 = (NodeReport(name=NodeName(name), gpus=8) for name in ("n1", "n2"))
    told = []
    for nodes in ([n1, n2], [n1, n2], [n1.model_copy(update={"ready": False}), n2], [n2]):
        cluster.nodes = nodes
        road.reports.clear()
        cluster.push()
        told.append([([node.name for node in each.nodes], list(each.nodes_gone)) for each in road.reports])
    assert told == [[(["n1", "n2"], [])], [], [(["n1"], [])], [([], ["n1"])]]
    assert control.nodes() == [n2]


def test_what_is_gone_is_said_until_it_is_known() -> None:
    control, road, cluster = met()
    submitted(control, C)
    cluster.pull()
    control.delete(C)
    cluster.gone = {C: 0}
    road.loses_answers = True
    assert cluster.push() is None
    road.loses_answers = False
    cluster.now_s += 60
    assert cluster.push() == Pushed(gone=(C,))
    assert cluster.push() == Pushed()
    assert control.spec(C) is None
    answer = cluster.pull()
    assert answer is not None
    assert answer.removed == (C,)


def test_a_long_history_is_reported_in_portions_without_waiting() -> None:
    control, _, cluster = met()
    for number in range(2 * EVENTS_MAX):
        cluster.events.append(EventReport(number=number + 3, at=Instant(0), kind="created", workload=A))
    turns = 0
    while turns == 0 or cluster.link.retry_at == cluster.now:
        cluster.push()
        turns += 1
    assert turns == 3
    assert [each.number for each in control.events()] == list(range(1, 2 * EVENTS_MAX + 3))


# --- what gets lost ---


def test_a_control_plane_that_is_away_for_hours_hears_how_it_is_now() -> None:
    control, road, cluster = met()
    road.closed = True
    for minute in range(5 * 60):
        cluster.now_s = minute * 60.0
        cluster.becomes(A, WorkloadPhase.PENDING if minute % 2 else WorkloadPhase.RUNNING)
        cluster.turn()
    assert trouble_of(cluster.link) == (0, "the road is closed")
    road.closed = False
    submitted(control, C)
    cluster.now_s += 60
    cluster.turn()
    (report,) = road.reports
    assert (ids(report.workloads), report.workloads[0].phase) == (["a"], WorkloadPhase.PENDING)
    assert [each.number for each in control.events()] == list(range(1, 303))
    assert cluster.cursor == control.revision
    assert trouble_of(cluster.link) == (None, "")
    assert cluster.link.retry_at is None


def trouble_of(link: ControlLink) -> tuple[Instant | None, str]:
    return link.away_since, link.trouble


def test_it_is_tried_again_after_one_second_and_then_twice_as_long_up_to_a_minute() -> None:
    _, road, cluster = met()
    road.closed = True
    tried: list[float] = []
    for second in range(4 * 60):
        before = road.tries
        cluster.now_s = float(second)
        cluster.pull()
        tried += [cluster.now_s] * (road.tries - before)
    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert cluster.link.retry_at == 243 * SECOND_MS
    road.closed = False
    cluster.now_s = 243
    cluster.pull()
    road.closed = True
    cluster.pull()
    assert cluster.link.retry_at == 244 * SECOND_MS, "patience begins anew after each success"


def test_when_a_pull_comes_through_a_push_need_not_wait_any_longer() -> None:
    control, road, cluster = met()
    road.closed = True
    cluster.becomes(A, WorkloadPhase.COMPLETED)
    for second in range(100):
        cluster.now_s = float(second)
        cluster.push()
    cluster.pull()
    road.closed = False
    cluster.now_s = 101
    cluster.turn()
    assert phase_of(control, A) is WorkloadPhase.COMPLETED


def test_a_clock_that_is_set_back_does_not_silence_the_cluster() -> None:
    _, road, cluster = met()
    road.closed = True
    cluster.now_s = 10.0 * HOUR_S
    cluster.becomes(A, WorkloadPhase.COMPLETED)
    cluster.turn()
    road.closed = False
    cluster.now_s = 1.0 * HOUR_S
    cluster.turn()
    assert len(road.reports) == 1


def test_a_lost_answer_means_that_it_is_said_again_and_known_once() -> None:
    control, road, cluster = met()
    road.loses_answers = True
    cluster.becomes(A, WorkloadPhase.COMPLETED)
    assert cluster.push() is None
    road.loses_answers = False
    cluster.now_s += 1
    assert cluster.push() == Pushed(events_through=3, workloads=(A,))
    assert [(report.whole, ids(report.workloads)) for report in road.reports] == [(False, ["a"])] * 2
    assert [each.number for each in control.events()] == [1, 2, 3]


N1, N2 = (NodeReport(name=NodeName(name), gpus=8) for name in ("n1", "n2"))


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param([N1.model_copy(update={"ready": False})], id="it had changed"),
        pytest.param([N1, N2], id="another had come"),
        pytest.param([], id="it had gone"),
    ],
)
def test_what_is_as_it_was_is_said_again_if_the_answer_to_something_else_was_lost(meanwhile: list[NodeReport]) -> None:
    control, road, cluster = met()
    cluster.nodes = [N1]
    cluster.push()
    road.loses_answers = True
    cluster.nodes = meanwhile
    assert cluster.push() is None
    assert control.nodes() == meanwhile
    road.loses_answers = False
    cluster.nodes = [N1]
    cluster.now_s += 1
    cluster.push()
    assert control.nodes() == [N1]


def test_a_late_answer_acknowledges_nothing() -> None:
    control, road, cluster = met()
    road.brings_late_answers = True
    cluster.becomes(A, WorkloadPhase.COMPLETED)
    assert cluster.push() is None
    road.brings_late_answers = False
    cluster.now_s += 1
    assert cluster.push() == Pushed(events_through=3, workloads=(A,))
    assert phase_of(control, A) is WorkloadPhase.COMPLETED


def test_a_late_answer_to_a_pull_is_not_used() -> None:
    """It would bring back what has been deleted since."""
    control, _, cluster = met()
    submitted(control, A)
    late = control.pull(Revision(0))
    cluster.pull()

    class Late(Road):
        def pull(self, after: Revision, wait_s: float) -> PullAnswer:
            return late

    link = ControlLink(Late(control), "here")
    assert link.pull(cluster.now, cluster.cursor) is None


def test_an_answer_that_knows_fewer_events_than_were_known_takes_nothing_back() -> None:
    _, road, cluster = met()
    road.understates_events = True
    cluster.becomes(A, WorkloadPhase.COMPLETED)
    assert cluster.push() == Pushed(workloads=(A,))
    road.understates_events = False
    assert cluster.push() == Pushed(events_through=3)
    assert [[each.number for each in report.events] for report in road.reports] == [[3], [3]]


# --- who has forgotten ---


def phase_of(control: ControlDriver, workload: WorkloadId) -> WorkloadPhase | None:
    report = control.workload(workload)
    return report.phase if report is not None else None


def test_a_control_plane_put_back_to_a_copy_hears_everything_again(tmp_path: Path) -> None:
    path, copy = tmp_path / "control.db", tmp_path / "copy.db"
    control = new_control(path)
    submitted(control, A)
    road = Road(control)
    cluster = Cluster(road)
    cluster.becomes(A, WorkloadPhase.PENDING)
    cluster.becomes(B, WorkloadPhase.PENDING)
    cluster.turn()
    control.close()
    shutil.copy(path, copy)
    road.control = control = new_control(path)
    submitted(control, B)
    cluster.becomes(A, WorkloadPhase.RUNNING)
    cluster.turn()
    control.close()

    road.control = control = new_control(copy)
    answer = cluster.pull()
    assert answer is not None
    assert (answer.whole, ids_of(answer)) == (True, ["a"])
    cluster.push()
    assert phase_of(control, A) is WorkloadPhase.RUNNING, "it was reported before, and lost there"


def test_a_control_plane_that_lost_its_state_is_noticed_even_at_the_same_revision() -> None:
    """Its revision looks right, but the report that we hold to be answered is none of its own."""
    control, road, cluster = met()
    submitted(control, WorkloadId("d"))
    cluster.turn()
    other = new_control()
    submitted(other, A, B, C)
    while other.revision < cluster.cursor:
        other.suspend(C)
        other.resume(C)
    road.control = other
    assert cluster.cursor == other.revision
    cluster.becomes(B, WorkloadPhase.RUNNING)
    cluster.turn()
    assert cluster.link.retry_at == cluster.now
    answer = cluster.pull()
    cluster.push()
    assert answer is not None
    assert (answer.whole, ids_of(answer)) == (True, ["a", "b", "c"])
    assert [phase_of(other, each) for each in (A, B)] == [WorkloadPhase.RUNNING] * 2


def test_everything_is_asked_for_until_the_loop_has_written_it_down() -> None:
    _, road, cluster = met()
    road.control = other = new_control()
    submitted(other, C)
    submitted(other, A)
    other.suspend(A)
    cluster.cursor = Revision(2)
    cluster.becomes(B, WorkloadPhase.RUNNING)
    cluster.push()
    not_written_down = cluster.link.pull(cluster.now, cluster.cursor)
    answer = cluster.pull()
    assert not_written_down is not None
    assert answer is not None
    assert (not_written_down.whole, answer.whole) == (True, True)
    assert cluster.pull() is None


def test_after_an_absence_a_cluster_reports_even_if_nothing_is_new() -> None:
    """So that one who came back with less than it had is found out."""
    _, road, cluster = met()
    road.closed = True
    cluster.turn()
    road.closed = False
    cluster.now_s += 60
    cluster.turn()
    cluster.turn()
    assert [(report.whole, report.says_something) for report in road.reports] == [(False, False)]


def test_a_loop_that_restarts_under_the_same_token_is_heard() -> None:
    control, road, _ = met()
    again = Cluster(road)
    again.becomes(A, WorkloadPhase.COMPLETED)
    while phase_of(control, A) is not WorkloadPhase.COMPLETED:
        again.now_s += 1
        assert again.now_s < 10
        again.push()
    assert [each.id for each in control.workloads()] == [A]


def test_a_loop_that_was_taken_over_learns_it_and_changes_nothing() -> None:
    control, road, old = met()
    new = Cluster(road, token=2)
    new.becomes(A, WorkloadPhase.COMPLETED)
    new.push()
    old.becomes(A, WorkloadPhase.FAILED)
    assert old.push() is None
    assert old.link.fenced_by == 2
    assert phase_of(control, A) is WorkloadPhase.COMPLETED


def ids_of(answer: PullAnswer) -> list[str]:
    return [each.id for each in answer.workloads]


# --- whatever happens ---


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_after_any_mishaps_both_sides_agree(seed: int, tmp_path: Path) -> None:
    """Roads close, answers get lost or late, loops restart, the control plane starts again from an older copy."""
    dice = random.Random(seed)
    path, copy = tmp_path / "control.db", tmp_path / "copy.db"
    control = new_control(path)
    submitted(control, A, B, C)
    road, token = Road(control), 1
    cluster = Cluster(road)
    for step in range(120):
        cluster.now_s += dice.choice((0.0, 0.5, 2.0, 30.0))
        road.closed = dice.random() < 0.2
        road.loses_answers = dice.random() < 0.2
        road.brings_late_answers = bool(road.reports) and dice.random() < 0.2
        cluster.becomes(dice.choice((A, B, C)), dice.choice(list(WorkloadPhase)))
        if dice.random() < 0.1:
            submitted(control, WorkloadId(f"w{step}"))
        if dice.random() < 0.05:
            token += dice.randrange(2)
            fresh = Cluster(road, token)
            fresh.now_s, fresh.cursor, fresh.desired = cluster.now_s, cluster.cursor, cluster.desired
            fresh.levels, fresh.events = cluster.levels, cluster.events
            cluster = fresh
        if dice.random() < 0.05:
            control.close()
            if copy.exists() and dice.random() < 0.5:
                shutil.copy(copy, path)
            shutil.copy(path, copy)
            road.control = control = new_control(path)
        cluster.turn()
    road.closed = road.loses_answers = road.brings_late_answers = False
    for _ in range(3):
        cluster.now_s += 60
        cluster.turn()
    assert control.workloads() == sorted(cluster.levels.values(), key=lambda each: each.id), f"seed {seed}"
    assert (cluster.cursor, cluster.desired) == (control.revision, set(control.specs())), f"seed {seed}"
    numbers = [each.number for each in control.events()]
    assert numbers == sorted(set(numbers))
