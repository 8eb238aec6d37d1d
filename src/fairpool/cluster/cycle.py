"""One turn of the loop, as a function of values: what is written, declared and seen goes in, a draft comes out.

Nothing happens here. Only what changed is looked at: a workload is brought up to date when its declaration, one of its
pods, one of their nodes or the hour says so. The outcome is the same as if everything had been looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairpool.api.clusters import DesiredWorkload, PullAnswer
from fairpool.cluster.apply_plan import apply_plan
from fairpool.cluster.dependencies import WorkloadOutcome, outcome_of
from fairpool.cluster.expand import ExpandInput, expand
from fairpool.cluster.grace_period import capped_grace_s, with_capped_graces
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.ledger_cache import MESSAGES_S, NO_NODES, NO_PODS, EntryDraft, LedgerCache
from fairpool.cluster.outstanding_orders import outstanding_order, record_of_order
from fairpool.cluster.pod_slots import group_of, latest_pods, pod_set_of, workload_of
from fairpool.cluster.rollup import rollup
from fairpool.cluster.settle import Evidence, settle
from fairpool.cluster.snapshot_builder import SnapshotBuilder, current_pool, pooled_nodes, snapshot_part
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, PoolName, WorkloadId, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint, TaintEffect
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    ObservedPod,
    OrderResult,
    PodState,
    StartOrder,
    StopOrder,
)
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import RestartPolicy, WorkloadSpec
from fairpool.scheduler.decision import Verdict
from fairpool.scheduler.plan import next_pool, plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

LOST_NUMBERS = 1000
"""Incarnations that are skipped when a ledger was lost: more than any pod can have lived without being reported."""
POOL_PATIENCE_S = 1
"""How soon a workload tries the next pool of its list."""

SnapshotHook = Callable[[PoolName, Snapshot], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleInput:
    """What the loop brings to a cycle, beside the books."""

    now: Instant
    observation: Observation
    pulled: PullAnswer | None = None
    answers: Mapping[PodId, OrderResult] = field(default_factory=dict)
    """To the orders of the turn before, except those that were simply done."""
    policy: Policy = field(default_factory=Policy.product)
    recovered: bool = False
    """The ledger was lost and this is the first look of a new one."""


def cycle(cache: LedgerCache, inputs: CycleInput, watch: SnapshotHook | None = None) -> EntryDraft:
    """One turn."""
    draft = EntryDraft(cache, inputs.now, inputs.observation)
    declared = _take_in(draft, inputs)  # 1. what is declared
    moved = _look_at_nodes(draft, inputs)
    adopted_by = _adopt(draft, inputs)  # 2. what runs that we did not know of
    touched = _touched(draft, inputs, declared | moved | adopted_by)
    touched = _bring_all_up_to_date(draft, inputs, touched)  # 3. what has happened, and who should exist
    decided = _decide(draft, inputs, watch)  # 4. who goes where
    decided |= _refresh_sentences(draft)
    decided |= _give_notice(draft, touched | decided)  # 5. how long those who leave have
    _report(draft, touched | decided)  # 6. what people are told
    _collect_orders(draft, inputs, touched | decided | cache.to_clean_up)  # 7. what the engine has to do
    _collect_garbage(draft, touched | cache.to_clean_up)
    return draft


# --- 1. what is declared -------------------------------------------------------------------------------------------


def _take_in(draft: EntryDraft, inputs: CycleInput) -> set[WorkloadId]:
    """New declarations; the answer is everybody they concern."""
    pulled = inputs.pulled
    if pulled is None:
        return set()
    draft.cursor = pulled.revision
    concerned: set[WorkloadId] = set()
    known = {wanted.id for wanted in pulled.workloads} | draft.cache.specs.keys()
    for wanted in pulled.workloads:
        spec = wanted.to_spec()
        if draft.cache.specs.get(spec.id) == spec:
            continue
        draft.specs[spec.id] = spec
        concerned.add(spec.id)
        if spec.id not in draft.cache.states:
            over = wanted.over
            halt = None
            if over is not None and over.run == spec.run:
                halt = Halt(over.phase, over.cause, Instant(over.at), over.detail)
            first = LOST_NUMBERS + max(wanted.incarnations.values(), default=0) if inputs.recovered else 0
            # It would have been reported as failed if one of those that are gone had not met what it waited for.
            met = tuple(each.workload for each in spec.after if inputs.recovered and each.workload not in known)
            state = WorkloadState(workload=spec.id, run=spec.run, halt=halt, first_incarnation=first, met=met)
            draft.put_state(state)
            if inputs.recovered:
                draft.put_pods(spec.id, tuple(_remembered(spec, wanted, index, inputs.now) for index in wanted.done))
    removed = {WorkloadId(each) for each in pulled.removed}
    if pulled.whole:
        removed |= draft.cache.specs.keys() - {wanted.id for wanted in pulled.workloads}
    draft.undesired = {each for each in removed if each in draft.cache.specs and each not in draft.specs}
    if pulled.organization is not None:
        organization = pulled.organization.to_organization()
        if organization != draft.cache.organization:
            draft.new_organization = organization
            draft.must_plan = True
            concerned |= draft.cache.pods.keys()
    return concerned | draft.undesired


def _remembered(spec: WorkloadSpec, wanted: DesiredWorkload, index: int, now: Instant) -> PodRecord:
    """A life that had ended well before the ledger was lost, as the control plane remembers it."""
    incarnation = wanted.incarnations.get(index, 0)
    return PodRecord(
        id=pod_id(spec.id, index, incarnation),
        workload=spec.id,
        index=index,
        incarnation=incarnation,
        group=group_of(spec, index),
        pod_set=pod_set_of(spec, index),
        shape=spec.template_of(index).shape,
        run=spec.run,
        phase=PodPhase.ENDED,
        since=now,
        born_at=now,
        outcome=Outcome.OK,
        cause=Cause.EXITED,
        detail="it completed before the ledger was lost",
    )


def _look_at_nodes(draft: EntryDraft, inputs: CycleInput) -> set[WorkloadId]:
    """Whoever has a pod on a node that looks different from last time."""
    last = draft.cache.observation
    before = last.nodes if last is not None else NO_NODES
    now = inputs.observation.nodes
    if now is before and draft.new_organization is None:
        return set()
    changed = {name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)}
    if not changed and draft.new_organization is None and last is not None:
        return set()
    draft.pooled_nodes = pooled_nodes(now, draft.organization)
    draft.must_plan = True
    return {
        workload
        for workload, pods in draft.cache.pods.items()
        if any(pod.node in changed and not pod.is_over for pod in pods)
    }


# --- 2. what runs that we did not know of --------------------------------------------------------------------------


def _adopt(draft: EntryDraft, inputs: CycleInput) -> set[WorkloadId]:
    """Lives that the engine knows and the ledger does not: taken over if they are wanted, else sent away.

    One that is over by the ledger and runs all the same is told to stop with the others (`outstanding.py`); here it is
    only seen to that nobody is placed on its devices before it has.
    """
    candidates = {pod for pod, _ in _changed_pods(draft, inputs) if _is_orphan(draft, pod)} | draft.orphans
    draft.orphans = set()
    taken: set[WorkloadId] = set()
    for pod in sorted(candidates):
        observed = inputs.observation.pods.get(pod)
        if observed is None or not _is_orphan(draft, pod):
            continue
        order = observed.order
        if draft.workload_of(pod) is not None:
            if observed.state is not PodState.EXITED:
                draft.orphans.add(pod)
                _keep_place(draft, order)
            continue
        if _is_wanted(draft, observed):
            draft.put_pods(order.workload, (*draft.pods_of(order.workload), record_of_order(order, inputs.now)))
            draft.events.append(
                Event(at=inputs.now, kind=EventKind.ADOPTED, workload=order.workload, pod=pod, node=order.node)
            )
            taken.add(order.workload)
            continue
        draft.orphans.add(pod)
        if observed.state is PodState.EXITED:
            draft.orders.append(ForgetOrder(pod=pod, node=order.node))
            continue
        _keep_place(draft, order)
        grace_s = capped_grace_s(draft.organization.graces, order.grace_s, hurried=True)
        if draft.cache.stops_confirmed.get(pod, grace_s + 1) > grace_s:
            draft.orders.append(
                StopOrder(pod=pod, node=order.node, grace_s=grace_s, reason="its workload no longer exists")
            )
    draft.running_orphans = frozenset(pod.id for part in draft.orphan_parts for pod in part.pods)
    draft.must_plan |= draft.running_orphans != draft.cache.running_orphans
    return taken


def _is_orphan(draft: EntryDraft, observed: PodId) -> bool:
    """Whether the ledger does not know this life, or knows that it is over."""
    workload = draft.workload_of(observed)
    return workload is None or any(pod.id == observed and pod.is_over for pod in draft.pods_of(workload))


def _keep_place(draft: EntryDraft, order: StartOrder) -> None:
    """Until it has left, the scheduler counts with it."""
    leaving = record_of_order(order, draft.now).release(draft.now, Cause.UNWANTED)
    draft.orphan_parts.append(snapshot_part(None, WorkloadState(workload=order.workload), (leaving,), draft.now))


def _is_wanted(draft: EntryDraft, observed: ObservedPod) -> bool:
    """Its workload is declared and knows of no later life of the same pod, nor of one that is not over."""
    order = observed.order
    spec = draft.spec(order.workload)
    if spec is None or order.run > spec.run:
        return False
    return not any(
        pod.index == order.index and (pod.incarnation >= order.incarnation or not pod.is_over)
        for pod in draft.pods_of(order.workload)
    )


def _changed_pods(draft: EntryDraft, inputs: CycleInput) -> Iterator[tuple[PodId, ObservedPod | None]]:
    before = draft.cache.observation.pods if draft.cache.observation is not None else NO_PODS
    now = inputs.observation.pods
    if now is before:
        return
    for pod, observed in now.items():
        if before.get(pod) is not observed:
            yield pod, observed
    for pod in before.keys() - now.keys():
        yield pod, None


# --- 3. what has happened, and who should exist --------------------------------------------------------------------


def _touched(draft: EntryDraft, inputs: CycleInput, concerned: set[WorkloadId]) -> set[WorkloadId]:
    """Every workload about which something may be different."""
    cache = draft.cache
    if cache.observation is None:
        return concerned | cache.specs.keys() | cache.pods.keys()
    pods = {pod for pod, _ in _changed_pods(draft, inputs)} | inputs.answers.keys()
    touched = concerned | {owner for owner in map(draft.workload_of, pods) if owner is not None}
    touched |= {workload for workload, wake in cache.wakes.items() if wake <= inputs.now}
    return touched | {workload for workload in cache.awaiting_engine if _waits_for_absence(cache, workload)}


def _waits_for_absence(cache: LedgerCache, workload: WorkloadId) -> bool:
    return any(
        pod.phase is PodPhase.RELEASING and pod.id in cache.stops_confirmed for pod in cache.pods.get(workload, ())
    )


def _evidence(draft: EntryDraft, inputs: CycleInput, pod: PodRecord) -> Evidence:
    return Evidence(
        inputs.observation.pods.get(pod.id),
        inputs.observation.nodes.get(pod.node) if pod.node is not None else None,
        inputs.answers.get(pod.id),
        pod.id in draft.cache.stops_confirmed,
        draft.cache.stops_confirmed.get(pod.id, 0),
    )


def _bring_all_up_to_date(draft: EntryDraft, inputs: CycleInput, touched: set[WorkloadId]) -> set[WorkloadId]:
    """These, then those that wait for one of them, and so on; the answer is all of them."""
    everybody, due = set(touched), touched
    while due:
        for workload in sorted(due):
            _bring_up_to_date(draft, inputs, workload)
        over = {each for each in due if outcome_of(draft.spec(each), draft.state(each)) is not WorkloadOutcome.OPEN}
        due = draft.waiting_for(over)
        everybody |= due
    return everybody


def _bring_up_to_date(draft: EntryDraft, inputs: CycleInput, workload: WorkloadId) -> None:
    now = inputs.now
    spec = draft.spec(workload)
    before = draft.pods_of(workload)
    pods = tuple(settle(pod, _evidence(draft, inputs, pod), now) for pod in before)
    ended = tuple(new for new, old in zip(pods, before, strict=True) if new.is_over and not old.is_over)
    rules = draft.organization.rules.get(spec.project, ProjectRules()) if spec is not None else ProjectRules()
    expansion = expand(
        ExpandInput(
            spec=spec,
            state=draft.state(workload),
            pods=pods,
            ended=ended,
            rules=rules,
            drains=lambda node: _drains(draft, node),
            outcomes=lambda other: outcome_of(draft.spec(other), draft.state(other)),
        ),
        now,
    )
    _note_halt(draft, workload, expansion.state)
    draft.put_pods(workload, expansion.pods)
    draft.put_state(expansion.state)
    draft.wakes[workload] = expansion.wake_at
    draft.put_part(workload, snapshot_part(spec, expansion.state, expansion.pods, now, pools=draft.pools))
    draft.reconciled.add(workload)
    if expansion.gone and spec is not None:
        draft.gone[workload] = spec.run


def _drains(draft: EntryDraft, node: NodeName) -> tuple[Taint, ...]:
    observed = draft.observation.nodes.get(node)
    taints = observed.node.taints if observed is not None else ()
    marks = draft.organization.marks.get(node)
    if marks is not None:
        taints += marks.taints
    return tuple(taint for taint in taints if taint.effect is TaintEffect.NO_EXECUTE)


def _note_halt(draft: EntryDraft, workload: WorkloadId, state: WorkloadState) -> None:
    before = draft.state(workload)
    if state.run != before.run:
        draft.events.append(Event(at=draft.now, kind=EventKind.RESUMED, workload=workload))
    if state.halt is not None and state.halt != before.halt:
        halt = state.halt
        draft.events.append(
            Event(
                at=draft.now,
                kind=EventKind.HALTED,
                workload=workload,
                cause=halt.cause.value,
                detail=f"{halt.phase.value}: {halt.detail}" if halt.detail else halt.phase.value,
            )
        )


# --- 4. who goes where ---------------------------------------------------------------------------------------------


def _decide(draft: EntryDraft, inputs: CycleInput, watch: SnapshotHook | None) -> set[WorkloadId]:
    """Ask the scheduler, pool by pool, and write its answer into the draft. The answer: whose lives changed."""
    cache = draft.cache
    if not draft.must_plan and (cache.quiet_until is None or inputs.now < cache.quiet_until):
        return set()
    if draft.must_plan:
        draft.pools_tried = {}
    builder = SnapshotBuilder(
        now=inputs.now,
        pooled_nodes=draft.pooled_nodes,
        organization=draft.organization,
        parts=(*draft.all_parts(), *draft.orphan_parts),
        policy=inputs.policy,
    )
    decided: set[WorkloadId] = set()
    verdicts: dict[GroupId, Verdict] = {}
    quiet: list[Instant] = []
    for pool, snapshot in builder.snapshots().items():
        if watch is not None:
            watch(pool, snapshot)
        answer = plan(snapshot)
        draft.plans[pool] = answer
        verdicts.update(answer.verdicts)
        changed = apply_plan(draft, snapshot, answer)
        decided |= changed
        if changed:
            quiet.append(inputs.now)  # what was decided may make the next decision possible
        elif answer.quiet_until is not None:
            quiet.append(answer.quiet_until)
    decided |= _said_otherwise(draft, verdicts)
    draft.verdicts = verdicts
    moved_on = _try_other_pools(draft, inputs.now)
    decided |= moved_on
    quiet += [Instant(inputs.now + POOL_PATIENCE_S * SECOND_MS)] * bool(moved_on)
    draft.quiet_until = min(quiet, default=None)
    return decided


def _said_otherwise(draft: EntryDraft, verdicts: Mapping[GroupId, Verdict]) -> set[WorkloadId]:
    """Workloads that wait for another reason than before, or not any more.

    That the numbers in a reason have moved on is told less often: they do so for everybody with every pod that starts.
    """
    before = draft.cache.verdicts
    changed, moved_on = set(), set()
    for group in verdicts.keys() | before.keys():
        new, old = verdicts.get(group), before.get(group)
        if new is None or old is None or type(new.why) is not type(old.why):
            changed.add(workload_of(group))
        elif new.why != old.why:
            moved_on.add(workload_of(group))
    draft.stale_messages |= moved_on
    return changed


def _refresh_sentences(draft: EntryDraft) -> set[WorkloadId]:
    """Everybody whose reason holds old numbers, once in a while."""
    due_at = Instant(draft.cache.messages_at + MESSAGES_S * SECOND_MS)
    if not draft.stale_messages or draft.now < due_at:
        return set()
    refreshed, draft.stale_messages = draft.stale_messages, set()
    draft.messages_at = draft.now
    return refreshed


def _try_other_pools(draft: EntryDraft, now: Instant) -> set[WorkloadId]:
    """Workloads that name several pools move on to the next after a verdict on all that waits, once round."""
    waiting: dict[WorkloadId, list[Verdict]] = {}
    for group, verdict in draft.verdicts.items():
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
        draft.parts[workload] = snapshot_part(spec, state, draft.pods_of(workload), now, pools=draft.pools)
        moved.add(workload)
    return moved


# --- 5. how long those who leave have ------------------------------------------------------------------------------


def _give_notice(draft: EntryDraft, concerned: set[WorkloadId]) -> set[WorkloadId]:
    """Cut the graces of those who leave to what they may have. The answer: whose lives changed.

    Whoever leaves in its own time has less of it once its place is promised to work of another project within its
    share; so this looks at everybody who leaves, and not only at those with whom something has happened.
    """
    graces = draft.organization.graces
    leaving: dict[WorkloadId, list[PodRecord]] = {}
    for workload in sorted(draft.cache.awaiting_engine | concerned):
        found = [pod for pod in draft.pods_of(workload) if pod.phase is PodPhase.RELEASING]
        if found:
            leaving[workload] = found
    slow = [pod for pods in leaving.values() for pod in pods if pod.grace_s > graces.eviction_s]
    owed = _owed_places(draft, slow) if slow else {}
    changed = set()
    for workload in leaving:
        before = draft.pods_of(workload)
        after = with_capped_graces(before, draft.spec(workload), graces, owed)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            draft.put_pods(workload, after)
            changed.add(workload)
    return changed


def _owed_places(draft: EntryDraft, leaving: Sequence[PodRecord]) -> dict[PodId, str]:
    """Those of the leaving lives in whose place work of another project may be, and the words for it."""
    owed: dict[PodId, str] = {}
    for answer in (draft.plans or draft.cache.plans).values():
        within_share = {each.queue for each in answer.queues if each.held_milli <= each.fair_share_milli}
        for promise in answer.promises:
            winner = draft.spec(workload_of(promise.group))
            if winner is None or winner.project not in within_share:
                continue
            others = [pod for pod in leaving if pod.node == promise.node and _is_foreign(draft, pod, winner)]
            on_devices = [pod for pod in others if set(pod.devices) & set(promise.devices)]
            # Where its devices are free it waits for cores or memory, and for whoever holds them there.
            for pod in on_devices or others:
                owed[pod.id] = "its place is reserved for another project"
    return owed


def _is_foreign(draft: EntryDraft, pod: PodRecord, winner: WorkloadSpec) -> bool:
    spec = draft.spec(pod.workload)
    return spec is None or spec.project != winner.project


# --- 7. what the engine has to do ----------------------------------------------------------------------------------


def _collect_orders(draft: EntryDraft, inputs: CycleInput, concerned: set[WorkloadId]) -> None:
    awaiting_engine = set()
    for workload in sorted(draft.cache.awaiting_engine | concerned):
        spec = draft.spec(workload)
        pods = draft.pods_of(workload)
        unfinished = {pod.index: pod.incarnation for pod in reversed(pods) if not pod.is_over}
        for pod in pods:
            observed = inputs.observation.pods.get(pod.id)
            if pod.phase in (PodPhase.BOUND, PodPhase.RELEASING) or (pod.is_over and observed is not None):
                awaiting_engine.add(workload)
                order = outstanding_order(
                    pod,
                    spec,
                    _evidence(draft, inputs, pod),
                    alone=unfinished.get(pod.index, pod.incarnation) >= pod.incarnation,
                    acknowledged=spec is None
                    or (workload in draft.cache.acknowledged and workload not in draft.reports),
                    now=inputs.now,
                    graces=draft.organization.graces,
                )
                if order is not None:
                    draft.orders.append(order)
    draft.awaiting_engine = awaiting_engine


# --- 6. what people are told ---------------------------------------------------------------------------------------


def _report(draft: EntryDraft, concerned: set[WorkloadId]) -> None:
    for workload in sorted(concerned):
        spec = draft.spec(workload)
        if spec is None:
            continue
        report = rollup(
            spec,
            draft.state(workload),
            draft.pods_of(workload),
            verdicts=draft.verdicts,
            nodes=draft.observation.nodes,
            pools=draft.pools,
            now=draft.now,
        )
        if report != draft.cache.reports.get(workload):
            draft.reports[workload] = report


def _collect_garbage(draft: EntryDraft, touched: set[WorkloadId]) -> None:
    """Earlier lives that everybody knows the end of, and workloads of which nothing is left."""
    observed = draft.observation.pods
    for workload in touched | draft.undesired:
        spec = draft.spec(workload)
        pods = draft.pods_of(workload)
        if spec is None:
            if all(pod.is_over and pod.id not in observed for pod in pods):
                draft.dropped.add(workload)
            continue
        if workload not in draft.cache.acknowledged or workload in draft.reports:
            continue
        needed = _needed(spec, pods)
        old = {pod.id for pod in pods if pod.id not in needed and pod.is_over and pod.id not in observed}
        if old:
            draft.forgotten |= old
            draft.pods[workload] = tuple(pod for pod in pods if pod.id not in old)


def _needed(spec: WorkloadSpec, pods: Sequence[PodRecord]) -> set[PodId]:
    """Of each pod the life that has done its work, else the latest, whose number must not be used again."""
    comes_back = spec.restart_rule.restart is RestartPolicy.ALWAYS
    done = {} if comes_back else {pod.index: pod for pod in pods if pod.outcome is Outcome.OK}
    return {pod.id for pod in (latest_pods(pods) | done).values()}
