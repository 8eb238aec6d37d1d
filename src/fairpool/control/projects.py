"""HTTP routes for projects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import organization as wire
from fairpool.api.limits import PROJECTS
from fairpool.api.problems import problem_item
from fairpool.api.wire import Count
from fairpool.control import declared
from fairpool.control.moments import iso
from fairpool.control.numbers import project_name
from fairpool.control.organization import (
    add_project,
    change_project,
    cluster_of,
    effective_project,
    kept_claims_name,
    organization_tree,
)
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Search,
    counting,
    filtered,
    gpus_field,
    number_field,
    page,
    text_field,
    time_field,
)
from fairpool.control.plane import SLICE_S, ActionResult, Caller, Plane, answered, check_match
from fairpool.control.pod_access import PodAccessError
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.removal import RemainingWorkloads, delete_project_with_work
from fairpool.control.reported_nodes import reported_nodes
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import claims as claim_store
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.model.organization import DEFAULT_QUEUE_PRIORITY
from fairpool.model.spelling import did_you_mean

routes = Routes("projects")


FIELDS: Mapping[str, Field[wire.Project]] = {
    "name": text_field(lambda each: each.name),
    "id": text_field(lambda each: each.id),
    "parentId": text_field(lambda each: each.parent_id),
    "clusterId": text_field(lambda each: each.cluster_id),
    "phase": text_field(lambda each: each.status.phase),
    "createdBy": text_field(lambda each: each.created_by),
    "createdAt": time_field(lambda each: each.created_at),
    "updatedAt": time_field(lambda each: each.updated_at),
    "gpuQuota": gpus_field(lambda each: each.total_resources.gpu_quota),
    "allocatedGPU": gpus_field(lambda each: each.allocated_gpus),
    "workloads": number_field(lambda each: each.workloads),
}


@routes.get(PROJECTS, action=Action.PROJECT_READ, answer=wire.ProjectPage, summary="List the projects you can see")
async def projects(plane: Plane, caller: Caller, query: ListQuery) -> Response:
    return await plane.answer_apart(lambda connection: project_page(plane, connection, caller, query))


def project_page(
    plane: Plane, connection: Connection, caller: Caller, query: ListQuery, cluster: str | None = None
) -> wire.ProjectPage:
    """A page of the projects that the caller may see, in one cluster or in all."""
    everything = visible_projects(plane, connection, caller)
    mine = [each for each in everything if cluster in (None, each.cluster_id)]
    listed, following = page(filtered(mine, FIELDS, query), query)
    return wire.ProjectPage(projects=listed, next=following)


@routes.get(f"{PROJECTS}/count", action=Action.PROJECT_READ, answer=Count, summary="Count the projects you can see")
async def project_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(visible_projects(plane, connection, caller), FIELDS, query)))
    )


@routes.get(
    "/api/v1/org-unit/priorities",
    action=Action.SELF,
    answer=wire.QueuePriorityList,
    summary="List names for the priority of a project in a node pool",
)
async def queue_priorities(caller: Caller) -> wire.QueuePriorityList:
    named = [
        wire.NamedPriority(name=name, value=value, is_default=value == DEFAULT_QUEUE_PRIORITY)
        for name, value in wire.QUEUE_PRIORITIES.items()
    ]
    return wire.QueuePriorityList(priorities=named)


@routes.get(PROJECTS + "/{project_id}", action=Action.PROJECT_READ, answer=wire.Project, summary="Get a project")
async def project(project_id: str, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> wire.Project:
        row = known_project(connection, caller, project_id, Action.PROJECT_READ)
        return _project(connection, row, store.use_by_project(connection), _Warnings(plane, connection, caller))

    found = await plane.read_apart(unit)
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(PROJECTS, action=Action.PROJECT_CREATE, answer=wire.Project, status=201, summary="Create a project")
async def create_project(request: Request, plane: Plane, caller: Caller, body: wire.ProjectRequest) -> Response:
    await plane.read(lambda connection: _require_place(connection, caller, body.parent_id, body.cluster_id))
    await _set_aside_claims(plane, body)

    def unit(connection: Connection) -> ActionResult:
        revision = add_project(plane, connection, body, caller.name)
        made = _project(connection, store.project(connection, body.name), {}, _Warnings(plane, connection, caller))
        return ActionResult(
            body=made, status=201, action="create", entity_type="project", entity_id=body.name, revision=revision
        )

    return await plane.perform(request, caller, unit)


async def _set_aside_claims(plane: Plane, body: wire.ProjectRequest) -> None:
    """A new project must not see the data of an earlier one of the same name."""

    def unit(connection: Connection) -> tuple[str, str]:
        """The cluster that may have such data, empty: none has; and the name under which it is kept."""
        if store.project(connection, body.name) is not None:
            return "", ""
        found = cluster_of(connection, body.cluster_id)
        has_data = plane.pod_access.is_local(found) or bool(claim_store.names(connection, body.name))
        return found if has_data else "", kept_claims_name(connection, body.name, plane.now())

    cluster, kept_as = await plane.read(unit)
    if not cluster:
        return
    try:
        await plane.pod_access.of(cluster).set_aside_claims(body.name, kept_as)
    except PodAccessError as error:
        raise Refused(503, [problem_item(error.problem)]) from error


def first_of(connection: Connection, names: Sequence[str]) -> str:
    """The first of these that is a project; empty: none of them is."""
    return next((name for name in names if name and store.project(connection, name) is not None), "")


FIRST_PROJECT_GPUS = 2


def make_first_project(plane: Plane, connection: Connection) -> None:
    """Create the project of an empty installation."""
    owed = {"name": plane.settings.first_project, "resources": [{"gpu": {"deserved": FIRST_PROJECT_GPUS}}]}
    add_project(plane, connection, wire.ProjectRequest.model_validate(owed), by="")


@routes.put(PROJECTS + "/{project_id}", action=Action.PROJECT_UPDATE, answer=wire.Project, summary="Replace a project")
async def replace_project(
    project_id: str, request: Request, plane: Plane, caller: Caller, body: wire.ProjectReplacement
) -> Response:
    def change(before: wire.ProjectRequest) -> wire.ProjectRequest:
        if body.name not in (None, before.name):
            what = "a project cannot be renamed: its workloads, logs and namespace use its name"
            fix = f"keep the name {before.name!r}, or create another project"
            raise refused(422, "project.renamed", what, fix, "name")
        stays = {"name": before.name, "parent_id": body.parent_id or before.parent_id}
        return wire.ProjectRequest.model_validate(dict(body) | stays)

    return await _change_project(request, plane, caller, project_id, change)


@routes.patch(PROJECTS + "/{project_id}", action=Action.PROJECT_UPDATE, answer=wire.Project, summary="Update a project")
async def update_project(
    project_id: str, request: Request, plane: Plane, caller: Caller, body: wire.ProjectUpdate
) -> Response:
    said = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    return await _change_project(request, plane, caller, project_id, lambda before: before.model_copy(update=said))


@routes.put(
    PROJECTS + "/{project_id}/resources",
    action=Action.PROJECT_UPDATE,
    answer=wire.Project,
    summary="Replace a project's quotas",
)
@routes.patch(
    PROJECTS + "/{project_id}/resources",
    action=Action.PROJECT_UPDATE,
    answer=wire.Project,
    summary="Update a project's quotas in some node pools",
)
async def set_project_resources(
    project_id: str, request: Request, plane: Plane, caller: Caller, body: wire.ResourcesUpdate
) -> Response:
    """`PATCH` changes only the node pools in the request; `PUT` replaces all of them."""

    def change(before: wire.ProjectRequest) -> wire.ProjectRequest:
        resources = body.resources if request.method == "PUT" else body.merged_into(before.resources)
        return before.model_copy(update={"resources": resources})

    return await _change_project(request, plane, caller, project_id, change)


@routes.delete(
    PROJECTS + "/{project_id}",
    action=Action.PROJECT_DELETE,
    status=202,
    summary="Delete a project; if it has workloads, delete or move them",
)
async def delete_project(
    project_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    workloads: Annotated[
        RemainingWorkloads | None, Parameter(description="What to do with workloads that are still in the project")
    ] = None,
    to: Annotated[str | None, Parameter(description="With `move`: the target project", max_length=64)] = None,
) -> Response:
    """Returns 409 with the possible `choices` if the project has workloads and `workloads` is not set."""

    def unit(connection: Connection) -> ActionResult:
        row = known_project(connection, caller, project_id, Action.PROJECT_DELETE)
        check_match(request, row.revision)
        if to is not None:
            known_project(connection, caller, to, Action.PROJECT_UPDATE)
        return delete_project_with_work(plane, connection, row, workloads, to, SLICE_S)

    return await plane.perform(request, caller, unit)


async def _change_project(
    request: Request,
    plane: Plane,
    caller: Caller,
    project_id: str,
    change: Callable[[wire.ProjectRequest], wire.ProjectRequest],
) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = known_project(connection, caller, project_id, Action.PROJECT_UPDATE)
        check_match(request, row.revision)
        before = wire.ProjectRequest.model_validate_json(row.document)
        body = change(before)
        if body.resources != before.resources:
            _require_quota(caller, row)
        if body.parent_id != row.department:
            _require_place(connection, caller, body.parent_id, row.cluster)  # its quota comes out of that department
        revision = change_project(plane, connection, row, body)
        use = store.use_by_project(connection)
        made = _project(connection, store.project(connection, row.name), use, _Warnings(plane, connection, caller))
        return ActionResult(body=made, action="update", entity_type="project", entity_id=row.name, revision=revision)

    return await plane.perform(request, caller, unit)


def _require_place(connection: Connection, caller: Caller, department: str, cluster: str | None) -> None:
    """Refuse a caller who may not put a project into this department: it is the department, or the cluster, that
    their role must cover."""
    if caller.may(Action.PROJECT_CREATE, department=department):
        return
    places = caller.places(Action.PROJECT_CREATE)
    if places is None or not places.clusters or cluster_of(connection, cluster) not in places.clusters:
        raise denied()


def _require_quota(caller: Caller, row: Any) -> None:
    """Only administrators of the department, or of everything, set quotas: they are taken from other projects."""
    if not caller.may(Action.PROJECT_UPDATE, department=row.department, cluster=row.cluster):
        what = "an administrator of a project cannot change its quota"
        raise denied(what, f"ask an administrator of department {row.department}")


def known_project(connection: Connection, caller: Caller, name: str, action: Action) -> Any:
    """The project's row, by name or number; refuses if the caller may not see it or lacks the permission there."""
    row = store.project(connection, project_name(connection, name))
    if row is None or not caller.may(Action.PROJECT_READ, row.name, row.department, row.cluster):
        raise unknown("project", name, is_hidden=row is not None)
    caller.require(action, row.name, row.department, row.cluster)
    return row


def visible_projects(plane: Plane, connection: Connection, caller: Caller) -> list[wire.Project]:
    """Projects that the caller may see, by name."""
    places = caller.places(Action.PROJECT_READ)
    rows = store.all_projects(connection, **({} if places is None else places.of_projects))
    use, warnings = store.use_by_project(connection), _Warnings(plane, connection, caller)
    return [_project(connection, row, use, warnings) for row in rows]


class _Warnings:
    """What is shown with projects: oversubscribed quotas of their departments, to callers who may see all projects,
    and node types that no node has."""

    def __init__(self, plane: Plane, connection: Connection, caller: Caller) -> None:
        self._plane, self._connection = plane, connection
        sees_all = caller.places(Action.PROJECT_READ) is None
        self._by_department = organization_tree(plane, connection).warnings() if sees_all else {}

    def of(self, row: Any, body: wire.ProjectRequest) -> list[str]:
        types = dict.fromkeys([*body.node_types.training, *body.node_types.workspace])
        return [*self._by_department.get(row.department, []), *(self._of_types(row, types) if types else ())]

    def _of_types(self, row: Any, types: Iterable[str]) -> list[str]:
        nodes = reported_nodes(self._plane, self._connection, row.cluster)
        if not nodes.pools:
            return []  # not known
        return [
            f"project {row.name} may use nodes of type {each}, but no node has this type: "
            + did_you_mean(each, nodes.types, f"set it with `runai-adm node-type set {each} NODE`")
            for each in types
            if each not in nodes.types
        ]


def quota_status(held_milli: int) -> wire.QuotaStatus:
    """What is in use, in thousandths of a GPU."""
    gpus = held_milli / 1000
    return wire.QuotaStatus(allocated=wire.HeldResources(gpu=gpus), allocated_gpus=gpus)


def _project(connection: Connection, row: Any, use: dict[str, tuple[int, int]], warnings: _Warnings) -> wire.Project:
    body = wire.ProjectRequest.model_validate_json(row.document)
    holds = effective_project(connection, row)
    number, held = use.get(row.name, (0, 0))
    namespace = f"runai-{row.name}"
    return wire.Project(
        id=row.name,
        number=row.number,
        name=row.name,
        color_slot=row.color_slot,
        cluster_id=row.cluster,
        requested_namespace=namespace,
        enforce_runai_scheduler=body.enforce_runai_scheduler,
        effective=wire.Effective(
            scheduling_rules=holds.scheduling_rules,
            default_node_pools=holds.default_node_pools,
            node_types=holds.node_types,
        ),
        parent_id=row.department,
        parent=wire.Parent(id=row.department, name=row.department),
        description=body.description,
        default_node_pools=body.default_node_pools,
        node_types=body.node_types,
        scheduling_rules=body.scheduling_rules,
        resources=body.resources,
        total_resources=declared.totals(body.resources),
        status=wire.ProjectStatus(namespace=namespace, phase=row.phase, quota_status=quota_status(held)),
        allocated_gpus=held / 1000,
        workloads=number,
        warnings=warnings.of(row, body),
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        created_by=row.created_by,
        revision=row.revision,
    )
