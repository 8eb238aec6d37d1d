"""Placement of a chunk of pods: all of them or none.

Sub-groups nest: a child only sees the nodes chosen for its parent. Siblings are not tried again; if one finds no
place, the parent moves on to its next set of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.model.workload import PodSet, SubGroup
from fairpool.scheduler import gate
from fairpool.scheduler.chunk import set_order
from fairpool.scheduler.columns import LEAVING, RELEASING, STAYING
from fairpool.scheduler.decision import WithdrawReason
from fairpool.scheduler.fit import Fit, Room
from fairpool.scheduler.free_gpus import FreeGpus
from fairpool.scheduler.node_index import CandidateNodes, NodeIndex
from fairpool.scheduler.policy import ScoreTerm
from fairpool.scheduler.score import ALIKE, Rank, Score
from fairpool.scheduler.topology import node_sets
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.waiting_groups import WaitingGroups


class Placer:
    """Places pods in one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.columns = trial.columns
        self.fit = Fit(trial)
        self.free = FreeGpus(trial)
        self.winners: set[int] = set()
        """Groups for which pods are or were evicted; what they got is not taken from them in the same plan."""
        self.withdrawn: dict[int, WithdrawReason] = {}
        self.expired: set[int] = set()
        """Groups that waited too long for a promise: they may start now, but get no other promise in this plan."""
        self.indexes: dict[int, NodeIndex] = {}
        self.waiting = WaitingGroups(trial, self.fit, self.expired)
        self.everywhere = CandidateNodes(range(len(self.columns.nodes.rows)))

    def place(self, group: int, chunk: Sequence[int], among: CandidateNodes | None = None, *, now: bool) -> bool:
        """Place a chunk on some nodes (all of them by default), or nothing.

        With `now`, pods that fit what is idle are bound and the others promised; without it all are promised.
        """
        among = among or self.everywhere
        if not self.columns.is_plain[group]:
            return self._place_below(self.columns.groups[group].tree, group, chunk, among, now)
        mark = self.trial.mark()
        for pod in chunk:
            if not self._place_pod(pod, among, now):
                self.trial.undo(mark)
                return False
        return True

    def _place_below(self, tree: SubGroup, group: int, chunk: Sequence[int], outer: CandidateNodes, now: bool) -> bool:
        names = {pod_set.name for pod_set in tree.all_pod_sets()}
        mine = [pod for pod in chunk if self.columns.pods[pod].pod_set in names]
        if not mine:
            return True
        sets = [self.columns.set_number(group, name) for name in sorted(names)]
        for inner in node_sets(self.trial, tree.constraint, sets, mine, outer):
            mark = self.trial.mark()
            if self._place_parts(tree, group, mine, inner, now):
                return True
            self.trial.undo(mark)
        return False

    def _place_parts(self, tree: SubGroup, group: int, chunk: Sequence[int], inner: CandidateNodes, now: bool) -> bool:
        for child in sorted(tree.groups, key=lambda each: each.name):
            if not self._place_below(child, group, chunk, inner, now):
                return False
        pod_sets = {self.columns.set_number(group, pod_set.name): pod_set for pod_set in tree.pod_sets}
        return all(
            self._place_set(pod_sets[number], number, chunk, inner, now)
            for number in set_order(self.columns, group)
            if number in pod_sets
        )

    def _place_set(self, pod_set: PodSet, number: int, chunk: Sequence[int], outer: CandidateNodes, now: bool) -> bool:
        mine = [pod for pod in chunk if self.columns.set_of[pod] == number]
        if not mine:
            return True
        for inner in node_sets(self.trial, pod_set.constraint, [number], mine, outer):
            mark = self.trial.mark()
            if all(self._place_pod(pod, inner, now) for pod in mine):
                return True
            self.trial.undo(mark)
        return False

    def place_on(self, pod: int, node: int, devices: tuple[int, ...]) -> bool:
        """Place one pod on one node, on these shared devices if it can be, bound if it fits now."""
        among = CandidateNodes((node,), is_part=True)
        if self._best(pod, among) is None:
            return False
        room = self.fit.room_on_devices(pod, node, devices) or self.fit.room_on(pod, node)
        self._settle(pod, node, room, now=True)
        return True

    def place_anywhere(self, pod: int) -> bool:
        """Promise one pod a place on any node."""
        return self._place_pod(pod, self.everywhere, now=False)

    def has_no_room(self, pod: int) -> bool:
        """Whether no node has room for a pod of this shape, limits, affinity and claims aside."""
        return self.index(self.columns.shape_of[pod]).best() is None

    def has_idle_place(self, pod: int) -> bool:
        """Whether the place that a pod is promised is idle now."""
        columns = self.columns
        node, devices = columns.promise_node[pod], columns.promise_devices[pod]
        facts = columns.facts[columns.shape_of[pod]]
        claims = columns.pods[pod].claims
        if not self.fit.amounts_fit_now(facts, node) or (claims and not self.trial.claims.is_free(claims, node)):
            return False
        fresh = sum(not self._is_shared(node, device) for device in devices)
        if fresh > columns.nodes.gpus_idle[node]:
            return False
        mib = columns.nodes.device_mib[node]
        return all(
            mib - columns.nodes.shared[node][device][STAYING] - columns.nodes.shared[node][device][LEAVING]
            >= facts.occupied_mib(mib)
            for device in devices
        )

    def _is_shared(self, node: int, device: int) -> bool:
        use = self.columns.nodes.shared[node][device]
        return bool(use[STAYING] or use[LEAVING])

    def _place_pod(self, pod: int, among: CandidateNodes, now: bool) -> bool:
        node = self._best(pod, among)
        if node is None:
            return False
        self._settle(pod, node, self.fit.room_on(pod, node), now)
        return True

    def _settle(self, pod: int, node: int, room: Room, now: bool) -> None:
        trial, columns = self.trial, self.columns
        if (
            trial.is_evicted(pod)
            and columns.hold_node[pod] == node
            and set(room.devices) == set(columns.hold_devices[pod])
        ):
            trial.restore(pod)
        elif now and room.now and columns.hold[pod] != RELEASING:
            trial.bind(pod, node, room.devices)
        else:
            trial.promise(pod, node, room.devices)

    def _best(self, pod: int, among: CandidateNodes) -> int | None:
        """The best node for a pod among some, ties by name."""
        columns = self.columns
        if self.fit.is_particular(pod):
            return self._best_one_by_one(pod, among)
        if columns.policy.predicates and columns.nodes.names and not gate.pod_passes(columns, pod, 0):
            return None
        shape = columns.shape_of[pod]
        nominated = self._nominated(pod, shape)
        if nominated is not None and among.contains(nominated):
            return nominated
        if among.is_part:
            return among.index(self.fit, shape).best()
        # A node without a free GPU takes no pod that needs one, so being left out changes nothing for those.
        return self.index(shape).best(None if columns.facts[shape].on_gpus else among.members)

    def index(self, shape: int) -> NodeIndex:
        """All nodes for one shape."""
        index = self.indexes.get(shape)
        if index is None:
            index = self.indexes[shape] = NodeIndex(self.fit, shape, None, ALIKE)
        return index

    def _nominated(self, pod: int, shape: int) -> int | None:
        name = self.columns.pods[pod].nominated
        node = self.columns.nodes.index.get(name) if name is not None else None
        if node is None or ScoreTerm.NOMINATED not in self.columns.policy.score_terms:
            return None
        fits = node in self.fit.nodes(shape) and self.fit.amounts_fit(self.columns.facts[shape], node)
        return node if fits else None

    def _best_one_by_one(self, pod: int, among: CandidateNodes) -> int | None:
        shape = self.columns.shape_of[pod]
        score = Score(self.fit, self.columns.facts[shape], among.closeness, pod)
        nominated = self.columns.pods[pod].nominated
        best: tuple[bool, Rank, int] | None = None
        for node in self.fit.nodes(shape):
            if among.contains(node) and self.fit.room(pod, node) is not None:
                rank = (self.columns.nodes.names[node] != nominated, score.rank(node), node)
                if best is None or rank < best:
                    best = rank
        return best and best[2]
