"""The one client of the control plane: a method per call, answers as values, errors as problems.

Every creating call carries an `Idempotency-Key`, so that a call whose answer was lost may be made again. A client is
for one thread. Whoever needs another transport (tests, the embedded mode) hands over the `httpx2.Client` to use, or a
`LoopbackHttp`. What not every call needs is imported later, because commands are started often and are over soon.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fairpool.api.later import Later
from fairpool.api.loopback import LoopbackHttp, Reply
from fairpool.api.wire import PAGE_MAX, Answer, Request

if TYPE_CHECKING:
    import httpx2

    from fairpool.api import access, organization, overview, problems, uploads, workload_spec
    from fairpool.api import audit as audit_wire
    from fairpool.api import nodes as nodes_wire
    from fairpool.api import workloads as work
    from fairpool.api.shell import Shell
else:
    httpx2 = Later("httpx2")
    problems = Later("fairpool.api.problems")
    access = Later("fairpool.api.access")
    organization = Later("fairpool.api.organization")
    overview = Later("fairpool.api.overview")
    work = Later("fairpool.api.workloads")
    uploads = Later("fairpool.api.uploads")

AnswerT = TypeVar("AnswerT", bound=Answer)

PATHS = {
    "SubmitWorkspace": "workspaces",
    "SubmitTraining": "trainings",
    "SubmitDistributed": "distributed",
    "SubmitInference": "inferences",
}
PROJECTS = "/api/v1/org-unit/projects"
DEPARTMENTS = "/api/v1/org-unit/departments"
SWITCHED = 101
COMMAND_IN_ADDRESS_MAX = 4000
"""Bytes; servers read no more than 8 KB of a request's first line. A longer command is sent as the first message."""


class Refused(Exception):
    """The control plane said no, and why."""

    def __init__(
        self, status: int, items: Sequence[problems.ProblemItem], choices: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.items = tuple(items)
        """Every problem, each with the field of the request that it is about, where there is one."""
        self.problems = tuple(each.problem() for each in items)
        self.choices = dict(choices or {})
        super().__init__("; ".join(str(problem) for problem in self.problems))


class Unreachable(Exception):
    """No answer came: it may have been done or not."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something changed: what, and where it stands now."""

    revision: int
    noun: str
    id: str
    verb: str
    project: str | None
    object: dict[str, Any] | None


class Client:
    """Calls to one control plane, as one caller."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        http: httpx2.Client | LoopbackHttp | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self._http = http or httpx2.Client(base_url=address, timeout=timeout_s)
        self.token = token

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- who is calling --------------------------------------------------------------------------------------

    def sign_in(self, username: str, password: str) -> access.TokenAnswer:
        """Exchange a password for a token, and use it from now on."""
        return self._token(
            access.TokenRequest(grant_type=access.GrantType.PASSWORD, username=username, password=password)
        )

    def sign_in_application(self, client_id: str, client_secret: str) -> access.TokenAnswer:
        grant = access.GrantType.CLIENT_CREDENTIALS
        return self._token(access.TokenRequest(grant_type=grant, client_id=client_id, client_secret=client_secret))

    def renew(self, refresh_token: str) -> access.TokenAnswer:
        grant = access.GrantType.REFRESH_TOKEN
        return self._token(access.TokenRequest(grant_type=grant, refresh_token=refresh_token))

    def sign_out(self) -> None:
        """Make the token worthless, here and there."""
        self._call("POST", "/api/v1/me/logout")
        self.token = None

    def me(self) -> access.Me:
        return self._get(access.Me, "/api/v1/me")

    def change_password(self, current: str, new: str) -> None:
        body = access.PasswordChange(current_password=current, new_password=new)
        self._call("POST", "/api/v1/me/password", body)

    def users(self) -> list[access.User]:
        return self._all("/api/v1/users", "users", access.User)

    def create_user(self, request: access.UserRequest) -> access.NewUser:
        return self._post(access.NewUser, "/api/v1/users", request)

    def delete_user(self, user_id: str) -> None:
        self._call("DELETE", f"/api/v1/users/{user_id}")

    def reset_password(self, user_id: str) -> str:
        """A new password that must be changed at the next sign-in."""
        return self._post(access.PasswordAnswer, f"/api/v1/users/{user_id}/password").temp_password

    def roles(self) -> list[access.Role]:
        return self._all("/api/v1/authorization/roles", "roles", access.Role)

    def access_rules(self) -> list[access.AccessRule]:
        return self._all("/api/v1/authorization/access-rules", "accessRules", access.AccessRule)

    def create_access_rule(self, request: access.AccessRuleRequest) -> access.AccessRule:
        return self._post(access.AccessRule, "/api/v1/authorization/access-rules", request)

    def create_access_rules(self, requests: Sequence[access.AccessRuleRequest]) -> access.AccessRuleBatchAnswer:
        body = access.AccessRuleBatchCreate(payload=list(requests))
        return self._post(access.AccessRuleBatchAnswer, "/api/v1/authorization/access-rules/batch-create", body)

    def delete_access_rules(self, ids: Sequence[str]) -> access.AccessRuleBatchAnswer:
        body = access.AccessRuleBatch(ids=list(ids), action=access.AccessRuleBatchAction.DELETE)
        return self._post(access.AccessRuleBatchAnswer, "/api/v1/authorization/access-rules/batch", body)

    def delete_access_rule(self, rule_id: str) -> None:
        self._call("DELETE", f"/api/v1/authorization/access-rules/{rule_id}")

    def applications(self) -> list[access.Application]:
        return self._all("/api/v1/apps", "apps", access.Application)

    def create_application(self, request: access.ApplicationRequest) -> access.NewApplication:
        return self._post(access.NewApplication, "/api/v1/apps", request)

    def delete_application(self, application_id: str) -> None:
        self._call("DELETE", f"/api/v1/apps/{application_id}")

    # --- workloads -------------------------------------------------------------------------------------------

    def submit(self, request: workload_spec.SubmitAny, key: str | None = None) -> work.Workload:
        """Declare a workload. With the same key it is declared once, however often this is called."""
        return self._post(work.Workload, f"/api/v1/workloads/{PATHS[type(request).__name__]}", request, key)

    def check(self, request: workload_spec.SubmitAny) -> work.Workload:
        """What submitting this would answer; nothing is submitted."""
        path = f"/api/v1/workloads/{PATHS[type(request).__name__]}"
        return self._read(work.Workload, self._call("POST", path, request, params={"dryRun": "true"}))

    def begin_upload(self, project: str, archive_bytes: int) -> uploads.UploadAnswer:
        """Announce the archive of a folder."""
        body = uploads.UploadRequest(project_id=project, archive_bytes=archive_bytes)
        return self._read(uploads.UploadAnswer, self._call("POST", "/api/v1/uploads", body))

    def write_upload(self, upload_id: str, offset: int, piece: bytes) -> uploads.UploadAnswer:
        """Send a piece of it; one whose answer was lost may be sent again."""
        headers = {**self._headers(), "Content-Type": "application/octet-stream"}
        path = f"/api/v1/uploads/{upload_id}"
        answer = self._sent("PUT", path, content=piece, params={"offset": offset}, headers=headers)
        return self._read(uploads.UploadAnswer, answer)

    def finish_upload(self, upload_id: str) -> uploads.UploadAnswer:
        """Have it unpacked."""
        return self._read(uploads.UploadAnswer, self._call("POST", f"/api/v1/uploads/{upload_id}/complete"))

    def remove_upload(self, upload_id: str) -> None:
        """Of one that no job uses."""
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
        return self._get(work.WorkloadPage, "/api/v1/workloads", params)

    def all_workloads(self, *, filters: Sequence[str] = ()) -> list[work.WorkloadItem]:
        """Every page, by project and name."""
        params = {"filterBy": ",".join(filters)} if filters else {}
        found = self._all("/api/v1/workloads", "workloads", work.WorkloadItem, params)
        return sorted(found, key=lambda each: (each.project_name, each.name))

    def workload(self, workload_id: str) -> work.Workload:
        return self._get(work.Workload, f"/api/v1/workloads/{workload_id}")

    def find_workload(self, project: str, name: str) -> work.WorkloadItem | None:
        """The one that has this name now; a deleted one has given it up."""
        page = self.workloads(filters=[f"projectName=={project}", f"name=={name}", "desiredPhase!=Deleted"], limit=1)
        return page.workloads[0] if page.workloads else None

    def events(self, workload_id: str) -> list[work.EventItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/events", "events", work.EventItem)

    def history(self, workload_id: str) -> list[work.PodItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/history", "history", work.PodItem)

    def pods(self, workload_id: str) -> list[work.PodItem]:
        return self._all(f"/api/v1/workloads/{workload_id}/pods", "pods", work.PodItem)

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

    def batch(self, ids: Sequence[str], action: work.BatchAction, *, force: bool = False) -> work.BatchAnswer:
        body = work.BatchRequest(ids=list(ids), action=action, force=force)
        return self._post(work.BatchAnswer, "/api/v1/workloads/batch", body)

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
        """What a pod wrote, as it comes; without `pod`, the first pod's latest life. `since` is a moment, or how long
        ago: `10m`."""
        switches = {"timestamps": timestamps, "follow": follow, "offset": offset}
        params = {"pod": pod, "tail": tail, "since": since, **{name: on for name, on in switches.items() if on}}
        said = {name: value for name, value in params.items() if value is not None}
        timeout = httpx2.Timeout(30.0, read=None) if follow else httpx2.Timeout(30.0)
        path = f"/api/v1/workloads/{workload_id}/logs"
        with self._stream("GET", path, params=said, timeout=timeout) as answer:
            yield from answer.iter_raw()

    @contextmanager
    def shell(
        self, workload_id: str, command: Sequence[str] = (), *, pod: str | None = None, tty: bool = False
    ) -> Iterator[Shell]:
        """A process in a pod, or with no command the pod's own, with its streams; raises `Refused` before it begins."""
        from urllib.parse import urlencode

        from httpx2.websockets import WebSocketUpgradeError

        from fairpool.api.shell import MESSAGE_MAX, Shell

        hooks = self._http.event_hooks["response"]
        if _read_refused_shell not in hooks:
            hooks.append(_read_refused_shell)
        verb = "exec" if command else "attach"
        params: list[tuple[str, Any]] = [("command", word) for word in command]
        follows = len(urlencode(params)) > COMMAND_IN_ADDRESS_MAX
        if follows:
            params = [("commandFollows", True)]
        params += [("tty", tty), *([("pod", pod)] if pod else [])]
        address = self._http.base_url.join(f"/api/v1/workloads/{workload_id}/{verb}")
        address = address.copy_with(scheme="wss" if address.scheme == "https" else "ws")
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            with self._http.websocket(
                address, params=params, headers=headers, max_message_size_bytes=MESSAGE_MAX
            ) as socket:
                shell = Shell(socket)
                if follows:
                    shell.send_command(command)
                yield shell
        except WebSocketUpgradeError as error:
            raise _refusal(error.response) from error

    def claims(self, project: str) -> list[work.ClaimItem]:
        """Volume claims of a project."""
        return self._get(work.ClaimPage, "/api/v1/claims", {"projectId": project}).claims

    def priorities(self) -> list[work.PriorityClass]:
        return self._all("/api/v1/workload-priorities", "workloadPriorities", work.PriorityClass)

    # --- organization ----------------------------------------------------------------------------------------

    def projects(self) -> list[organization.Project]:
        return self._all(PROJECTS, "projects", organization.Project)

    def project(self, project_id: str) -> organization.Project:
        return self._get(organization.Project, f"{PROJECTS}/{project_id}")

    def create_project(self, request: organization.ProjectRequest) -> organization.Project:
        return self._post(organization.Project, PROJECTS, request)

    def replace_project(
        self, request: organization.ProjectRequest, revision: int | None = None
    ) -> organization.Project:
        """As it should be; with a revision only if nobody changed it since."""
        return self._change(organization.Project, "PUT", f"{PROJECTS}/{request.name}", request, revision)

    def update_project(
        self, project_id: str, request: organization.ProjectUpdate, revision: int | None = None
    ) -> organization.Project:
        return self._change(organization.Project, "PATCH", f"{PROJECTS}/{project_id}", request, revision)

    def set_project_resources(
        self, project_id: str, request: organization.ResourcesUpdate, revision: int | None = None
    ) -> organization.Project:
        return self._change(organization.Project, "PUT", f"{PROJECTS}/{project_id}/resources", request, revision)

    def delete_project(self, project_id: str, *, workloads: str | None = None, move_to: str | None = None) -> None:
        """With work in it this is refused with the choices: `workloads="delete"` or `workloads="move", move_to=…`."""
        params = {"workloads": workloads, "to": move_to}
        said = {name: value for name, value in params.items() if value is not None}
        self._call("DELETE", f"{PROJECTS}/{project_id}", params=said)

    def departments(self) -> list[organization.Department]:
        return self._all(DEPARTMENTS, "departments", organization.Department)

    def create_department(self, request: organization.DepartmentRequest) -> organization.Department:
        return self._post(organization.Department, DEPARTMENTS, request)

    def replace_department(
        self, request: organization.DepartmentRequest, revision: int | None = None
    ) -> organization.Department:
        return self._change(organization.Department, "PUT", f"{DEPARTMENTS}/{request.name}", request, revision)

    def update_department(
        self, department_id: str, request: organization.DepartmentUpdate, revision: int | None = None
    ) -> organization.Department:
        return self._change(organization.Department, "PATCH", f"{DEPARTMENTS}/{department_id}", request, revision)

    def delete_department(self, department_id: str) -> None:
        self._call("DELETE", f"{DEPARTMENTS}/{department_id}")

    # --- nodes and clusters ----------------------------------------------------------------------------------

    def nodes(self) -> list[nodes_wire.NodeAnswer]:
        return self._all("/api/v1/nodes", "nodes", nodes_wire.NodeAnswer)

    def node(self, name: str) -> nodes_wire.NodeDetail:
        return self._get(nodes_wire.NodeDetail, f"/api/v1/nodes/{name}")

    def overview(self) -> overview.Overview:
        """Nodes, projects and running work as they were at one moment."""
        return self._get(overview.Overview, "/api/v1/overview")

    def override_node(
        self, node: str, marks: nodes_wire.NodeOverridesRequest, revision: int | None = None
    ) -> nodes_wire.NodeAnswer:
        """What an administrator says about a node, all of it; with a revision only if nobody said otherwise since."""
        return self._change(nodes_wire.NodeAnswer, "PUT", f"/api/v1/nodes/{node}/marks", marks, revision)

    def node_pools(self) -> list[nodes_wire.NodePoolAnswer]:
        return self._all("/api/v1/node-pools", "nodepools", nodes_wire.NodePoolAnswer)

    def create_node_pool(self, request: nodes_wire.NodePoolRequest) -> nodes_wire.NodePoolAnswer:
        return self._post(nodes_wire.NodePoolAnswer, "/api/v1/node-pools", request)

    def node_pool(self, pool: str) -> nodes_wire.NodePoolAnswer:
        return self._get(nodes_wire.NodePoolAnswer, f"/api/v1/node-pools/{pool}")

    def update_node_pool(
        self, pool: str, request: nodes_wire.NodePoolUpdate, revision: int | None = None
    ) -> nodes_wire.NodePoolAnswer:
        return self._change(nodes_wire.NodePoolAnswer, "PATCH", f"/api/v1/node-pools/{pool}", request, revision)

    def delete_node_pool(self, pool: str) -> None:
        self._call("DELETE", f"/api/v1/node-pools/{pool}")

    def clusters(self) -> list[nodes_wire.ClusterAnswer]:
        return self._all("/api/v1/clusters", "clusters", nodes_wire.ClusterAnswer)

    def create_cluster(self, request: nodes_wire.ClusterRequest) -> nodes_wire.NewCluster:
        return self._post(nodes_wire.NewCluster, "/api/v1/clusters", request)

    def delete_cluster(self, cluster_id: str) -> None:
        self._call("DELETE", f"/api/v1/clusters/{cluster_id}")

    def audit(self, *, limit: int = 50, offset: int = 0) -> list[audit_wire.AuditEntry]:
        params = {"limit": limit, "offset": offset}
        return self._get(audit_wire.AuditPage, "/api/v1/audit/log", params).entries

    def audit_file(self) -> Iterator[bytes]:
        """All of the audit log as comma separated values."""
        with self._stream("GET", "/api/v1/audit/log/file") as answer:
            yield from answer.iter_raw()

    # --- changes ---------------------------------------------------------------------------------------------

    def changes(self, after: int | None = None) -> Iterator[Change]:
        """What changes from now on, or since a revision, without end; after a broken connection it goes on where it
        was. A `reset` means that too much happened meanwhile: look at everything anew."""
        while True:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            timeout = httpx2.Timeout(30.0, read=60.0)
            try:
                with self._stream("GET", "/api/v1/changes", headers=headers, timeout=timeout) as answer:
                    for event in httpx2.EventSource(answer):
                        if event.data:
                            change = _change(json.loads(event.data))
                            after = change.revision
                            yield change
            except Unreachable:
                if after is None:
                    raise

    # --- how calls are made ----------------------------------------------------------------------------------

    def _token(self, request: access.TokenRequest) -> access.TokenAnswer:
        self.token = None
        answer = self._read(access.TokenAnswer, self._call("POST", "/api/v1/token", request))
        self.token = answer.access_token
        return answer

    def _get(self, kind: type[AnswerT], path: str, params: Mapping[str, Any] | None = None) -> AnswerT:
        return self._read(kind, self._call("GET", path, params=params))

    def _post(self, kind: type[AnswerT], path: str, body: Request | None = None, key: str | None = None) -> AnswerT:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return self._read(kind, self._call("POST", path, body, headers=headers))

    def _change(self, kind: type[AnswerT], method: str, path: str, body: Request, revision: int | None) -> AnswerT:
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        return self._read(kind, self._call(method, path, body, headers=headers))

    def _all(self, path: str, name: str, kind: type[AnswerT], params: Mapping[str, Any] | None = None) -> list[AnswerT]:
        """Every page of a list."""
        items = TypeAdapter(list[kind])  # type: ignore[valid-type]
        found: list[AnswerT] = []
        offset: int | None = 0
        while offset is not None:
            asked = {**(params or {}), "offset": offset, "limit": PAGE_MAX}
            page = self._call("GET", path, params=asked).json()
            found += items.validate_python(page.get(name, []))
            offset = page.get("next")
        return found

    def _read(self, kind: type[AnswerT], answer: httpx2.Response | Reply) -> AnswerT:
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            fix = "run the same release of Fairpool on both sides"
            problem = problems.ProblemItem(code="wire.unreadable", what=str(error), fix=fix)
            raise Refused(answer.status_code, [problem]) from error

    def _call(
        self,
        method: str,
        path: str,
        body: Request | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response | Reply:
        content = body.model_dump_json(by_alias=True, exclude_unset=True) if body is not None else None
        said = {**self._headers(), **(headers or {})}
        if content is not None:
            said["Content-Type"] = "application/json"
        return self._sent(method, path, content=content, params=params, headers=said)

    def _sent(
        self,
        method: str,
        path: str,
        *,
        content: str | bytes | None,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> httpx2.Response | Reply:
        try:
            answer = self._http.request(method, path, content=content, params=params, headers=headers)
        except httpx2.TransportError as error:
            raise Unreachable(f"{self._http.base_url} does not answer: {error}") from error
        if answer.is_error:
            raise _refusal(answer)
        return answer

    @contextmanager
    def _stream(self, method: str, path: str, **options: Any) -> Iterator[httpx2.Response]:
        options["headers"] = {**self._headers(), **options.get("headers", {})}
        try:
            with self._http.stream(method, path, **options) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer)
                yield answer
        except httpx2.TransportError as error:
            raise Unreachable(f"{self._http.base_url} does not answer: {error}") from error

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def _change(data: dict[str, Any]) -> Change:
    return Change(
        revision=data["revision"],
        noun=data["noun"],
        id=data["id"],
        verb=data["verb"],
        project=data.get("projectId"),
        object=data.get("object"),
    )


def _refusal(answer: httpx2.Response | Reply) -> Refused:
    try:
        said = problems.ProblemDocument.model_validate_json(answer.content)
    except ValidationError:
        what = f"the server answered {answer.status_code} {answer.reason_phrase}"
        problem = problems.ProblemItem(
            code="wire.not_fairpool", what=what, fix="check that the URL is that of a Fairpool server"
        )
        return Refused(answer.status_code, [problem])
    items = said.problems or [problems.ProblemItem(code="request.refused", what=said.message)]
    return Refused(answer.status_code, items, said.choices)


def _read_refused_shell(answer: httpx2.Response) -> None:
    """What is said instead of opening a shell must be read before the connection is given up."""
    if "sec-websocket-key" in answer.request.headers and answer.status_code != SWITCHED:
        answer.read()
