"""Building columns from clean rows, and from the columns of the previous snapshot.

There is one way for both: without a previous snapshot, every row is fresh. A row is looked at only if it is fresh or
depends on a row that is: the pods of a fresh group or node, the sets and nodes of pods that come or go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate

from fairpool.model.ids import ClaimId, PodId
from fairpool.model.node import Placement, TaintEffect
from fairpool.model.precedence import KindRule
from fairpool.model.workload import Claim, Pod, PodGroup, PodSet
from fairpool.scheduler.charge import Charges
from fairpool.scheduler.column_selections import follow_running_groups, select_groups, select_pods
from fairpool.scheduler.columns import NOTHING, NOWHERE, WAITS, Columns, NodeColumns
from fairpool.scheduler.initial_load import leaf_amounts, load_node, load_sets
from fairpool.scheduler.node_classes import node_classes
from fairpool.scheduler.numbering import Id, renumbered
from fairpool.scheduler.policy import DeviceChoice, Policy
from fairpool.scheduler.queues import LeafAmounts, QueueTable
from fairpool.scheduler.shape_columns import number_shapes
from fairpool.scheduler.validation import CleanRows, tree_of

DEVICE_CHOICES = {
    Placement.BINPACK: DeviceChoice.PACK,
    Placement.SPREAD: DeviceChoice.SPREAD,
    Placement.FRAGMENTATION: DeviceChoice.FRAGMENTATION,
}

FEW = 256
"""Up to so many ids are looked up by bisection, more in a table made for it."""


def build_columns(rows: CleanRows, before: Columns | None) -> Columns:
    """The columns of clean rows, given those of the rows they follow."""
    if before is None:
        charges = Charges((), rows.policy)
        nodes = NodeColumns((), charges)
        before = Columns(now=rows.snapshot.now, policy=rows.policy, charges=charges, nodes=nodes, queues=QueueTable(()))
    builder = _Builder(rows, before)
    builder.number_groups()
    builder.number_pods()
    number_shapes(builder.columns, before, builder.pods)
    builder.load()
    builder.select()
    return builder.columns


class _Builder:
    """From one set of columns to the next."""

    def __init__(self, rows: CleanRows, before: Columns) -> None:
        self.rows = rows
        self.before = before
        self.is_first = not before.nodes.rows and not before.group_ids and not before.pod_ids
        pool = rows.snapshot.pool
        charges, nodes = self._nodes()
        has_soft_taints = before.has_soft_taints
        if rows.fresh_nodes:
            has_soft_taints = any(
                taint.effect is TaintEffect.PREFER_NO_SCHEDULE for node in nodes.rows for taint in node.taints
            )
        self.columns = Columns(
            now=rows.snapshot.now,
            policy=rows.policy,
            charges=charges,
            nodes=nodes,
            queues=QueueTable(rows.queues),
            gpu_placement=pool.gpu_placement,
            cpu_placement=pool.cpu_placement,
            device_choice=rows.policy.device_choice or DEVICE_CHOICES[pool.gpu_placement],
            has_soft_taints=has_soft_taints,
            topologies={topology.name: topology for topology in rows.topologies},
            claims={claim.id: claim for claim in rows.claims},
            on_node=rows.on_node,
        )
        self.same_queues = tree_of(rows.queues) == tree_of(before.queues.rows)

    def _nodes(self) -> tuple[Charges, NodeColumns]:
        rows, before = self.rows, self.before
        if self.is_first or rows.fresh_nodes:
            charges = Charges(rows.nodes.values(), rows.policy)
            nodes = NodeColumns(rows.nodes.values(), charges)
            if not self.is_first:
                nodes.take_over(before.nodes)
            return charges, nodes
        return before.charges, before.nodes

    # ---- groups and their pod sets

    def number_groups(self) -> None:
        columns, before, fresh_rows = self.columns, self.before, self.rows.fresh_groups
        groups, columns.group_ids = renumbered(before.group_ids, self.rows.gone_groups, fresh_rows)
        self.groups = groups
        fresh = [fresh_rows[columns.group_ids[number]] for number in groups.fresh]
        columns.groups = groups.splice(before.groups, fresh)
        columns.is_plain = groups.splice(before.is_plain, map(_is_plain, fresh))
        columns.rules = groups.splice(before.rules, _rules(columns.policy, fresh))
        leaves = {
            row.id: number for number, row in enumerate(columns.queues.rows) if not columns.queues.children[number]
        }
        if self.same_queues:
            columns.queue_of = groups.splice(before.queue_of, [leaves.get(group.queue, NOWHERE) for group in fresh])
        else:
            columns.queue_of = [leaves.get(group.queue, NOWHERE) for group in columns.groups]
        self._number_sets([_pod_sets(group) for group in fresh])

    def _number_sets(self, fresh: Sequence[Sequence[PodSet]]) -> None:
        columns, before, groups = self.columns, self.before, self.groups
        self.sets = sets = groups.below(before.first_set, map(len, fresh))
        if groups.is_same:
            columns.first_set, columns.sets_of = before.first_set, before.sets_of
        elif sets.count == groups.count:
            columns.first_set, columns.sets_of = list(range(sets.count + 1)), _singles(before.singles, sets.count)
        else:
            counts = groups.splice(list(map(len, before.sets_of)), map(len, fresh))
            columns.first_set = [0, *accumulate(counts)]
            columns.sets_of = list(map(range, columns.first_set, columns.first_set[1:]))
        mine, theirs = columns.sets, before.sets
        rows = [pod_set for pod_sets in fresh for pod_set in pod_sets]
        mine.name = sets.splice(theirs.name, [row.name for row in rows])
        mine.minimum = sets.splice(theirs.minimum, [max(row.minimum, 1) for row in rows])
        owners = [number for number, pod_sets in zip(groups.fresh, fresh, strict=True) for _ in pod_sets]
        mine.group = sets.splice(groups.renumber(theirs.group), owners)
        for name in ("active", "leaving", "waiting", "gated"):
            setattr(mine, name, list(sets.splice(getattr(theirs, name), [0] * len(rows))))

    # ---- pods

    def number_pods(self) -> None:
        columns, before = self.columns, self.before
        fresh_rows = self._fresh_pods()
        pods, columns.pod_ids = renumbered(before.pod_ids, self.rows.gone_pods, fresh_rows)
        self.pods = pods
        fresh = [fresh_rows[columns.pod_ids[number]] for number in pods.fresh]
        columns.pods = pods.splice(before.pods, fresh)
        groups = numbers_of([pod.group for pod in fresh], columns.group_ids)
        columns.group_of = pods.splice(self.groups.renumber(before.group_of), groups)
        sets = [
            columns.first_set[group] if len(columns.sets_of[group]) == 1 else columns.set_number(group, pod.pod_set)
            for group, pod in zip(groups, fresh, strict=True)
        ]
        columns.set_of = pods.splice(self.sets.renumber(before.set_of), sets)
        columns.claimed_gpus = pods.splice(before.claimed_gpus, _claimed_gpus(columns.claims, fresh))
        count = len(fresh)
        columns.started_as = list(pods.splice(before.started_as, [WAITS] * count))
        columns.hold = list(pods.splice(before.hold, [NOTHING] * count))
        columns.hold_node = list(pods.splice(before.hold_node, [NOWHERE] * count))
        columns.hold_devices = list(pods.splice(before.hold_devices, [()] * count))
        columns.promise_node = list(pods.splice(before.promise_node, [NOWHERE] * count))
        columns.promise_devices = list(pods.splice(before.promise_devices, [()] * count))
        self._fill_sets()

    def _fresh_pods(self) -> Mapping[PodId, Pod]:
        """Pods that are fresh themselves, or belong to a fresh group or node."""
        before, fresh, gone = self.before, self.rows.fresh_pods, self.rows.gone_pods
        if self.is_first:
            return fresh
        again = {
            before.pod_ids[pod]: before.pods[pod]
            for group in self.groups.gone
            for number in before.sets_of[group]
            for pod in before.sets.pods[number]
        }
        for node in self.rows.fresh_nodes:
            for each in before.on_node.get(node, ()):
                pod = before.pod_number(each)
                if pod is not None:
                    again[each] = before.pods[pod]
        return {**{each: row for each, row in again.items() if each not in gone}, **fresh}

    def _fill_sets(self) -> None:
        """The pods of each set, in the order in which they are placed."""
        columns, before, pods = self.columns, self.before, self.pods
        sets, moved = self.sets, pods.moved
        columns.singles = _singles(before.singles, max(pods.count, sets.count))
        only = list(sets.splice(pods.renumber(before.sets.only_pod), [NOWHERE] * len(sets.fresh)))
        if moved is None:
            members = list(sets.splice(before.sets.pods, [()] * len(sets.fresh)))
        else:
            one_of: list[Sequence[int]] = [*columns.singles, ()]
            members = [one_of[pod] for pod in only]
            kept = sets.splice(before.sets.pods, [()] * len(sets.fresh))
            for number, pod in enumerate(only):
                if pod == NOWHERE:
                    members[number] = tuple([moved[each] for each in kept[number]])
        columns.sets.pods, columns.sets.only_pod = members, only
        fresh = set(pods.fresh)
        alone: dict[int, int] = {}
        coming: dict[int, list[int]] = {}
        for pod in pods.fresh:
            number = columns.set_of[pod]
            if number in coming:
                coming[number].append(pod)
            elif number in alone:
                coming[number] = [alone.pop(number), pod]
            elif members[number]:
                coming[number] = [pod]
            else:  # most sets have one pod
                alone[number] = pod
        left = self.sets.renumber([before.set_of[pod] for pod in pods.gone])
        for number in (*self.sets.fresh, *left):
            if 0 <= number < self.sets.count and number not in alone:
                coming.setdefault(number, [])
        for number, pod in alone.items():
            only[number], members[number] = pod, columns.singles[pod]
        order = _pod_order(columns)
        for number, here in coming.items():
            if members[number]:
                here += [pod for pod in members[number] if 0 <= pod < pods.count and pod not in fresh]
            if len(here) > 1:
                here.sort(key=order)
            only[number] = here[0] if len(here) == 1 else NOWHERE
            members[number] = columns.singles[here[0]] if len(here) == 1 else tuple(here)
        self.changed_sets: Collection[int] = {*alone, *coming}
        self.changed_groups = {*self.groups.fresh, *(columns.sets.group[number] for number in self.changed_sets)}

    # ---- what pods hold

    def load(self) -> None:
        columns, before, rows = self.columns, self.before, self.rows
        touched = {*rows.touched_nodes, *(columns.pods[pod].node for pod in self.pods.fresh)}
        if self.is_first:
            touched.intersection_update(rows.on_node)
        if touched and columns.nodes is before.nodes:
            columns.nodes = before.nodes.copy()
        nodes = columns.nodes
        number_of = self._pod_numbers(len(touched))
        has_other_pods = False
        for name in touched:
            if name is None:
                continue
            node = nodes.index.get(name)
            if node is None:
                continue
            were_there = nodes.unschedulable_pods[node] > 0
            if not self.is_first:
                nodes.empty(node)
            pods = (number_of(each) for each in rows.on_node.get(name, ()))
            load_node(columns, node, [pod for pod in pods if pod is not None])
            has_other_pods |= were_there != (nodes.unschedulable_pods[node] > 0)
        if touched:
            nodes.version, nodes.changes = [0] * len(nodes.rows), []
        if rows.fresh_nodes or has_other_pods or columns.rule_keys != before.rule_keys:
            columns.node_classes = node_classes(nodes, columns.rule_keys)
        else:
            columns.node_classes = before.node_classes
        load_sets(columns, self.changed_sets)
        columns.queues.begin_with(self._amounts(), nodes.total)

    def _pod_numbers(self, nodes: int) -> Callable[[PodId], int | None]:
        """Finds the number of a pod; None if it is not planned."""
        columns = self.columns
        if nodes > FEW:
            return dict(zip(columns.pod_ids, range(len(columns.pod_ids)), strict=True)).get
        return columns.pod_number

    def _amounts(self) -> LeafAmounts:
        columns, before = self.columns, self.before
        if self.is_first or not self.same_queues:
            return leaf_amounts(columns, range(len(columns.pods)))
        amounts = before.queues.amounts.plus(leaf_amounts(before, self.pods.gone), -1)
        return amounts.plus(leaf_amounts(columns, self.pods.fresh), +1)

    def select(self) -> None:
        """Pods and groups that matter for something that most do not matter for."""
        select_pods(self.columns, self.before, self.pods)
        select_groups(self.columns, self.before, self.groups, self.changed_groups)
        is_anew = self.is_first or not self.same_queues
        follow_running_groups(self.columns, self.before, None if is_anew else self.groups, self.changed_groups)


def _singles(known: list[range], count: int) -> list[range]:
    """For each number the range of it alone, made once and taken over."""
    return (
        known[:count]
        if len(known) >= count
        else [*known, *(range(each, each + 1) for each in range(len(known), count))]
    )


def numbers_of(wanted: Sequence[Id], ids: Sequence[Id]) -> list[int]:
    """Numbers of rows, by id."""
    if len(wanted) > FEW:
        index = dict(zip(ids, range(len(ids)), strict=True))
        return [index[each] for each in wanted]
    return [bisect_left(ids, each) for each in wanted]


def _is_plain(group: PodGroup) -> bool:
    """One pod set and no topology."""
    tree = group.tree
    return (
        len(tree.pod_sets) == 1 and not tree.groups and tree.constraint is None and tree.pod_sets[0].constraint is None
    )


def _pod_sets(group: PodGroup) -> Sequence[PodSet]:
    pod_sets = group.tree.all_pod_sets()
    return pod_sets if len(pod_sets) == 1 else sorted(pod_sets, key=lambda each: each.name)


def _rules(policy: Policy, groups: Iterable[PodGroup]) -> list[KindRule]:
    known: dict[tuple[object, ...], KindRule] = {}
    rules = []
    for group in groups:
        key = (group.kind, group.priority, group.preemptible)
        rule = known.get(key)
        if rule is None:
            rule = known[key] = policy.rule_for(group.kind, group.priority, group.preemptible)
        rules.append(rule)
    return rules


def _claimed_gpus(claims: Mapping[ClaimId, Claim], pods: Iterable[Pod]) -> list[int]:
    """GPUs that each pod has through device claims."""
    return [
        sum(claims[name].devices for name in pod.claims if name in claims and claims[name].counts_as_gpu)
        if pod.claims
        else 0
        for pod in pods
    ]


def _pod_order(columns: Columns) -> Callable[[int], tuple[bool, bool, int, int, str]]:
    """Leaders first, then by number, then by age."""

    def key(pod: int) -> tuple[bool, bool, int, int, str]:
        row = columns.pods[pod]
        if not columns.policy.pod_order:
            return (False, False, 0, row.created_at, row.id)
        return (not row.leader, row.order is None, -(row.order or 0), row.created_at, row.id)

    return key
