"""Figures of nodes, projects, departments and jobs: added up from the same rows, so that they agree in every answer."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.clusters import PodReport, WorkloadReport
from fairpool.api.gateway_address import GatewayAddress
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import downgrade
from fairpool.control.store.sqlite import Sqlite
from fairpool.model.ids import NodeName, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.status import WorkloadPhase
from tests.control.control_plane import ControlPlane, codes, control_plane, expect, gone, node
from tests.postgresql import of_sqlite

pytestmark = pytest.mark.slow


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as found:
        found.project("team-a")
        found.project("team-b")
        found.push(found.report(whole=True, nodes=(node("n1"), node("n2"))))
        yield found


def held(control: ControlPlane, workload: str, *pods: tuple[PodPhase, str, int], run: int = 0) -> WorkloadReport:
    """Its pods: phase, node and GPUs in thousandths."""
    replicas = tuple(
        PodReport(
            id=PodId(f"{workload}-{index}-0"),
            index=index,
            incarnation=0,
            phase=phase,
            node=NodeName(on),
            devices=(index,),
            gpus_milli=milli,
            cpu_milli=milli,
            memory_bytes=milli,
        )
        for index, (phase, on, milli) in enumerate(pods)
    )
    total = sum(milli for _, _, milli in pods)
    workload_report = control.runs(workload, run=run)
    return workload_report.model_copy(
        update={"pods": replicas, "gpus_milli": total, "cpu_milli": total, "memory_bytes": total}
    )


def agreed(control: ControlPlane) -> float:
    """What is held, by whatever one looks at; all of one answer, and the other answers too."""
    found = expect(control.call("GET", "/api/v1/overview"), 200)
    by_node = sum(each["gpuInfo"]["allocated"] for each in found["nodes"])
    assert by_node == sum(sum(each["gpuInfo"]["allocatedByDevice"]) for each in found["nodes"])
    assert by_node == sum(each["allocatedGpus"] for each in found["projects"])
    assert by_node == sum(each["allocatedResources"]["gpu"] for each in found["workloads"])
    departments = expect(control.call("GET", "/api/v1/org-unit/departments"), 200)["departments"]
    assert by_node == sum(each["allocatedGpus"] for each in departments)
    for each in found["nodes"]:
        one = expect(control.call("GET", f"/api/v1/nodes/{each['name']}"), 200)
        assert one["gpuInfo"] == each["gpuInfo"]
        assert sum(pod["gpu"] for pod in one["podsThere"]) == each["gpuInfo"]["allocated"]
        assert len(one["podsThere"]) == one["pods"]
    return float(by_node)


RUNNING, LEAVING, ENDED = PodPhase.RUNNING, PodPhase.RELEASING, PodPhase.ENDED


def test_figures_agree_through_the_life_of_a_job(control: ControlPlane) -> None:
    one, two = control.train("one")["id"], control.train("two", "team-b")["id"]
    assert agreed(control) == 0
    control.push(control.report(workloads=(held(control, one, (RUNNING, "n1", 1000), (RUNNING, "n2", 500)),)))
    assert agreed(control) == 1.5
    control.push(control.report(workloads=(held(control, two, (RUNNING, "n1", 250)),)))
    assert agreed(control) == 1.75
    control.push(control.report(workloads=(held(control, one, (LEAVING, "n1", 1000), (ENDED, "n2", 0)),)))
    assert agreed(control) == 1.25, "who leaves holds its devices until it is gone"
    expect(control.call("POST", f"/api/v1/workloads/{two}/suspend"), 202)
    assert agreed(control) == 1.25
    expect(control.call("POST", f"/api/v1/workloads/{two}/resume"), 202)
    assert agreed(control) == 1.25, "resumed while its pods of the run before still leave"
    expect(control.call("DELETE", f"/api/v1/workloads/{one}"), 202)
    control.push(control.report(workloads=(held(control, two, run=1),), gone=(gone(one),)))
    assert agreed(control) == 0


def test_a_report_of_everything_leaves_nothing_behind(control: ControlPlane) -> None:
    one = control.train("one")["id"]
    control.push(control.report(workloads=(held(control, one, (RUNNING, "n1", 1000)),)))
    control.push(control.report(whole=True, nodes=(node("n1"),)))
    assert agreed(control) == 0


def test_who_may_not_see_work_sees_what_it_holds_and_not_what_it_is(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    mine, foreign = control.train("mine")["id"], control.train("secret", "team-b")["id"]
    workload_reports = (held(control, mine, (RUNNING, "n1", 1000)), held(control, foreign, (RUNNING, "n1", 500)))
    control.push(control.report(workloads=workload_reports))
    found = control.call("GET", "/api/v1/overview", by="ann")
    assert [each["name"] for each in expect(found, 200)["workloads"]] == ["mine"]
    assert (found.json()["hiddenWorkloads"], found.json()["waiting"]) == (1, {})
    there = control.call("GET", "/api/v1/nodes/n1", by="ann")
    assert [(each["name"], each["gpu"]) for each in expect(there, 200)["podsThere"]] == [
        ("mine-0-0", 1.0),
        ("(another project)", 0.5),
    ]
    for answer in (found, there):
        assert "secret" not in answer.text
        assert foreign not in answer.text
        assert "team-b" not in answer.text


@of_sqlite
def test_claims_that_work_has_mounted_before_they_were_written_down_are_known(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        new = {"claimName": "old", "path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi"}}
        control.train("t1", storage={"pvc": [new]})

    async def take_back() -> None:
        database = LocalDatabase(Sqlite(tmp_path / "control.sqlite"))
        await database.open(lambda connection: downgrade(connection, "0004"))
        await database.close()

    asyncio.run(take_back())
    with sqlite3.connect(tmp_path / "control.sqlite") as older:
        # As it was told before: with figures of its own, which are not known any more.
        document = json.dumps({"name": "n1", "gpus": 8, "gpus_used_milli": 500})
        older.execute("INSERT INTO nodes VALUES (?, 'n1', ?, 1)", (str(control.cluster), document))
    with control_plane(tmp_path) as control:
        found: Any = expect(control.call("GET", "/api/v1/claims?projectId=team-a"), 200)["claims"]
        assert [each["name"] for each in found] == ["old"]
        control.train("t2", storage={"pvc": [{"claimName": "old", "path": "/d"}]})
        assert expect(control.call("GET", "/api/v1/nodes"), 200)["nodes"] == [], "the next report brings them"


NEW_CLAIM = {"path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi"}}


def test_a_job_that_is_submitted_again_gets_a_new_claim_again(control: ControlPlane) -> None:
    for expected in ("pvc-t1-0", "pvc-t1-1"):
        made = control.train("t1", storage={"pvc": [NEW_CLAIM]})
        (claim,) = made["spec"]["storage"]["pvc"]
        assert claim["claimName"] == expected
        expect(control.call("DELETE", f"/api/v1/workloads/{made['id']}"), 202)
        control.push(control.report(gone=(gone(made["id"]),)))


def test_a_model_that_is_changed_can_have_a_new_claim(control: ControlPlane) -> None:
    spec = {"image": "python", "servingPort": {"container": 8080}}
    body = {"name": "m1", "projectId": "team-a", "spec": spec}
    model = expect(control.call("POST", "/api/v1/workloads/inferences", body), 202)["id"]
    path = f"/api/v1/workloads/inferences/{model}"
    expect(control.call("PATCH", path, {"spec": {"storage": {"pvc": [NEW_CLAIM]}}}), 202)
    expect(control.call("PATCH", path, {"spec": {"storage": {"pvc": [{**NEW_CLAIM, "claimName": "named"}]}}}), 202)
    found: Any = expect(control.call("GET", "/api/v1/claims?projectId=team-a"), 200)["claims"]
    assert [each["name"] for each in found] == ["named", "pvc-m1-0"]
    control.train("t2", storage={"pvc": [{"claimName": "pvc-m1-0", "path": "/d"}]})


def test_work_that_mounts_claims_does_not_move_away_from_them(control: ControlPlane) -> None:
    made = control.train("t1", storage={"pvc": [{**NEW_CLAIM, "claimName": "data"}]})
    answer = control.call("DELETE", "/api/v1/org-unit/projects/team-a?workloads=move&to=team-b")
    assert (answer.status_code, codes(answer)) == (409, ["project.has_claims"])
    assert "t1 mounts volume claims of project team-a: data" in answer.text
    now = expect(control.call("GET", f"/api/v1/workloads/{made['id']}"), 200)
    assert now["projectId"] == "team-a"


def test_workloads_with_the_same_port_have_an_address_each_while_they_run() -> None:
    with control_plane(gateway=GatewayAddress("http", "localhost", 8088)) as control:
        control.project("team-a")
        ports = [{"container": 8888, "serviceType": "Ingress"}]
        first, second = (control.train(name, ports=ports)["id"] for name in ("first", "second"))

        def shown(workload: str) -> list[str]:
            found: list[str] = expect(control.call("GET", f"/api/v1/workloads/{workload}"), 200)["urls"]
            return found

        assert shown(first) == []
        control.push(control.report(whole=True, workloads=(control.runs(first), control.runs(second))))
        assert shown(first) == ["http://localhost:8088/first-8888"]
        assert shown(second) == ["http://localhost:8088/second-8888"]
        expect(control.call("POST", f"/api/v1/workloads/{first}/suspend"), 202)
        assert shown(first) == []


def test_the_phases_of_a_workload_are_those_that_lists_count() -> None:
    from fairpool.control.store import workloads as store

    assert set(store.RUNS) | set(store.WAITS) <= {phase.value for phase in WorkloadPhase}
