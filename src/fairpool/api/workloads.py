"""Workloads, their pods and events, as the API returns them; operations on several at once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from fairpool.api.limits import TENANT_ID
from fairpool.api.measured import MeasuredWork
from fairpool.api.problems import ProblemItem
from fairpool.api.questions import StartForecast
from fairpool.api.waiting import WaitCause
from fairpool.api.wire import (
    Answer,
    Moment,
    Page,
    Request,
    ShortText,
)
from fairpool.api.workload_spec import Kind, Source


class DesiredPhase(StrEnum):
    """The desired state of a workload."""

    RUNNING = "Running"
    STOPPED = "Stopped"
    DELETED = "Deleted"


class Phase(StrEnum):
    """The phase of a workload."""

    CREATING = "Creating"
    PENDING = "Pending"
    INITIALIZING = "Initializing"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    STOPPED = "Stopped"
    DELETING = "Deleting"
    DELETED = "Deleted"
    FAILED = "Failed"
    COMPLETED = "Completed"


class ClaimItem(Answer):
    """A volume claim of a project."""

    name: str
    project_id: Annotated[str, Field(description="With a dot in it: of a deleted project whose name is used again")]
    project_deleted: bool = False
    size: Annotated[str, Field(description="The requested size, which is not enforced")] | None = None
    access_mode: Annotated[str, Field(description="rwo, rom or rwm", examples=["rwo"])] = "rwm"
    ephemeral: Annotated[bool, Field(description="Deleted with its workload")] = False
    workload: Annotated[str, Field(description="The workload that it is deleted with")] | None = None
    phase: Annotated[str, Field(description="Ready or Deleting", examples=["Ready"])] = "Ready"
    used_by: list[str] = Field(default_factory=list, description="Workloads that mount it and are not finished")
    created_at: Moment
    created_by: str


class ClaimPage(Page):
    """Volume claims, by name."""

    claims: list[ClaimItem]


class ResourcesInUse(Answer):
    """GPUs, CPU cores and memory, requested or allocated."""

    gpu: float = 0.0
    gpu_memory_mib: int | None = None
    cpu: float = 0.0
    memory_bytes: int = 0


class RequestedAmount(Answer):
    """What was asked for."""

    request: float = 0.0


class RequestedQuantity(Answer):
    """What was asked for, as a quantity."""

    request: Annotated[str, Field(examples=["4294967296"])]


class RequestedResources(Answer):
    """GPUs, CPU cores and memory that its pods ask for together."""

    gpu: RequestedAmount = Field(default_factory=RequestedAmount)
    gpu_memory_mib: int | None = None
    cpu: RequestedAmount = Field(default_factory=RequestedAmount)
    cpu_memory: RequestedQuantity | None = None
    memory_bytes: int = 0


class RequestedPods(Answer):
    """Pods that were asked for."""

    number: int = 1


class ActionsSupport(Answer):
    """What can be done to it."""

    delete: bool = True
    suspend: bool = True


class WorkloadItem(Answer):
    """A workload in a list."""

    id: str
    tenant_id: int = TENANT_ID
    name: str
    category: Annotated[str, Field(examples=["Train"])] = ""
    namespace: str = ""
    conditions: Annotated[list[dict[str, str]], Field(description="Always empty")] = Field(default_factory=list)
    actions_support: ActionsSupport = Field(default_factory=ActionsSupport)
    k8s_phase: Annotated[str, Field(alias="k8sPhase", description="The same as phase")] = ""
    phase_updated_at: Moment | None = None
    k8s_phase_updated_at: Annotated[Moment | None, Field(alias="k8sPhaseUpdatedAt")] = None
    updated_at: Annotated[Moment | None, Field(description="The last change that is known")] = None
    deleted_at: Annotated[Moment | None, Field(description="null: it is not deleted")] = None
    type: Kind
    phase: Phase
    reason: Annotated[
        str, Field(description="Why it is in this phase: stable code, for programs", examples=["queued"])
    ] = ""
    phase_message: Annotated[str, Field(description="Why it is in this phase, in plain text")] = ""
    classic_status: Annotated[str, Field(description="Status shown by the `runai` command", examples=["Pending"])] = ""
    desired_phase: DesiredPhase = DesiredPhase.RUNNING
    project_id: str
    project_name: str
    department_id: str
    department_name: str
    cluster_id: str
    submitted_by: str
    labels: dict[str, str] = Field(default_factory=dict)
    created_at: Moment
    started_at: Moment | None = None
    completed_at: Moment | None = None
    phase_since: Moment | None = None
    failed_tries: Annotated[int, Field(description="Failed tries since it was submitted or resumed")] = 0
    retries_left: Annotated[int, Field(description="Retries left; absent if unlimited")] | None = None
    wait: Annotated[WaitCause, Field(description="Why the scheduler leaves it waiting, if it does")] | None = None
    next_try_at: Annotated[Moment, Field(description="Time of the next retry after a failure")] | None = None
    suspended_by: Annotated[str, Field(description="The user who suspended it, while it is suspended")] | None = None
    running_pods: int = 0
    pending_pods: int = 0
    requested_pods: RequestedPods = Field(default_factory=RequestedPods)
    workload_requested_resources: RequestedResources = Field(default_factory=RequestedResources)
    allocated_resources: ResourcesInUse = Field(default_factory=ResourcesInUse)
    current_nodes: list[str] = Field(default_factory=list)
    current_node_pools: list[str] = Field(default_factory=list)
    images: list[str] = Field(default_factory=list)
    urls: list[str] = Field(default_factory=list)
    preemptible: bool = False
    priority_class_name: str = ""
    priority: int = 0
    distributed_framework: str | None = None
    source: Source = Source.OTHER
    measured: (
        Annotated[MeasuredWork, Field(description="What was last measured of it, if that was asked for")] | None
    ) = None
    revision: int = 0


class Workload(WorkloadItem):
    """A workload with its full spec."""

    desired_phase: DesiredPhase = DesiredPhase.RUNNING
    actual_phase: Phase = Phase.CREATING
    workload_id: str
    requested_name: Annotated[str, Field(description="As submitted: the name, or its beginning")] = ""
    code: Annotated[int | None, Field(description="In the answer to suspend, resume and delete")] = None
    message: Annotated[str | None, Field(description="In the answer to suspend, resume and delete")] = None
    created_by: str
    command_line: Annotated[str, Field(description="The command of the submit; else one that submits the same")] = ""
    changed_fields: Annotated[
        list[str] | None, Field(description="Fields of `spec` that updates have changed since the submit")
    ] = None
    spec: dict[str, Any] = Field(default_factory=dict)
    value_origins: dict[str, str] | None = Field(
        default=None, description="Fields of `spec` that templates gave, each with its template"
    )
    warnings: Annotated[
        list[str] | None, Field(description="In the answer to an update: what does not hold at once")
    ] = None
    forecast: Annotated[StartForecast | None, Field(description="In a dry run: whether it would start now")] = None


class WorkloadPage(Page):
    """Workloads."""

    workloads: list[WorkloadItem]
    total: Annotated[int, Field(description="With counts: workloads on all pages")] | None = None
    phases: (
        Annotated[dict[str, int], Field(description="With counts: workloads by phase; phases without any are left out")]
        | None
    ) = None
    problems: (
        Annotated[list[ProblemItem], Field(description="With status 207: why what was measured is missing")] | None
    ) = None


class PodContainer(Answer):
    """What a pod runs."""

    name: str
    image: str
    started_at: Moment | None = None


class PodItem(Answer):
    """A pod; its replacement is another one."""

    id: str
    tenant_id: int = TENANT_ID
    workload_id: str
    workload_name: str
    project_id: str
    project_name: str
    cluster_id: str
    priority_class_name: str
    containers: list[PodContainer]
    k8s_phase: Annotated[
        str, Field(alias="k8sPhase", examples=["Running"], description="The phase in the words of Kubernetes")
    ]
    k8s_phase_updated_at: Annotated[Moment, Field(alias="k8sPhaseUpdatedAt")]
    updated_at: Moment
    completed_at: Moment | None = None
    node_name: str | None = None
    name: Annotated[str, Field(examples=["train-1-0-0"])]
    index: int
    incarnation: int
    phase: Annotated[str, Field(examples=["running"])]
    node: str | None = None
    devices: list[int] = Field(default_factory=list)
    cause: str | None = None
    detail: str = ""
    outcome: str | None = None
    exit_code: int | None = None
    problem: str = ""
    created_at: Moment
    started_at: Moment | None = None
    since: Moment
    current: bool = True
    progress_percent: Annotated[float | None, Field(examples=[30.0], description="Progress as reported by the job")] = (
        None
    )
    metrics: dict[str, float] = Field(default_factory=dict, description="Numeric metrics reported by the job")
    parameters: dict[str, str] = Field(default_factory=dict, description="Text parameters reported by the job")


class PodPage(Page):
    """Pods, the newest instance of each first."""

    pods: list[PodItem]


class EventItem(Answer):
    """An event of a workload."""

    id: str
    created_at: Annotated[Moment, Field(description="The same as at")]
    type: Annotated[str, Field(examples=["Normal"], description="Normal or Warning")]
    cluster_id: str
    reason: str
    message: str
    sequence: int
    at: Moment
    kind: Annotated[str, Field(examples=["bound"])]
    pod: Annotated[str, Field(description="Id of the pod")] | None = None
    pod_name: Annotated[str, Field(description="Name of the pod", examples=["train-1-0-0"])] | None = None
    node: str | None = None
    cause: str = ""
    detail: str = ""
    outcome: str | None = None
    exit_code: int | None = None


class EventPage(Page):
    """Events, oldest first."""

    events: list[EventItem]


class PodHistoryEvent(Answer):
    """What happened."""

    created_at: Moment
    type: str
    cluster_id: str
    reason: str
    message: str


class PodHistoryMeta(Answer):
    """When."""

    creation_timestamp: Moment
    type: str = "Event"


class PodHistorySpec(Answer):
    """What."""

    event: PodHistoryEvent


class PodHistoryRecord(Answer):
    """A pod of the past or present, as a record."""

    meta: PodHistoryMeta
    spec: PodHistorySpec


class HistoryPage(Page):
    """All pods of a workload, oldest first."""

    history: list[PodItem]
    records: Annotated[list[PodHistoryRecord], Field(description="The same, in the original's form")]


class Category(Answer):
    """What workloads are for."""

    id: str
    name: str
    description: str


class CategoryList(Answer):
    """All categories."""

    categories: list[Category]


class WorkloadType(Answer):
    """A type of workloads, with its category and default priority."""

    id: str
    name: str
    group: str = "run.ai"
    category_id: str
    category_name: str
    priority_id: str
    priority_name: str


class WorkloadTypeList(Answer):
    """All types."""

    types: list[WorkloadType]


class BatchAction(StrEnum):
    """A batch action."""

    DELETE = "delete"
    SUSPEND = "suspend"
    RESUME = "resume"


class BatchRequest(Request):
    """`POST /api/v1/workloads/batch`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"ids": ["0190c1f0-0000-7000-8000-000000000000"], "action": "suspend"}]}
    )
    ids: Annotated[list[ShortText], Field(min_length=1, max_length=1000)]
    action: BatchAction
    force: Annotated[bool, Field(description="With `delete`: kill the pods immediately, without a grace period")] = (
        False
    )

    @model_validator(mode="after")
    def _check_force(self) -> Self:
        if self.force and self.action is not BatchAction.DELETE:
            raise ValueError("force can only be used with the action delete")
        return self


class BatchFailure(Answer):
    """A workload that the action failed for."""

    id: str
    code: int
    message: str


class BatchAnswer(Answer):
    """The result for each workload."""

    id: Annotated[str, Field(description="Of this request")]
    succeeded: list[str]
    failed: list[BatchFailure]


class PriorityClass(Answer):
    """A named priority."""

    id: Annotated[str, Field(description="The name")]
    name: str
    value: int


class PriorityClassPage(Page):
    """Priorities, lowest first."""

    priorities: list[PriorityClass]
    workload_priorities: Annotated[list[PriorityClass], Field(description="The same")]
