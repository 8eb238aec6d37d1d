"""The ledger's content in memory, indexed as a cycle needs it, and the draft of the next entry.

A cycle never changes the cache. It writes a draft; once the ledger has recorded it, the cache applies it. A draft that
could not be recorded is discarded, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.dependencies import unmet_dependencies
from fairpool.cluster.history import Event, EventKind, pod_events
from fairpool.cluster.ledger_entry import LedgerContents, LedgerEntry
from fairpool.cluster.pod_usage import usage_asked
from fairpool.cluster.snapshot_builder import PooledNodes, SnapshotPart, current_pool
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.decision_record import DecisionRecord
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, PoolName, Revision, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.observation import Observation, ObservedNode, ObservedPod, Order
from fairpool.model.organization import Organization
from fairpool.model.pod_record import PodRecord
from fairpool.model.pod_usage import PodUsage
from fairpool.model.spec import WorkloadSpec
from fairpool.scheduler.decision import Plan, Verdict
from fairpool.scheduler.prepared import Prepared

MESSAGES_S = 10
"""How often the numbers in the messages of waiting workloads are updated."""

NO_PODS: Mapping[PodId, ObservedPod] = {}
NO_NODES: Mapping[NodeName, ObservedNode] = {}


class LedgerCache:
    """What is recorded, and what was derived from it."""

    def __init__(self, contents: LedgerContents) -> None:
        self.specs: dict[WorkloadId, WorkloadSpec] = {spec.id: spec for spec in contents.specs}
        self.states: dict[WorkloadId, WorkloadState] = {each.workload: each for each in contents.states}
        self.organization: Organization = contents.organization or Organization()
        self.cursor: Revision | None = contents.cursor
        self.pods: dict[WorkloadId, tuple[PodRecord, ...]] = {}
        for pod in sorted(contents.pods, key=lambda each: (each.workload, each.index, each.incarnation)):
            self.pods[pod.workload] = (*self.pods.get(pod.workload, ()), pod)
        # Derived, and derived again after a restart:
        self.observation: Observation | None = None
        self.pooled_nodes = PooledNodes({}, {})
        self.workload_of: dict[PodId, WorkloadId] = {
            pod.id: workload for workload, pods in self.pods.items() for pod in pods
        }
        self.parts: dict[WorkloadId, SnapshotPart] = {}
        self.wakes: dict[WorkloadId, Instant] = {}
        self.reports: dict[WorkloadId, WorkloadReport] = {}
        self.verdicts: dict[GroupId, Verdict] = {}
        self.plans: dict[PoolName, Plan] = {}
        self.prepared: dict[PoolName, Prepared] = {}
        """The columns of the last snapshots, from which the next ones are prepared."""
        self.awaiting_engine: set[WorkloadId] = set()
        """Workloads for which the engine may still have orders to carry out."""
        self.to_order_again: set[WorkloadId] = set()
        """Of those, the ones whose orders may be others than in the last cycle, although nothing new is observed."""
        self.stopping = {workload for workload, pods in self.pods.items() if _is_stopping(pods)}
        """Workloads with pods that are being stopped."""
        self.orphans: set[PodId] = set()
        """Pods that the engine observes and the ledger does not contain, or contains as ended."""
        self.running_orphans: frozenset[PodId] = frozenset()
        """Those of them that hold devices."""
        self.gone: dict[WorkloadId, int] = {}
        """Workloads of which nothing is left, with the run that ended so."""
        self.acknowledged: set[WorkloadId] = set()
        """Workloads whose current report the control plane has acknowledged."""
        self.to_clean_up: set[WorkloadId] = set()
        """Of those, the ones that may have pods to remove."""
        self.stops_confirmed: dict[PodId, int] = {}
        """Pods whose stop the engine confirmed, with the shortest grace period of a confirmed stop, in seconds."""
        self.quiet_until: Instant | None = Instant(0)
        """Until then the plans stay as they are, unless something changes; None: for ever."""
        self.pools_tried: dict[WorkloadId, int] = {}
        """How many pools a workload has tried since the last change."""
        self.stale_messages: dict[WorkloadId, None] = {}
        """Workloads whose message has old numbers, as a set that keeps its order."""
        self.messages_at = Instant(0)
        self.dependents: dict[WorkloadId, set[WorkloadId]] = {}
        """Workloads that depend on a workload."""
        self.with_several_pools: set[WorkloadId] = set()
        self.with_stale_groups = {each.workload for each in self.states.values() if each.has_stale_group}
        self._note_specs(self.specs.values())

    def _note_specs(self, specs: Iterable[WorkloadSpec]) -> None:
        for spec in specs:
            if len(spec.pools) > 1:
                self.with_several_pools.add(spec.id)
            for each in spec.after:
                self.dependents.setdefault(each.workload, set()).add(spec.id)

    def acknowledge(self, workloads: Iterable[WorkloadId]) -> None:
        """Note that the control plane has the current reports of these workloads."""
        for workload in workloads:
            if workload not in self.reports:
                continue  # it was dropped meanwhile
            self.acknowledged.add(workload)
            pods = self.pods.get(workload, ())
            if workload in self.awaiting_engine or len(pods) > len({pod.index for pod in pods}):
                self.to_clean_up.add(workload)

    def next_wake(self) -> Instant | None:
        """When time alone may change something; None: never."""
        moments = list(self.wakes.values())
        if self.quiet_until is not None:
            moments.append(self.quiet_until)
        if self.stale_messages:
            moments.append(Instant(self.messages_at + MESSAGES_S * SECOND_MS))
        return min(moments, default=None)

    def apply(self, draft: EntryDraft) -> None:
        """Apply what has been recorded."""
        self.specs.update(draft.specs)
        self._note_specs(draft.specs.values())
        for workload in draft.undesired | draft.dropped:
            spec = self.specs.pop(workload, None)
            self.with_several_pools.discard(workload)
            for each in spec.after if spec is not None else ():
                self.dependents.get(each.workload, set()).discard(workload)
        self.states.update(draft.states)
        for state in draft.states.values():
            if state.has_stale_group:
                self.with_stale_groups.add(state.workload)
            else:
                self.with_stale_groups.discard(state.workload)
        for workload, pods in draft.pods.items():
            over = {pod.id for pod in self.pods.get(workload, ()) if pod.is_over}
            for pod in pods:
                if pod.is_over and pod.id not in over:
                    self.stops_confirmed.pop(pod.id, None)  # if it is observed after this, it is stopped again
            self.pods[workload] = pods
            if _is_stopping(pods):
                self.stopping.add(workload)
            else:
                self.stopping.discard(workload)
            self.workload_of.update((pod.id, workload) for pod in pods)
        for forgotten in draft.forgotten:
            self.workload_of.pop(forgotten, None)
            self.stops_confirmed.pop(forgotten, None)
        if draft.new_organization is not None:
            self.organization = draft.new_organization
        if draft.cursor is not None:
            self.cursor = draft.cursor
        self._apply_derived(draft)
        for workload in draft.undesired:
            self.reports.pop(workload, None)  # not reported any more, also while its pods stop
        for workload in draft.dropped:
            self._forget(workload)

    def _apply_derived(self, draft: EntryDraft) -> None:
        self.observation, self.pooled_nodes = draft.observation, draft.pooled_nodes
        for workload, part in draft.parts.items():
            if part.pods:
                self.parts[workload] = part
            else:
                self.parts.pop(workload, None)
        for workload, wake in draft.wakes.items():
            if wake is not None:
                self.wakes[workload] = wake
            else:
                self.wakes.pop(workload, None)
        self.reports.update(draft.reports)
        self.acknowledged -= draft.reports.keys()
        self.verdicts = draft.verdicts
        if draft.plans:
            self.plans, self.prepared = draft.plans, draft.prepared
        if draft.orphans != self.orphans:
            known = self.workload_of.keys() | draft.orphans
            self.stops_confirmed = {pod: s for pod, s in self.stops_confirmed.items() if pod in known}
        self.awaiting_engine, self.to_order_again = draft.awaiting_engine, draft.to_order_again
        self.orphans = draft.orphans
        self.running_orphans = draft.running_orphans
        for workload in draft.reconciled:
            self.gone.pop(workload, None)
        self.gone.update(draft.gone)
        self.to_clean_up = set()
        self.quiet_until = draft.quiet_until
        self.pools_tried = draft.pools_tried
        self.stale_messages, self.messages_at = draft.stale_messages, draft.messages_at

    def _forget(self, workload: WorkloadId) -> None:
        for pod in self.pods.pop(workload, ()):
            self.workload_of.pop(pod.id, None)
            self.stops_confirmed.pop(pod.id, None)
        for each in (self.states, self.parts, self.wakes, self.reports, self.pools_tried, self.gone, self.dependents):
            each.pop(workload, None)
        sets = (self.awaiting_engine, self.to_order_again, self.stopping, self.acknowledged, self.with_stale_groups)
        for names in sets:
            names.discard(workload)


def _is_stopping(pods: Iterable[PodRecord]) -> bool:
    return any(pod.phase is PodPhase.RELEASING for pod in pods)


class EntryDraft:
    """What a cycle wants to record, on top of the cache."""

    def __init__(self, cache: LedgerCache, now: Instant, observation: Observation) -> None:
        self.cache, self.now, self.observation = cache, now, observation
        self.specs: dict[WorkloadId, WorkloadSpec] = {}
        self.undesired: set[WorkloadId] = set()
        self.dropped: set[WorkloadId] = set()
        self.states: dict[WorkloadId, WorkloadState] = {}
        self.pods: dict[WorkloadId, tuple[PodRecord, ...]] = {}
        self.forgotten: set[PodId] = set()
        self.new_organization: Organization | None = None
        self.cursor: Revision | None = None
        self.events: list[Event] = []
        self.decisions: dict[tuple[WorkloadId, EventKind], DecisionRecord] = {}
        """By the event that carries each."""
        self.orders: list[Order] = []
        self.pooled_nodes = cache.pooled_nodes
        self.parts: dict[WorkloadId, SnapshotPart] = {}
        self.wakes: dict[WorkloadId, Instant | None] = {}
        self.reports: dict[WorkloadId, WorkloadReport] = {}
        self.verdicts = cache.verdicts
        self.plans: dict[PoolName, Plan] = {}
        self.prepared: dict[PoolName, Prepared] = {}
        self.awaiting_engine = cache.awaiting_engine
        self.to_order_again = cache.to_order_again
        self.orphans = set(cache.orphans)
        self.running_orphans: frozenset[PodId] = frozenset()
        self.orphan_parts: list[SnapshotPart] = []
        """Orphans that hold devices, for the scheduler."""
        self.gone: dict[WorkloadId, int] = {}
        self.reconciled: set[WorkloadId] = set()
        self.quiet_until: Instant | None = cache.quiet_until
        self.pools_tried = dict(cache.pools_tried)
        self.must_plan = False
        self.stale_messages = dict(cache.stale_messages)
        self.messages_at = cache.messages_at

    def spec(self, workload: WorkloadId) -> WorkloadSpec | None:
        if workload in self.undesired:
            return None
        return self.specs.get(workload) or self.cache.specs.get(workload)

    def state(self, workload: WorkloadId) -> WorkloadState:
        known = self.states.get(workload) or self.cache.states.get(workload)
        return known or WorkloadState(workload=workload)

    def waiting_for(self, workloads: set[WorkloadId]) -> set[WorkloadId]:
        """Workloads that have an unmet dependency on one of these."""
        named = {each for workload in workloads for each in self.cache.dependents.get(workload, ())}
        named |= {spec.id for spec in self.specs.values() if any(each.workload in workloads for each in spec.after)}
        found = set()
        for each in named:
            spec, state = self.spec(each), self.state(each)
            if spec is not None and state.halt is None and unmet_dependencies(spec, state):
                found.add(each)
        return found

    def with_several_pools(self) -> set[WorkloadId]:
        """Workloads that may run in one pool or another."""
        return self.cache.with_several_pools | {spec.id for spec in self.specs.values() if len(spec.pools) > 1}

    def pods_of(self, workload: WorkloadId) -> tuple[PodRecord, ...]:
        return self.pods[workload] if workload in self.pods else self.cache.pods.get(workload, ())

    def workload_of(self, pod: PodId) -> WorkloadId | None:
        return self.cache.workload_of.get(pod)

    @property
    def organization(self) -> Organization:
        """The organization as of this draft."""
        return self.new_organization if self.new_organization is not None else self.cache.organization

    @property
    def pools(self) -> frozenset[PoolName]:
        """The names of all node pools."""
        return frozenset(pool.name for pool in self.organization.pools)

    def put_pods(self, workload: WorkloadId, pods: tuple[PodRecord, ...]) -> None:
        before = self.pods_of(workload)
        if len(before) != len(pods) or any(new is not old for new, old in zip(pods, before, strict=True)):
            self.pods[workload] = pods

    def put_state(self, state: WorkloadState) -> None:
        if state != self.cache.states.get(state.workload):
            self.states[state.workload] = state

    def put_part(self, workload: WorkloadId, part: SnapshotPart) -> None:
        if part != self.cache.parts.get(workload, SnapshotPart()):
            self.must_plan = True
            self.parts[workload] = part
        else:
            self.parts.pop(workload, None)

    def all_parts(self) -> Iterable[SnapshotPart]:
        merged = {**self.cache.parts, **self.parts}
        return merged.values()

    def changed_pods(self) -> Iterator[PodRecord]:
        """Pods that differ from the cache."""
        for workload, pods in self.pods.items():
            known = {pod.id: pod for pod in self.cache.pods.get(workload, ())}
            for pod in pods:
                if known.get(pod.id) is not pod:
                    yield pod

    def entry(self) -> LedgerEntry:
        """The entry to record."""
        changed = tuple(self.changed_pods())
        return LedgerEntry(
            specs=tuple(self.specs.values()),
            undesired=tuple(sorted(self.undesired)),
            dropped=tuple(sorted(self.dropped)),
            pods=changed,
            forgotten=tuple(sorted(self.forgotten)),
            states=tuple(self.states.values()),
            events=(*self.events, *self._pod_events(changed)),
            organization=self.new_organization,
            cursor=self.cursor,
        )

    def _pod_events(self, changed: Iterable[PodRecord]) -> Iterator[Event]:
        known = {pod.id: pod for workload in self.pods for pod in self.cache.pods.get(workload, ())}
        decisions = dict(self.decisions)

        def decided(event: Event) -> Event:
            decision = decisions.pop((event.workload, event.kind), None)
            return event if decision is None else replace(event, decision=decision)

        adopted = {event.pod for event in self.events if event.kind is EventKind.ADOPTED}
        for pod in changed:
            was = known.get(pod.id)
            before = was.phase if was is not None else PodPhase.BOUND if pod.id in adopted else None
            hurried = was is not None and pod.phase is PodPhase.RELEASING and pod.grace_s < was.grace_s
            if before is not pod.phase or hurried:
                yield from map(decided, pod_events(pod, before, self.now, self._usage(pod)))

    def _usage(self, pod: PodRecord) -> PodUsage | None:
        spec = self.spec(pod.workload)
        if pod.usage is not None or spec is None:
            return pod.usage
        pool = current_pool(spec, self.state(pod.workload), self.pools)
        return usage_asked(pod, spec.project, pool, self.pooled_nodes.nodes.get(pool, ()))
