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
    """What can be permitted."""

    OPEN = "open"
    """Needs no caller: health, sign-in, and pages that show nothing of the installation."""
    SELF = "self"
    """Everybody who is signed in, about themselves or about what is no secret."""
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
    NODE_MARK = "node.mark"
    POOL_WRITE = "node-pool.write"
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"
    """Users, applications and access rules."""
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
"""What is no project's secret: a role in any scope permits it."""

EVERYBODYS = frozenset(
    {
        Action.DEPARTMENT_WRITE,
        Action.NODE_MARK,
        Action.POOL_WRITE,
        Action.CLUSTER_WRITE,
        Action.ACCESS_READ,
        Action.ACCESS_WRITE,
        Action.AUDIT_READ,
        Action.SETTING_READ,
        Action.SETTING_WRITE,
    }
)
"""What concerns everybody: only a role over everything permits it, whatever that role permits in one project."""


@dataclass(frozen=True, slots=True)
class Grant:
    """This role, in this scope."""

    role: RoleName
    scope_type: ScopeType
    scope_id: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where something is done; empty: not in any project."""

    project: str = ""
    department: str = ""


NOWHERE = Scope()


def allowed(grants: Iterable[Grant], action: Action, scope: Scope = NOWHERE) -> bool:
    """Whether these grants permit it there."""
    return any(permits(grant, action) and _covers(grant, action, scope) for grant in grants)


def allowed_somewhere(grants: Iterable[Grant], action: Action) -> bool:
    """Whether there is any place where these grants permit it."""
    return action in (Action.OPEN, Action.SELF) or any(permits(grant, action) for grant in grants)


def permissions(grants: Iterable[Grant]) -> list[str]:
    """Everything that is permitted somewhere, sorted."""
    return sorted({action.value for grant in grants for action in ROLES[grant.role] if permits(grant, action)})


def permits(grant: Grant, action: Action) -> bool:
    """Whether it permits this anywhere."""
    return action in ROLES[grant.role] and (grant.scope_type is ScopeType.TENANT or action not in EVERYBODYS)


def _covers(grant: Grant, action: Action, scope: Scope) -> bool:
    if grant.scope_type is ScopeType.TENANT or action in ANYWHERE:
        return True
    if grant.scope_type is ScopeType.DEPARTMENT:
        return bool(scope.department) and grant.scope_id == scope.department
    return bool(scope.project) and grant.scope_id == scope.project
