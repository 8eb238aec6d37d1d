"""The control plane in process: what simulations declare with it, and what its file keeps."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.api.clusters import EventReport, PodReport, PushAnswer, PushReport, QueueReport, WorkloadReport
from fairpool.api.declarations import OrganizationWire
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, QueueId, Revision, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL, NodePool, Placement, Taint, TaintEffect
from fairpool.model.organization import (
    Entitlement,
    GraceRules,
    NodeOverrides,
    Organization,
    OverQuotaChoice,
    ProjectRules,
    Queue,
    department_queue,
    gpu_entitlement,
)
from fairpool.model.problem import Problem
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.simulation.control_driver import ControlDriver

A, B = WorkloadId("a"), WorkloadId("b")
VISION, SPEECH, LAB, OTHERS = QueueId("vision"), QueueId("speech"), department_queue("lab"), department_queue("default")
NOW = Instant(1_000)
BIG = PoolName("big")
ORGANIZATION = Organization(
    queues={
        DEFAULT_POOL: (
            Queue(id=LAB, gpu=gpu_entitlement(4000)),
            Queue(id=SPEECH, parent=LAB, gpu=gpu_entitlement(1500), priority=7, reclaim_min_runtime_s=60),
            Queue(id=VISION, parent=LAB, gpu=gpu_entitlement(3000), cpu=Entitlement(quota=8000, limit=9000)),
        ),
    },
    rules={VISION: ProjectRules(interactive_limit_s=60)},
    pools=(NodePool(name=BIG, label_key="pool", label_value="big", gpu_placement=Placement.SPREAD), NodePool()),
    node_overrides={
        NodeName("n1"): NodeOverrides(cordoned=True, taints=(Taint("runai", "drain", TaintEffect.NO_EXECUTE),))
    },
    graces=GraceRules(most_s=100, eviction_s=10),
)


def driver(path: Path | None = None) -> ControlDriver:
    return ControlDriver(lambda: NOW, path)


def declared() -> ControlDriver:
    control = driver()
    assert control.declare(ORGANIZATION) is None
    return control


def spec(workload: WorkloadId, pods: int = 1) -> WorkloadSpec:
    return WorkloadSpec(id=workload, name=workload, project=VISION, created_at=NOW, pods=pods)


def workload_report(
    workload: WorkloadId, phase: WorkloadPhase = WorkloadPhase.RUNNING, incarnation: int = 0
) -> WorkloadReport:
    pod = PodReport(id=PodId(f"{workload}-0-{incarnation}"), index=0, incarnation=incarnation, phase=PodPhase.RUNNING)
    return WorkloadReport(id=workload, phase=phase, since=Instant(7), pods=(pod,))


def report(
    number: int, *workload_reports: WorkloadReport, after: int = 0, token: int = 1, **rest: object
) -> PushReport:
    reported = {"cluster": "local", "token": Token(token), "number": number, "after": after, "at": Instant(number)}
    return PushReport.model_validate({**reported, "workloads": workload_reports, **rest})


def code(problem: Problem | None) -> str:
    assert problem is not None
    assert problem.fix
    return problem.code


# --- declarations ---


def test_an_organization_reaches_the_cluster_as_it_was_declared() -> None:
    control = declared()
    reported = control.organization()
    queues = {queue.id: replace(queue, created_at=Instant(0)) for queue in reported.queues[DEFAULT_POOL]}
    # The department that is there from the start is a queue as soon as there is another one.
    assert queues == {OTHERS: queues[OTHERS], **{each.id: each for each in ORGANIZATION.queues[DEFAULT_POOL]}}
    assert [queue.gpu.quota for queue in reported.queues[BIG] if queue.id != LAB] == [0, 0, 0]
    assert replace(reported, queues={}) == replace(ORGANIZATION, queues={})


def test_the_same_declared_again_is_no_change() -> None:
    control = declared()
    control.submit(spec(A, pods=2))
    before = control.revision
    assert control.declare(ORGANIZATION) is None
    assert control.submit(spec(A, pods=2)) is None
    assert control.set_quota(VISION, 3000) is None
    assert control.override_node(NodeName("n1"), ORGANIZATION.node_overrides[NodeName("n1")]) is None
    assert control.resize(A, pods=2) is None
    assert control.revision == before


def test_what_is_asked_of_a_workload_or_a_queue_is_declared() -> None:
    control = declared()
    control.submit(spec(A, pods=2))
    control.suspend(A)
    control.resume(A)
    control.resize(A, pods=4, minimum=2)
    control.set_quota(VISION, 2500)
    control.set_quota(LAB, 5000)
    now = control.spec(A)
    assert now is not None
    assert (now.desired_state, now.run, now.pods, now.minimum) == (DesiredState.RUN, 1, 4, 2)
    quotas = {queue.id: queue.gpu.quota for queue in control.organization().queues[DEFAULT_POOL]}
    assert quotas == {OTHERS: 0, LAB: 5000, VISION: 2500, SPEECH: 1500}


def test_a_department_without_a_quota_of_its_own_follows_its_projects() -> None:
    control = driver()
    control.declare(ORGANIZATION, followers={(DEFAULT_POOL, LAB)})
    control.set_quota(SPEECH, 1000)
    quotas = {queue.id: queue.gpu.quota for queue in control.organization().queues[DEFAULT_POOL]}
    assert quotas[LAB] == 4000


@pytest.mark.parametrize(
    ("setting", "limit", "weight"),
    [
        pytest.param(None, -1, 5.0, id="not set: the weight follows"),
        pytest.param(OverQuotaChoice.OFF, 5000, 0.0, id="off: the limit follows"),
        pytest.param(OverQuotaChoice.LOWEST, -1, 0.0, id="lowest"),
        pytest.param(OverQuotaChoice.LOW, -1, 1.0, id="low"),
        pytest.param(OverQuotaChoice.MEDIUM, -1, 2.0, id="medium"),
        pytest.param(OverQuotaChoice.HIGH, -1, 3.0, id="high, the weight of the old quota"),
    ],
)
def test_the_over_quota_setting_outlives_a_changed_quota_and_the_process(
    setting: OverQuotaChoice | None, limit: int, weight: float, tmp_path: Path
) -> None:
    vision = Queue(id=VISION, gpu=gpu_entitlement(3000, setting), over_quota=setting)
    speech = Queue(id=SPEECH, gpu=gpu_entitlement(3000))
    first = driver(tmp_path / "control.db")
    first.declare(Organization(queues={DEFAULT_POOL: (speech, vision)}))
    first.close()
    again = driver(tmp_path / "control.db")
    again.set_quota(VISION, 1000)
    again.set_quota(VISION, 5000)
    other, changed = again.organization().queues[DEFAULT_POOL]
    assert (changed.gpu, other.gpu) == (Entitlement(5000, limit, weight), speech.gpu)
    again.close()


def test_a_deleted_project_takes_its_work_along_or_leaves_it_to_another() -> None:
    control = declared()
    control.submit(spec(A))
    assert control.delete_project(VISION, move_to=SPEECH) is None
    moved = control.spec(A)
    assert moved is not None
    assert (moved.project, moved.desired_state, control.projects()) == (SPEECH, DesiredState.RUN, [SPEECH])
    assert control.delete_project(SPEECH) is None
    left = control.spec(A)
    assert left is not None
    assert (left.desired_state, control.projects()) == (DesiredState.DELETE, [])
    assert code(control.submit(replace(spec(B), project=SPEECH))) == "project.deleting"


def test_what_cannot_be_done_is_a_problem_and_no_revision() -> None:
    control = declared()
    control.submit(spec(A, pods=2))
    control.submit(spec(B))
    control.delete(B)
    before = control.revision
    assert code(control.submit(spec(A, pods=3))) == "workload.exists"
    assert code(control.resize(B, pods=2)) == "workload.being_deleted"
    assert code(control.resize(A, pods=0)) == "workload.size"
    assert code(control.resize(A, minimum=3)) == "workload.size"
    assert code(control.submit(replace(spec(WorkloadId("c")), project=QueueId("elsewhere")))) == "project.unknown"
    assert code(control.set_quota(QueueId("elsewhere"), 1)) == "project.unknown"
    assert code(control.set_quota(department_queue("elsewhere"), 1)) == "department.unknown"
    assert code(control.set_quota(VISION, 1, PoolName("elsewhere"))) == "pool.unknown"
    assert control.revision == before


def test_an_organization_written_before_there_was_a_setting_is_read_as_not_set() -> None:
    older = json.loads(OrganizationWire.of(ORGANIZATION).to_json())
    for queue in older["queues"][DEFAULT_POOL]:
        del queue["over_quota"], queue["gpu_limit_milli"]
    assert OrganizationWire.from_json(json.dumps(older)).to_organization() == ORGANIZATION


def test_queues_are_kept_as_last_reported() -> None:
    control = declared()
    one, two = (
        QueueReport(pool=DEFAULT_POOL, queue=queue, quota_milli=0, fair_share_milli=0, held_milli=1000)
        for queue in (VISION, SPEECH)
    )
    control.push(report(1, whole=True, queues=(one, two)))
    more = one.model_copy(update={"held_milli": 2000})
    control.push(report(2, after=1, queues=(more,), queues_gone=((DEFAULT_POOL, SPEECH),)))
    assert control.queues() == [more]
    control.push(report(3, after=2, whole=True))
    assert control.queues() == []


# --- the file ---


def test_everything_is_still_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "control.db"
    control = driver(path)
    control.declare(ORGANIZATION)
    control.submit(spec(A))
    control.submit(spec(B))
    reported = EventReport(number=1, at=Instant(1), kind="bound", workload=A)
    control.push(report(1, workload_report(A, incarnation=3), whole=True, token=4, events=(reported,)))
    before = [control.pull(Revision(after)) for after in range(control.revision + 2)]
    control.close()
    control = driver(path)
    assert [control.pull(Revision(after)) for after in range(control.revision + 2)] == before
    assert control.workloads() == [workload_report(A, incarnation=3)]
    assert control.events() == [reported]
    late = control.push(report(1, whole=True, token=4))
    assert late == PushAnswer(token=Token(4), number=1, taken=False, events_through=1)
    control.close()


KILLED = """
import sys
from pathlib import Path
from fairpool.api.organization import ProjectRequest
from fairpool.model.ids import Instant, QueueId, WorkloadId
from fairpool.model.spec import WorkloadSpec
from fairpool.simulation.control_driver import ControlDriver
control = ControlDriver(lambda: Instant(0), Path(sys.argv[1]))
control.add_project(ProjectRequest(name="p"))
for number in range(10_000):
    name = f"w{number}"
    refused = control.submit(WorkloadSpec(id=WorkloadId(name), name=name, project=QueueId("p"), created_at=Instant(0)))
    assert refused is None, refused
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
    control = driver(path)
    assert len(control.specs()) in (answered + 1, answered + 2)  # the last one may be written and not answered
    control.close()


def test_a_control_plane_that_was_put_back_to_a_copy_is_healed_by_its_cluster(tmp_path: Path) -> None:
    """What the cluster reported after the copy is asked for again; what was declared after it is lost."""
    path, copy = tmp_path / "control.db", tmp_path / "copy.db"
    control = driver(path)
    control.declare(ORGANIZATION)
    control.submit(spec(A))
    control.push(report(1, workload_report(A, WorkloadPhase.PENDING), whole=True))
    control.close()
    shutil.copy(path, copy)
    control = driver(path)
    control.submit(spec(B))
    control.push(report(2, workload_report(A), after=1))
    cursor = control.revision
    control.close()
    control = driver(copy)
    answer = control.pull(cursor)
    assert (answer.whole, [each.id for each in answer.workloads]) == (True, [A])
    assert control.push(report(3, after=2)).resync
    assert not control.push(report(4, workload_report(A), whole=True, after=3)).resync
    last = control.workload(A)
    assert last is not None
    assert last.phase is WorkloadPhase.RUNNING
    control.close()
