"""Environments, compute resources and data sources: created, read, listed, replaced, deleted by the original's client.

What pods get of them is shown in `asset_use.py`.
"""

from __future__ import annotations

from typing import Any

from tests.client.original import Original

TENANT = {"scope": "tenant"}


def case_compute(original: Original) -> None:
    half = {"gpuDevicesRequest": 1, "gpuRequestType": "portion", "gpuPortionRequest": 0.5}
    _is_kept(original, "ComputeApi", "compute", half, {"gpuDevicesRequest": 2})


def case_environment(original: Original) -> None:
    tool = {
        "name": "Board",
        "internalToolInfo": {"toolType": "tensorboard", "connectionType": "ExternalUrl", "containerPort": 6006},
    }
    first = {"image": "python", "environmentVariables": [{"name": "EPOCHS", "value": "3"}], "connections": [tool]}
    _is_kept(original, "EnvironmentApi", "environment", first, {"image": "python:3"})


def case_claim(original: Original) -> None:
    size = {"size": "1Gi", "storageClass": "local", "accessModes": {"readWriteMany": True}, "volumeMode": "Filesystem"}
    first = {"path": "/data", "existingPvc": False, "claimName": "lives", "claimInfo": size}
    _is_kept(original, "PVCApi", "pvc", first, {"path": "/elsewhere"})


def case_git(original: Original) -> None:
    first = {"repository": "https://git.example.com/a.git", "branch": "main", "path": "/code"}
    _is_kept(original, "GitApi", "git", first, {**first, "revision": "v2"})


def case_config_map(original: Original) -> None:
    first = {"configMap": "settings", "mountPath": "/settings"}
    _is_kept(original, "ConfigMapApi", "config_map", first)


def case_nfs(original: Original) -> None:
    first = {"server": "files.example.com", "path": "/export", "mountPath": "/data", "readOnly": True}
    _is_kept(original, "NFSApi", "nfs", first, {**first, "readOnly": False})


def case_s3(original: Original) -> None:
    key = {"accessKeyId": "AK", "secretAccessKey": "hidden"}
    body = {"meta": {"name": "lives-s3-key", **TENANT}, "spec": key}
    access = original.call("CredentialsApi.create_access_key", access_key_creation_request=body)["meta"]["id"]
    first = {"bucket": "images", "path": "/data", "url": "https://s3.example.com", "accessKeyAssetId": access}
    _is_kept(original, "S3Api", "s3", first, {**first, "path": "/images"})


def case_secret(original: Original) -> None:
    pairs = {"keyValuePairs": [{"key": "token", "value": "hidden"}]}
    body = {"meta": {"name": "lives-secret", **TENANT}, "spec": pairs}
    made = original.call("CredentialsApi.create_generic_secret", generic_secret_creation_request=body)
    first = {"credentialAssetId": made["meta"]["id"], "mountPath": "/secrets"}
    _is_kept(original, "SecretApi", "secret", first, body="secret_asset")


def case_host_path(original: Original) -> None:
    first = {"path": "/mnt/data", "mountPath": "/data", "readOnly": True}
    body = {"meta": {"name": "lives-folder", **TENANT}, "spec": first}
    made = original.call("HostPathApi.create_host_path", host_path_creation_request=body)["meta"]["id"]
    assert original.call("HostPathApi.get_host_path_by_id", asset_id=made)["spec"].items() >= first.items()
    change = {"meta": {"name": "lives-folder"}, "spec": {**first, "mountPath": "/folder"}}
    original.call("HostPathApi.update_host_path_by_id", asset_id=made, host_path_update_request=change)
    (listed,) = original.call("HostPathApi.list_host_path_assets", name="lives-folder")["entries"]
    assert listed["spec"]["mountPath"] == "/folder"
    original.call("HostPathApi.delete_host_path_by_id", asset_id=made)
    assert original.call("HostPathApi.list_host_path_assets", name="lives-folder")["entries"] == []


def case_data_sources_of_all_kinds(original: Original) -> None:
    folder = {"meta": {"name": "mixed-folder", **TENANT}, "spec": {"path": "/mnt/data", "mountPath": "/data"}}
    original.call("HostPathApi.create_host_path", host_path_creation_request=folder)
    settings = {"meta": {"name": "mixed-map", **TENANT}, "spec": {"configMap": "settings", "mountPath": "/s"}}
    original.call("ConfigMapApi.create_config_map_asset", config_map_creation_request=settings)
    listed = original.call("DatasourcesApi.list_datasource_assets", scope="tenant")["entries"]
    found = {each["meta"]["name"]: each["spec"] for each in listed}
    assert found["mixed-folder"]["hostPath"]["mountPath"] == "/data"
    assert found["mixed-map"]["config_map"]["configMap"] == "settings"


def case_scopes(original: Original) -> None:
    """An asset of a project has the project's number, is found by it, and is one of its department's."""
    client = original.platform.client
    client._post("/api/v1/org-unit/projects", {"name": "scoped"})
    number = _made(original, {"scope": "project", "projectId": client.project("scoped").number}, "of-project")
    assert number["meta"]["projectName"] == "scoped"
    _made(original, {"scope": "department", "departmentId": "default"}, "of-department")
    _made(original, {"scope": "cluster", "clusterId": original.cluster}, "of-cluster")

    def names(**asked: Any) -> list[str]:
        listed = original.call("ComputeApi.list_compute_assets", **asked)["entries"]
        return [each["meta"]["name"] for each in listed if each["meta"]["name"].startswith("of-")]

    assert names(project_id=number["meta"]["projectId"]) == ["of-project"]
    assert names(department_id="default") == ["of-department"]
    assert names(department_id="default", include_descendants=True) == ["of-department", "of-project"]
    assert names(cluster_id=original.cluster) == ["of-cluster"]


def case_storage_classes(original: Original) -> None:
    (only,) = original.call("StorageClassesApi.get_storage_classes_v2", cluster_id=original.cluster)["items"]
    assert (only["storageClassName"], only["spec"]["isDefault"]) == ("local", True)
    named = {"cluster_id": original.cluster}
    assert original.call("StorageClassesApi.get_storage_classes", **named, name="fast") == {"items": []}
    (older_form,) = original.call("StorageClassesApi.get_storage_classes", **named)["items"]
    assert older_form["Spec"]["is_default"]
    older = original.call("StorageClassesApi.v1_get_storage_classes", uuid=original.cluster)
    assert older == {"storageClasses": ["local"]}


def _made(original: Original, scope: Any, name: str) -> Any:
    body = {"meta": {"name": name, **scope}, "spec": {"gpuDevicesRequest": 1}}
    return original.call("ComputeApi.create_compute_asset", compute_creation_request=body)


def _is_kept(original: Original, api: str, noun: str, spec: Any, other: Any = None, *, body: str = "") -> None:
    """It is created, read, listed, replaced and deleted. Of some kinds the client changes only name and description."""
    meta = {"name": f"lives-{noun}".replace("_", "-"), "description": "first", **TENANT}
    named = body or noun
    made = original.call(f"{api}.create_{noun}_asset", **{f"{named}_creation_request": {"meta": meta, "spec": spec}})
    asset = made["meta"]["id"]
    _has(made["spec"], spec)
    read = original.call(f"{api}.get_{noun}_asset_by_id", asset_id=asset, usage_info=True)
    assert read["meta"] == made["meta"]
    assert read["usedBy"] == {name: [] for name in read["usedBy"]}
    change = {"meta": {"name": meta["name"], "description": "second"}, **({"spec": other} if other else {})}
    original.call(f"{api}.update_{noun}_asset_by_id", asset_id=asset, **{f"{named}_update_request": change})
    (listed,) = original.call(f"{api}.list_{noun}_assets", name=meta["name"])["entries"]
    assert listed["meta"]["description"] == "second"
    _has(listed["spec"], other or spec)
    original.call(f"{api}.delete_{noun}_asset_by_id", asset_id=asset)
    assert original.call(f"{api}.list_{noun}_assets", name=meta["name"])["entries"] == []


def _has(found: Any, said: Any) -> None:
    """Every single value that was said is answered; lists and objects have values of their own beside."""
    plain = {name: value for name, value in said.items() if not isinstance(value, dict | list)}
    assert plain.items() <= found.items(), (plain, found)
