"""Which pods should exist: births and deaths of one workload, with their reasons.

Called for a workload whenever something about it may have changed: its declaration, one of its pods, its node, or the
hour. It says when the hour alone can change the answer (`wake_at`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fairpool.cluster.dependencies import (
    OutcomeOf,
    WorkloadOutcome,
    failed_dependency,
    unmet_dependencies,
    with_met_dependencies,
)
from fairpool.cluster.workload_state import AvoidedNode, Halt, WorkloadState
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import EVICTIONS, LOSSES, Cause, Outcome, PodRecord
from fairpool.model.quantity import length_text
from fairpool.model.spec import Arrangement, RestartPolicy, Want, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import WorkloadKind

FIRST_BACK_OFF_S = 10
LONGEST_BACK_OFF_S = 300
LONG_RUN_S = 600
"""A pod that ran this long before it failed is tried again after the shortest back-off."""
REFUSALS_MAX = 10
"""Starts that nodes may refuse before a workload is given up."""
AVOID_S = 600
"""How long a node that refused a pod is left alone by its workload."""

Drains = Callable[[NodeName], Sequence[Taint]]
"""The taints of a node that drive pods away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandInput:
    """One workload and all its lives. No declaration: nobody wants it (any more)."""

    spec: WorkloadSpec | None
    state: WorkloadState
    pods: tuple[PodRecord, ...]
    """In the order of their birth."""
    ended: tuple[PodRecord, ...] = ()
    """Those of them that came to their end just now: each is counted once."""
    rules: ProjectRules = ProjectRules()
    drains: Drains = lambda node: ()
    outcomes: OutcomeOf = lambda workload: WorkloadOutcome.GONE
    """What became of the workloads it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The workload as it should be."""

    state: WorkloadState
    pods: tuple[PodRecord, ...]
    """All of them, the new ones last."""
    wake_at: Instant | None = None
    gone: bool = False
    """Nothing is left and nothing will come: the declaration may go."""


def expand(case: ExpandInput, now: Instant) -> Expansion:
    """Who should exist, who should leave, and why."""
    spec = case.spec
    if spec is None:
        pods = tuple(pod.leave(now, Cause.UNWANTED, "its workload no longer exists") for pod in case.pods)
        return Expansion(state=case.state, pods=pods)
    case = replace(case, pods=_of_this_run(case.pods, spec))
    state = _this_run(case.state, spec)  # 1. what is remembered
    state = _counted(state, case, now)
    state = _activated(state, case.pods)
    state = with_met_dependencies(spec, state, case.pods, case.outcomes)
    if state.halt is None and spec.want is Want.RUN:  # 2. whether it came to an end
        state = replace(state, halt=_halt(spec, state, case, now))
    pods = _stop_pods(spec, state, case, now)  # 3. who leaves
    if state.halt is None and spec.want is Want.RUN and not unmet_dependencies(spec, state):
        pods += _create_pods(spec, state, pods, now)  # 4. who comes
    return Expansion(
        state=state,
        pods=pods,
        wake_at=_wake_at(spec, state, pods, case.rules, now),
        gone=_is_gone(spec, state, pods, now),
    )


def slots_of(pods: Sequence[PodRecord]) -> dict[int, PodRecord]:
    """The latest life of each pod, by its place in the workload."""
    latest: dict[int, PodRecord] = {}
    for pod in pods:
        if pod.index not in latest or latest[pod.index].incarnation < pod.incarnation:
            latest[pod.index] = pod
    return latest


def wanted_slots(spec: WorkloadSpec, pods: Sequence[PodRecord]) -> dict[int, PodRecord]:
    """The same for the places that are declared now: what became of pods that were scaled away does not matter.

    Where a life has done the work, that one counts, even if a later one was born before this was known.
    """
    most = spec.runs_needed if spec.arrangement is Arrangement.SWEEP else spec.pods
    slots = {index: pod for index, pod in slots_of(pods).items() if index < most}
    if spec.end_rule.restart is not RestartPolicy.ALWAYS:
        slots.update((pod.index, pod) for pod in pods if pod.outcome is Outcome.OK and pod.index < most)
    return slots


def group_of(spec: WorkloadSpec, index: int) -> GroupId:
    """The pod group a pod belongs to: replicas are each their own."""
    return GroupId(f"{spec.id}/{index}" if spec.arrangement is Arrangement.REPLICAS else spec.id)


def is_rigid(spec: WorkloadSpec) -> bool:
    """Whether its pods can only run all together, so that one that ends takes the others with it."""
    return spec.arrangement is Arrangement.TOGETHER and spec.pods > 1 and not spec.is_elastic


# --- what is remembered --------------------------------------------------------------------------------------------


def _this_run(state: WorkloadState, spec: WorkloadSpec) -> WorkloadState:
    """A workload that was resumed starts with a clean slate."""
    if spec.run <= state.run:
        return state
    return replace(state, run=spec.run, failures=0, refusals=0, failure="", halt=None, active_since=None)


def _of_this_run(pods: tuple[PodRecord, ...], spec: WorkloadSpec) -> tuple[PodRecord, ...]:
    """Suspended and resumed before anybody noticed: who was only waiting waits in the new run."""
    if all(pod.run == spec.run or pod.phase not in NEW for pod in pods):
        return pods
    return tuple(replace(pod, run=spec.run) if pod.phase in NEW else pod for pod in pods)


def _counted(state: WorkloadState, case: ExpandInput, now: Instant) -> WorkloadState:
    """Failures and refusals of lives that ended just now, and the nodes to keep away from."""
    failed = [pod for pod in case.ended if pod.outcome is Outcome.ERROR and pod.run == state.run]
    refused = [pod for pod in failed if pod.cause is Cause.REFUSED]
    unstarted = [pod for pod in failed if pod.cause in UNSTARTED]
    avoided = tuple(each for each in state.avoided if each.until > now)
    for pod in refused:
        assert pod.node is not None
        avoided = (
            *(each for each in avoided if each.node != pod.node),
            AvoidedNode(pod.node, Instant(now + AVOID_S * SECOND_MS)),
        )
    if not failed and avoided == state.avoided:
        return state
    failures = len(failed) - len(unstarted)
    if case.spec is not None and case.spec.arrangement is Arrangement.TOGETHER:
        failures = min(failures, 1)  # one of them drags the others down: that is one failure
    return replace(
        state,
        failures=state.failures + failures,
        refusals=state.refusals + len({pod.node for pod in unstarted}),  # one bad node is one refusal
        failure=failure_text(case.spec, state, failed[-1]) if failed else state.failure,
        avoided=avoided,
    )


UNSTARTED = frozenset({Cause.REFUSED, Cause.IMAGE})
"""Failures before the program was started: they do not count against the workload's own retries."""


def failure_text(spec: WorkloadSpec | None, state: WorkloadState, pod: PodRecord) -> str:
    """How a life failed, in words for people: `pod 1 of sweep3 (try 2) failed with exit code 3`."""
    words = pod.detail or "how it ended is not known"
    if pod.cause not in UNSTARTED:
        words = f"failed with {words}" if words.startswith("exit code") else f"failed: {words}"
    if spec is None or max(spec.pods, spec.completions or 1) == 1:
        return words
    return f"{pod_label(spec, state, pod)}{':' if pod.cause in UNSTARTED else ''} {words}"


def pod_label(spec: WorkloadSpec, state: WorkloadState, pod: PodRecord) -> str:
    """What people call one life of a pod; ids are for programs."""
    first = state.first_incarnation if pod.incarnation >= state.first_incarnation else 0
    return f"pod {pod.index} of {spec.name} (try {pod.incarnation - first + 1})"


def _activated(state: WorkloadState, pods: Sequence[PodRecord]) -> WorkloadState:
    """When it first ran in this run. Whoever runs has been let in: earlier refusals are forgiven."""
    if state.refusals and any(pod.phase is PodPhase.RUNNING for pod in pods):
        state = replace(state, refusals=0)
    if state.active_since is not None:
        return state
    # Who runs on from a run that was suspended and resumed before anybody noticed has begun, too.
    begun = [pod for pod in pods if pod.run == state.run or pod.phase is PodPhase.RUNNING]
    starts = [pod.started_at for pod in begun if pod.started_at is not None]
    return replace(state, active_since=min(starts)) if starts else state


# --- whether it came to an end -------------------------------------------------------------------------------------


def _halt(spec: WorkloadSpec, state: WorkloadState, case: ExpandInput, now: Instant) -> Halt | None:
    """The end of a workload, and why; None while it goes on."""
    if spec.after and (failure := failed_dependency(spec, state, case.outcomes, now)) is not None:
        return failure
    slots = wanted_slots(spec, case.pods)
    if _is_complete(spec, state, slots):
        return Halt(WorkloadPhase.COMPLETED, Cause.FINISHED, now)
    failure = _used_up(spec, state, case.ended, now)
    if failure is not None:
        return failure
    if spec.kind is WorkloadKind.BUILD:
        for pod in case.ended:
            lost = pod.outcome in (Outcome.LOST, Outcome.EVICTED) and pod.cause is not Cause.PEER
            if lost and pod.run == state.run:
                cause = pod.cause if pod.cause is not None else Cause.NODE_LOST
                return Halt(WorkloadPhase.STOPPED, Cause.PREEMPTED if cause in PREEMPTIONS else cause, now, pod.detail)
    return _out_of_time(spec, state, case.rules, now)


PREEMPTIONS = frozenset({Cause.PREEMPTED, Cause.STALE, Cause.MOVED})


def _is_complete(spec: WorkloadSpec, state: WorkloadState, slots: dict[int, PodRecord]) -> bool:
    done = sum(pod.outcome is Outcome.OK for pod in slots.values())
    match spec.arrangement:
        case Arrangement.REPLICAS:
            return False
        case Arrangement.SWEEP:
            return done >= spec.runs_needed
    if spec.end_rule.restart is RestartPolicy.ALWAYS:
        return False
    if spec.leader is not None:
        return 0 in slots and slots[0].outcome is Outcome.OK
    unfinished = any(
        pod.outcome is not Outcome.OK and (pod.phase not in NEW or pod.incarnation > state.first_incarnation)
        for pod in slots.values()
    )
    return done >= spec.needed and not unfinished


NEW = (PodPhase.WAITING, PodPhase.PROMISED)
"""A pod that is still so in its first life has never run, and nothing is lost if it never does."""


def _used_up(spec: WorkloadSpec, state: WorkloadState, ended: Sequence[PodRecord], now: Instant) -> Halt | None:
    """Failed more often than is forgiven, with the words of the last failure."""
    failed = [pod for pod in ended if pod.outcome is Outcome.ERROR and pod.run == state.run]
    if state.refusals > REFUSALS_MAX and failed:
        cause = Cause.IMAGE if failed[-1].cause is Cause.IMAGE else Cause.REFUSED
        return Halt(WorkloadPhase.FAILED, cause, now, f"{failed[-1].detail}; gave up after {state.refusals} tries")
    failed = [pod for pod in failed if pod.cause not in UNSTARTED]
    if not failed:
        return None
    rule = spec.end_rule
    last = failure_text(spec, state, failed[-1])
    if rule.restart is RestartPolicy.NEVER:
        return Halt(WorkloadPhase.FAILED, Cause.EXITED, now, last)
    if rule.retries is not None and state.failures > rule.retries:
        if rule.retries == 0:
            return Halt(WorkloadPhase.FAILED, Cause.EXITED, now, last)
        return Halt(WorkloadPhase.FAILED, Cause.RETRIES, now, f"{last}; no retries left ({rule.retries} allowed)")
    return None


def _out_of_time(spec: WorkloadSpec, state: WorkloadState, rules: ProjectRules, now: Instant) -> Halt | None:
    if state.active_since is None:
        return None
    for moment, halt in _time_limits(spec, state.active_since, rules):
        if moment <= now:
            return replace(halt, at=now)
    return None


def _time_limits(spec: WorkloadSpec, since: Instant, rules: ProjectRules) -> Iterator[tuple[Instant, Halt]]:
    limits = {
        WorkloadKind.BUILD: ("interactive jobs", rules.interactive_limit_s),
        WorkloadKind.TRAIN: ("training jobs", rules.training_limit_s),
    }
    noun, limit_s = limits.get(spec.kind, ("", None))
    if limit_s is not None:
        moment = Instant(since + limit_s * SECOND_MS)
        words = f"reached the time limit of {length_text(limit_s)} for {noun} in project {spec.project}"
        yield moment, Halt(WorkloadPhase.STOPPED, Cause.TIME_LIMIT, moment, words)
    if spec.deadline_s is not None:
        moment = Instant(since + spec.deadline_s * SECOND_MS)
        yield (
            moment,
            Halt(
                WorkloadPhase.FAILED,
                Cause.DEADLINE,
                moment,
                f"reached its time limit of {length_text(spec.deadline_s)}",
            ),
        )


# --- who leaves ----------------------------------------------------------------------------------------------------


def _stop_pods(spec: WorkloadSpec, state: WorkloadState, case: ExpandInput, now: Instant) -> tuple[PodRecord, ...]:
    if spec.want is Want.DELETE:
        return tuple(pod.leave(now, Cause.DELETED) for pod in case.pods)
    if state.halt is not None:
        halt = state.halt
        return tuple(pod.leave(now, halt.cause, halt.detail) for pod in case.pods)
    if spec.want is Want.STOP:
        return tuple(pod.leave(now, Cause.SUSPENDED) for pod in case.pods)
    pods = _without_the_done(spec, case.pods, now)
    pods = tuple(_drained(pod, case.drains, now) for pod in pods)
    pods = _scaled_down(spec, pods, now)
    return _with_peers(spec, state, pods, now) if is_rigid(spec) else pods


def _without_the_done(spec: WorkloadSpec, pods: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """A pod that moves is given its next life at once; if the old one ends well after all, the next has no work."""
    slots = wanted_slots(spec, pods)
    done = {index for index, pod in slots.items() if pod.outcome is Outcome.OK}
    if spec.end_rule.restart is RestartPolicy.ALWAYS or not done:
        return pods
    return tuple(pod.leave(now, Cause.FINISHED) if pod.index in done else pod for pod in pods)


def _drained(pod: PodRecord, drains: Drains, now: Instant) -> PodRecord:
    if pod.node is None or pod.phase not in (PodPhase.BOUND, PodPhase.RUNNING):
        return pod
    for taint in drains(pod.node):
        if not any(each.covers(taint) for each in pod.shape.tolerations):
            return pod.leave(now, Cause.NODE_DRAINED, f"{pod.node} is being drained ({taint})")
    return pod


def _scaled_down(spec: WorkloadSpec, pods: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """Whoever is beyond the declared number leaves; of a sweep those that have done least."""
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
    return tuple(pod.leave(now, Cause.SCALED_DOWN, words) if pod.id in surplus else pod for pod in pods)


def _with_peers(
    spec: WorkloadSpec, state: WorkloadState, pods: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    """A gang restarts as a whole: when one pod has left or must leave, the others follow."""
    broken = next((pod for pod in wanted_slots(spec, pods).values() if _breaks_gang(pod)), None)
    if broken is None:
        return pods
    verb = "ended" if broken.is_over else "is stopping"
    words = f"{pod_label(spec, state, broken)} {verb}; all pods of {spec.name} restart together"
    return tuple(
        pod.leave(now, Cause.PEER, words) if pod.phase in (PodPhase.BOUND, PodPhase.RUNNING) else pod for pod in pods
    )


def _breaks_gang(pod: PodRecord) -> bool:
    if pod.is_over:
        return pod.outcome is not Outcome.OK
    return pod.phase is PodPhase.RELEASING and pod.cause in EVICTIONS | LOSSES


# --- who comes -----------------------------------------------------------------------------------------------------


def _create_pods(
    spec: WorkloadSpec, state: WorkloadState, pods: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    latest = slots_of(pods)
    born = []
    for index in _missing(spec, latest | wanted_slots(spec, pods)):
        last = latest.get(index)
        incarnation = state.next_incarnation(last)
        template = spec.template_of(index)
        born.append(
            PodRecord(
                id=pod_id(spec.id, index, incarnation),
                workload=spec.id,
                index=index,
                incarnation=incarnation,
                group=group_of(spec, index),
                pod_set=pod_set_of(spec, index),
                shape=template.shape,
                run=spec.run,
                since=now,
                born_at=now,
                not_before=_not_before(state, last, now),
                nominated=_old_place(spec, state, last),
                grace_s=spec.grace_s,
            )
        )
    return tuple(born)


def _old_place(spec: WorkloadSpec, state: WorkloadState, last: PodRecord | None) -> NodeName | None:
    """A person who comes back to their work finds it where it was, if that is possible."""
    if last is None or spec.kind is not WorkloadKind.BUILD or any(each.node == last.node for each in state.avoided):
        return None
    return last.node


def pod_set_of(spec: WorkloadSpec, index: int) -> str:
    """The set a pod counts in: leaders and workers are counted apart."""
    if spec.arrangement is not Arrangement.TOGETHER or spec.leader is None:
        return "default"
    return "leader" if index == 0 else "worker"


def _missing(spec: WorkloadSpec, slots: dict[int, PodRecord]) -> Iterator[int]:
    """Places whose pod is not there and should be."""
    if spec.arrangement is not Arrangement.SWEEP:
        yield from (index for index in range(spec.pods) if _may_return(spec, slots.get(index)))
        return
    room = spec.pods - sum(not pod.is_over for pod in slots.values())
    for index in range(spec.runs_needed):
        if room <= 0:
            return
        if _may_return(spec, slots.get(index)):
            room -= 1
            yield index


def _may_return(spec: WorkloadSpec, last: PodRecord | None) -> bool:
    if last is None:
        return True
    if not last.is_over:
        return False
    return last.outcome is not Outcome.OK or spec.end_rule.restart is RestartPolicy.ALWAYS


def _not_before(state: WorkloadState, last: PodRecord | None, now: Instant) -> Instant:
    """After a failure it waits, twice as long each time."""
    fell = last is not None and (last.outcome in (Outcome.ERROR, Outcome.OK) or last.cause is Cause.VANISHED)
    if last is None or last.run != state.run or not fell:
        return Instant(0)
    ran_long = last.started_at is not None and last.since - last.started_at >= LONG_RUN_S * SECOND_MS
    tries = state.refusals if last.cause in UNSTARTED else state.failures
    doublings = 0 if ran_long else max(tries - 1, 0)
    wait_s = min(FIRST_BACK_OFF_S << min(doublings, 10), LONGEST_BACK_OFF_S)
    return Instant(now + wait_s * SECOND_MS)


# --- when to look again --------------------------------------------------------------------------------------------


def _wake_at(
    spec: WorkloadSpec, state: WorkloadState, pods: Sequence[PodRecord], rules: ProjectRules, now: Instant
) -> Instant | None:
    moments = [pod.not_before for pod in pods if not pod.is_over]
    moments += [pod.retry_at for pod in pods if pod.phase is PodPhase.BOUND]
    moments += [each.until for each in state.avoided]
    if state.halt is None and state.active_since is not None:
        moments += [moment for moment, _ in _time_limits(spec, state.active_since, rules)]
    expiry = _expires_at(spec, state)
    if expiry is not None:
        moments.append(expiry)
    return min((moment for moment in moments if moment > now), default=None)


def _expires_at(spec: WorkloadSpec, state: WorkloadState) -> Instant | None:
    finished = (WorkloadPhase.COMPLETED, WorkloadPhase.FAILED)
    if spec.ttl_s is None or state.halt is None or state.halt.phase not in finished:
        return None
    return Instant(state.halt.at + spec.ttl_s * SECOND_MS)


def _is_gone(spec: WorkloadSpec, state: WorkloadState, pods: Sequence[PodRecord], now: Instant) -> bool:
    if any(not pod.is_over for pod in pods):
        return False
    expiry = _expires_at(spec, state)
    return spec.want is Want.DELETE or (expiry is not None and expiry <= now)
