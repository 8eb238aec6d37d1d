"""What pods have of assets: each is created by the original's client, and used by a workload that it submits."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import Any

from tests.client.original import Original
from tests.git_server import a_repository, git_server

PROJECT = "asset-use"
LOGIN = "ann:gits3cret"
PROGRAM = """
import json, os, pathlib
claim = pathlib.Path("/claim/seen")
seen = claim.read_text() if claim.exists() else ""
claim.write_text(seen + "x")
files = {name: pathlib.Path(name).read_text() for name in ("/settings/epochs", "/secrets/token", "/folder/a.txt")}
print("found", json.dumps({
    "files": files, "epochs": os.environ["EPOCHS"], "token": os.environ["TOKEN"], "claim": seen,
    "gpu": os.environ["RUNAI_NUM_OF_GPUS"], "code": sorted(os.listdir("/code")),
    "empty": os.listdir("/scratch"),
}), flush=True)
"""


def case_one_workload_with_every_asset(original: Original) -> None:
    client = original.platform.client
    client._post("/api/v1/org-unit/projects", {"name": PROJECT, "resources": [{"gpu": {"deserved": 2}}]})
    client._post("/api/v1/config-maps", {"projectId": PROJECT, "name": "settings", "data": {"epochs": "three"}})
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "a.txt").write_text("of the node")
        repository, _, _ = a_repository(Path(folder))
        with git_server(repository.parent, LOGIN) as address:
            template = _template(original, Path(folder), f"{address}/{repository.name}")
            first = _ran(original, "uses-1", template)
            again = _ran(original, "uses-2", template)
    expected = {"/settings/epochs": "three", "/secrets/token": "t0ken", "/folder/a.txt": "of the node"}
    assert first["files"] == expected
    assert (first["epochs"], first["token"], first["gpu"]) == ("3", "t0ken", "0.5")
    assert first["code"] == [".git", "note"]
    assert first["empty"] == []
    assert (first["claim"], again["claim"]) == ("", "x"), "the second workload mounts the claim that the first made"
    _check_what_is_known(original, template)


def case_what_cannot_be_mounted_is_refused(original: Original) -> None:
    """A share and a bucket are kept as data sources; a workload that names them is told what to do instead."""
    name = "asset-refused"
    project = {"name": name, "resources": [{"gpu": {"deserved": 1}}]}
    number = original.platform.client._post("/api/v1/org-unit/projects", project).number
    share = {"server": "files.example.com", "path": "/export", "mountPath": "/data"}
    bucket = {"bucket": "images", "path": "/data", "url": "https://s3.example.com"}
    place = {"scope": "project", "projectId": number}
    image = {"meta": {"name": "refused-image", **place}, "spec": {"image": "python"}}
    environment = original.call("EnvironmentApi.create_environment_asset", environment_creation_request=image)
    for kind, source, spec, fix in (
        ("nfs", "NFSApi.create_nfs_asset", share, "mount it on the nodes"),
        ("s3", "S3Api.create_s3_asset", bucket, "copy the data"),
    ):
        meta = {"name": f"refused-{kind}", **place}
        made = original.call(source, **{f"{kind}_creation_request": {"meta": meta, "spec": spec}})["meta"]["id"]
        assets = {"environment": environment["meta"]["id"], "datasources": [{"id": made, "kind": kind}]}
        body = {"meta": meta, "spec": {"assets": assets}}
        template = original.call("TemplateApi.create_template", workload_template_creation_request=body)["meta"]["id"]
        job = {"name": f"refused-{kind}", "projectId": name, "clusterId": original.cluster}
        for said in (
            {**job, "templateId": template, "spec": {"image": "python"}},
            {**job, "spec": {"image": "python", "storage": {kind: [spec]}}},
        ):
            outcome = original._outcome("TrainingsApi.create_training1", {"training_creation_request": said})
            assert outcome["status"] == 422, outcome
            assert fix in outcome["trouble"], outcome
    assert original.call("WorkloadsApi.get_workloads", filter_by=[f"projectName=={name}"])["workloads"] == []


def _check_what_is_known(original: Original, template: str) -> None:
    """Who uses an asset, whether what it needs is there, who may use it, and the history of the claim."""
    number = original.platform.client.project(PROJECT).number
    asked = {"usage_info": True, "status_info": True, "name": "use-config-map"}
    (settings,) = original.call("ConfigMapApi.list_config_map_assets", **asked)["entries"]
    assert settings["status"] == {"status": "No issues found"}
    assert [each["name"] for each in settings["usedBy"]["templates"]] == ["use-use"]
    half = original.call("ComputeApi.list_compute_assets", name="use-compute")["entries"][0]["meta"]["id"]
    allowed = {"asset_id": half, "comply_to_project": number, "comply_to_workload_type": "training"}
    assert original.call("ComputeApi.get_compute_asset_by_id", **allowed)["compliance"]["compliance"] is True
    (secret,) = original.call("CredentialsApi.list_generic_secret", name="use-generic-secret", usage_info=True)[
        "entries"
    ]
    assert [each["name"] for each in secret["usedBy"]["trainings"]] == ["uses-1", "uses-2"]
    claim = original.call("PVCApi.list_pvc_assets", name="use-pvc")["entries"][0]["meta"]["id"]
    (record,) = original.call("PVCApi.get_pvc_history", asset_id=claim)["records"]
    assert record["spec"]["phaseUpdate"]["phase"] == "Ready"
    before = original.call("TemplateApi.get_template_by_id", asset_id=template)["spec"]["assets"]
    change = {
        "meta": {"name": "use-use", "description": "changed"},
        "spec": {"assets": {"environment": before["environment"]["id"]}, "specificEnv": {"args": "-V"}},
    }
    original.call("TemplateApi.update_template", asset_id=template, workload_template_update_request=change)
    (listed,) = original.call("TemplateApi.list_templates", name="use-use")["entries"]
    assert (listed["meta"]["description"], set(listed["spec"]["assets"])) == ("changed", {"environment"})
    original.call("TemplateApi.delete_template_by_id", asset_id=template)
    assert original.call("TemplateApi.list_templates", name="use-use")["entries"] == []


def _template(original: Original, folder: Path, repository: str) -> str:
    """A template with an environment, a compute resource and a data source of each kind that can be mounted here."""
    secret = _credential(original, "generic_secret", {"keyValuePairs": [{"key": "token", "value": "t0ken"}]})
    user, _, password = LOGIN.partition(":")
    login = _credential(original, "password", {"user": user, "password": password})
    token = {"name": "TOKEN", "credential": {"assetId": secret, "key": "token"}}
    environment = _asset(
        original,
        "EnvironmentApi.create_environment_asset",
        "environment",
        {"image": "python", "environmentVariables": [{"name": "EPOCHS", "value": "3"}, token]},
    )
    half = {"gpuDevicesRequest": 1, "gpuRequestType": "portion", "gpuPortionRequest": 0.5}
    compute = _asset(original, "ComputeApi.create_compute_asset", "compute", half)
    sources = {
        "pvc": ("PVCApi.create_pvc_asset", "pvc", {"path": "/claim", "claimInfo": {"size": "1Gi"}}),
        "git": (
            "GitApi.create_git_asset",
            "git",
            {"repository": repository, "path": "/code", "passwordAssetId": login},
        ),
        "hostPath": ("HostPathApi.create_host_path", "host_path", {"path": str(folder), "mountPath": "/folder"}),
        "config-map": (
            "ConfigMapApi.create_config_map_asset",
            "config_map",
            {"configMap": "settings", "mountPath": "/settings"},
        ),
        "secret-volume": (
            "SecretApi.create_secret_asset",
            "secret_asset",
            {"credentialAssetId": secret, "mountPath": "/secrets"},
        ),
    }
    datasources = [{"id": _asset(original, *said), "kind": kind} for kind, said in sources.items()]
    spec = {"assets": {"environment": environment, "compute": compute, "datasources": datasources}}
    body = {"meta": _meta(original, "use"), "spec": spec}
    made = original.call("TemplateApi.create_template", workload_template_creation_request=body)
    read = original.call("TemplateApi.get_template_by_id", asset_id=made["meta"]["id"])
    assert [each["kind"] for each in read["spec"]["assets"]["datasources"]] == list(sources)
    return str(made["meta"]["id"])


def _ran(original: Original, name: str, template: str) -> Any:
    """What the pod of a workload with the template has found."""
    scratch = {"emptyDirVolume": [{"path": "/scratch"}]}
    body = {
        "name": name,
        "projectId": PROJECT,
        "clusterId": original.cluster,
        "templateId": template,
        "spec": {"command": "python", "args": shlex.join(["-c", PROGRAM]), "backoffLimit": 0, "storage": scratch},
    }
    made = original._outcome("TrainingsApi.create_training1", {"training_creation_request": body})["data"]
    workload = made["workloadId"]
    client = original.platform.client

    def output() -> str:
        found = client.workload(workload)
        assert found.phase != "Failed", found.phase_message
        return b"".join(client.logs(workload)).decode() if found.phase == "Completed" else ""

    text = original.until(output, f"{name} has ended")
    line = next(each for each in text.splitlines() if each.startswith("found "))
    return json.loads(line.removeprefix("found "))


def _credential(original: Original, kind: str, spec: Any) -> str:
    body = {"meta": _meta(original, kind.replace("_", "-")), "spec": spec}
    made = original.call(f"CredentialsApi.create_{kind}", **{f"{kind}_creation_request": body})
    return str(made["meta"]["id"])


def _asset(original: Original, operation: str, noun: str, spec: Any) -> str:
    body = {"meta": _meta(original, noun.replace("_", "-")), "spec": spec}
    return str(original.call(operation, **{f"{noun}_creation_request": body})["meta"]["id"])


def _meta(original: Original, name: str) -> dict[str, Any]:
    return {"name": f"use-{name}", "scope": "project", "projectId": original.platform.client.project(PROJECT).number}
