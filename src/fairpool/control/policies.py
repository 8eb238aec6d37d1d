"""HTTP routes for policies: what workloads of a scope may say, and what they are given."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import policies as wire
from fairpool.api.assets import AssetScope
from fairpool.api.policies import POLICIES
from fairpool.api.wire import compact, parse_json
from fairpool.api.workload_spec import Kind
from fairpool.control import effective_policy
from fairpool.control.asset_scopes import StoredScope, scope_of
from fairpool.control.moments import iso
from fairpool.control.numbers import project_name, project_number
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.policy_checks import as_stored, checked_policy, patched
from fairpool.control.policy_document import WorkloadPolicy
from fairpool.control.policy_lookup import place_of, policies_of, scoped_policies, scoped_policy, with_assets
from fairpool.control.policy_rules import ScopedPolicy, widest_first
from fairpool.control.policy_scopes import PolicySight, ScopeQuery, asked_scope, require
from fairpool.control.projects import known_project
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Parameter, Query, Routes
from fairpool.control.store import assets as asset_store
from fairpool.control.store import changes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import policies as store
from fairpool.control.store.database import Connection

routes = Routes("policies")

PATHS = {
    "workspaces": Kind.WORKSPACE,
    "trainings": Kind.TRAINING,
    "distributed": Kind.DISTRIBUTED,
    "inferences": Kind.INFERENCE,
}
TYPES = {wire.PolicyType(kind.value.lower()): kind for kind in Kind}

ValidateOnly = Annotated[bool, Parameter(alias="validateOnly", description="Check it and change nothing")]
Approve = Annotated[
    bool,
    Parameter(
        alias="approveClusterDeletion",
        description="For older clients. Policies are kept in the control plane only: there is nothing to approve",
    ),
]


class PolicyQuery(Query):
    """Which policies of a list."""

    workload_type: Annotated[wire.PolicyType | None, Parameter(alias="workloadType")] = None
    scope: AssetScope | None = None
    cluster_id: Annotated[str, Parameter(alias="clusterId", max_length=256)] = ""
    department_id: Annotated[str, Parameter(alias="departmentId", max_length=256)] = ""
    project_id: Annotated[str, Parameter(alias="projectId", max_length=256, description="Its name or number")] = ""
    fallback: Annotated[
        bool,
        Parameter(alias="includeFallbackPolicies", description="There are none"),
    ] = False


# --- answers ---------------------------------------------------------------------------------------------------------


def _meta(connection: Connection, row: Any) -> wire.PolicyMeta:
    ids: dict[str, Any] = {f"{row.scope}_id": row.scope_id} if row.scope_id else {}
    if row.scope == AssetScope.PROJECT.value:
        ids = {"project_id": project_number(connection, row.scope_id), "project_name": row.scope_id}
    return wire.PolicyMeta(
        id=row.id,
        name=row.name,
        scope=AssetScope(row.scope),
        created_by=row.created_by,
        created_at=iso(row.created_at),
        updated_by=row.updated_by,
        updated_at=iso(row.updated_at),
        revision=row.revision,
        **ids,
    )


def _shown(connection: Connection, kind: Kind, place: StoredScope, row: Any) -> wire.PolicyAnswer:
    """The policy of a scope, with what it comes to; 404 if none holds there at all."""
    around = store.in_place(connection, kind.value, place_of(connection, place.scope, place.scope_id))
    if row is not None:
        around = [*(each for each in around if each.id != row.id), row]
    if not around:
        what = f"{place.text} has no policy for {kind.value.lower()} workloads, and no scope around it has one"
        raise refused(404, "policy.unknown", what, "create one with PUT, or with `runai-adm policy apply -f FILE`")
    return wire.PolicyAnswer(
        meta=None if row is None else _meta(connection, row),
        policy=None if row is None else parse_json(row.document.encode()),
        effective=_numbered(connection, effective_policy.effective(scoped_policies(connection, around))),
        effective_updated_at=iso(max(each.updated_at for each in around)),
    )


def _numbered(connection: Connection, found: Any) -> Any:
    """Projects by number in `sourceOfRule`, as clients of the original read it."""
    if isinstance(found, list):
        return [_numbered(connection, each) for each in found]
    if not isinstance(found, dict):
        return found
    if set(found) == {"scope", "projectId"}:
        return {**found, "projectId": project_number(connection, found["projectId"])}
    return {name: _numbered(connection, each) for name, each in found.items()}


@routes.get(POLICIES, action=Action.POLICY_READ, answer=wire.PolicyList, summary="List policies")
async def list_policies(plane: Plane, caller: Caller, query: PolicyQuery) -> wire.PolicyList:
    def unit(connection: Connection) -> wire.PolicyList:
        sight = PolicySight(connection, caller)
        kind = TYPES[query.workload_type].value if query.workload_type is not None else ""
        ids = _asked_ids(connection, query)
        return wire.PolicyList(
            policies=[
                _entry(connection, row)
                for row in store.all_of(connection, kind)
                if sight.covers(row)
                and (query.scope is None or row.scope == query.scope.value)
                and (not ids or ids.get(row.scope) == row.scope_id)
            ]
        )

    return await plane.read(unit)


def _asked_ids(connection: Connection, query: PolicyQuery) -> dict[str, str]:
    """The scopes that a list is of, by kind of scope."""
    cluster = query.cluster_id and cluster_store.cluster_by_name(connection, query.cluster_id)
    ids = {
        AssetScope.CLUSTER.value: str(cluster.id) if cluster else query.cluster_id,
        AssetScope.DEPARTMENT.value: query.department_id,
        AssetScope.PROJECT.value: project_name(connection, query.project_id),
    }
    return {scope: named for scope, named in ids.items() if named}


def _entry(connection: Connection, row: Any) -> wire.PolicyEntry:
    try:
        wrong = effective_policy.contradictions([scoped_policy(connection, row)])
        message = wrong[0].what if wrong else ""
    except Refused as refusal:
        message = refusal.message
    status = wire.PolicyStatus(validation=wire.PolicyValidation(error_message=message)) if message else None
    return wire.PolicyEntry(
        type=wire.PolicyType(row.kind.lower()), meta=_meta(connection, row), status=status or wire.PolicyStatus()
    )


@routes.get(
    f"{POLICIES}/effective",
    action=Action.POLICY_READ,
    answer=wire.EffectivePolicy,
    summary="Get what policies come to in a project",
)
async def get_effective(
    plane: Plane,
    caller: Caller,
    project_id: Annotated[str, Parameter(alias="projectId", max_length=256, description="Its name or number")],
    workload_type: Annotated[wire.PolicyType, Parameter(alias="workloadType")] = wire.PolicyType.TRAINING,
) -> wire.EffectivePolicy:
    def unit(connection: Connection) -> wire.EffectivePolicy:
        project = known_project(connection, caller, project_id, Action.POLICY_READ)
        kind = TYPES[workload_type]
        rows = {row.id: row for row in store.in_place(connection, kind.value, asset_store.place_of(project))}
        policies = policies_of(connection, project, kind)
        return wire.EffectivePolicy(
            type=workload_type,
            project_name=project.name,
            policies=[_meta(connection, rows[each.id]) for each in widest_first(policies)],
            effective=_numbered(connection, effective_policy.effective(policies)),
            default_sources=effective_policy.default_sources(policies),
        )

    return await plane.read(unit)


# --- one policy ------------------------------------------------------------------------------------------------------


def _add(path: str, kind: Kind) -> None:
    async def get_policy(plane: Plane, caller: Caller, query: ScopeQuery) -> Response:
        def unit(connection: Connection) -> wire.PolicyAnswer:
            place = asked_scope(connection, query)
            require(connection, caller, place, Action.POLICY_READ)
            return _shown(connection, kind, place, store.one(connection, kind.value, place.columns))

        found = await plane.read(unit)
        return answered(ActionResult(body=found, revision=found.meta.revision if found.meta is not None else None))

    async def replace_policy(
        request: Request,
        plane: Plane,
        caller: Caller,
        body: Any,
        validate_only: ValidateOnly = False,
        approve: Approve = False,
    ) -> Response:
        write = PolicyWrite(plane, request, caller, kind, body.meta)
        return await write.store_or_validate(lambda _: body.policy, validate_only=validate_only)

    async def change_policy(
        request: Request,
        plane: Plane,
        caller: Caller,
        body: Any,
        validate_only: ValidateOnly = False,
        approve: Approve = False,
    ) -> Response:
        write = PolicyWrite(plane, request, caller, kind, body.meta)

        def document(before: Any) -> dict[str, Any]:
            if before is None:
                what = f"there is no policy for {kind.value.lower()} workloads in this scope"
                raise refused(404, "policy.unknown", what, "create it with PUT")
            return patched(kind, parse_json(before.document.encode()), body.policy, body.reset)

        return await write.store_or_validate(document, validate_only=validate_only)

    async def delete_policy(
        request: Request, plane: Plane, caller: Caller, query: ScopeQuery, approve: Approve = False
    ) -> Response:
        return await plane.perform(
            request, caller, lambda connection: _deleted(plane, connection, request, caller, kind, query)
        )

    is_gang = kind is Kind.DISTRIBUTED
    replace_policy.__annotations__["body"] = wire.DistributedPolicyRequest if is_gang else wire.PolicyRequest
    change_policy.__annotations__["body"] = wire.DistributedPolicyChange if is_gang else wire.PolicyChange
    replace_policy.__doc__ = "Creates it if the scope has none. Workloads that exist go on as they are."
    change_policy.__doc__ = "What is said about a field replaces what the policy had about it; `reset` removes fields."
    delete_policy.__doc__ = "Workloads that exist go on as they are."
    where, noun, answer = f"{POLICIES}/{path}", f"the policy for {kind.value.lower()} workloads", wire.PolicyAnswer
    read, write, update, delete = (
        *(Action.POLICY_READ, Action.POLICY_WRITE),
        *(Action.POLICY_UPDATE, Action.POLICY_DELETE),
    )
    routes.add("GET", where, get_policy, action=read, answer=answer, summary=f"Get {noun} of a scope")
    routes.add("PUT", where, replace_policy, action=write, answer=answer, summary=f"Replace {noun} of a scope")
    routes.add("PATCH", where, change_policy, action=update, answer=answer, summary=f"Change {noun} of a scope")
    routes.add("DELETE", where, delete_policy, action=delete, status=204, summary=f"Delete {noun} of a scope")


def _deleted(
    plane: Plane, connection: Connection, request: Request, caller: Caller, kind: Kind, query: ScopeQuery
) -> ActionResult:
    place = asked_scope(connection, query)
    require(connection, caller, place, Action.POLICY_DELETE)
    row = store.one(connection, kind.value, place.columns)
    if row is None:
        what = f"{place.text} has no policy for {kind.value.lower()} workloads"
        raise refused(404, "policy.unknown", what, "see them with `runai-adm policy list`")
    check_match(request, row.revision)
    store.remove(connection, row.id)
    _recorded(plane, connection, row.id, place, "deleted")
    return ActionResult(
        status=204, action="delete", entity_type="policy", entity_id=row.id, entity_name=_name(kind, row.name)
    )


@dataclass(frozen=True, slots=True)
class PolicyWrite:
    """A policy that is created, replaced or changed."""

    plane: Plane
    request: Request
    caller: Caller
    kind: Kind
    meta: wire.PolicyScope

    async def store_or_validate(self, document: Any, *, validate_only: bool) -> Response:
        """`document`: the new policy, from the row that it replaces."""
        if validate_only:
            shown = await self.plane.read(lambda connection: self._checked(connection, document)[1])
            return answered(ActionResult(body=shown))
        return await self.plane.perform(self.request, self.caller, lambda found: self._stored(found, document))

    def _checked(self, connection: Connection, document: Any) -> tuple[Any, wire.PolicyAnswer]:
        """The row as it would be, and what would be answered; refuses with everything that is wrong."""
        place = asked_scope(connection, self.meta)
        before = store.one(connection, self.kind.value, place.columns)
        needed = Action.POLICY_CREATE if before is None else Action.POLICY_UPDATE
        require(connection, self.caller, place, needed)
        if before is not None:
            check_match(self.request, before.revision)
        said = as_stored(document(before))
        policy = checked_policy(self.kind, said)
        if not isinstance(policy, WorkloadPolicy):
            raise Refused(422, policy)
        now = self.plane.now()
        first = {"created_at": now, "created_by": self.caller.name, "id": str(uuid.uuid4()), "revision": 0}
        if before is not None:
            first = {name: getattr(before, name) for name in first}
        row = SimpleNamespace(
            **place.columns,
            **first,
            kind=self.kind.value,
            name=self.meta.name,
            document=compact(said),
            updated_at=now,
            updated_by=self.caller.name,
        )
        refuse_contradictions(connection, with_assets(connection, row, policy))
        return row, _shown(connection, self.kind, place, row)

    def _stored(self, connection: Connection, document: Any) -> ActionResult:
        row, _ = self._checked(connection, document)
        is_new = row.revision == 0
        place = scope_of(row)
        row.revision = _recorded(self.plane, connection, row.id, place, "created" if is_new else "updated")
        if is_new:
            store.add(connection, **vars(row))
        else:
            store.change(connection, row.id, **{name: value for name, value in vars(row).items() if name != "id"})
        return ActionResult(
            body=_shown(connection, self.kind, place, row),
            action="create" if is_new else "update",
            entity_type="policy",
            entity_id=row.id,
            entity_name=_name(self.kind, row.name),
            revision=row.revision,
        )


def refuse_contradictions(connection: Connection, written: ScopedPolicy) -> None:
    """Refuses a policy that contradicts itself, or another one that holds for the same workloads."""
    kind = written.policy.kind
    others = [row for row in store.all_of(connection, kind.value) if row.id != written.id]
    chains: dict[frozenset[str], list[Any]] = {frozenset(): []}
    here = place_of(connection, written.scope, written.scope_id)
    places = [here, *(asset_store.place_of(row) for row in organization_store.all_projects(connection))]
    for place in places:
        if written.scope is AssetScope.TENANT or place[written.scope.value] == written.scope_id:
            rows = [row for row in others if row.scope == AssetScope.TENANT.value or place[row.scope] == row.scope_id]
            chains[frozenset(row.id for row in rows)] = rows
    for rows in chains.values():
        if problems := effective_policy.contradictions([written, *scoped_policies(connection, rows)]):
            raise Refused(422, problems)


def _recorded(plane: Plane, connection: Connection, policy_id: str, place: StoredScope, verb: str) -> int:
    """Number the change; clusters need not know."""
    project = place.scope_id if place.scope is AssetScope.PROJECT else None
    kept = plane.settings.changes_kept
    return changes.record(
        connection, "policy", policy_id, verb, plane.now(), project=project, declared=False, kept=kept
    )


def _name(kind: Kind, name: str) -> str:
    """For the audit log."""
    return f"{kind.value.lower()}/{name}"


for _path, _kind in PATHS.items():
    _add(_path, _kind)
