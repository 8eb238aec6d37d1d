"""Projects, departments and their quotas, as requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from fairpool.api.wire import Answer, Moment, Page, PoolNameText, ProjectName, Request, ShortText
from fairpool.model.organization import OverQuotaChoice
from fairpool.model.quantity import UNLIMITED

GpuQuota = Annotated[
    StrictInt | StrictFloat,
    Field(ge=UNLIMITED, le=100_000, description="GPUs; -1: unlimited", examples=[4, 0.5]),
]

CpuQuota = Annotated[StrictInt | StrictFloat, Field(ge=UNLIMITED, le=10_000_000, description="Thousandths of a core")]

MemoryQuota = Annotated[StrictInt | StrictFloat, Field(ge=UNLIMITED, le=1_000_000_000_000)]

Weight = Annotated[StrictInt | StrictFloat, Field(ge=0, le=1000)]

LimitSeconds = Annotated[StrictInt, Field(ge=1, le=315_360_000)]
RuntimeSeconds = Annotated[StrictInt, Field(ge=0, le=315_360_000)]


class MemoryUnits(StrEnum):
    """Units of a memory quota."""

    MIB = "Mib"
    MB = "MB"
    GB = "GB"


class PoolReference(Request):
    """A node pool; its id is its name."""

    id: PoolNameText = "default"
    name: PoolNameText | None = None


class GpuTerms(Request):
    """What is said of GPUs beside the quota."""

    limit: GpuQuota | None = None
    over_quota: OverQuotaChoice | None = Field(
        default=None, description="Default: idle GPUs are shared in proportion to quota"
    )
    over_quota_weight: Weight | None = Field(
        default=None, description="0 lowest, 1 low, 2 medium, 3 high; an alternative to overQuota"
    )


class CpuTerms(Request):
    """What is said of CPU beside the quota, in thousandths of a core."""

    limit: CpuQuota | None = None
    over_quota_weight: Weight | None = None


class MemoryTerms(Request):
    """What is said of memory beside the quota."""

    limit: MemoryQuota | None = None
    over_quota_weight: Weight | None = None
    units: MemoryUnits = MemoryUnits.MIB


class PoolTerms(Request):
    """Which pool, and the rank of the queue in it."""

    node_pool: PoolReference = Field(default_factory=PoolReference)
    priority: Annotated[StrictInt, Field(ge=0, le=1000)] | None = None
    preempt_min_runtime_seconds: RuntimeSeconds | None = Field(
        default=None, description="How long its pods run at least before they are preempted by others of the project"
    )
    reclaim_min_runtime_seconds: RuntimeSeconds | None = Field(
        default=None, description="How long its pods run at least before their GPUs are reclaimed for other projects"
    )

    @property
    def pool(self) -> str:
        return self.node_pool.name or self.node_pool.id


OwedT = TypeVar("OwedT", bound=PoolTerms)


class GpuResource(GpuTerms):
    """GPU quota."""

    deserved: GpuQuota = 0


class CpuResource(CpuTerms):
    """CPU quota, in thousandths of a core."""

    deserved: CpuQuota = UNLIMITED


class MemoryResource(MemoryTerms):
    """Memory quota."""

    deserved: MemoryQuota = UNLIMITED


class PoolResources(PoolTerms):
    """Quotas of a project in one node pool."""

    gpu: GpuResource = Field(default_factory=GpuResource)
    cpu: CpuResource = Field(default_factory=CpuResource)
    memory: MemoryResource = Field(default_factory=MemoryResource)


NOT_SET = "null or omitted: not set, the quota is the sum of its projects' quotas; -1: unlimited"


class DepartmentGpu(GpuTerms):
    """GPU quota of a department."""

    deserved: GpuQuota | None = Field(default=None, description=f"GPUs; {NOT_SET}")


class DepartmentCpu(CpuTerms):
    """CPU quota of a department, in thousandths of a core."""

    deserved: CpuQuota | None = Field(default=None, description=f"Thousandths of a core; {NOT_SET}")


class DepartmentMemory(MemoryTerms):
    """Memory quota of a department."""

    deserved: MemoryQuota | None = Field(default=None, description=NOT_SET)


class DepartmentResources(PoolTerms):
    """Quotas of a department in one node pool; those not set follow its projects."""

    gpu: DepartmentGpu = Field(default_factory=DepartmentGpu)
    cpu: DepartmentCpu = Field(default_factory=DepartmentCpu)
    memory: DepartmentMemory = Field(default_factory=DepartmentMemory)


class SchedulingRules(Request):
    """Scheduling rules for the workloads of a project."""

    interactive_job_time_limit_seconds: LimitSeconds | None = None
    interactive_job_max_idle_duration_seconds: LimitSeconds | None = None
    interactive_job_preempt_idle_duration_seconds: LimitSeconds | None = None
    training_job_max_idle_duration_seconds: LimitSeconds | None = None
    training_job_time_limit_seconds: LimitSeconds | None = None


class NodeTypes(Request):
    """Node types (`run.ai/type`) that workloads of the project may use."""

    training: Annotated[list[ShortText], Field(max_length=64)] = Field(default_factory=list)
    workspace: Annotated[list[ShortText], Field(max_length=64)] = Field(default_factory=list)


class ProjectRequest(Request):
    """A project to create, or its new values."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "team-a", "parentId": "default", "resources": [{"gpu": {"deserved": 4}}], "description": ""}
            ]
        }
    )
    name: ProjectName
    cluster_id: ShortText | None = None
    parent_id: ProjectName = "default"
    requested_namespace: ShortText | None = None
    enforce_runai_scheduler: StrictBool = True
    description: ShortText = ""
    default_node_pools: Annotated[list[PoolNameText], Field(max_length=64)] = Field(default_factory=list)
    node_types: NodeTypes = Field(default_factory=NodeTypes)
    scheduling_rules: SchedulingRules = Field(default_factory=SchedulingRules)
    resources: Annotated[list[PoolResources], Field(max_length=64)] = Field(default_factory=lambda: [PoolResources()])

    @model_validator(mode="after")
    def _each_pool_once(self) -> ProjectRequest:
        _check_pools(self.resources)
        return self


class ProjectUpdate(Request):
    """`PATCH`: changes only the fields in the request."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"description": "language models", "schedulingRules": {"interactiveJobTimeLimitSeconds": 28800}}
            ]
        }
    )
    parent_id: ProjectName | None = None
    description: ShortText | None = None
    default_node_pools: Annotated[list[PoolNameText], Field(max_length=64)] | None = None
    node_types: NodeTypes | None = None
    scheduling_rules: SchedulingRules | None = None
    resources: Annotated[list[PoolResources], Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _each_pool_once(self) -> ProjectUpdate:
        _check_pools(self.resources or [])
        return self


class ResourcesUpdate(Request):
    """`PUT .../resources`: the quotas in every node pool."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"resources": [{"nodePool": {"id": "default"}, "gpu": {"deserved": 4, "overQuota": "medium"}}]}
            ]
        }
    )
    resources: Annotated[list[PoolResources], Field(max_length=64)] = Field(
        validation_alias=AliasChoices("resources", "resource")
    )

    @model_validator(mode="after")
    def _each_pool_once(self) -> ResourcesUpdate:
        _check_pools(self.resources)
        return self

    def merged_into(self, before: list[PoolResources]) -> list[PoolResources]:
        """What is owed afterwards, where only the pools that are named change."""
        return _merged(before, self.resources)


class DepartmentResourcesUpdate(Request):
    """`PUT .../resources` of a department: its quotas in every node pool."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"resources": [{"nodePool": {"id": "default"}, "gpu": {"deserved": 16}}]}]}
    )
    resources: Annotated[list[DepartmentResources], Field(max_length=64)] = Field(
        validation_alias=AliasChoices("resources", "resource")
    )

    @model_validator(mode="after")
    def _each_pool_once(self) -> DepartmentResourcesUpdate:
        _check_pools(self.resources)
        return self

    def merged_into(self, before: list[DepartmentResources]) -> list[DepartmentResources]:
        """What is owed afterwards, where only the pools that are named change."""
        return _merged(before, self.resources)


class TotalResources(Answer):
    """Quotas over all node pools."""

    gpu_quota: float
    cpu_quota: float
    memory_quota: float


class ProjectStatus(Answer):
    """Status of a project."""

    namespace: str
    phase: Annotated[str, Field(examples=["Ready"])] = "Ready"
    quota_status: dict[str, float] = Field(default_factory=dict)


class Parent(Answer):
    """The department of a project."""

    id: str
    name: str


class Project(Answer):
    """A project."""

    id: str
    name: str
    cluster_id: str
    parent_id: str
    parent: Parent
    description: str = ""
    default_node_pools: list[str] = Field(default_factory=list)
    node_types: NodeTypes = Field(default_factory=NodeTypes)
    scheduling_rules: SchedulingRules = Field(default_factory=SchedulingRules)
    resources: list[PoolResources]
    total_resources: TotalResources
    status: ProjectStatus
    allocated_gpus: float = 0.0
    workloads: int = 0
    warnings: list[str] = Field(default_factory=list)
    created_at: Moment
    updated_at: Moment
    created_by: str = ""
    revision: int = 0


class ProjectPage(Page):
    """Projects."""

    projects: list[Project]


class DepartmentRequest(Request):
    """A department to create, or its new values."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "research", "resources": [{"gpu": {"deserved": 8}}]}]}
    )
    name: ProjectName
    cluster_id: ShortText | None = None
    description: ShortText = ""
    resources: Annotated[list[DepartmentResources], Field(max_length=64)] = Field(
        default_factory=lambda: [DepartmentResources()]
    )

    @model_validator(mode="after")
    def _each_pool_once(self) -> DepartmentRequest:
        _check_pools(self.resources)
        return self


class DepartmentUpdate(Request):
    """`PATCH`: changes only the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"resources": [{"gpu": {"deserved": 16}}]}]})
    description: ShortText | None = None
    resources: Annotated[list[DepartmentResources], Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _each_pool_once(self) -> DepartmentUpdate:
        _check_pools(self.resources or [])
        return self


class Department(Answer):
    """A department."""

    id: str
    name: str
    cluster_id: str
    description: str = ""
    resources: list[DepartmentResources]
    total_resources: Annotated[
        TotalResources, Field(description="Quotas over all node pools; those not set follow its projects")
    ]
    quota_is_set: Annotated[
        bool, Field(description="Whether a GPU quota is set in any node pool; otherwise it follows its projects")
    ] = True
    allocated_gpus: Annotated[float, Field(description="GPUs in use by its projects")] = 0.0
    projects: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    created_at: Moment
    updated_at: Moment
    revision: int = 0


class DepartmentPage(Page):
    """Departments."""

    departments: list[Department]


def _check_pools(resources: Sequence[PoolTerms]) -> None:
    names = [each.pool for each in resources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"node pool {twice[0]} is listed twice; list each node pool once")


def _merged(before: Sequence[OwedT], said: Sequence[OwedT]) -> list[OwedT]:
    named = {each.pool for each in said}
    return [*(each for each in before if each.pool not in named), *said]
