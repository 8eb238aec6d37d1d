"""The checks that a waiting group passes and fails, in the order in which the scheduler makes them, from its verdict.

A verdict is the first check that failed, with its figures. What comes before it has passed; what comes after it was
not reached. Two reasons fail two checks: what may not reclaim waits because too little is free, and because it may not
take more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from fairpool.scheduler.decision import (
    Fragmented,
    NeverFits,
    NoDomainFits,
    NoNodeMatches,
    NoQueue,
    NoRoom,
    NotItsTurn,
    NotReady,
    OverLimit,
    OverQuota,
    ProtectedVictims,
    Verdict,
    WaitsForVictims,
    Why,
)


class SchedulerCheck(StrEnum):
    """What the scheduler checks of a waiting group, in this order."""

    PROJECT = "project"
    """Its project exists and can run work."""
    PODS = "pods"
    """As many pods exist as must start together."""
    LIMITS = "limits"
    """It stays within the limits of its project and department, and within quota if it cannot be preempted."""
    NODES = "nodes"
    """For each of its pods there is a node that could run it when empty."""
    CAPACITY = "capacity"
    """All nodes together, when empty, have room for the pods that must start together."""
    TOPOLOGY = "topology"
    """One domain of the topology that it names has room for its pods."""
    ROOM = "room"
    """Enough is free now, and free together."""
    RECLAIM = "reclaim"
    """It may take what is missing from other work."""
    HANDOVER = "handover"
    """The pods that make room for it have stopped."""


class CheckState(StrEnum):
    """How a check came out."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not-reached"


FAILED_BY: Mapping[type[Why], tuple[SchedulerCheck, ...]] = MappingProxyType(
    {
        NoQueue: (SchedulerCheck.PROJECT,),
        NotReady: (SchedulerCheck.PODS,),
        OverLimit: (SchedulerCheck.LIMITS,),
        OverQuota: (SchedulerCheck.LIMITS,),
        NoNodeMatches: (SchedulerCheck.NODES,),
        NeverFits: (SchedulerCheck.CAPACITY,),
        NoDomainFits: (SchedulerCheck.TOPOLOGY,),
        NoRoom: (SchedulerCheck.ROOM,),
        Fragmented: (SchedulerCheck.ROOM,),
        ProtectedVictims: (SchedulerCheck.ROOM, SchedulerCheck.RECLAIM),
        NotItsTurn: (SchedulerCheck.ROOM, SchedulerCheck.RECLAIM),
        WaitsForVictims: (SchedulerCheck.HANDOVER,),
    }
)
"""The checks that each reason fails."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One check of one group."""

    check: SchedulerCheck
    state: CheckState


def checks(verdict: Verdict) -> list[Checked]:
    """Every check in order; the first that failed is the one to look at."""
    failed = FAILED_BY[type(verdict.why)]
    last = max(list(SchedulerCheck).index(each) for each in failed)
    found = []
    for number, check in enumerate(SchedulerCheck):
        passed = CheckState.PASSED if number <= last else CheckState.NOT_REACHED
        found.append(Checked(check, CheckState.FAILED if check in failed else passed))
    return found


def cause_code(why: Why) -> str:
    """The reason as a stable code: `not_its_turn` for `NotItsTurn`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(why).__name__).lower()


def details(why: Why) -> dict[str, Any]:
    """The figures of a reason, by the names of its fields."""
    return asdict(why)
