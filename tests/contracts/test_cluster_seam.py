"""Pull and push against the real control plane: what the stand-in promises, it keeps too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control.house import House, event, expect, gone, house, node

WORKLOADS = "/api/v1/workloads"


@pytest.fixture
def home() -> Iterator[House]:
    with house() as home:
        home.project("team-a")
        yield home


def test_a_cluster_that_has_read_nothing_is_told_everything(home: House) -> None:
    workload = home.train("t1")
    answer = home.pull()
    assert answer.whole
    assert [each.id for each in answer.workloads] == [workload["id"]]
    assert answer.organization is not None


def test_after_that_it_is_told_what_changed(home: House) -> None:
    home.train("t1")
    read = home.pull().revision
    assert not home.pull(read).says_something
    second = home.train("t2")
    answer = home.pull(read)
    assert (answer.whole, [each.id for each in answer.workloads], answer.organization) == (False, [second["id"]], None)
    home.project("team-b")
    assert home.pull(answer.revision).organization is not None


def test_one_that_has_read_more_than_there_is_is_told_everything(home: House) -> None:
    assert home.pull(10_000).whole


def test_changes_that_are_no_longer_listed_are_replaced_by_everything() -> None:
    with house(changes_kept=500) as home:
        home.project("team-a")
        read = home.pull().revision
        nodes = tuple(node(f"n{number}") for number in range(1100))
        home.push(home.report(whole=True, nodes=nodes))
        assert home.pull(read).whole is True


def test_what_a_report_says_is_what_people_see(home: House) -> None:
    workload = home.train("t1")
    home.push(home.report(whole=True, workloads=(home.runs(workload["id"]),), nodes=(node("n1"),)))
    shown = expect(home.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)
    assert (shown["phase"], shown["actualPhase"], shown["runningPods"]) == ("Running", "Running", 1)
    assert (shown["currentNodes"], shown["allocatedResources"]["gpu"]) == (["n1"], 1.0)
    pods = expect(home.call("GET", f"{WORKLOADS}/{workload['id']}/pods"), 200)["pods"]
    assert [(each["name"], each["phase"], each["node"]) for each in pods] == [("t1-0-0", "running", "n1")]
    project = expect(home.call("GET", "/api/v1/org-unit/projects/team-a"), 200)
    assert (project["allocatedGpus"], project["workloads"]) == (1.0, 1)
    assert [each["name"] for each in expect(home.call("GET", "/api/v1/nodes"), 200)["nodes"]] == ["n1"]


def test_every_life_stays_in_the_history(home: House) -> None:
    workload = home.train("t1")
    home.push(home.report(whole=True, workloads=(home.failed(workload["id"]),)))
    expect(home.call("POST", f"{WORKLOADS}/{workload['id']}/resume"), 202)
    home.push(home.report(workloads=(home.runs(workload["id"], run=1),)))
    lives = expect(home.call("GET", f"{WORKLOADS}/{workload['id']}/history"), 200)["history"]
    assert [(each["incarnation"], each.get("outcome")) for each in lives] == [
        (0, "error"),
        (1, None),
    ]
    # A cluster that lost its ledger goes on from the highest incarnation, and repeats none.
    assert home.pull().workloads[0].incarnations == {0: 1}


def test_a_report_about_an_earlier_run_does_not_end_the_present_one(home: House) -> None:
    workload = home.train("t1")
    home.push(home.report(whole=True, workloads=(home.failed(workload["id"]),)))
    expect(home.call("POST", f"{WORKLOADS}/{workload['id']}/resume"), 202)
    home.push(home.report(workloads=(home.failed(workload["id"], run=0),)))
    assert expect(home.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)["phase"] == "Creating"
    home.push(home.report(gone=(gone(workload["id"], run=0),)))
    assert [each.id for each in home.pull().workloads] == [workload["id"]]


def test_a_report_comes_in_once_and_a_late_one_not_at_all(home: House) -> None:
    workload = home.train("t1")
    early = home.report(whole=True, workloads=(home.runs(workload["id"]),), events=(event(1, workload["id"]),))
    late = home.report(workloads=(home.completed(workload["id"]),), events=(event(2, workload["id"], "ended"),))
    assert home.push(early).takes(early)
    assert home.push(late).takes(late)
    again = home.push(early)
    assert not again.taken
    assert expect(home.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)["phase"] == "Completed"
    events = expect(home.call("GET", f"{WORKLOADS}/{workload['id']}/events"), 200)["events"]
    assert [(each["sequence"], each["kind"]) for each in events] == [(1, "bound"), (2, "ended")]
    fenced = home.report(token=0, workloads=())
    assert not home.push(fenced).taken


def test_a_control_plane_that_cannot_be_sure_asks_for_everything(home: House) -> None:
    assert home.push(home.report()).want_whole
    assert not home.push(home.report(whole=True)).want_whole
    assert home.push(home.report(token=2)).want_whole


def test_a_workload_that_is_gone_stays_gone_and_is_still_shown_on_request(home: House) -> None:
    workload = home.train("t1")
    expect(home.call("DELETE", f"{WORKLOADS}/{workload['id']}"), 202)
    read = home.pull().revision
    home.push(home.report(whole=True, gone=(gone(workload["id"]),)))
    answer = home.pull(read)
    assert list(answer.removed) == [workload["id"]]
    home.push(home.report(workloads=(home.runs(workload["id"]),)))
    assert expect(home.call("GET", WORKLOADS), 200)["workloads"] == []
    shown = expect(home.call("GET", f"{WORKLOADS}?deleted=true"), 200)["workloads"]
    assert [(each["name"], each["phase"]) for each in shown] == [("t1", "Deleted")]


def test_one_cluster_cannot_speak_of_anothers_work(home: House) -> None:
    workload = home.train("t1")
    other = expect(home.call("POST", "/api/v1/clusters", {"name": "other"}), 201)
    home.cluster_token = other["token"]
    assert home.pull().workloads == ()
    home.push(home.report(whole=True, workloads=(home.runs(workload["id"]),), gone=(gone(workload["id"]),)))
    assert expect(home.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)["phase"] == "Creating"


def test_people_do_not_pull_and_clusters_do_nothing_else(home: House) -> None:
    assert home.call("POST", "/api/v1/cluster/pull", {"after": 0}).status_code == 403
    home.tokens["cluster"] = home.cluster_token
    for path in ("/api/v1/me", WORKLOADS, "/api/v1/changes"):
        assert home.call("GET", path, by="cluster").status_code == 403


def test_marks_on_a_node_reach_the_cluster(home: House) -> None:
    home.push(home.report(whole=True, nodes=(node("n1"),)))
    drain = {"taints": [{"key": "runai", "value": "drain", "effect": "NoExecute"}], "labels": {"run.ai/type": "a"}}
    shown = expect(home.call("PUT", "/api/v1/nodes/n1/marks", drain), 200)
    assert shown["taints"][0]["key"] == "runai"
    organization = home.pull().organization
    assert organization is not None
    marks = organization.to_organization().marks["n1"]  # type: ignore[index]
    assert (str(marks.taints[0]), marks.labels) == ("runai=drain:NoExecute", (("run.ai/type", "a"),))
    assert home.call("PUT", "/api/v1/nodes/n2/marks", drain).status_code == 404


def test_a_cluster_that_falls_silent_shows_as_disconnected(home: House) -> None:
    def state() -> str:
        clusters = expect(home.call("GET", "/api/v1/clusters"), 200)["clusters"]
        return str(clusters[0]["status"]["state"])

    assert state() == "WaitingToConnect"
    home.pull()
    assert state() == "Connected"
    home.clock.turn(61)
    assert state() == "Disconnected"
