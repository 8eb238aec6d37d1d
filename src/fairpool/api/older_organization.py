"""Projects, departments and node pools as older clients know them: numbers for ids, GPUs in fields of their own.

The requests also take the newer fields. What an older field says wins over nothing, never over a newer one.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StrictInt

from fairpool.api.limits import TENANT_ID
from fairpool.api.nodes import PlacementStrategy
from fairpool.api.organization import (
    CpuQuota,
    GpuQuota,
    LimitSeconds,
    MemoryQuota,
    OrgUnitValues,
    PoolResources,
    Weight,
)
from fairpool.api.wire import Answer, AnswerWithNulls, Moment, PoolNameText, ProjectName, Request, ShortText

Number = Annotated[StrictInt, Field(ge=0, le=2**53)]


class OlderGpu(Request):
    """GPUs of a project in a pool."""

    deserved: GpuQuota | None = None
    max_allowed: GpuQuota | None = None
    over_quota_weight: Weight | None = None


class OlderCpu(Request):
    """CPU of a project in a pool, in thousandths of a core."""

    deserved: CpuQuota | None = None
    max_allowed: CpuQuota | None = None
    over_quota_weight: Weight | None = None


class OlderMemory(Request):
    """Memory of a project in a pool, in MiB."""

    deserved: MemoryQuota | None = None
    max_allowed: MemoryQuota | None = None
    over_quota_weight: Weight | None = None


class OlderResources(Request):
    """Quotas in one node pool."""

    id: Number | None = None
    gpu: OlderGpu = Field(default_factory=OlderGpu)
    cpu: OlderCpu = Field(default_factory=OlderCpu)
    memory: OlderMemory = Field(default_factory=OlderMemory)


class OlderPoolReference(Request):
    """A node pool, by number or name."""

    id: Number | PoolNameText | None = None
    name: PoolNameText | None = None


class OlderPoolResources(OlderResources):
    """Quotas in the node pool that is named."""

    node_pool: OlderPoolReference


class NodeTypeReference(Request):
    """A node type, by name."""

    id: Number | None = None
    name: ShortText | None = None


class OlderAffinity(Request):
    """Node types that may be used."""

    affinity_type: Annotated[str, Field(pattern="^(no_limit|only_selected)$")] = "no_limit"
    selected_types: Annotated[list[NodeTypeReference], Field(max_length=64)] = Field(default_factory=list)


class OlderAffinities(Request):
    """Node types for trainings and for interactive work."""

    train: OlderAffinity = Field(default_factory=OlderAffinity)
    interactive: OlderAffinity = Field(default_factory=OlderAffinity)


class OlderPermissions(Request):
    """Who may use a project: here, access rules say it."""

    users: list[ShortText] = Field(default_factory=list)
    groups: list[ShortText] = Field(default_factory=list)
    applications: list[ShortText] = Field(default_factory=list)


class OlderProjectRequest(OrgUnitValues):
    """A project in older or newer words."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "team-a", "deservedGpus": 4, "maxAllowedGpus": -1}]}
    )
    name: ProjectName | None = None
    cluster_id: ShortText | None = None
    department_id: Number | ProjectName | None = None
    parent_id: ProjectName | None = None
    namespace: ShortText | None = None
    requested_namespace: ShortText | None = None
    enforce_runai_scheduler: bool = True
    deserved_gpus: GpuQuota | None = None
    max_allowed_gpus: Annotated[GpuQuota | None, Field(description="-1: unlimited")] = None
    gpu_over_quota_weight: Weight | None = None
    interactive_job_time_limit_secs: LimitSeconds | None = None
    interactive_job_max_idle_duration_secs: LimitSeconds | None = None
    interactive_preemptible_job_max_idle_duration_secs: LimitSeconds | None = None
    training_job_time_limit_secs: LimitSeconds | None = None
    training_job_max_idle_duration_secs: LimitSeconds | None = None
    node_affinity: OlderAffinities | None = None
    permissions: OlderPermissions | None = None
    resources: Annotated[list[PoolResources], Field(max_length=64)] | OlderResources | None = None
    node_pools_resources: Annotated[list[OlderPoolResources], Field(max_length=64)] | None = None


class OlderAmount(AnswerWithNulls):
    """A quota. -1: unlimited; no weight: in proportion to the quota."""

    nulls: ClassVar[tuple[str, ...]] = ("deserved", "maxAllowed", "overQuotaWeight")
    deserved: float | None = None
    max_allowed: float | None = None
    over_quota_weight: float | None = None


class OlderPoolId(Answer):
    """A node pool."""

    id: int
    name: str


class OlderAmounts(Answer):
    """Quotas over all pools: GPUs, thousandths of a core, MiB."""

    gpu: OlderAmount
    cpu: OlderAmount
    memory: OlderAmount


class OlderPoolAmounts(OlderAmounts):
    """Quotas in one node pool."""

    id: int
    node_pool: OlderPoolId


class OlderQuotaStatus(Answer):
    """What is in use in a pool."""

    node_pool_name: str


class OlderProjectStatus(Answer):
    """Status of a project."""

    namespace: str
    phase: str
    message: str = ""
    quota_statuses: list[OlderQuotaStatus] = Field(default_factory=list)


class OlderProject(Answer):
    """A project in older words."""

    id: int
    name: str
    tenant_id: int = TENANT_ID
    cluster_uuid: str
    cluster_id: str
    department_id: int
    department_name: str
    namespace: str
    deserved_gpus: float
    max_allowed_gpus: Annotated[float, Field(description="-1: unlimited")]
    gpu_over_quota_weight: Annotated[float, Field(description="1 also where it is in proportion to the quota")]
    default_node_pools: list[str]
    interactive_job_time_limit_secs: int | None = None
    interactive_job_max_idle_duration_secs: int | None = None
    interactive_preemptible_job_max_idle_duration_secs: int | None = None
    training_job_time_limit_secs: int | None = None
    training_job_max_idle_duration_secs: int | None = None
    interactive_node_affinity: str = ""
    train_node_affinity: str = ""
    resources: OlderAmounts
    node_pools_resources: list[OlderPoolAmounts]
    status: OlderProjectStatus
    phase: str
    created_at: Moment
    revision: int = 0


class OlderDepartment(Answer):
    """A department in older words."""

    id: int
    name: str
    tenant_id: int = TENANT_ID
    cluster_uuid: str
    deserved_gpus: float
    max_allowed_gpus: float
    projects: list[OlderProject]
    created_at: Moment


class OlderNodePool(Answer):
    """A node pool in older words."""

    id: int
    name: str
    cluster_id: str
    label_key: str
    label_value: str
    over_provisioning_ratio: int = 1
    placement_strategy: PlacementStrategy
    status: Annotated[str, Field(examples=["Ready"])]
    status_message: str = ""
    nodes: Annotated[str, Field(description="Names, separated by commas")]
    is_default: bool
    created_by: str
    updated_by: str
    created_at: Moment
    updated_at: Moment


class OlderPoolLabels(Request):
    """The label of a pool's nodes."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"labelKey": "run.ai/type", "labelValue": "a100"}]})
    label_key: Annotated[ShortText, Field(min_length=1)] | None = None
    label_value: Annotated[ShortText, Field(min_length=1)] | None = None


RULES: dict[str, str] = {
    "interactive_job_time_limit_secs": "interactive_job_time_limit_seconds",
    "interactive_job_max_idle_duration_secs": "interactive_job_max_idle_duration_seconds",
    "interactive_preemptible_job_max_idle_duration_secs": "interactive_job_preempt_idle_duration_seconds",
    "training_job_time_limit_secs": "training_job_time_limit_seconds",
    "training_job_max_idle_duration_secs": "training_job_max_idle_duration_seconds",
}
"""Rules of a project by their older names."""


def older_rules(rules: Any) -> dict[str, Any]:
    """Scheduling rules under their older names."""
    return {older: getattr(rules, newer) for older, newer in RULES.items()}
