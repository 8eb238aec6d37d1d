"""Pods as the ledger records them, and why they ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, WorkloadId
from fairpool.model.lifecycle import PodPhase, may_become
from fairpool.model.pod_usage import PodUsage
from fairpool.model.spec import DEFAULT_GRACE_S
from fairpool.model.workload import PodShape


class Outcome(StrEnum):
    """How a pod ended."""

    OK = "ok"
    ERROR = "error"
    LOST = "lost"
    """With its node, or without a trace."""
    EVICTED = "evicted"
    STOPPED = "stopped"


class Cause(StrEnum):
    """Why a pod ends or ended, and why a workload is not running. Stable, meant for programs."""

    EXITED = "exited"
    FINISHED = "finished"
    """The workload is done, this pod is no longer needed."""
    PREEMPTED = "preempted"
    """Its GPUs were owed to another workload."""
    MOVED = "moved"
    """It is replaced elsewhere, to make room."""
    STALE = "stale"
    """Its gang had lost a part for too long."""
    NODE_LOST = "node-lost"
    NODE_DRAINED = "node-drained"
    SUSPENDED = "suspended"
    DELETED = "deleted"
    TIME_LIMIT = "time-limit"
    """The project's limit on interactive work."""
    IDLE_LIMIT = "idle-limit"
    """The project's limit on GPUs that are held and not used."""
    DEADLINE = "deadline"
    """The workload's own limit."""
    SCALED_DOWN = "scaled-down"
    PEER = "peer"
    """Another pod of its gang ended, and the gang restarts as a whole."""
    REFUSED = "refused"
    """The node would not start it."""
    IMAGE = "image-pull"
    """Its image could not be had."""
    RETRIES = "retries-used-up"
    DEPENDENCY = "dependency-failed"
    """A workload it had to wait for did not complete."""
    UNWANTED = "unwanted"
    """No declared workload has it (any more)."""
    VANISHED = "vanished"
    """The engine saw it once and does not see it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod. Frozen: another phase is another value, made by `move`."""

    id: PodId
    workload: WorkloadId
    index: int
    incarnation: int
    group: GroupId
    shape: PodShape
    pod_set: str = "default"
    run: int = 0
    """The run of the workload it was created in."""
    phase: PodPhase = PodPhase.WAITING
    since: Instant
    """When it came into this phase."""
    created_at: Instant
    not_before: Instant = Instant(0)
    """It may not be placed earlier: the back-off after a failure."""
    node: NodeName | None = None
    devices: tuple[int, ...] = ()
    boot_id: str = ""
    """Which boot of its node it was bound to: absent after a reboot means lost, not never started."""
    promised_at: Instant | None = None
    nominated: NodeName | None = None
    started_at: Instant | None = None
    cause: Cause | None = None
    detail: str = ""
    """The cause as a sentence, with the workload that gains by it."""
    outcome: Outcome | None = None
    exit_code: int | None = None
    grace_s: int = DEFAULT_GRACE_S
    attempts: int = 0
    """Starts that the engine put off."""
    retry_at: Instant = Instant(0)
    start_failure: str = ""
    """What keeps it from starting, as the engine reports it: `ErrImagePull: no such image`."""
    usage: PodUsage | None = None
    """What it was given when it was bound; None: it never was."""

    @property
    def is_over(self) -> bool:
        return self.phase is PodPhase.ENDED

    @property
    def is_placed(self) -> bool:
        return self.phase in (PodPhase.BOUND, PodPhase.RUNNING, PodPhase.RELEASING)

    def move(self, phase: PodPhase, now: Instant, **changes: Any) -> PodRecord:
        """The same pod in another phase."""
        assert may_become(self.phase, phase), f"{self.id} cannot go from {self.phase} to {phase}"
        return replace(self, phase=phase, since=now, **changes)

    def end(
        self, now: Instant, outcome: Outcome, cause: Cause, detail: str = "", exit_code: int | None = None
    ) -> PodRecord:
        """The pod ended. If it was being stopped, the cause of that stays."""
        was_stopped = self.phase is PodPhase.RELEASING and self.cause is not None
        return self.move(
            PodPhase.ENDED,
            now,
            outcome=outcome,
            cause=self.cause if was_stopped else cause,
            detail=self.detail if was_stopped else detail,
            exit_code=exit_code,
            start_failure="",
        )

    def release(self, now: Instant, cause: Cause, detail: str = "") -> PodRecord:
        """Stop it: a pod that holds nothing ends at once, one that holds something is released first."""
        if self.phase in (PodPhase.RELEASING, PodPhase.ENDED):
            return self
        if self.phase in (PodPhase.WAITING, PodPhase.PROMISED):
            outcome = Outcome.EVICTED if cause in EVICTIONS else Outcome.STOPPED
            return self.move(PodPhase.ENDED, now, outcome=outcome, cause=cause, detail=detail)
        return self.move(PodPhase.RELEASING, now, cause=cause, detail=detail)


LOSSES = frozenset({Cause.NODE_LOST, Cause.VANISHED})
"""Causes for which a pod is stopped that was lost from sight and may still run: only its end settles it."""

EVICTION_GRACE_CAUSES = LOSSES | {Cause.PREEMPTED, Cause.MOVED, Cause.STALE, Cause.UNWANTED}
"""Causes for which a pod has at most the eviction grace: others wait for its place, or it is not declared."""

EVICTIONS = frozenset({Cause.PREEMPTED, Cause.MOVED, Cause.STALE, Cause.NODE_DRAINED, Cause.PEER})
"""Causes for which a pod is stopped although its workload still needs it."""
