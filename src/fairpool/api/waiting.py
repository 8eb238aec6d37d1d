"""Why work waits, as structure: cause and figures, checks, what would change it, and when it is expected to start."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from fairpool.api.wire import Answer, Moment, Page

CheckName = Literal["project", "pods", "limits", "nodes", "capacity", "topology", "room", "reclaim", "handover"]
CheckOutcome = Literal["passed", "failed", "not-reached"]
Effect = Literal["starts", "starts-after-preemption", "no-gain"]
ChangeKind = Literal[
    "stop-own",
    "fewer-gpus",
    "fewer-pods",
    "preemptible",
    "other-pool",
    "raise-quota",
    "raise-limit",
    "return-nodes",
]
EstimateState = Literal["given", "no-basis", "not-computed"]
Basis = Literal["time-limit", "progress", "minimum-runtime", "handover"]


class WaitCause(Answer):
    """Why the scheduler leaves a workload waiting."""

    cause: Annotated[str, Field(description="A stable code, for programs", examples=["not_its_turn"])]
    pods_waiting: int
    pods_running: Annotated[int, Field(description="Above 0 for elastic work that waits to grow")] = 0
    failed_checks: Annotated[list[str], Field(description="In the scheduler's order", examples=[["room", "reclaim"]])]
    details: Annotated[
        dict[str, JsonValue],
        Field(description="Figures of the cause; names that end in Milli are thousandths of a GPU"),
    ]


class WaitCheck(Answer):
    """A check of the scheduler."""

    check: CheckName
    state: CheckOutcome
    figures: Annotated[
        dict[str, float],
        Field(
            description="What was compared, in GPUs or numbers; a bound that is not there is unlimited",
            examples=[{"asked": 2.0, "free": 0.0}],
        ),
    ] = Field(default_factory=dict)


class WaitChange(Answer):
    """A change, tried alone with the planner, and what it would gain."""

    kind: ChangeKind
    by: Annotated[Literal["user", "administrator"], Field(description="Who can make it")]
    message: Annotated[str, Field(examples=["request 1 GPU instead of 4"])]
    subject: Annotated[str, Field(description="The workload, project, department, pool or node that is changed")] = ""
    before: Annotated[float | None, Field(description="GPUs; for fewer-pods and return-nodes a number")] = None
    after: float | None = None
    effect: Annotated[Effect, Field(description="`no-gain`: it would still wait")]
    victims: Annotated[int, Field(description="Pods of other workloads that would be stopped or moved")] = 0


class EarlierEstimate(Answer):
    """The first estimate that was given for this wait."""

    made_at: Moment
    expected_at: Moment


class StartEstimate(Answer):
    """When a workload is expected to start, if nothing is submitted in the meantime."""

    expected_at: Moment
    earliest_at: Annotated[Moment | None, Field(description="Absent: at any moment")] = None
    latest_at: Annotated[Moment | None, Field(description="Absent: there is no bound")] = None
    basis: Annotated[list[Basis], Field(description="What it follows from", examples=[["time-limit"]])]
    waits_for: Annotated[int, Field(description="Workloads that end before it")] = 0
    first: Annotated[EarlierEstimate | None, Field(description="If it was another one")] = None


class WaitShare(Answer):
    """GPUs of the project in the pool where it waits."""

    quota: Annotated[float | None, Field(description="Absent: unlimited")] = None
    fair_share: float
    allocated: float


class WorkloadWait(Answer):
    """Why a workload waits, at one moment. Everything in it is from the snapshot of that moment."""

    workload_id: str
    taken_at: Annotated[Moment, Field(description="When the cluster answered: all of it was so then")]
    planned_at: Annotated[
        Moment | None, Field(description="When the scheduler last planned; what it sees has not changed since")
    ] = None
    waits: Annotated[bool, Field(description="False: the scheduler has nothing of it waiting; `message` says why")]
    message: str
    node_pool: str | None = None
    groups_waiting: Annotated[int, Field(description="Pod groups that wait; the first of them is described")] = 0
    cause: WaitCause | None = None
    checks: Annotated[list[WaitCheck], Field(description="In the scheduler's order")] = Field(default_factory=list)
    share: WaitShare | None = None
    changes: Annotated[list[WaitChange], Field(description="What would change it, the best first")] = Field(
        default_factory=list
    )
    estimate: Annotated[
        EstimateState | None,
        Field(description="no-basis: no known end lets it start; not-computed: the cluster is too large to find out"),
    ] = None
    expected_start: Annotated[StartEstimate | None, Field(description="If `estimate` is given")] = None


class WaitingWorkload(Answer):
    """A waiting workload in a list."""

    id: str
    name: str
    type: Annotated[str, Field(description="As in the list of workloads", examples=["Training"])] = ""
    project_id: str
    department_id: str
    cluster_id: str
    submitted_by: str
    created_at: Moment
    waiting_since: Moment | None = None
    requested_gpu: Annotated[float, Field(alias="requestedGPU")]
    node_pool: str | None = None
    reason: Annotated[str, Field(description="queued, dependency, back-off and others", examples=["queued"])]
    message: str
    cause: Annotated[WaitCause | None, Field(description="If it waits for the scheduler")] = None


class WaitingPage(Page):
    """Waiting work, those first that wait longest."""

    as_of: Annotated[Moment, Field(description="When this was read; all of it is from one read")]
    count: Annotated[int, Field(description="All that fit, on this and other pages")]
    requested_gpus: Annotated[float, Field(description="Of all that fit")]
    workloads: list[WaitingWorkload]


class EstimateErrors(Answer):
    """How far off estimates were, of workloads that have started since."""

    basis: Annotated[str, Field(description="Empty: of all", examples=["time-limit"])] = ""
    estimates: int
    within_5_min: Annotated[int, Field(alias="within5Min")]
    within_interval: Annotated[int, Field(description="Not before the earliest and not after the latest time given")]
    later: Annotated[int, Field(description="Started more than 5 minutes later")]
    earlier: Annotated[int, Field(description="Started more than 5 minutes earlier")]
    median_error_s: Annotated[int | None, Field(description="Later is positive; absent if there are none")] = None


class EstimateAccuracy(Answer):
    """How far off the first estimates of waiting work were."""

    as_of: Moment
    since: Annotated[Moment, Field(description="Of estimates made after this")]
    open: Annotated[int, Field(description="Estimates of work that has not started yet")]
    message: Annotated[str, Field(examples=["within 5 min in 8 of 10"])]
    total: EstimateErrors
    by_basis: list[EstimateErrors]
