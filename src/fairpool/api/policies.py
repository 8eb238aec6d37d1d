"""Policies for workloads: defaults and rules of a scope, for one kind of workload."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictInt

from fairpool.api.assets import AssetName, AssetScope
from fairpool.api.wire import Answer, Moment, Request, ShortText

POLICIES = "/api/v2/policy"
RESETS_MAX = 256

ProjectReference = Annotated[ShortText | StrictInt, Field(description="A project, by its name or its number")]


class PolicyType(StrEnum):
    """The kind of workload that a policy is for."""

    WORKSPACE = "workspace"
    TRAINING = "training"
    DISTRIBUTED = "distributed"
    INFERENCE = "inference"


class PolicyScope(Request):
    """Name and scope of a policy."""

    name: AssetName
    scope: AssetScope
    cluster_id: ShortText | None = Field(default=None, description="For the scope cluster: its id or name")
    department_id: ShortText | None = Field(default=None, description="For the scope department")
    project_id: ProjectReference | None = Field(default=None, description="For the scope project")


_META: dict[str, Any] = {"name": "gpus", "scope": "project", "projectId": "team-a"}
_POLICY: dict[str, Any] = {
    "defaults": {"compute": {"cpuCoreRequest": 2}},
    "rules": {"compute": {"cpuCoreRequest": {"min": 1, "max": 8}, "gpuDevicesRequest": {"max": 4}}},
}
_GANG: dict[str, Any] = {
    "defaults": {"worker": {"compute": {"cpuCoreRequest": 2}}},
    "rules": {"worker": {"numWorkers": {"max": 8}, "compute": {"gpuDevicesRequest": {"max": 4}}}},
}


class PolicyRequest(Request):
    """A policy, whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": _META, "policy": _POLICY}]})
    meta: PolicyScope
    policy: dict[str, Any] = Field(
        default_factory=dict, description="`defaults`, `rules` and `imposedAssets`; see the page about policies"
    )


class PolicyChange(Request):
    """Changes of a policy: what is given replaces what it has about the same fields."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"meta": _META, "policy": _POLICY, "reset": ["compute.cpuMemoryRequest"]}]}
    )
    meta: PolicyScope
    policy: dict[str, Any] = Field(default_factory=dict)
    reset: Annotated[list[ShortText], Field(max_length=RESETS_MAX)] = Field(
        default_factory=list,
        description="Fields whose default and rules are removed, such as compute.gpu",
    )


class DistributedPolicyRequest(PolicyRequest):
    """A policy for distributed workloads, with the sections worker and master."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": _META, "policy": _GANG}]})


class DistributedPolicyChange(PolicyChange):
    """Changes of a policy for distributed workloads."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"meta": _META, "policy": _GANG}]})


class PolicyMeta(Answer):
    """Name and scope of a policy, as stored."""

    id: str
    name: str
    scope: AssetScope
    cluster_id: str | None = None
    department_id: str | None = None
    project_id: int | None = Field(default=None, description="The number of the project")
    project_name: str | None = None
    created_by: str
    created_at: Moment
    updated_by: str
    updated_at: Moment
    revision: int

    @property
    def scope_id(self) -> str:
        return self.project_name or self.department_id or self.cluster_id or ""


class PolicyAnswer(Answer):
    """The policy of a scope, and what it comes to together with those of the scopes around it."""

    meta: PolicyMeta | None = Field(default=None, description="Absent: the scope has no policy of its own")
    policy: dict[str, Any] | None = None
    effective: dict[str, Any] = Field(description="With `sourceOfRule` and `sources` in each rule")
    effective_updated_at: Moment | None = None


class PolicyValidation(Answer):
    """Why a policy cannot be evaluated."""

    error_message: str


class PolicyStatus(Answer):
    """Whether a policy can be evaluated; if not, submits that it holds for are refused."""

    validation: PolicyValidation | None = None


class PolicyEntry(Answer):
    """A policy in a list."""

    type: PolicyType
    meta: PolicyMeta
    status: PolicyStatus | None = None


class PolicyList(Answer):
    """Policies that the caller may see."""

    policies: list[PolicyEntry]


class EffectivePolicy(Answer):
    """What holds for one kind of workload in a project."""

    type: PolicyType
    project_name: str
    policies: list[PolicyMeta] = Field(description="Those that hold, from the widest scope to the narrowest")
    effective: dict[str, Any]
    default_sources: dict[str, str] = Field(description="The policy that each default is from, by field")
