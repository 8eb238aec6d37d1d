"""Changes of workloads after their submit: what holds at once, what needs a stop, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from fairpool.api.clusters import NodeReport, WorkloadReport
from fairpool.control.guard import PEER_UID
from fairpool.model.ids import NodeName, PoolName, WorkloadId
from fairpool.model.pod_record import Cause
from fairpool.model.status import WorkloadPhase
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

WORKLOADS = "/api/v1/workloads"
MODEL = {"image": "v1", "servingPort": {"container": 8000}}


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as found:
        found.project("team-a")
        yield found


def patch(control: ControlPlane, workload: Any, spec: Any, kind: str = "trainings", **options: Any) -> Any:
    return control.call("PATCH", f"{WORKLOADS}/{kind}/{workload['id']}", {"spec": spec}, **options)


def runs(control: ControlPlane, workload: Any) -> None:
    control.push(control.report(whole=True, workloads=(control.runs(workload["id"]),)))


def declared(control: ControlPlane) -> Any:
    return control.pull().workloads[0]


def test_limits_labels_and_priority_of_running_work_change_at_once(control: ControlPlane) -> None:
    made = control.train(labels={"a": "1"})
    runs(control, made)
    change = {
        "labels": {"b": "2"},
        "annotations": {"why": "demo"},
        "deadlineSeconds": 60,
        "backoffLimit": 1,
        "autoDeletionTimeAfterCompletionSeconds": 30,
        "terminationGracePeriodSeconds": 5,
        "priorityClass": "interactive-preemptible",
    }
    changed = expect(patch(control, made, change), 202)
    assert (changed["labels"], changed["priority"], changed["preemptible"]) == ({"b": "2"}, 75, True)
    assert "warnings" not in changed, "all of it holds at once"
    spec = declared(control)
    assert (spec.deadline_s, spec.retries, spec.ttl_s, spec.grace_s) == (60, 1, 30, 5)
    listed = expect(control.call("GET", f"{WORKLOADS}?filterBy=labels.b==2"), 200)["workloads"]
    assert [each["name"] for each in listed] == ["t1"]
    assert changed["phase"] == "Running"


def test_a_workload_says_which_fields_were_changed_since_its_submit(control: ControlPlane) -> None:
    made = control.train(labels={"a": "1"})
    assert "changedFields" not in made
    expect(patch(control, made, {"deadlineSeconds": 60, "labels": {"a": "1"}}), 202)
    changed = expect(patch(control, made, {"image": "v2"}), 202)
    assert changed["changedFields"] == ["deadlineSeconds", "image"], "the labels are as they were"
    assert expect(control.call("GET", f"{WORKLOADS}/{made['id']}"), 200)["changedFields"] == changed["changedFields"]


def test_what_a_running_pod_was_started_with_is_refused_with_the_way_to_change_it(control: ControlPlane) -> None:
    made = control.train()
    runs(control, made)
    before = control.pull().revision
    answer = patch(control, made, {"image": "other", "compute": {"gpu": 2}, "labels": {"a": "b"}})
    assert (answer.status_code, codes(answer)) == (409, ["workload.runs", "workload.runs"])
    problem = answer.json()["problems"][0]
    assert problem["what"] == "compute cannot be changed while t1 runs"
    assert problem["fix"] == "suspend it first: runai suspend t1; then update it, and runai resume t1"
    assert control.pull().revision == before, "a refused change changes nothing of it"
    expect(control.call("POST", f"{WORKLOADS}/{made['id']}/suspend"), 202)
    changed = expect(patch(control, made, {"image": "other", "compute": {"gpu": 2}}), 202)
    assert (changed["images"], changed["workloadRequestedResources"]["gpu"]["request"]) == (["other"], 2.0)
    assert (changed["desiredPhase"], changed.get("warnings")) == ("Stopped", None)


def test_running_work_does_not_become_non_preemptible(control: ControlPlane) -> None:
    """It may hold more than its quota, which only preemptible work may."""
    made = control.train()
    runs(control, made)
    for change, field in (
        ({"preemptibility": "non-preemptible"}, "spec.preemptibility"),
        ({"priorityClass": "build"}, "spec.priorityClass"),
    ):
        answer = patch(control, made, change)
        assert (answer.status_code, codes(answer)) == (409, ["workload.runs"])
        assert answer.json()["problems"][0]["field"] == field


def test_work_that_waits_is_changed_and_the_answer_says_for_which_pods(control: ControlPlane) -> None:
    made = control.train()
    changed = expect(patch(control, made, {"compute": {"gpu": "0.5"}}), 202)
    assert changed["workloadRequestedResources"]["gpu"]["request"] == 0.5
    assert declared(control).template.shape.gpu.portion_milli == 500
    (warning,) = changed["warnings"]
    assert warning == "compute: a pod that has started in the meantime keeps the former value until its next start"


def test_a_running_model_keeps_its_program_until_its_next_start_and_says_so(control: ControlPlane) -> None:
    body = {"name": "m", "projectId": "team-a", "spec": MODEL}
    made = expect(control.call("POST", f"{WORKLOADS}/inferences", body), 202)
    runs(control, made)
    scaled = expect(patch(control, made, {"autoscaling": {"minReplicas": 2}}, "inferences"), 202)
    assert "warnings" not in scaled
    assert declared(control).pods == 2
    (warning,) = expect(patch(control, made, {"image": "v2"}, "inferences"), 202)["warnings"]
    assert warning.startswith("pods that run keep the former image until their next start")
    assert "runai suspend m" in warning


def test_a_change_is_checked_as_a_submit_is(control: ControlPlane) -> None:
    made = control.train()
    assert codes(patch(control, made, {"priorityClass": "none-such"})) == ["spec.priority_class"]
    assert codes(patch(control, made, {"security": {"hostIpc": True}}))[:1] == ["spec.not_carried"]
    assert patch(control, made, {"colour": "red"}).status_code == 422
    assert patch(control, made, {"deadlineSeconds": 0}).status_code == 422
    assert codes(patch(control, made, {})) == ["workload.no_change"]
    assert patch(control, made, {"labels": {}}, "workspaces").status_code == 404
    assert patch(control, {"id": "absent"}, {"labels": {}}).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [("after", ["t0"]), ("array", {"indices": "0-1"})],
)
def test_some_fields_stay_as_they_were_submitted(control: ControlPlane, field: str, value: Any) -> None:
    control.train("t0")
    made = control.train("t1")
    answer = patch(control, made, {field: value})
    assert codes(answer)[-1] in ("workload.fixed", "spec.after"), answer.text


def test_a_change_of_something_that_was_changed_meanwhile_is_refused(control: ControlPlane) -> None:
    made = control.train()
    tag = {"If-Match": f'"{made["revision"]}"'}
    changed = patch(control, made, {"labels": {"a": "b"}}, headers=tag)
    expect(changed, 202)
    assert codes(patch(control, made, {"labels": {"a": "c"}}, headers=tag)) == ["request.changed_meanwhile"]
    again = {"If-Match": changed.headers["etag"]}
    expect(patch(control, made, {"labels": {"a": "c"}}, headers=again), 202)


def test_a_dry_run_of_a_change_shows_it_and_changes_nothing(control: ControlPlane) -> None:
    made = control.train()
    path = f"{WORKLOADS}/trainings/{made['id']}"
    before = control.pull().revision
    said = expect(control.call("PATCH", f"{path}?dryRun=true", {"spec": {"compute": {"gpu": 2}}}), 200)
    assert (said["workloadRequestedResources"]["gpu"]["request"], said["spec"]["compute"]) == (2.0, {"gpu": 2})
    assert said["warnings"]
    assert said["forecast"]
    assert control.pull().revision == before
    assert expect(control.call("GET", path), 200)["workloadRequestedResources"]["gpu"]["request"] == 1.0


def test_work_that_is_over_is_not_changed_and_failed_work_is(control: ControlPlane) -> None:
    done, failed = control.train("done"), control.train("failed")
    end = WorkloadReport(
        id=WorkloadId(failed["id"]), phase=WorkloadPhase.FAILED, reason=Cause.EXITED, since=control.clock.now
    )
    control.push(control.report(whole=True, workloads=(end, control.completed(done["id"]))))
    assert codes(patch(control, done, {"labels": {"a": "b"}})) == ["workload.completed"]
    assert expect(patch(control, failed, {"image": "mended"}), 202)["images"] == ["mended"]
    expect(control.call("DELETE", f"{WORKLOADS}/{failed['id']}"), 202)
    assert codes(patch(control, failed, {"labels": {"a": "b"}})) == ["workload.being_deleted"]


def test_a_limit_is_removed_with_null(control: ControlPlane) -> None:
    made = control.train(deadlineSeconds=60)
    expect(patch(control, made, {"deadlineSeconds": None}), 202)
    assert declared(control).deadline_s is None


def test_a_change_that_can_never_start_is_refused_unless_it_may_wait(control: ControlPlane) -> None:
    node = NodeReport(name=NodeName("n1"), pool=PoolName("default"), gpus=8)
    control.push(control.report(whole=True, nodes=(node,)))
    made = control.train()
    model = expect(control.call("POST", f"{WORKLOADS}/inferences", {"projectId": "team-a", "spec": MODEL}), 202)
    for workload, kind in ((made, "trainings"), (model, "inferences")):
        assert codes(patch(control, workload, {"compute": {"gpu": 20}}, kind)) == ["node.too_small"]
        path = f"{WORKLOADS}/{kind}/{workload['id']}"
        expect(control.call("PATCH", path, {"spec": {"compute": {"gpu": 20}}, "waitAnyway": True}), 202)
        expect(patch(control, workload, {"labels": {"a": "b"}}, kind), 202)  # whether it can start is not asked again


def test_a_label_changes_nothing_that_the_job_runs(control: ControlPlane) -> None:
    """Config maps and credentials were read at the submit; the change neither reads them anew nor needs them."""
    maps, secrets = "/api/v1/config-maps", "/api/v1/asset/credentials/generic-secret"
    expect(control.call("POST", maps, {"name": "s", "projectId": "team-a", "data": {"k": "old"}}), 201)
    meta = {"name": "tok", "scope": "project", "projectId": "team-a"}
    secret = expect(control.call("POST", secrets, {"meta": meta, "spec": {"data": {"k": "v"}}}), 201)
    variables = [
        {"name": "K", "configMap": {"name": "s", "key": "k"}},
        {"name": "T", "credential": {"name": "tok", "key": "k"}},
    ]
    mounted = {"configMapVolume": [{"name": "s", "mountPath": "/s"}]}
    made = control.train(storage=mounted, environmentVariables=variables, labels={"a": "0"})
    runs(control, made)
    before = declared(control).to_spec().template
    expect(control.call("PUT", f"{maps}/s?projectId=team-a", {"data": {"k": "new"}}), 200)
    expect(patch(control, made, {"labels": {"a": "1"}}), 202)
    after = declared(control).to_spec().template
    assert (after.program, after.shape.labels) == (before.program, (("a", "1"),))
    expect(control.call("DELETE", f"{maps}/s?projectId=team-a"), 204)
    expect(control.call("DELETE", f"{secrets}/{secret['id']}"), 204)
    expect(patch(control, made, {"deadlineSeconds": 60}), 202)
    spec = declared(control).to_spec()
    assert (spec.template, spec.deadline_s) == (after, 60)
    expect(control.call("POST", f"{WORKLOADS}/{made['id']}/suspend"), 202)
    assert codes(patch(control, made, {"image": "other"})) == ["config_map.unknown", "credential.unknown"]


def test_a_change_that_holds_at_once_is_checked_too(control: ControlPlane) -> None:
    body = {"name": "m", "projectId": "team-a", "spec": MODEL}
    made = expect(control.call("POST", f"{WORKLOADS}/inferences", body), 202)
    answer = patch(control, made, {"autoscaling": {"minReplicas": 1, "maxReplicas": 3}}, "inferences")
    assert (answer.status_code, set(codes(answer))) == (422, {"spec.not_carried"})
    job = control.train()
    assert codes(patch(control, job, {"parallelism": 2})) == ["spec.parallelism_alone"]
    assert codes(patch(control, job, {"terminationGracePeriodSeconds": 86_400})) == ["spec.grace_too_long"]


def test_a_change_by_another_user_takes_the_submitters_identity_only_with_a_new_program(control: ControlPlane) -> None:
    control.app.state.plane.cluster_beside = control.cluster
    within = control.app.middleware_stack
    assert within is not None

    async def over_the_socket(scope: Scope, receive: Receive, send: Send) -> None:
        await within({**scope, PEER_UID: 1000}, receive, send)

    control.app.middleware_stack = over_the_socket
    made = control.train()
    control.app.middleware_stack = within  # from here on, by a user who is known by a token only
    assert declared(control).template.program.submitter_uid == 1000
    expect(patch(control, made, {"labels": {"a": "1"}, "priorityClass": "interactive-preemptible"}), 202)
    assert declared(control).template.program.submitter_uid == 1000
    expect(patch(control, made, {"image": "other"}), 202)
    assert declared(control).template.program.submitter_uid is None
