"""Sentences for verdicts and evictions: what is the matter, the numbers, what would change it.

Made at the edge from the data in a plan. Moments become text by a function of the caller, who knows the reader's time
zone; without one they are given as durations from the moment of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch

from fairpool.model.ids import SECOND_MS, Instant, QueueId
from fairpool.model.mentions import ANOTHER_PROJECT, mention
from fairpool.model.node_role import NOT_A_CPU_WORKER, NOT_A_GPU_WORKER, SYSTEM_WORKER
from fairpool.model.organization import name_of_queue
from fairpool.model.quantity import UNLIMITED, gpus_text
from fairpool.scheduler.decision import (
    GPUS_WITHHELD,
    Evict,
    EvictionReason,
    Fragmented,
    NeverFits,
    NoDomainFits,
    NoNodeMatches,
    NoQueue,
    NoRoom,
    NotItsTurn,
    NotReady,
    Obstacle,
    OverLimit,
    OverQuota,
    ProtectedVictims,
    QueueFigures,
    Resource,
    Verdict,
    WaitsForVictims,
)
from fairpool.scheduler.policy import Pass

NEVER = "cannot start unless "

Clock = Callable[[Instant], str]
Called = Callable[[QueueId], str]


@dataclass(frozen=True, slots=True)
class Voice:
    """How moments are written, and how queues are named."""

    clock: Clock
    called: Called


def explain(verdict: Verdict, clock: Clock | None = None, called: Called | None = None) -> str:
    """One sentence: why this group, or a part of it, waits."""
    voice = Voice(clock or _from(verdict.at), called or _called)
    sentence = _say(verdict.why, voice) + _in_service(verdict)
    return f"runs with {_pods(verdict.running)}, the rest wait: {sentence}" if verdict.running else sentence


def _in_service(verdict: Verdict) -> str:
    """Nodes out of service that would let it start, and how to put them back."""
    if not verdict.closed:
        return ""
    first, *others = verdict.closed
    state = "drained" if first.drained else "cordoned"
    commands = [f"`runai-adm node undrain {first.name}`"] if first.drained else []
    commands += [f"`runai-adm node uncordon {first.name}`"] if first.cordoned else []
    more = f" (and {len(others)} more)" if others else ""
    return f"; node {first.name}{more} is {state} but has room for it: run {' and '.join(commands)}"


def names_for(project: QueueId) -> Called:
    """Names of queues in a text for the members of one project: departments are no secret, but other projects
    are named only to those who may see them."""

    def called(queue: QueueId) -> str:
        name = _called(queue)
        return name if queue == project or name != queue else mention(queue, name, ANOTHER_PROJECT)

    return called


def explain_eviction(evict: Evict, winner: str | None = None, called: Called | None = None) -> str:
    """One sentence: why this pod loses its place, and to which group; `winner` is the display name of that one."""
    reason = evict.reason
    if reason.by is Pass.STALE:
        return "its gang has lost pods that it needs and cannot continue"
    sentence = _taken(reason, winner or reason.winner, called or _called)
    if reason.moved_to is None:
        return sentence
    mark = "," if reason.by is Pass.RECLAIM else ":"  # "for WINNER: ..." goes on, the others begin anew
    if reason.restarts_with_group:
        return f"restarts on {reason.moved_to} because all pods of its gang restart together{mark} {sentence}"
    return f"moves to {reason.moved_to}{mark} {sentence}"


def _taken(reason: EvictionReason, winner: str | None, called: Called) -> str:
    if reason.by is Pass.CONSOLIDATE:
        return f"makes room for {winner}, which would not fit otherwise"
    if reason.by is Pass.PREEMPT or reason.taken is None or reason.gaining is None:
        return f"{winner} of the same project has a higher priority"
    return f"for {winner}: {_too_much(reason.taken, called)}, {_owed(reason.gaining, reason.wanted_milli, called)}"


def _called(queue: QueueId) -> str:
    name = name_of_queue(queue)
    return name if name == queue else f"department {name}"


def _too_much(figures: QueueFigures, called: Called) -> str:
    over_milli = figures.held_milli - figures.quota_milli
    if figures.quota_milli != UNLIMITED and over_milli > 0:
        return f"{called(figures.queue)} is {_gpus(over_milli)} over its quota of {gpus_text(figures.quota_milli)}"
    fair = gpus_text(figures.fair_share_milli)
    return f"{called(figures.queue)} holds {_gpus(figures.held_milli)}, its fair share is {fair}"


def _owed(figures: QueueFigures, wanted_milli: int, called: Called) -> str:
    owed_milli = min(wanted_milli, figures.quota_milli - figures.held_milli)
    if figures.quota_milli == UNLIMITED:
        owed_milli = wanted_milli
    if owed_milli > 0:
        return f"{called(figures.queue)} needs {gpus_text(owed_milli)} within its quota"
    held, fair = gpus_text(figures.held_milli), gpus_text(figures.fair_share_milli)
    return f"{called(figures.queue)} holds {held} of its fair share of {fair}"


# ---- one sentence a reason


@singledispatch
def _say(why: object, voice: Voice) -> str:
    raise AssertionError(f"no sentence for {why!r}")


@_say.register
def _(why: NotReady, voice: Voice) -> str:
    part = "" if why.pod_set == "default" else f" of {why.pod_set}"
    if why.gated:
        return f"needs {_pods(why.needs)}{part} to start; {_exist(why.exist)}, {why.gated} of them held back"
    missing = max(why.needs - why.exist, 0)
    return f"needs {_pods(why.needs)}{part} to start, but {_exist(why.exist)}: waits for {missing} more to be created"


@_say.register
def _(why: NoQueue, voice: Voice) -> str:
    if why.exists:
        return f"{name_of_queue(why.queue)} is a department and cannot run jobs itself: submit to one of its projects"
    return f"project {why.queue} does not exist, or its department does not: submit to an existing project"


@_say.register
def _(why: OverLimit, voice: Voice) -> str:
    unit, missing = why.resource, why.held + why.asked - why.limit
    raised = f"the limit is raised to {_number(why.limit + missing, unit)}"
    remedy = f"starts when {_number(missing, unit)} {_is(missing, unit)} released, or when {raised}"
    return (
        f"{_level(why.above)} {name_of_queue(why.queue)} holds {_number(why.held, unit)} of its limit of "
        f"{_amount(why.limit, unit)}, and this job requests {_number(why.asked, unit)}: "
        f"{remedy if why.asked <= why.limit else NEVER + raised}"
    )


@_say.register
def _(why: OverQuota, voice: Voice) -> str:
    unit, missing = why.resource, why.held + why.asked - why.quota
    raised = f"the quota is raised to {_number(why.quota + missing, unit)}, or the job is submitted as preemptible"
    remedy = f"starts when {_number(missing, unit)} {_is(missing, unit)} released, {raised}"
    return (
        f"non-preemptible jobs must fit within quota: in {_level(why.above)} {name_of_queue(why.queue)} "
        f"they hold {_number(why.held, unit)} of a quota of {_amount(why.quota, unit)}, and this job requests "
        f"{_number(why.asked, unit)}: {remedy if why.asked <= why.quota else NEVER + raised}"
    )


@_say.register
def _(why: NoNodeMatches, voice: Voice) -> str:
    if not why.nodes:
        return "there are no nodes in this node pool"
    causes = ", ".join(f"{cause} ({_nodes(count)})" for cause, count in why.excluded)
    none = "the only node cannot run it" if why.nodes == 1 else f"none of the {why.nodes} nodes can run it"
    return f"{none}, even when empty: {causes}; {_way_out([cause for cause, _ in why.excluded])}"


ROLE_COMMANDS = {
    NOT_A_GPU_WORKER: "set node-role --gpu-worker",
    NOT_A_CPU_WORKER: "set node-role --cpu-worker",
    SYSTEM_WORKER: "remove node-role --runai-system-worker",
}


def _way_out(causes: Sequence[str]) -> str:
    if GPUS_WITHHELD in causes:
        return "starts when they are available again"
    commands = [f"`runai-adm {command} NODE`" for cause, command in ROLE_COMMANDS.items() if cause in causes]
    if commands:
        return f"change the role of a node: {' or '.join(commands)}"
    return "change the request, or add a suitable node"


@_say.register
def _(why: Fragmented, voice: Voice) -> str:
    where = "one GPU" if why.one_device else "one node"
    each = "it" if why.pods == 1 else "each pod"
    found = "" if why.pods == 1 else f"; there is room for {why.found} of {_pods(why.pods)}"
    if why.largest_milli >= why.asked_milli and why.pods > 1:
        return (
            f"{_gpus(why.free_milli)} are free but fragmented{found}, which must start together: "
            f"starts when {gpus_text(why.asked_milli)} more are free on {where}"
        )
    if why.largest_milli >= why.asked_milli:
        return (
            f"{_gpus(why.free_milli)} are free, but no node with {gpus_text(why.asked_milli)} free has room for it: "
            "CPU, memory, pod slots or rules about other pods are in the way"
        )
    return (
        f"enough GPUs are free, but not on {where}: {_gpus(why.free_milli)} in total, at most "
        f"{gpus_text(why.largest_milli)} on {where} ({why.largest_node}), and {each} needs "
        f"{gpus_text(why.asked_milli)}{found}"
    )


@_say.register
def _(why: NoDomainFits, voice: Voice) -> str:
    if not why.domain:
        return (
            f"its {_pods(why.pods)} must run in one {why.level} ({why.topology}), and no node has all of its labels: "
            "label the nodes, or submit the job without this level"
        )
    return (
        f"its {_pods(why.pods)} must run in one {why.level}; the one with the most room, {why.domain}, "
        f"fits {why.most_in_one}: starts when another job ends there"
    )


@_say.register
def _(why: WaitsForVictims, voice: Voice) -> str:
    places = ", ".join(why.nodes)
    if not why.leaving:
        return f"is assigned to {places} and starts next"
    have = "has" if why.leaving == 1 else "have"
    return f"is assigned to {places} and starts when {_pods(why.leaving)} there {have} stopped"


@_say.register
def _(why: ProtectedVictims, voice: Voice) -> str:
    protected = "is within its minimum runtime" if why.pods == 1 else "are within their minimum runtime"
    return (
        f"may reclaim GPUs, but {_pods(why.pods)} with {_gpus(why.gpus_milli)} {protected}; "
        f"the first can be preempted {voice.clock(why.until)}"
    )


@_say.register
def _(why: NotItsTurn, voice: Voice) -> str:
    mine = why.figures
    quota = "unlimited" if mine.quota_milli == UNLIMITED else gpus_text(mine.quota_milli)
    sentence = (
        f"waits for {_gpus(why.asked_milli)}: {gpus_text(why.free_milli)} free; {voice.called(mine.queue)} holds "
        f"{gpus_text(mine.held_milli)} (quota {quota}, fair share now {gpus_text(mine.fair_share_milli)})"
    )
    if why.ahead is not None:
        theirs = why.ahead
        owed = "unlimited" if theirs.quota_milli == UNLIMITED else gpus_text(theirs.quota_milli)
        sentence += f", {voice.called(theirs.queue)} holds {gpus_text(theirs.held_milli)} (quota {owed})"
    if why.obstacle is not None:
        return f"{sentence}; {_in_the_way(why.obstacle, voice)}"
    if why.may_reclaim:
        return sentence + ": starts when GPUs that it can use are released"
    with_it = mine.held_milli + why.asked_milli
    if with_it > mine.fair_share_milli:
        sentence += (
            f"; with this job it would hold {gpus_text(with_it)}, more than its fair share, so it cannot reclaim"
        )
    return sentence + ": starts when GPUs are released or its fair share grows"


def _in_the_way(obstacle: Obstacle, voice: Voice) -> str:
    """Whose quota it is, what follows from it, and how to change that."""
    plain = name_of_queue(obstacle.queue)
    name = f"department {plain}" if obstacle.is_department else voice.called(obstacle.queue)
    update = f"runai-adm department update {plain}"
    held, quota = _number(obstacle.held, obstacle.resource), _amount(obstacle.quota, obstacle.resource)
    if obstacle.mine:
        raised = _number(obstacle.held + obstacle.asked, obstacle.resource)
        return (
            f"{name} holds {held} of its quota of {quota}, so this job would exceed the department's quota, although "
            f"not the project's: raise the department's quota to {raised}, or wait until it holds less"
        )
    if obstacle.quota != UNLIMITED:
        return (
            f"{name} holds {held} of its quota of {quota}, so what its projects hold is within quota and cannot be "
            "reclaimed: starts when GPUs are released, or when the quotas are changed"
        )
    if not obstacle.is_department:
        return (
            f"{name} has an unlimited quota, so its GPUs never count as over quota and cannot be reclaimed: starts "
            "when it releases GPUs, or when its quota is limited"
        )
    if obstacle.follows:
        return (
            f"{name} has an unlimited quota, set on it or on one of its projects, so its GPUs never count as over "
            "quota and cannot be reclaimed: limit that project's quota, or the department's with "
            f"`{update} --gpu-quota N`"
        )
    return (
        f"{name} has an unlimited quota, so its GPUs never count as over quota and cannot be reclaimed: limit it with "
        f"`{update} --gpu-quota N`, or use `--gpu-quota unset` for the sum of its projects' quotas"
    )


@_say.register
def _(why: NeverFits, voice: Voice) -> str:
    if why.asked_milli > why.gpus_milli:
        there = f"{_nodes(why.nodes)} that can run it {'has' if why.nodes == 1 else 'have'} {gpus_text(why.gpus_milli)}"
        return (
            f"cannot start on the current nodes: it needs {_gpus(why.asked_milli)} at once, and the {there} in total; "
            "request fewer, or add nodes"
        )
    return (
        f"cannot start on the current nodes: its {_pods(why.pods)} must start together, and the {_nodes(why.nodes)} "
        f"that can run them {'has' if why.nodes == 1 else 'have'} room for {why.room}, even when empty; "
        "request less, or add nodes"
    )


@_say.register
def _(why: NoRoom, voice: Voice) -> str:
    causes = ", ".join(f"{cause} ({_nodes(count)})" for cause, count in why.excluded)
    found = "" if why.pods == 1 else f"there is room for {why.found} of {_pods(why.pods)}; "
    return f"{found}no node has enough free resources: {causes}"


# ---- text


def _level(above: int) -> str:
    return "project" if above == 0 else "department"


def _gpus(milli: int) -> str:
    return f"{gpus_text(milli)} GPU" + ("" if 0 < milli <= 1000 else "s")


def _pods(count: int) -> str:
    return f"{count} pod" + ("" if count == 1 else "s")


def _exist(count: int) -> str:
    return f"{count} exists" if count == 1 else f"{count} exist"


def _is(amount: int, resource: Resource) -> str:
    """The verb that an amount takes: one GPU is, two are, memory is."""
    return "is" if resource is Resource.MEMORY or 0 < amount <= 1000 else "are"


def _nodes(count: int) -> str:
    return f"{count} node" + ("" if count == 1 else "s")


def _number(amount: int, resource: Resource) -> str:
    if resource is Resource.MEMORY:
        return f"{amount / 10**9:.3g} GB"
    return gpus_text(amount)


def _amount(amount: int, resource: Resource) -> str:
    if resource is Resource.GPU:
        return _gpus(amount)
    return _number(amount, resource) + (" CPUs" if resource is Resource.CPU else "")


def _from(now: Instant) -> Clock:
    """Moments as durations from now."""

    def text(moment: Instant) -> str:
        seconds = max(0, moment - now) // SECOND_MS
        if seconds < 120:
            return f"in {seconds} s"
        minutes = seconds // 60
        return f"in {minutes} min" if minutes < 120 else f"in {minutes // 60} h"

    return text
