"""Answers about waiting work, shares, devices and decisions: figures agree, and hidden projects stay hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api.devices import DevicePage
from fairpool.cluster.known_ends import KnownEnds
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.cluster.loop import Loop
from fairpool.cluster.questions import Questions
from fairpool.control.change_feed import FeedEntry, entries_after
from fairpool.control.change_stream import View, _visible
from fairpool.control.moments import instant, iso
from fairpool.control.plane import Places
from fairpool.control.store.database import Connection
from fairpool.control.store.organization import homes
from fairpool.model.ids import PodId
from fairpool.model.organization import ProjectRules
from tests.control.cluster import Cluster, machine
from tests.control.control_plane import ControlPlane, control_plane, expect

HOUR_S = 3600


class AnsweringCluster(Cluster):
    """A cluster that answers questions."""

    a1: dict[str, Any]
    a2: dict[str, Any]
    b1: dict[str, Any]
    b2: dict[str, Any]
    lent: dict[str, Any]

    def __init__(self, control: ControlPlane) -> None:
        self.live = LiveSnapshots()
        self.progress: dict[PodId, dict[str, Any]] = {}
        super().__init__(control, [machine("n1", 8)])
        plane = control.app.state.plane
        ends = KnownEnds(
            lambda workload: self.loop.cache.specs.get(workload),
            lambda workload: self.loop.cache.states.get(workload),
            lambda project: self.loop.cache.organization.rules.get(project, ProjectRules()),
            lambda pod: self.progress.get(pod, {}),
        )
        plane.pod_access.local_cluster = control.cluster
        plane.pod_access.local_answers = Questions(
            self.live, lambda workload: self.loop.cache.specs.get(workload), self.clock.now, ends=ends
        )

    def restart(self) -> Loop:
        loop = super().restart()
        loop._on_snapshot, loop._on_plan = self.live.note, self.live.note_plan
        return loop

    def get(self, path: str, by: str = "admin", **query: Any) -> Any:
        return expect(self.control.call("GET", path, by=by, params=query), 200)


@pytest.fixture(scope="module")
def cluster() -> Iterator[AnsweringCluster]:
    """team-a has borrowed 3 of team-b's GPUs; team-b takes them back for a job, and waits with another."""
    with control_plane() as control:
        control.project("team-a", 4)
        control.project("team-b", 4)
        control.researcher("ann", "team-a")
        control.researcher("bob", "team-b")
        cluster = AnsweringCluster(control)
        cluster.a1 = control.train("a1", "team-a", compute={"gpu": "4"})
        cluster.run(5)
        cluster.a2 = control.train("a2", "team-a", compute={"gpu": "3"})
        cluster.run(5)
        cluster.lent = {by: cluster.get("/api/v1/shares", by=by, filterBy="kind==project") for by in ("admin", "ann")}
        cluster.b1 = control.train("b1", "team-b", compute={"gpu": "4"}, deadlineSeconds=HOUR_S)
        cluster.run(90)
        cluster.b2 = control.train("b2", "team-b", compute={"gpu": "2"})
        cluster.run(5)
        yield cluster


def test_waiting_work_is_listed_with_its_cause(cluster: AnsweringCluster) -> None:
    found = cluster.get("/api/v1/workloads/waiting")
    assert {each["name"] for each in found["workloads"]} == {"a2", "b2"}
    assert (found["count"], found["requestedGpus"]) == (2, 5.0)
    assert found["asOf"]
    b2 = next(each for each in found["workloads"] if each["name"] == "b2")
    assert b2["cause"]["cause"] == "not_its_turn"
    assert b2["cause"]["failedChecks"] == ["room", "reclaim"]
    assert b2["cause"]["details"]["askedMilli"] == 2000
    listed = cluster.get(f"/api/v1/workloads/{cluster.b2['id']}")
    assert listed["wait"] == b2["cause"], "the list of workloads and the stream say the same"
    one = cluster.get("/api/v1/workloads/waiting", filterBy="projectId==team-b", limit=1)
    assert [each["name"] for each in one["workloads"]] == ["b2"]
    assert "next" not in one
    first = cluster.get("/api/v1/workloads/waiting", limit=1)
    assert (first["count"], first["next"]) == (2, 1)


def test_a_researcher_sees_only_own_waiting_work_and_no_hidden_name(cluster: AnsweringCluster) -> None:
    found = cluster.get("/api/v1/workloads/waiting", by="bob")
    assert [each["name"] for each in found["workloads"]] == ["b2"]
    assert (found["count"], found["requestedGpus"]) == (1, 2.0)
    assert "team-a" not in json.dumps(found)
    assert "another project" in json.dumps(found)
    ahead = found["workloads"][0]["cause"]["details"]["ahead"]
    assert set(ahead) == {"queue", "quotaMilli", "heldMilli"}, "no more than the sentence says"
    hidden = cluster.control.call("GET", f"/api/v1/workloads/{cluster.a2['id']}/wait", by="bob")
    assert hidden.status_code == 404


def test_why_it_waits_what_would_change_it_and_when_it_starts(cluster: AnsweringCluster) -> None:
    found = cluster.get(f"/api/v1/workloads/{cluster.b2['id']}/wait", by="bob")
    assert found["waits"]
    assert found["takenAt"]
    assert found["nodePool"] == "default"
    assert [each["check"] for each in found["checks"] if each["state"] == "failed"] == ["room", "reclaim"]
    assert found["share"] == {"quota": 4.0, "fairShare": 4.0, "allocated": 4.0}
    changes = {each["kind"]: each for each in found["changes"]}
    assert changes["stop-own"]["subject"] == "b1"
    assert changes["stop-own"]["effect"] == "starts"
    assert changes["raise-quota"]["by"] == "administrator"
    assert "team-a" not in json.dumps(found)
    expected = found["expectedStart"]
    assert expected["basis"] == ["time-limit"]
    assert expected["latestAt"] == expected["expectedAt"]
    assert "earliestAt" not in expected, "b1 may end at any moment"
    assert "changes" in found
    assert cluster.get(f"/api/v1/workloads/{cluster.b2['id']}/wait", changes="false")["changes"] == []
    running = cluster.get(f"/api/v1/workloads/{cluster.b1['id']}/wait")
    assert not running["waits"]


def test_shares_add_up_and_lending_has_both_sides(cluster: AnsweringCluster) -> None:
    found = cluster.get("/api/v1/shares", filterBy="kind==project")
    shares = {each["name"]: each for each in found["shares"]}
    a, b = shares["team-a"], shares["team-b"]
    assert found["asOf"]
    assert (a["quota"], a["allocated"], a["inQuota"], a["overQuota"]) == (4.0, 4.0, 4.0, 0.0)
    assert (a["waiting"], a["asked"]) == (3.0, 7.0)
    assert (b["waiting"], b["fairShare"]) == (2.0, 4.0)
    (pool,) = found["pools"]
    assert pool["allocated"] == sum(each["allocated"] for each in found["shares"])
    assert pool["capacity"] == pool["allocated"] + pool["free"] == 8.0
    departments = cluster.get("/api/v1/shares", filterBy="kind==department")["shares"]
    assert [each["allocated"] for each in departments] == [8.0]
    paged = cluster.get("/api/v1/shares", limit=1)
    assert (paged["count"], paged["next"], len(paged["shares"])) == (3, 1, 1)


def test_lending_names_lender_and_borrower_to_those_who_may_see_both(cluster: AnsweringCluster) -> None:
    """While team-a held 7 of its 4 GPUs, before team-b took them back."""
    a, b = cluster.lent["admin"]["shares"]
    assert (a["overQuota"], a["borrowed"], a["fromUnassigned"]) == (3.0, 3.0, 0.0)
    assert a["borrowedFrom"] == [{"name": "team-b", "gpus": 3.0}]
    assert (b["lent"], b["lentTo"]) == (3.0, [{"name": "team-a", "gpus": 3.0}])
    (mine,) = cluster.lent["ann"]["shares"]
    assert mine["borrowedFrom"] == [{"gpus": 3.0}], "the amount is its own figure, the lender is not named"
    assert "team-b" not in json.dumps(cluster.lent["ann"])


def test_shares_of_hidden_projects_are_not_shown(cluster: AnsweringCluster) -> None:
    found = cluster.get("/api/v1/shares", by="bob", filterBy="kind==project")
    assert [each["name"] for each in found["shares"]] == ["team-b"]
    assert "team-a" not in json.dumps(found)


def test_every_device_has_its_holders(cluster: AnsweringCluster) -> None:
    answer = cluster.control.call("GET", "/api/v1/devices", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    found = DevicePage.model_validate(expect(answer, 200))
    (node,) = found.nodes
    assert (found.count, found.devices, node.gpus, node.status) == (1, 8, 8, "Ready")
    assert sorted(device for _, _, devices in node.holders for device in devices) == list(range(8))
    assert sum(milli * len(devices) for _, milli, devices in node.holders) == 8000
    names = {found.workloads.names[number] for number, _, _ in node.holders}
    assert names == {"a1", "b1"}
    plain = cluster.control.call("GET", "/api/v1/devices", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json()["nodes"] == answer.json()["nodes"]
    assert cluster.get("/api/v1/devices", filterBy="nodePool==other")["nodes"] == []


def test_devices_held_by_hidden_projects_are_shown_without_their_holder(cluster: AnsweringCluster) -> None:
    body = cluster.get("/api/v1/devices", by="bob")
    found = DevicePage.model_validate(body)
    holders = {number: devices for number, _, devices in found.nodes[0].holders}
    assert len(holders[-1]) == 4
    assert found.workloads.names == ["b1"]
    assert "team-a" not in json.dumps(body)


def kinds(found: Any) -> list[tuple[str, str]]:
    return [(each["workloadName"], each["kind"]) for each in reversed(found["decisions"])]


def test_decisions_are_told_with_reasons_and_figures(cluster: AnsweringCluster) -> None:
    found = cluster.get("/api/v1/decisions")
    in_order = kinds(found)
    assert in_order[:2] == [("a1", "started"), ("a2", "lent")]
    assert sorted(in_order[2:4]) == [("a2", "taken-back"), ("b1", "promised")]
    assert in_order[4:] == [("b1", "started")]
    by_kind = {(each["workloadName"], each["kind"]): each for each in found["decisions"]}
    lent = by_kind["a2", "lent"]
    assert (lent["gpus"], lent["lentGpus"]) == (3.0, 3.0)
    assert lent["message"] == "starts on n1 with 3 GPUs, 3 of them lent: team-a holds 7 (quota 4)"
    taken = by_kind["a2", "taken-back"]
    assert (taken["winner"], taken["wantedGpus"]) == ("b1", 4.0)
    own = {"name": "team-a", "isDepartment": False, "isHidden": False}
    assert taken["taken"] == {**own, "quota": 4.0, "fairShare": 4.0, "allocated": 7.0}
    assert (taken["gaining"]["quota"], taken["gaining"]["allocated"]) == (4.0, 0.0)
    assert taken["gaining"]["name"] == "team-b"
    assert "team-a is 3 GPUs over its quota of 4" in taken["message"]


def test_decisions_are_filtered_paged_and_hidden(cluster: AnsweringCluster) -> None:
    assert kinds(cluster.get("/api/v1/decisions", filterBy="kind==taken-back")) == [("a2", "taken-back")]
    page = cluster.get("/api/v1/decisions", limit=2, sortOrder="asc")
    assert ([each["workloadName"] for each in page["decisions"]], page["next"]) == (["a1", "a2"], 2)
    bobs = cluster.get("/api/v1/decisions", by="bob")
    assert kinds(bobs) == [("b1", "promised"), ("b1", "started")]
    anns = cluster.get("/api/v1/decisions", by="ann")
    assert kinds(anns) == [("a1", "started"), ("a2", "lent"), ("a2", "taken-back")]
    assert "team-b" not in json.dumps(anns)
    lost = anns["decisions"][0]
    assert lost["gaining"] == {"name": "another project", "isDepartment": False, "isHidden": True}
    assert lost["taken"]["allocated"] == 7.0, "of her own project"
    assert "b1" not in json.dumps([each.get("winner") for each in anns["decisions"]])
    assert "work of another project" in json.dumps(anns)
    refused = cluster.control.call("GET", "/api/v1/decisions?filterBy=colour==red")
    assert refused.status_code == 400


def test_decisions_are_counted_over_a_time(cluster: AnsweringCluster) -> None:
    listed = cluster.get("/api/v1/decisions", limit=500)["decisions"]
    moments = sorted(each["at"] for each in listed)
    first, last = instant(moments[0]) or 0, instant(moments[-1]) or 0
    period: dict[str, Any] = {"start": iso(first // 1000 * 1000), "end": iso(last + 1000), "numberOfSamples": 7}
    found = cluster.get("/api/v1/decisions/counts", **period)
    assert len(found["parts"]) == 7
    for kind in {each["kind"] for each in listed}:
        number = sum(each["counts"].get(kind, 0) for each in found["parts"])
        assert number == sum(each["kind"] == kind for each in listed), kind
    mine = cluster.get("/api/v1/decisions/counts", by="bob", **period)
    seen = cluster.get("/api/v1/decisions", by="bob", limit=500)["decisions"]
    assert sum(sum(each["counts"].values()) for each in mine["parts"]) == len(seen) < len(listed)
    taken = cluster.get("/api/v1/decisions/counts", filterBy="kind==taken-back", **period)
    assert {kind for each in taken["parts"] for kind in each["counts"]} == {"taken-back"}
    wrong = cluster.control.call("GET", "/api/v1/decisions/counts", params={"start": "x", "end": "y"})
    assert wrong.status_code == 400


NOTHING_ELSE: frozenset[str] = frozenset()
"""A view of work alone, without users, roles and the like."""


def test_decisions_and_shares_are_in_the_stream_of_changes(cluster: AnsweringCluster) -> None:
    plane, portal = cluster.control.app.state.plane, cluster.control.http.portal
    assert portal is not None

    def unit(connection: Connection) -> list[FeedEntry]:
        return entries_after(connection, plane.rendered, homes(connection), 0, 10_000)

    entries = portal.call(plane.read, unit)
    decided = [each for each in entries if each.change.noun == "decision"]
    assert {each.change.verb for each in decided} == {"started", "lent", "taken-back", "promised"}
    line = next(each for each in decided if each.change.verb == "lent").line
    assert b'"workloadName":"a2"' in line
    assert any(each.change.noun == "shares" for each in entries)
    bobs = [_visible(View(Places(("team-b",), ()), NOTHING_ELSE), each) for each in decided]
    assert {b"a1" in each or b"a2" in each for each in bobs if b'"projectId":"team-a"' in each} == set()
    assert sum(bool(each) for each in bobs) == 2
    taken = next(each for each in decided if each.change.verb == "taken-back")
    assert b'"isHidden":true' in _visible(View(Places(("team-a",), ()), NOTHING_ELSE), taken)
    assert b'"isHidden":true' not in _visible(View(None, NOTHING_ELSE), taken)


def test_an_estimate_is_kept_and_its_error_told(cluster: AnsweringCluster) -> None:
    """b1 is stopped by its time limit: b2 starts when the first estimate said."""
    before = cluster.get("/api/v1/workloads/start-estimates", by="bob")
    assert (before["open"], before["total"]["estimates"], before["message"]) == (1, 0, "no estimates yet")
    assert cluster.get("/api/v1/workloads/start-estimates", by="ann")["open"] == 0, "of others' work nothing is counted"
    left_s = HOUR_S
    cluster.clock.advance(left_s)
    cluster.control.clock.turn(left_s)
    cluster.run(60)
    assert cluster.phase(cluster.b2) == "Running"
    after = cluster.get("/api/v1/workloads/start-estimates", by="bob")
    assert (after["open"], after["message"]) == (0, "within 5 min in 1 of 1")
    assert after["byBasis"][0]["basis"] == "time-limit"
    assert after["total"]["within5Min"] == 1
    assert abs(after["total"]["medianErrorS"]) < 300
