"""Orphans: pods that the engine observes and the ledger does not contain, or contains as ended.

| orphan                                | what happens                                                           |
|---------------------------------------|------------------------------------------------------------------------|
| its workload is declared              | adopted: recorded as bound, from the start order that the engine keeps |
| not declared, starting or running     | stop order                                                             |
| not declared, exited                  | forget order                                                           |
| ended by the ledger, but still exists | `outstanding_orders.py` stops it                                       |

Orphans that are still running hold their devices: the scheduler counts them until they have exited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fairpool.cluster.grace_period import capped_grace_s
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.ledger_cache import EntryDraft
from fairpool.cluster.outstanding_orders import record_of_order
from fairpool.cluster.pod_usage import usage_given
from fairpool.cluster.snapshot_builder import SnapshotPart, snapshot_part
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.observation import ForgetOrder, ObservedPod, PodState, StartOrder, StopOrder
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.pod_usage import PodUsage


def handle_orphans(draft: EntryDraft, changed: Iterable[PodId]) -> set[WorkloadId]:
    """Adopt, stop or forget orphans among the changed pods and those known before. Returns workloads with new pods."""
    candidates = {pod for pod in changed if _is_orphan(draft, pod)} | draft.orphans
    draft.orphans = set()
    adopted: set[WorkloadId] = set()
    for pod in sorted(candidates):
        observed = draft.observation.pods.get(pod)
        if observed is None or not _is_orphan(draft, pod):
            continue
        if draft.workload_of(pod) is not None:
            if observed.state is not PodState.EXITED:
                _keep(draft, observed)
        elif _is_wanted(draft, observed):
            adopted.add(_adopt(draft, observed))
        else:
            _keep(draft, observed)
            _dismiss(draft, observed)
    draft.running_orphans = frozenset(pod.id for part in draft.orphan_parts for pod in part.pods)
    draft.must_plan |= draft.running_orphans != draft.cache.running_orphans
    return adopted


def _is_orphan(draft: EntryDraft, observed: PodId) -> bool:
    workload = draft.workload_of(observed)
    return workload is None or any(pod.id == observed and pod.is_over for pod in draft.pods_of(workload))


def _is_wanted(draft: EntryDraft, observed: ObservedPod) -> bool:
    """Whether its workload is declared and has no later pod of the same index, nor another that has not ended."""
    order = observed.order
    spec = draft.spec(order.workload)
    if spec is None or order.run > spec.run:
        return False
    return not any(
        pod.index == order.index and (pod.incarnation >= order.incarnation or not pod.is_over)
        for pod in draft.pods_of(order.workload)
    )


def _adopt(draft: EntryDraft, observed: ObservedPod) -> WorkloadId:
    order = observed.order
    record = record_of_order(order, draft.now)
    if record.usage is None:  # it was started by an earlier version
        record = replace(record, usage=_usage(draft, observed, record))
    draft.put_pods(order.workload, (*draft.pods_of(order.workload), record))
    event = Event(
        at=draft.now,
        kind=EventKind.ADOPTED,
        workload=order.workload,
        pod=order.pod,
        node=order.node,
        usage=record.usage,
    )
    draft.events.append(event)
    return order.workload


def _usage(draft: EntryDraft, observed: ObservedPod, record: PodRecord) -> PodUsage | None:
    order = observed.order
    node = draft.observation.nodes.get(order.node)
    if node is None:
        return None
    pool = draft.pooled_nodes.pool_of.get(order.node, DEFAULT_POOL)
    since = observed.running_since or draft.now
    return usage_given(replace(record, since=since), order.project, pool, node.node)


def _keep(draft: EntryDraft, observed: ObservedPod) -> None:
    """It is still an orphan, and holds its devices unless it has exited."""
    draft.orphans.add(observed.order.pod)
    if observed.state is not PodState.EXITED:
        draft.orphan_parts.append(_releasing(draft, observed.order))


def _releasing(draft: EntryDraft, order: StartOrder) -> SnapshotPart:
    pod = record_of_order(order, draft.now).release(draft.now, Cause.UNWANTED)
    return snapshot_part(None, WorkloadState(workload=order.workload), (pod,), draft.now)


def _dismiss(draft: EntryDraft, observed: ObservedPod) -> None:
    order = observed.order
    if observed.state is PodState.EXITED:
        draft.orders.append(ForgetOrder(pod=order.pod, node=order.node))
        return
    grace_s = capped_grace_s(draft.organization.graces, order.grace_s, hurried=True)
    if draft.cache.stops_confirmed.get(order.pod, grace_s + 1) > grace_s:
        reason = "its workload no longer exists"
        draft.orders.append(StopOrder(pod=order.pod, node=order.node, grace_s=grace_s, reason=reason))
