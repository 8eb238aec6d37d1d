"""Validation of a snapshot: what is wrong with it, and a version that can safely be planned.

Rows come from outside, and one bad row must not stop a cluster. What cannot be trusted is left out or clamped so that
the plan errs on the safe side: nothing is placed on it or for it, and what it holds stays held. Rows that are the same
objects as before are not looked at again, unless something they depend on has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.model.node import Node, Topology
from fairpool.model.organization import Queue, oversubscribed_parents
from fairpool.model.problem import Problem
from fairpool.model.workload import Claim, Pod, PodGroup
from fairpool.scheduler.numbering import differences
from fairpool.scheduler.pod_validation import HAS_A_PLACE, PodsOnNodes, PodValidation, Unusual
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.row_validation import (
    rooted,
    sound_claims,
    sound_group,
    sound_node,
    sound_policy,
    sound_queue,
    unique,
)
from fairpool.scheduler.snapshot import Snapshot

Row = TypeVar("Row")
Id = TypeVar("Id", bound=Hashable)

PodsOf = Callable[[Collection[GroupId]], Iterable[PodId]]
"""Finds the pods that were planned in some groups."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CleanRows:
    """The rows of a snapshot as they can safely be planned, and what is wrong with them.

    The rows that differ from those of the snapshot cleaned before are listed as well.
    """

    snapshot: Snapshot
    policy: Policy
    nodes: Mapping[NodeName, Node] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()
    groups: Mapping[GroupId, PodGroup] = field(default_factory=dict)
    orphans: Mapping[GroupId, PodGroup] = field(default_factory=dict)
    """Groups made for pods that hold something and whose own does not exist."""
    given: Mapping[PodId, Pod] = field(default_factory=dict)
    """Pods as they were given; those that are not planned like that are the unusual ones."""
    unusual: Mapping[PodId, Unusual] = field(default_factory=dict)
    on_node: PodsOnNodes = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    topologies: tuple[Topology, ...] = ()
    problems: tuple[Problem, ...] = ()
    node_problems: Mapping[NodeName, tuple[Problem, ...]] = field(default_factory=dict)
    group_problems: Mapping[GroupId, tuple[Problem, ...]] = field(default_factory=dict)
    lost_groups: Mapping[GroupId, tuple[Problem, ...]] = field(default_factory=dict)
    """Groups whose queue cannot hold them."""
    crowded: Mapping[NodeName, tuple[Problem, ...]] = field(default_factory=dict)
    has_doubles: bool = False
    """Several rows had the same id: then nothing of it is taken over."""

    fresh_nodes: Mapping[NodeName, Node] = field(default_factory=dict)
    touched_nodes: Collection[NodeName] = ()
    """Nodes that are fresh, or have other pods than before."""
    fresh_groups: Mapping[GroupId, PodGroup] = field(default_factory=dict)
    gone_groups: Collection[GroupId] = ()
    fresh_pods: Mapping[PodId, Pod] = field(default_factory=dict)
    gone_pods: Collection[PodId] = ()


def check(snapshot: Snapshot) -> list[Problem]:
    """Everything that is wrong with a snapshot, and what looks like a mistake."""
    return [*clean(snapshot).problems, *oversubscribed_parents(snapshot.queues)]


def clean(snapshot: Snapshot) -> CleanRows:
    """The snapshot as it can safely be planned."""
    rows = _Cleaning(snapshot, CleanRows(snapshot=Snapshot(now=snapshot.now), policy=snapshot.policy)).run(lambda _: ())
    if rows is not None:
        return rows
    doubles: list[Problem] = []
    single = replace(
        snapshot,
        nodes=tuple(unique(snapshot.nodes, "node", lambda row: row.name, doubles)),
        groups=tuple(unique(snapshot.groups, "group", lambda row: row.id, doubles)),
        pods=tuple(unique(snapshot.pods, "pod", lambda row: row.id, doubles)),
    )
    rows = clean(single)
    return replace(rows, has_doubles=True, problems=tuple(sorted([*rows.problems, *doubles])))


def clean_again(snapshot: Snapshot, previous: CleanRows, pods_of: PodsOf) -> CleanRows | None:
    """The same, looking only at what changed; None if several rows have one id."""
    return _Cleaning(snapshot, previous).run(pods_of)


class _Cleaning:
    """From the clean rows of one snapshot to those of another."""

    def __init__(self, snapshot: Snapshot, before: CleanRows) -> None:
        self.snapshot = snapshot
        self.before = before

    def run(self, pods_of: PodsOf) -> CleanRows | None:
        """None if several rows have one id."""
        snapshot, before = self.snapshot, self.before
        problems: list[Problem] = []
        policy = sound_policy(snapshot.policy, problems)
        unique_queues = unique(snapshot.queues, "queue", lambda row: row.id, problems)
        queues = tuple(rooted([sound_queue(row, problems) for row in unique_queues], problems))
        claims = tuple(sound_claims(unique(snapshot.claims, "claim", lambda row: row.id, problems), problems))
        topologies = tuple(unique(snapshot.topologies, "topology", lambda row: row.name, problems))
        nodes = _Sounding(before.nodes, before.node_problems, sound_node)
        nodes.follow(before.snapshot.nodes, snapshot.nodes, lambda row: row.name)
        groups = _Sounding(before.groups, before.group_problems, sound_group)
        groups.follow(before.snapshot.groups, snapshot.groups, lambda row: row.id)
        pods = _PodChanges(before, nodes, groups)
        pods.follow(snapshot.pods, pods_of)
        counts = (len(nodes.rows), len(groups.rows), len(pods.given))
        if counts != (len(snapshot.nodes), len(snapshot.groups), len(snapshot.pods)):
            return None
        looked = pods.look()
        lost = self._lost_groups(queues, groups)
        crowded = _applied(before.crowded, pods.touched, looked.crowded)
        for found in (nodes.problems, groups.problems, lost, crowded):
            problems += (problem for each in found.values() for problem in each)
        problems += (problem for unusual in looked.unusual.values() for problem in unusual.problems)
        orphans_changed = {each for each, row in before.orphans.items() if looked.orphans.get(each) != row}
        orphans_fresh = {each: row for each, row in looked.orphans.items() if before.orphans.get(each) != row}
        return CleanRows(
            snapshot=snapshot,
            policy=policy,
            nodes=nodes.rows,
            queues=queues,
            groups=groups.rows,
            orphans=looked.orphans,
            given=pods.given,
            unusual=looked.unusual,
            on_node=pods.on_node,
            claims=claims,
            topologies=topologies,
            problems=tuple(sorted(problems)),
            node_problems=nodes.problems,
            group_problems=groups.problems,
            lost_groups=lost,
            crowded=crowded,
            fresh_nodes=nodes.fresh,
            touched_nodes=pods.touched,
            fresh_groups={**groups.fresh, **orphans_fresh},
            gone_groups={*groups.gone, *orphans_changed},
            fresh_pods=pods.fresh_rows(looked),
            gone_pods=pods.gone_rows(looked),
        )

    def _lost_groups(
        self, queues: Collection[Queue], groups: _Sounding[GroupId, PodGroup]
    ) -> Mapping[GroupId, tuple[Problem, ...]]:
        is_same_tree = tree_of(queues) == tree_of(self.before.queues)
        looked_at = groups.fresh if is_same_tree else groups.rows
        known = {queue.id for queue in queues}
        leaves = known - {queue.parent for queue in queues if queue.parent is not None}
        found: dict[GroupId, tuple[Problem, ...]] = {}
        for group in looked_at.values():
            if group.queue not in leaves:
                why = f"queue {group.queue}, which " + (
                    "has queues below it" if group.queue in known else "does not exist"
                )
                problem = Problem("group.queue", f"group {group.id} is in {why}", "submit it to a project")
                found[group.id] = (problem,)
        return _applied(self.before.lost_groups, groups.gone, found) if is_same_tree else found


def tree_of(queues: Iterable[Queue]) -> dict[QueueId, QueueId | None]:
    """Which queues there are, and where each belongs."""
    return {queue.id: queue.parent for queue in queues}


class _Sounding(Generic[Id, Row]):
    """Rows that are sound by themselves or made so, followed from one snapshot to the next."""

    def __init__(
        self,
        rows: Mapping[Id, Row],
        problems: Mapping[Id, tuple[Problem, ...]],
        sound: Callable[[Row, list[Problem]], Row],
    ) -> None:
        self.rows = rows
        self.problems = problems
        self.fresh: Mapping[Id, Row] = {}
        self.gone: Collection[Id] = ()
        self._sound = sound

    def follow(self, before: Sequence[Row], now: Sequence[Row], name: Callable[[Row], Id]) -> None:
        old, new = differences(before, now)
        found: dict[Id, tuple[Problem, ...]] = {}
        fresh: dict[Id, Row] = {}
        for row in new:
            problems: list[Problem] = []
            fresh[name(row)] = self._sound(row, problems)
            if problems:
                found[name(row)] = tuple(problems)
        self.gone = {name(row) for row in old}
        self.fresh = fresh
        self.rows = _applied(self.rows, self.gone, fresh)
        self.problems = _applied(self.problems, self.gone, found)


class _PodChanges:
    """Which pods have to be looked at, and what comes of it."""

    def __init__(
        self, before: CleanRows, nodes: _Sounding[NodeName, Node], groups: _Sounding[GroupId, PodGroup]
    ) -> None:
        self.before = before
        self.nodes = nodes
        self.groups = groups
        self.given: Mapping[PodId, Pod] = before.given
        self.on_node: PodsOnNodes = before.on_node
        self.touched: set[NodeName] = set(nodes.fresh)
        self._new: Mapping[PodId, Pod] = {}
        self._gone: set[PodId] = set()
        self._look_at: dict[PodId, Pod] = {}

    def follow(self, pods: Sequence[Pod], pods_of: PodsOf) -> None:
        """Pods that changed, that depend on what changed, and that are unusual; and all others on their nodes."""
        before = self.before
        old, new = differences(before.snapshot.pods, pods)
        self._gone = {pod.id for pod in old}
        self._new = {pod.id: pod for pod in new}
        self.given = given = _applied(before.given, self._gone, self._new)
        other_sets = {
            group
            for group in self.groups.gone
            if group not in self.groups.fresh or self.groups.fresh[group].tree != before.groups[group].tree
        }
        again = {each: given[each] for each in (*before.unusual, *pods_of(other_sets)) if each in given}
        self._look_at = {**again, **self._new}
        for pod in (*old, *self._look_at.values()):
            if pod.node is not None and pod.phase in HAS_A_PLACE:
                self.touched.add(pod.node)
        self.on_node = _on_nodes(before.on_node, old, self._new)
        for node in self.touched if before.given else ():
            for each in self.on_node.get(node, ()):
                self._look_at[each] = given[each]

    def look(self) -> PodValidation:
        validation = PodValidation(self.nodes.rows, self.groups.rows)
        validation.look_at(self._look_at[each] for each in sorted(self._look_at))
        return validation

    def fresh_rows(self, looked: PodValidation) -> Mapping[PodId, Pod]:
        """Pods that are planned with another row than before."""
        if not self.before.given:
            return looked.rows
        return {
            each: row
            for each, row in looked.rows.items()
            if each in self._new or ((was := self._row_before(each)) is not row and was != row)
        }

    def gone_rows(self, looked: PodValidation) -> Collection[PodId]:
        """Pods that are no longer planned, or with another row."""
        return self._gone.union(each for each in self._look_at if each not in looked.rows)

    def _row_before(self, each: PodId) -> Pod | None:
        unusual = self.before.unusual.get(each)
        return self.before.given.get(each) if unusual is None else unusual.row


def _on_nodes(before: PodsOnNodes, old: Iterable[Pod], new: Mapping[PodId, Pod]) -> PodsOnNodes:
    """Pods by node, after some have gone and others come."""
    gone: dict[NodeName, set[PodId]] = {}
    fresh: dict[NodeName, list[PodId]] = {}
    for pod in old:
        if pod.node is not None and pod.phase in HAS_A_PLACE:
            gone.setdefault(pod.node, set()).add(pod.id)
    for pod in new.values():
        if pod.phase in HAS_A_PLACE and pod.node is not None:
            if pod.node in fresh:
                fresh[pod.node].append(pod.id)
            else:
                fresh[pod.node] = [pod.id]
    now = {
        node: tuple(sorted([*(each for each in before.get(node, ()) if each not in gone.get(node, ())), *coming]))
        for node, coming in fresh.items()
    }
    for node in gone.keys() - fresh.keys():
        now[node] = tuple(each for each in before[node] if each not in gone[node])
    return _applied(
        before, [node for node, pods in now.items() if not pods], {n: pods for n, pods in now.items() if pods}
    )


def _applied(before: Mapping[Id, Row], gone: Collection[Id], fresh: Mapping[Id, Row]) -> Mapping[Id, Row]:
    """Rows by id, after some have gone and others come."""
    if not gone and not fresh:
        return before
    if not before:
        return fresh
    rows = dict(before)
    for each in gone:
        rows.pop(each, None)
    rows.update(fresh)
    return rows
