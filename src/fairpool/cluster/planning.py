"""The scheduling step of a cycle: a snapshot per node pool, a plan for each, and the verdicts on what waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice

from fairpool.cluster.apply_plan import apply_plan
from fairpool.cluster.ledger_cache import MESSAGES_S, EntryDraft
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.snapshot_builder import SnapshotBuilder, current_pool, snapshot_part
from fairpool.model.ids import SECOND_MS, GroupId, Instant, PoolName, WorkloadId
from fairpool.scheduler.decision import Plan, Verdict, Why
from fairpool.scheduler.plan import decide, next_pool
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.prepared import prepare
from fairpool.scheduler.snapshot import Snapshot

NEXT_POOL_S = 1
"""How soon a workload tries the next pool of its list."""
MESSAGES_MAX = 250
"""Messages with old numbers that are updated at a time."""

SnapshotHook = Callable[[PoolName, Snapshot], None]
"""Called with every snapshot before it is planned."""
PlanHook = Callable[[PoolName, Snapshot, Plan], None]
"""Called with every snapshot and its plan."""


def plan_pools(
    draft: EntryDraft, policy: Policy, on_snapshot: SnapshotHook | None, on_plan: PlanHook | None = None
) -> set[WorkloadId]:
    """Plan every pool and write the plans into the draft. Returns the workloads for which something changed.

    Skipped if nothing changed and no plan asked to be made again by now.
    """
    quiet_until = draft.cache.quiet_until
    if not draft.must_plan and (quiet_until is None or draft.now < quiet_until):
        return set()
    if draft.must_plan:
        draft.pools_tried = {}
    changed: set[WorkloadId] = set()
    verdicts: dict[GroupId, Verdict] = {}
    again_at: list[Instant] = []
    for pool, snapshot in _snapshots(draft, policy).items():
        if on_snapshot is not None:
            on_snapshot(pool, snapshot)
        prepared = prepare(snapshot, draft.cache.prepared.get(pool))
        planned = decide(prepared)
        if on_plan is not None:
            on_plan(pool, snapshot, planned)
        draft.prepared[pool] = prepared
        draft.plans[pool] = planned
        verdicts.update(planned.verdicts)
        changed_here = apply_plan(draft, snapshot, planned)
        if changed_here and not (planned.is_final and _are_in_pool(draft, changed_here, pool)):
            # What was decided may make the next decision possible, in this pool or where else a workload has pods.
            again_at.append(draft.now)
        elif planned.quiet_until is not None:
            again_at.append(planned.quiet_until)
        changed |= changed_here
    has_moved = bool(changed)
    changed |= _with_other_verdict(draft, verdicts)
    draft.verdicts = verdicts
    in_next_pool = _try_next_pools(draft)
    if in_next_pool:
        again_at.append(draft.now if has_moved else Instant(draft.now + NEXT_POOL_S * SECOND_MS))
    draft.quiet_until = min(again_at, default=None)
    return changed | in_next_pool


def _are_in_pool(draft: EntryDraft, workloads: Iterable[WorkloadId], pool: PoolName) -> bool:
    """Whether all pods of these workloads are in one pool: then what was decided concerns no other one."""
    pool_of = draft.pooled_nodes.pool_of
    return all(
        pod.node is None or pod.is_over or pool_of.get(pod.node, pool) == pool
        for workload in workloads
        for pod in draft.pods_of(workload)
    )


def _snapshots(draft: EntryDraft, policy: Policy) -> dict[PoolName, Snapshot]:
    builder = SnapshotBuilder(
        now=draft.now,
        pooled_nodes=draft.pooled_nodes,
        organization=draft.organization,
        parts=(*draft.all_parts(), *draft.orphan_parts),
        policy=policy,
    )
    return builder.snapshots()


def _with_other_verdict(draft: EntryDraft, verdicts: Mapping[GroupId, Verdict]) -> set[WorkloadId]:
    """Workloads that wait for another reason than before, or wait no longer.

    A reason in which only numbers changed is reported less often (`refresh_messages`): every pod that starts changes
    the numbers of all that wait.
    """
    before = draft.cache.verdicts
    changed = set()
    last: tuple[Why | None, Why | None] = (None, None)
    is_same = True
    for group, new in verdicts.items():
        old = before.get(group)
        if old is None or type(new.why) is not type(old.why):
            changed.add(workload_of(group))
            continue
        if new.why is not last[0] or old.why is not last[1]:  # groups that wait alike share a reason
            last, is_same = (new.why, old.why), new.why == old.why
        if not is_same:
            draft.stale_messages[workload_of(group)] = None
    changed.update(workload_of(group) for group in before.keys() - verdicts.keys())
    return changed


def refresh_messages(draft: EntryDraft) -> set[WorkloadId]:
    """Some workloads whose reason for waiting has old numbers, every few seconds, those first that had them first."""
    due_at = Instant(draft.cache.messages_at + MESSAGES_S * SECOND_MS)
    if not draft.stale_messages or draft.now < due_at:
        return set()
    refreshed = set(islice(draft.stale_messages, MESSAGES_MAX))
    for workload in refreshed:
        del draft.stale_messages[workload]
    draft.messages_at = draft.now
    return refreshed


def _try_next_pools(draft: EntryDraft) -> set[WorkloadId]:
    """Workloads that list several pools move to the next one when all that waits has a verdict, each pool once."""
    candidates = draft.with_several_pools()
    if not candidates:
        return set()
    waiting: dict[WorkloadId, list[Verdict]] = {}
    for group, verdict in draft.verdicts.items():
        if workload_of(group) in candidates:
            waiting.setdefault(workload_of(group), []).append(verdict)
    moved = set()
    for workload, verdicts in waiting.items():
        spec = draft.spec(workload)
        if spec is None or len(spec.pools) < 2 or draft.pools_tried.get(workload, 0) >= len(spec.pools):
            continue
        state = draft.state(workload)
        known = tuple(pool for pool in spec.pools if pool in draft.pools)
        here = current_pool(spec, state, draft.pools)
        there = {next_pool(known, here, verdict) for verdict in verdicts}
        if here in there or len(there) != 1:
            continue
        draft.pools_tried[workload] = draft.pools_tried.get(workload, 0) + 1
        state = replace(state, pool=there.pop())
        draft.put_state(state)
        draft.parts[workload] = snapshot_part(spec, state, draft.pods_of(workload), draft.now, pools=draft.pools)
        moved.add(workload)
    return moved
