"""Writes a plan into the draft of the next entry: binds, promises, evictions, and the dates of pod groups.

A pod that is moved is evicted and promised a place in the same plan. The promise is for its replacement, which is
created at once, so that the place is reserved while the old pod stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fairpool.cluster.decision_records import DecisionRecords
from fairpool.cluster.history import EventKind
from fairpool.cluster.ledger_cache import EntryDraft
from fairpool.cluster.pod_slots import is_rigid, latest_pods, stop_peers, workload_of
from fairpool.cluster.pod_usage import usage_given
from fairpool.cluster.snapshot_builder import NO_QUEUE, snapshot_part
from fairpool.cluster.workload_state import GroupDates, WorkloadState
from fairpool.model.decision_record import DecisionRecord
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, WorkloadId, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.mentions import WORK_OF_ANOTHER, mention
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.pod_usage import PodUsage
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.workload import GpuRequest
from fairpool.scheduler.decision import Bind, Evict, Plan, Promise, Withdraw
from fairpool.scheduler.explain import explain_eviction, names_for
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot


@dataclass(slots=True)
class PodDecisions:
    """What a plan decides about the pods of one workload."""

    evict: dict[PodId, Evict]
    bind: dict[PodId, Bind]
    promise: dict[PodId, Promise]
    withdraw: dict[PodId, Withdraw]


def apply_plan(draft: EntryDraft, snapshot: Snapshot, plan: Plan) -> set[WorkloadId]:
    """Write the plan into the draft. Returns the workloads whose pods changed; a repeated promise is not a change."""
    concerned: dict[WorkloadId, PodDecisions] = {}
    for evict in plan.evictions:
        _decisions_of(concerned, evict.group).evict[evict.pod] = evict
    for bind in plan.binds:
        _decisions_of(concerned, bind.group).bind[bind.pod] = bind
    for promise in plan.promises:
        _decisions_of(concerned, promise.group).promise[promise.pod] = promise
    for withdraw in plan.withdrawals:
        _decisions_of(concerned, withdraw.group).withdraw[withdraw.pod] = withdraw
    dated = _remember_dates(draft, snapshot, plan)
    changed: set[WorkloadId] = set()
    for workload, decided in concerned.items():
        pods = draft.pods_of(workload)
        after = tuple(each for pod in pods for each in _next(draft, pod, decided))
        if decided.evict:
            after = _whole_gang(draft, workload, after)
        if len(after) != len(pods) or any(new is not old for new, old in zip(after, pods, strict=True)):
            draft.put_pods(workload, after)
            changed.add(workload)
    draft.decisions |= {key: each for key, each in _decisions(draft, plan).items() if key[0] in changed}
    for workload in changed | dated:
        spec, state = draft.spec(workload), draft.state(workload)
        draft.parts[workload] = snapshot_part(spec, state, draft.pods_of(workload), draft.now, pools=draft.pools)
    return changed


def _decisions(draft: EntryDraft, plan: Plan) -> dict[tuple[WorkloadId, EventKind], DecisionRecord]:
    """For the history."""
    if plan.is_empty:
        return {}
    shapes: dict[WorkloadId, dict[PodId, GpuRequest]] = {}

    def project_of(workload: WorkloadId) -> QueueId:
        spec = draft.spec(workload)
        return spec.project if spec is not None else QueueId("")

    def gpus_of(workload: WorkloadId, pod: PodId, node: NodeName) -> int:
        observed = draft.observation.nodes.get(node)
        memory = observed.node.gpu_memory_mib if observed is not None else 0
        if workload not in shapes:
            shapes[workload] = {each.id: each.shape.gpu for each in draft.pods_of(workload)}
        gpu = shapes[workload].get(pod)
        return 0 if gpu is None else gpus_charged_milli(gpu, memory)

    return DecisionRecords(plan, project_of, gpus_of, lambda mine, group: _name(draft, mine, group)).made()


def _decisions_of(concerned: dict[WorkloadId, PodDecisions], group: GroupId) -> PodDecisions:
    workload = workload_of(group)
    if workload not in concerned:
        concerned[workload] = PodDecisions({}, {}, {}, {})
    return concerned[workload]


def _whole_gang(draft: EntryDraft, workload: WorkloadId, pods: tuple[PodRecord, ...]) -> tuple[PodRecord, ...]:
    """A gang whose nodes are in different pools now is evicted in one of them; the rest is stopped too."""
    spec = draft.spec(workload)
    if spec is None or not is_rigid(spec):
        return pods
    words = "other pods of its gang must stop, and all of them restart together"
    return stop_peers(pods, draft.now, words)


def _next(draft: EntryDraft, pod: PodRecord, decided: PodDecisions) -> list[PodRecord]:
    """The pod after the plan, and its replacement if that has a promise."""
    now = draft.now
    promise = decided.promise.get(pod.id)
    evict = decided.evict.get(pod.id)
    if evict is not None:
        leaving = pod.release(now, _cause(evict), _reason(draft, pod, evict))
        return [leaving] if promise is None else [leaving, _promised(_replacement(draft, pod), promise, now)]
    bind = decided.bind.get(pod.id)
    if bind is not None:
        observed = draft.observation.nodes[bind.node]
        bound = pod.move(
            PodPhase.BOUND,
            now,
            node=bind.node,
            devices=bind.devices,
            boot_id=observed.boot_id,
            promised_at=None,
            detail="",
        )
        return [replace(bound, usage=_usage_given(draft, bound, observed.node))]
    if pod.id in decided.withdraw:
        why = decided.withdraw[pod.id].why
        pod = pod.move(
            PodPhase.WAITING, now, node=None, devices=(), promised_at=None, detail=f"reservation dropped: {why}"
        )
    return [pod if promise is None else _promised(pod, promise, now)]


def _usage_given(draft: EntryDraft, pod: PodRecord, node: Node) -> PodUsage:
    spec = draft.spec(pod.workload)
    project = spec.project if spec is not None else NO_QUEUE
    return usage_given(pod, project, draft.pooled_nodes.pool_of.get(node.name, DEFAULT_POOL), node)


def _reason(draft: EntryDraft, pod: PodRecord, evict: Evict) -> str:
    """Why it is evicted. The workload that gets its place is named only to users who may see that workload."""
    spec = draft.spec(pod.workload)
    mine = spec.project if spec is not None else QueueId("")
    return explain_eviction(evict, _name(draft, mine, evict.reason.winner), called=names_for(mine))


def _name(draft: EntryDraft, mine: QueueId, group: GroupId | None) -> str | None:
    """The name of a workload, as messages show it."""
    spec = draft.spec(workload_of(group)) if group is not None else None
    if spec is None:
        return group
    return spec.name if spec.project == mine else mention(spec.project, spec.name, WORK_OF_ANOTHER)


def _cause(evict: Evict) -> Cause:
    if evict.reason.by is Pass.STALE:
        return Cause.STALE
    return Cause.PREEMPTED if evict.reason.moved_to is None else Cause.MOVED


def _promised(pod: PodRecord, promise: Promise, now: Instant) -> PodRecord:
    if pod.phase is not PodPhase.PROMISED:
        pod = pod.move(PodPhase.PROMISED, now, detail="")
    elif (pod.node, pod.devices, pod.promised_at) == (promise.node, promise.devices, promise.since):
        return pod
    return replace(pod, node=promise.node, devices=promise.devices, promised_at=promise.since)


def _replacement(draft: EntryDraft, pod: PodRecord) -> PodRecord:
    incarnation = draft.state(pod.workload).next_incarnation(pod)
    return PodRecord(
        id=pod_id(pod.workload, pod.index, incarnation),
        workload=pod.workload,
        index=pod.index,
        incarnation=incarnation,
        group=pod.group,
        shape=pod.shape,
        pod_set=pod.pod_set,
        run=pod.run,
        since=draft.now,
        created_at=draft.now,
        grace_s=pod.grace_s,
    )


def _remember_dates(draft: EntryDraft, snapshot: Snapshot, plan: Plan) -> set[WorkloadId]:
    """Note when a group started, and since when it is broken. Returns the workloads whose dates changed."""
    changed: set[WorkloadId] = set()
    for dates in _new_dates(draft, snapshot, plan):
        workload = workload_of(dates.group)
        if draft.spec(workload) is not None:
            draft.put_state(_dated(draft.state(workload), dates, _alive(draft, workload, dates.group)))
            changed.add(workload)
    return changed


def _new_dates(draft: EntryDraft, snapshot: Snapshot, plan: Plan) -> Iterator[GroupDates]:
    """The dates of groups that start, break or are whole again."""
    started, stale = set(plan.started), set(plan.stale)
    if not stale and not draft.cache.with_stale_groups:
        for started_group in plan.started:
            yield GroupDates(started_group, draft.now, None)
        return
    for group in snapshot.groups:
        if group.id in started or (group.id in stale) != (group.stale_since is not None):
            yield GroupDates(
                group.id,
                draft.now if group.id in started else group.started_at,
                (group.stale_since or draft.now) if group.id in stale else None,
            )


def _alive(draft: EntryDraft, workload: WorkloadId, group: GroupId) -> set[GroupId]:
    """Groups whose dates are kept: those of replicas beyond the declared number are not."""
    return {pod.group for pod in latest_pods(draft.pods_of(workload)).values() if not pod.is_over} | {group}


def _dated(state: WorkloadState, dates: GroupDates, alive: set[GroupId]) -> WorkloadState:
    others = tuple(each for each in state.groups if each.group != dates.group and each.group in alive)
    return replace(state, groups=(*others, dates))
