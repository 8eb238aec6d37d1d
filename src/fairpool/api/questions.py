"""Questions to a cluster about what its scheduler would do, and the answers.

The control plane does not know the scheduler. It passes a question on and the answer back; the cluster answers from its
latest snapshot. Names of projects in answers are mentions (`model/mentions.py`), which the control plane writes out
for readers who may see the project.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from fairpool.api.declarations import WorkloadWire
from fairpool.api.message import Wire
from fairpool.api.waiting import WorkloadWait
from fairpool.api.wire import Answer, Moment, Request, ShortText
from fairpool.model.ids import WorkloadId
from fairpool.model.problem import Problem

DEADLINE_S: Final = 1.0
"""For an answer to a user who waits for it; after that, the cluster counts as away."""
Changes = Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=100)]


class WouldStart(Wire):
    """Whether a workload would start now, in place of the one with the same id if there is one."""

    kind: Literal["would-start"] = "would-start"
    workload: WorkloadWire


class SnapshotQuestion(Wire):
    """The latest snapshot of a pool, or that of a past cycle; answered with the bytes of a snapshot file."""

    kind: Literal["snapshot"] = "snapshot"
    pool: str | None = None
    """None: the only one there is."""
    cycle: int | None = None


class WhatIf(Wire):
    """The plan as it is and the plan with changes, each written as for `fairpool plan`."""

    kind: Literal["what-if"] = "what-if"
    pool: str | None = None
    settings: tuple[str, ...] = ()
    added_jobs: tuple[str, ...] = ()
    added_nodes: tuple[str, ...] = ()
    without_nodes: tuple[str, ...] = ()
    without_jobs: tuple[str, ...] = ()
    later: str | None = None


class PastCycles(Wire):
    """The cycles whose snapshots are kept."""

    kind: Literal["cycles"] = "cycles"


class WhyWaiting(Wire):
    """Why a workload waits, what would change it, and when it is expected to start."""

    kind: Literal["why-waiting"] = "why-waiting"
    workload: WorkloadId
    changes: bool = True
    """Also what would change it: a plan for each change."""


class SharesQuestion(Wire):
    """What every project and department is owed, holds and asks for, in every pool."""

    kind: Literal["shares"] = "shares"


Question = WouldStart | SnapshotQuestion | WhatIf | PastCycles | WhyWaiting | SharesQuestion
_QUESTION: TypeAdapter[Question] = TypeAdapter(
    Annotated[Question, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def read_question(text: str | bytes) -> Question | Problem:
    """A question that was received."""
    try:
        return _QUESTION.validate_json(text)
    except ValidationError:
        what = "the cluster does not understand this question"
        return Problem("question.unknown", what, "run the same release of Fairpool on both sides")


# --- answers -------------------------------------------------------------------------------------------------


Outcome = Literal["starts", "starts-after-preemption", "waits", "unknown"]


class ForecastPlace(Answer):
    """A node on which pods would run."""

    node: Annotated[str, Field(examples=["gpu-1"])]
    pods: int


class ForecastVictim(Answer):
    """A workload that would lose pods."""

    workload: Annotated[str, Field(examples=["sweep-1"])]
    project: Annotated[str, Field(examples=["vision"])]
    pods: int


class StartForecast(Answer):
    """Whether a workload would start now, and where. A later change of the cluster may change it."""

    outcome: Annotated[Outcome, Field(description="unknown: the cluster did not answer in time; `message` says why")]
    message: Annotated[str, Field(examples=["starts now on gpu-1"])]
    pool: str | None = None
    places: list[ForecastPlace] = Field(default_factory=list)
    victims: list[ForecastVictim] = Field(default_factory=list)
    wait: Annotated[
        WorkloadWait | None,
        Field(description="If not all of it would start: why, what would change it, and when it is expected to start"),
    ] = None


class WhatIfRequest(Request):
    """Changes to the live state of a pool; each is written as for `fairpool plan`."""

    node_pool: Annotated[ShortText | None, Field(description="Default: the only one")] = None
    settings: Changes = Field(default_factory=list, examples=[["project.team-a.quota=6"]])
    add_jobs: Changes = Field(default_factory=list, examples=[["name=big,project=team-a,gpus=4"]])
    add_nodes: Changes = Field(default_factory=list, examples=[["name=gpu-9,like=gpu-1"]])
    without_nodes: Changes = Field(default_factory=list, examples=[["gpu-2"]])
    without_jobs: Changes = Field(default_factory=list, examples=[["sweep-1"]])
    later: Annotated[ShortText | None, Field(examples=["10m"])] = None

    def question(self) -> WhatIf:
        return WhatIf(
            pool=self.node_pool,
            settings=tuple(self.settings),
            added_jobs=tuple(self.add_jobs),
            added_nodes=tuple(self.add_nodes),
            without_nodes=tuple(self.without_nodes),
            without_jobs=tuple(self.without_jobs),
            later=self.later,
        )


class GroupOutcomes(Answer):
    """What becomes of a pod group in either plan; absent: it is not there."""

    group: str
    workload: str
    project: str
    original: str | None = None
    changed: str | None = None


class PlanCounts(Answer):
    """A plan in numbers."""

    starting: Annotated[int, Field(description="Groups that start")]
    promised: Annotated[int, Field(description="Groups that start when preempted pods have stopped")]
    preempted: Annotated[int, Field(description="Pods that are preempted")]
    waiting: Annotated[int, Field(description="Groups that wait")]


class QueueOutcomes(Answer):
    """GPUs of a project or department in either plan."""

    queue: str
    original_fair_share: float | None = None
    changed_fair_share: float | None = None
    original_gpus: float | None = None
    changed_gpus: float | None = None


class WhatIfAnswer(Answer):
    """The plan of the live state, and the plan with the changes."""

    node_pool: str
    taken_at: Moment
    changes: Annotated[list[str], Field(examples=[["project team-a: quota 4 → 6"]])]
    original: PlanCounts
    changed: PlanCounts
    groups: Annotated[list[GroupOutcomes], Field(description="Groups with another outcome")]
    queues: list[QueueOutcomes]


class PastCycle(Answer):
    """A cycle whose snapshot is kept."""

    number: int
    node_pool: str
    taken_at: Moment
    size_bytes: int


class PastCyclePage(Answer):
    """The latest cycles in which something had changed, the newest first."""

    cycles: list[PastCycle]
