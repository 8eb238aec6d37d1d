"""Status of a workload, from its pods: phase, reason and message."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fairpool.api.clusters import PodReport, WorkloadReport
from fairpool.cluster.dependencies import unmet_dependencies, waiting_text
from fairpool.cluster.failures import REFUSALS_MAX
from fairpool.cluster.gates import is_backing_off
from fairpool.cluster.grace_period import grace_text
from fairpool.cluster.pod_slots import counted_pods
from fairpool.cluster.settle import IMAGE_ERRORS
from fairpool.cluster.snapshot_builder import current_pool
from fairpool.cluster.wait_report import wait_report
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PoolName
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
    """Phase, reason and message of a workload."""

    phase: WorkloadPhase
    reason: Reason = None
    detail: str = ""
    next_try_at: Instant | None = None
    verdict: Verdict | None = None


def rollup(
    spec: WorkloadSpec,
    state: WorkloadState,
    pods: Sequence[PodRecord],
    *,
    verdicts: Mapping[GroupId, Verdict],
    nodes: Mapping[NodeName, ObservedNode],
    pools: Collection[PoolName] = (DEFAULT_POOL,),
    now: Instant,
) -> WorkloadReport:
    """The report of one workload."""
    slots = counted_pods(spec, pods)
    shown = [pod for pod in pods if not pod.is_over or slots.get(pod.index) is pod]
    shown.sort(key=lambda pod: (pod.index, pod.incarnation))  # the same report, in whatever order they were created
    status = workload_status(spec, state, shown, verdicts=verdicts, nodes=nodes, now=now)
    pool = current_pool(spec, state, pools)
    if status.reason is WaitReason.QUEUED and pool not in pools:
        status = Status(
            status.phase,
            status.reason,
            f"node pool {pool} does not exist: create it, or choose another with --node-pools",
        )
    waiting = [pod for pod in shown if pod.phase in (PodPhase.WAITING, PodPhase.PROMISED)]
    return WorkloadReport(
        id=spec.id,
        run=spec.run,
        phase=status.phase,
        reason=status.reason,
        detail=status.detail,
        pool=pool,
        gpus_milli=sum(gpus_held_milli(pod, nodes) for pod in shown),
        cpu_milli=sum(pod.shape.cpu_milli for pod in shown if pod.is_placed),
        memory_bytes=sum(pod.shape.memory_bytes for pod in shown if pod.is_placed),
        pods=tuple(PodReport.from_record(pod, gpus_held_milli(pod, nodes)) for pod in shown),
        since=_since(spec, state, shown),
        failures=state.failures,
        next_try_at=status.next_try_at,
        waiting_since=min(
            (spec.created_at if pod.incarnation == 0 else pod.created_at for pod in waiting), default=None
        ),
        wait=None if status.verdict is None else wait_report(status.verdict, spec.project),
    )


def workload_status(
    spec: WorkloadSpec,
    state: WorkloadState,
    pods: Sequence[PodRecord],
    *,
    verdicts: Mapping[GroupId, Verdict],
    nodes: Mapping[NodeName, ObservedNode],
    now: Instant,
) -> Status:
    """The phase of a workload, from its declaration and its pods. The first match counts."""
    placed = [pod for pod in pods if pod.is_placed]
    if spec.desired_state is DesiredState.DELETE:
        return Status(WorkloadPhase.DELETING, Cause.DELETED, _grace_left(placed))
    if state.halt is not None or spec.desired_state is DesiredState.STOP:
        halt = state.halt or Halt(WorkloadPhase.STOPPED, Cause.SUSPENDED, now)
        if placed and all(pod.phase is PodPhase.RUNNING for pod in placed) and spec.desired_state is DesiredState.RUN:
            return Status(WorkloadPhase.RUNNING, None, _kept_text(halt, len(placed)))
        if placed:
            words = (halt.detail or f"stopping: {halt.cause.value}", _grace_left(placed))
            return Status(WorkloadPhase.RUNNING, WaitReason.STOPPING, "; ".join(filter(None, words)))
        return Status(halt.phase, halt.cause, halt.detail)
    running = [pod for pod in pods if pod.phase is PodPhase.RUNNING]
    done = sum(pod.outcome is Outcome.OK for pod in pods)
    if running and len(running) + done >= spec.needed:
        return _running(spec, running, nodes)
    if any(pod.phase in (PodPhase.BOUND, PodPhase.RUNNING) for pod in placed):
        return _starting(placed)
    awaited = unmet_dependencies(spec, state)
    if awaited:
        return Status(WorkloadPhase.PENDING, WaitReason.DEPENDENCY, waiting_text(awaited))
    return _pending(spec, state, pods, verdicts, now)


def _kept_text(halt: Halt, running: int) -> str:
    """Of a workload whose clean-pod policy keeps its pods."""
    pods = "1 pod keeps" if running == 1 else f"{running} pods keep"
    return f"{halt.phase.value.lower()}; {pods} running (clean-pod policy None)"


def _grace_left(leaving: Sequence[PodRecord]) -> str:
    """The longest grace period of the stopping pods."""
    graces = [pod.grace_s for pod in leaving if pod.phase is PodPhase.RELEASING]
    return grace_text(max(graces)) if graces else ""


def _running(spec: WorkloadSpec, running: Sequence[PodRecord], nodes: Mapping[NodeName, ObservedNode]) -> Status:
    for pod in running:
        observed = nodes.get(pod.node) if pod.node is not None else None
        if observed is not None and observed.silent_since is not None:
            return Status(WorkloadPhase.DEGRADED, WaitReason.NODE_SILENT, f"node {pod.node} does not respond")
    if spec.arrangement is Arrangement.REPLICAS and len(running) < spec.pods:
        return Status(WorkloadPhase.DEGRADED, WaitReason.SHORT, f"{len(running)} of {spec.pods} replicas running")
    if spec.is_elastic and len(running) < spec.pods:
        return Status(WorkloadPhase.RUNNING, None, f"{len(running)} of up to {spec.pods} pods running")
    return Status(WorkloadPhase.RUNNING)


def _starting(placed: Sequence[PodRecord]) -> Status:
    for pod in placed:
        if pod.start_failure:
            image = pod.start_failure.startswith(IMAGE_ERRORS)
            return Status(
                WorkloadPhase.INITIALIZING, WaitReason.IMAGE if image else WaitReason.STARTING, pod.start_failure
            )
    return Status(WorkloadPhase.INITIALIZING, WaitReason.STARTING)


def _pending(
    spec: WorkloadSpec,
    state: WorkloadState,
    pods: Sequence[PodRecord],
    verdicts: Mapping[GroupId, Verdict],
    now: Instant,
) -> Status:
    leaving = [pod for pod in pods if pod.phase is PodPhase.RELEASING]
    if leaving:
        first = min(leaving, key=lambda pod: pod.cause is Cause.PEER)  # the pod that broke the gang, before its peers
        if first.cause is Cause.IMAGE:
            return Status(WorkloadPhase.PENDING, WaitReason.IMAGE, first.detail)
        if first.cause is Cause.REFUSED:
            return Status(WorkloadPhase.PENDING, WaitReason.BACK_OFF, first.detail)
        return Status(WorkloadPhase.PENDING, WaitReason.EVICTED, f"{first.detail}; {_grace_left(leaving)}")
    waiting = [pod for pod in pods if not pod.is_over]
    next_try_at = _next_try_at(spec, pods, now)
    if next_try_at is not None:
        return _backing_off(spec, state, next_try_at)
    known = [verdicts[pod.group] for pod in waiting if pod.group in verdicts]
    words = (
        explain(known[0], called=names_for(spec.project)) if known else "has not been considered by the scheduler yet"
    )
    return Status(WorkloadPhase.PENDING, WaitReason.QUEUED, words, verdict=known[0] if known else None)


def _next_try_at(spec: WorkloadSpec, pods: Sequence[PodRecord], now: Instant) -> Instant | None:
    """When as many pods as it needs may be placed again; None: enough of them may be placed now."""
    waiting = [pod for pod in pods if not pod.is_over]
    held_back = [pod for pod in waiting if is_backing_off(pod, now)]
    done = sum(pod.outcome is Outcome.OK for pod in pods) if spec.arrangement is Arrangement.TOGETHER else 0
    missing = min(max(spec.needed - done, 1) - (len(waiting) - len(held_back)), len(held_back))
    moments = sorted(pod.not_before for pod in held_back)[:missing] if missing > 0 else []
    if spec.leader is not None:
        moments += [pod.not_before for pod in held_back if pod.index == 0]
    return max(moments, default=None)


def _backing_off(spec: WorkloadSpec, state: WorkloadState, next_try_at: Instant) -> Status:
    """Failed, and waits for a retry: which try is next, of how many. The time is in `next_try_at`."""
    words = state.failure or "ended"
    of_image = state.refusals > 0 and any(error in words for error in IMAGE_ERRORS)
    detail = f"{words}; waiting for {_next_try(spec, state)}; it holds no GPU until then"
    return Status(WorkloadPhase.PENDING, WaitReason.IMAGE if of_image else WaitReason.BACK_OFF, detail, next_try_at)


def _next_try(spec: WorkloadSpec, state: WorkloadState) -> str:
    if state.refusals:
        return f"try {state.refusals + 1} of {REFUSALS_MAX + 1}"
    if not state.failures:
        return "a restart"
    retries = spec.restart_rule.retries
    of = "" if retries is None else f" of {retries}"
    if spec.arrangement is not Arrangement.TOGETHER:
        return f"retry {state.failures}{of}"  # of all its pods together
    return f"try {state.failures + 1}" + ("" if retries is None else f" of {retries + 1}")


def _since(spec: WorkloadSpec, state: WorkloadState, pods: Sequence[PodRecord]) -> Instant:
    """When it entered its phase, from the ledger: the same after a restart of the loop."""
    if state.halt is not None and not any(pod.is_placed for pod in pods):
        return state.halt.at
    running = [pod.since for pod in pods if pod.phase is PodPhase.RUNNING]
    if running:
        return min(running)
    return max((pod.since for pod in pods), default=spec.created_at)


def gpus_held_milli(pod: PodRecord, nodes: Mapping[NodeName, ObservedNode]) -> int:
    """GPUs that a pod holds, in thousandths, without those that its node no longer has."""
    if not pod.is_placed or pod.node is None:
        return 0
    observed = nodes.get(pod.node)
    if observed is None:
        return gpus_charged_milli(pod.shape.gpu)
    held = gpus_charged_milli(pod.shape.gpu, observed.node.gpu_memory_mib)
    gone = sum(device >= observed.node.gpus for device in pod.devices)
    return held - held * gone // len(pod.devices) if gone else held
