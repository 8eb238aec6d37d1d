"""The link between a cluster and its control plane: levels are said until they are known, whatever gets lost."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from fairpool.api.clusters import EventReport, NodeReport, PullAnswer, PushAnswer, PushReport, WorkloadReport
from fairpool.cluster.control_link import ControlLink, ControlPlane, ControlPlaneUnreachable
from fairpool.cluster.report_queue import PIECE_ROWS, Acknowledged, Offered
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
        self.cut_after: int | None = None
        """So many reports come through, then the road is closed."""
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
        if self.closed or (self.cut_after is not None and len(self.reports) >= self.cut_after):
            raise ControlPlaneUnreachable("the road is closed")


class Cluster:
    """As much of a loop as a link can see: levels, what changed since the last turn, lines of history."""

    def __init__(self, road: Road, token: int = 1, piece_rows: int = PIECE_ROWS) -> None:
        self.link = ControlLink(road, "here", piece_rows=piece_rows)
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
        self.offered = 0

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

    def push(self) -> Acknowledged:
        """The answer: what is acknowledged since the last call."""
        changed, self.changed = self.changed, set()
        events = [each for each in self.events if each.number > self.offered]
        self.offered = events[-1].number if events else self.offered
        self.link.report(
            self.now,
            self.token,
            Offered(
                workloads={each: self.levels.get(each) for each in sorted(changed)},
                gone=self.gone,
                nodes=self.nodes,
                events=events,
            ),
        )
        acknowledged = self.link.collect()
        if acknowledged.is_put_back:
            self.offered = acknowledged.events_through or 0
        return acknowledged

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
    cluster.changed = {A, B}
    cluster.push()
    cluster.changed = {A, B}  # so the loop thinks, and it is not so
    cluster.push()
    assert [(report.whole, ids(report.workloads)) for report in road.reports] == [(True, ["a", "b"])]


def test_only_what_changed_is_said_after_that() -> None:
    _, road, cluster = met()
    cluster.becomes(B, WorkloadPhase.RUNNING)
    pushed = cluster.push()
    assert pushed == Acknowledged(events_through=3, workloads=(B,))
    (report,) = road.reports
    assert (report.whole, ids(report.workloads), [each.number for each in report.events]) == (False, ["b"], [3])


def test_where_nothing_is_new_nothing_is_said() -> None:
    _, road, cluster = met()
    cluster.changed = {A, B}  # they may differ, and do not
    assert cluster.push() == Acknowledged(workloads=(A, B))
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
    reported = []
    for nodes in ([n1, n2], [n1, n2], [n1.model_copy(update={"ready": False}), n2], [n2]):
        cluster.nodes = nodes
        road.reports.clear()
        cluster.push()
        reported.append([([node.name for node in each.nodes], list(each.nodes_gone)) for each in road.reports])
    assert reported == [[(["n1", "n2"], [])], [], [(["n1"], [])], [([], ["n1"])]]
    assert control.nodes() == [n2]


def test_what_is_gone_is_said_until_it_is_known() -> None:
    control, road, cluster = met()
    submitted(control, C)
    cluster.pull()
    control.delete(C)
    cluster.gone = {C: 0}
    road.loses_answers = True
    cluster.push()
    road.loses_answers = False
    cluster.now_s += 60
    for _ in range(2):
        cluster.push()
    assert [[each.id for each in report.gone] for report in road.reports] == [[C], [C]]
    assert control.spec(C) is None
    answer = cluster.pull()
    assert answer is not None
    assert answer.removed == (C,)


def test_a_long_history_is_reported_in_pieces_without_waiting() -> None:
    control, road, cluster = met()
    for number in range(2 * PIECE_ROWS + 1):
        cluster.events.append(EventReport(number=number + 3, at=Instant(0), kind="created", workload=A))
    cluster.push()
    assert [len(report.events) for report in road.reports] == [PIECE_ROWS, PIECE_ROWS, 1]
    assert [each.number for each in control.events()] == list(range(1, 2 * PIECE_ROWS + 4))


# --- pieces ---


def many(count: int) -> tuple[ControlDriver, Road, Cluster, list[WorkloadId]]:
    """A cluster with so many workloads and nodes to tell of, in pieces of four rows."""
    control = new_control()
    names = [WorkloadId(f"w{number:02d}") for number in range(count)]
    submitted(control, *names)
    road = Road(control)
    cluster = Cluster(road, piece_rows=4)
    cluster.nodes = [NodeReport(name=NodeName(f"n{number:02d}"), gpus=8) for number in range(count)]
    for name in names:
        cluster.becomes(name, WorkloadPhase.PENDING)
    cluster.pull()
    return control, road, cluster, names


def rows(report: PushReport) -> int:
    return len(report.workloads) + len(report.nodes) + len(report.events) + len(report.gone)


def test_everything_is_told_in_pieces_of_bounded_size() -> None:
    control, road, cluster, names = many(10)
    pushed = cluster.push()
    assert set(pushed.workloads) == set(names)
    assert [each.id for each in control.workloads()] == names
    assert [each.name for each in control.nodes()] == [node.name for node in cluster.nodes]
    assert [each.number for each in control.events()] == list(range(1, 11))
    assert max(map(rows, road.reports)) <= 4
    pieces = [report.piece for report in road.reports if report.piece is not None]
    assert [(each.first, each.last) for each in pieces] == [
        (True, False),
        *[(False, False)] * (len(pieces) - 2),
        (False, True),
    ]
    assert not any(report.whole for report in road.reports)
    assert not any(report.events for report in road.reports if report.piece is not None), "they may be newer"


def test_a_report_that_was_cut_off_goes_on_where_it_stopped() -> None:
    control, road, cluster, names = many(10)
    road.cut_after = 2
    first = cluster.push()
    assert set(first.workloads) == set(names[:8])
    road.cut_after = None
    road.reports.clear()
    cluster.now_s += 1
    assert set(cluster.push().workloads) == set(names[8:])
    assert [each.id for each in road.reports[0].workloads] == names[8:]
    assert [each.id for each in control.workloads()] == names


def test_what_is_no_more_is_dropped_with_the_piece_in_whose_range_it_would_be() -> None:
    control, road, cluster, names = many(10)
    cluster.push()
    for each in (names[0], names[5]):
        del cluster.levels[each]
    again = Cluster(road, token=2, piece_rows=4)
    again.levels, again.changed, again.nodes = cluster.levels, set(cluster.levels), cluster.nodes[2:]
    again.push()
    assert [each.id for each in control.workloads()] == [each for each in names if each in cluster.levels]
    assert [each.name for each in control.nodes()] == [node.name for node in again.nodes]


@pytest.mark.parametrize("name", ["a0", "w03x", "z0"], ids=["in what was told", "between", "in what is to be told"])
def test_what_comes_up_while_everything_is_told_is_told_too(name: str) -> None:
    control, road, cluster, _ = many(10)
    new = WorkloadId(name)
    submitted(control, new)
    road.cut_after = 2
    cluster.push()
    cluster.becomes(new, WorkloadPhase.RUNNING)
    cluster.becomes(WorkloadId("w01"), WorkloadPhase.RUNNING)
    cluster.nodes = cluster.nodes[1:]
    road.cut_after = None
    cluster.now_s += 1
    pushed = cluster.push()
    assert {new, "w01"} <= set(pushed.workloads)
    assert control.workloads() == sorted(cluster.levels.values(), key=lambda each: each.id)
    assert [each.name for each in control.nodes()] == [node.name for node in cluster.nodes]


def test_a_control_plane_that_lost_the_first_pieces_hears_all_of_them_again() -> None:
    _, road, cluster, names = many(10)
    road.cut_after = 2
    cluster.push()
    road.control = other = new_control()
    submitted(other, *names)
    road.cut_after = None
    cluster.now_s += 1
    cluster.push()
    assert [each.id for each in other.workloads()] == names
    assert len(other.nodes()) == 10


def test_a_control_plane_of_the_previous_version_is_told_everything_at_once() -> None:
    control, road, cluster, names = many(10)
    cluster.link.state.pulled(cluster.now, Revision(0), PullAnswer(version=2, after=Revision(0), revision=Revision(9)))
    cluster.push()
    assert (road.reports[0].whole, road.reports[0].piece, len(road.reports[0].workloads)) == (True, None, 10)
    assert [each.id for each in control.workloads()] == names


# --- what gets lost ---


def test_a_control_plane_that_is_away_for_hours_hears_how_it_is_now() -> None:
    control, road, cluster = met()
    road.closed = True
    for minute in range(5 * 60):
        cluster.now_s = minute * 60.0
        cluster.becomes(A, WorkloadPhase.PENDING if minute % 2 else WorkloadPhase.RUNNING)
        cluster.turn()
    assert error_of(cluster.link) == (0, "the road is closed")
    road.closed = False
    submitted(control, C)
    cluster.now_s += 60
    cluster.turn()
    (report,) = road.reports
    assert (ids(report.workloads), report.workloads[0].phase) == (["a"], WorkloadPhase.PENDING)
    assert [each.number for each in control.events()] == list(range(1, 303))
    assert cluster.cursor == control.revision
    assert error_of(cluster.link) == (None, "")
    assert cluster.link.retry_at is None


def error_of(link: ControlLink) -> tuple[Instant | None, str]:
    return link.state.away_since, link.error


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
    assert cluster.push() == Acknowledged()
    road.loses_answers = False
    cluster.now_s += 1
    assert cluster.push() == Acknowledged(events_through=3, workloads=(A,))
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
    assert cluster.push() == Acknowledged()
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
    assert cluster.push() == Acknowledged()
    road.brings_late_answers = False
    cluster.now_s += 1
    assert cluster.push() == Acknowledged(events_through=3, workloads=(A,))
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


def test_a_control_plane_with_fewer_events_than_it_had_acknowledged_gets_them_again() -> None:
    """It was put back to a backup."""
    _, road, cluster = met()
    road.understates_events = True
    cluster.becomes(A, WorkloadPhase.COMPLETED)
    assert cluster.push() == Acknowledged(workloads=(A,), events_through=1, is_put_back=True)
    road.understates_events = False
    cluster.now_s += 1
    assert cluster.push() == Acknowledged(events_through=3)
    assert [[each.number for each in report.events] for report in road.reports] == [[3], [2, 3]]
    assert [report.events_after for report in road.reports] == [2, 1]


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
    for change in itertools.cycle((other.suspend, other.resume)):
        if other.revision >= cluster.cursor:
            break
        change(C)
    road.control = other
    assert cluster.cursor == other.revision
    cluster.becomes(B, WorkloadPhase.RUNNING)
    cluster.turn()
    assert cluster.link.retry_at == cluster.now == 0
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
    assert old.push() == Acknowledged()
    assert old.link.fenced_by == 2
    assert phase_of(control, A) is WorkloadPhase.COMPLETED


def ids_of(answer: PullAnswer) -> list[str]:
    return [each.id for each in answer.workloads]


# --- whatever happens ---


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_after_any_faults_both_sides_agree(seed: int, tmp_path: Path) -> None:
    """Roads close, answers get lost or late, loops restart, the control plane starts again from an older copy."""
    dice = random.Random(seed)
    path, copy = tmp_path / "control.db", tmp_path / "copy.db"
    control = new_control(path)
    submitted(control, A, B, C)
    road, token, piece_rows = Road(control), 1, dice.choice((1, 2, PIECE_ROWS))
    cluster = Cluster(road, token, piece_rows)
    for step in range(120):
        cluster.now_s += dice.choice((0.0, 0.5, 2.0, 30.0))
        road.closed = dice.random() < 0.2
        road.cut_after = len(road.reports) + dice.randrange(4) if dice.random() < 0.2 else None
        road.loses_answers = dice.random() < 0.2
        road.brings_late_answers = bool(road.reports) and dice.random() < 0.2
        cluster.becomes(dice.choice((A, B, C)), dice.choice(list(WorkloadPhase)))
        if dice.random() < 0.1:
            submitted(control, WorkloadId(f"w{step}"))
        if dice.random() < 0.05:
            token += dice.randrange(2)
            fresh = Cluster(road, token, piece_rows)
            fresh.now_s, fresh.cursor, fresh.desired = cluster.now_s, cluster.cursor, cluster.desired
            fresh.levels, fresh.events, fresh.changed = cluster.levels, cluster.events, set(cluster.levels)
            cluster = fresh
        if dice.random() < 0.05:
            control.close()
            if copy.exists() and dice.random() < 0.5:
                shutil.copy(copy, path)
            shutil.copy(path, copy)
            road.control = control = new_control(path)
        cluster.turn()
    road.closed = road.loses_answers = road.brings_late_answers = False
    road.cut_after = None
    for _ in range(3):
        cluster.now_s += 60
        cluster.turn()
    assert control.workloads() == sorted(cluster.levels.values(), key=lambda each: each.id), f"seed {seed}"
    assert (cluster.cursor, cluster.desired) == (control.revision, set(control.specs())), f"seed {seed}"
    numbers = [each.number for each in control.events()]
    assert numbers == sorted(set(numbers))
