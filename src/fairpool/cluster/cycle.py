"""One cycle of the loop as a function of values: ledger, declarations and observation in, the next entry out.

No side effects. Only what changed is processed: a workload is reconciled when its declaration, one of its pods, one of
their nodes or the time says so. The result is the same as if every workload were reconciled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from fairpool.api.clusters import PullAnswer
from fairpool.cluster.adoption import handle_orphans
from fairpool.cluster.dependencies import WorkloadOutcome, outcome_of
from fairpool.cluster.desired_state import apply_pull
from fairpool.cluster.expand import ExpandInput, expand
from fairpool.cluster.gates import workers_have_started
from fairpool.cluster.grace_period import with_capped_graces
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.idle_time import PodIdleTimes
from fairpool.cluster.idle_work import idle_work
from fairpool.cluster.ledger_cache import NO_NODES, NO_PODS, EntryDraft, LedgerCache
from fairpool.cluster.outstanding_orders import outstanding_order
from fairpool.cluster.planning import PlanHook, SnapshotHook, plan_pools, refresh_messages
from fairpool.cluster.pod_slots import latest_pods, workload_of
from fairpool.cluster.pod_usage import with_later_usage
from fairpool.cluster.rollup import rollup
from fairpool.cluster.settle import Evidence, settle
from fairpool.cluster.snapshot_builder import pooled_nodes, snapshot_part
from fairpool.cluster.workload_end import removes_output
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import Instant, NodeName, PodId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint, TaintEffect
from fairpool.model.observation import Observation, Order, OrderResult
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import Outcome, PodRecord
from fairpool.model.spec import RestartPolicy, WorkloadSpec
from fairpool.scheduler.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleInput:
    """What a cycle is given beside the ledger."""

    now: Instant
    observation: Observation
    pulled: PullAnswer | None = None
    answers: Mapping[PodId, OrderResult] = field(default_factory=dict)
    """To the orders of the previous cycle, except those that were carried out."""
    policy: Policy = field(default_factory=Policy.product)
    recovered: bool = False
    """The ledger was lost, and this is the first cycle with a new one."""
    jumped_ms: int = 0
    """By how much the clock was set since the last cycle."""
    idle: PodIdleTimes = PodIdleTimes()
    """How long pods have left their GPUs idle."""
    warned: Mapping[WorkloadId, int] = field(default_factory=dict)
    """Workloads whose users were told that they are idle and will be stopped, and that have been idle since. With when,
    by the clock of the idle times."""


def cycle(
    cache: LedgerCache,
    inputs: CycleInput,
    on_snapshot: SnapshotHook | None = None,
    on_plan: PlanHook | None = None,
) -> EntryDraft:
    """Compute the next ledger entry, the orders to the engine and the reports."""
    draft = EntryDraft(cache, inputs.now, inputs.observation)
    if inputs.jumped_ms:
        _shift_usage(draft, inputs.jumped_ms)
    changed_pods = _changed_pods(draft)
    concerned = apply_pull(draft, inputs.pulled, recovered=inputs.recovered)
    concerned |= _update_nodes(draft)
    concerned |= handle_orphans(draft, changed_pods)
    concerned = _affected(draft, concerned, changed_pods | inputs.answers.keys())
    idle = idle_work(cache, inputs.idle, inputs.warned)
    concerned |= idle.over
    draft.events += idle.warnings(inputs.now).values()
    reconciled = _reconcile_all(draft, inputs, concerned, idle.over)
    planned = plan_pools(draft, inputs.policy, on_snapshot, on_plan) | refresh_messages(draft)
    changed = reconciled | planned
    changed |= _cap_graces(draft, changed)
    _report(draft, changed)
    _collect_orders(draft, inputs, changed | cache.to_clean_up)
    _collect_garbage(draft, reconciled | cache.to_clean_up)
    return draft


def _shift_usage(draft: EntryDraft, jumped_ms: int) -> None:
    """What pods hold is counted by the time that passed, not by a clock that was set meanwhile."""
    for workload, pods in draft.cache.pods.items():
        draft.put_pods(workload, tuple(with_later_usage(pod, jumped_ms) for pod in pods))


# --- what changed --------------------------------------------------------------------------------------------------


def _changed_pods(draft: EntryDraft) -> set[PodId]:
    """Pods that look different from the last observation, or are no longer observed."""
    last, observation = draft.cache.observation, draft.observation
    before, now = last.pods if last is not None else NO_PODS, observation.pods
    if now is before:
        return set()
    if last is not None and observation.changed_pods is not None and observation.number == last.number + 1:
        return set(observation.changed_pods)
    return {pod for pod, observed in now.items() if before.get(pod) is not observed} | (before.keys() - now.keys())


def _update_nodes(draft: EntryDraft) -> set[WorkloadId]:
    """Sort the nodes into pools if they or the organization changed. Returns workloads with pods on changed nodes."""
    last = draft.cache.observation
    before = last.nodes if last is not None else NO_NODES
    now = draft.observation.nodes
    if now is before and draft.new_organization is None:
        return set()
    changed = {name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)}
    if not changed and draft.new_organization is None and last is not None:
        return set()
    draft.pooled_nodes = pooled_nodes(now, draft.organization, draft.cache.pooled_nodes)
    draft.must_plan = True
    return {
        workload
        for workload, pods in draft.cache.pods.items()
        if any(pod.node in changed and not pod.is_over for pod in pods)
    }


def _affected(draft: EntryDraft, concerned: set[WorkloadId], changed_pods: set[PodId]) -> set[WorkloadId]:
    """Every workload that may need to be reconciled: all of them in the first cycle of a loop."""
    cache = draft.cache
    if cache.observation is None:
        return concerned | cache.specs.keys() | cache.pods.keys()
    affected = concerned | {owner for owner in map(draft.workload_of, changed_pods) if owner is not None}
    affected |= {workload for workload, wake in cache.wakes.items() if wake <= draft.now}
    return affected | {workload for workload in cache.stopping if _has_confirmed_stop(cache, workload)}


def _has_confirmed_stop(cache: LedgerCache, workload: WorkloadId) -> bool:
    """Whether a pod was stopped and ends as soon as it is no longer observed."""
    return any(
        pod.phase is PodPhase.RELEASING and pod.id in cache.stops_confirmed for pod in cache.pods.get(workload, ())
    )


# --- settle and expand ---------------------------------------------------------------------------------------------


def _reconcile_all(
    draft: EntryDraft, inputs: CycleInput, workloads: set[WorkloadId], idle: Set[WorkloadId]
) -> set[WorkloadId]:
    """Reconcile these, then those that depend on one of them that has ended, and so on. Returns all of them. `idle`:
    those that have been idle for too long."""
    reconciled, due = set(workloads), workloads
    while due:
        for workload in sorted(due):
            _reconcile(draft, inputs, workload, is_idle=workload in idle)
        ended = {each for each in due if outcome_of(draft.spec(each), draft.state(each)) is not WorkloadOutcome.OPEN}
        due = draft.waiting_for(ended)
        reconciled |= due
    return reconciled


def _reconcile(draft: EntryDraft, inputs: CycleInput, workload: WorkloadId, *, is_idle: bool) -> None:
    """Settle the pods of a workload against the observation, then stop and create pods."""
    spec = draft.spec(workload)
    before = draft.pods_of(workload)
    pods = tuple(settle(pod, _evidence(draft, inputs, pod), draft.now) for pod in before)
    ended = tuple(new for new, old in zip(pods, before, strict=True) if new.is_over and not old.is_over)
    rules = draft.organization.rules.get(spec.project, ProjectRules()) if spec is not None else ProjectRules()
    expansion = expand(
        ExpandInput(
            spec=spec,
            state=draft.state(workload),
            pods=pods,
            ended=ended,
            rules=rules,
            drains=lambda node: _evicting_taints(draft, node),
            outcomes=lambda other: outcome_of(draft.spec(other), draft.state(other)),
            idle_ms=inputs.idle.idle_ms(pods) if is_idle else 0,
        ),
        draft.now,
    )
    draft.events += _state_events(draft.state(workload), expansion.state, draft.now)
    draft.put_pods(workload, expansion.pods)
    draft.put_state(expansion.state)
    draft.wakes[workload] = expansion.wake_at
    draft.put_part(workload, snapshot_part(spec, expansion.state, expansion.pods, draft.now, pools=draft.pools))
    draft.reconciled.add(workload)
    if expansion.gone and spec is not None:
        draft.gone[workload] = spec.run


def _evidence(draft: EntryDraft, inputs: CycleInput, pod: PodRecord) -> Evidence:
    return Evidence(
        draft.observation.pods.get(pod.id),
        draft.observation.nodes.get(pod.node) if pod.node is not None else None,
        inputs.answers.get(pod.id),
        pod.id in draft.cache.stops_confirmed,
        draft.cache.stops_confirmed.get(pod.id, 0),
    )


def _evicting_taints(draft: EntryDraft, node: NodeName) -> tuple[Taint, ...]:
    observed = draft.observation.nodes.get(node)
    taints = observed.node.taints if observed is not None else ()
    overrides = draft.organization.node_overrides.get(node)
    if overrides is not None:
        taints += overrides.taints
    return tuple(taint for taint in taints if taint.effect is TaintEffect.NO_EXECUTE)


def _state_events(before: WorkloadState, after: WorkloadState, now: Instant) -> list[Event]:
    events = []
    if after.run != before.run:
        events.append(Event(at=now, kind=EventKind.RESUMED, workload=after.workload))
    halt = after.halt
    if halt is not None and halt != before.halt:
        detail = f"{halt.phase.value}: {halt.detail}" if halt.detail else halt.phase.value
        events.append(
            Event(at=now, kind=EventKind.HALTED, workload=after.workload, cause=halt.cause.value, detail=detail)
        )
    return events


# --- grace periods -------------------------------------------------------------------------------------------------


def _cap_graces(draft: EntryDraft, concerned: set[WorkloadId]) -> set[WorkloadId]:
    """Shorten grace periods to what is allowed. Returns the workloads whose pods changed.

    A pod that is stopping for a reason of its own has less time once its place is promised to another project within
    its fair share; so all stopping pods are examined, not only those of changed workloads.
    """
    graces = draft.organization.graces
    stopping: dict[WorkloadId, list[PodRecord]] = {}
    for workload in sorted(draft.cache.stopping | concerned):
        found = [pod for pod in draft.pods_of(workload) if pod.phase is PodPhase.RELEASING]
        if found:
            stopping[workload] = found
    slow = [pod for pods in stopping.values() for pod in pods if pod.grace_s > graces.eviction_s]
    promised = _promised_to_others(draft, slow) if slow else {}
    changed = set()
    for workload in stopping:
        before = draft.pods_of(workload)
        after = with_capped_graces(before, draft.spec(workload), graces, promised)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            draft.put_pods(workload, after)
            changed.add(workload)
    return changed


def _promised_to_others(draft: EntryDraft, stopping: Sequence[PodRecord]) -> dict[PodId, str]:
    """Those of the stopping pods whose place is promised to another project within its share, with the message."""
    promised: dict[PodId, str] = {}
    for plan in (draft.plans or draft.cache.plans).values():
        within_share = {each.queue for each in plan.queues if each.held_milli <= each.fair_share_milli}
        for promise in plan.promises:
            winner = draft.spec(workload_of(promise.group))
            if winner is None or winner.project not in within_share:
                continue
            others = [pod for pod in stopping if pod.node == promise.node and _is_foreign(draft, pod, winner)]
            on_devices = [pod for pod in others if set(pod.devices) & set(promise.devices)]
            # If its devices are free it waits for CPU or memory, and for all pods that hold some on that node.
            for pod in on_devices or others:
                promised[pod.id] = "its place is reserved for another project"
    return promised


def _is_foreign(draft: EntryDraft, pod: PodRecord, winner: WorkloadSpec) -> bool:
    spec = draft.spec(pod.workload)
    return spec is None or spec.project != winner.project


# --- reports and orders --------------------------------------------------------------------------------------------


def _report(draft: EntryDraft, changed: set[WorkloadId]) -> None:
    for workload in sorted(changed):
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


def _collect_orders(draft: EntryDraft, inputs: CycleInput, concerned: set[WorkloadId]) -> None:
    """The orders that the engine still has to carry out."""
    looked_at = _with_other_orders(draft) | concerned
    draft.awaiting_engine = draft.cache.awaiting_engine - looked_at
    draft.to_order_again = set()
    for workload in sorted(looked_at):
        pods = draft.pods_of(workload)
        open_pods = [pod for pod in pods if _awaits_engine(draft, pod)]
        if not open_pods:
            continue
        orders = list(_orders(draft, inputs, workload, open_pods))
        draft.orders += orders
        draft.awaiting_engine.add(workload)
        is_unseen = any(pod.phase is PodPhase.BOUND and pod.id not in draft.observation.pods for pod in open_pods)
        if orders or is_unseen or workload in draft.pods:
            draft.to_order_again.add(workload)


def _with_other_orders(draft: EntryDraft) -> set[WorkloadId]:
    """Workloads whose orders may be others than in the last cycle, beside those that changed in this one. An order is
    repeated until it has had its effect; nodes and grace rules concern all that is still to be done."""
    cache = draft.cache
    last = cache.observation
    if draft.new_organization is not None or last is None or draft.observation.nodes is not last.nodes:
        return cache.awaiting_engine | cache.to_order_again
    return cache.to_order_again


def _awaits_engine(draft: EntryDraft, pod: PodRecord) -> bool:
    return pod.phase in (PodPhase.BOUND, PodPhase.RELEASING) or (pod.is_over and pod.id in draft.observation.pods)


def _orders(
    draft: EntryDraft, inputs: CycleInput, workload: WorkloadId, open_pods: Sequence[PodRecord]
) -> Iterator[Order]:
    spec, pods = draft.spec(workload), draft.pods_of(workload)
    first_unfinished = {pod.index: pod.incarnation for pod in reversed(pods) if not pod.is_over}
    for pod in open_pods:
        order = outstanding_order(
            pod,
            spec,
            _evidence(draft, inputs, pod),
            alone=first_unfinished.get(pod.index, pod.incarnation) >= pod.incarnation,
            ready=spec is None or workers_have_started(spec, pod, pods),
            without_output=spec is not None and removes_output(spec, draft.state(workload)),
            acknowledged=spec is None or _is_acknowledged(draft, workload),
            now=draft.now,
            graces=draft.organization.graces,
        )
        if order is not None:
            yield order


def _is_acknowledged(draft: EntryDraft, workload: WorkloadId) -> bool:
    """Whether the control plane has the current report of a workload."""
    return workload in draft.cache.acknowledged and workload not in draft.reports


# --- garbage collection --------------------------------------------------------------------------------------------


def _collect_garbage(draft: EntryDraft, concerned: set[WorkloadId]) -> None:
    """Remove ended pods whose end was acknowledged, and workloads of which nothing is left."""
    observed = draft.observation.pods
    for workload in concerned | draft.undesired:
        spec = draft.spec(workload)
        pods = draft.pods_of(workload)
        if spec is None:
            if all(pod.is_over and pod.id not in observed for pod in pods):
                draft.dropped.add(workload)
            continue
        if not _is_acknowledged(draft, workload):
            continue
        needed = _needed(spec, pods)
        old = {pod.id for pod in pods if pod.id not in needed and pod.is_over and pod.id not in observed}
        if old:
            draft.forgotten |= old
            draft.pods[workload] = tuple(pod for pod in pods if pod.id not in old)


def _needed(spec: WorkloadSpec, pods: Sequence[PodRecord]) -> set[PodId]:
    """Of each index the pod that succeeded, otherwise the latest, whose id must not be used again."""
    always_restarts = spec.restart_rule.restart is RestartPolicy.ALWAYS
    done = {} if always_restarts else {pod.index: pod for pod in pods if pod.outcome is Outcome.OK}
    return {pod.id for pod in (latest_pods(pods) | done).values()}
