"""Scenarios: nodes, quotas and steps, as values.

Read from a file (`scenario_file.py`) or from a table of jobs (`trace_file.py`); run by `script.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.node import Node
from fairpool.model.organization import Organization, name_of_queue
from fairpool.model.quantity import gpus_text
from fairpool.model.spec import WorkloadSpec

START = Instant(1_767_571_200_000)
"""When every simulation begins: a Monday at midnight, 2026-01-05 UTC. Not now, so that nothing depends on the day."""

WAIT_S = 86_400
"""How long a wait goes on, in simulated time, before it has failed."""


@dataclass(frozen=True, slots=True)
class SubmitStep:
    """A user submits a workload; its time is filled in at that moment."""

    spec: WorkloadSpec

    def __str__(self) -> str:
        return f"submit {self.spec.id}"


class Operation(StrEnum):
    """What users can do with an existing workload."""

    DELETE = "delete"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class WorkloadStep:
    """A user deletes, suspends or resumes a workload."""

    operation: Operation
    workload: WorkloadId

    def __str__(self) -> str:
        return f"{self.operation} {self.workload}"


@dataclass(frozen=True, slots=True)
class Resize:
    """A user asks for another number of pods."""

    workload: WorkloadId
    pods: int | None
    minimum: int | None

    def __str__(self) -> str:
        return f"resize {self.workload}"


@dataclass(frozen=True, slots=True)
class SetQuota:
    """An administrator changes the GPU quota of a project or department."""

    queue: QueueId
    quota_milli: int
    pool: PoolName

    def __str__(self) -> str:
        return f"quota {name_of_queue(self.queue)} = {gpus_text(self.quota_milli)}"


class NodeEvent(StrEnum):
    """What can happen to a node."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    """Cordoned, and its pods are evicted."""
    LOSE = "lose"
    """It does not answer any more; its pods run on, until its agent stops them."""
    REBOOT = "reboot"
    RETURN = "return"
    """It answers again, takes pods again, or is there again."""
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class NodeStep:
    """A node is cordoned, lost, rebooted, removed or comes back."""

    event: NodeEvent
    node: NodeName
    down_s: float = 0

    def __str__(self) -> str:
        return f"{self.event} {self.node}"


@dataclass(frozen=True, slots=True)
class Until:
    """No further step until so many seconds after the start."""

    offset_s: float

    def __str__(self) -> str:
        return f"until {self.offset_s:g} s"


@dataclass(frozen=True, slots=True)
class Pause:
    """No further step for so many seconds."""

    seconds: float

    def __str__(self) -> str:
        return f"wait {self.seconds:g} s"


class Condition(StrEnum):
    """Conditions that a step can wait for."""

    RUNNING = "running"
    PENDING = "pending"
    STOPPED = "stopped"
    COMPLETED = "completed"
    FAILED = "failed"
    GONE = "gone"
    """It was deleted, and nothing of it is left."""
    SETTLED = "settled"
    """No pod is starting or stopping, and none has been promised a place."""
    IDLE = "idle"
    """Everything that was submitted has come to its end."""


ABOUT_ALL = frozenset({Condition.SETTLED, Condition.IDLE})


@dataclass(frozen=True, slots=True)
class Await:
    """No further step until the condition holds."""

    condition: Condition
    workloads: tuple[WorkloadId, ...] = ()
    within_s: float = WAIT_S
    required: bool = True
    """Whether the scenario has failed if the condition is never met."""

    def __str__(self) -> str:
        return " ".join(("wait", self.condition, *self.workloads))


class Figure(StrEnum):
    """Figures that a step can check."""

    ALLOCATED = "allocated"
    PROJECT_ALLOCATED = "project allocated"
    PROJECT_QUEUED = "project queued"
    NODE_ALLOCATED = "node allocated"
    PHASE = "phase"
    """Workloads in one phase."""
    JOB = "job"
    PREEMPTIONS = "preemptions"


Value = int | tuple[str, ...] | str
"""An amount (GPUs in thousandths), names in order, or a word."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One figure and what it should be."""

    figure: Figure
    of: str
    """The project, node, job or phase, where the figure is about one."""
    value: Value

    def __str__(self) -> str:
        match self.figure:
            case Figure.ALLOCATED:
                return "GPUs allocated"
            case Figure.PROJECT_ALLOCATED | Figure.NODE_ALLOCATED:
                return f"{self.of}: GPUs allocated"
            case Figure.PROJECT_QUEUED:
                return f"{self.of}: queued"
            case Figure.PHASE:
                return f"jobs {self.of.lower()}"
            case Figure.JOB:
                return f"job {self.of}"
        return "preemptions so far"


@dataclass(frozen=True, slots=True)
class Expect:
    """Check figures now."""

    expected: tuple[Expected, ...]

    def __str__(self) -> str:
        return "expect"


Action = SubmitStep | WorkloadStep | Resize | SetQuota | NodeStep | Until | Pause | Await | Expect


@dataclass(frozen=True, slots=True)
class ScenarioPhase:
    """A part of a scenario with a name of its own."""

    name: str
    actions: tuple[Action, ...]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Nodes, organization and steps of one simulation."""

    name: str
    title: str = ""
    nodes: tuple[Node, ...]
    organization: Organization
    followers: frozenset[tuple[PoolName, QueueId]] = frozenset()
    """Departments that were given no quota in a pool: they are owed what their projects are owed there together."""
    phases: tuple[ScenarioPhase, ...]
    behaviours: Mapping[WorkloadId, Behaviour] = field(default_factory=dict)

    def actions(self) -> Iterator[tuple[ScenarioPhase, Action]]:
        """Every action in order, with the phase it belongs to."""
        for phase in self.phases:
            for action in phase.actions:
                yield phase, action

    def submitted(self) -> dict[WorkloadId, WorkloadSpec]:
        """Every workload that will ever be submitted."""
        return {action.spec.id: action.spec for _, action in self.actions() if isinstance(action, SubmitStep)}

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    def digest(self) -> str:
        """Names what is in it: the same for the same scenario, whatever file it came from."""
        # Frozen dataclasses show all that they hold, in the order of the file.
        return sha256(repr(self).encode("utf-8")).hexdigest()
