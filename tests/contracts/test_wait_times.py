"""How long workloads waited before they started, over a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api.clusters import WaitReport, WorkloadReport
from fairpool.control import wait_times
from fairpool.control.moments import iso
from fairpool.model.ids import WorkloadId
from fairpool.model.status import WorkloadPhase
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect

PATH = "/api/v1/workloads/wait-times"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        for project in ("team-a", "team-b"):
            control.project(project)
        control.researcher("ann", "team-a")
        yield control


def waits(control: ControlPlane, workload: str, cause: str) -> WorkloadReport:
    return WorkloadReport(
        id=WorkloadId(workload),
        phase=WorkloadPhase.PENDING,
        since=control.clock.now,
        waiting_since=control.clock.now,
        wait=WaitReport(cause=cause, waiting=1),
    )


def starts_after(control: ControlPlane, name: str, seconds: int, *causes: str, project: str = "team-a") -> str:
    """Submit work that waits so long, for one cause after the other, and starts."""
    workload: str = control.train(name, project)["id"]
    began = control.clock.now
    for cause in causes:
        report = waits(control, workload, cause).model_copy(update={"since": began, "waiting_since": began})
        control.push(control.report(workloads=(report,)))
    control.clock.turn(seconds)
    control.push(control.report(workloads=(control.runs(workload),)))
    control.clock.turn(1)
    control.push(control.report(workloads=(control.runs(workload, node="n2"),)))
    return workload


def asked(control: ControlPlane, by: str = "admin", **more: Any) -> Any:
    period = {"start": iso(START), "end": iso(START + 7_200_000), "numberOfSamples": 2}
    return expect(control.call("GET", PATH, by=by, params={**period, **more}), 200)


def shape(series: Any) -> list[tuple[int, float | None, float | None]]:
    return [(each["waits"], each.get("medianSeconds"), each.get("p95Seconds")) for each in series["parts"]]


def test_waits_count_where_they_end_by_the_cause_that_was_last(control: ControlPlane) -> None:
    for number in range(1, 5):
        starts_after(control, f"t{number}", 10 * number, "no_room", "not_its_turn")
    starts_after(control, "at-once", 0)
    control.clock.turn(3600)
    starts_after(control, "later", 100, "no_room", project="team-b")
    found = asked(control)
    assert (found["seconds"], found["isComplete"]) == (3600.0, True)
    assert [each["start"] for each in found["all"]["parts"]] == [iso(START), iso(START + 3_600_000)]
    assert shape(found["all"]) == [(5, 20.0, 40.0), (1, 100.0, 100.0)]
    assert {each["key"]: shape(each) for each in found["series"]} == {
        "": [(1, 0.0, 0.0), (0, None, None)],
        "no_room": [(0, None, None), (1, 100.0, 100.0)],
        "not_its_turn": [(4, 20.0, 40.0), (0, None, None)],
    }, "a part without waits has no median, rather than one of 0"
    of_projects = asked(control, groupBy="project")["series"]
    assert [(each["key"], each["waits"]) for each in of_projects] == [("team-a", 5), ("team-b", 1)]
    assert asked(control, filterBy="projectId==team-b")["all"]["waits"] == 1
    assert asked(control, filterBy="cause==not_its_turn")["all"]["medianSeconds"] == 20.0


def test_a_wait_after_a_preemption_counts_from_the_preemption(control: ControlPlane) -> None:
    workload = starts_after(control, "t1", 10, "no_room")
    control.clock.turn(600)
    control.push(control.report(workloads=(waits(control, workload, "over_fair_share"),)))
    control.clock.turn(30)
    control.push(control.report(workloads=(control.runs(workload),)))
    of_causes = {each["key"]: each["medianSeconds"] for each in asked(control)["series"]}
    assert of_causes == {"no_room": 10.0, "over_fair_share": 30.0}


def test_only_what_the_caller_may_see_is_counted(control: ControlPlane) -> None:
    starts_after(control, "mine", 10, "no_room")
    starts_after(control, "theirs", 20, "no_room", project="team-b")
    assert asked(control, by="ann")["all"]["waits"] == 1
    assert [each["key"] for each in asked(control, by="ann", groupBy="project")["series"]] == ["team-a"]
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-b?workloads=delete"), 202)
    assert asked(control, by="ann", filterBy="projectId==team-b")["all"]["waits"] == 0


def test_the_cost_of_an_answer_is_bounded(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_times, "WAITS_MAX", 2)
    for number in range(3):
        starts_after(control, f"t{number}", 10, "no_room")
    found = asked(control)
    assert (found["isComplete"], found["all"]["waits"]) == (False, 2)
    wrong = control.call("GET", PATH, params={"start": "x", "end": iso(START)})
    assert wrong.status_code == 400
    assert control.call("GET", f"{PATH}?start={iso(START)}&end={iso(START + 1000)}&groupBy=colour").status_code == 422


def test_many_series_have_few_samples_each(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand users times a thousand samples would be a hundred megabytes, and delay other requests by seconds."""
    monkeypatch.setattr(wait_times, "PARTS_MAX", 8)
    for project in ("team-a", "team-b"):
        starts_after(control, f"of-{project}", 10, "no_room", project=project)
    query = {"start": iso(START), "end": iso(START + 3_600_000), "groupBy": "project"}
    expect(control.call("GET", PATH, params={**query, "numberOfSamples": 4}), 200)
    refusal = control.call("GET", PATH, params={**query, "numberOfSamples": 5})
    assert (refusal.status_code, codes(refusal)) == (400, ["metrics.too_many_values"])
    assert "at most 4 samples" in refusal.text
