"""Role-based access control: actions, the permission grid, and whether a caller's grants cover an action. Pure.

Each route declares the action that it needs (`control/routes.py`); a test tries every route as every role. A role is a
set of cells of the grid, resource type x verb, as people read and assign them; `GRID` says which cells an action needs.
The built-in roles are in `control/builtin_roles.py`, custom ones in the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from fairpool.api.access import ScopeType
from fairpool.api.roles import ResourceType, Verb


class Action(StrEnum):
    """An action that a role can permit."""

    OPEN = "open"
    """No caller needed: health, sign-in, and pages that show nothing about the installation."""
    SELF = "self"
    """Any signed-in caller: their own account, and what is not secret."""
    LINK = "cluster.link"
    """Only a cluster, about itself."""
    WORKLOAD_READ = "workload.read"
    WORKLOAD_SUBMIT = "workload.submit"
    WORKLOAD_OPERATE = "workload.operate"
    """Suspend, resume, delete, change, shells."""
    WORKLOAD_UPDATE = "workload.update"
    WORKLOAD_DELETE = "workload.delete"
    WORKSPACE_CREATE = "workspace.create"
    WORKSPACE_UPDATE = "workspace.update"
    WORKSPACE_DELETE = "workspace.delete"
    TRAINING_CREATE = "training.create"
    TRAINING_UPDATE = "training.update"
    TRAINING_DELETE = "training.delete"
    INFERENCE_CREATE = "inference.create"
    INFERENCE_UPDATE = "inference.update"
    INFERENCE_DELETE = "inference.delete"
    PROJECT_READ = "project.read"
    PROJECT_WRITE = "project.write"
    PROJECT_CREATE = "project.create"
    PROJECT_UPDATE = "project.update"
    PROJECT_DELETE = "project.delete"
    DEPARTMENT_READ = "department.read"
    DEPARTMENT_WRITE = "department.write"
    DEPARTMENT_CREATE = "department.create"
    DEPARTMENT_UPDATE = "department.update"
    DEPARTMENT_DELETE = "department.delete"
    NODE_READ = "node.read"
    """Nodes, node pools and network topologies."""
    NODE_OVERRIDE = "node.mark"
    POOL_WRITE = "node-pool.write"
    POOL_CREATE = "node-pool.create"
    POOL_UPDATE = "node-pool.update"
    POOL_DELETE = "node-pool.delete"
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    CLUSTER_CREATE = "cluster.create"
    CLUSTER_UPDATE = "cluster.update"
    CLUSTER_DELETE = "cluster.delete"
    SNAPSHOT_READ = "cluster.snapshot"
    """What the scheduler of a cluster sees, and what it would do: the work of all projects."""
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"
    """Users, applications, service accounts and access rules."""
    USER_READ = "user.read"
    USER_CREATE = "user.create"
    USER_UPDATE = "user.update"
    USER_DELETE = "user.delete"
    APP_READ = "application.read"
    APP_CREATE = "application.create"
    APP_UPDATE = "application.update"
    APP_DELETE = "application.delete"
    SERVICE_ACCOUNT_READ = "service-account.read"
    SERVICE_ACCOUNT_CREATE = "service-account.create"
    SERVICE_ACCOUNT_UPDATE = "service-account.update"
    SERVICE_ACCOUNT_DELETE = "service-account.delete"
    RULE_READ = "access-rule.read"
    RULE_CREATE = "access-rule.create"
    RULE_DELETE = "access-rule.delete"
    ROLE_CREATE = "role.create"
    ROLE_UPDATE = "role.update"
    ROLE_DELETE = "role.delete"
    ASSET_READ = "asset.read"
    ASSET_WRITE = "asset.write"
    """Assets of every kind."""
    TEMPLATE_READ = "template.read"
    TEMPLATE_CREATE = "template.create"
    TEMPLATE_UPDATE = "template.update"
    TEMPLATE_DELETE = "template.delete"
    ENVIRONMENT_READ = "environment.read"
    ENVIRONMENT_CREATE = "environment.create"
    ENVIRONMENT_UPDATE = "environment.update"
    ENVIRONMENT_DELETE = "environment.delete"
    COMPUTE_READ = "compute.read"
    COMPUTE_CREATE = "compute.create"
    COMPUTE_UPDATE = "compute.update"
    COMPUTE_DELETE = "compute.delete"
    DATA_SOURCE_READ = "data-source.read"
    DATA_SOURCE_CREATE = "data-source.create"
    DATA_SOURCE_UPDATE = "data-source.update"
    DATA_SOURCE_DELETE = "data-source.delete"
    CREDENTIAL_READ = "credential.read"
    CREDENTIAL_WRITE = "credential.write"
    """Credentials of a project or department: create them, and change one's own."""
    CREDENTIAL_UPDATE = "credential.update"
    CREDENTIAL_DELETE = "credential.delete"
    """Of credentials that others made."""
    CREDENTIAL_CHANGE = "credential.change"
    """One's own, or those of others."""
    REGISTRY_READ = "registry.read"
    REGISTRY_CREATE = "registry.create"
    REGISTRY_UPDATE = "registry.update"
    REGISTRY_DELETE = "registry.delete"
    STORAGE_CLASS_UPDATE = "storage-class.update"
    POLICY_READ = "policy.read"
    POLICY_WRITE = "policy.write"
    """Policies for the workloads of a scope: create them, and change them."""
    POLICY_CREATE = "policy.create"
    POLICY_UPDATE = "policy.update"
    POLICY_DELETE = "policy.delete"
    AUDIT_READ = "audit.read"
    SETTING_READ = "setting.read"
    SETTING_WRITE = "setting.write"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """A cell of the permission grid."""

    resource: ResourceType
    verb: Verb

    def __str__(self) -> str:
        return f"{self.resource.value} {self.verb.value}"


R, V = ResourceType, Verb
DATA_SOURCES = (
    R.PVC_ASSETS,
    R.GIT_ASSETS,
    R.HOST_PATH_ASSETS,
    R.NFS_ASSETS,
    R.S3_ASSETS,
    R.CM_VOLUME_ASSETS,
    R.SECRET_VOLUME_ASSETS,
)
WORKLOAD_KINDS = (R.WORKLOADS, R.JOBS, R.WORKSPACES, R.TRAININGS, R.INFERENCES)


def _needs(verb: Verb, *resources: ResourceType) -> frozenset[Cell]:
    return frozenset(Cell(resource, verb) for resource in resources)


GRID: Mapping[Action, frozenset[Cell]] = MappingProxyType(
    {
        Action.WORKLOAD_READ: _needs(V.READ, *WORKLOAD_KINDS),
        Action.WORKSPACE_CREATE: _needs(V.CREATE, R.WORKSPACES),
        Action.WORKSPACE_UPDATE: _needs(V.UPDATE, R.WORKSPACES),
        Action.WORKSPACE_DELETE: _needs(V.DELETE, R.WORKSPACES),
        Action.TRAINING_CREATE: _needs(V.CREATE, R.TRAININGS),
        Action.TRAINING_UPDATE: _needs(V.UPDATE, R.TRAININGS),
        Action.TRAINING_DELETE: _needs(V.DELETE, R.TRAININGS),
        Action.INFERENCE_CREATE: _needs(V.CREATE, R.INFERENCES),
        Action.INFERENCE_UPDATE: _needs(V.UPDATE, R.INFERENCES),
        Action.INFERENCE_DELETE: _needs(V.DELETE, R.INFERENCES),
        Action.PROJECT_READ: _needs(V.READ, R.PROJECT, R.DASHBOARDS_OVERVIEW),
        Action.PROJECT_CREATE: _needs(V.CREATE, R.PROJECT),
        Action.PROJECT_UPDATE: _needs(V.UPDATE, R.PROJECT),
        Action.PROJECT_DELETE: _needs(V.DELETE, R.PROJECT),
        Action.DEPARTMENT_READ: _needs(V.READ, R.DEPARTMENT),
        Action.DEPARTMENT_CREATE: _needs(V.CREATE, R.DEPARTMENT),
        Action.DEPARTMENT_UPDATE: _needs(V.UPDATE, R.DEPARTMENT),
        Action.DEPARTMENT_DELETE: _needs(V.DELETE, R.DEPARTMENT),
        Action.NODE_READ: _needs(V.READ, R.NODES, R.NODEPOOLS, R.NETWORK_TOPOLOGIES),
        Action.NODE_OVERRIDE: _needs(V.UPDATE, R.NODES),
        Action.POOL_CREATE: _needs(V.CREATE, R.NODEPOOLS, R.NETWORK_TOPOLOGIES),
        Action.POOL_UPDATE: _needs(V.UPDATE, R.NODEPOOLS, R.NETWORK_TOPOLOGIES),
        Action.POOL_DELETE: _needs(V.DELETE, R.NODEPOOLS, R.NETWORK_TOPOLOGIES),
        Action.CLUSTER_READ: _needs(V.READ, R.CLUSTER),
        Action.CLUSTER_CREATE: _needs(V.CREATE, R.CLUSTER),
        Action.CLUSTER_UPDATE: _needs(V.UPDATE, R.CLUSTER),
        Action.CLUSTER_DELETE: _needs(V.DELETE, R.CLUSTER),
        Action.SNAPSHOT_READ: _needs(V.READ, R.CLUSTER_CONFIG),
        Action.USER_READ: _needs(V.READ, R.USERS),
        Action.USER_CREATE: _needs(V.CREATE, R.USERS),
        Action.USER_UPDATE: _needs(V.UPDATE, R.USERS),
        Action.USER_DELETE: _needs(V.DELETE, R.USERS),
        Action.APP_READ: _needs(V.READ, R.APPS),
        Action.APP_CREATE: _needs(V.CREATE, R.APPS),
        Action.APP_UPDATE: _needs(V.UPDATE, R.APPS),
        Action.APP_DELETE: _needs(V.DELETE, R.APPS),
        Action.SERVICE_ACCOUNT_READ: _needs(V.READ, R.SERVICE_ACCOUNT),
        Action.SERVICE_ACCOUNT_CREATE: _needs(V.CREATE, R.SERVICE_ACCOUNT),
        Action.SERVICE_ACCOUNT_UPDATE: _needs(V.UPDATE, R.SERVICE_ACCOUNT),
        Action.SERVICE_ACCOUNT_DELETE: _needs(V.DELETE, R.SERVICE_ACCOUNT),
        Action.RULE_READ: _needs(V.READ, R.ACCESS_RULES),
        Action.RULE_CREATE: _needs(V.CREATE, R.ACCESS_RULES),
        Action.RULE_DELETE: _needs(V.DELETE, R.ACCESS_RULES),
        Action.ROLE_CREATE: _needs(V.CREATE, R.ROLES),
        Action.ROLE_UPDATE: _needs(V.UPDATE, R.ROLES),
        Action.ROLE_DELETE: _needs(V.DELETE, R.ROLES),
        Action.TEMPLATE_READ: _needs(V.READ, R.TEMPLATES),
        Action.TEMPLATE_CREATE: _needs(V.CREATE, R.TEMPLATES),
        Action.TEMPLATE_UPDATE: _needs(V.UPDATE, R.TEMPLATES),
        Action.TEMPLATE_DELETE: _needs(V.DELETE, R.TEMPLATES),
        Action.ENVIRONMENT_READ: _needs(V.READ, R.ENVIRONMENTS),
        Action.ENVIRONMENT_CREATE: _needs(V.CREATE, R.ENVIRONMENTS),
        Action.ENVIRONMENT_UPDATE: _needs(V.UPDATE, R.ENVIRONMENTS),
        Action.ENVIRONMENT_DELETE: _needs(V.DELETE, R.ENVIRONMENTS),
        Action.COMPUTE_READ: _needs(V.READ, R.COMPUTE_RESOURCES),
        Action.COMPUTE_CREATE: _needs(V.CREATE, R.COMPUTE_RESOURCES),
        Action.COMPUTE_UPDATE: _needs(V.UPDATE, R.COMPUTE_RESOURCES),
        Action.COMPUTE_DELETE: _needs(V.DELETE, R.COMPUTE_RESOURCES),
        Action.DATA_SOURCE_READ: _needs(V.READ, *DATA_SOURCES),
        Action.DATA_SOURCE_CREATE: _needs(V.CREATE, *DATA_SOURCES),
        Action.DATA_SOURCE_UPDATE: _needs(V.UPDATE, *DATA_SOURCES),
        Action.DATA_SOURCE_DELETE: _needs(V.DELETE, *DATA_SOURCES),
        Action.CREDENTIAL_READ: _needs(V.READ, R.CREDENTIALS),
        Action.CREDENTIAL_WRITE: _needs(V.CREATE, R.CREDENTIALS),
        Action.CREDENTIAL_UPDATE: _needs(V.UPDATE, R.CREDENTIALS),
        Action.CREDENTIAL_DELETE: _needs(V.DELETE, R.CREDENTIALS),
        Action.REGISTRY_READ: _needs(V.READ, R.REGISTRIES),
        Action.REGISTRY_CREATE: _needs(V.CREATE, R.REGISTRIES),
        Action.REGISTRY_UPDATE: _needs(V.UPDATE, R.REGISTRIES),
        Action.REGISTRY_DELETE: _needs(V.DELETE, R.REGISTRIES),
        Action.STORAGE_CLASS_UPDATE: _needs(V.UPDATE, R.STORAGE_CLASS_CONFIGURATION),
        Action.POLICY_READ: _needs(V.READ, R.POLICIES),
        Action.POLICY_CREATE: _needs(V.CREATE, R.POLICIES),
        Action.POLICY_UPDATE: _needs(V.UPDATE, R.POLICIES),
        Action.POLICY_DELETE: _needs(V.DELETE, R.POLICIES),
        Action.AUDIT_READ: _needs(V.READ, R.EVENTS_HISTORY),
        Action.SETTING_READ: _needs(V.READ, R.SETTINGS, R.SECURITY_SETTINGS),
        Action.SETTING_WRITE: _needs(V.UPDATE, R.SETTINGS, R.SECURITY_SETTINGS),
    }
)
"""Every action with the cells that it needs, all of them. It is the one place that connects routes and roles."""

TOGETHER: Mapping[Action, frozenset[Action]] = MappingProxyType(
    {
        Action.WORKLOAD_SUBMIT: frozenset({Action.WORKSPACE_CREATE, Action.TRAINING_CREATE, Action.INFERENCE_CREATE}),
        Action.WORKLOAD_UPDATE: frozenset({Action.WORKSPACE_UPDATE, Action.TRAINING_UPDATE, Action.INFERENCE_UPDATE}),
        Action.WORKLOAD_DELETE: frozenset({Action.WORKSPACE_DELETE, Action.TRAINING_DELETE, Action.INFERENCE_DELETE}),
        Action.WORKLOAD_OPERATE: frozenset(
            {
                *(Action.WORKSPACE_UPDATE, Action.TRAINING_UPDATE, Action.INFERENCE_UPDATE),
                *(Action.WORKSPACE_DELETE, Action.TRAINING_DELETE, Action.INFERENCE_DELETE),
            }
        ),
        Action.PROJECT_WRITE: frozenset({Action.PROJECT_CREATE, Action.PROJECT_UPDATE, Action.PROJECT_DELETE}),
        Action.DEPARTMENT_WRITE: frozenset(
            {Action.DEPARTMENT_CREATE, Action.DEPARTMENT_UPDATE, Action.DEPARTMENT_DELETE}
        ),
        Action.POOL_WRITE: frozenset({Action.POOL_CREATE, Action.POOL_UPDATE, Action.POOL_DELETE}),
        Action.CLUSTER_WRITE: frozenset({Action.CLUSTER_CREATE, Action.CLUSTER_UPDATE, Action.CLUSTER_DELETE}),
        Action.ACCESS_READ: frozenset(
            {Action.USER_READ, Action.APP_READ, Action.SERVICE_ACCOUNT_READ, Action.RULE_READ}
        ),
        Action.ACCESS_WRITE: frozenset(
            {
                *(Action.USER_CREATE, Action.USER_UPDATE, Action.USER_DELETE),
                *(Action.APP_CREATE, Action.APP_UPDATE, Action.APP_DELETE),
                *(Action.SERVICE_ACCOUNT_CREATE, Action.SERVICE_ACCOUNT_UPDATE, Action.SERVICE_ACCOUNT_DELETE),
                *(Action.RULE_CREATE, Action.RULE_DELETE),
            }
        ),
        Action.CREDENTIAL_CHANGE: frozenset(
            {Action.CREDENTIAL_WRITE, Action.CREDENTIAL_UPDATE, Action.CREDENTIAL_DELETE}
        ),
        Action.POLICY_WRITE: frozenset({Action.POLICY_CREATE, Action.POLICY_UPDATE}),
        Action.ASSET_READ: frozenset(
            {Action.TEMPLATE_READ, Action.ENVIRONMENT_READ, Action.COMPUTE_READ, Action.DATA_SOURCE_READ}
        ),
        Action.ASSET_WRITE: frozenset(
            {
                *(Action.TEMPLATE_CREATE, Action.TEMPLATE_UPDATE, Action.TEMPLATE_DELETE),
                *(Action.ENVIRONMENT_CREATE, Action.ENVIRONMENT_UPDATE, Action.ENVIRONMENT_DELETE),
                *(Action.COMPUTE_CREATE, Action.COMPUTE_UPDATE, Action.COMPUTE_DELETE),
                *(Action.DATA_SOURCE_CREATE, Action.DATA_SOURCE_UPDATE, Action.DATA_SOURCE_DELETE),
                *(Action.CREDENTIAL_UPDATE, Action.CREDENTIAL_DELETE),
            }
        ),
    }
)
"""Actions that stand for several: all of them are needed."""

ANY_OF = frozenset(
    {
        Action.WORKLOAD_SUBMIT,
        Action.WORKLOAD_UPDATE,
        Action.WORKLOAD_DELETE,
        Action.WORKLOAD_OPERATE,
        Action.CREDENTIAL_CHANGE,
    }
)
"""Of these, a route lets in a caller with any part: its handler asks for the one that the request needs."""

_WORKSPACE = {
    Action.WORKLOAD_SUBMIT: Action.WORKSPACE_CREATE,
    Action.WORKLOAD_UPDATE: Action.WORKSPACE_UPDATE,
    Action.WORKLOAD_DELETE: Action.WORKSPACE_DELETE,
}
_TRAINING = {
    Action.WORKLOAD_SUBMIT: Action.TRAINING_CREATE,
    Action.WORKLOAD_UPDATE: Action.TRAINING_UPDATE,
    Action.WORKLOAD_DELETE: Action.TRAINING_DELETE,
}
_INFERENCE = {
    Action.WORKLOAD_SUBMIT: Action.INFERENCE_CREATE,
    Action.WORKLOAD_UPDATE: Action.INFERENCE_UPDATE,
    Action.WORKLOAD_DELETE: Action.INFERENCE_DELETE,
}
ON_KIND: Mapping[str, Mapping[Action, Action]] = MappingProxyType(
    {"Workspace": _WORKSPACE, "Training": _TRAINING, "Distributed": _TRAINING, "Inference": _INFERENCE}
)
"""What an action on workloads means for each kind of them."""

ON_ASSET: Mapping[str, Mapping[Verb, Action]] = MappingProxyType(
    {
        "workload-template": {
            V.READ: Action.TEMPLATE_READ,
            V.CREATE: Action.TEMPLATE_CREATE,
            V.UPDATE: Action.TEMPLATE_UPDATE,
            V.DELETE: Action.TEMPLATE_DELETE,
        },
        "environment": {
            V.READ: Action.ENVIRONMENT_READ,
            V.CREATE: Action.ENVIRONMENT_CREATE,
            V.UPDATE: Action.ENVIRONMENT_UPDATE,
            V.DELETE: Action.ENVIRONMENT_DELETE,
        },
        "compute": {
            V.READ: Action.COMPUTE_READ,
            V.CREATE: Action.COMPUTE_CREATE,
            V.UPDATE: Action.COMPUTE_UPDATE,
            V.DELETE: Action.COMPUTE_DELETE,
        },
        "datasource": {
            V.READ: Action.DATA_SOURCE_READ,
            V.CREATE: Action.DATA_SOURCE_CREATE,
            V.UPDATE: Action.DATA_SOURCE_UPDATE,
            V.DELETE: Action.DATA_SOURCE_DELETE,
        },
    }
)
"""Actions on assets, by kind as stored."""


def for_kind(action: Action, kind: str) -> Action:
    """What an action on workloads needs for one of this kind."""
    return ON_KIND[kind].get(action, action)


EVERYTHING = frozenset(Action) - {Action.OPEN, Action.SELF, Action.LINK}
CELLS = frozenset(cell for cells in GRID.values() for cell in cells)
"""The cells that have a meaning. The others cannot be assigned."""

ANYWHERE = frozenset({Action.NODE_READ, Action.CLUSTER_READ})
"""Actions on what is not specific to a project: a role in any scope permits them."""

TENANT_WIDE = frozenset(
    {
        Action.DEPARTMENT_CREATE,
        Action.DEPARTMENT_UPDATE,
        Action.DEPARTMENT_DELETE,
        Action.NODE_OVERRIDE,
        Action.POOL_CREATE,
        Action.POOL_UPDATE,
        Action.POOL_DELETE,
        Action.CLUSTER_CREATE,
        Action.CLUSTER_UPDATE,
        Action.CLUSTER_DELETE,
        Action.SNAPSHOT_READ,
        Action.USER_CREATE,
        Action.USER_UPDATE,
        Action.USER_DELETE,
        Action.APP_READ,
        Action.APP_CREATE,
        Action.APP_UPDATE,
        Action.APP_DELETE,
        Action.SERVICE_ACCOUNT_READ,
        Action.SERVICE_ACCOUNT_CREATE,
        Action.SERVICE_ACCOUNT_UPDATE,
        Action.SERVICE_ACCOUNT_DELETE,
        Action.ROLE_CREATE,
        Action.ROLE_UPDATE,
        Action.ROLE_DELETE,
        Action.STORAGE_CLASS_UPDATE,
        Action.AUDIT_READ,
        Action.SETTING_READ,
        Action.SETTING_WRITE,
    }
)
"""Actions on the whole installation: only a tenant-wide role permits them, never a role in one project."""


NOT_IN_PROJECTS = frozenset({Action.PROJECT_CREATE})
"""Actions that a role in a department or cluster permits, and one in a project does not."""


@lru_cache(maxsize=1024)
def actions_of(cells: frozenset[Cell]) -> frozenset[Action]:
    """What a role with these cells permits."""
    return frozenset(action for action, needed in GRID.items() if needed <= cells)


def unused_cells(cells: frozenset[Cell]) -> dict[Cell, frozenset[Cell]]:
    """Cells that permit nothing without others, each with those that it lacks."""
    used = {cell for action in actions_of(cells) for cell in GRID[action]}
    return {
        cell: next(needed - cells for needed in GRID.values() if cell in needed)
        for cell in sorted(cells & CELLS)
        if cell not in used
    }


@dataclass(frozen=True, slots=True)
class Grant:
    """A role in a scope."""

    role: str
    """Its key."""
    actions: frozenset[Action]
    scope_type: ScopeType
    scope_id: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """Project, department and cluster of an action; empty: none."""

    project: str = ""
    department: str = ""
    cluster: str = ""


NOWHERE = Scope()


def allowed(grants: Iterable[Grant], action: Action, scope: Scope = NOWHERE) -> bool:
    """Whether these grants permit an action in a scope; one that stands for several: all of them."""
    together = TOGETHER.get(action)
    if together is None:
        return any(permits(grant, action) and _covers(grant, action, scope) for grant in grants)
    listed = tuple(grants)
    return all(allowed(listed, each, scope) for each in together)


def lacking(
    grants: Iterable[Grant], actions: Iterable[Action], scope_type: ScopeType, scope: Scope = NOWHERE
) -> frozenset[Action]:
    """What a role with these actions would permit in a scope, and these grants do not: its owner may not assign it."""
    listed = tuple(grants)
    given = Grant("", frozenset(actions), scope_type)
    return frozenset(each for each in given.actions if permits(given, each) and not allowed(listed, each, scope))


def allowed_in_part(grants: Iterable[Grant], action: Action, scope: Scope) -> bool:
    """Whether these grants permit an action in a scope; one that stands for several: any of them."""
    listed = tuple(grants)
    return any(allowed(listed, each, scope) for each in TOGETHER.get(action, (action,)))


def allowed_somewhere(grants: Iterable[Grant], action: Action) -> bool:
    """Whether these grants permit an action in any scope; of `ANY_OF`, a part of it."""
    if action in (Action.OPEN, Action.SELF):
        return True
    wanted = TOGETHER[action] if action in ANY_OF else (action,)
    return any(permits(grant, each) for grant in grants for each in wanted)


def permissions(grants: Iterable[Grant]) -> list[str]:
    """All actions that are permitted in some scope, sorted."""
    single = {action for grant in grants for action in grant.actions if permits(grant, action)}
    return sorted({*single, *(whole for whole, parts in TOGETHER.items() if parts <= single)})


def permits(grant: Grant, action: Action) -> bool:
    """Whether the role of a grant permits an action; one that stands for several: all of them."""
    together = TOGETHER.get(action)
    if together is not None:
        return all(permits(grant, each) for each in together)
    return action in grant.actions and (grant.scope_type is ScopeType.TENANT or action not in TENANT_WIDE)


def has_effect(actions: frozenset[Action], scope_type: ScopeType) -> bool:
    """Whether a role with these actions permits anything in a scope of this type."""
    grant = Grant("", actions - (NOT_IN_PROJECTS if scope_type is ScopeType.PROJECT else frozenset()), scope_type)
    return any(permits(grant, action) for action in grant.actions)


def _covers(grant: Grant, action: Action, scope: Scope) -> bool:
    if action in ANYWHERE:
        return True
    match grant.scope_type:
        case ScopeType.TENANT:
            return True
        case ScopeType.CLUSTER:
            return bool(scope.cluster) and grant.scope_id == scope.cluster
        case ScopeType.DEPARTMENT:
            return bool(scope.department) and grant.scope_id == scope.department
        case ScopeType.PROJECT:
            return bool(scope.project) and grant.scope_id == scope.project
