"""Nodes, projects and running workloads in one answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.nodes import NodeAnswer
from fairpool.api.organization import Project
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Answer, Moment
from fairpool.api.workloads import WorkloadItem


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
