"""Grace period of a pod that is being stopped. Every rule about it is here; pure.

| pod                                                            | grace period, at most                       |
|----------------------------------------------------------------|---------------------------------------------|
| any                                                            | as requested, and the configured maximum    |
| evicted, moved, stale, undeclared, or its node was lost        | the eviction grace period, too              |
| another pod of its gang is stopped for such a cause            | the eviction grace period, too              |
| its place is promised to another project within its fair share | the eviction grace period, too, from then   |
| its workload is deleted                                        | as its declaration says by now: 0 if forced |

A grace period is recorded before the engine is ordered to stop the pod, and can only be shortened.
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
    """The requested grace period, cut to what is allowed."""
    return min(asked_s, graces.most_s, graces.eviction_s) if hurried else min(asked_s, graces.most_s)


def with_capped_graces(
    pods: Sequence[PodRecord], spec: WorkloadSpec | None, graces: GraceRules, promised: Mapping[PodId, str]
) -> tuple[PodRecord, ...]:
    """The pods of one workload, with grace periods cut to what is allowed.

    `promised`: pods whose place is promised to another project, with the message. Unchanged pods stay as they are.
    """
    stopping = [pod for pod in pods if pod.phase is PodPhase.RELEASING]
    gang_is_hurried = any(pod.cause in EVICTION_GRACE_CAUSES for pod in stopping)
    return tuple(
        _capped(pod, spec, graces, gang_is_hurried, promised.get(pod.id, ""))
        if pod.phase is PodPhase.RELEASING
        else pod
        for pod in pods
    )


def _capped(
    pod: PodRecord, spec: WorkloadSpec | None, graces: GraceRules, gang_is_hurried: bool, promised: str
) -> PodRecord:
    hurried = pod.cause in EVICTION_GRACE_CAUSES or (pod.cause is Cause.PEER and gang_is_hurried)
    grace_s = capped_grace_s(graces, pod.grace_s, hurried=hurried or bool(promised))
    if spec is not None and spec.desired_state is DesiredState.DELETE:
        grace_s = min(grace_s, spec.grace_s)
    if grace_s == pod.grace_s:
        return pod
    if hurried or not promised:
        return replace(pod, grace_s=grace_s)
    return replace(pod, grace_s=grace_s, detail=f"{pod.detail}; {promised}" if pod.detail else promised)


def grace_text(grace_s: int) -> str:
    """A grace period in a message."""
    return f"it has at most {grace_s} s to stop" if grace_s > 0 else "killed without notice"
