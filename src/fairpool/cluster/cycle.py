"""One turn of the loop, as a function of values: what is written, declared and seen goes in, a draft comes out.

Nothing happens here. Only what changed is looked at: a workload is brought up to date when its declaration, one of its
pods, one of their nodes or the hour says so. The outcome is the same as if everything had been looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairpool.api.clusters import DesiredWorkload, PullAnswer
from fairpool.cluster.books import NO_NODES, NO_PODS, SENTENCES_S, Books, Draft
from fairpool.cluster.dependencies import Course, course_of
from fairpool.cluster.enact import enact, workload_of
from fairpool.cluster.expand import Case, expand, group_of, pod_set_of, slots_of
from fairpool.cluster.grace_period import noticed, within
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.outstanding import adopted, outstanding
from fairpool.cluster.rollup import rollup
from fairpool.cluster.settle import Look, settle
from fairpool.cluster.survey import Survey, ground, pool_of, rows_of
from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, PoolName, WorkloadId, pod_id
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint, TaintEffect
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    ObservedPod,
    OrderResult,
    PodState,
    StartOrder,
    StopOrder,
)
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import RestartPolicy, WorkloadSpec
from fairpool.scheduler.decision import Verdict
from fairpool.scheduler.plan import next_pool, plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

LOST_NUMBERS = 1000
"""Incarnations that are skipped when a ledger was lost: more than any pod can have lived without being reported."""
POOL_PATIENCE_S = 1
"""How soon a workload tries the next pool of its list."""

Watcher = Callable[[PoolName, Snapshot], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the loop brings to a cycle, beside the books."""

    now: Instant
    observation: Observation
    pulled: PullAnswer | None = None
    answers: Mapping[PodId, OrderResult] = field(default_factory=dict)
    """To the orders of the turn before, except those that were simply done."""
    policy: Policy = field(default_factory=Policy.product)
    recovered: bool = False
    """The ledger was lost and this is the first look of a new one."""


def cycle(books: Books, view: View, watch: Watcher | None = None) -> Draft:
    """One turn."""
    draft = Draft(books, view.now, view.observation)
    declared = _take_in(draft, view)  # 1. what is declared
    moved = _look_at_nodes(draft, view)
    adopted_by = _adopt(draft, view)  # 2. what runs that we did not know of
    touched = _touched(draft, view, declared | moved | adopted_by)
    touched = _bring_all_up_to_date(draft, view, touched)  # 3. what has happened, and who should exist
    decided = _decide(draft, view, watch)  # 4. who goes where
    decided |= _refresh_sentences(draft)
    decided |= _give_notice(draft, touched | decided)  # 5. how long those who leave have
    _report(draft, touched | decided)  # 6. what people are told
    _owe(draft, view, touched | decided | books.unswept)  # 7. what the engine has to do
    _clear_away(draft, touched | books.unswept)
    return draft


# --- 1. what is declared -------------------------------------------------------------------------------------------


def _take_in(draft: Draft, view: View) -> set[WorkloadId]:
    """New declarations; the answer is everybody they concern."""
    pulled = view.pulled
    if pulled is None:
        return set()
    draft.cursor = pulled.revision
    concerned: set[WorkloadId] = set()
    known = {wanted.id for wanted in pulled.workloads} | draft.books.specs.keys()
    for wanted in pulled.workloads:
        spec = wanted.to_spec()
        if draft.books.specs.get(spec.id) == spec:
            continue
        draft.specs[spec.id] = spec
        concerned.add(spec.id)
        if spec.id not in draft.books.standings:
            over = wanted.over
            halt = None
            if over is not None and over.run == spec.run:
                halt = Halt(over.phase, over.cause, Instant(over.at), over.detail)
            first = LOST_NUMBERS + max(wanted.incarnations.values(), default=0) if view.recovered else 0
            # It would have been reported as failed if one of those that are gone had not met what it waited for.
            met = tuple(each.workload for each in spec.after if view.recovered and each.workload not in known)
            standing = WorkloadState(workload=spec.id, run=spec.run, halt=halt, first_incarnation=first, met=met)
            draft.put_standing(standing)
            if view.recovered:
                draft.put_lives(spec.id, tuple(_remembered(spec, wanted, index, view.now) for index in wanted.done))
    removed = {WorkloadId(each) for each in pulled.removed}
    if pulled.whole:
        removed |= draft.books.specs.keys() - {wanted.id for wanted in pulled.workloads}
    draft.undesired = {each for each in removed if each in draft.books.specs and each not in draft.specs}
    if pulled.organization is not None:
        organization = pulled.organization.to_organization()
        if organization != draft.books.organization:
            draft.organization = organization
            draft.must_plan = True
            concerned |= draft.books.lives.keys()
    return concerned | draft.undesired


def _remembered(spec: WorkloadSpec, wanted: DesiredWorkload, index: int, now: Instant) -> PodRecord:
    """A life that had ended well before the ledger was lost, as the control plane remembers it."""
    incarnation = wanted.incarnations.get(index, 0)
    return PodRecord(
        id=pod_id(spec.id, index, incarnation),
        workload=spec.id,
        index=index,
        incarnation=incarnation,
        group=group_of(spec, index),
        pod_set=pod_set_of(spec, index),
        shape=spec.template_of(index).shape,
        run=spec.run,
        phase=PodPhase.ENDED,
        since=now,
        born_at=now,
        outcome=Outcome.OK,
        cause=Cause.EXITED,
        detail="it completed before the ledger was lost",
    )


def _look_at_nodes(draft: Draft, view: View) -> set[WorkloadId]:
    """Whoever has a pod on a node that looks different from last time."""
    last = draft.books.observation
    before = last.nodes if last is not None else NO_NODES
    now = view.observation.nodes
    if now is before and draft.organization is None:
        return set()
    changed = {name for name in now.keys() | before.keys() if now.get(name) is not before.get(name)}
    if not changed and draft.organization is None and last is not None:
        return set()
    draft.ground = ground(now, draft.charter)
    draft.must_plan = True
    return {
        workload
        for workload, lives in draft.books.lives.items()
        if any(life.node in changed and not life.is_over for life in lives)
    }


# --- 2. what runs that we did not know of --------------------------------------------------------------------------


def _adopt(draft: Draft, view: View) -> set[WorkloadId]:
    """Lives that the engine knows and the ledger does not: taken over if they are wanted, else sent away.

    One that is over by the ledger and runs all the same is told to stop with the others (`outstanding.py`); here it is
    only seen to that nobody is placed on its devices before it has.
    """
    candidates = {pod for pod, _ in _changed_pods(draft, view) if _is_orphan(draft, pod)} | draft.orphans
    draft.orphans = set()
    taken: set[WorkloadId] = set()
    for pod in sorted(candidates):
        observed = view.observation.pods.get(pod)
        if observed is None or not _is_orphan(draft, pod):
            continue
        order = observed.order
        if draft.workload_of(pod) is not None:
            if observed.state is not PodState.EXITED:
                draft.orphans.add(pod)
                _keep_place(draft, order)
            continue
        if _is_wanted(draft, observed):
            draft.put_lives(order.workload, (*draft.lives_of(order.workload), adopted(order, view.now)))
            draft.events.append(
                Event(at=view.now, kind=EventKind.ADOPTED, workload=order.workload, pod=pod, node=order.node)
            )
            taken.add(order.workload)
            continue
        draft.orphans.add(pod)
        if observed.state is PodState.EXITED:
            draft.orders.append(ForgetOrder(pod=pod, node=order.node))
            continue
        _keep_place(draft, order)
        grace_s = within(draft.charter.graces, order.grace_s, hurried=True)
        if draft.books.stops_confirmed.get(pod, grace_s + 1) > grace_s:
            draft.orders.append(
                StopOrder(pod=pod, node=order.node, grace_s=grace_s, reason="its workload no longer exists")
            )
    draft.intruders = frozenset(pod.id for rows in draft.intruder_rows for pod in rows.pods)
    draft.must_plan |= draft.intruders != draft.books.intruders
    return taken


def _is_orphan(draft: Draft, pod: PodId) -> bool:
    """Whether the ledger does not know this life, or knows that it is over."""
    workload = draft.workload_of(pod)
    return workload is None or any(life.id == pod and life.is_over for life in draft.lives_of(workload))


def _keep_place(draft: Draft, order: StartOrder) -> None:
    """Until it has left, the scheduler counts with it."""
    leaving = adopted(order, draft.now).release(draft.now, Cause.UNWANTED)
    draft.intruder_rows.append(rows_of(None, WorkloadState(workload=order.workload), (leaving,), draft.now))


def _is_wanted(draft: Draft, observed: ObservedPod) -> bool:
    """Its workload is declared and knows of no later life of the same pod, nor of one that is not over."""
    order = observed.order
    spec = draft.spec(order.workload)
    if spec is None or order.run > spec.run:
        return False
    return not any(
        life.index == order.index and (life.incarnation >= order.incarnation or not life.is_over)
        for life in draft.lives_of(order.workload)
    )


def _changed_pods(draft: Draft, view: View) -> Iterator[tuple[PodId, ObservedPod | None]]:
    before = draft.books.observation.pods if draft.books.observation is not None else NO_PODS
    now = view.observation.pods
    if now is before:
        return
    for pod, observed in now.items():
        if before.get(pod) is not observed:
            yield pod, observed
    for pod in before.keys() - now.keys():
        yield pod, None


# --- 3. what has happened, and who should exist --------------------------------------------------------------------


def _touched(draft: Draft, view: View, concerned: set[WorkloadId]) -> set[WorkloadId]:
    """Every workload about which something may be different."""
    books = draft.books
    if books.observation is None:
        return concerned | books.specs.keys() | books.lives.keys()
    pods = {pod for pod, _ in _changed_pods(draft, view)} | view.answers.keys()
    touched = concerned | {owner for owner in map(draft.workload_of, pods) if owner is not None}
    touched |= {workload for workload, wake in books.wakes.items() if wake <= view.now}
    return touched | {workload for workload in books.owing if _waits_for_absence(books, workload)}


def _waits_for_absence(books: Books, workload: WorkloadId) -> bool:
    return any(
        life.phase is PodPhase.RELEASING and life.id in books.stops_confirmed for life in books.lives.get(workload, ())
    )


def _look(draft: Draft, view: View, life: PodRecord) -> Look:
    return Look(
        view.observation.pods.get(life.id),
        view.observation.nodes.get(life.node) if life.node is not None else None,
        view.answers.get(life.id),
        life.id in draft.books.stops_confirmed,
        draft.books.stops_confirmed.get(life.id, 0),
    )


def _bring_all_up_to_date(draft: Draft, view: View, touched: set[WorkloadId]) -> set[WorkloadId]:
    """These, then those that wait for one of them, and so on; the answer is all of them."""
    everybody, due = set(touched), touched
    while due:
        for workload in sorted(due):
            _bring_up_to_date(draft, view, workload)
        over = {each for each in due if course_of(draft.spec(each), draft.standing(each)) is not Course.OPEN}
        due = draft.waiting_for(over)
        everybody |= due
    return everybody


def _bring_up_to_date(draft: Draft, view: View, workload: WorkloadId) -> None:
    now = view.now
    spec = draft.spec(workload)
    before = draft.lives_of(workload)
    lives = tuple(settle(life, _look(draft, view, life), now) for life in before)
    ended = tuple(new for new, old in zip(lives, before, strict=True) if new.is_over and not old.is_over)
    rules = draft.charter.rules.get(spec.project, ProjectRules()) if spec is not None else ProjectRules()
    expansion = expand(
        Case(
            spec=spec,
            standing=draft.standing(workload),
            lives=lives,
            ended=ended,
            rules=rules,
            drains=lambda node: _drains(draft, node),
            courses=lambda other: course_of(draft.spec(other), draft.standing(other)),
        ),
        now,
    )
    _note_halt(draft, workload, expansion.standing)
    draft.put_lives(workload, expansion.lives)
    draft.put_standing(expansion.standing)
    draft.wakes[workload] = expansion.wake_at
    draft.put_rows(workload, rows_of(spec, expansion.standing, expansion.lives, now, pools=draft.pools))
    draft.looked_at.add(workload)
    if expansion.gone and spec is not None:
        draft.gone[workload] = spec.run


def _drains(draft: Draft, node: NodeName) -> tuple[Taint, ...]:
    observed = draft.observation.nodes.get(node)
    taints = observed.node.taints if observed is not None else ()
    marks = draft.charter.marks.get(node)
    if marks is not None:
        taints += marks.taints
    return tuple(taint for taint in taints if taint.effect is TaintEffect.NO_EXECUTE)


def _note_halt(draft: Draft, workload: WorkloadId, standing: WorkloadState) -> None:
    before = draft.standing(workload)
    if standing.run != before.run:
        draft.events.append(Event(at=draft.now, kind=EventKind.RESUMED, workload=workload))
    if standing.halt is not None and standing.halt != before.halt:
        halt = standing.halt
        draft.events.append(
            Event(
                at=draft.now,
                kind=EventKind.HALTED,
                workload=workload,
                cause=halt.cause.value,
                detail=f"{halt.phase.value}: {halt.detail}" if halt.detail else halt.phase.value,
            )
        )


# --- 4. who goes where ---------------------------------------------------------------------------------------------


def _decide(draft: Draft, view: View, watch: Watcher | None) -> set[WorkloadId]:
    """Ask the scheduler, pool by pool, and write its answer into the draft. The answer: whose lives changed."""
    books = draft.books
    if not draft.must_plan and (books.quiet_until is None or view.now < books.quiet_until):
        return set()
    if draft.must_plan:
        draft.rounds = {}
    survey = Survey(
        now=view.now,
        ground=draft.ground,
        organization=draft.charter,
        rows=(*draft.all_rows(), *draft.intruder_rows),
        policy=view.policy,
    )
    decided: set[WorkloadId] = set()
    verdicts: dict[GroupId, Verdict] = {}
    quiet: list[Instant] = []
    for pool, snapshot in survey.snapshots().items():
        if watch is not None:
            watch(pool, snapshot)
        answer = plan(snapshot)
        draft.plans[pool] = answer
        verdicts.update(answer.verdicts)
        changed = enact(draft, snapshot, answer)
        decided |= changed
        if changed:
            quiet.append(view.now)  # what was decided may make the next decision possible
        elif answer.quiet_until is not None:
            quiet.append(answer.quiet_until)
    decided |= _said_otherwise(draft, verdicts)
    draft.verdicts = verdicts
    moved_on = _try_other_pools(draft, view.now)
    decided |= moved_on
    quiet += [Instant(view.now + POOL_PATIENCE_S * SECOND_MS)] * bool(moved_on)
    draft.quiet_until = min(quiet, default=None)
    return decided


def _said_otherwise(draft: Draft, verdicts: Mapping[GroupId, Verdict]) -> set[WorkloadId]:
    """Workloads that wait for another reason than before, or not any more.

    That the numbers in a reason have moved on is told less often: they do so for everybody with every pod that starts.
    """
    before = draft.books.verdicts
    changed, moved_on = set(), set()
    for group in verdicts.keys() | before.keys():
        new, old = verdicts.get(group), before.get(group)
        if new is None or old is None or type(new.why) is not type(old.why):
            changed.add(workload_of(group))
        elif new.why != old.why:
            moved_on.add(workload_of(group))
    draft.stale_sentences |= moved_on
    return changed


def _refresh_sentences(draft: Draft) -> set[WorkloadId]:
    """Everybody whose reason holds old numbers, once in a while."""
    due_at = Instant(draft.books.sentences_at + SENTENCES_S * SECOND_MS)
    if not draft.stale_sentences or draft.now < due_at:
        return set()
    refreshed, draft.stale_sentences = draft.stale_sentences, set()
    draft.sentences_at = draft.now
    return refreshed


def _try_other_pools(draft: Draft, now: Instant) -> set[WorkloadId]:
    """Workloads that name several pools move on to the next after a verdict on all that waits, once round."""
    waiting: dict[WorkloadId, list[Verdict]] = {}
    for group, verdict in draft.verdicts.items():
        waiting.setdefault(workload_of(group), []).append(verdict)
    moved = set()
    for workload, verdicts in waiting.items():
        spec = draft.spec(workload)
        if spec is None or len(spec.pools) < 2 or draft.rounds.get(workload, 0) >= len(spec.pools):
            continue
        standing = draft.standing(workload)
        known = tuple(pool for pool in spec.pools if pool in draft.pools)
        here = pool_of(spec, standing, draft.pools)
        there = {next_pool(known, here, verdict) for verdict in verdicts}
        if here in there or len(there) != 1:
            continue
        draft.rounds[workload] = draft.rounds.get(workload, 0) + 1
        standing = replace(standing, pool=there.pop())
        draft.put_standing(standing)
        draft.rows[workload] = rows_of(spec, standing, draft.lives_of(workload), now, pools=draft.pools)
        moved.add(workload)
    return moved


# --- 5. how long those who leave have ------------------------------------------------------------------------------


def _give_notice(draft: Draft, concerned: set[WorkloadId]) -> set[WorkloadId]:
    """Cut the graces of those who leave to what they may have. The answer: whose lives changed.

    Whoever leaves in its own time has less of it once its place is promised to work of another project within its
    share; so this looks at everybody who leaves, and not only at those with whom something has happened.
    """
    graces = draft.charter.graces
    leaving: dict[WorkloadId, list[PodRecord]] = {}
    for workload in sorted(draft.books.owing | concerned):
        found = [life for life in draft.lives_of(workload) if life.phase is PodPhase.RELEASING]
        if found:
            leaving[workload] = found
    slow = [life for lives in leaving.values() for life in lives if life.grace_s > graces.eviction_s]
    owed = _owed_places(draft, slow) if slow else {}
    changed = set()
    for workload in leaving:
        before = draft.lives_of(workload)
        after = noticed(before, draft.spec(workload), graces, owed)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            draft.put_lives(workload, after)
            changed.add(workload)
    return changed


def _owed_places(draft: Draft, leaving: Sequence[PodRecord]) -> dict[PodId, str]:
    """Those of the leaving lives in whose place work of another project may be, and the words for it."""
    owed: dict[PodId, str] = {}
    for answer in (draft.plans or draft.books.plans).values():
        within_share = {each.queue for each in answer.queues if each.held_milli <= each.fair_share_milli}
        for promise in answer.promises:
            winner = draft.spec(workload_of(promise.group))
            if winner is None or winner.project not in within_share:
                continue
            others = [life for life in leaving if life.node == promise.node and _is_foreign(draft, life, winner)]
            on_devices = [life for life in others if set(life.devices) & set(promise.devices)]
            # Where its devices are free it waits for cores or memory, and for whoever holds them there.
            for life in on_devices or others:
                owed[life.id] = "its place is reserved for another project"
    return owed


def _is_foreign(draft: Draft, life: PodRecord, winner: WorkloadSpec) -> bool:
    spec = draft.spec(life.workload)
    return spec is None or spec.project != winner.project


# --- 7. what the engine has to do ----------------------------------------------------------------------------------


def _owe(draft: Draft, view: View, concerned: set[WorkloadId]) -> None:
    owing = set()
    for workload in sorted(draft.books.owing | concerned):
        spec = draft.spec(workload)
        lives = draft.lives_of(workload)
        unfinished = {life.index: life.incarnation for life in reversed(lives) if not life.is_over}
        for life in lives:
            observed = view.observation.pods.get(life.id)
            if life.phase in (PodPhase.BOUND, PodPhase.RELEASING) or (life.is_over and observed is not None):
                owing.add(workload)
                order = outstanding(
                    life,
                    spec,
                    _look(draft, view, life),
                    alone=unfinished.get(life.index, life.incarnation) >= life.incarnation,
                    reported=spec is None or (workload in draft.books.reported and workload not in draft.levels),
                    now=view.now,
                    graces=draft.charter.graces,
                )
                if order is not None:
                    draft.orders.append(order)
    draft.owing = owing


# --- 6. what people are told ---------------------------------------------------------------------------------------


def _report(draft: Draft, concerned: set[WorkloadId]) -> None:
    for workload in sorted(concerned):
        spec = draft.spec(workload)
        if spec is None:
            continue
        level = rollup(
            spec,
            draft.standing(workload),
            draft.lives_of(workload),
            verdicts=draft.verdicts,
            nodes=draft.observation.nodes,
            pools=draft.pools,
            now=draft.now,
        )
        if level != draft.books.levels.get(workload):
            draft.levels[workload] = level


def _clear_away(draft: Draft, touched: set[WorkloadId]) -> None:
    """Earlier lives that everybody knows the end of, and workloads of which nothing is left."""
    pods = draft.observation.pods
    for workload in touched | draft.undesired:
        spec = draft.spec(workload)
        lives = draft.lives_of(workload)
        if spec is None:
            if all(life.is_over and life.id not in pods for life in lives):
                draft.dropped.add(workload)
            continue
        if workload not in draft.books.reported or workload in draft.levels:
            continue
        needed = _needed(spec, lives)
        old = {life.id for life in lives if life.id not in needed and life.is_over and life.id not in pods}
        if old:
            draft.forgotten |= old
            draft.lives[workload] = tuple(life for life in lives if life.id not in old)


def _needed(spec: WorkloadSpec, lives: Sequence[PodRecord]) -> set[PodId]:
    """Of each pod the life that has done its work, else the latest, whose number must not be used again."""
    comes_back = spec.restart_rule.restart is RestartPolicy.ALWAYS
    done = {} if comes_back else {life.index: life for life in lives if life.outcome is Outcome.OK}
    return {life.id for life in (slots_of(lives) | done).values()}
