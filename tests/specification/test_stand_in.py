"""The stand-in for a control plane: revisions, whole answers, and reports that come twice, late or never."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fairpool.api.clusters import (
    EventReport,
    GoneReport,
    NodeReport,
    PodReport,
    PullAnswer,
    PushAnswer,
    PushReport,
    QueueReport,
    WorkloadReport,
)
from fairpool.api.declarations import OrganizationWire
from fairpool.control.stand_in import StandIn
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, QueueId, Revision, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import Entitlement, Organization, OverQuota, ProjectRules, Queue, gpu_entitlement
from fairpool.model.pod_record import Cause
from fairpool.model.problem import Problem
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase

A, B, C = WorkloadId("a"), WorkloadId("b"), WorkloadId("c")
VISION, SPEECH, LAB = QueueId("vision"), QueueId("speech"), QueueId("lab")
ORGANIZATION = Organization(
    queues={
        DEFAULT_POOL: (
            Queue(id=LAB, gpu=Entitlement(quota=4000)),
            Queue(id=VISION, parent=LAB, gpu=Entitlement(quota=3000)),
            Queue(id=SPEECH, parent=LAB, gpu=Entitlement(quota=1000)),
        )
    },
    rules={VISION: ProjectRules(interactive_limit_s=60)},
)


def spec(workload: WorkloadId, project: QueueId = VISION, pods: int = 1) -> WorkloadSpec:
    return WorkloadSpec(id=workload, name=workload, project=project, created_at=Instant(0), pods=pods)


def level(
    workload: WorkloadId, phase: WorkloadPhase = WorkloadPhase.RUNNING, run: int = 0, incarnation: int = 0
) -> WorkloadReport:
    pod = PodReport(id=PodId(f"{workload}-0-{incarnation}"), index=0, incarnation=incarnation, phase=PodPhase.RUNNING)
    return WorkloadReport(id=workload, run=run, phase=phase, since=Instant(7), pods=(pod,))


def event(number: int, kind: str = "bound") -> EventReport:
    return EventReport(number=number, at=Instant(number), kind=kind, workload=A)


def report(
    number: int,
    *levels: WorkloadReport,
    after: int = 0,
    token: int = 1,
    whole: bool = False,
    gone: tuple[GoneReport, ...] = (),
    events: tuple[EventReport, ...] = (),
) -> PushReport:
    return PushReport(
        cluster="here",
        token=Token(token),
        number=number,
        after=after,
        whole=whole,
        at=Instant(number),
        workloads=levels,
        gone=gone,
        events=events,
    )


def pulled(control: StandIn, after: int) -> PullAnswer:
    return control.pull(Revision(after))


def shown(answer: PullAnswer) -> str:
    words = [f"{each.id}:{each.want}" for each in answer.workloads] + [f"-{each}" for each in answer.removed]
    words += ["organization"] * (answer.organization is not None)
    return ("all " if answer.whole else "") + " ".join(words)


def taken(revision: Revision | Problem) -> Revision:
    assert not isinstance(revision, Problem), str(revision)
    return revision


def code(revision: Revision | Problem) -> str:
    assert isinstance(revision, Problem)
    assert revision.fix
    return revision.code


# --- pull ---


def five_changes(control: StandIn) -> None:
    """From revision 1, where nothing is declared, to 6."""
    assert taken(control.submit(spec(A))) == 2
    assert taken(control.submit(spec(B))) == 3
    assert taken(control.suspend(A)) == 4
    assert taken(control.set_organization(ORGANIZATION)) == 5
    assert taken(control.submit(spec(C))) == 6


PULLS = [
    (0, "all b:run a:stop c:run organization"),
    (1, "b:run a:stop c:run organization"),
    (2, "b:run a:stop c:run organization"),
    (3, "a:stop c:run organization"),
    (4, "c:run organization"),
    (5, "c:run"),
    (6, ""),
    (7, "all b:run a:stop c:run organization"),
    (4000, "all b:run a:stop c:run organization"),
]


@pytest.mark.parametrize(("after", "answer"), PULLS, ids=lambda part: f"after {part}" if isinstance(part, int) else "")
def test_a_pull_tells_what_changed_after_a_revision_as_it_is_now(after: int, answer: str) -> None:
    control = StandIn()
    five_changes(control)
    assert shown(pulled(control, after)) == answer
    assert pulled(control, after).revision == 6
    assert pulled(control, after).after == after


def test_a_control_plane_where_nothing_is_declared_says_so_once() -> None:
    control = StandIn()
    first = pulled(control, 0)
    assert (first.whole, shown(first), first.revision) == (True, "all organization", 1)
    assert not pulled(control, first.revision).says_something


def test_whoever_is_behind_what_is_remembered_is_told_everything() -> None:
    control = StandIn(removed_kept=2)
    for number, workload in enumerate("vwxyz", start=1):
        control.submit(spec(WorkloadId(workload)))
        control.push(report(number, after=number - 1, gone=(GoneReport(id=WorkloadId(workload)),)))
    control.submit(spec(A))
    answers = {after: shown(pulled(control, after)) for after in (6, 7, 8, 10, 11, 12)}
    assert answers == {
        6: "all a:run organization",
        7: "a:run -y -z",  # x went in revision 7
        8: "a:run -y -z",
        10: "a:run -z",
        11: "a:run",
        12: "",
    }


def test_a_waiting_pull_wakes_when_something_is_declared() -> None:
    control = StandIn()
    answers: list[PullAnswer] = []
    waiting = threading.Thread(target=lambda: answers.append(control.pull(Revision(1), wait_s=60)))
    waiting.start()
    control.submit(spec(A))
    waiting.join(timeout=30)
    assert [shown(answer) for answer in answers] == ["a:run"]


def test_a_cluster_without_a_ledger_is_told_how_far_things_had_come() -> None:
    control = StandIn()
    control.submit(spec(A))
    control.submit(spec(B))
    control.push(report(1, level(A, incarnation=4), level(B), whole=True, token=6, events=(event(1), event(2))))
    control.push(report(2, level(A, WorkloadPhase.FAILED, incarnation=2), after=1, token=6))
    answer = pulled(control, 0)
    a, b = answer.workloads
    assert a.over is not None
    assert (a.over.phase, a.over.run, a.over.at, a.over.cause) == (WorkloadPhase.FAILED, 0, 7, Cause.EXITED)
    assert (a.incarnations, b.over, b.incarnations, b.done) == ({0: 4}, None, {0: 0}, ())
    assert (answer.heard_token, answer.heard_events) == (6, 2)


def test_an_end_in_an_earlier_run_is_not_told() -> None:
    control = StandIn()
    control.submit(spec(A))
    control.push(report(1, level(A, WorkloadPhase.FAILED), whole=True))
    assert pulled(control, 0).workloads[0].over is not None
    taken(control.resume(A))
    assert pulled(control, 0).workloads[0].over is None


# --- what people do ---


def test_each_thing_that_people_do_is_one_revision_and_doing_it_twice_is_none() -> None:
    control = StandIn()
    steps: list[tuple[Callable[[], Revision | Problem], Revision]] = [
        (lambda: control.submit(spec(A, pods=2)), Revision(2)),
        (lambda: control.set_organization(ORGANIZATION), Revision(3)),
        (lambda: control.suspend(A), Revision(4)),
        (lambda: control.resize(A, pods=4, minimum=2), Revision(6)),
        (lambda: control.set_quota(VISION, 2500), Revision(7)),
        (lambda: control.delete(A), Revision(8)),
    ]
    for number, (step, revision) in enumerate(steps):
        assert (step(), step()) == (revision, revision), f"step {number}"
        if number == 2:
            assert control.resume(A) == 5


def test_what_people_do_is_declared() -> None:
    control = StandIn()
    control.set_organization(ORGANIZATION)
    control.submit(spec(A, pods=2))
    control.suspend(A)
    control.resume(A)
    control.resize(A, pods=4, minimum=2)
    control.set_quota(VISION, 2500)
    now = control.spec(A)
    assert now is not None
    assert (now.want, now.run, now.pods, now.minimum) == (DesiredState.RUN, 1, 4, 2)
    assert [queue.gpu.quota for queue in control.organization().queues[DEFAULT_POOL]] == [4000, 2500, 1000]


@pytest.mark.parametrize(
    ("setting", "limit", "weight"),
    [
        pytest.param(None, -1, 5.0, id="not set: the weight follows"),
        pytest.param(OverQuota.OFF, 5000, 0.0, id="off: the limit follows"),
        pytest.param(OverQuota.LOWEST, -1, 0.0, id="lowest"),
        pytest.param(OverQuota.LOW, -1, 1.0, id="low"),
        pytest.param(OverQuota.MEDIUM, -1, 2.0, id="medium"),
        pytest.param(OverQuota.HIGH, -1, 3.0, id="high, the weight of the old quota"),
    ],
)
def test_the_over_quota_setting_outlives_a_changed_quota_and_the_process(
    setting: OverQuota | None, limit: int, weight: float, tmp_path: Path
) -> None:
    vision = Queue(id=VISION, gpu=gpu_entitlement(3000, setting), over_quota=setting)
    speech = Queue(id=SPEECH, gpu=gpu_entitlement(3000))
    first = StandIn(tmp_path / "control.db")
    first.set_organization(Organization(queues={DEFAULT_POOL: (vision, speech)}))
    first.close()
    again = StandIn(tmp_path / "control.db")
    taken(again.set_quota(VISION, 1000))
    taken(again.set_quota(VISION, 5000))
    changed, other = again.organization().queues[DEFAULT_POOL]
    assert changed == Queue(id=VISION, gpu=Entitlement(5000, limit, weight), over_quota=setting)
    assert other == speech
    again.close()


def test_what_was_written_down_before_there_was_a_setting_is_read_as_not_set() -> None:
    older = json.loads(OrganizationWire.from_organization(ORGANIZATION).to_json())
    for queue in older["queues"][DEFAULT_POOL]:
        del queue["over_quota"], queue["gpu_limit_milli"]
    assert OrganizationWire.from_json(json.dumps(older)).to_organization() == ORGANIZATION


def test_a_queue_is_renamed_with_all_that_names_it_in_one_revision() -> None:
    control = StandIn()
    control.set_organization(ORGANIZATION)
    control.submit(spec(A, VISION))
    control.submit(spec(B, SPEECH))
    before = control.revision
    observed = QueueId("sight")
    assert taken(control.rename_queue(VISION, observed)) == before + 1
    assert shown(pulled(control, before)) == "a:run organization"
    assert {each.id: each.project for each in control.specs().values()} == {A: observed, B: SPEECH}
    assert control.organization().rules == {observed: ProjectRules(interactive_limit_s=60)}
    taken(control.rename_queue(LAB, QueueId("institute")))
    parents = [(queue.id, queue.parent) for queue in control.organization().queues[DEFAULT_POOL]]
    assert parents == [("institute", None), (observed, "institute"), (SPEECH, "institute")]


def test_what_cannot_be_done_is_a_problem_and_no_revision() -> None:
    control = StandIn()
    control.set_organization(ORGANIZATION)
    control.submit(spec(A, pods=2))
    control.submit(spec(B))
    control.delete(B)
    before = control.revision
    assert code(control.submit(spec(A, pods=3))) == "workload.exists"
    assert code(control.suspend(C)) == "workload.unknown"
    assert code(control.suspend(B)) == "workload.being_deleted"
    assert code(control.resize(B, pods=2)) == "workload.being_deleted"
    assert code(control.resume(B)) == "workload.being_deleted"
    assert code(control.resume(A)) == "workload.not_stopped"
    assert code(control.resize(A, pods=0)) == "workload.size"
    assert code(control.resize(A, minimum=3)) == "workload.size"
    assert code(control.set_quota(QueueId("nobody"), 1)) == "queue.unknown"
    assert code(control.set_quota(VISION, 1, PoolName("elsewhere"))) == "queue.unknown"
    assert code(control.rename_queue(QueueId("nobody"), VISION)) == "queue.unknown"
    assert code(control.rename_queue(VISION, SPEECH)) == "queue.exists"
    assert control.revision == before


# --- push ---


def test_a_declaration_goes_when_nothing_is_left_of_it_and_its_id_does_not_return() -> None:
    control = StandIn()
    control.submit(spec(A))
    control.delete(A)
    before = control.revision
    control.push(report(1, level(A), whole=True, gone=(GoneReport(id=A),)))
    assert shown(pulled(control, before)) == "-a"
    assert (control.spec(A), control.workload(A)) == (None, None)
    assert code(control.submit(spec(A))) == "workload.exists"
    control.push(report(2, level(A, WorkloadPhase.DELETING), after=1))
    assert control.workload(A) is None


def test_a_workload_that_was_resumed_meanwhile_does_not_go() -> None:
    """It had finished long ago and the cluster cleared it away, just when somebody wanted it again."""
    control = StandIn()
    control.submit(spec(A))
    control.push(report(1, level(A, WorkloadPhase.FAILED), whole=True))
    taken(control.resume(A))
    control.push(report(2, after=1, gone=(GoneReport(id=A, run=0),)))
    assert control.spec(A) is not None
    control.push(report(3, after=2, gone=(GoneReport(id=A, run=1),)))
    assert control.spec(A) is None


PAUSED, FAILED, DONE = WorkloadPhase.PENDING, WorkloadPhase.FAILED, WorkloadPhase.FAILED

ARRIVALS: list[tuple[str, list[PushReport], WorkloadPhase, list[bool]]] = [
    ("in order", [report(1, level(A, PAUSED), whole=True), report(2, level(A, DONE), after=1)], DONE, [True, True]),
    ("twice", [report(1, level(A, PAUSED), whole=True)] * 2, PAUSED, [True, False]),
    ("late", [report(2, level(A, DONE), whole=True), report(1, level(A, PAUSED), whole=True)], DONE, [True, False]),
    (
        "of the older loop",
        [report(1, level(A, DONE), token=2, whole=True), report(9, level(A, PAUSED), token=1, whole=True)],
        DONE,
        [True, False],
    ),
    (
        "of a newer loop",
        [report(9, level(A, PAUSED), token=1, whole=True), report(1, level(A, DONE), token=2, whole=True)],
        DONE,
        [True, True],
    ),
    (
        "one lost",
        [report(1, level(A, PAUSED), whole=True), report(3, level(A, FAILED), after=1)],
        FAILED,
        [True, True],
    ),
]


@pytest.mark.parametrize(("reports", "phase", "answers"), [each[1:] for each in ARRIVALS], ids=[x[0] for x in ARRIVALS])
def test_the_latest_report_counts(reports: list[PushReport], phase: WorkloadPhase, answers: list[bool]) -> None:
    control = StandIn()
    control.submit(spec(A))
    assert [control.push(each).taken for each in reports] == answers
    last = control.workload(A)
    assert last is not None
    assert last.phase is phase


DOUBTS = [
    ("whole", report(5, whole=True, after=4), False),
    ("the next", report(5, after=3), False),
    ("after one that was not answered", report(5, after=2), False),
    ("after one that is not known", report(5, after=4), True),
    ("of a loop that never told all", report(1, token=2), True),
]


@pytest.mark.parametrize(("next_report", "doubt"), [each[1:] for each in DOUBTS], ids=[each[0] for each in DOUBTS])
def test_everything_is_wanted_when_something_may_be_missing(next_report: PushReport, doubt: bool) -> None:
    control = StandIn()
    control.push(report(3, whole=True))
    assert control.push(next_report).want_whole is doubt


def test_the_wish_for_everything_lasts_until_it_is_fulfilled() -> None:
    """The answer with the wish may be lost as well."""
    control = StandIn()
    assert control.push(report(6, after=5)).want_whole
    assert control.push(report(7, after=5)).want_whole
    assert control.push(report(8, after=7)).want_whole
    assert not control.push(report(9, whole=True, after=7)).want_whole
    assert not control.push(report(10, after=9)).want_whole


def test_a_whole_report_replaces_all_that_was_known() -> None:
    control = StandIn()
    node, queue = NodeReport(name=NodeName("n1")), queue_level(VISION, 0)
    full = report(1, level(A), level(B), whole=True).model_copy(update={"nodes": (node,), "queues": (queue,)})
    control.push(full)
    assert [len(each) for each in (control.workloads(), control.nodes(), control.queues())] == [2, 1, 1]
    control.push(report(2, level(B), whole=True, after=1))
    assert [each.id for each in control.workloads()] == [B]
    assert (control.nodes(), control.queues()) == ([], [])


def test_nodes_and_queues_are_kept_as_last_told_and_leave_when_told() -> None:
    control = StandIn()
    nodes = tuple(NodeReport(name=NodeName(name), gpus=8) for name in ("n1", "n2"))
    queues = (queue_level(VISION, 1000), queue_level(SPEECH, 0))
    control.push(report(1, whole=True).model_copy(update={"nodes": nodes, "queues": queues}))
    changes = {
        "nodes": (NodeReport(name=NodeName("n1"), gpus=8, ready=False),),
        "nodes_gone": (NodeName("n2"),),
        "queues": (queue_level(VISION, 2000),),
        "queues_gone": ((DEFAULT_POOL, SPEECH),),
    }
    control.push(report(2, after=1).model_copy(update=changes))
    assert [(node.name, node.ready) for node in control.nodes()] == [("n1", False)]
    assert [(queue.queue, queue.held_milli) for queue in control.queues()] == [(VISION, 2000)]


def queue_level(queue: QueueId, held_milli: int) -> QueueReport:
    return QueueReport(pool=DEFAULT_POOL, queue=queue, quota_milli=0, fair_share_milli=0, held_milli=held_milli)


def test_a_line_of_history_is_kept_once_and_as_it_was_first_told() -> None:
    control = StandIn()
    first = control.push(report(1, whole=True, events=(event(1), event(2))))
    again = control.push(report(2, events=(event(1, "told otherwise"), event(2), event(3))))
    assert (first.events_through, again.events_through) == (2, 3)
    assert [(each.number, each.kind) for each in control.events("here")] == [(1, "bound"), (2, "bound"), (3, "bound")]
    assert [each.number for each in control.events("here", after=2)] == [3]


# --- on disk ---


def test_everything_is_still_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    control = StandIn(path)
    five_changes(control)
    control.push(report(1, level(A, incarnation=3), whole=True, token=4, events=(event(1),)))
    before = [control.pull(Revision(after)) for after in range(8)]
    control.close()
    control = StandIn(path)
    assert [control.pull(Revision(after)) for after in range(8)] == before
    assert control.workloads() == [level(A, incarnation=3)]
    assert control.events("here") == [event(1)]
    assert control.push(report(1, whole=True, token=4)) == PushAnswer(
        token=Token(4), number=1, taken=False, events_through=1
    )


KILLED = """
import sys
from pathlib import Path
from fairpool.control.stand_in import StandIn
from fairpool.model.ids import Instant, QueueId, WorkloadId
from fairpool.model.spec import WorkloadSpec
control = StandIn(Path(sys.argv[1]))
for number in range(10_000):
    workload = WorkloadSpec(id=WorkloadId(f"w{number}"), name="", project=QueueId("p"), created_at=Instant(0))
    control.submit(workload)
    print(number, flush=True)
"""


@pytest.mark.slow
def test_what_was_answered_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    answered = next(int(line) for line in process.stdout if int(line) >= 50)
    os.kill(process.pid, signal.SIGKILL)
    answered = max([answered, *(int(line) for line in process.stdout if line.endswith("\n"))])
    process.wait()
    process.stdout.close()
    control = StandIn(path)
    declared = len(control.specs())
    assert declared in (answered + 1, answered + 2)  # the last one may be written and not answered
    assert control.revision == 1 + declared


def test_a_control_plane_that_was_put_back_to_a_copy_is_healed_by_its_cluster(tmp_path: Path) -> None:
    """What clusters told after the copy is asked for again; what people did after it is lost, and cannot be told."""
    path, copy = tmp_path / "control.db", tmp_path / "copy.db"
    control = StandIn(path)
    control.submit(spec(A))
    control.push(report(1, level(A, WorkloadPhase.PENDING), whole=True))
    control.close()
    shutil.copy(path, copy)
    control = StandIn(path)
    control.submit(spec(B))
    control.push(report(2, level(A), after=1))
    cursor = control.revision
    control.close()
    control = StandIn(copy)
    assert shown(pulled(control, cursor)) == "all a:run organization"
    assert control.push(report(3, after=2)).want_whole
    assert not control.push(report(4, level(A), whole=True, after=3)).want_whole
    last = control.workload(A)
    assert last is not None
    assert last.phase is WorkloadPhase.RUNNING


def test_what_has_done_its_work_is_not_resumed() -> None:
    control = StandIn()
    control.submit(spec(A))
    control.push(report(1, level(A, WorkloadPhase.COMPLETED), whole=True))
    assert code(control.resume(A)) == "workload.completed"


def test_a_forced_delete_is_a_declaration_without_grace_also_of_what_is_being_deleted() -> None:
    control = StandIn()
    control.submit(spec(A))
    control.delete(A)
    before = taken(control.delete(A, force=True))
    known = control.spec(A)
    assert known is not None
    assert (known.want, known.grace_s) == (DesiredState.DELETE, 0)
    assert control.delete(A, force=True) == before
