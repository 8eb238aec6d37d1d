"""What a person may not see is not named to them: two researchers, an administrator, and work that takes turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.control.change_stream import View, read_after
from fairpool.control.guard import caller_with
from fairpool.control.rbac import Action
from tests.control.cluster import Cluster
from tests.control.control_plane import ControlPlane, control_plane, expect

JOBS = "/researcher/api/v1/jobs"
pytestmark = pytest.mark.slow

SECRETS = ("owed-work", "speech")


class Scene:
    """Ann's training was taken for Bob's, and Ann's next one waits for his."""

    def __init__(self, control: ControlPlane) -> None:
        self.control, self.cluster = control, Cluster(control)
        for name in ("team-a", "speech"):
            control.project(name, 8)
        control.researcher("ann", "team-a")
        control.researcher("bob", "speech")
        control.researcher("both", "team-a", "speech")
        self.victims = [control.train(f"victim-{n}", "team-a", by="ann", compute={"gpu": "8"}) for n in range(2)]
        self.cluster.run(10)
        self.winner = control.train("owed-work", "speech", by="bob", compute={"gpu": "8"})
        self.cluster.run(90)
        assert self.cluster.phase(self.winner) == "Running"
        self.victim = next(each for each in self.victims if self.cluster.phase(each) == "Pending")

    def texts(self, by: str) -> dict[str, str]:
        """Everything that the API says to a caller about the victim."""
        one = f"/api/v1/workloads/{self.victim['id']}"
        paths = [
            one,
            f"{one}/events",
            f"{one}/history",
            f"{one}/pods",
            "/api/v1/workloads?filterBy=projectName==team-a",
        ]
        answers = {path: self.control.call("GET", path, by=by) for path in [*paths, f"{JOBS}/team-a"]}
        for answer in answers.values():
            assert answer.status_code == 200, answer.text
            assert int(answer.headers["content-length"]) == len(answer.content)
        return {path: answer.text for path, answer in answers.items()}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with control_plane() as control:
        yield Scene(control)


def test_a_victim_is_told_that_another_project_has_it_and_not_which(scene: Scene) -> None:
    texts = scene.texts("ann")
    for path, text in texts.items():
        for secret in SECRETS:
            assert secret not in text, f"{path} names {secret}: {text}"
        assert "\ue000" not in text
    events = texts[f"/api/v1/workloads/{scene.victim['id']}/events"]
    assert "work of another project" in events
    assert "another project holds 8" in texts[f"/api/v1/workloads/{scene.victim['id']}"]


@pytest.mark.parametrize("by", ["admin", "both"])
def test_those_who_may_see_both_are_told_which(scene: Scene, by: str) -> None:
    texts = scene.texts(by)
    assert "for owed-work" in texts[f"/api/v1/workloads/{scene.victim['id']}/events"]
    assert "speech holds 8" in texts[f"/api/v1/workloads/{scene.victim['id']}"]
    assert not any("another project" in text or "\ue000" in text for text in texts.values())


def test_a_foreign_job_is_answered_as_one_that_does_not_exist(scene: Scene) -> None:
    control = scene.control

    def answer(method: str, path: str, project: str, name: str) -> Any:
        (outcome,) = expect(control.call(method, path, [{"name": name, "project": project}], by="ann"), 200)
        return outcome

    for method, path in (("DELETE", JOBS), ("POST", f"{JOBS}/suspend"), ("POST", f"{JOBS}/resume")):
        foreign, unknown = answer(method, path, "speech", "owed-work"), answer(method, path, "absent", "owed-work")
        assert scene.winner["id"] not in str(foreign)
        assert str(foreign).replace("speech", "absent") == str(unknown)
    assert scene.cluster.phase(scene.winner) == "Running"
    log = expect(control.call("GET", "/api/v1/audit/log?limit=50"), 200)["entries"]
    tried = [(each["action"], each["entity_name"]) for each in log if each["result"] == "Failed"]
    assert ("delete", "speech/owed-work") in tried
    assert ("update", "speech/owed-work") in tried
    assert not any("absent" in name for _, name in tried)


def test_the_newer_routes_say_nothing_of_it_either(scene: Scene) -> None:
    control, id_ = scene.control, scene.winner["id"]
    missing = "00000000-0000-7000-8000-000000000000"
    for method, path in (
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/history"),
        ("GET", "/pods"),
        ("GET", "/logs"),
        ("POST", "/suspend"),
        ("POST", "/resume"),
        ("DELETE", ""),
    ):
        foreign = control.call(method, f"/api/v1/workloads/{id_}{path}", by="ann")
        unknown = control.call(method, f"/api/v1/workloads/{missing}{path}", by="ann")
        assert foreign.status_code == unknown.status_code == 404, path
        assert foreign.text.replace(id_, missing) == unknown.text
    batch = {"action": "delete", "ids": [id_]}
    assert "owed-work" not in control.call("POST", "/api/v1/workloads/batch", batch, by="ann").text
    for path in ("/api/v1/workloads", "/api/v1/org-unit/projects", "/api/v1/org-unit/departments", "/api/v1/nodes"):
        text = control.call("GET", path, by="ann").text
        assert "owed-work" not in text
        assert "speech" not in text


def test_the_stream_of_changes_names_no_more(scene: Scene) -> None:
    plane, control = scene.control.app.state.plane, scene.control
    assert control.http.portal is not None
    heard = {}
    for name in ("ann", "both", "admin"):
        caller = control.http.portal.call(caller_with, plane, control.tokens[name])
        view = View(caller.places(Action.WORKLOAD_READ), frozenset())
        shown = control.http.portal.call(plane.read, read_after(plane, view, 0))
        assert not shown.is_more
        assert name != "ann" or not any(secret.encode() in shown.text for secret in SECRETS)
        heard[name] = "\n".join(line for line in shown.text.decode().split("\n") if scene.victim["id"] in line)
        assert json.loads(heard[name].rpartition("data: ")[2])["object"]
    assert "speech" in heard["both"]
    hidden = '"isHidden":true,"quota":null,"fairShare":null,"allocated":null'
    shown_to_administrators = '"isHidden":false,"quota":8.0,"fairShare":8.0,"allocated":0.0'
    assert heard["admin"] == heard["both"].replace(hidden, shown_to_administrators)


def test_what_people_write_cannot_look_like_a_mention(scene: Scene) -> None:
    """One reader would see another command than was submitted."""
    hidden = "\ue000team-b\ue001SEEN\ue001HIDDEN\ue002"
    body = {"name": "x", "projectId": "team-a", "spec": {"image": "i", "args": ["echo", hidden]}}
    answer = scene.control.call("POST", "/api/v1/workloads/trainings", body)
    assert (answer.status_code, answer.json()["problems"][0]["code"]) == (422, "request.reserved_characters")
    assert scene.control.call("GET", "/api/v1/workloads?filterBy=labels.a%00b==v").status_code == 422
