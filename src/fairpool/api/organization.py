"""Projects, departments and their quotas, as requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from fairpool.api.limits import TENANT_ID
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


QUEUE_PRIORITIES = {"very-low": 10, "low": 50, "medium": 100, "high": 150, "very-high": 200}
"""Names for ranks of queues. Any whole number up to 1000 is as good."""
_PRIORITY_NAMES = {value: name for name, value in QUEUE_PRIORITIES.items()}


def _read_priority(said: Any) -> Any:
    """A name, or a number as text, as the original's client sends it; all else is left to the field's own check."""
    if isinstance(said, str):
        return QUEUE_PRIORITIES.get(said, int(said) if said.isascii() and said.isdigit() and len(said) < 5 else said)
    return said


QueuePriority = Annotated[
    StrictInt,
    Field(ge=0, le=1000, description=f"A number, or one of {', '.join(QUEUE_PRIORITIES)}"),
    BeforeValidator(_read_priority, json_schema_input_type=int | str),
    PlainSerializer(lambda rank: _PRIORITY_NAMES.get(rank, str(rank)), return_type=str),
]


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
    priority: QueuePriority | None = None
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
    names: Annotated[dict[ShortText, ShortText], Field(max_length=64)] | None = Field(
        default=None, description="Each type by its name; a type has no other name"
    )

    @model_validator(mode="after")
    def _names_are_types(self) -> NodeTypes:
        for type_id, name in (self.names or {}).items():
            if name != type_id or name not in (*self.training, *self.workspace):
                raise ValueError(f"{name} is not one of the node types listed; a node type has no name but its own")
        return self


class OrgUnitValues(Request):
    """What projects and departments have in common. A project has its department's where it has none of its own."""

    description: ShortText = ""
    default_node_pools: Annotated[list[PoolNameText], Field(max_length=64)] = Field(default_factory=list)
    node_types: NodeTypes = Field(default_factory=NodeTypes)
    scheduling_rules: SchedulingRules = Field(default_factory=SchedulingRules)


class ProjectValues(OrgUnitValues):
    """What can be said of a project."""

    cluster_id: ShortText | None = None
    requested_namespace: ShortText | None = None
    enforce_runai_scheduler: StrictBool = True
    resources: Annotated[list[PoolResources], Field(max_length=64)] = Field(default_factory=lambda: [PoolResources()])

    @model_validator(mode="after")
    def _each_pool_once(self) -> Self:
        _check_pools(self.resources)
        return self


class ProjectRequest(ProjectValues):
    """A project to create, or its new values."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "team-a", "parentId": "default", "resources": [{"gpu": {"deserved": 4}}], "description": ""}
            ]
        }
    )
    name: ProjectName
    parent_id: ProjectName = "default"


class ProjectReplacement(ProjectValues):
    """`PUT`: all values of a project. Name and department stay as they are if they are left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"resources": [{"gpu": {"deserved": 4}}]}]})
    name: ProjectName | None = None
    parent_id: ProjectName | None = None


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


def _as_object(said: Any) -> Any:
    return {"resources": said} if isinstance(said, list) else said


class ResourcesUpdate(Request):
    """`PUT .../resources`: the quotas in every node pool, as an object or as the bare list."""

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

    _bare_list = model_validator(mode="before")(_as_object)

    @model_validator(mode="after")
    def _each_pool_once(self) -> ResourcesUpdate:
        _check_pools(self.resources)
        return self

    def merged_into(self, before: list[PoolResources]) -> list[PoolResources]:
        """What is owed afterwards, where only the pools that are named change."""
        return _merged(before, self.resources)


class DepartmentResourcesUpdate(Request):
    """`PUT .../resources` of a department: its quotas in every node pool, as an object or as the bare list."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"resources": [{"nodePool": {"id": "default"}, "gpu": {"deserved": 16}}]}]}
    )
    resources: Annotated[list[DepartmentResources], Field(max_length=64)] = Field(
        validation_alias=AliasChoices("resources", "resource")
    )

    _bare_list = model_validator(mode="before")(_as_object)

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


class HeldResources(Answer):
    """GPUs in use."""

    gpu: float


class QuotaStatus(Answer):
    """What is in use of the quotas."""

    allocated: HeldResources
    allocated_gpus: float


class ProjectStatus(Answer):
    """Status of a project."""

    namespace: str
    phase: Annotated[str, Field(examples=["Ready"])] = "Ready"
    quota_status: QuotaStatus


class DepartmentStatus(Answer):
    """Status of a department."""

    quota_status: QuotaStatus


class Child(Answer):
    """A project of a department."""

    id: str
    name: str


class Effective(Answer):
    """What holds in a project: its own values, and its department's where it has none."""

    scheduling_rules: SchedulingRules
    default_node_pools: list[str]
    node_types: NodeTypes


class Parent(Answer):
    """The department of a project."""

    id: str
    name: str


class Project(Answer):
    """A project."""

    id: str
    number: Annotated[int, Field(description="Its id on older paths, and in assets and policies")]
    tenant_id: int = TENANT_ID
    name: str
    color_slot: Annotated[int, Field(ge=0, le=19, description="Which of the 20 project colours it is drawn in")] = 0
    cluster_id: str
    requested_namespace: str
    enforce_runai_scheduler: bool = True
    parent_id: str
    parent: Parent
    effective: Effective
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


class NamedPriority(Answer):
    """A name for the priority of a project or department in a node pool."""

    name: str
    value: int
    is_default: bool = False


class QueuePriorityList(Answer):
    """Priorities of projects and departments, lowest first."""

    priorities: list[NamedPriority]


class ProjectPage(Page):
    """Projects."""

    projects: list[Project]


class DepartmentValues(OrgUnitValues):
    """What can be said of a department."""

    cluster_id: ShortText | None = None
    resources: Annotated[list[DepartmentResources], Field(max_length=64)] = Field(
        default_factory=lambda: [DepartmentResources()]
    )

    @model_validator(mode="after")
    def _each_pool_once(self) -> Self:
        _check_pools(self.resources)
        return self


class DepartmentRequest(DepartmentValues):
    """A department to create, or its new values."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "research", "resources": [{"gpu": {"deserved": 8}}]}]}
    )
    name: ProjectName


class DepartmentReplacement(DepartmentValues):
    """`PUT`: all values of a department. The name cannot change and may be left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"resources": [{"gpu": {"deserved": 8}}]}]})
    name: ProjectName | None = None


class DepartmentUpdate(Request):
    """`PATCH`: changes only the fields in the request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"resources": [{"gpu": {"deserved": 16}}]}]})
    description: ShortText | None = None
    default_node_pools: Annotated[list[PoolNameText], Field(max_length=64)] | None = None
    node_types: NodeTypes | None = None
    scheduling_rules: SchedulingRules | None = None
    resources: Annotated[list[DepartmentResources], Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _each_pool_once(self) -> DepartmentUpdate:
        _check_pools(self.resources or [])
        return self


class Department(Answer):
    """A department."""

    id: str
    number: Annotated[int, Field(description="Its id on older paths")]
    tenant_id: int = TENANT_ID
    name: str
    cluster_id: str
    description: str = ""
    default_node_pools: list[str] = Field(default_factory=list)
    node_types: NodeTypes = Field(default_factory=NodeTypes)
    scheduling_rules: SchedulingRules = Field(default_factory=SchedulingRules)
    status: DepartmentStatus
    children: Annotated[list[Child], Field(description="Its projects that the caller may see")] = Field(
        default_factory=list
    )
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
    """Pools that are not named stay, and in those that are, whatever is left out."""
    known = {each.pool: each for each in before}
    changed = [_laid_over(known[each.pool], each) if each.pool in known else each for each in said]
    named = {each.pool for each in said}
    return [*(each for each in before if each.pool not in named), *changed]


RequestT = TypeVar("RequestT", bound=Request)


def _laid_over(before: RequestT, said: RequestT) -> RequestT:
    """The values before, with those that were said, and so on inside."""
    update = {}
    for name in said.model_fields_set:
        old, new = getattr(before, name), getattr(said, name)
        update[name] = _laid_over(old, new) if isinstance(new, Request) and isinstance(old, Request) else new
    return before.model_copy(update=update)
