"""Which pods should exist: births and deaths of one workload, with their reasons.

Called for a workload whenever something about it may have changed: its declaration, one of its pods, its node, or the
hour. It says when the hour alone can change the answer (`wake_at`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fairpool.cluster.dependencies import Course, Courses, hopeless, unmet, with_met
from fairpool.cluster.workload_state import Avoided, Halt, WorkloadState
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import EVICTIONS, LOSSES, Cause, Outcome, PodRecord
from fairpool.model.quantity import length_text
from fairpool.model.spec import Arrangement, DesiredState, RestartPolicy, WorkloadSpec
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
class Case:
    """One workload and all its lives. No declaration: nobody wants it (any more)."""

    spec: WorkloadSpec | None
    standing: WorkloadState
    lives: tuple[PodRecord, ...]
    """In the order of their birth."""
    ended: tuple[PodRecord, ...] = ()
    """Those of them that came to their end just now: each is counted once."""
    rules: ProjectRules = ProjectRules()
    drains: Drains = lambda node: ()
    courses: Courses = lambda workload: Course.GONE
    """What became of the workloads it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The workload as it should be."""

    standing: WorkloadState
    lives: tuple[PodRecord, ...]
    """All of them, the new ones last."""
    wake_at: Instant | None = None
    gone: bool = False
    """Nothing is left and nothing will come: the declaration may go."""


def expand(case: Case, now: Instant) -> Expansion:
    """Who should exist, who should leave, and why."""
    spec = case.spec
    if spec is None:
        lives = tuple(life.release(now, Cause.UNWANTED, "its workload no longer exists") for life in case.lives)
        return Expansion(standing=case.standing, lives=lives)
    case = replace(case, lives=_of_this_run(case.lives, spec))
    standing = _this_run(case.standing, spec)  # 1. what is remembered
    standing = _counted(standing, case, now)
    standing = _activated(standing, case.lives)
    standing = with_met(spec, standing, case.lives, case.courses)
    if standing.halt is None and spec.want is DesiredState.RUN:  # 2. whether it came to an end
        standing = replace(standing, halt=_halt(spec, standing, case, now))
    lives = _deaths(spec, standing, case, now)  # 3. who leaves
    if standing.halt is None and spec.want is DesiredState.RUN and not unmet(spec, standing):
        lives += _births(spec, standing, lives, now)  # 4. who comes
    return Expansion(
        standing=standing,
        lives=lives,
        wake_at=_wake_at(spec, standing, lives, case.rules, now),
        gone=_is_gone(spec, standing, lives, now),
    )


def slots_of(lives: Sequence[PodRecord]) -> dict[int, PodRecord]:
    """The latest life of each pod, by its place in the workload."""
    latest: dict[int, PodRecord] = {}
    for life in lives:
        if life.index not in latest or latest[life.index].incarnation < life.incarnation:
            latest[life.index] = life
    return latest


def wanted_slots(spec: WorkloadSpec, lives: Sequence[PodRecord]) -> dict[int, PodRecord]:
    """The same for the places that are declared now: what became of pods that were scaled away does not matter.

    Where a life has done the work, that one counts, even if a later one was born before this was known.
    """
    most = spec.runs_needed if spec.arrangement is Arrangement.SWEEP else spec.pods
    slots = {index: life for index, life in slots_of(lives).items() if index < most}
    if spec.restart_rule.restart is not RestartPolicy.ALWAYS:
        slots.update((life.index, life) for life in lives if life.outcome is Outcome.OK and life.index < most)
    return slots


def group_of(spec: WorkloadSpec, index: int) -> GroupId:
    """The pod group a pod belongs to: replicas are each their own."""
    return GroupId(f"{spec.id}/{index}" if spec.arrangement is Arrangement.REPLICAS else spec.id)


def is_rigid(spec: WorkloadSpec) -> bool:
    """Whether its pods can only run all together, so that one that ends takes the others with it."""
    return spec.arrangement is Arrangement.TOGETHER and spec.pods > 1 and not spec.is_elastic


# --- what is remembered --------------------------------------------------------------------------------------------


def _this_run(standing: WorkloadState, spec: WorkloadSpec) -> WorkloadState:
    """A workload that was resumed starts with a clean slate."""
    if spec.run <= standing.run:
        return standing
    return replace(standing, run=spec.run, failures=0, refusals=0, failure="", halt=None, active_since=None)


def _of_this_run(lives: tuple[PodRecord, ...], spec: WorkloadSpec) -> tuple[PodRecord, ...]:
    """Suspended and resumed before anybody noticed: who was only waiting waits in the new run."""
    if all(life.run == spec.run or life.phase not in NEW for life in lives):
        return lives
    return tuple(replace(life, run=spec.run) if life.phase in NEW else life for life in lives)


def _counted(standing: WorkloadState, case: Case, now: Instant) -> WorkloadState:
    """Failures and refusals of lives that ended just now, and the nodes to keep away from."""
    failed = [life for life in case.ended if life.outcome is Outcome.ERROR and life.run == standing.run]
    refused = [life for life in failed if life.cause is Cause.REFUSED]
    unstarted = [life for life in failed if life.cause in UNSTARTED]
    avoided = tuple(each for each in standing.avoided if each.until > now)
    for life in refused:
        assert life.node is not None
        avoided = (
            *(each for each in avoided if each.node != life.node),
            Avoided(life.node, Instant(now + AVOID_S * SECOND_MS)),
        )
    if not failed and avoided == standing.avoided:
        return standing
    failures = len(failed) - len(unstarted)
    if case.spec is not None and case.spec.arrangement is Arrangement.TOGETHER:
        failures = min(failures, 1)  # one of them drags the others down: that is one failure
    return replace(
        standing,
        failures=standing.failures + failures,
        refusals=standing.refusals + len({life.node for life in unstarted}),  # one bad node is one refusal
        failure=failure_words(case.spec, standing, failed[-1]) if failed else standing.failure,
        avoided=avoided,
    )


UNSTARTED = frozenset({Cause.REFUSED, Cause.IMAGE})
"""Failures before the program was started: they do not count against the workload's own retries."""


def failure_words(spec: WorkloadSpec | None, standing: WorkloadState, life: PodRecord) -> str:
    """How a life failed, in words for people: `pod 1 of sweep3 (try 2) failed with exit code 3`."""
    words = life.detail or "how it ended is not known"
    if life.cause not in UNSTARTED:
        words = f"failed with {words}" if words.startswith("exit code") else f"failed: {words}"
    if spec is None or max(spec.pods, spec.completions or 1) == 1:
        return words
    return f"{pod_words(spec, standing, life)}{':' if life.cause in UNSTARTED else ''} {words}"


def pod_words(spec: WorkloadSpec, standing: WorkloadState, life: PodRecord) -> str:
    """What people call one life of a pod; ids are for programs."""
    first = standing.first_incarnation if life.incarnation >= standing.first_incarnation else 0
    return f"pod {life.index} of {spec.name} (try {life.incarnation - first + 1})"


def _activated(standing: WorkloadState, lives: Sequence[PodRecord]) -> WorkloadState:
    """When it first ran in this run. Whoever runs has been let in: earlier refusals are forgiven."""
    if standing.refusals and any(life.phase is PodPhase.RUNNING for life in lives):
        standing = replace(standing, refusals=0)
    if standing.active_since is not None:
        return standing
    # Who runs on from a run that was suspended and resumed before anybody noticed has begun, too.
    begun = [life for life in lives if life.run == standing.run or life.phase is PodPhase.RUNNING]
    starts = [life.started_at for life in begun if life.started_at is not None]
    return replace(standing, active_since=min(starts)) if starts else standing


# --- whether it came to an end -------------------------------------------------------------------------------------


def _halt(spec: WorkloadSpec, standing: WorkloadState, case: Case, now: Instant) -> Halt | None:
    """The end of a workload, and why; None while it goes on."""
    if spec.after and (failure := hopeless(spec, standing, case.courses, now)) is not None:
        return failure
    slots = wanted_slots(spec, case.lives)
    if _is_complete(spec, standing, slots):
        return Halt(WorkloadPhase.COMPLETED, Cause.FINISHED, now)
    failure = _used_up(spec, standing, case.ended, now)
    if failure is not None:
        return failure
    if spec.kind is WorkloadKind.BUILD:
        for life in case.ended:
            lost = life.outcome in (Outcome.LOST, Outcome.EVICTED) and life.cause is not Cause.PEER
            if lost and life.run == standing.run:
                cause = life.cause if life.cause is not None else Cause.NODE_LOST
                return Halt(WorkloadPhase.STOPPED, Cause.PREEMPTED if cause in PREEMPTIONS else cause, now, life.detail)
    return _out_of_time(spec, standing, case.rules, now)


PREEMPTIONS = frozenset({Cause.PREEMPTED, Cause.STALE, Cause.MOVED})


def _is_complete(spec: WorkloadSpec, standing: WorkloadState, slots: dict[int, PodRecord]) -> bool:
    done = sum(life.outcome is Outcome.OK for life in slots.values())
    match spec.arrangement:
        case Arrangement.REPLICAS:
            return False
        case Arrangement.SWEEP:
            return done >= spec.runs_needed
    if spec.restart_rule.restart is RestartPolicy.ALWAYS:
        return False
    if spec.leader is not None:
        return 0 in slots and slots[0].outcome is Outcome.OK
    unfinished = any(
        life.outcome is not Outcome.OK and (life.phase not in NEW or life.incarnation > standing.first_incarnation)
        for life in slots.values()
    )
    return done >= spec.needed and not unfinished


NEW = (PodPhase.WAITING, PodPhase.PROMISED)
"""A pod that is still so in its first life has never run, and nothing is lost if it never does."""


def _used_up(spec: WorkloadSpec, standing: WorkloadState, ended: Sequence[PodRecord], now: Instant) -> Halt | None:
    """Failed more often than is forgiven, with the words of the last failure."""
    failed = [life for life in ended if life.outcome is Outcome.ERROR and life.run == standing.run]
    if standing.refusals > REFUSALS_MAX and failed:
        cause = Cause.IMAGE if failed[-1].cause is Cause.IMAGE else Cause.REFUSED
        return Halt(WorkloadPhase.FAILED, cause, now, f"{failed[-1].detail}; gave up after {standing.refusals} tries")
    failed = [life for life in failed if life.cause not in UNSTARTED]
    if not failed:
        return None
    rule = spec.restart_rule
    last = failure_words(spec, standing, failed[-1])
    if rule.restart is RestartPolicy.NEVER:
        return Halt(WorkloadPhase.FAILED, Cause.EXITED, now, last)
    if rule.retries is not None and standing.failures > rule.retries:
        if rule.retries == 0:
            return Halt(WorkloadPhase.FAILED, Cause.EXITED, now, last)
        return Halt(WorkloadPhase.FAILED, Cause.RETRIES, now, f"{last}; no retries left ({rule.retries} allowed)")
    return None


def _out_of_time(spec: WorkloadSpec, standing: WorkloadState, rules: ProjectRules, now: Instant) -> Halt | None:
    if standing.active_since is None:
        return None
    for moment, halt in _time_limits(spec, standing.active_since, rules):
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


def _deaths(spec: WorkloadSpec, standing: WorkloadState, case: Case, now: Instant) -> tuple[PodRecord, ...]:
    if spec.want is DesiredState.DELETE:
        return tuple(life.release(now, Cause.DELETED) for life in case.lives)
    if standing.halt is not None:
        halt = standing.halt
        return tuple(life.release(now, halt.cause, halt.detail) for life in case.lives)
    if spec.want is DesiredState.STOP:
        return tuple(life.release(now, Cause.SUSPENDED) for life in case.lives)
    lives = _without_the_done(spec, case.lives, now)
    lives = tuple(_drained(life, case.drains, now) for life in lives)
    lives = _scaled_down(spec, lives, now)
    return _with_peers(spec, standing, lives, now) if is_rigid(spec) else lives


def _without_the_done(spec: WorkloadSpec, lives: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """A pod that moves is given its next life at once; if the old one ends well after all, the next has no work."""
    slots = wanted_slots(spec, lives)
    done = {index for index, life in slots.items() if life.outcome is Outcome.OK}
    if spec.restart_rule.restart is RestartPolicy.ALWAYS or not done:
        return lives
    return tuple(life.release(now, Cause.FINISHED) if life.index in done else life for life in lives)


def _drained(life: PodRecord, drains: Drains, now: Instant) -> PodRecord:
    if life.node is None or life.phase not in (PodPhase.BOUND, PodPhase.RUNNING):
        return life
    for taint in drains(life.node):
        if not any(each.covers(taint) for each in life.shape.tolerations):
            return life.release(now, Cause.NODE_DRAINED, f"{life.node} is being drained ({taint})")
    return life


def _scaled_down(spec: WorkloadSpec, lives: tuple[PodRecord, ...], now: Instant) -> tuple[PodRecord, ...]:
    """Whoever is beyond the declared number leaves; of a sweep those that have done least."""
    if spec.arrangement is not Arrangement.SWEEP:
        surplus = {life.id for life in lives if life.index >= spec.pods}
    else:
        alive = [life for life in lives if not life.is_over and life.phase is not PodPhase.RELEASING]
        alive.sort(key=lambda life: (not life.is_placed, life.started_at or now, life.index))
        surplus = {life.id for life in alive[spec.pods :]}
        surplus |= {life.id for life in alive if life.index >= spec.runs_needed}
    if not surplus:
        return lives
    words = f"scaled down to {spec.pods} {'pod' if spec.pods == 1 else 'pods'}"
    return tuple(life.release(now, Cause.SCALED_DOWN, words) if life.id in surplus else life for life in lives)


def _with_peers(
    spec: WorkloadSpec, standing: WorkloadState, lives: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    """A gang restarts as a whole: when one pod has left or must leave, the others follow."""
    broken = next((life for life in wanted_slots(spec, lives).values() if _breaks_gang(life)), None)
    if broken is None:
        return lives
    verb = "ended" if broken.is_over else "is stopping"
    words = f"{pod_words(spec, standing, broken)} {verb}; all pods of {spec.name} restart together"
    return tuple(
        life.release(now, Cause.PEER, words) if life.phase in (PodPhase.BOUND, PodPhase.RUNNING) else life
        for life in lives
    )


def _breaks_gang(life: PodRecord) -> bool:
    if life.is_over:
        return life.outcome is not Outcome.OK
    return life.phase is PodPhase.RELEASING and life.cause in EVICTIONS | LOSSES


# --- who comes -----------------------------------------------------------------------------------------------------


def _births(
    spec: WorkloadSpec, standing: WorkloadState, lives: tuple[PodRecord, ...], now: Instant
) -> tuple[PodRecord, ...]:
    latest = slots_of(lives)
    born = []
    for index in _missing(spec, latest | wanted_slots(spec, lives)):
        last = latest.get(index)
        incarnation = standing.next_incarnation(last)
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
                not_before=_not_before(standing, last, now),
                nominated=_old_place(spec, standing, last),
                grace_s=spec.grace_s,
            )
        )
    return tuple(born)


def _old_place(spec: WorkloadSpec, standing: WorkloadState, last: PodRecord | None) -> NodeName | None:
    """A person who comes back to their work finds it where it was, if that is possible."""
    if last is None or spec.kind is not WorkloadKind.BUILD or any(each.node == last.node for each in standing.avoided):
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
    room = spec.pods - sum(not life.is_over for life in slots.values())
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
    return last.outcome is not Outcome.OK or spec.restart_rule.restart is RestartPolicy.ALWAYS


def _not_before(standing: WorkloadState, last: PodRecord | None, now: Instant) -> Instant:
    """After a failure it waits, twice as long each time."""
    fell = last is not None and (last.outcome in (Outcome.ERROR, Outcome.OK) or last.cause is Cause.VANISHED)
    if last is None or last.run != standing.run or not fell:
        return Instant(0)
    ran_long = last.started_at is not None and last.since - last.started_at >= LONG_RUN_S * SECOND_MS
    tries = standing.refusals if last.cause in UNSTARTED else standing.failures
    doublings = 0 if ran_long else max(tries - 1, 0)
    wait_s = min(FIRST_BACK_OFF_S << min(doublings, 10), LONGEST_BACK_OFF_S)
    return Instant(now + wait_s * SECOND_MS)


# --- when to look again --------------------------------------------------------------------------------------------


def _wake_at(
    spec: WorkloadSpec, standing: WorkloadState, lives: Sequence[PodRecord], rules: ProjectRules, now: Instant
) -> Instant | None:
    moments = [life.not_before for life in lives if not life.is_over]
    moments += [life.retry_at for life in lives if life.phase is PodPhase.BOUND]
    moments += [each.until for each in standing.avoided]
    if standing.halt is None and standing.active_since is not None:
        moments += [moment for moment, _ in _time_limits(spec, standing.active_since, rules)]
    expiry = _expires_at(spec, standing)
    if expiry is not None:
        moments.append(expiry)
    return min((moment for moment in moments if moment > now), default=None)


def _expires_at(spec: WorkloadSpec, standing: WorkloadState) -> Instant | None:
    finished = (WorkloadPhase.COMPLETED, WorkloadPhase.FAILED)
    if spec.ttl_s is None or standing.halt is None or standing.halt.phase not in finished:
        return None
    return Instant(standing.halt.at + spec.ttl_s * SECOND_MS)


def _is_gone(spec: WorkloadSpec, standing: WorkloadState, lives: Sequence[PodRecord], now: Instant) -> bool:
    if any(not life.is_over for life in lives):
        return False
    expiry = _expires_at(spec, standing)
    return spec.want is DesiredState.DELETE or (expiry is not None and expiry <= now)
