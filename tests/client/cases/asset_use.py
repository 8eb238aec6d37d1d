"""What pods have of assets: each is created by the original's client, and used by a workload that it submits."""

from __future__ import annotations

import json
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
    assert first["code"]
    assert (first["claim"], again["claim"]) == ("", "x"), "the second workload mounts the claim that the first made"


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
    body = {
        "name": name,
        "projectId": PROJECT,
        "clusterId": original.cluster,
        "templateId": template,
        "spec": {"command": "python", "args": f"-c {json.dumps(PROGRAM)}"},
    }
    made = original.call("TrainingsApi.create_training1", training_creation_request=body)
    workload = made["workloadId"]
    client = original.platform.client

    def output() -> str:
        is_over = client.workload(workload).phase in ("Completed", "Failed")
        return b"".join(client.logs(workload)).decode() if is_over else ""

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
