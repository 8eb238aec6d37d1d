"""Policies: written, read, listed, changed and deleted by the original's client, and met by a workload it submits."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original

FLAT: dict[str, Any] = {
    "defaults": {
        "image": "python",
        "command": "sleep 60",
        "compute": {"cpuCoreRequest": 0.5},
        "environmentVariables": {"instances": [{"name": "FROM_POLICY", "value": "yes"}]},
    },
    "rules": {
        "compute": {"gpuDevicesRequest": {"max": 1}, "cpuCoreRequest": {"min": 0.1, "max": 2, "required": True}},
        "image": {"options": [{"value": "python", "displayed": "Python"}]},
        "security": {"capabilities": {"options": [{"value": "NET_ADMIN"}]}, "hostIpc": {"canEdit": False}},
        "storage": {"hostPath": {"instances": {"canAdd": False}}},
    },
}


def _project(original: Original, name: str) -> int:
    """The number of a new project."""
    body = {"name": name, "clusterId": original.cluster, "resources": [{"gpu": {"deserved": 1}}]}
    original.call("ProjectsApi.create_project", project_creation_request=body)
    scoped = {"name": "numbered", "scope": "project", "projectId": name}
    made = original.platform.client.apply_policy("training", {"meta": scoped, "policy": {}})
    original.platform.client.delete_policy("training", {"scope": "project", "projectId": name})
    assert made.meta is not None
    return int(made.meta.project_id or 0)


def _case(original: Original, noun: str, project: int, policy: dict[str, Any]) -> dict[str, Any]:
    """Overwrite, get, list, update; what the policy comes to."""
    meta = {"scope": "project", "projectId": project, "name": "policy-lab"}
    wanted = {"meta": meta, "policy": policy}
    write = f"PolicyApi.overwrite_{noun}_policy_v2"
    body = f"{noun}_policy_overwrite_request_v2"
    original.call(write, validate_only=True, **{body: wanted})
    assert _listed(original, noun, project) == [], "only validated"
    made = original.call(write, **{body: wanted})
    assert (made["meta"]["projectId"], made["meta"]["name"]) == (project, "policy-lab")
    assert _listed(original, noun, project) == ["policy-lab"]
    found = original.call(f"PolicyApi.get_{noun}_policy_v2", scope="project", project_id=str(project))
    assert found["policy"]["rules"] == policy["rules"], found["policy"]
    renamed = {"meta": {**meta, "name": "policy-lab-2"}, "policy": {"defaults": {}}}
    change = {f"{noun}_policy_change_request_v2": renamed}
    original.call(f"PolicyApi.update_{noun}_policy_v2", **change)
    assert _listed(original, noun, project) == ["policy-lab-2"]
    return dict(found["effective"])


def _listed(original: Original, noun: str, project: int) -> list[str]:
    asked = {"workload_type": noun, "scope": "project", "project_id": str(project)}
    return [each["meta"]["name"] for each in original.call("PolicyApi.list_policies", **asked)["policies"]]


def _gone(original: Original, noun: str, project: int) -> None:
    original.call(f"PolicyApi.delete_{noun}_policy", scope="project", project_id=str(project))
    assert _listed(original, noun, project) == []


def case_policies_of_each_kind(original: Original) -> None:
    project = _project(original, "policy-kinds")
    gang = {part: {"worker": values} for part, values in FLAT.items()}
    few = {**FLAT, "rules": {name: FLAT["rules"][name] for name in ("compute", "image")}}
    for noun, policy in (("workspace", FLAT), ("inference", few), ("distributed", gang)):
        _case(original, noun, project, policy)
        _gone(original, noun, project)
    original.call("ProjectsApi.delete_project", project_id="policy-kinds")


def case_a_workload_meets_its_policy(original: Original) -> None:
    project = _project(original, "policy-lab")
    effective = _case(original, "training", project, FLAT)
    assert effective["rules"]["compute"]["gpuDevicesRequest"]["sourceOfRule"]["projectId"] == project
    submit = {"name": "policy-job", "projectId": "policy-lab", "clusterId": original.cluster}
    wrong = {**submit, "spec": {"compute": {"gpuDevicesRequest": 2}}}
    message = original.refused("TrainingsApi.create_training1", 422, training_creation_request=wrong)
    assert "must be no greater than 1" in message
    assert "policy policy-lab-2 (project policy-lab)" in message
    client = original.platform.client
    made = client._post("/api/v1/workloads/trainings", {**submit, "spec": {}})
    found = client.workload(made.id)
    origins = found.value_origins or {}
    assert (found.spec["image"], origins["image"]) == ("python", "policy policy-lab-2 (project policy-lab)")
    assert [each["name"] for each in found.spec["environmentVariables"]] == ["FROM_POLICY"]
    client.delete_workload(found.id)
    _gone(original, "training", project)
