"""Messages of pull and push between a control plane and its clusters, always called by the cluster.

Both carry levels (the present state), never deltas, so that what is lost, repeated or late is corrected by the next
message. Only history is sent event by event, and an event has a number, so that it is stored once.

A report of much comes in pieces, each acknowledged by itself. A piece of a report of everything says which range of
names it covers: what is in the range and not in the piece does not exist any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from fairpool.api.declarations import Count, DeclaredTaint, OrganizationWire, WorkloadWire
from fairpool.api.message import PREVIOUS, Message, Since, Wire, renamed
from fairpool.model.container_rules import Privilege
from fairpool.model.decision_record import DecisionKind
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, QueueId, Revision, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import MigStrategy
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.pod_usage import PodUsage
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING, WaitReason, WorkloadPhase


class ControlPlaneUnreachable(Exception):
    """The control plane does not answer, or with something we do not understand. Everything may be tried again."""

    def __init__(self, text: str, problem: Problem | None = None, *, is_refusal: bool = False) -> None:
        """`problem`: what an administrator has to mend, if trying again alone will not help."""
        super().__init__(text)
        self.problem = problem
        self.is_refusal = is_refusal
        """It has answered, that the cluster may not have this or that there is none."""


def is_refusal(status: int) -> bool:
    """Whether an answer with this status says that what was asked for may not be had, or is not there."""
    return status in (401, 403, 404)


# --- pull: what is desired -----------------------------------------------------------------------------------


class Over(Wire):
    """The end of a workload in its current run, as last reported to the control plane."""

    run: Count
    phase: WorkloadPhase
    cause: Cause
    at: Instant
    detail: str = ""

    @classmethod
    def of_report(cls, report: WorkloadReport) -> Over | None:
        """The end that a cluster reported, if it reported one."""
        if report.phase not in HOLDS_NOTHING:
            return None
        cause = report.reason if isinstance(report.reason, Cause) else UNSAID_CAUSE[report.phase]
        return cls(run=report.run, phase=report.phase, cause=cause, at=report.since, detail=report.detail)


UNSAID_CAUSE: Mapping[WorkloadPhase, Cause] = MappingProxyType(
    {
        WorkloadPhase.STOPPED: Cause.SUSPENDED,
        WorkloadPhase.FAILED: Cause.EXITED,
        WorkloadPhase.COMPLETED: Cause.FINISHED,
    }
)
"""What follows from a phase alone: an end must not be forgotten because no reason was reported."""


class DesiredWorkload(WorkloadWire):
    """A workload as declared, with what a cluster that lost its ledger needs to know about it."""

    over: Over | None = None
    incarnations: dict[int, int] = Field(default_factory=dict)
    """The highest incarnation that was reported of each pod, by index: the next one is higher, none is repeated."""
    done: tuple[int, ...] = ()
    """Pods that had ended well: their work is not done again."""

    @cached_property
    def spec(self) -> WorkloadSpec:
        return super().to_spec()

    def to_spec(self) -> WorkloadSpec:
        return self.spec

    @classmethod
    def of_declared(cls, declared: WorkloadWire) -> DesiredWorkload:
        """A declared workload, of which nothing is reported yet. It is not validated again."""
        return cls.model_construct(**dict(declared))

    def with_reported(
        self, over: Over | None, incarnations: Mapping[int, int], done: tuple[int, ...]
    ) -> DesiredWorkload:
        """The same workload with what was reported about it."""
        return self.model_copy(update={"over": over, "incarnations": dict(incarnations), "done": done})


class PullRequest(BaseModel):
    """Asks for declarations that changed after a revision."""

    model_config = ConfigDict(frozen=True)
    after: Annotated[int, Field(ge=0, le=2**62, description="The last revision received; 0 if none")]
    wait_s: Annotated[float, Field(alias="waitS", ge=0, le=60)] = 0.0
    version: Annotated[int, Field(ge=1, description="The protocol version of the cluster")] = PREVIOUS
    """Announced since version 3."""


class PullAnswer(Message):
    """Declarations that changed after a revision."""

    after: Revision
    """The revision that was asked about. An answer to another question came late and is not used."""
    revision: Revision
    whole: bool = False
    """This is everything: drop what is not in it."""
    workloads: tuple[DesiredWorkload, ...] = ()
    removed: tuple[WorkloadId, ...] = ()
    """Declarations that are no more."""
    organization: OrganizationWire | None = None
    """None: as it was."""
    reported_token: Annotated[Token | None, renamed("heard_token", "reported_token")] = None
    reported_events: Annotated[int, renamed("heard_events", "reported_events")] = 0
    """The highest token and event number that a report brought: a cluster that lost its ledger counts on from here."""

    @property
    def says_something(self) -> bool:
        return self.whole or self.revision != self.after

    def convert(self) -> None:
        """Convert all declarations to values of the model now, in this thread; they are kept."""
        for each in self.workloads:
            each.to_spec()


# --- push: what is so ----------------------------------------------------------------------------------------


class PodReport(Wire):
    """A pod, as reported."""

    id: PodId
    index: Count
    incarnation: Count
    phase: PodPhase
    node: NodeName | None = None
    devices: tuple[int, ...] = ()
    started_at: Instant | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    detail: str = ""
    exit_code: int | None = None
    start_failure: Annotated[str, renamed("trouble", "start_failure")] = ""
    gpus_milli: Count = 0
    """Held now, as are the next two: what a node and a project have in use is added up from these."""
    cpu_milli: Count = 0
    memory_bytes: Count = 0

    @classmethod
    def from_record(cls, record: PodRecord, gpus_milli: int = 0) -> PodReport:
        report = cls.of(record)
        if not record.is_placed:
            return report
        held = {
            "cpu_milli": record.shape.cpu_milli,
            "memory_bytes": record.shape.memory_bytes,
            "gpus_milli": gpus_milli,
        }
        return report.model_copy(update=held)


class WaitReport(Wire):
    """Why the scheduler leaves a workload waiting, as data; `WorkloadReport.detail` is the same in words."""

    cause: str
    """A stable code: `not_its_turn`."""
    waiting: Count
    """Pods that wait."""
    running: Count = 0
    """Pods that hold a place; above 0 for elastic work that waits to grow."""
    failed: tuple[str, ...] = ()
    """The checks that fail, in the scheduler's order."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """The figures of the cause. Names of other projects are mentions (`model/mentions.py`)."""


class WorkloadReport(Wire):
    """The status of one workload."""

    id: WorkloadId
    run: Count = 0
    phase: WorkloadPhase
    reason: Cause | WaitReason | None = None
    detail: str = ""
    """The reason in words; of one that waits, its verdict."""
    pool: PoolName | None = None
    gpus_milli: Count = 0
    """Held now."""
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    pods: tuple[PodReport, ...] = ()
    since: Instant
    """When it came into this phase."""
    failures: Count = 0
    next_try_at: Instant | None = None
    """Of one that failed and waits before it is tried again: when that is."""
    waiting_since: Instant | None = None
    wait: Annotated[WaitReport | None, Since(3)] = None
    """Of one that waits for the scheduler."""

    @property
    def done(self) -> tuple[int, ...]:
        """The pods that have ended well."""
        return tuple(pod.index for pod in self.pods if pod.outcome is Outcome.OK)


class GoneReport(Wire):
    """A workload has no pods left in this run; unless it was resumed, its declaration can be deleted."""

    id: WorkloadId
    run: Count = 0


class NodeReport(Wire):
    """A node and its resources. What is in use follows from the reported pods."""

    name: NodeName
    pool: PoolName | None = None
    ready: bool = True
    cordoned: bool = False
    silent_since: Instant | None = None
    gpus: Count = 0
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    gpu_memory_mib: Count = 0
    gpus_withheld: tuple[int, ...] = ()
    message: Annotated[str, renamed("words", "message")] = ""
    """Why they are withheld, for people."""
    labels: dict[str, str] = Field(default_factory=dict)
    """As the engine says: the model of its GPUs, and whether they are simulated."""
    images: tuple[str, ...] | None = None
    """Patterns of the images it can run; None: whatever can be pulled."""
    taints: Annotated[tuple[DeclaredTaint, ...], Since(3)] = ()
    """As the engine says; those of administrators are declared."""
    mig_strategy: Annotated[MigStrategy | None, Since(3)] = None
    counted: Annotated[dict[str, Count] | None, Since(3)] = None
    """MIG instances by profile and other countable resources; None: not reported."""
    privileges: Annotated[tuple[Privilege, ...] | None, Since(3)] = None
    """What its containers may be given; None: it runs none, or did not report it."""
    directory_users: Annotated[bool, Since(3)] = False
    """Its pods are processes that can run with the uid and gid of a directory."""


class QueueReport(Wire):
    """Quota, fair share and allocation of a queue in one node pool."""

    pool: PoolName
    queue: QueueId
    quota_milli: int
    fair_share_milli: int
    held_milli: int


class UsageReport(Wire):
    """What a pod asks for or holds."""

    mirrors: ClassVar[Any] = PodUsage
    project: QueueId
    pool: PoolName
    gpus_milli: Count = 0
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    gpu_type: str = ""
    created_at: Instant
    bound_at: Instant | None = None


class QueueStateReport(Wire):
    """GPUs of a queue at a decision, in thousandths."""

    queue: str
    quota_milli: int
    fair_share_milli: int
    held_milli: int


class DecisionReport(Wire):
    """A decision of the scheduler about the pods of one workload. Names of other projects are mentions."""

    kind: DecisionKind
    pods: Count
    gpus_milli: Count
    lent_milli: Count = 0
    nodes: tuple[NodeName, ...] = ()
    project: QueueStateReport | None = None
    winner: str = ""
    wanted_milli: Count = 0
    taken: QueueStateReport | None = None
    gaining: QueueStateReport | None = None


class EventReport(Wire):
    """An event."""

    number: Annotated[int, Field(ge=1)]
    """Rises from line to line of a cluster; gaps are no harm."""
    at: Instant
    kind: str
    workload: WorkloadId
    pod: PodId | None = None
    node: NodeName | None = None
    cause: str = ""
    detail: str = ""
    outcome: Outcome | None = None
    exit_code: int | None = None
    usage: Annotated[UsageReport | None, Since(3)] = None
    """Of a pod that is created, bound, adopted or ended."""
    decision: Annotated[DecisionReport | None, Since(3)] = None
    """The decision that it follows from; of several events of one decision the first has it."""


class NameRange(Wire):
    """A range of names, in their order: those after `after`, up to and with `through`."""

    after: tuple[str, ...] = ()
    """Empty: from the first."""
    through: tuple[str, ...] | None = None
    """None: up to the last."""

    def contains(self, *name: str) -> bool:
        return self.after < name and (self.through is None or name <= self.through)


EVERYTHING = NameRange()


class Piece(Wire):
    """Which piece of a report of everything this is. Of each kind: the range that it covers, if any."""

    first: bool = False
    last: bool = False
    workloads: NameRange | None = None
    nodes: NameRange | None = None
    queues: NameRange | None = None
    """By pool and queue."""


WHOLE = Piece(first=True, last=True, workloads=EVERYTHING, nodes=EVERYTHING, queues=EVERYTHING)


class PushReport(Message):
    """The state of a cluster, as far as it changed since the last acknowledged report, or a piece of that."""

    cluster: str
    token: Token
    number: Annotated[int, Field(ge=1)]
    """Rises from report to report under one token; what is not higher than the last came late."""
    after: Count = 0
    """The last report that was answered. A control plane that does not know it has lost its memory."""
    whole: bool = False
    """This is everything: drop what is not in it."""
    piece: Annotated[Piece | None, Since(3)] = None
    """This is a piece of everything. It counts only after the pieces before it."""
    at: Instant
    workloads: tuple[WorkloadReport, ...] = ()
    gone: tuple[GoneReport, ...] = ()
    nodes: tuple[NodeReport, ...] = ()
    nodes_gone: tuple[NodeName, ...] = ()
    queues: tuple[QueueReport, ...] = ()
    queues_gone: tuple[tuple[PoolName, QueueId], ...] = ()
    events: tuple[EventReport, ...] = ()
    events_after: Annotated[Count, Since(3)] = 0
    """The last event that was acknowledged before these. A control plane that does not have it was put back to an
    earlier state: it stores none of these, and says which it has."""

    @property
    def complete_ranges(self) -> Piece | None:
        """The ranges it covers; None: nothing."""
        return WHOLE if self.whole else self.piece

    @property
    def says_something(self) -> bool:
        return bool(
            self.whole
            or self.piece
            or self.workloads
            or self.gone
            or self.nodes
            or self.nodes_gone
            or self.queues
            or self.queues_gone
            or self.events
        )


class PushAnswer(Message):
    """The acknowledgement of a report."""

    token: Token
    number: Count
    """The latest report it took in, and under which token."""
    taken: bool = True
    """False: the report in question was late, fenced, or had the number of another, and was left aside."""
    events_through: Count
    """The highest event it has."""
    resync: Annotated[bool, renamed("want_whole", "resync")] = False
    """It cannot be sure of the rest: report everything."""

    def takes(self, report: PushReport) -> bool:
        """Whether it says that this very report was taken in."""
        return self.taken and (self.token, self.number) == (report.token, report.number)
