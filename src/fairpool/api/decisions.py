"""Decisions of schedulers, as a feed: what started, what was lent, taken back, moved, with reasons and figures."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairpool.api.wire import Answer, Moment, Page
from fairpool.model.decision_record import DecisionKind


class QueueAtDecision(Answer):
    """GPUs of a project or department at a decision."""

    name: str
    is_department: bool = False
    is_hidden: Annotated[bool, Field(description="It is another's, and you see some projects only: no figures")] = False
    quota: Annotated[float | None, Field(description="Absent: unlimited, or hidden")] = None
    fair_share: float | None = None
    allocated: float | None = None


class Decision(Answer):
    """One decision about the pods of one workload."""

    id: Annotated[str, Field(description="Cluster and number, which rises from decision to decision of a cluster")]
    sequence: int
    cluster_id: str
    at: Moment
    kind: DecisionKind
    message: Annotated[str, Field(examples=["starts on dgx1-2 with 2 GPUs, 1 of them beyond its quota of 4"])]
    workload_id: str
    workload_name: str
    project_id: str
    department_id: str
    submitted_by: str
    pods: int
    gpus: float
    lent_gpus: Annotated[float, Field(description="The part beyond the project's quota")] = 0.0
    nodes: list[str]
    project: Annotated[QueueAtDecision | None, Field(description="After all decisions of this cycle")] = None
    winner: Annotated[str | None, Field(description="The workload that gets the place")] = None
    wanted_gpus: Annotated[float | None, Field(description="Requested by the winner")] = None
    taken: Annotated[QueueAtDecision | None, Field(description="Which loses GPUs, before the decision")] = None
    gaining: Annotated[QueueAtDecision | None, Field(description="Which gets them, before the decision")] = None


class DecisionPage(Page):
    """Decisions about workloads that you can see, the newest first."""

    as_of: Annotated[Moment, Field(description="When this was read; all of it is from one read")]
    decisions: list[Decision]


class CountedDecisions(Answer):
    """A part of a time."""

    start: Moment
    counts: Annotated[dict[str, int], Field(description="By kind", examples=[{"lent": 3, "taken-back": 1}])]


class DecisionCounts(Answer):
    """How many decisions of each kind there were, over a time."""

    as_of: Annotated[Moment, Field(description="When they were counted")]
    seconds: Annotated[float, Field(description="How long a part is")]
    parts: list[CountedDecisions]
