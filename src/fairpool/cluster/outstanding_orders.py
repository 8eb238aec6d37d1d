"""Orders due for one pod, from ledger and observation.

| ledger    | starting  | running   | exited      | absent            | node removed |
|-----------|-----------|-----------|-------------|-------------------|--------------|
| BOUND     | –         | –         | –           | **start** (again) | –            |
| RELEASING | **stop**¹ | **stop**¹ | –           | **stop**¹         | **stop**¹    |
| ENDED     | **stop**¹ | **stop**¹ | **forget**² | –                 | –            |

¹ Until the engine has confirmed it, and again when its grace period was shortened (`grace_period.py`).
² As soon as the control plane has acknowledged the end.
"""

from __future__ import annotations

from fairpool.cluster.gates import may_start
from fairpool.cluster.grace_period import capped_grace_s
from fairpool.cluster.settle import Evidence, Observed
from fairpool.model.ids import Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.model.mentions import anonymous
from fairpool.model.observation import ForgetOrder, Order, StartOrder, StopOrder
from fairpool.model.organization import DEFAULT_GRACES, GraceRules
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import Arrangement, WorkloadSpec


def outstanding_order(
    pod: PodRecord,
    spec: WorkloadSpec | None,
    evidence: Evidence,
    *,
    alone: bool,
    ready: bool = True,
    acknowledged: bool,
    without_output: bool = False,
    now: Instant,
    graces: GraceRules = DEFAULT_GRACES,
) -> Order | None:
    """The order that is due for one pod, if any.

    `alone`: every earlier pod of its index has ended. `ready`: the pods that are started before it run.
    `acknowledged`: the control plane has its current report. `without_output`: its workload has ended, and keeps none.
    """
    match pod.phase, evidence.observed_phase(pod):
        case PodPhase.BOUND, Observed.ABSENT if spec is not None and may_start(pod, now, alone=alone, ready=ready):
            return start_order(pod, spec, graces)
        case (
            PodPhase.RELEASING,
            Observed.STARTING | Observed.RUNNING | Observed.ABSENT | Observed.NODE_REMOVED,
        ):
            return _stop(pod, pod.grace_s, evidence)
        case PodPhase.ENDED, Observed.STARTING | Observed.RUNNING:
            return _stop(pod, capped_grace_s(graces, pod.grace_s, hurried=True), evidence)
        case PodPhase.ENDED, Observed.EXITED if acknowledged:
            return ForgetOrder(pod=pod.id, node=pod.node, with_output=without_output)
    return None


def start_order(pod: PodRecord, spec: WorkloadSpec, graces: GraceRules = DEFAULT_GRACES) -> StartOrder:
    """The order to start a pod where it is bound."""
    assert pod.node is not None
    return StartOrder(
        pod=pod.id,
        workload=pod.workload,
        index=pod.index,
        incarnation=pod.incarnation,
        group=pod.group,
        pod_set=pod.pod_set,
        run=pod.run,
        name=spec.name,
        project=spec.project,
        kind=spec.kind,
        node=pod.node,
        boot_id=pod.boot_id,
        devices=pod.devices,
        shape=pod.shape,
        program=spec.program_of(pod.index),
        created_at=pod.created_at,
        grace_s=capped_grace_s(graces, pod.grace_s),
        pods=spec.pods,
        together=spec.arrangement is Arrangement.TOGETHER and spec.pods > 1,
        minimum=spec.minimum if spec.is_elastic else None,
        distributed=spec.distributed,
        usage=pod.usage,
    )


def _stop(pod: PodRecord, grace_s: int, evidence: Evidence) -> StopOrder | None:
    if evidence.stop_confirmed and evidence.confirmed_grace_s <= grace_s:
        return None
    # The pod can read it, so it must not name workloads of other projects.
    reason = anonymous(pod.detail) or (pod.cause.value if pod.cause is not None else "")
    return StopOrder(pod=pod.id, node=pod.node, grace_s=grace_s, reason=reason)


def record_of_order(order: StartOrder, now: Instant) -> PodRecord:
    """The record of a pod that is not in the ledger, from the order it was started with."""
    return PodRecord(
        id=order.pod,
        workload=order.workload,
        index=order.index,
        incarnation=order.incarnation,
        group=order.group,
        shape=order.shape,
        pod_set=order.pod_set,
        run=order.run,
        phase=PodPhase.BOUND,
        since=now,
        created_at=order.created_at,
        node=order.node,
        devices=order.devices,
        boot_id=order.boot_id,
        grace_s=order.grace_s,
        usage=order.usage,
    )
