"""Who may do what: one table of roles, one table of routes, and the question between them. Pure.

A route that is not in `ROUTES` cannot be served: the application asks here before any handler runs, and a test walks
through every route and every role.
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


_PROJECTS = "/api/v1/org-unit/projects"
_DEPARTMENTS = "/api/v1/org-unit/departments"
_RULES = "/api/v1/authorization/access-rules"
_ONE = "/api/v1/workloads/{workload_id}"

_JOBS = "/researcher/api/v1/jobs"
_K8S = "/v1/k8s"
_CLUSTER = f"{_K8S}/clusters/{{cluster_id}}"
_OLDER: Mapping[tuple[str, str], Action] = MappingProxyType(
    {
        ("GET", f"{_JOBS}/{{project}}"): Action.WORKLOAD_READ,
        ("POST", _JOBS): Action.WORKLOAD_SUBMIT,
        ("DELETE", _JOBS): Action.WORKLOAD_OPERATE,
        ("POST", f"{_JOBS}/suspend"): Action.WORKLOAD_OPERATE,
        ("POST", f"{_JOBS}/resume"): Action.WORKLOAD_OPERATE,
        ("GET", "/researcher/api/v1/projects"): Action.PROJECT_READ,
        ("GET", f"{_K8S}/clusters"): Action.CLUSTER_READ,
        ("POST", f"{_K8S}/clusters"): Action.CLUSTER_WRITE,
        ("GET", _CLUSTER): Action.CLUSTER_READ,
        ("PUT", _CLUSTER): Action.CLUSTER_WRITE,
        ("DELETE", _CLUSTER): Action.CLUSTER_WRITE,
        ("GET", f"{_CLUSTER}/jobs"): Action.WORKLOAD_READ,
        **{
            (method, f"{_CLUSTER}/{noun}{suffix}"): reading if method == "GET" else writing
            for noun, one, reading, writing in (
                ("projects", "/{project_id}", Action.PROJECT_READ, Action.PROJECT_WRITE),
                ("departments", "/{department_id}", Action.DEPARTMENT_READ, Action.DEPARTMENT_WRITE),
                ("node-pools", "/{pool_id}", Action.NODE_READ, Action.POOL_WRITE),
            )
            for method, suffix in (("GET", ""), ("POST", ""), ("GET", one), ("PUT", one), ("DELETE", one))
        },
        ("GET", f"{_K8S}/users"): Action.ACCESS_READ,
        ("POST", f"{_K8S}/users"): Action.ACCESS_WRITE,
        ("GET", f"{_K8S}/users/roles"): Action.SELF,
        ("GET", f"{_K8S}/users/{{user_id}}"): Action.ACCESS_READ,
        ("DELETE", f"{_K8S}/users/{{user_id}}"): Action.ACCESS_WRITE,
        ("GET", f"{_K8S}/apps"): Action.ACCESS_READ,
        ("POST", f"{_K8S}/apps"): Action.ACCESS_WRITE,
        ("GET", f"{_K8S}/apps/{{app_id}}"): Action.ACCESS_READ,
        ("DELETE", f"{_K8S}/apps/{{app_id}}"): Action.ACCESS_WRITE,
        ("GET", f"{_K8S}/audit"): Action.AUDIT_READ,
    }
)
"""Paths of the older API."""

ROUTES: Mapping[tuple[str, str], Action] = MappingProxyType(
    {
        ("POST", "/api/v1/token"): Action.OPEN,
        ("POST", "/api/v2/token"): Action.OPEN,
        ("POST", "/auth/realms/{realm}/protocol/openid-connect/token"): Action.OPEN,
        ("GET", "/healthz"): Action.OPEN,
        ("GET", "/readyz"): Action.OPEN,
        ("GET", "/"): Action.OPEN,
        ("GET", "/sign-in"): Action.OPEN,
        ("POST", "/sign-out"): Action.OPEN,
        ("GET", "/docs"): Action.OPEN,
        ("GET", "/api/openapi.json"): Action.OPEN,
        ("GET", "/api/docs"): Action.OPEN,
        ("GET", "/researcher/api/docs"): Action.OPEN,
        ("GET", "/api/v1/me"): Action.SELF,
        ("POST", "/api/v1/me/password"): Action.SELF,
        ("POST", "/api/v1/me/logout"): Action.SELF,
        ("GET", "/api/v1/authorization/roles"): Action.SELF,
        ("GET", "/api/v1/authorization/roles/{role_id}"): Action.SELF,
        ("GET", "/api/v1/authorization/permissions"): Action.SELF,
        ("POST", "/api/v1/authorization/permitted-scopes"): Action.SELF,
        ("GET", "/api/v1/authorization/me/access-rules"): Action.SELF,
        ("GET", "/api/v1/workload-priorities"): Action.SELF,
        ("GET", "/api/v1/changes"): Action.WORKLOAD_READ,
        # users, applications, rules
        ("GET", "/api/v1/users"): Action.ACCESS_READ,
        ("POST", "/api/v1/users"): Action.ACCESS_WRITE,
        ("GET", "/api/v1/users/{user_id}"): Action.ACCESS_READ,
        ("DELETE", "/api/v1/users/{user_id}"): Action.ACCESS_WRITE,
        ("POST", "/api/v1/users/{user_id}/password"): Action.ACCESS_WRITE,
        ("POST", "/api/v1/users/{user_id}/logout"): Action.ACCESS_WRITE,
        ("GET", "/api/v1/apps"): Action.ACCESS_READ,
        ("POST", "/api/v1/apps"): Action.ACCESS_WRITE,
        ("GET", "/api/v1/apps/{app_id}"): Action.ACCESS_READ,
        ("DELETE", "/api/v1/apps/{app_id}"): Action.ACCESS_WRITE,
        ("POST", "/api/v1/apps/{app_id}/secret"): Action.ACCESS_WRITE,
        ("GET", _RULES): Action.ACCESS_READ,
        ("POST", _RULES): Action.ACCESS_WRITE,
        ("GET", f"{_RULES}/count"): Action.ACCESS_READ,
        ("POST", f"{_RULES}/batch"): Action.ACCESS_WRITE,
        ("POST", f"{_RULES}/batch-create"): Action.ACCESS_WRITE,
        ("GET", f"{_RULES}/{{rule_id}}"): Action.ACCESS_READ,
        ("DELETE", f"{_RULES}/{{rule_id}}"): Action.ACCESS_WRITE,
        ("GET", "/api/v1/audit/log"): Action.AUDIT_READ,
        ("GET", "/api/v1/audit/log/file"): Action.AUDIT_READ,
        ("GET", "/v1/k8s/setting"): Action.SETTING_READ,
        ("PUT", "/v1/k8s/setting"): Action.SETTING_WRITE,
        ("GET", "/v1/k8s/setting/{key}"): Action.SETTING_READ,
        ("PUT", "/v1/k8s/setting/{key}"): Action.SETTING_WRITE,
        ("GET", "/api/v1/security/settings"): Action.SETTING_READ,
        ("GET", "/api/v1/security/settings/{key}"): Action.SETTING_READ,
        ("PUT", "/api/v1/security/settings/{key}"): Action.SETTING_WRITE,
        # projects and departments
        ("GET", _PROJECTS): Action.PROJECT_READ,
        ("POST", _PROJECTS): Action.PROJECT_WRITE,
        ("GET", f"{_PROJECTS}/count"): Action.PROJECT_READ,
        ("GET", f"{_PROJECTS}/{{project_id}}"): Action.PROJECT_READ,
        ("PUT", f"{_PROJECTS}/{{project_id}}"): Action.PROJECT_WRITE,
        ("PATCH", f"{_PROJECTS}/{{project_id}}"): Action.PROJECT_WRITE,
        ("DELETE", f"{_PROJECTS}/{{project_id}}"): Action.PROJECT_WRITE,
        ("PUT", f"{_PROJECTS}/{{project_id}}/resources"): Action.PROJECT_WRITE,
        ("PATCH", f"{_PROJECTS}/{{project_id}}/resources"): Action.PROJECT_WRITE,
        ("GET", _DEPARTMENTS): Action.DEPARTMENT_READ,
        ("POST", _DEPARTMENTS): Action.DEPARTMENT_WRITE,
        ("GET", f"{_DEPARTMENTS}/count"): Action.DEPARTMENT_READ,
        ("GET", f"{_DEPARTMENTS}/{{department_id}}"): Action.DEPARTMENT_READ,
        ("PUT", f"{_DEPARTMENTS}/{{department_id}}"): Action.DEPARTMENT_WRITE,
        ("PATCH", f"{_DEPARTMENTS}/{{department_id}}"): Action.DEPARTMENT_WRITE,
        ("DELETE", f"{_DEPARTMENTS}/{{department_id}}"): Action.DEPARTMENT_WRITE,
        ("PUT", f"{_DEPARTMENTS}/{{department_id}}/resources"): Action.DEPARTMENT_WRITE,
        ("PATCH", f"{_DEPARTMENTS}/{{department_id}}/resources"): Action.DEPARTMENT_WRITE,
        # nodes, pools, clusters
        ("GET", "/api/v1/claims"): Action.WORKLOAD_READ,
        ("GET", "/api/v1/overview"): Action.NODE_READ,
        ("GET", "/api/v1/nodes"): Action.NODE_READ,
        ("GET", "/api/v1/nodes/count"): Action.NODE_READ,
        ("GET", "/api/v1/nodes/{node}"): Action.NODE_READ,
        ("PUT", "/api/v1/nodes/{node}/marks"): Action.NODE_MARK,
        ("GET", "/api/v1/node-pools"): Action.NODE_READ,
        ("POST", "/api/v1/node-pools"): Action.POOL_WRITE,
        ("GET", "/api/v1/node-pools/count"): Action.NODE_READ,
        ("GET", "/api/v1/node-pools/{pool_id}"): Action.NODE_READ,
        ("PUT", "/api/v1/node-pools/{pool_id}"): Action.POOL_WRITE,
        ("PATCH", "/api/v1/node-pools/{pool_id}"): Action.POOL_WRITE,
        ("DELETE", "/api/v1/node-pools/{pool_id}"): Action.POOL_WRITE,
        ("GET", "/api/v1/clusters"): Action.CLUSTER_READ,
        ("POST", "/api/v1/clusters"): Action.CLUSTER_WRITE,
        ("GET", "/api/v1/clusters/{cluster_id}"): Action.CLUSTER_READ,
        ("PUT", "/api/v1/clusters/{cluster_id}"): Action.CLUSTER_WRITE,
        ("DELETE", "/api/v1/clusters/{cluster_id}"): Action.CLUSTER_WRITE,
        ("POST", "/api/v1/cluster/pull"): Action.LINK,
        ("POST", "/api/v1/cluster/push"): Action.LINK,
        # workloads
        ("GET", "/api/v1/workloads"): Action.WORKLOAD_READ,
        ("GET", "/api/v1/workloads/count"): Action.WORKLOAD_READ,
        ("POST", "/api/v1/workloads/workspaces"): Action.WORKLOAD_SUBMIT,
        ("POST", "/api/v1/workloads/trainings"): Action.WORKLOAD_SUBMIT,
        ("POST", "/api/v1/workloads/distributed"): Action.WORKLOAD_SUBMIT,
        ("POST", "/api/v1/workloads/inferences"): Action.WORKLOAD_SUBMIT,
        ("POST", "/api/v1/workloads/batch"): Action.WORKLOAD_OPERATE,
        ("POST", "/api/v1/uploads"): Action.WORKLOAD_SUBMIT,
        ("PUT", "/api/v1/uploads/{upload_id}"): Action.WORKLOAD_SUBMIT,
        ("POST", "/api/v1/uploads/{upload_id}/complete"): Action.WORKLOAD_SUBMIT,
        ("DELETE", "/api/v1/uploads/{upload_id}"): Action.WORKLOAD_SUBMIT,
        **{
            (method, f"{base}{{workload_id}}{suffix}"): action
            for base in ("/api/v1/workloads/", *(
                f"/api/v1/workloads/{kind}/" for kind in ("workspaces", "trainings", "distributed", "inferences")
            ))
            for method, suffix, action in (
                ("GET", "", Action.WORKLOAD_READ),
                ("DELETE", "", Action.WORKLOAD_OPERATE),
                ("POST", "/suspend", Action.WORKLOAD_OPERATE),
                ("POST", "/resume", Action.WORKLOAD_OPERATE),
            )
        },
        ("PATCH", "/api/v1/workloads/inferences/{workload_id}"): Action.WORKLOAD_OPERATE,
        ("GET", f"{_ONE}/events"): Action.WORKLOAD_READ,
        ("GET", f"{_ONE}/history"): Action.WORKLOAD_READ,
        ("GET", f"{_ONE}/pods"): Action.WORKLOAD_READ,
        ("GET", f"{_ONE}/logs"): Action.WORKLOAD_READ,
        ("WEBSOCKET", f"{_ONE}/exec"): Action.WORKLOAD_OPERATE,
        ("WEBSOCKET", f"{_ONE}/attach"): Action.WORKLOAD_OPERATE,
        **_OLDER,
    }
)  # fmt: skip

WITH_A_GIVEN_PASSWORD = frozenset(
    {("GET", "/api/v1/me"), ("POST", "/api/v1/me/password"), ("POST", "/api/v1/me/logout")}
)
"""All that an account may do while its password is one that somebody else chose."""
