"""Giving places to the pods of a chunk: all of them or none.

Sub-groups nest: a child only sees the nodes chosen for its parent. There is no going back among siblings; if one finds
no place, the parent moves on to its next set of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.model.workload import PodSet, SubGroup
from fairpool.scheduler import gate
from fairpool.scheduler.board import LEAVING, RELEASING, STAYING
from fairpool.scheduler.chunk import set_order
from fairpool.scheduler.decision import WithdrawReason
from fairpool.scheduler.fit import Fit, Room
from fairpool.scheduler.free import FreeGpus
from fairpool.scheduler.index import NodeIndex, NodeSet
from fairpool.scheduler.policy import ScoreTerm
from fairpool.scheduler.score import ALIKE, Rank, Score
from fairpool.scheduler.topology import node_sets
from fairpool.scheduler.trial import Trial


class Placer:
    """Places pods in one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.board = trial.board
        self.fit = Fit(trial)
        self.free = FreeGpus(trial)
        self.winners: set[int] = set()
        """Groups for which others go or went; what they got is not taken from them in the same plan."""
        self.withdrawn: dict[int, WithdrawReason] = {}
        self.expired: set[int] = set()
        """Groups that waited too long for a promise: they may start now, but get no other promise in this plan."""
        self.indexes: dict[int, NodeIndex] = {}
        self.everywhere = NodeSet(range(len(self.board.nodes.rows)))

    def place(self, group: int, chunk: Sequence[int], among: NodeSet | None = None, *, now: bool) -> bool:
        """Place a chunk on some nodes (all of them by default), or nothing.

        With `now`, pods that fit what is idle are bound and the others promised; without it all are promised.
        """
        among = among or self.everywhere
        if not self.board.is_plain[group]:
            return self._place_below(self.board.groups[group].tree, group, chunk, among, now)
        mark = self.trial.mark()
        for pod in chunk:
            if not self._place_pod(pod, among, now):
                self.trial.undo(mark)
                return False
        return True

    def _place_below(self, tree: SubGroup, group: int, chunk: Sequence[int], outer: NodeSet, now: bool) -> bool:
        names = {pod_set.name for pod_set in tree.all_pod_sets()}
        mine = [pod for pod in chunk if self.board.pods[pod].pod_set in names]
        if not mine:
            return True
        sets = [self.board.set_index[group, name] for name in sorted(names)]
        for inner in node_sets(self.trial, tree.constraint, sets, mine, outer):
            mark = self.trial.mark()
            if self._place_parts(tree, group, mine, inner, now):
                return True
            self.trial.undo(mark)
        return False

    def _place_parts(self, tree: SubGroup, group: int, chunk: Sequence[int], inner: NodeSet, now: bool) -> bool:
        for child in sorted(tree.groups, key=lambda each: each.name):
            if not self._place_below(child, group, chunk, inner, now):
                return False
        pod_sets = {self.board.set_index[group, pod_set.name]: pod_set for pod_set in tree.pod_sets}
        return all(
            self._place_set(pod_sets[number], number, chunk, inner, now)
            for number in set_order(self.board, group)
            if number in pod_sets
        )

    def _place_set(self, pod_set: PodSet, number: int, chunk: Sequence[int], outer: NodeSet, now: bool) -> bool:
        mine = [pod for pod in chunk if self.board.set_of[pod] == number]
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
        among = NodeSet((node,), is_part=True)
        if self._best(pod, among) is None:
            return False
        room = self.fit.seats_on(pod, node, devices) or self.fit.seats(pod, node)
        self._settle(pod, node, room, now=True)
        return True

    def place_anywhere(self, pod: int) -> bool:
        """Promise one pod a place on any node."""
        return self._place_pod(pod, self.everywhere, now=False)

    def has_no_room(self, pod: int) -> bool:
        """Whether no node has room for a pod of this shape, whatever limits, neighbours or claims say."""
        return self.index(self.board.shape_of[pod]).best() is None

    def has_idle_place(self, pod: int) -> bool:
        """Whether the place that a pod is promised is idle now."""
        board = self.board
        node, seats = board.promise_node[pod], board.promise_seats[pod]
        facts = board.facts[board.shape_of[pod]]
        claims = board.pods[pod].claims
        if not self.fit.amounts_fit_now(facts, node) or (claims and not self.trial.claims.is_free(claims, node)):
            return False
        fresh = sum(not self._is_shared_by_others(pod, node, seat) for seat in seats)
        if fresh > board.nodes.gpus_idle[node]:
            return False
        mib = board.nodes.device_mib[node]
        return all(
            mib - board.nodes.shared[node][seat][STAYING] - board.nodes.shared[node][seat][LEAVING]
            >= facts.occupied_mib(mib)
            for seat in seats
        )

    def _is_shared_by_others(self, pod: int, node: int, seat: int) -> bool:
        device = self.board.nodes.shared[node][seat]
        return bool(device[STAYING] or device[LEAVING])

    def _place_pod(self, pod: int, among: NodeSet, now: bool) -> bool:
        node = self._best(pod, among)
        if node is None:
            return False
        self._settle(pod, node, self.fit.seats(pod, node), now)
        return True

    def _settle(self, pod: int, node: int, room: Room, now: bool) -> None:
        trial, board = self.trial, self.board
        if trial.is_evicted(pod) and board.hold_node[pod] == node and set(room.seats) == set(board.hold_seats[pod]):
            trial.restore(pod)
        elif now and room.now and board.hold[pod] != RELEASING:
            trial.bind(pod, node, room.seats)
        else:
            trial.promise(pod, node, room.seats)

    def _best(self, pod: int, among: NodeSet) -> int | None:
        """The best node for a pod among some, ties by name."""
        board = self.board
        if self.fit.is_particular(pod):
            return self._best_one_by_one(pod, among)
        if board.policy.predicates and board.nodes.names and not gate.pod_passes(board, pod, 0):
            return None
        shape = board.shape_of[pod]
        nominated = self._nominated(pod, shape)
        if nominated is not None and among.holds(nominated):
            return nominated
        if among.is_part:
            return among.index(self.fit, shape).best()
        # A node without a free GPU takes no pod that needs one, so being left out changes nothing for those.
        return self.index(shape).best(None if board.facts[shape].on_gpus else among.members)

    def index(self, shape: int) -> NodeIndex:
        """All nodes for one shape."""
        index = self.indexes.get(shape)
        if index is None:
            index = self.indexes[shape] = NodeIndex(self.fit, shape, None, ALIKE)
        return index

    def _nominated(self, pod: int, shape: int) -> int | None:
        name = self.board.pods[pod].nominated
        node = self.board.nodes.index.get(name) if name is not None else None
        if node is None or ScoreTerm.NOMINATED not in self.board.policy.score_terms:
            return None
        fits = node in self.fit.nodes(shape) and self.fit.amounts_fit(self.board.facts[shape], node)
        return node if fits else None

    def _best_one_by_one(self, pod: int, among: NodeSet) -> int | None:
        shape = self.board.shape_of[pod]
        score = Score(self.fit, self.board.facts[shape], among.closeness)
        nominated = self.board.pods[pod].nominated
        best: tuple[bool, Rank, int] | None = None
        for node in self.fit.nodes(shape):
            if among.holds(node) and self.fit.room(pod, node) is not None:
                rank = (self.board.nodes.names[node] != nominated, score.rank(node), node)
                if best is None or rank < best:
                    best = rank
        return best and best[2]
