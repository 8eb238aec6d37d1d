"""The one client of the control plane: a method per call, answers as values, errors as problems.

Every creating call carries an `Idempotency-Key`, so that a call whose answer was lost may be made again. A client is
for one thread. Requests are checked and answers made by the server; here both are plain JSON, read as `Record`s whose
static types are the models of `api/`. Nothing here imports those: commands are started often and are over soon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairpool.api.calls import TIMEOUT_S, Calls, event_data, plain_body, refused_answer
from fairpool.api.calls import Refused as Refused
from fairpool.api.calls import new_key as new_key
from fairpool.api.limits import PROJECTS
from fairpool.api.loopback import Unreachable as Unreachable

if TYPE_CHECKING:
    from fairpool.api import access, assets, organization, overview, questions, uploads, workload_spec
    from fairpool.api import audit as audit_wire
    from fairpool.api import nodes as nodes_wire
    from fairpool.api import settings as settings_wire
    from fairpool.api import workloads as work
    from fairpool.api.shell_client import Shell
    from fairpool.api.wire import Request

    Json = Mapping[str, Any]
    Body = Request | Json

PATHS = {
    "Workspace": "workspaces",
    "Training": "trainings",
    "Distributed": "distributed",
    "Inference": "inferences",
}
DEPARTMENTS = "/api/v1/org-unit/departments"
TEMPLATES = "/api/v1/asset/workload-template"
CHANGES_SILENCE_S = 60.0
"""The stream of changes carries a comment more often than that."""
COMMAND_IN_ADDRESS_MAX = 4000
"""Bytes; servers read no more than 8 KB of a request's first line. A longer command is sent as the first message."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A workload to submit, as it travels: `kind` is Workspace, Training, Distributed or Inference."""

    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """An event of the change feed: what changed, and its new state."""

    revision: int
    noun: str
    id: str
    verb: str
    project: str | None
    object: dict[str, Any] | None


class Client(Calls):
    """Calls to one control plane, as one caller."""

    # --- who is calling --------------------------------------------------------------------------------------

    def sign_in(self, username: str, password: str) -> access.TokenAnswer:
        """Exchange a password for a token, and use it from now on."""
        return self._token({"grantType": "password", "username": username, "password": password})

    def sign_in_application(self, client_id: str, client_secret: str) -> access.TokenAnswer:
        return self._token({"grantType": "client_credentials", "clientId": client_id, "clientSecret": client_secret})

    def renew(self, refresh_token: str) -> access.TokenAnswer:
        return self._token({"grantType": "refresh_token", "refreshToken": refresh_token})

    def sign_out(self) -> None:
        """Revoke the token."""
        self._call("POST", "/api/v1/me/logout")
        self.token = None

    def me(self) -> access.Me:
        return self._get("/api/v1/me")

    def change_password(self, current: str, new: str) -> None:
        self._call("POST", "/api/v1/me/password", {"currentPassword": current, "newPassword": new})

    def users(self) -> list[access.User]:
        return self._all("/api/v1/users", "users")

    def create_user(self, request: access.UserRequest | Json) -> access.NewUser:
        return self._post("/api/v1/users", request)

    def delete_user(self, user_id: str) -> None:
        self._call("DELETE", f"/api/v1/users/{user_id}")

    def reset_password(self, user_id: str) -> str:
        """A new password that must be changed at the next sign-in."""
        return self._post(f"/api/v1/users/{user_id}/password").temp_password

    def roles(self) -> list[access.Role]:
        return self._all("/api/v1/authorization/roles", "roles")

    def access_rules(self) -> list[access.AccessRule]:
        return self._all("/api/v1/authorization/access-rules", "accessRules")

    def create_access_rule(self, request: access.AccessRuleRequest | Json) -> access.AccessRule:
        return self._post("/api/v1/authorization/access-rules", request)

    def create_access_rules(self, requests: Sequence[access.AccessRuleRequest | Json]) -> access.AccessRuleBatchAnswer:
        body = {"payload": [plain_body(each) for each in requests]}
        return self._post("/api/v1/authorization/access-rules/batch-create", body)

    def delete_access_rules(self, ids: Sequence[str]) -> access.AccessRuleBatchAnswer:
        return self._post("/api/v1/authorization/access-rules/batch", {"ids": list(ids), "action": "delete"})

    def delete_access_rule(self, rule_id: str) -> None:
        self._call("DELETE", f"/api/v1/authorization/access-rules/{rule_id}")

    def applications(self) -> list[access.Application]:
        return self._all("/api/v1/apps", "apps")

    def create_application(self, request: access.ApplicationRequest | Json) -> access.NewApplication:
        return self._post("/api/v1/apps", request)

    def new_application_secret(self, application_id: str) -> access.NewApplication:
        """Its earlier secret is revoked."""
        return self._post(f"/api/v1/apps/{application_id}/secret")

    def delete_application(self, application_id: str) -> None:
        self._call("DELETE", f"/api/v1/apps/{application_id}")

    # --- workloads -------------------------------------------------------------------------------------------

    def submit(self, request: workload_spec.SubmitAny | Submission, key: str | None = None) -> work.Workload:
        """Submit a workload. With the same key it is created once, however often this is called."""
        path, body = _submitted(request)
        return self._post(path, body, key)

    def check(self, request: workload_spec.SubmitAny | Submission) -> work.Workload:
        """What submitting this would answer; nothing is submitted."""
        path, body = _submitted(request)
        return self._read(self._call("POST", path, body, params={"dryRun": "true"}))

    def begin_upload(self, project: str, archive_bytes: int) -> uploads.UploadAnswer:
        """Announce the archive of a folder."""
        body = {"projectId": project, "archiveBytes": archive_bytes}
        return self._read(self._call("POST", "/api/v1/uploads", body))

    def write_upload(self, upload_id: str, offset: int, piece: bytes) -> uploads.UploadAnswer:
        """Send a piece of it; one whose answer was lost may be sent again."""
        headers = {**self._headers(), "Content-Type": "application/octet-stream"}
        path = f"/api/v1/uploads/{upload_id}"
        answer = self._sent("PUT", path, content=piece, params={"offset": offset}, headers=headers)
        return self._read(answer)

    def finish_upload(self, upload_id: str) -> uploads.UploadAnswer:
        """Unpack it."""
        return self._read(self._call("POST", f"/api/v1/uploads/{upload_id}/complete"))

    def remove_upload(self, upload_id: str) -> None:
        """Delete an upload that no job uses."""
        self._call("DELETE", f"/api/v1/uploads/{upload_id}")

    def workloads(
        self,
        *,
        filters: Sequence[str] = (),
        search: str = "",
        sort_by: str = "",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> work.WorkloadPage:
        """One page, for instance with `filters=["phase==Running", "projectName==team-a"]`."""
        params: dict[str, Any] = {"offset": offset, "limit": limit}
        if filters:
            params["filterBy"] = ",".join(filters)
        if search:
            params["search"] = search
        if sort_by:
            params |= {"sortBy": sort_by, "sortOrder": "desc" if descending else "asc"}
        return self._get("/api/v1/workloads", params)

    def all_workloads(self, *, filters: Sequence[str] = ()) -> list[work.WorkloadItem]:
        """Every page, by project and name."""
        params = {"filterBy": ",".join(filters)} if filters else {}
        found = self._all("/api/v1/workloads", "workloads", params)
        return sorted(found, key=lambda each: (each.project_name, each.name))

    def workload(self, workload_id: str) -> work.Workload:
        return self._get(f"/api/v1/workloads/{workload_id}")

    def find_workload(self, project: str, name: str) -> work.WorkloadItem | None:
        """The one that has this name now; a deleted one has given it up."""
        page = self.workloads(filters=[f"projectName=={project}", f"name=={name}", "desiredPhase!=Deleted"], limit=1)
        return page.workloads[0] if page.workloads else None

    def events(self, workload_id: str) -> list[work.EventItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/events", "events")

    def history(self, workload_id: str) -> list[work.PodItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/history", "history")

    def pods(self, workload_id: str) -> list[work.PodItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/pods", "pods")

    def suspend(self, workload_id: str) -> None:
        self._call("POST", f"/api/v1/workloads/{workload_id}/suspend")

    def resume(self, workload_id: str) -> None:
        self._call("POST", f"/api/v1/workloads/{workload_id}/resume")

    def leaving_workloads(self, project: str, name: str) -> list[work.WorkloadItem]:
        """Those of this name that are being deleted."""
        filters = [f"projectName=={project}", f"name=={name}", "desiredPhase==Deleted"]
        return self.all_workloads(filters=filters)

    def delete_workload(self, workload_id: str, *, force: bool = False) -> None:
        """`force`: kill its pods at once, also if it is being deleted already."""
        self._call("DELETE", f"/api/v1/workloads/{workload_id}{'?force=true' if force else ''}")

    def batch(self, ids: Sequence[str], action: str, *, force: bool = False) -> work.BatchAnswer:
        """`action` is delete, suspend or resume."""
        return self._post("/api/v1/workloads/batch", {"ids": list(ids), "action": action, "force": force})

    def logs(
        self,
        workload_id: str,
        *,
        pod: str | None = None,
        tail: int | None = None,
        offset: int = 0,
        since: str | None = None,
        timestamps: bool = False,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """What a pod wrote, as it comes; which pod without `pod`: see `pod_choice.pod_to_read`. `since` is a time, or
        how long ago: `10m`."""
        switches = {"timestamps": timestamps, "follow": follow, "offset": offset}
        params = {"pod": pod, "tail": tail, "since": since, **{name: on for name, on in switches.items() if on}}
        said = {name: value for name, value in params.items() if value is not None}
        path = f"/api/v1/workloads/{workload_id}/logs"
        with self._stream("GET", path, params=said, silence_s=None if follow else TIMEOUT_S) as pieces:
            yield from pieces

    def snapshot(self, cluster: str, *, pool: str | None = None, cycle: int | None = None) -> Iterator[bytes]:
        """What the scheduler of a cluster sees now, or saw in a past cycle, as the bytes of a snapshot file."""
        said = {"nodePool": pool, "cycle": cycle}
        params = {name: value for name, value in said.items() if value is not None}
        with self._stream("GET", f"/api/v1/clusters/{cluster}/snapshot", params=params) as pieces:
            yield from pieces

    def past_cycles(self, cluster: str) -> list[questions.PastCycle]:
        """Past cycles whose snapshots are kept, the newest first."""
        return self._get(f"/api/v1/clusters/{cluster}/cycles").cycles

    def what_if(self, cluster: str, request: questions.WhatIfRequest | Json) -> questions.WhatIfAnswer:
        """The plan of a cluster as it is, and with changes."""
        return self._read(self._call("POST", f"/api/v1/clusters/{cluster}/what-if", request))

    @contextmanager
    def shell(
        self, workload_id: str, command: Sequence[str] = (), *, pod: str | None = None, tty: bool = False
    ) -> Iterator[Shell]:
        """A process in a pod, or with no command the pod's own, with its streams; raises `Refused` before it begins."""
        from urllib.parse import urlencode

        params: list[tuple[str, Any]] = [("command", word) for word in command]
        follows = len(urlencode(params)) > COMMAND_IN_ADDRESS_MAX
        if follows:
            params = [("commandFollows", True)]
        params += [("tty", tty), *([("pod", pod)] if pod else [])]
        path = f"/api/v1/workloads/{workload_id}/{'exec' if command else 'attach'}"
        with self._frames(path, params) as shell:
            if follows:
                shell.send_command(command)
            yield shell

    @contextmanager
    def port(self, workload_id: str, port: int, *, pod: str | None = None) -> Iterator[Shell]:
        """A connection to a port of a pod, with the frames of a shell; raises `Refused` before it begins."""
        params = [("port", port), *([("pod", pod)] if pod else [])]
        with self._frames(f"/api/v1/workloads/{workload_id}/port-forward", params) as connection:
            yield connection

    @contextmanager
    def _frames(self, path: str, params: Sequence[tuple[str, Any]]) -> Iterator[Shell]:
        from fairpool.api.network import UpgradeRefused  # takes 100 ms, and not every command has a shell
        from fairpool.api.shell_client import MESSAGE_MAX, Shell

        try:
            with self._http.websocket(path, params=params, headers=self._headers(), message_max=MESSAGE_MAX) as socket:
                yield Shell(socket)
        except UpgradeRefused as error:
            raise refused_answer(error.reply) from error

    def claims(self, project: str) -> list[work.ClaimItem]:
        """Volume claims of a project."""
        return self._get("/api/v1/claims", {"projectId": project}).claims

    def priorities(self) -> list[work.PriorityClass]:
        return self._all("/api/v1/workload-priorities", "workloadPriorities")

    # --- organization ----------------------------------------------------------------------------------------

    def projects(self) -> list[organization.Project]:
        return self._all(PROJECTS, "projects")

    def project(self, project_id: str) -> organization.Project:
        return self._get(f"{PROJECTS}/{project_id}")

    def create_project(self, request: organization.ProjectRequest | Json) -> organization.Project:
        return self._post(PROJECTS, request)

    def replace_project(
        self, request: organization.ProjectRequest | Json, revision: int | None = None
    ) -> organization.Project:
        """Replace all of it; with a revision only if it has not changed since."""
        return self._change("PUT", f"{PROJECTS}/{plain_body(request)['name']}", request, revision)

    def update_project(
        self, project_id: str, request: organization.ProjectUpdate | Json, revision: int | None = None
    ) -> organization.Project:
        return self._change("PATCH", f"{PROJECTS}/{project_id}", request, revision)

    def set_project_resources(
        self, project_id: str, request: organization.ResourcesUpdate | Json, revision: int | None = None
    ) -> organization.Project:
        return self._change("PUT", f"{PROJECTS}/{project_id}/resources", request, revision)

    def delete_project(self, project_id: str, *, workloads: str | None = None, move_to: str | None = None) -> None:
        """With work in it this is refused with the choices: `workloads="delete"` or `workloads="move", move_to=…`."""
        params = {"workloads": workloads, "to": move_to}
        said = {name: value for name, value in params.items() if value is not None}
        self._call("DELETE", f"{PROJECTS}/{project_id}", params=said)

    def departments(self) -> list[organization.Department]:
        return self._all(DEPARTMENTS, "departments")

    def create_department(self, request: organization.DepartmentRequest | Json) -> organization.Department:
        return self._post(DEPARTMENTS, request)

    def replace_department(
        self, request: organization.DepartmentRequest | Json, revision: int | None = None
    ) -> organization.Department:
        return self._change("PUT", f"{DEPARTMENTS}/{plain_body(request)['name']}", request, revision)

    def update_department(
        self, department_id: str, request: organization.DepartmentUpdate | Json, revision: int | None = None
    ) -> organization.Department:
        return self._change("PATCH", f"{DEPARTMENTS}/{department_id}", request, revision)

    def delete_department(self, department_id: str) -> None:
        self._call("DELETE", f"{DEPARTMENTS}/{department_id}")

    # --- templates -------------------------------------------------------------------------------------------

    def templates(self) -> list[assets.Template]:
        return self._all(TEMPLATES, "entries")

    def create_template(self, request: assets.TemplateRequest | Json) -> assets.Template:
        return self._post(TEMPLATES, request)

    def replace_template(
        self, template_id: str, request: assets.TemplateRequest | Json, revision: int | None = None
    ) -> assets.Template:
        return self._change("PUT", f"{TEMPLATES}/{template_id}", request, revision)

    def delete_template(self, template_id: str) -> None:
        self._call("DELETE", f"{TEMPLATES}/{template_id}")

    # --- nodes and clusters ----------------------------------------------------------------------------------

    def nodes(self) -> list[nodes_wire.NodeAnswer]:
        return self._all("/api/v1/nodes", "nodes")

    def node(self, name: str, cluster: str | None = None) -> nodes_wire.NodeDetail:
        """The cluster must be named if several have a node of this name."""
        return self._get(f"/api/v1/nodes/{name}", {"clusterId": cluster} if cluster else None)

    def overview(self) -> overview.Overview:
        """Nodes, projects and running work as they were at one moment."""
        return self._get("/api/v1/overview")

    def override_node(
        self,
        node: str,
        overrides: nodes_wire.NodeOverridesRequest | Json,
        revision: int | None = None,
        cluster: str | None = None,
    ) -> nodes_wire.NodeAnswer:
        """Replace what administrators set on a node; with a revision only if it has not changed since."""
        where = f"?clusterId={cluster}" if cluster else ""
        return self._change("PUT", f"/api/v1/nodes/{node}/overrides{where}", overrides, revision)

    def node_pools(self) -> list[nodes_wire.NodePoolAnswer]:
        return self._all("/api/v1/node-pools", "nodepools")

    def create_node_pool(self, request: nodes_wire.NodePoolRequest | Json) -> nodes_wire.NodePoolAnswer:
        return self._post("/api/v1/node-pools", request)

    def node_pool(self, pool: str) -> nodes_wire.NodePoolAnswer:
        return self._get(f"/api/v1/node-pools/{pool}")

    def update_node_pool(
        self, pool: str, request: nodes_wire.NodePoolUpdate | Json, revision: int | None = None
    ) -> nodes_wire.NodePoolAnswer:
        return self._change("PATCH", f"/api/v1/node-pools/{pool}", request, revision)

    def delete_node_pool(self, pool: str) -> None:
        self._call("DELETE", f"/api/v1/node-pools/{pool}")

    def clusters(self) -> list[nodes_wire.ClusterAnswer]:
        return self._all("/api/v1/clusters", "clusters")

    def create_cluster(self, request: nodes_wire.ClusterRequest | Json) -> nodes_wire.NewCluster:
        return self._post("/api/v1/clusters", request)

    def new_cluster_token(self, cluster_id: str) -> nodes_wire.NewCluster:
        """Its earlier tokens are revoked."""
        return self._post(f"/api/v1/clusters/{cluster_id}/token")

    def replace_cluster(
        self, cluster_id: str, request: nodes_wire.ClusterRequest | Json, revision: int | None = None
    ) -> nodes_wire.ClusterAnswer:
        return self._change("PUT", f"/api/v1/clusters/{cluster_id}", request, revision)

    def delete_cluster(self, cluster_id: str) -> None:
        self._call("DELETE", f"/api/v1/clusters/{cluster_id}")

    def settings(self) -> list[settings_wire.Setting]:
        return self._get("/v1/k8s/setting").settings

    def change_setting(
        self, key: str, request: settings_wire.SettingRequest | Json, revision: int | None = None
    ) -> settings_wire.Setting:
        return self._change("PUT", f"/v1/k8s/setting/{key}", request, revision)

    def audit(self, *, limit: int = 50, offset: int = 0) -> list[audit_wire.AuditEntry]:
        params = {"limit": limit, "offset": offset}
        return self._get("/api/v1/audit/log", params).entries

    # --- changes ---------------------------------------------------------------------------------------------

    def changes(self, after: int | None = None) -> Iterator[Change]:
        """What changes from now on, or since a revision, without end; after a broken connection it goes on where it
        was. A `reset` means that too much happened meanwhile: read everything again."""
        while True:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            try:
                with self._stream("GET", "/api/v1/changes", headers=headers, silence_s=CHANGES_SILENCE_S) as pieces:
                    for data in event_data(pieces):
                        change = _change(json.loads(data))
                        after = change.revision
                        yield change
            except Unreachable:
                if after is None:
                    raise

    def _token(self, request: Mapping[str, str]) -> access.TokenAnswer:
        self.token = None
        answer = self._read(self._call("POST", "/api/v1/token", request))
        self.token = answer.access_token
        return answer


def _change(data: dict[str, Any]) -> Change:
    return Change(
        revision=data["revision"],
        noun=data["noun"],
        id=data["id"],
        verb=data["verb"],
        project=data.get("projectId"),
        object=data.get("object"),
    )


def _submitted(request: workload_spec.SubmitAny | Submission) -> tuple[str, Body]:
    if isinstance(request, Submission):
        return f"/api/v1/workloads/{PATHS[request.kind]}", request.body
    return f"/api/v1/workloads/{PATHS[type(request).__name__.removeprefix('Submit')]}", request
