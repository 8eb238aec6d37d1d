"""Phases of a pod and the legal transitions between them.

Phases only go forward: an ended pod that is still desired is replaced by another pod, its next incarnation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class PodPhase(StrEnum):
    """The phase of a pod."""

    WAITING = "waiting"
    PROMISED = "promised"
    """Has a place as soon as the pods that must leave it have left."""
    BOUND = "bound"
    """Its place is in the ledger; the engine may not have the order yet."""
    RUNNING = "running"
    RELEASING = "releasing"
    """Being stopped; holds its resources until it has ended."""
    ENDED = "ended"


NEXT: Mapping[PodPhase, frozenset[PodPhase]] = MappingProxyType(
    {
        PodPhase.WAITING: frozenset({PodPhase.PROMISED, PodPhase.BOUND, PodPhase.ENDED}),
        PodPhase.PROMISED: frozenset({PodPhase.BOUND, PodPhase.WAITING, PodPhase.ENDED}),
        PodPhase.BOUND: frozenset({PodPhase.RUNNING, PodPhase.RELEASING, PodPhase.ENDED}),
        PodPhase.RUNNING: frozenset({PodPhase.RELEASING, PodPhase.ENDED}),
        PodPhase.RELEASING: frozenset({PodPhase.ENDED}),
        PodPhase.ENDED: frozenset(),
    }
)

HOLDS_DEVICES = frozenset({PodPhase.BOUND, PodPhase.RUNNING, PodPhase.RELEASING})
"""No code frees devices: which are in use follows from these phases."""


def may_become(phase: PodPhase, then: PodPhase) -> bool:
    """Whether a pod may go from one phase to another."""
    return then in NEXT[phase]
