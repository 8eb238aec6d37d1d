"""How long a pod that leaves has until it is killed. Decided here and nowhere else; pure.

| who leaves                                                       | has at most                                     |
|------------------------------------------------------------------|-------------------------------------------------|
| anybody                                                          | what it asked for, and the most that is allowed |
| who is evicted, moved, stale, undeclared, or has lost its node   | the eviction grace, too                         |
| the other pods of a gang of which one leaves for such a cause    | the eviction grace, too                         |
| whose place is promised to another project within its fair share | the eviction grace, too, from then on           |
| whose workload is deleted                                        | what its declaration says by now: 0 if forced   |

A grace is written into the life before the engine is told, and only ever becomes shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairpool.model.ids import PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import GraceRules
from fairpool.model.pod_record import EVICTION_GRACE_CAUSES, Cause, PodRecord
from fairpool.model.spec import DesiredState, WorkloadSpec


def capped_grace_s(graces: GraceRules, asked_s: int, *, hurried: bool = False) -> int:
    """What is left of a grace that was asked for."""
    return min(asked_s, graces.most_s, graces.eviction_s) if hurried else min(asked_s, graces.most_s)


def with_capped_graces(
    pods: Sequence[PodRecord], spec: WorkloadSpec | None, graces: GraceRules, owed: Mapping[PodId, str]
) -> tuple[PodRecord, ...]:
    """The lives of one workload; those who leave have no more time than they may. `owed`: in whose place others may
    be, with the words for it. Who has no more already is the same value as before."""
    leaving = [pod for pod in pods if pod.phase is PodPhase.RELEASING]
    gang_is_hurried = any(pod.cause in EVICTION_GRACE_CAUSES for pod in leaving)
    return tuple(
        _cut(pod, spec, graces, gang_is_hurried, owed.get(pod.id, "")) if pod.phase is PodPhase.RELEASING else pod
        for pod in pods
    )


def _cut(pod: PodRecord, spec: WorkloadSpec | None, graces: GraceRules, gang_is_hurried: bool, owed: str) -> PodRecord:
    hurried = pod.cause in EVICTION_GRACE_CAUSES or (pod.cause is Cause.PEER and gang_is_hurried)
    grace_s = capped_grace_s(graces, pod.grace_s, hurried=hurried or bool(owed))
    if spec is not None and spec.want is DesiredState.DELETE:
        grace_s = min(grace_s, spec.grace_s)
    if grace_s == pod.grace_s:
        return pod
    if hurried or not owed:
        return replace(pod, grace_s=grace_s)
    return replace(pod, grace_s=grace_s, detail=f"{pod.detail}; {owed}" if pod.detail else owed)


def grace_text(grace_s: int) -> str:
    """What people are told of a grace."""
    return f"it has at most {grace_s} s to stop" if grace_s > 0 else "killed without notice"
