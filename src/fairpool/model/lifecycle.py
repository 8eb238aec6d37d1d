"""Phases of a pod's life and the legal moves between them.

A life only goes forward: an ended pod that is still wanted returns as another incarnation, with another id.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class PodPhase(StrEnum):
    """Where one life of one pod stands."""

    WAITING = "waiting"
    PROMISED = "promised"
    """Has a place as soon as the pods that must leave it have left."""
    BOUND = "bound"
    """Its place is written down; the engine may not know yet."""
    RUNNING = "running"
    RELEASING = "releasing"
    """Told to stop; holds its resources until it has."""
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
"""Nobody frees anything: what is in use follows from these phases."""


def may_become(phase: PodPhase, then: PodPhase) -> bool:
    """Whether a life may go from one phase to another."""
    return then in NEXT[phase]
