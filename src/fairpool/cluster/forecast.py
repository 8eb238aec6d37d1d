"""Forecast: whether a workload would start now, where, and which others would lose pods for it. Pure.

The workload is put into the latest snapshot of its pool, as the loop would put it there, and the pool is planned. A
workload that exists already is taken out first, so that a change of it can be tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fairpool.cluster.expand import ExpandInput, expand
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.snapshot_builder import SnapshotPart, snapshot_part, with_topologies
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import Instant, NodeName, PoolName, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.problem import Problem
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.scheduler.decision import Plan, Verdict
from fairpool.scheduler.explain import explain, names_for
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot

SpecOf = Callable[[WorkloadId], WorkloadSpec | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the scheduler would do with a workload."""

    pool: PoolName
    pods: int
    starting: Counter[NodeName] = field(default_factory=Counter)
    """Pods by node."""
    promised: Counter[NodeName] = field(default_factory=Counter)
    """Pods that start when others have left their place."""
    victims: Counter[WorkloadId] = field(default_factory=Counter)
    """Pods that would be stopped or moved, by workload."""
    verdict: Verdict | None = None
    snapshot: Snapshot = field(repr=False)
    """The pool with the workload in it, and what was planned for it."""
    plan: Plan = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether every pod has a place, now or later."""
        return self.starting.total() + self.promised.total() >= self.pods


def would_start(spec: WorkloadSpec, snapshots: Mapping[PoolName, Snapshot], now: Instant) -> Forecast | Problem:
    """In the first of its pools where it starts, or else in the first one."""
    named = [pool for pool in spec.pools or (DEFAULT_POOL,) if pool in snapshots]
    if not named:
        wanted = ", ".join(spec.pools or (DEFAULT_POOL,))
        return Problem("pool.unknown", f"the cluster has no nodes or work in pool {wanted}", "name another pool")
    forecasts = [_in_pool(spec, snapshots[pool], pool, now) for pool in named]
    return next((each for each in forecasts if each.starting or each.promised), forecasts[0])


def _in_pool(spec: WorkloadSpec, snapshot: Snapshot, pool: PoolName, now: Instant) -> Forecast:
    part = _part(spec, pool, now)
    left = _without(snapshot, spec.id)
    tried = replace(
        left,
        now=max(now, snapshot.now),
        groups=(*left.groups, *part.groups),
        pods=(*left.pods, *part.pods),
        topologies=with_topologies(left.topologies, [part]),
    )
    return _found(part, pool, tried, plan(tried))


def _part(spec: WorkloadSpec, pool: PoolName, now: Instant) -> SnapshotPart:
    """The pods that the loop would create."""
    wanted = replace(spec, desired_state=DesiredState.RUN, after=())
    state = WorkloadState(workload=spec.id, run=spec.run, pool=pool)
    expansion = expand(ExpandInput(spec=wanted, state=state, pods=()), now)
    return snapshot_part(wanted, expansion.state, expansion.pods, now, pools=(pool,))


def _without(snapshot: Snapshot, workload: WorkloadId) -> Snapshot:
    """Without the workload itself: what it holds would be free for its changed form."""
    return replace(
        snapshot,
        groups=tuple(each for each in snapshot.groups if workload_of(each.id) != workload),
        pods=tuple(each for each in snapshot.pods if workload_of(each.group) != workload),
    )


def _found(part: SnapshotPart, pool: PoolName, tried: Snapshot, planned: Plan) -> Forecast:
    mine = {group.id for group in part.groups}
    victims = [each for each in planned.evictions if each.reason.winner in mine]
    verdicts = [planned.verdicts[group] for group in sorted(mine) if group in planned.verdicts]
    return Forecast(
        pool=pool,
        pods=sum(pod.phase is PodPhase.WAITING for pod in part.pods),
        starting=Counter(each.node for each in planned.binds if each.group in mine),
        promised=Counter(each.node for each in planned.promises if each.group in mine),
        victims=Counter(workload_of(each.group) for each in victims),
        verdict=verdicts[0] if verdicts else None,
        snapshot=tried,
        plan=planned,
    )


def sentence(forecast: Forecast, spec: WorkloadSpec) -> str:
    """The forecast in words, for members of the workload's project."""
    parts = []
    if forecast.starting:
        parts.append(f"starts now on {_places(forecast.starting)}")
    if forecast.promised:
        taken = forecast.victims.total()
        after = f" when {taken} {'pod' if taken == 1 else 'pods'} of other jobs have stopped" if taken else ""
        parts.append(f"starts on {_places(forecast.promised)}{after}")
    if forecast.verdict is not None and not forecast.is_whole:
        why = explain(forecast.verdict, called=names_for(spec.project))
        parts.append(why if why.startswith(("waits", "runs with", "cannot")) else f"waits: {why}")
    if spec.after:
        parts.append("once the jobs that it follows have ended")
    return "; ".join(parts) or "has no pods to start"


def _places(nodes: Counter[NodeName]) -> str:
    named = [name if pods == 1 else f"{name} ({pods} pods)" for name, pods in sorted(nodes.items())]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more nodes" if len(named) > 3 else "")
