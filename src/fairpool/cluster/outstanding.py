"""What is still owed to the engine: the other half of the table in `settle.py`.

| ledger    | starting  | running   | exited              | nothing           | not offered |
|-----------|-----------|-----------|---------------------|-------------------|-------------|
| BOUND     | –         | –         | –                   | **start** (again) | –           |
| RELEASING | **stop**¹ | **stop**¹ | –                   | **stop**¹         | **stop**¹   |
| ENDED     | **stop**¹ | **stop**¹ | **forget**²         | –                 | –           |

¹ Until the engine has confirmed it, and again when its grace has become shorter (`notice.py`). ² As soon as the control
plane knows of the end.
A life is not started while an earlier life of the same pod has not ended.
"""

from __future__ import annotations

from fairpool.cluster.grace_period import within
from fairpool.cluster.settle import LONGEST_RETRY_S, Look, Seen
from fairpool.model.ids import Instant, is_ahead
from fairpool.model.lifecycle import PodPhase
from fairpool.model.mentions import anonymous
from fairpool.model.observation import ForgetOrder, Order, StartOrder, StopOrder
from fairpool.model.organization import DEFAULT_GRACES, GraceRules
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import Arrangement, WorkloadSpec


def outstanding(
    life: PodRecord,
    spec: WorkloadSpec | None,
    look: Look,
    *,
    alone: bool,
    reported: bool,
    now: Instant,
    graces: GraceRules = DEFAULT_GRACES,
) -> Order | None:
    """The order that is owed for one life, if any. `alone`: every earlier life of the pod has ended."""
    seen = look.seen(life)
    match life.phase, seen:
        case PodPhase.BOUND, Seen.NOTHING if spec is not None and alone and not _put_off(life, now):
            return start_order(life, spec, graces)
        case PodPhase.RELEASING, Seen.STARTING | Seen.RUNNING | Seen.NOTHING | Seen.UNOFFERED:
            return _stop(life, life.grace_s, look)
        case PodPhase.ENDED, Seen.STARTING | Seen.RUNNING:
            return _stop(life, within(graces, life.grace_s, hurried=True), look)
        case PodPhase.ENDED, Seen.EXITED if reported:
            return ForgetOrder(pod=life.id, node=life.node)
    return None


def _put_off(life: PodRecord, now: Instant) -> bool:
    return is_ahead(life.retry_at, now, LONGEST_RETRY_S)


def start_order(life: PodRecord, spec: WorkloadSpec, graces: GraceRules = DEFAULT_GRACES) -> StartOrder:
    """The order to start a life where it is bound."""
    assert life.node is not None
    return StartOrder(
        pod=life.id,
        workload=life.workload,
        index=life.index,
        incarnation=life.incarnation,
        group=life.group,
        pod_set=life.pod_set,
        run=life.run,
        name=spec.name,
        project=spec.project,
        kind=spec.kind,
        node=life.node,
        boot_id=life.boot_id,
        devices=life.devices,
        shape=life.shape,
        program=spec.program_of(life.index),
        born_at=life.born_at,
        grace_s=within(graces, life.grace_s),
        pods=spec.pods,
        together=spec.arrangement is Arrangement.TOGETHER and spec.pods > 1,
    )


def _stop(life: PodRecord, grace_s: int, look: Look) -> StopOrder | None:
    if look.stop_confirmed and look.confirmed_grace_s <= grace_s:
        return None
    # The pod may read it, and whatever it can read is no secret.
    reason = anonymous(life.detail) or (life.cause.value if life.cause is not None else "")
    return StopOrder(pod=life.id, node=life.node, grace_s=grace_s, reason=reason)


def adopted(order: StartOrder, now: Instant) -> PodRecord:
    """A life that runs and is not in the ledger, read back from what it was started with."""
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
        born_at=order.born_at,
        node=order.node,
        devices=order.devices,
        boot_id=order.boot_id,
        grace_s=order.grace_s,
    )
