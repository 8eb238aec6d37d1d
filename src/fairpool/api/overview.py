"""Nodes, projects and running workloads in one answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.nodes import NodeAnswer
from fairpool.api.organization import Project
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Answer, Moment
from fairpool.api.workloads import WorkloadItem


class OverviewFigures(Answer):
    """How much there is, is allocated, used and waited for: from one read, and the latest samples."""

    as_of: Annotated[Moment, Field(description="When it was read")]
    nodes: int
    ready_nodes: int
    gpu_nodes: int
    gpus: int
    ready_gpus: int
    allocated_gpus: float
    free_gpus: Annotated[int, Field(description="Of ready nodes: GPUs of which nothing is held")]
    largest_free_block: Annotated[int, Field(description="The most of them on one node")]
    cpu_cores: float
    allocated_cpu_cores: float
    memory_bytes: int
    allocated_memory_bytes: int
    measured_gpus: Annotated[int, Field(description="GPUs that were measured within the last minute")]
    measured_at: Annotated[Moment, Field(description="When the latest of their samples began")] | None = None
    gpu_utilization: Annotated[float, Field(description="In percent, average of the measured GPUs")] | None = None
    gpu_memory_utilization: float | None = None
    idle_allocated_gpus: (
        Annotated[int, Field(description="Held for more than five minutes, and at 0 % for as long")] | None
    ) = None
    used_cpu_cores: float | None = None
    used_memory_bytes: int | None = None
    workloads: Annotated[dict[str, int], Field(description="Workloads that you can see, by phase, as lists count them")]
    running: int
    pending: Annotated[int, Field(description="Those that `GET /api/v1/workloads/waiting` lists")]
    pending_gpus: Annotated[float, Field(description="What they ask for")]
    problems: (
        Annotated[list[ProblemItem], Field(description="With status 207: why what was measured is missing")] | None
    ) = None


class Overview(Answer):
    """A consistent snapshot of nodes, projects and running workloads."""

    as_of: Annotated[Moment, Field(description="When it was read; all of it is from one read")]
    nodes: list[NodeAnswer]
    projects: list[Project]
    workloads: Annotated[
        list[WorkloadItem], Field(description="Workloads that are running, starting or still hold resources")
    ]
    waiting: Annotated[dict[str, int], Field(description="Number of pending workloads, by project")] = Field(
        default_factory=dict
    )
    hidden_workloads: Annotated[
        int, Field(description="Number of running workloads in projects that the caller may not see")
    ] = 0
    problems: (
        Annotated[list[ProblemItem], Field(description="With status 207: why what was measured is missing")] | None
    ) = None
