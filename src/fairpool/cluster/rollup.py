"""Where a workload stands, for people: phase, reason and words, from its pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fairpool.api.clusters import PodReport, WorkloadReport
from fairpool.cluster.dependencies import unmet, waiting_words
from fairpool.cluster.expand import LONGEST_BACK_OFF_S, REFUSALS_MAX, is_rigid, wanted_slots
from fairpool.cluster.grace_period import to_stop
from fairpool.cluster.settle import IMAGE_TROUBLES
from fairpool.cluster.survey import pool_of
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PoolName, is_ahead
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.observation import ObservedNode
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.spec import Arrangement, DesiredState, WorkloadSpec
from fairpool.model.status import Reason, WaitReason, WorkloadPhase
from fairpool.scheduler.decision import Verdict
from fairpool.scheduler.explain import explain, names_for


@dataclass(frozen=True, slots=True)
class Status:
    """Phase, the reason beside it, and the reason in words."""

    phase: WorkloadPhase
    reason: Reason = None
    detail: str = ""
    next_try_at: Instant | None = None


def rollup(
    spec: WorkloadSpec,
    standing: WorkloadState,
    lives: Sequence[PodRecord],
    *,
    verdicts: Mapping[GroupId, Verdict],
    nodes: Mapping[NodeName, ObservedNode],
    pools: Collection[PoolName] = (DEFAULT_POOL,),
    now: Instant,
) -> WorkloadReport:
    """The level of one workload."""
    slots = wanted_slots(spec, lives)
    shown = [life for life in lives if not life.is_over or slots.get(life.index) is life]
    shown.sort(key=lambda life: (life.index, life.incarnation))  # told alike, in whatever order they came
    status = status_of(spec, standing, shown, verdicts=verdicts, nodes=nodes, now=now)
    pool = pool_of(spec, standing, pools)
    if status.reason is WaitReason.QUEUED and pool not in pools:
        status = Status(
            status.phase,
            status.reason,
            f"node pool {pool} does not exist: create it, or choose another with --node-pools",
        )
    waiting = [life for life in shown if life.phase in (PodPhase.WAITING, PodPhase.PROMISED)]
    return WorkloadReport(
        id=spec.id,
        run=spec.run,
        phase=status.phase,
        reason=status.reason,
        detail=status.detail,
        pool=pool,
        gpus_milli=sum(gpus_held_milli(life, nodes) for life in shown),
        cpu_milli=sum(life.shape.cpu_milli for life in shown if life.is_placed),
        memory_bytes=sum(life.shape.memory_bytes for life in shown if life.is_placed),
        pods=tuple(PodReport.from_life(life, gpus_held_milli(life, nodes)) for life in shown),
        since=_since(spec, standing, shown),
        failures=standing.failures,
        next_try_at=status.next_try_at,
        waiting_since=min(
            (spec.created_at if life.incarnation == 0 else life.born_at for life in waiting), default=None
        ),
    )


def status_of(
    spec: WorkloadSpec,
    standing: WorkloadState,
    lives: Sequence[PodRecord],
    *,
    verdicts: Mapping[GroupId, Verdict],
    nodes: Mapping[NodeName, ObservedNode],
    now: Instant,
) -> Status:
    """The phase of a workload, from what is wanted of it and how its pods are. The first that holds counts."""
    placed = [life for life in lives if life.is_placed]
    if spec.want is DesiredState.DELETE:
        return Status(WorkloadPhase.DELETING, Cause.DELETED, _time_left(placed))
    if standing.halt is not None or spec.want is DesiredState.STOP:
        halt = standing.halt or Halt(WorkloadPhase.STOPPED, Cause.SUSPENDED, now)
        if placed:
            words = (halt.detail or f"stopping: {halt.cause.value}", _time_left(placed))
            return Status(WorkloadPhase.RUNNING, WaitReason.STOPPING, "; ".join(filter(None, words)))
        return Status(halt.phase, halt.cause, halt.detail)
    running = [life for life in lives if life.phase is PodPhase.RUNNING]
    done = sum(life.outcome is Outcome.OK for life in lives)
    if running and len(running) + done >= spec.needed:
        return _going(spec, running, nodes)
    if any(life.phase in (PodPhase.BOUND, PodPhase.RUNNING) for life in placed):
        return _starting(placed)
    awaited = unmet(spec, standing)
    if awaited:
        return Status(WorkloadPhase.PENDING, WaitReason.DEPENDENCY, waiting_words(awaited))
    return _pending(spec, standing, lives, verdicts, now)


def _time_left(leaving: Sequence[PodRecord]) -> str:
    """How long the slowest of those that were told to stop has, from its notice on."""
    graces = [life.grace_s for life in leaving if life.phase is PodPhase.RELEASING]
    return to_stop(max(graces)) if graces else ""


def _going(spec: WorkloadSpec, running: Sequence[PodRecord], nodes: Mapping[NodeName, ObservedNode]) -> Status:
    for life in running:
        observed = nodes.get(life.node) if life.node is not None else None
        if observed is not None and observed.silent_since is not None:
            return Status(WorkloadPhase.DEGRADED, WaitReason.NODE_SILENT, f"node {life.node} does not respond")
    if spec.arrangement is Arrangement.REPLICAS and len(running) < spec.pods:
        return Status(WorkloadPhase.DEGRADED, WaitReason.SHORT, f"{len(running)} of {spec.pods} replicas running")
    if spec.is_elastic and len(running) < spec.pods:
        return Status(WorkloadPhase.RUNNING, None, f"{len(running)} of up to {spec.pods} pods running")
    return Status(WorkloadPhase.RUNNING)


def _starting(placed: Sequence[PodRecord]) -> Status:
    for life in placed:
        if life.trouble:
            image = life.trouble.startswith(IMAGE_TROUBLES)
            return Status(WorkloadPhase.INITIALIZING, WaitReason.IMAGE if image else WaitReason.STARTING, life.trouble)
    return Status(WorkloadPhase.INITIALIZING, WaitReason.STARTING)


def _pending(
    spec: WorkloadSpec,
    standing: WorkloadState,
    lives: Sequence[PodRecord],
    verdicts: Mapping[GroupId, Verdict],
    now: Instant,
) -> Status:
    leaving = [life for life in lives if life.phase is PodPhase.RELEASING]
    if leaving:
        first = min(leaving, key=lambda life: life.cause is Cause.PEER)  # the one for which the others have to leave
        if first.cause is Cause.IMAGE:
            return Status(WorkloadPhase.PENDING, WaitReason.IMAGE, first.detail)
        return Status(WorkloadPhase.PENDING, WaitReason.EVICTED, f"{first.detail}; {_time_left(leaving)}")
    waiting = [life for life in lives if not life.is_over]
    held_back = [life for life in waiting if is_ahead(life.not_before, now, LONGEST_BACK_OFF_S)]
    if held_back and (is_rigid(spec) or len(held_back) == len(waiting)):
        return _backing_off(spec, standing, held_back)
    said = [verdicts[life.group] for life in waiting if life.group in verdicts]
    words = explain(said[0], called=names_for(spec.project)) if said else "has not been considered by the scheduler yet"
    return Status(WorkloadPhase.PENDING, WaitReason.QUEUED, words)


def _backing_off(spec: WorkloadSpec, standing: WorkloadState, held_back: Sequence[PodRecord]) -> Status:
    """Failed, and waits before it is tried again: which try is next, of how many. When that is, is data."""
    at = [life.not_before for life in held_back]
    next_try_at = max(at) if is_rigid(spec) else min(at)
    words = standing.failure or "ended"
    of_image = standing.refusals > 0 and any(trouble in words for trouble in IMAGE_TROUBLES)
    detail = f"{words}; waiting for {_next_try(spec, standing)}; it holds no GPU until then"
    return Status(WorkloadPhase.PENDING, WaitReason.IMAGE if of_image else WaitReason.BACK_OFF, detail, next_try_at)


def _next_try(spec: WorkloadSpec, standing: WorkloadState) -> str:
    if standing.refusals:
        return f"try {standing.refusals + 1} of {REFUSALS_MAX + 1}"
    if not standing.failures:
        return "a restart"
    retries = spec.restart_rule.retries
    of = "" if retries is None else f" of {retries}"
    if spec.arrangement is not Arrangement.TOGETHER:
        return f"retry {standing.failures}{of}"  # of all its pods together
    return f"try {standing.failures + 1}" + ("" if retries is None else f" of {retries + 1}")


def _since(spec: WorkloadSpec, standing: WorkloadState, lives: Sequence[PodRecord]) -> Instant:
    """When it came into its phase, from what is written: the same after a restart of the loop."""
    if standing.halt is not None and not any(life.is_placed for life in lives):
        return standing.halt.at
    running = [life.since for life in lives if life.phase is PodPhase.RUNNING]
    if running:
        return min(running)
    return max((life.since for life in lives), default=spec.created_at)


def gpus_held_milli(life: PodRecord, nodes: Mapping[NodeName, ObservedNode]) -> int:
    """GPUs that a life holds, in thousandths. One that broke under it is held by nobody."""
    if not life.is_placed or life.node is None:
        return 0
    observed = nodes.get(life.node)
    if observed is None:
        return gpus_charged_milli(life.shape.gpu)
    held = gpus_charged_milli(life.shape.gpu, observed.node.gpu_memory_mib)
    gone = sum(device >= observed.node.gpus for device in life.devices)
    return held - held * gone // len(life.devices) if gone else held
