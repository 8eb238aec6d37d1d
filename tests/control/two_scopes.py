"""Two departments with one of everything in each, and a user for every built-in role whose rule ends at the first.

What belongs to the first has a name that begins with `near-`, what belongs to the second one with `far-`. A caller
whose rule is for department near must never be told a name or an id of the second.
"""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fairpool.control.app import ROUTES
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.openapi import openapi_document
from fairpool.control.outbound import Network
from fairpool.control.outbound_rules import Address
from fairpool.control.routes import IN_PATH, Document
from fairpool.control.store import identity_providers as provider_store
from fairpool.model.upload import Bounds, Upload
from tests.control.control_plane import ControlPlane, control_plane, node
from tests.control.pod_access_fakes import NoPodAccess

NEAR, FAR = "near", "far"
SECRET = "never-to-be-told"
"""In descriptions and values of what belongs to the second department; no request contains it."""
KINDS = ("workspaces", "trainings", "distributed", "inferences")
ASSET_SPECS: Mapping[str, Any] = {
    "compute": {"gpuDevicesRequest": 1},
    "environment": {"image": "python"},
    "workload-template": {"image": "quickstart"},
    "datasource/config-map": {"mountPath": "/etc/settings", "name": "settings"},
    "datasource/git": {"path": "/code", "repository": "https://git.example.com/train.git"},
    "datasource/host-path": {"mountPath": "/data", "path": "/raid/data"},
    "datasource/nfs": {"mountPath": "/data", "path": "/export", "server": "files.example.com"},
    "datasource/pvc": {"claimName": "data", "path": "/data"},
    "datasource/s3": {"bucket": "images", "path": "/data", "url": "https://s3.example.com"},
    "datasource/secrets": {"mountPath": "/etc/certificates", "name": "certificates"},
}
PRIVATE = ("access-keys", "user-applications", "subscriptions", "notification-webhooks")
"""What belongs to one account, whatever its roles."""
LISTS = (
    *("workloads", "workload-templates", "org-unit/departments", "org-unit/projects", "users", "apps"),
    *("service-accounts", "authorization/access-rules", "asset/workload-template", "asset/environment"),
    *("asset/compute", "asset/datasource", "asset/credentials", "asset/registries", "claims"),
)
"""What an administrator is shown of all departments."""
SHARED: Mapping[str, str] = {
    "pool_id": "default",
    "node": "n1",
    "role_id": "researcher",
    "topology": "fabric",
    "idp": "corp",
    "key": "security.passwordMinLength",
    "category_id": "Build",
    "type_id": "Training",
    "realm": "runai",
}
"""What belongs to no department."""
READ_AT = re.compile(r'(?<=[{,])"(?:timestamp|asOf)":"[^"]*",?')
"""When an answer was read, which is another moment each time."""
TELEMETRY = {"nodes": "TOTAL_GPUS", "org-unit": "GPU_QUOTA", "workloads": "WORKLOADS_COUNT"}
OF_STREAMS: Mapping[str, Mapping[str, str]] = {
    "changes": {"after": "0"},
    "exec": {"command": "true"},
    "port-forward": {"port": "8080"},
}
"""Queries of routes that the OpenAPI document says less about."""


class HeldUploads(NoPodAccess):
    """Uploads that are there for each owner, whatever is done with them."""

    def __init__(self) -> None:
        self.held: list[Upload] = []

    async def uploads(self) -> list[Upload]:
        return self.held

    async def claim_upload(self, upload_id: str) -> Upload | None:
        return next((each for each in self.held if each.id == upload_id), None)

    async def begin_upload(self, upload: Upload, total_bytes: int) -> None: ...

    async def write_upload(self, upload_id: str, offset: int, piece: bytes) -> int:
        return len(piece)

    async def finish_upload(self, upload_id: str, bounds: Bounds) -> Upload:
        return next(each for each in self.held if each.id == upload_id)


@dataclass
class Place:
    """A department, its project, and the id of one thing of each kind in it."""

    name: str
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def department(self) -> str:
        return f"{self.name}-department"

    @property
    def project(self) -> str:
        return f"{self.name}-project"

    @property
    def user(self) -> str:
        return f"{self.name}-user@example.com"


class TwoScopes:
    """The world, and what a request about one of its places looks like."""

    def __init__(self, control: ControlPlane, uploads: HeldUploads) -> None:
        self.control, self._uploads = control, uploads
        self.near, self.far = Place(NEAR), Place(FAR)
        self.private: dict[str, dict[str, str]] = {}
        """By caller: the ids of what belongs to their account."""
        self.scoped = [f"near-{key}" for key in BUILT_IN]
        self.tenant = [f"all-{key}" for key in BUILT_IN]
        self._prepare()
        for place in (self.near, self.far):
            _fill(control, place)
        running = [control.runs(place.ids["trainings"]) for place in (self.near, self.far)]
        control.push(control.report(whole=True, nodes=(node("n1"),), workloads=tuple(running)))
        for key in BUILT_IN:
            self._add_caller(f"near-{key}", key, {"scopeType": "department", "scopeId": self.near.department})
            self._add_caller(f"all-{key}", key, {"scopeType": "tenant"})
        control.sign_in("far-user", self.far.user, "correct horse")
        self.private["far-user"] = self._own_things("far-user")

    def _prepare(self) -> None:
        control = self.control
        value = {"key": "notifications.webhookHosts", "value": "hooks.example.com"}
        _done(control.call("PUT", "/v1/k8s/setting", value))
        mail = {"host": "smtp.example.com", "port": 587, "from": "fairpool@example.com"}
        _done(control.call("PUT", "/api/v1/mail/settings", mail))
        topology = {"name": "fabric", "levels": ["example.com/rack"]}
        _done(control.call("POST", "/api/v1/network-topologies", topology))
        price = {"resource": "gpu", "price": "2.50", "from": "2027-01-01T00:00:00Z"}
        self.price = _done(control.call("POST", "/api/v1/accounting/prices", price))["id"]
        document = {"clientId": "c", "discoverDocumentUrl": "https://login.example.com/a", "scopes": [], "mappers": {}}
        row: dict[str, Any] = {"document": json.dumps(document), "type": "oidc", "sealed": "", "key_id": ""}
        row |= {"created_at": 0, "created_by": "", "updated_at": 0}

        async def add_provider() -> None:
            plane = control.app.state.plane
            await plane.write(lambda connection: provider_store.add_provider(connection, "corp", **row))

        assert control.http.portal is not None
        control.http.portal.call(add_provider)

    def _add_caller(self, name: str, role: str, scope: Mapping[str, str]) -> None:
        self.control.researcher(name)
        rule = {"subjectId": f"{name}@example.com", "roleId": role, **scope}
        _done(self.control.call("POST", "/api/v1/authorization/access-rules", rule))
        self.private[name] = self._own_things(name)

    def _own_things(self, name: str) -> dict[str, str]:
        """A key, a webhook and a subscription of this caller."""
        control = self.control
        key = {"name": f"{name}-key", "expiresAt": "2027-11-15T12:00:00Z"}
        made = _done(control.call("POST", "/api/v1/access-keys", key, by=name))
        hook = {"name": f"{name}-hook", "url": "https://hooks.example.com/x"}
        _done(control.call("POST", "/api/v1/notification-webhooks", hook, by=name))
        wanted = {"channels": [f"webhook:{name}-hook"], "events": [{"category": "workload", "types": ["finished"]}]}
        subscription = _done(control.call("POST", "/api/v1/subscriptions", wanted, by=name))
        period = {"name": f"{name}-report", "start": "2027-01-01T00:00:00Z", "end": "2027-02-01T00:00:00Z"}
        report = _done(control.call("POST", "/api/v1/org-unit/reports", period, by=name))
        sessions = _done(control.call("GET", "/api/v1/me/sessions", by=name))["sessions"]
        me = _done(control.call("GET", "/api/v1/me", by=name))
        place = FAR if name == "far-user" else NEAR
        upload = Upload(id=str(uuid.uuid4()), owner=me["id"], project=f"{place}-project", size_bytes=1)
        self._uploads.held.append(upload)
        return {
            "upload_id": upload.id,
            "key_id": made["id"],
            "hook": f"{name}-hook",
            "subscription_id": subscription["id"],
            "session_id": sessions[0]["id"],
            "report_id": report["id"],
        }

    # --- requests ---

    def values(self, path: str, place: Place, caller: str) -> dict[str, str]:
        """What the parameters of a path are for something in this place, or of the caller's own account."""
        mine = self.private["far-user" if place is self.far else caller]
        found = {**SHARED, "cluster_id": self.control.cluster, **place.ids, "project": place.project}
        found |= {name: mine[name] for name in ("key_id", "subscription_id", "session_id", "upload_id", "report_id")}
        found["price_id"] = self.price
        found |= {"project_id": place.project, "department_id": place.department}
        kind = next((kind for kind in KINDS if f"/{kind}/" in path), "trainings")
        found |= {"workload_id": place.ids[kind], "template_id": place.ids[f"templates/{kind}"]}
        found["pod_id"] = f"{found['workload_id']}-0-0"
        asset = next((name for name in ASSET_SPECS if f"/asset/{name}/" in path), "compute")
        found |= {"asset_id": place.ids[asset], "kind": "generic-secret"}
        if "service-accounts" in path:
            found["app_id"] = place.ids["service_account"]
        if "webhooks" in path:
            found["name"] = mine["hook"]
        elif "claims" in path:
            found["name"] = f"{place.name}-claim"
        elif "channels" in path:
            found["name"] = "email"
        else:
            found["name"] = f"{place.name}-map"
        return {name: found[name] for name in IN_PATH.findall(path)}

    def target(self, path: str, operation: Document, place: Place, caller: str) -> str:
        """Path and query of a request about something in this place."""
        wanted = {
            "projectId": place.project,
            "scope": "project",
            "scopeType": "project",
            "scopeId": place.project,
            "repository": "images/base",
            "templateName": f"{place.name}-trainings-template",
            "workloadType": "training",
            "start": "2027-01-15T00:00:00Z",
            "end": "2027-01-15T01:00:00Z",
            "metricType": "GPU_QUOTA" if "/org-unit/" in path else "GPU_UTILIZATION",
            "telemetryType": next((kind for noun, kind in TELEMETRY.items() if f"/{noun}/" in path), ""),
        }
        query = {
            each["name"]: wanted.get(each["name"], "nothing")
            for each in operation.get("parameters", ())
            if each["in"] == "query"
            and (each["required"] or (each["name"] in ("projectId", "scope") and "/policy" in path))
        }
        query |= OF_STREAMS.get(path.rpartition("/")[2], {})
        filled = path.format(**self.values(path, place, caller))
        return f"{filled}?{'&'.join(f'{name}={value}' for name, value in query.items())}" if query else filled

    def body(self, path: str, operation: Document, place: Place) -> bytes:
        """The documented example of a body, about something in this place."""
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            return b"" if not content else b"x"
        text = json.dumps(self._about(content["application/json"]["example"], place))
        text = text.replace('"team-a"', f'"{place.project}"')
        for example in ("0190c1f0-0000-7000-8000-000000000000", "7a0d4b9e-5c1f-4f0e-9d63-0f8d2f1a7c11"):
            text = text.replace(example, place.ids["rule_id"] if "access-rules" in path else place.ids["trainings"])
        if "researcher/api/v1/jobs" in path and '"hyper1"' in text and content["application/json"]["example"] != {}:
            text = text.replace('"hyper1"', f'"{place.name}-trainings"') if text.startswith("[") else text
        return re.sub(r"(ann|ben)@example.com", place.user, text).encode()

    def _about(self, example: Any, place: Place) -> Any:
        if not isinstance(example, dict):
            return example
        changed = dict(example)
        meta = changed.get("meta")
        if isinstance(meta, dict) and meta.get("scope") == "tenant":
            changed["meta"] = {**meta, "scope": "project", "projectId": place.project}
        if changed.get("parentId") == "default":
            changed["parentId"] = place.department
            changed["name"] = "new-project"
        return changed

    # --- what is so ---

    def state(self) -> dict[str, list[Any]]:
        """What calls could change, as administrators see it; the lists by their paths."""
        paths = [f"/api/v1/{name}" for name in LISTS]
        found = {path: _rows(_done(self.control.call("GET", f"{path}?limit=500"))) for path in paths}
        found["policies"] = _rows(_done(self.control.call("GET", "/api/v2/policy")))
        for place in (self.near, self.far):
            maps = self.control.call("GET", f"/api/v1/config-maps?projectId={place.project}")
            found[f"config maps of {place.name}"] = _rows(_done(maps))
        assert FAR in str(found)
        return found

    def far_state(self) -> dict[str, list[Any]]:
        """Everything of the second department and of its user, listed and in full."""
        found = {name: [row for row in rows if f"{FAR}-" in json.dumps(row)] for name, rows in self.state().items()}
        for path, item in openapi_document(ROUTES)["paths"].items():
            values = {
                name: self.values(path, place, self.scoped[0]) for name, place in ((NEAR, self.near), (FAR, self.far))
            }
            if "get" not in item or values[NEAR] == values[FAR]:
                continue
            by = "far-user" if any(word in path for word in PRIVATE) else "admin"
            answer = self.control.call("GET", self.target(path, item["get"], self.far, self.scoped[0]), by=by)
            is_json = answer.headers.get("content-type", "").startswith("application/json")
            text = READ_AT.sub("", answer.text)
            found[path] = [answer.status_code, json.loads(text) if is_json else text]
        for path in PRIVATE:
            found[path] = _rows(_done(self.control.call("GET", f"/api/v1/{path}", by="far-user")))
        return {path: _without_warnings(each) for path, each in found.items()}

    def hidden(self) -> frozenset[str]:
        """The names and ids of everything in the second department."""
        values = {*self.far.ids.values(), *self.private["far-user"].values()}
        return frozenset({each for each in values if len(each) > 8} | {"far-", SECRET})


def _without_warnings(found: Any) -> Any:
    """Warnings compare what all departments together are given with what there is."""
    if isinstance(found, dict):
        return {name: _without_warnings(value) for name, value in found.items() if name != "warnings"}
    return [_without_warnings(each) for each in found] if isinstance(found, list) else found


def _fill(control: ControlPlane, place: Place) -> None:
    """One of everything."""
    words = SECRET if place.name == FAR else "seen"
    department = {"name": place.department, "description": words}
    _done(control.call("POST", "/api/v1/org-unit/departments", department))
    control.project(place.project, parentId=place.department, description=words)
    ids = place.ids
    ids.update(_accounts(control, place))
    for kind in KINDS:
        ids[kind] = _workload(control, place, kind)
        meta = {"name": f"{place.name}-{kind}-template", "scopeType": "project", "scopeId": place.project}
        body = {"meta": meta, "spec": {"image": "python"}}
        made = _done(control.call("POST", f"/api/v1/workload-templates/{kind}", body))
        ids[f"templates/{kind}"] = made["meta"]["id"]
        rules = {"worker": {"numWorkers": {"max": 8}}} if kind == "distributed" else {"image": {"required": True}}
        policy = {"name": f"{place.name}-{kind}-policy", "scope": "project", "projectId": place.project}
        _done(control.call("PUT", f"/api/v2/policy/{kind}", {"meta": policy, "policy": {"rules": rules}}))
    for kind, spec in ASSET_SPECS.items():
        meta = {"scope": "project", "projectId": place.project, "description": words}
        name = f"{place.name}-{kind.rpartition('/')[2]}"
        made = _done(control.call("POST", f"/api/v1/asset/{kind}", {"meta": {**meta, "name": name}, "spec": spec}))
        ids[kind] = made["meta"]["id"] if "meta" in made else made["id"]
    ids.update(_secrets(control, place))


def _workload(control: ControlPlane, place: Place, kind: str) -> str:
    spec: dict[str, Any] = {"image": "quickstart", "labels": {"team": place.name}}
    if kind == "inferences":
        spec["servingPort"] = {"container": 8000}
    if kind == "trainings":
        info = {"size": "1Gi", "accessModes": {"readWriteMany": True}, "volumeMode": "Filesystem"}
        claim = {"claimName": f"{place.name}-claim", "claimInfo": info, "existingPvc": False, "path": "/pvc"}
        spec["storage"] = {"pvc": [claim]}
    body = {"name": f"{place.name}-{kind}", "projectId": place.project, "spec": spec}
    return str(_done(control.call("POST", f"/api/v1/workloads/{kind}", body))["id"])


def _accounts(control: ControlPlane, place: Place) -> dict[str, str]:
    user = {"email": place.user, "password": "correct horse", "needToChangePassword": False}
    ids = {"user_id": _done(control.call("POST", "/api/v1/users", user))["id"]}
    linked = control.call("POST", "/api/v1/idps/corp/links", {"user": place.user, "subject": place.name})
    assert linked.status_code == 204, linked.text
    rule = {"subjectId": place.user, "roleId": "researcher", "scopeType": "project", "scopeId": place.project}
    ids["rule_id"] = str(_done(control.call("POST", "/api/v1/authorization/access-rules", rule))["id"])
    for name, path in (("app_id", "apps"), ("service_account", "service-accounts")):
        ids[name] = _done(control.call("POST", f"/api/v1/{path}", {"name": f"{place.name}-{path}"}))["id"]
    return ids


def _secrets(control: ControlPlane, place: Place) -> dict[str, str]:
    meta = {"scope": "project", "projectId": place.project}
    body = {"meta": {**meta, "name": f"{place.name}-secret"}, "spec": {"data": {"token": "hf_0000"}}}
    made = _done(control.call("POST", "/api/v1/asset/credentials/generic-secret", body))
    spec = {"url": "https://registry.example.com", "user": "ann", "password": "correct horse"}
    registry = {"meta": {**meta, "name": f"{place.name}-registry"}, "spec": spec}
    kept = _done(control.call("POST", "/api/v1/asset/registries", registry))
    config = {"name": f"{place.name}-map", "projectId": place.project, "data": {"epochs": place.name}}
    _done(control.call("POST", "/api/v1/config-maps", config))
    return {"credential_id": made["meta"]["id"], "registry_id": kept["meta"]["id"]}


def _no_address(host: str, port: int) -> list[Address]:
    raise OSError(f"{host} has no address in this world")


def _unreachable(address: Address, port: int, timeout_s: float) -> socket.socket:
    raise OSError(f"{address} is not reached in this world")


def _rows(answer: Any) -> list[Any]:
    """The rows of a list, which is the whole answer or the one list in it."""
    lists = [answer] if isinstance(answer, list) else [each for each in answer.values() if isinstance(each, list)]
    assert len(lists) == 1, answer
    return list(lists[0])


def _done(answer: Any) -> Any:
    assert answer.status_code in (200, 201, 202, 204), answer.text
    return answer.json() if answer.content else None


@contextmanager
def two_scopes(**settings: Any) -> Iterator[TwoScopes]:
    uploads = HeldUploads()
    network = Network(_no_address, _unreachable)
    chosen = {"network": network, "pull_wait_s": 0.0, "keep_alive_s": 0.01, "access_token_s": 10**7, **settings}
    with control_plane(pod_access=uploads, **chosen) as control:
        yield TwoScopes(control, uploads)
