"""Pull and push over HTTP: what users see of a report, and what a cluster's token opens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from fairpool.api.clusters import PushAnswer, PushReport
from fairpool.control.lost_clusters import announce_lost
from fairpool.control.report_intake import ReportIntake
from fairpool.control.store import changes
from tests.control.control_plane import ControlPlane, codes, control_plane, event, expect, gone, node

WORKLOADS = "/api/v1/workloads"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


def test_what_a_report_says_is_what_people_see(control: ControlPlane) -> None:
    workload = control.train("t1")
    control.push(control.report(whole=True, workloads=(control.runs(workload["id"]),), nodes=(node("n1"),)))
    shown = expect(control.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)
    assert (shown["phase"], shown["actualPhase"], shown["runningPods"]) == ("Running", "Running", 1)
    assert (shown["currentNodes"], shown["allocatedResources"]["gpu"]) == (["n1"], 1.0)
    pods = expect(control.call("GET", f"{WORKLOADS}/{workload['id']}/pods"), 200)["pods"]
    assert [(each["name"], each["phase"], each["node"]) for each in pods] == [("t1-0-0", "running", "n1")]
    project = expect(control.call("GET", "/api/v1/org-unit/projects/team-a"), 200)
    assert (project["allocatedGpus"], project["workloads"]) == (1.0, 1)
    assert [each["name"] for each in expect(control.call("GET", "/api/v1/nodes"), 200)["nodes"]] == ["n1"]


def test_every_pod_stays_in_the_history(control: ControlPlane) -> None:
    workload = control.train("t1")
    control.push(control.report(whole=True, workloads=(control.failed(workload["id"]),)))
    expect(control.call("POST", f"{WORKLOADS}/{workload['id']}/resume"), 202)
    control.push(control.report(workloads=(control.runs(workload["id"], run=1),)))
    pods = expect(control.call("GET", f"{WORKLOADS}/{workload['id']}/history"), 200)["history"]
    assert [(each["incarnation"], each.get("outcome")) for each in pods] == [
        (0, "error"),
        (1, None),
    ]
    # A cluster that lost its ledger goes on from the highest incarnation, and repeats none.
    assert control.pull().workloads[0].incarnations == {0: 1}


def test_a_workload_that_is_gone_stays_gone_and_is_still_shown_on_request(control: ControlPlane) -> None:
    workload = control.train("t1")
    expect(control.call("DELETE", f"{WORKLOADS}/{workload['id']}"), 202)
    read = control.pull().revision
    control.push(control.report(whole=True, gone=(gone(workload["id"]),)))
    answer = control.pull(read)
    assert list(answer.removed) == [workload["id"]]
    control.push(control.report(workloads=(control.runs(workload["id"]),)))
    assert expect(control.call("GET", WORKLOADS), 200)["workloads"] == []
    shown = expect(control.call("GET", f"{WORKLOADS}?deleted=true"), 200)["workloads"]
    assert [(each["name"], each["phase"]) for each in shown] == [("t1", "Deleted")]


def test_one_cluster_cannot_speak_of_anothers_work(control: ControlPlane) -> None:
    workload = control.train("t1")
    other = expect(control.call("POST", "/api/v1/clusters", {"name": "other"}), 201)
    control.cluster_token = other["token"]
    assert control.pull().workloads == ()
    control.push(control.report(whole=True, workloads=(control.runs(workload["id"]),), gone=(gone(workload["id"]),)))
    assert expect(control.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)["phase"] == "Creating"


def test_people_do_not_pull_and_clusters_do_nothing_else(control: ControlPlane) -> None:
    assert control.call("POST", "/api/v1/cluster/pull", {"after": 0}).status_code == 403
    control.tokens["cluster"] = control.cluster_token
    for path in ("/api/v1/me", WORKLOADS, "/api/v1/changes"):
        assert control.call("GET", path, by="cluster").status_code == 403


def test_pages_hear_once_that_a_cluster_joins_is_lost_and_comes_back(control: ControlPlane) -> None:
    plane = control.app.state.plane
    assert control.http.portal is not None
    call = control.http.portal.call

    def said() -> list[str]:
        found = call(plane.read, lambda connection: changes.after(connection, 0))
        return [each.verb for each in found if (each.noun, each.id) == ("cluster", control.cluster)]

    def look(seconds: float) -> None:
        before = plane.now()
        control.clock.turn(seconds)
        call(announce_lost, plane, before)

    assert said() == ["created"]
    control.pull()
    control.push(control.report(whole=True))
    assert said() == ["created", "connected"]
    for seconds in (60, 1, 1, 3600):  # after a minute it counts as lost, and it is said once
        look(seconds)
    assert said() == ["created", "connected", "disconnected"]
    control.push(control.report())
    control.pull()
    look(30)
    assert said() == ["created", "connected", "disconnected", "connected"]


def test_marks_on_a_node_reach_the_cluster(control: ControlPlane) -> None:
    control.push(control.report(whole=True, nodes=(node("n1"),)))
    drain = {"taints": [{"key": "runai", "value": "drain", "effect": "NoExecute"}], "labels": {"run.ai/type": "a"}}
    shown = expect(control.call("PUT", "/api/v1/nodes/n1/overrides", drain), 200)
    assert shown["taints"][0]["key"] == "runai"
    organization = control.pull().organization
    assert organization is not None
    overrides = organization.to_organization().node_overrides["n1"]  # type: ignore[index]
    assert (str(overrides.taints[0]), overrides.labels) == ("runai=drain:NoExecute", (("run.ai/type", "a"),))
    assert control.call("PUT", "/api/v1/nodes/n2/overrides", drain).status_code == 404


def test_a_cluster_that_falls_silent_shows_as_disconnected(control: ControlPlane) -> None:
    def state() -> str:
        clusters = expect(control.call("GET", "/api/v1/clusters"), 200)
        return str(clusters[0]["status"]["state"])

    assert state() == "WaitingToConnect"
    control.pull()
    assert state() == "Connected"
    control.clock.turn(61)
    assert state() == "Disconnected"


# --- a report is taken in row by row, in slices between which users are answered ---


class Slices:
    """A report that is taken in one row at a time."""

    def __init__(self, control: ControlPlane, report: PushReport) -> None:
        self.control = control
        self.plane = control.app.state.plane
        self.intake = ReportIntake(self.plane, control.cluster, report, slice_s=0)

    def go_on(self, slices: int = 1_000_000) -> PushAnswer | None:
        portal = self.control.http.portal
        assert portal is not None
        answer = None
        while slices and answer is None:
            answer = portal.call(self.plane.write, self.intake.go_on)
            slices -= 1
        return answer


def test_what_users_do_between_two_slices_of_a_report_is_not_undone_by_it(control: ControlPlane) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(4)]
    slices = Slices(control, control.report(whole=True, workloads=tuple(map(control.runs, ids))))
    assert slices.go_on(2) is None
    expect(control.call("POST", f"{WORKLOADS}/{ids[3]}/suspend"), 202)
    expect(control.call("DELETE", f"{WORKLOADS}/{ids[2]}"), 202)
    answer = slices.go_on()
    assert answer is not None
    assert answer.taken
    shown = [expect(control.call("GET", f"{WORKLOADS}/{each}"), 200) for each in ids]
    assert [(each["phase"], each["desiredPhase"]) for each in shown] == [
        ("Running", "Running"),
        ("Running", "Running"),
        ("Deleting", "Deleted"),
        ("Running", "Stopped"),
    ]


def test_a_report_that_stops_half_way_is_taken_in_when_it_comes_again(control: ControlPlane) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(4)]
    levels = tuple(map(control.runs, ids))
    Slices(control, control.report(whole=True, workloads=levels)).go_on(3)
    answer = control.push(control.report(whole=True, workloads=levels, events=(event(1, ids[0]),)))
    assert (answer.taken, answer.number, answer.resync) == (True, 2, False)
    assert [each["phase"] for each in expect(control.call("GET", WORKLOADS), 200)["workloads"]] == ["Running"] * 4


def test_an_older_report_stops_when_a_newer_one_was_taken_in_between(control: ControlPlane) -> None:
    workload = control.train("t1")["id"]
    older = Slices(control, control.report(workloads=(control.runs(workload),), nodes=(node("n1"), node("n2"))))
    assert older.go_on(1) is None
    control.push(control.report(whole=True, workloads=(control.failed(workload),)))
    answer = older.go_on()
    assert answer is not None
    assert (answer.taken, answer.number) == (False, 2)
    assert expect(control.call("GET", "/api/v1/nodes"), 200)["nodes"] == []


def test_only_one_installation_joins_as_a_cluster(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/clusters", {"name": "east"}), 201)
    control.tokens["east"] = made["token"]

    def join(installation: str) -> Any:
        return control.call("POST", "/api/v1/cluster/join", {"installation": installation}, by="east")

    for _ in range(2):
        assert expect(join("one"), 200)["name"] == "east"
    assert codes(join("two")) == ["cluster.joined"]
    assert join("not an id").status_code == 422
    control.tokens["east"] = expect(control.call("POST", "/api/v1/clusters/east/token"), 201)["token"]
    assert expect(join("two"), 200)["uuid"] == made["uuid"]
    assert codes(join("one")) == ["cluster.joined"]
    assert control.call("POST", "/api/v1/cluster/join", {"installation": "one"}).status_code == 403, (
        "people do not join"
    )


def test_the_file_for_kubectl_needs_the_token_of_its_cluster(control: ControlPlane) -> None:
    """F-228. The token is not stored, so the caller must have it."""
    made = expect(control.call("POST", "/api/v1/clusters", {"name": "east"}), 201)
    path = "/api/v1/clusters/east/operator-file"
    body = {"token": made["token"], "controlUrl": "https://fairpool.example.com"}
    file = expect(control.call("POST", path, body), 200)
    assert file["name"] == "runai-operator-east.yaml"
    documents = list(yaml.safe_load_all(file["content"]))
    (secret,) = [each for each in documents if each["kind"] == "Secret"]
    assert secret["stringData"] == {"token": made["token"]}
    assert codes(control.call("POST", path, {"token": "fpc_another"})) == ["operator.token"]
    assert codes(control.call("POST", path, {**body, "token": control.cluster_token})) == ["operator.token"]
    assert codes(control.call("POST", path, {**body, "caCertificate": "none"})) == ["operator.certificate"]
    public = expect(control.call("POST", path, {"token": made["token"]}), 200)["content"]
    assert expect(control.call("GET", "/.well-known/openid-configuration"), 200)["issuer"] in public
