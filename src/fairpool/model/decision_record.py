"""Decisions of the scheduler as they are recorded with the history: what was decided, for how much, and the figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fairpool.model.ids import NodeName


class DecisionKind(StrEnum):
    """What was decided about a workload."""

    STARTED = "started"
    """It starts within its project's quota."""
    LENT = "lent"
    """It starts, and its project holds more than its quota: it is lent GPUs."""
    PROMISED = "promised"
    """It has a place and starts when the pods there have stopped."""
    TAKEN_BACK = "taken-back"
    """It loses pods to a project that is owed them."""
    PREEMPTED = "preempted"
    """It loses pods to work of its own project with a higher priority."""
    MOVED = "moved"
    """Its pods move to other nodes, so that other work fits."""
    STOPPED = "stopped"
    """It is a gang that has lost pods it needs."""
    WITHDRAWN = "withdrawn"
    """The place it had is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """GPUs of a project or department at a decision, in thousandths."""

    queue: str
    """Its id; of another project a mention (`model/mentions.py`)."""
    quota_milli: int
    fair_share_milli: int
    held_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One decision about the pods of one workload."""

    kind: DecisionKind
    pods: int
    gpus_milli: int
    lent_milli: int = 0
    """The part of these GPUs that is beyond the project's quota."""
    nodes: tuple[NodeName, ...] = ()
    project: QueueState | None = None
    """Its own project, after everything that was decided in this cycle."""
    winner: str = ""
    """The workload that gets the place; of another project a mention."""
    wanted_milli: int = 0
    """GPUs that the winner asks for."""
    taken: QueueState | None = None
    """For what is taken back: the queue that loses, and the next one that gains, where the two part, before it."""
    gaining: QueueState | None = None
