"""Credentials and registries: no value is ever answered. What pods get of them is shown in `asset_use.py`."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from tests.client.original import Original
from tests.containers import LOGIN, running_registry

VALUE = "never-shown-0815"
SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "access_key": ("access_keys", {"accessKeyId": "AK", "secretAccessKey": VALUE}),
    "password": ("passwords", {"user": "ann", "password": VALUE}),
    "docker_registry": ("docker_registries", {"url": "registry.example.com", "user": "ann", "password": VALUE}),
    "generic_secret": ("generic_secret", {"keyValuePairs": [{"key": "token", "value": VALUE}]}),
    "ngc_api_key": ("ngc_api_key", {"ngc_api_key": VALUE}),
}


def case_every_type(original: Original) -> None:
    for kind, (many, spec) in SPECS.items():
        name = f"of-type-{kind}".replace("_", "-")
        body = {"meta": {"name": name, "scope": "tenant", "description": "first"}, "spec": spec}
        made = original.call(f"CredentialsApi.create_{kind}", **{f"{kind}_creation_request": body})
        asset = made["meta"]["id"]
        change = {"meta": {"description": "second"}}
        changed = original.call(f"CredentialsApi.update_{kind}", asset_id=asset, **{f"{kind}_update_request": change})
        assert changed["meta"]["description"] == "second"
        read = original.call(f"CredentialsApi.get_{kind}_by_id", asset_id=asset, status_info=True, usage_info=True)
        assert read["status"]["status"] == "No issues found"
        (listed,) = original.call(f"CredentialsApi.list_{many}", name=name)["entries"]
        assert listed["meta"] == read["meta"]
        (mixed,) = original.call("CredentialsApi.list_credentials_assets", name=name)["entries"]
        assert mixed["spec"][mixed["meta"]["kind"]]["keyId"] == listed["spec"]["keyId"]
        assert VALUE not in json.dumps([made, changed, read, listed, mixed])
        original.call(f"CredentialsApi.delete_{kind}", asset_id=asset)
        assert original.call(f"CredentialsApi.list_{many}", name=name)["entries"] == []


def case_registries(original: Original) -> None:
    """A real registry that asks for a login lists what was pushed to it."""
    original.platform.client._call("PUT", "/v1/k8s/setting/registries.private", {"value": True})
    user, password = LOGIN
    with tempfile.TemporaryDirectory() as folder, running_registry(Path(folder), is_secured=True) as address:
        with httpx2.Client(base_url=f"http://{address}", auth=(user, password)) as registry:
            _push(registry, "team/train", "v1", "v2")
        spec = {"url": f"http://{address}", "credentialKind": "password", "user": user, "password": password}
        body = {"meta": {"name": "own-registry", "scope": "tenant"}, "spec": spec}
        made = original.call("RegistryApi.create_registry", registry_creation_request=body)
        registry_id = made["meta"]["id"]
        assert password not in json.dumps(made)
        change = {"meta": {"name": "own-registry", "description": "Ours"}}
        original.call("RegistryApi.update_registry", asset_id=registry_id, registry_update_request=change)
        assert original.call("RegistryApi.get_registry_by_id", asset_id=registry_id)["meta"]["description"] == "Ours"
        (listed,) = original.call("RegistryApi.list_registries", name="own-registry")["entries"]
        assert listed["spec"]["user"] == user
        found = original.call("RegistryApi.get_repositories", asset_id=registry_id)
        assert found == {"repositories": ["team/train"]}
        tags = original.call("RegistryApi.get_repository_tags", asset_id=registry_id, repository="team/train")
        assert sorted(tags["tags"]) == ["v1", "v2"]
        named = original.call("CredentialsApi.list_docker_registries", name="own-registry")["entries"]
        assert [each["meta"]["id"] for each in named] == [registry_id], "images are pulled with it"
        original.call("RegistryApi.delete_registry", asset_id=registry_id)
    assert original.call("RegistryApi.list_registries", name="own-registry")["entries"] == []


def _push(registry: httpx2.Client, name: str, *tags: str) -> None:
    """An image without layers."""
    configuration = b"{}"
    digest = f"sha256:{hashlib.sha256(configuration).hexdigest()}"
    place = registry.post(f"/v2/{name}/blobs/uploads/").headers["location"]
    stored = registry.put(f"{place}&digest={digest}", content=configuration)
    assert stored.status_code == 201, stored.text
    kind = "application/vnd.oci.image.manifest.v1+json"
    about = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": len(configuration)}
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": about, "layers": []}
    for tag in tags:
        answer = registry.put(
            f"/v2/{name}/manifests/{tag}", content=json.dumps(manifest), headers={"Content-Type": kind}
        )
        assert answer.status_code == 201, answer.text
