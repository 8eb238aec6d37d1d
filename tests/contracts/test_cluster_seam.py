"""The contract of pull and push, for every way to reach a control plane: over HTTP, in process, in a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairpool.api.clusters import (
    EventReport,
    GoneReport,
    NameRange,
    NodeReport,
    PodReport,
    PullAnswer,
    PushReport,
    WorkloadReport,
)
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause
from fairpool.model.spec import DesiredState
from fairpool.model.status import WorkloadPhase
from tests.contracts.seam import SEAMS, Seam, seam_of


@pytest.fixture(params=SEAMS)
def seam(request: pytest.FixtureRequest) -> Iterator[Seam]:
    with seam_of(request.param) as seam:
        yield seam


def workload_report(
    workload: WorkloadId, phase: WorkloadPhase = WorkloadPhase.RUNNING, run: int = 0, incarnation: int = 0
) -> WorkloadReport:
    pod = PodReport(id=PodId(f"{workload}-0-{incarnation}"), index=0, incarnation=incarnation, phase=PodPhase.RUNNING)
    return WorkloadReport(id=workload, run=run, phase=phase, since=Instant(7), pods=(pod,))


def event(number: int, workload: WorkloadId, kind: str = "bound") -> EventReport:
    return EventReport(number=number, at=Instant(number), kind=kind, workload=workload)


def node(name: str, *, ready: bool = True) -> NodeReport:
    return NodeReport(name=NodeName(name), pool=PoolName("default"), gpus=8, ready=ready)


def report(
    number: int, *workload_reports: WorkloadReport, after: int = 0, token: int = 1, **rest: object
) -> PushReport:
    reported = {"cluster": "local", "token": Token(token), "number": number, "after": after, "at": Instant(number)}
    return PushReport.model_validate({**reported, "workloads": workload_reports, **rest})


def shown(answer: PullAnswer, *names: WorkloadId) -> str:
    """The answer in short, with the first workload called a, the second b and so on."""
    called = dict(zip(names, "abcdef", strict=False))
    words = [f"{called[each.id]}:{each.desired_state}" for each in answer.workloads]
    words += [f"-{called[each]}" for each in answer.removed]
    words += ["organization"] * (answer.organization is not None)
    return ("all " if answer.whole else "") + " ".join(words)


# --- pull ----------------------------------------------------------------------------------------------------


def test_a_pull_tells_what_changed_after_a_revision_as_it_is_now(seam: Seam) -> None:
    revisions = [seam.pull().revision]

    def then(change: Callable[[], object]) -> object:
        done = change()
        revisions.append(seam.pull().revision)
        return done

    a = WorkloadId(str(then(lambda: seam.submit("a"))))
    b = WorkloadId(str(then(lambda: seam.submit("b"))))
    then(lambda: seam.suspend(a))
    then(lambda: seam.add_project("team-b"))
    c = WorkloadId(str(then(lambda: seam.submit("c"))))
    answers = [shown(seam.pull(revision), a, b, c) for revision in revisions]
    assert answers == [
        "a:stop b:run c:run organization",
        "b:run a:stop c:run organization",
        "a:stop c:run organization",
        "c:run organization",
        "c:run",
        "",
    ]
    assert [(seam.pull(each).after, seam.pull(each).revision) for each in revisions] == [
        (each, revisions[-1]) for each in revisions
    ]
    assert not seam.pull(revisions[-1]).says_something


@pytest.mark.parametrize("after", [pytest.param(0, id="nothing"), pytest.param(10_000, id="more than there is")])
def test_a_cluster_that_has_read_nothing_known_here_is_told_everything(seam: Seam, after: int) -> None:
    a, b = seam.submit("a"), seam.submit("b")
    seam.suspend(a)
    answer = seam.pull(after)
    assert answer.whole
    assert {(each.id, each.desired_state) for each in answer.workloads} == {
        (a, DesiredState.STOP),
        (b, DesiredState.RUN),
    }
    assert answer.organization is not None


@pytest.mark.parametrize("kind", SEAMS)
def test_changes_that_are_no_longer_listed_are_replaced_by_everything(kind: str) -> None:
    with seam_of(kind, changes_kept=500) as seam:
        read = seam.pull().revision
        nodes = tuple(node(f"n{number}") for number in range(1100))
        seam.push(report(1, whole=True, nodes=nodes))
        assert seam.pull(read).whole is True


def test_a_cluster_without_a_ledger_is_told_how_far_things_had_come(seam: Seam) -> None:
    names = seam.submit("a"), seam.submit("b")
    first = (workload_report(names[0], incarnation=4), workload_report(names[1]))
    seam.push(report(1, *first, whole=True, token=6, events=(event(1, names[0]), event(2, names[0]))))
    seam.push(report(2, workload_report(names[0], WorkloadPhase.FAILED, incarnation=2), after=1, token=6))
    answer = seam.pull()
    reported = {each.id: each for each in answer.workloads}
    a, b = (reported[name] for name in names)
    assert a.over is not None
    assert (a.over.phase, a.over.run, a.over.at, a.over.cause) == (WorkloadPhase.FAILED, 0, 7, Cause.EXITED)
    assert (a.incarnations, b.over, b.incarnations, b.done) == ({0: 4}, None, {0: 0}, ())
    assert (answer.reported_token, answer.reported_events) == (6, 2)


def test_an_end_in_an_earlier_run_is_not_told(seam: Seam) -> None:
    a = seam.submit("a")
    seam.push(report(1, workload_report(a, WorkloadPhase.FAILED), whole=True))
    assert seam.pull().workloads[0].over is not None
    assert seam.resume(a) == ""
    assert seam.pull().workloads[0].over is None


# --- push ----------------------------------------------------------------------------------------------------

Arrivals = Callable[[WorkloadId], list[PushReport]]
PAUSED, FAILED = WorkloadPhase.PENDING, WorkloadPhase.FAILED

ARRIVALS: dict[str, tuple[Arrivals, WorkloadPhase, list[bool]]] = {
    "in order": (
        lambda a: [report(1, workload_report(a, PAUSED), whole=True), report(2, workload_report(a, FAILED), after=1)],
        FAILED,
        [True, True],
    ),
    "twice": (lambda a: [report(1, workload_report(a, PAUSED), whole=True)] * 2, PAUSED, [True, False]),
    "late": (
        lambda a: [
            report(2, workload_report(a, FAILED), whole=True),
            report(1, workload_report(a, PAUSED), whole=True),
        ],
        FAILED,
        [True, False],
    ),
    "of the older loop": (
        lambda a: [
            report(1, workload_report(a, FAILED), token=2, whole=True),
            report(9, workload_report(a, PAUSED), whole=True),
        ],
        FAILED,
        [True, False],
    ),
    "of a newer loop": (
        lambda a: [
            report(9, workload_report(a, PAUSED), whole=True),
            report(1, workload_report(a, FAILED), token=2, whole=True),
        ],
        FAILED,
        [True, True],
    ),
    "one lost": (
        lambda a: [report(1, workload_report(a, PAUSED), whole=True), report(3, workload_report(a, FAILED), after=1)],
        FAILED,
        [True, True],
    ),
}


@pytest.mark.parametrize(("reports", "phase", "answers"), ARRIVALS.values(), ids=ARRIVALS)
def test_the_latest_report_counts(seam: Seam, reports: Arrivals, phase: WorkloadPhase, answers: list[bool]) -> None:
    a = seam.submit("a")
    pushed = reports(a)
    answered = [seam.push(each) for each in pushed]
    assert [each.taken for each in answered] == answers
    assert answered[0].takes(pushed[0])
    assert seam.phase(a) == phase.value


DOUBTS = {
    "whole": (report(5, whole=True, after=4), False),
    "the next": (report(5, after=3), False),
    "after one that was not answered": (report(5, after=2), False),
    "after one that is not known": (report(5, after=4), True),
    "of a loop that never told all": (report(1, token=2), True),
}


@pytest.mark.parametrize(("next_report", "doubt"), DOUBTS.values(), ids=DOUBTS)
def test_everything_is_wanted_when_something_may_be_missing(seam: Seam, next_report: PushReport, doubt: bool) -> None:
    seam.push(report(3, whole=True))
    assert seam.push(next_report).resync is doubt


def test_everything_is_asked_for_until_it_is_told(seam: Seam) -> None:
    """The answer that asks for it may be lost as well."""
    assert seam.push(report(6, after=5)).resync
    assert seam.push(report(7, after=5)).resync
    assert seam.push(report(8, after=7)).resync
    assert not seam.push(report(9, whole=True, after=7)).resync
    assert not seam.push(report(10, after=9)).resync


def test_a_whole_report_replaces_all_that_was_known(seam: Seam) -> None:
    a, b = seam.submit("a"), seam.submit("b")
    seam.push(report(1, workload_report(a), workload_report(b), whole=True, nodes=(node("n1"),)))
    assert (seam.phase(a), seam.phase(b), seam.nodes()) == ("Running", "Running", {"n1": True})
    seam.push(report(2, workload_report(b), whole=True, after=1))
    assert (seam.phase(a), seam.phase(b), seam.nodes()) == ("Creating", "Running", {})


# --- pieces of a report of everything ---


def piece(
    number: int, span: NameRange | None, *levels: WorkloadReport, first: bool = False, last: bool = False, **rest: Any
) -> PushReport:
    """A piece that tells all workloads in this range; the last one tells all nodes and queues, too."""
    ranges = {"first": first, "last": last, "workloads": span}
    if last:
        ranges |= {"nodes": NameRange(), "queues": NameRange()}
    return report(number, *levels, piece=ranges, **rest)


def two(seam: Seam) -> tuple[WorkloadId, WorkloadId]:
    """Two workloads, in the order of their ids."""
    a, b = sorted((seam.submit("a"), seam.submit("b")))
    return a, b


def test_a_report_in_pieces_replaces_all_that_was_known_range_by_range(seam: Seam) -> None:
    a, b = two(seam)
    seam.push(report(1, workload_report(a), workload_report(b), whole=True, nodes=(node("n1"), node("n2"))))
    first = seam.push(piece(2, NameRange(through=(a,)), first=True, after=1))
    assert (first.taken, first.resync) == (True, False)
    assert (seam.phase(a), seam.phase(b), len(seam.nodes())) == ("Creating", "Running", 2), "only what was in the range"
    last = seam.push(
        piece(3, NameRange(after=(a,)), workload_report(b, FAILED), last=True, after=2, nodes=(node("n2"),))
    )
    assert (last.taken, last.resync) == (True, False)
    assert (seam.phase(a), seam.phase(b), seam.nodes()) == ("Creating", "Failed", {"n2": True})
    assert not seam.push(report(4, workload_report(a), after=3)).resync


def test_a_piece_may_come_twice_and_a_report_that_was_cut_off_goes_on(seam: Seam) -> None:
    a, b = two(seam)
    seam.push(piece(1, NameRange(through=(a,)), workload_report(a), first=True))
    # The answer to the next piece is lost; it is sent again under another number.
    lost = piece(2, NameRange(after=(a,)), workload_report(b), last=True, after=1, events=(event(1, b),))
    seam.push(lost)
    again = seam.push(piece(3, NameRange(after=(a,)), workload_report(b), last=True, after=1, events=(event(1, b),)))
    assert (again.taken, again.resync, again.events_through) == (True, False, 1)
    assert not seam.push(lost).taken, "it comes late"
    assert (seam.phase(a), seam.phase(b), seam.events(b)) == ("Running", "Running", [(1, "bound")])


ORPHANED_PIECES = {
    "of a report that is not known": piece(9, NameRange(), after=8),
    "of another loop": piece(1, NameRange(), after=3, token=2),
}


@pytest.mark.parametrize("orphan", ORPHANED_PIECES.values(), ids=ORPHANED_PIECES)
def test_a_piece_without_those_before_it_is_not_taken_in_and_everything_is_wanted(
    seam: Seam, orphan: PushReport
) -> None:
    a = seam.submit("a")
    seam.push(report(3, workload_report(a), whole=True))
    answer = seam.push(orphan)
    assert (answer.taken, answer.resync, answer.number) == (False, True, 3)
    assert seam.phase(a) == "Running", "what it does not name is not gone"


def test_before_the_last_piece_a_change_is_taken_in_but_everything_is_still_wanted(seam: Seam) -> None:
    a, b = two(seam)
    seam.push(piece(1, NameRange(through=(a,)), workload_report(a), first=True))
    assert seam.push(report(2, workload_report(b), after=1)).resync
    assert seam.phase(b) == "Running"


def test_nodes_are_kept_as_last_told_and_leave_when_told(seam: Seam) -> None:
    seam.push(report(1, whole=True, nodes=(node("n1"), node("n2"))))
    seam.push(report(2, after=1, nodes=(node("n1", ready=False),), nodes_gone=(NodeName("n2"),)))
    assert seam.nodes() == {"n1": False}


def test_a_line_of_history_is_kept_once_and_as_it_was_first_told(seam: Seam) -> None:
    a = seam.submit("a")
    first = seam.push(report(1, whole=True, events=(event(1, a), event(2, a))))
    again = seam.push(report(2, after=1, events=(event(1, a, "told otherwise"), event(2, a), event(3, a))))
    assert (first.events_through, again.events_through) == (2, 3)
    assert seam.events(a) == [(1, "bound"), (2, "bound"), (3, "bound")]


def test_a_workload_goes_when_nothing_is_left_of_it_and_does_not_return(seam: Seam) -> None:
    a = seam.submit("a")
    assert seam.delete(a) == ""
    before = seam.pull().revision
    seam.push(report(1, workload_report(a), whole=True, gone=(GoneReport(id=a),)))
    assert shown(seam.pull(before), a) == "-a"
    seam.push(report(2, workload_report(a, WorkloadPhase.DELETING), after=1))
    assert (seam.phase(a), seam.pull().workloads) == ("Deleted", ())


def test_a_workload_that_was_resumed_meanwhile_does_not_go(seam: Seam) -> None:
    """It had failed long ago and the cluster removed it, just when a user resumed it."""
    a = seam.submit("a")
    seam.push(report(1, workload_report(a, WorkloadPhase.FAILED), whole=True))
    assert seam.resume(a) == ""
    seam.push(report(2, after=1, gone=(GoneReport(id=a, run=0),)))
    assert [each.id for each in seam.pull().workloads] == [a]
    seam.push(report(3, after=2, gone=(GoneReport(id=a, run=1),)))
    assert seam.pull().workloads == ()


def test_a_report_about_an_earlier_run_does_not_end_the_present_one(seam: Seam) -> None:
    a = seam.submit("a")
    seam.push(report(1, workload_report(a, WorkloadPhase.FAILED), whole=True))
    assert seam.resume(a) == ""
    seam.push(report(2, workload_report(a, WorkloadPhase.FAILED), after=1))
    assert seam.phase(a) == "Creating"


# --- what users ask for --------------------------------------------------------------------------------------


def test_what_has_done_its_work_is_not_resumed(seam: Seam) -> None:
    a = seam.submit("a")
    seam.push(report(1, workload_report(a, WorkloadPhase.COMPLETED), whole=True))
    assert seam.resume(a) == "workload.completed"


def test_what_is_asked_for_twice_is_declared_once(seam: Seam) -> None:
    a = seam.submit("a")
    for ask in (seam.suspend, seam.resume, seam.delete):
        assert ask(a) == ""
        before = seam.pull().revision
        assert ask(a) == ""
        assert seam.pull().revision == before


def test_what_is_being_deleted_is_neither_suspended_nor_resumed(seam: Seam) -> None:
    a = seam.submit("a")
    seam.delete(a)
    assert (seam.suspend(a), seam.resume(a)) == ("workload.being_deleted", "workload.being_deleted")
    assert seam.suspend(WorkloadId("unknown")) == "workload.unknown"


def test_a_forced_delete_is_a_declaration_without_grace_also_of_what_is_being_deleted(seam: Seam) -> None:
    a = seam.submit("a")
    seam.delete(a)
    assert seam.pull().workloads[0].grace_s > 0
    assert seam.delete(a, force=True) == ""
    (reported,) = seam.pull().workloads
    assert (reported.desired_state, reported.grace_s) == (DesiredState.DELETE, 0)
    before = seam.pull().revision
    assert (seam.delete(a, force=True), seam.pull().revision) == ("", before)
