"""Workloads, their pods and events, as the API returns them; operations on several at once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from fairpool.api.questions import StartForecast
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


class WorkloadItem(Answer):
    """A workload in a list."""

    id: str
    name: str
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
    next_try_at: Annotated[Moment, Field(description="Time of the next retry after a failure")] | None = None
    suspended_by: Annotated[str, Field(description="The user who suspended it, while it is suspended")] | None = None
    running_pods: int = 0
    pending_pods: int = 0
    requested_pods: int = 1
    workload_requested_resources: ResourcesInUse = Field(default_factory=ResourcesInUse)
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
    revision: int = 0


class Workload(WorkloadItem):
    """A workload with its full spec."""

    desired_phase: DesiredPhase = DesiredPhase.RUNNING
    actual_phase: Phase = Phase.CREATING
    workload_id: str
    created_by: str
    command_line: Annotated[str, Field(description="The command line of the submit")] = ""
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


class PodItem(Answer):
    """A pod; its replacement is another one."""

    id: str
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


class HistoryPage(Page):
    """All pods of a workload, oldest first."""

    history: list[PodItem]


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
