"""When a workload has ended, and why: completed, failed, or stopped until a user resumes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairpool.cluster.dependencies import OutcomeOf, failed_dependency
from fairpool.cluster.failures import REFUSALS_MAX, UNSTARTED, failed_pods, failure_text
from fairpool.cluster.idle_time import idle_limit_s, limit_words
from fairpool.cluster.pod_slots import counted_pods
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.quantity import length_text
from fairpool.model.spec import Arrangement, CleanPodPolicy, DesiredState, RestartPolicy, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import WorkloadKind

BY_ITSELF = frozenset({Cause.FINISHED, Cause.EXITED, Cause.RETRIES})
"""Ends of a workload through its program, not through limits."""
PREEMPTIONS = frozenset({Cause.PREEMPTED, Cause.STALE, Cause.MOVED})

UNPLACED = (PodPhase.WAITING, PodPhase.PROMISED)


def end_of_workload(
    spec: WorkloadSpec,
    state: WorkloadState,
    pods: Sequence[PodRecord],
    *,
    ended: Sequence[PodRecord],
    rules: ProjectRules,
    outcomes: OutcomeOf,
    idle_ms: int = 0,
    now: Instant,
) -> Halt | None:
    """How a workload that is meant to run has ended; None while it continues. `ended`: pods that have just ended."""
    failure = failed_dependency(spec, state, outcomes, now)
    if failure is not None:
        return failure
    if _is_complete(spec, state, counted_pods(spec, pods)):
        return Halt(WorkloadPhase.COMPLETED, Cause.FINISHED, now)
    return (
        _too_many_failures(spec, state, ended, now)
        or _interactive_pod_lost(spec, state, ended, now)
        or _time_limit_reached(spec, state, rules, now)
        or _idle_limit_reached(spec, rules, idle_ms, now)
    )


def _is_complete(spec: WorkloadSpec, state: WorkloadState, counted: dict[int, PodRecord]) -> bool:
    done = sum(pod.outcome is Outcome.OK for pod in counted.values())
    match spec.arrangement:
        case Arrangement.REPLICAS:
            return False
        case Arrangement.SWEEP:
            return done >= spec.runs_needed
    if spec.restart_rule.restart is RestartPolicy.ALWAYS:
        return False
    if spec.leader is not None:
        return 0 in counted and counted[0].outcome is Outcome.OK
    unfinished = any(pod.outcome is not Outcome.OK and _has_run(pod, state) for pod in counted.values())
    return done >= spec.needed and not unfinished


def _has_run(pod: PodRecord, state: WorkloadState) -> bool:
    """Whether this pod or one it replaces may have run. The first pod of an index that was never placed has not: the
    workload can be complete without it."""
    return pod.phase not in UNPLACED or pod.incarnation > state.first_incarnation


def _too_many_failures(
    spec: WorkloadSpec, state: WorkloadState, ended: Sequence[PodRecord], now: Instant
) -> Halt | None:
    failed = failed_pods(state, ended)
    if state.refusals > REFUSALS_MAX and failed:
        cause = Cause.IMAGE if failed[-1].cause is Cause.IMAGE else Cause.REFUSED
        return Halt(WorkloadPhase.FAILED, cause, now, f"{failed[-1].detail}; gave up after {state.refusals} tries")
    failed = [pod for pod in failed if pod.cause not in UNSTARTED]
    if not failed:
        return None
    rule = spec.restart_rule
    last = failure_text(spec, state, failed[-1])
    if rule.restart is RestartPolicy.NEVER or rule.retries == 0:
        return Halt(WorkloadPhase.FAILED, Cause.EXITED, now, last)
    if rule.retries is not None and state.failures > rule.retries:
        return Halt(WorkloadPhase.FAILED, Cause.RETRIES, now, f"{last}; no retries left ({rule.retries} allowed)")
    return None


def _interactive_pod_lost(
    spec: WorkloadSpec, state: WorkloadState, ended: Sequence[PodRecord], now: Instant
) -> Halt | None:
    """Interactive jobs are not restarted by themselves after an eviction or a loss: their user resumes them."""
    if spec.kind is not WorkloadKind.BUILD:
        return None
    for pod in ended:
        lost = pod.outcome in (Outcome.LOST, Outcome.EVICTED) and pod.cause is not Cause.PEER
        if lost and pod.run == state.run:
            cause = pod.cause if pod.cause is not None else Cause.NODE_LOST
            cause = Cause.PREEMPTED if cause in PREEMPTIONS else cause
            return Halt(WorkloadPhase.STOPPED, cause, now, _why_suspended(pod))
    return None


def _why_suspended(pod: PodRecord) -> str:
    """It is shown until the workload is resumed, when the drain may be over."""
    if pod.cause is not Cause.NODE_DRAINED:
        return pod.detail
    return f"suspended when {pod.node or 'its node'} was drained; resume it to start again"


def _time_limit_reached(spec: WorkloadSpec, state: WorkloadState, rules: ProjectRules, now: Instant) -> Halt | None:
    return next((replace(halt, at=now) for halt in time_limits(spec, state, rules) if halt.at <= now), None)


def _idle_limit_reached(spec: WorkloadSpec, rules: ProjectRules, idle_ms: int, now: Instant) -> Halt | None:
    limit = idle_limit_s(spec, rules)
    if limit is None or idle_ms < limit * SECOND_MS:
        return None
    return Halt(WorkloadPhase.STOPPED, Cause.IDLE_LIMIT, now, limit_words(spec, limit))


def time_limits(spec: WorkloadSpec, state: WorkloadState, rules: ProjectRules) -> Iterator[Halt]:
    """The ends that time alone will bring to a workload that has run in this run: the project's limit, its deadline."""
    since = state.active_since
    if since is None:
        return
    limits = {
        WorkloadKind.BUILD: ("interactive jobs", rules.interactive_limit_s),
        WorkloadKind.TRAIN: ("training jobs", rules.training_limit_s),
    }
    noun, limit_s = limits.get(spec.kind, ("", None))
    if limit_s is not None:
        words = f"reached the time limit of {length_text(limit_s)} for {noun} in project {spec.project}"
        yield Halt(WorkloadPhase.STOPPED, Cause.TIME_LIMIT, Instant(since + limit_s * SECOND_MS), words)
    if spec.deadline_s is not None:
        words = f"reached its time limit of {length_text(spec.deadline_s)}"
        yield Halt(WorkloadPhase.FAILED, Cause.DEADLINE, Instant(since + spec.deadline_s * SECOND_MS), words)


def limit_s(spec: WorkloadSpec, rules: ProjectRules) -> int | None:
    """How long a workload may run in one run; None: for as long as it takes."""
    of_project = {
        WorkloadKind.BUILD: rules.interactive_limit_s,
        WorkloadKind.TRAIN: rules.training_limit_s,
    }.get(spec.kind)
    return min((each for each in (of_project, spec.deadline_s) if each is not None), default=None)


def keeps_running_pods(spec: WorkloadSpec, state: WorkloadState, rules: ProjectRules, now: Instant) -> bool:
    """Whether the pods of a workload that has ended by itself keep running, as its clean-pod policy asks; not beyond
    its time limits or its time to live, and not if a user suspends it."""
    halt, run = state.halt, spec.distributed
    if halt is None or run is None or run.clean_pods is not CleanPodPolicy.NONE:
        return False
    if halt.cause not in BY_ITSELF or spec.desired_state is not DesiredState.RUN:
        return False
    expiry = expires_at(spec, state)
    limits = [*(each.at for each in time_limits(spec, state, rules)), *([expiry] if expiry is not None else ())]
    return all(at > now for at in limits)


def removes_output(spec: WorkloadSpec, state: WorkloadState) -> bool:
    """Whether the output of its pods is removed, because it has ended and its clean-pod policy asks for that."""
    run, halt = spec.distributed, state.halt
    return run is not None and run.clean_pods is CleanPodPolicy.ALL and halt is not None and halt.cause in BY_ITSELF


def expires_at(spec: WorkloadSpec, state: WorkloadState) -> Instant | None:
    """When a finished workload is removed, if it has a time to live."""
    finished = (WorkloadPhase.COMPLETED, WorkloadPhase.FAILED)
    if spec.ttl_s is None or state.halt is None or state.halt.phase not in finished:
        return None
    return Instant(state.halt.at + spec.ttl_s * SECOND_MS)
