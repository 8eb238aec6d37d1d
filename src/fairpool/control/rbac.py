"""Role-based access control: actions, what each role permits, and whether a caller's grants cover an action. Pure.

Each route declares the action that it needs (`control/routes.py`); a test tries every route as every role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from fairpool.api.access import RoleName, ScopeType


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
    PROJECT_READ = "project.read"
    PROJECT_WRITE = "project.write"
    DEPARTMENT_READ = "department.read"
    DEPARTMENT_WRITE = "department.write"
    NODE_READ = "node.read"
    NODE_OVERRIDE = "node.mark"
    POOL_WRITE = "node-pool.write"
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    SNAPSHOT_READ = "cluster.snapshot"
    """What the scheduler of a cluster sees, and what it would do: the work of all projects."""
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"
    """Users, applications and access rules."""
    ASSET_READ = "asset.read"
    ASSET_WRITE = "asset.write"
    """Workload templates, and credentials that others made."""
    CREDENTIAL_WRITE = "credential.write"
    """Credentials of a project or department, one's own."""
    POLICY_READ = "policy.read"
    POLICY_WRITE = "policy.write"
    """Policies for the workloads of a scope."""
    AUDIT_READ = "audit.read"
    SETTING_READ = "setting.read"
    SETTING_WRITE = "setting.write"


EVERYTHING = frozenset(Action) - {Action.OPEN, Action.SELF, Action.LINK}

ROLES: Mapping[RoleName, frozenset[Action]] = MappingProxyType(
    {
        RoleName.ADMINISTRATOR: EVERYTHING,
        RoleName.RESEARCHER: frozenset(
            {
                Action.WORKLOAD_READ,
                Action.WORKLOAD_SUBMIT,
                Action.WORKLOAD_OPERATE,
                Action.PROJECT_READ,
                Action.DEPARTMENT_READ,
                Action.NODE_READ,
                Action.CLUSTER_READ,
                Action.ASSET_READ,
                Action.CREDENTIAL_WRITE,
                Action.POLICY_READ,
            }
        ),
    }
)

DESCRIPTIONS: Mapping[RoleName, str] = MappingProxyType(
    {
        RoleName.ADMINISTRATOR: "Full access: users, settings, clusters, projects and their workloads",
        RoleName.RESEARCHER: "Submits and manages workloads in the projects where the role is assigned",
    }
)

ANYWHERE = frozenset({Action.NODE_READ, Action.CLUSTER_READ, Action.DEPARTMENT_READ})
"""Actions on what is not specific to a project: a role in any scope permits them."""

TENANT_WIDE = frozenset(
    {
        Action.DEPARTMENT_WRITE,
        Action.NODE_OVERRIDE,
        Action.POOL_WRITE,
        Action.CLUSTER_WRITE,
        Action.SNAPSHOT_READ,
        Action.ACCESS_READ,
        Action.ACCESS_WRITE,
        Action.AUDIT_READ,
        Action.SETTING_READ,
        Action.SETTING_WRITE,
    }
)
"""Actions on the whole installation: only a tenant-wide role permits them, never a role in one project."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role in a scope."""

    role: RoleName
    scope_type: ScopeType
    scope_id: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """Project and department of an action; empty: none."""

    project: str = ""
    department: str = ""


NOWHERE = Scope()


def allowed(grants: Iterable[Grant], action: Action, scope: Scope = NOWHERE) -> bool:
    """Whether these grants permit an action in a scope."""
    return any(permits(grant, action) and _covers(grant, action, scope) for grant in grants)


def allowed_somewhere(grants: Iterable[Grant], action: Action) -> bool:
    """Whether these grants permit an action in any scope."""
    return action in (Action.OPEN, Action.SELF) or any(permits(grant, action) for grant in grants)


def permissions(grants: Iterable[Grant]) -> list[str]:
    """All actions that are permitted in some scope, sorted."""
    return sorted({action.value for grant in grants for action in ROLES[grant.role] if permits(grant, action)})


def permits(grant: Grant, action: Action) -> bool:
    """Whether the role of a grant permits an action."""
    return action in ROLES[grant.role] and (grant.scope_type is ScopeType.TENANT or action not in TENANT_WIDE)


def _covers(grant: Grant, action: Action, scope: Scope) -> bool:
    if grant.scope_type is ScopeType.TENANT or action in ANYWHERE:
        return True
    if grant.scope_type is ScopeType.DEPARTMENT:
        return bool(scope.department) and grant.scope_id == scope.department
    return bool(scope.project) and grant.scope_id == scope.project
