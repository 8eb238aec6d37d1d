"""Nodes, projects and running work in one answer, on the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.organization import NodeAnswer, Project
from fairpool.api.wire import Answer
from fairpool.api.workloads import WorkloadItem


class Overview(Answer):
    """Nodes, projects and running work at one moment: what nodes have allocated is what the workloads hold."""

    nodes: list[NodeAnswer]
    projects: list[Project]
    workloads: Annotated[list[WorkloadItem], Field(description="Those that run, start, or still hold something")]
    waiting: Annotated[dict[str, int], Field(description="How many workloads wait, by project")] = Field(
        default_factory=dict
    )
    hidden_workloads: Annotated[int, Field(description="Running work in projects that the caller may not see")] = 0
