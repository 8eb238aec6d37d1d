"""Accounting on a real control plane: usage agrees with a count of every second, and users see their own projects."""

from __future__ import annotations

import csv
import io
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from fairpool.api.clusters import EventReport, UsageReport
from fairpool.api.samples import DeviceUseWire, NodeSampleWire, PodSampleWire, SamplesReport
from fairpool.cluster.ledger import Ledger
from fairpool.control.accounting import WITHOUT_SAMPLES_MS, sum_next_hour
from fairpool.control.sample_intake import sampled
from fairpool.control.store import usage as store
from fairpool.control.store.unavailable import FAILING, Unavailable
from fairpool.control.usage_intake import take_usage
from fairpool.control.usage_periods import delete_old_spans, next_hour, set_summed
from fairpool.control.usage_sums import HOUR_MS, GpuTime, WorkloadHour
from fairpool.model.ids import SECOND_MS, NodeName, PodId, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, PRODUCT_LABEL
from tests.control.cluster import Cluster, machine
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect

USAGE = "/api/v1/accounting/usage"
PRICES = "/api/v1/accounting/prices"
REPORTS = "/api/v1/org-unit/reports"
HOUR_S = 3600
PATIENCE_S = 60.0


class Counted(Cluster):
    """A cluster that is watched: what each workload held in each second."""

    def __init__(self, control: ControlPlane) -> None:
        labels = {PRODUCT_LABEL: "A100"}
        super().__init__(control, [replace(machine(name), labels=labels) for name in ("n1", "n2")])
        self.gpu_seconds: dict[str, float] = defaultdict(float)
        self.over_quota_s = 0.0
        self.quota: dict[str, int] = {}

    def run(self, seconds: int = 90) -> None:
        for _ in range(seconds):
            self.rest()
            held = self.held()
            for (project, workload), gpus in held.items():
                self.gpu_seconds[f"{project}/{workload}"] += gpus
            for project, quota in self.quota.items():
                mine = sum(gpus for (owner, _), gpus in held.items() if owner == project)
                self.over_quota_s += max(0, mine - quota)
            self.clock.advance(1)
            self.control.clock.turn(1)
        self.rest()

    def rest(self) -> None:
        for _ in range(50):
            if not self.loop.run_cycle():
                return
        raise AssertionError("the loop does not come to rest")

    def held(self) -> dict[tuple[str, str], float]:
        """What the ledger says is held now, by project and workload."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        for workload, pods in self.loop.cache.pods.items():
            spec = self.loop.cache.specs.get(workload)
            for pod in pods:
                if pod.is_placed and spec is not None:
                    found[(spec.project, spec.name)] += pod.shape.gpu.devices * pod.shape.gpu.portion_milli / 1000
        return found

    @property
    def expected(self) -> dict[str, float]:
        return {name: seconds for name, seconds in self.gpu_seconds.items() if seconds}


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane(access_token_s=10 * 86_400) as control:
        control.project("team-a", gpus=4)
        control.project("team-b", gpus=12)
        yield control


def usage(control: ControlPlane, *, by: str = "admin", **query: Any) -> Any:
    words = {{"group_by": "groupBy", "filter_by": "filterBy"}.get(name, name): value for name, value in query.items()}
    return expect(control.call("GET", USAGE, params={"start": "2027-01-01T00:00:00Z", **words}, by=by), 200)


def by_workload(control: ControlPlane) -> dict[str, float]:
    rows = usage(control, group_by="project,workload")["rows"]
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        found[f"{row['project']}/{row['workload']}"] += row["gpuHoursAllocated"] * HOUR_S
    return {name: round(seconds) for name, seconds in found.items() if seconds}


def allocated_s(answer: Any) -> float:
    return round(float(answer["total"]["gpuHoursAllocated"]) * HOUR_S, 1)


def train(control: ControlPlane, name: str, project: str, gpus: int, **spec: Any) -> Any:
    return control.train(name, project, compute={"gpuDevicesRequest": gpus}, **spec)


def test_preemptions_suspensions_and_restarts_add_up_to_the_second(control: ControlPlane) -> None:
    cluster = Counted(control)
    cluster.quota = {"team-a": 4, "team-b": 12}
    borrows = [train(control, f"a{number}", "team-a", 4) for number in range(3)]
    cluster.run(100)
    train(control, "b1", "team-b", 8)
    cluster.run(100)  # one of team-a's is taken back
    cluster.restart()
    cluster.run(20)
    expect(control.call("POST", f"/api/v1/workloads/trainings/{borrows[0]['id']}/suspend"), 202)
    cluster.run(100)
    expect(control.call("DELETE", f"/api/v1/workloads/{borrows[1]['id']}"), 202)
    cluster.run(50)
    assert by_workload(control) == cluster.expected
    total = usage(control)["total"]
    assert round(total["gpuHoursOverQuota"] * HOUR_S) == cluster.over_quota_s > 0
    assert 0 < total["gpuHoursLost"] < total["gpuHoursAllocated"] < total["gpuHoursRequested"]
    assert "gpuHoursUsed" not in total, "what was not measured is neither used nor idle"
    assert round(total["cpuCoreHours"] + total["memoryGibHours"], 3) > 0
    rows = usage(control, group_by="gpuType,nodePool")["rows"]
    assert {(row["nodePool"], row.get("gpuType")) for row in rows if row["gpuHoursAllocated"]} == {("default", "A100")}


def test_a_ledger_that_is_lost_and_a_project_that_is_deleted_lose_nothing(control: ControlPlane) -> None:
    cluster = Counted(control)
    stays, goes = train(control, "a1", "team-a", 4), train(control, "b1", "team-b", 8)
    cluster.run(60)
    cluster.ledger = Ledger(None)
    cluster.restart()
    cluster.run(60)  # their pods are adopted
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-b", params={"workloads": "delete"}), 202)
    cluster.run(60)
    assert control.call("GET", "/api/v1/org-unit/projects/team-b").status_code == 404
    assert by_workload(control) == cluster.expected
    assert cluster.shown(stays)["phase"] == "Running"
    control.project("team-b", gpus=12)
    control.researcher("ben", "team-b")
    assert usage(control, by="ben")["rows"] == [], "the usage of an earlier project of this name"
    assert goes["name"] in {row["workload"] for row in usage(control, group_by="workload")["rows"]}


def test_pods_that_ended_unseen_end_with_the_next_report_of_everything(control: ControlPlane) -> None:
    cluster = Counted(control)
    train(control, "a1", "team-a", 4)
    cluster.run(60)
    installed_again = Counted(control)  # the ledger was lost with the machines
    installed_again.clock.advance(60)
    installed_again.run(30)
    reported_within_s = 2
    assert 4 * (60 + 30) <= allocated_s(usage(control)) <= 4 * (60 + 30 + reported_within_s)
    rows = usage(control, group_by="workload,node", end="2027-01-15T08:01:00Z")["rows"]
    assert [round(row["gpuHoursAllocated"] * HOUR_S) for row in rows] == [4 * 60]


def test_no_cluster_charges_the_projects_of_another(control: ControlPlane) -> None:
    usage_said = UsageReport(
        project=QueueId("team-a"), pool=DEFAULT_POOL, gpus_milli=1000, created_at=START, bound_at=START
    )
    forged = [
        EventReport(number=1, at=START, kind="bound", workload=WorkloadId("w"), pod=PodId("w-0-0"), usage=usage_said)
    ]
    assert control.http.portal is not None
    control.http.portal.call(control.app.state.plane.write, partial(take_usage, cluster="elsewhere", lines=forged))
    control.clock.turn(60)
    rows = usage(control, group_by="project")["rows"]
    assert [(row.get("project"), row["gpuHoursAllocated"] > 0) for row in rows] == [("", True)]


def test_a_control_plane_that_is_put_back_is_told_again_what_it_lost(control: ControlPlane) -> None:
    cluster = Counted(control)
    train(control, "a1", "team-a", 4)
    cluster.run(60)
    plane = control.app.state.plane

    def put_back(connection: Any) -> None:
        for table in ("usage_spans", "events"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
        connection.exec_driver_sql("UPDATE clusters SET events_through = 0, report_number = 0, needs_resync = true")

    assert control.http.portal is not None
    control.http.portal.call(plane.write, put_back)
    train(control, "b1", "team-b", 8)
    cluster.run(60)
    assert by_workload(control) == cluster.expected
    cluster.restart()
    cluster.run(10)
    assert by_workload(control) == cluster.expected


def test_what_is_moved_to_another_department_is_charged_there_from_then_on(control: ControlPlane) -> None:
    expect(control.call("POST", "/api/v1/org-unit/departments", {"name": "sales"}), 201)
    cluster = Counted(control)
    train(control, "a1", "team-a", 4)
    cluster.run(50)
    expect(control.call("PATCH", "/api/v1/org-unit/projects/team-a", {"parentId": "sales"}), 200)
    cluster.run(30)
    rows = usage(control, group_by="department")["rows"]
    assert {row["department"]: round(row["gpuHoursAllocated"] * HOUR_S) for row in rows} == {
        "default": 200,
        "sales": 120,
    }
    expect(
        control.call("DELETE", "/api/v1/org-unit/projects/team-a", params={"workloads": "move", "to": "team-b"}), 202
    )
    cluster.run(10)
    rows = usage(control, group_by="project")["rows"]
    assert {row["project"]: round(row["gpuHoursAllocated"] * HOUR_S) for row in rows} == {"team-a": 320, "team-b": 40}


class Measured:
    """Half of each GPU was busy in the first hour; nothing is known of the second."""

    def gpu_times(self, group: str, workloads: Collection[str], start: int, end: int) -> Mapping[WorkloadHour, GpuTime]:
        return self.known

    def __init__(self, workload: str) -> None:
        self.known = {(workload, START // HOUR_MS): GpuTime(4000 * HOUR_MS, 2000 * HOUR_MS)}


class Away:
    """Samples that cannot be read."""

    def gpu_times(self, group: str, workloads: Collection[str], start: int, end: int) -> Mapping[WorkloadHour, GpuTime]:
        raise Unavailable(FAILING, "the disk is gone")


def test_sums_of_hours_and_of_their_parts_agree_also_after_a_late_report(control: ControlPlane) -> None:
    cluster = Counted(control)
    plane = control.app.state.plane
    first = train(control, "a1", "team-a", 4)
    plane.gpu_uses = Measured(first["id"])
    cluster.run(30)
    for _ in range(30):  # hours in which nothing happens
        cluster.clock.advance(HOUR_S)
        control.clock.turn(HOUR_S)
        cluster.run(1)
    before = usage(control, interval="hour", group_by="user,type")
    assert control.http.portal is not None
    while control.http.portal.call(sum_next_hour, plane):
        pass
    after = usage(control, interval="hour", group_by="user,type")
    assert after["rows"] == before["rows"]
    assert len(after["rows"]) >= 30
    assert after["total"]["gpuHoursUsed"] == after["total"]["gpuHoursIdle"] > 0
    edges = ["2027-01-01T00:00:00Z", "2027-01-15T08:10:00Z", "2027-01-15T09:40:30Z", "2027-01-15T12:00:00.5Z"]
    edges += ["2027-01-16T03:00:00Z", "2027-01-18T00:00:00Z"]
    parts = [allocated_s(usage(control, start=a, end=b)) for a, b in pairwise(edges)]
    assert sum(parts) == pytest.approx(allocated_s(after), abs=0.2)
    # The cluster was away: what it reports now happened hours ago, in hours that are summed.
    control.clock.turn(5 * HOUR_S)
    while control.http.portal.call(sum_next_hour, plane):
        pass
    expect(control.call("DELETE", f"/api/v1/workloads/{first['id']}"), 202)
    cluster.run(5)
    plane.gpu_uses = Away()
    assert by_workload(control)["team-a/a1"] == round(allocated_s(usage(control)))
    with pytest.raises(Unavailable):
        control.http.portal.call(sum_next_hour, plane)
    control.clock.turn(WITHOUT_SAMPLES_MS // SECOND_MS)  # hours wait for samples, but not for ever
    while control.http.portal.call(sum_next_hour, plane):
        pass
    assert by_workload(control)["team-a/a1"] == round(allocated_s(usage(control)))


def sample(control: ControlPlane, workload: str, utilization: float) -> None:
    """What one pod with four GPUs did in the last 10 s, two of which are not measured."""
    uses = tuple(DeviceUseWire(index=index, utilization=utilization if index < 2 else None) for index in range(4))
    pod = PodSampleWire(pod=PodId(f"{workload}-0-0"), devices=uses)
    node = NodeSampleWire(node=NodeName("n1"), pods=(pod,))
    report = SamplesReport(at=control.clock.now, nodes=(node,))
    assert control.http.portal is not None
    assert control.http.portal.call(sampled, control.app.state.plane, control.cluster, report).is_kept


def test_gpu_hours_are_used_or_idle_as_samples_say_and_otherwise_neither(control: ControlPlane) -> None:
    """Five minutes: half busy, idle and without samples, for 100 s each."""
    cluster, plane = Counted(control), control.app.state.plane
    measured = train(control, "a1", "team-a", 4)["id"]
    train(control, "b1", "team-b", 8)
    for utilization in (50.0, 0.0, None):
        for _ in range(10):
            cluster.run(10)
            if utilization is not None:
                sample(control, measured, utilization)
    end = time.monotonic() + PATIENCE_S
    while plane.samples.written < 20 and time.monotonic() < end:
        time.sleep(0.01)
    control.clock.turn(4 * HOUR_S)

    def gpu_seconds(until: str) -> list[tuple[int, ...]]:
        rows = usage(control, start="2027-01-15T08:00:00Z", end=until)["rows"]
        names = ("gpuHoursAllocated", "gpuHoursUsed", "gpuHoursIdle")
        return [tuple(round(row[name] * HOUR_S) for name in names if name in row) for row in rows]

    for _ in range(2):  # from samples, and from what was summed
        assert gpu_seconds("2027-01-15T09:00:00Z") == [(4 * HOUR_S, 100, 300), (8 * HOUR_S,)]
        assert gpu_seconds("2027-01-15T08:30:00Z") == [(2 * HOUR_S, 50, 150), (4 * HOUR_S,)], "evenly within an hour"
        assert control.http.portal is not None
        while control.http.portal.call(sum_next_hour, plane):
            pass
    page = control.call("GET", USAGE, params={"start": "2027-01-15T08:00:00Z", "format": "html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "team-a" in page.text


def test_sums_that_were_computed_before_a_change_are_not_stored_and_old_pods_leave_only_sums(
    control: ControlPlane,
) -> None:
    cluster = Counted(control)
    plane = control.app.state.plane
    train(control, "a1", "team-a", 4)
    cluster.run(20)
    cluster.clock.advance(4 * HOUR_S)
    control.clock.turn(4 * HOUR_S)
    portal = control.http.portal
    assert portal is not None
    portal.call(sum_next_hour, plane)  # which begins
    summed = portal.call(plane.read_apart, lambda connection: next_hour(connection, plane.now()))
    portal.call(plane.write, lambda connection: store.unsettle(connection, START + 5000))
    portal.call(plane.write, lambda connection: set_summed(connection, summed.summed(None)))
    assert portal.call(plane.read, store.progress).summed_until == START // HOUR_MS * HOUR_MS
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-a", params={"workloads": "delete"}), 202)
    cluster.run(5)
    control.clock.turn(3 * HOUR_S)
    while portal.call(sum_next_hour, plane):
        pass
    before = usage(control, group_by="project,user")["rows"]
    now = plane.now()
    assert portal.call(plane.write, lambda connection: delete_old_spans(connection, now, 10)) == 1
    assert usage(control, group_by="project,user")["rows"] == before
    edge = usage(control, start="2027-01-15T08:10:00Z", end="2027-01-15T09:50:00Z")
    assert (edge["start"], edge["end"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T09:00:00.000Z")
    too_old = control.call("GET", USAGE, params={"start": "2027-01-15T08:00:00Z", "groupBy": "workload"})
    assert (too_old.status_code, codes(too_old)) == (400, ["usage.too_old"])


def test_a_clock_that_was_set_months_ahead_for_a_while_hides_nothing_that_is_used_afterwards(
    control: ControlPlane,
) -> None:
    cluster = Counted(control)
    plane, portal = control.app.state.plane, control.http.portal
    assert portal is not None
    month = 30 * 24 * HOUR_MS
    ahead = store.SumProgress(START // HOUR_MS * HOUR_MS + 3 * month, START // HOUR_MS * HOUR_MS + 2 * month)
    portal.call(plane.write, lambda connection: store.set_progress(connection, ahead))
    while portal.call(sum_next_hour, plane):
        pass
    train(control, "a1", "team-a", 4)
    cluster.run(20)
    assert cluster.expected == {"team-a/a1": 4 * 20}
    assert allocated_s(usage(control)) == 4 * 20


def test_costs_are_those_of_the_time(control: ControlPlane) -> None:
    cluster = Counted(control)
    train(control, "a1", "team-a", 4)
    cluster.run(1)
    control.clock.turn(10 * HOUR_S)
    assert "cost" not in usage(control)["total"]
    for resource, gpu_type, price, start in (
        ("gpu", "", "1", "2027-01-01T00:00:00Z"),
        ("gpu", "A100", "2.50", "2027-01-15T09:00:00Z"),
        ("cpu", "", "0.5", "2027-01-15T17:00:00Z"),
    ):
        body = {"resource": resource, "gpuType": gpu_type, "price": price, "from": start}
        expect(control.call("POST", PRICES, body), 201)
    until = {"start": "2027-01-15T08:00:00Z", "end": "2027-01-15T10:00:00Z"}
    assert usage(control, **until)["total"]["cost"] == "14.00", "an hour of 4 GPUs at 1, and one at 2.50"
    listed = expect(control.call("GET", PRICES), 200)["prices"]
    assert [each["price"] for each in listed] == ["0.5", "2.5", "1"]
    expect(control.call("DELETE", f"{PRICES}/{listed[1]['id']}"), 204)
    assert usage(control, **until)["total"]["cost"] == "8.00"
    half = control.call("POST", PRICES, {"resource": "gpu", "price": "1", "from": "2027-01-15T09:30:00Z"})
    assert (half.status_code, codes(half)) == (422, ["price.not_an_hour"])
    odd = control.call("POST", PRICES, {"resource": "cpu", "gpuType": "A100", "price": "1"})
    assert (odd.status_code, codes(odd)) == (422, ["price.gpu_type"])


def test_researchers_see_their_own_projects_also_as_a_table_and_set_no_prices(control: ControlPlane) -> None:
    cluster = Counted(control)
    control.researcher("ann", "team-a")
    train(control, "a1", "team-a", 4)
    train(control, "b1", "team-b", 8)
    cluster.run(30)
    assert [row["project"] for row in usage(control)["rows"]] == ["team-a", "team-b"]
    mine = usage(control, by="ann", group_by="project,user,workload")
    assert [(row["project"], row["workload"]) for row in mine["rows"]] == [("team-a", "a1")]
    assert allocated_s(mine) == 4 * 30
    assert usage(control, by="ann", filter_by="project==team-b")["rows"] == []
    assert control.call("POST", PRICES, {"resource": "gpu", "price": "1"}, by="ann").status_code == 403
    query = {"start": "2027-01-01T00:00:00Z", "groupBy": "project", "interval": "day", "format": "csv"}
    table = control.call("GET", USAGE, params=query, by="ann")
    assert table.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(table.text))
    assert (row["project"], row["periodStart"]) == ("team-a", "2027-01-15T00:00:00.000Z")
    assert float(row["gpuHoursAllocated"]) == mine["total"]["gpuHoursAllocated"]


def test_a_question_that_makes_no_sense_is_refused(control: ControlPlane) -> None:
    many = control.call("GET", USAGE, params={"start": "5d", "interval": "hour", "groupBy": "workload"})
    assert (many.status_code, codes(many)) == (400, ["usage.parts"])
    expect(control.call("GET", USAGE, params={"start": "5d", "interval": "hour", "groupBy": "user"}), 200)
    for query, code in (
        ({"groupBy": "colour"}, "usage.group"),
        ({"start": "yesterday"}, "request.not_a_date"),
        ({"start": "2027-02-01T00:00:00Z", "end": "2027-01-01T00:00:00Z"}, "usage.period"),
        ({"start": "2020-01-01T00:00:00Z", "interval": "hour"}, "usage.parts"),
        ({"start": "10d", "interval": "hour", "filterBy": "node==n1"}, "usage.parts"),
        ({"filterBy": "colour==red"}, "filter.unknown_field"),
    ):
        answer = control.call("GET", USAGE, params=query)
        assert (answer.status_code, codes(answer)) == (400, [code])


def test_reports_are_kept_with_what_their_creator_could_see(control: ControlPlane) -> None:
    cluster = Counted(control)
    control.researcher("ann", "team-a")
    train(control, "a1", "team-a", 4)
    train(control, "b1", "team-b", 8)
    cluster.run(30)
    body = {"name": "January", "start": "2027-01-01T00:00:00Z", "end": "2027-02-01T00:00:00Z", "groupBy": "Project"}
    made = expect(control.call("POST", REPORTS, body, by="ann"), 202)
    assert (made["status"], made["createdBy"]) == ("Ready", "ann@example.com")
    file = control.call("GET", f"{REPORTS}/{made['id']}/file", by="ann")
    assert [row["project"] for row in csv.DictReader(io.StringIO(file.text))] == ["team-a"]
    of_all = expect(control.call("POST", REPORTS, {**body, "filterBy": ["projectName==team-b"]}), 202)
    assert control.call("GET", f"{REPORTS}/{of_all['id']}", by="ann").status_code == 404
    assert [each["id"] for each in expect(control.call("GET", REPORTS, by="ann"), 200)["reports"]] == [made["id"]]
    assert expect(control.call("GET", f"{REPORTS}/count"), 200)["count"] == 2
    rules = expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"]
    (rule,) = [each for each in rules if each["scopeId"] == "team-a"]
    expect(control.call("DELETE", f"/api/v1/authorization/access-rules/{rule['id']}"), 204)
    control.project("team-c")
    assert control.call("GET", f"{REPORTS}/{made['id']}/file", by="ann").status_code in (403, 404)
    expect(control.call("DELETE", f"{REPORTS}/{made['id']}"), 204)
    assert control.call("GET", f"{REPORTS}/{made['id']}").status_code == 404
