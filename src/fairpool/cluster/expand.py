"""Which pods of a workload should exist: pods to stop and pods to create, with the reasons.

Called for a workload whenever its declaration, one of its pods, one of their nodes or the time may have changed the
answer. The result says when time alone can change it (`wake_at`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fairpool.cluster.dependencies import OutcomeOf, WorkloadOutcome, with_met_dependencies
from fairpool.cluster.failures import back_off_until, pod_label, with_failures
from fairpool.cluster.gates import is_backing_off, is_postponed, may_have_pods, should_run
from fairpool.cluster.pod_slots import counted_pods, is_rigid, latest_pods, new_pod, pod_set_of, stop_peers
from fairpool.cluster.workload_end import UNPLACED, end_of_workload, expires_at, keeps_running_pods, time_limits
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import Instant, NodeName
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import EVICTIONS, LOSSES, Cause, Outcome, PodRecord
from fairpool.model.spec import Arrangement, DesiredState, RestartPolicy, WorkloadSpec
from fairpool.model.workload import WorkloadKind

Drains = Callable[[NodeName], Sequence[Taint]]
"""The taints of a node that evict pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandInput:
    """One workload and all its pods."""

    spec: WorkloadSpec | None
    """None: not declared, or not any more."""
    state: WorkloadState
    pods: tuple[PodRecord, ...]
    """In the order of their creation."""
    ended: tuple[PodRecord, ...] = ()
    """Those of them that ended in this cycle: each is counted once."""
    rules: ProjectRules = ProjectRules()
    drains: Drains = lambda node: ()
    outcomes: OutcomeOf = lambda workload: WorkloadOutcome.GONE
    """Of the workloads it depends on."""
    idle_ms: int = 0
    """For how long it has left its GPUs idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The workload as it should be."""

    state: WorkloadState
    pods: tuple[PodRecord, ...]
    """All of them, the new ones last."""
    wake_at: Instant | None = None
    gone: bool = False
    """No pod is left and none will be created: the declaration may be removed."""


def expand(given: ExpandInput, now: Instant) -> Expansion:
    """Update the state of a workload, then stop and create pods."""
    spec, pods = given.spec, given.pods
    if spec is None:
        stopped = tuple(pod.release(now, Cause.UNWANTED, "its workload no longer exists") for pod in pods)
        return Expansion(state=given.state, pods=stopped)
    pods = _without_timers_of_another_clock(_in_this_run(pods, spec), now)
    pods = tuple(_as_declared(pod, spec, now) for pod in pods)
    state = _updated(given, spec, pods, now)
    pods = _stop_pods(given, spec, state, pods, now)
    if may_have_pods(spec, state):
        pods += _create_pods(spec, state, pods, now)
    return Expansion(
        state=state,
        pods=pods,
        wake_at=_wake_at(spec, state, pods, given.rules, now),
        gone=_is_gone(spec, state, pods, now),
    )


# --- the state of the workload -------------------------------------------------------------------------------------


def _updated(given: ExpandInput, spec: WorkloadSpec, pods: tuple[PodRecord, ...], now: Instant) -> WorkloadState:
    state = given.state
    if spec.run > state.run:  # resumed: it starts without failures
        goes_on = any(pod.phase is PodPhase.RUNNING for pod in pods)  # resumed before its pods were told to stop
        state = replace(
            state,
            run=spec.run,
            failures=0,
            refusals=0,
            failure="",
            retry_at=Instant(0),
            halt=None,
            active_since=state.active_since if goes_on else None,
        )
    state = with_failures(state, spec, given.ended, now)
    state = _activated(state, pods)
    state = with_met_dependencies(spec, state, pods, given.outcomes)
    if not should_run(spec, state):
        return state
    halt = end_of_workload(
        spec,
        state,
        pods,
        ended=given.ended,
        rules=given.rules,
        outcomes=given.outcomes,
        idle_ms=given.idle_ms,
        now=now,
    )
    return replace(state, halt=halt) if halt is not None else state


def _in_this_run(pods: tuple[PodRecord, ...], spec: WorkloadSpec) -> tuple[PodRecord, ...]:
    """Pods that wait belong to the current run, also if the workload was suspended and resumed between two cycles."""
    if all(pod.run == spec.run or pod.phase not in UNPLACED for pod in pods):
        return pods
    return tuple(replace(pod, run=spec.run) if pod.phase in UNPLACED else pod for pod in pods)


def _as_declared(pod: PodRecord, spec: WorkloadSpec, now: Instant) -> PodRecord:
    """A pod with what the declaration says now: its grace period, and until it is placed also what it requests."""
    if pod.is_over or pod.phase is PodPhase.RELEASING:
        return pod
    if pod.grace_s != spec.grace_s:
        pod = replace(pod, grace_s=spec.grace_s)
    shape, pod_set = spec.template_of(pod.index).shape, pod_set_of(spec, pod.index)
    if pod.phase not in UNPLACED or (pod.shape == shape and pod.pod_set == pod_set):
        return pod
    if pod.phase is PodPhase.PROMISED:  # the place was for another request
        words = "reservation dropped: the job was changed"
        pod = pod.move(PodPhase.WAITING, now, node=None, devices=(), promised_at=None, detail=words)
    return replace(pod, shape=shape, pod_set=pod_set)


def _without_timers_of_another_clock(pods: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """A back-off or retry that was set before the clock was set back is over, and does not begin anew later."""
    if all(max(pod.not_before, pod.retry_at) <= now for pod in pods):
        return pods
    return tuple(_without_timers(pod, now) if not pod.is_over else pod for pod in pods)


def _without_timers(pod: PodRecord, now: Instant) -> PodRecord:
    if pod.not_before > now and not is_backing_off(pod, now):
        pod = replace(pod, not_before=Instant(0))
    if pod.retry_at > now and not is_postponed(pod, now):
        pod = replace(pod, retry_at=Instant(0))
    return pod


def _activated(state: WorkloadState, pods: Sequence[PodRecord]) -> WorkloadState:
    """Note when it first ran in this run. Once a pod runs, earlier refusals no longer count."""
    if state.refusals and any(pod.phase is PodPhase.RUNNING for pod in pods):
        state = replace(state, refusals=0)
    if state.active_since is not None:
        return state
    # A pod that still runs although the workload was suspended and resumed between two cycles counts for this run.
    of_this_run = [pod for pod in pods if pod.run == state.run or pod.phase is PodPhase.RUNNING]
    starts = [pod.started_at for pod in of_this_run if pod.started_at is not None]
    return replace(state, active_since=min(starts)) if starts else state


# --- pods to stop --------------------------------------------------------------------------------------------------


def _stop_pods(
    given: ExpandInput, spec: WorkloadSpec, state: WorkloadState, pods: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    if spec.desired_state is DesiredState.DELETE:
        return tuple(pod.release(now, Cause.DELETED) for pod in pods)
    if state.halt is not None:
        halt = state.halt
        kept = (PodPhase.RUNNING,) if keeps_running_pods(spec, state, given.rules, now) else ()
        return tuple(
            _stop_if_drained(pod, given.drains, now) if pod.phase in kept else pod.release(now, halt.cause, halt.detail)
            for pod in pods
        )
    if spec.desired_state is DesiredState.STOP:
        return tuple(pod.release(now, Cause.SUSPENDED) for pod in pods)
    pods = _stop_superfluous(spec, pods, now)
    pods = tuple(_stop_if_drained(pod, given.drains, now) for pod in pods)
    pods = _scale_down(spec, pods, now)
    return _stop_broken_gang(spec, state, pods, now) if is_rigid(spec) else pods


def _stop_superfluous(spec: WorkloadSpec, pods: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """Stop replacements of pods that succeeded: a pod that is moved has a replacement before its own end."""
    done = {index for index, pod in counted_pods(spec, pods).items() if pod.outcome is Outcome.OK}
    if spec.restart_rule.restart is RestartPolicy.ALWAYS or not done:
        return pods
    return tuple(pod.release(now, Cause.FINISHED) if pod.index in done else pod for pod in pods)


def _stop_if_drained(pod: PodRecord, drains: Drains, now: Instant) -> PodRecord:
    if pod.node is None or pod.phase not in (PodPhase.BOUND, PodPhase.RUNNING):
        return pod
    for taint in drains(pod.node):
        if not any(each.covers(taint) for each in pod.shape.tolerations):
            return pod.release(now, Cause.NODE_DRAINED, f"{pod.node} is being drained ({taint})")
    return pod


def _scale_down(spec: WorkloadSpec, pods: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """Stop pods beyond the declared number; of a sweep those that have done least."""
    if spec.arrangement is not Arrangement.SWEEP:
        surplus = {pod.id for pod in pods if pod.index >= spec.pods}
    else:
        alive = [pod for pod in pods if not pod.is_over and pod.phase is not PodPhase.RELEASING]
        alive.sort(key=lambda pod: (not pod.is_placed, pod.started_at or now, pod.index))
        surplus = {pod.id for pod in alive[spec.pods :]}
        surplus |= {pod.id for pod in alive if pod.index >= spec.runs_needed}
    if not surplus:
        return pods
    words = f"scaled down to {spec.pods} {'pod' if spec.pods == 1 else 'pods'}"
    return tuple(pod.release(now, Cause.SCALED_DOWN, words) if pod.id in surplus else pod for pod in pods)


def _stop_broken_gang(
    spec: WorkloadSpec, state: WorkloadState, pods: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    """A gang restarts as a whole: when one pod has ended or must stop, the others are stopped too."""
    broken = next((pod for pod in counted_pods(spec, pods).values() if _breaks_gang(pod)), None)
    if broken is None:
        return pods
    verb = "ended" if broken.is_over else "is stopping"
    words = f"{pod_label(spec, state, broken)} {verb}; all pods of {spec.name} restart together"
    return stop_peers(pods, now, words)


def _breaks_gang(pod: PodRecord) -> bool:
    if pod.is_over:
        return pod.outcome is not Outcome.OK
    return pod.phase is PodPhase.RELEASING and pod.cause in EVICTIONS | LOSSES


# --- pods to create ------------------------------------------------------------------------------------------------


def _create_pods(
    spec: WorkloadSpec, state: WorkloadState, pods: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    latest = latest_pods(pods)
    missing = _missing(spec, latest | counted_pods(spec, pods))
    return tuple(_next_pod(spec, state, index, latest.get(index), now) for index in missing)


def _next_pod(spec: WorkloadSpec, state: WorkloadState, index: int, last: PodRecord | None, now: Instant) -> PodRecord:
    """The next pod of an index, after `last` if there was one."""
    pod = new_pod(spec, index, state.next_incarnation(last), now)
    if last is None:
        return pod
    return replace(pod, not_before=back_off_until(state, last, now), nominated=_preferred_node(spec, state, last))


def _preferred_node(spec: WorkloadSpec, state: WorkloadState, last: PodRecord | None) -> NodeName | None:
    """A restarted interactive job returns to its node, if there is room."""
    if last is None or spec.kind is not WorkloadKind.BUILD or any(each.node == last.node for each in state.avoided):
        return None
    return last.node


def _missing(spec: WorkloadSpec, current: dict[int, PodRecord]) -> Iterator[int]:
    """Indexes that need a new pod."""
    if spec.arrangement is not Arrangement.SWEEP:
        yield from (index for index in range(spec.pods) if _needs_pod(spec, current.get(index)))
        return
    room = spec.pods - sum(not pod.is_over for pod in current.values())
    for index in range(spec.runs_needed):
        if room <= 0:
            return
        if _needs_pod(spec, current.get(index)):
            room -= 1
            yield index


def _needs_pod(spec: WorkloadSpec, last: PodRecord | None) -> bool:
    if last is None:
        return True
    if not last.is_over:
        return False
    return last.outcome is not Outcome.OK or spec.restart_rule.restart is RestartPolicy.ALWAYS


# --- timers --------------------------------------------------------------------------------------------------------


def _wake_at(
    spec: WorkloadSpec, state: WorkloadState, pods: Sequence[PodRecord], rules: ProjectRules, now: Instant
) -> Instant | None:
    """When time alone may change the answer; None: never."""
    moments = [pod.not_before for pod in pods if not pod.is_over]
    moments += [pod.retry_at for pod in pods if pod.phase is PodPhase.BOUND]
    moments += [each.until for each in state.avoided]
    if state.halt is None or keeps_running_pods(spec, state, rules, now):
        moments += [halt.at for halt in time_limits(spec, state, rules)]
    expiry = expires_at(spec, state)
    if expiry is not None:
        moments.append(expiry)
    return min((moment for moment in moments if moment > now), default=None)


def _is_gone(spec: WorkloadSpec, state: WorkloadState, pods: Sequence[PodRecord], now: Instant) -> bool:
    if any(not pod.is_over for pod in pods):
        return False
    expiry = expires_at(spec, state)
    return spec.desired_state is DesiredState.DELETE or (expiry is not None and expiry <= now)
