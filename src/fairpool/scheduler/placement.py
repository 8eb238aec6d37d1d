"""Giving places to the pods of a chunk: all of them or none.

Sub-groups nest: a child only sees the nodes chosen for its parent. There is no going back among siblings; if one finds
no place, the parent moves on to its next set of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.model.workload import PodSet, SubGroup
from fairpool.scheduler.board import RELEASING
from fairpool.scheduler.chunk import set_order
from fairpool.scheduler.fit import Fit, Room
from fairpool.scheduler.score import Score, score
from fairpool.scheduler.topology import ALIKE, Closeness, NodeSet, node_sets
from fairpool.scheduler.trial import Trial


class Placer:
    """Places pods in one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.board = trial.board
        self.fit = Fit(trial)

    def place(self, group: int, chunk: Sequence[int], nodes: Sequence[int] | None = None, *, now: bool) -> bool:
        """Place a chunk on some of these nodes (all of them by default), or nothing.

        With `now`, pods that fit what is idle are bound and the others promised; without it all are promised.
        """
        everywhere = range(len(self.board.nodes.rows)) if nodes is None else nodes
        return self._place_below(self.board.groups[group].tree, group, chunk, NodeSet(everywhere, ALIKE), now)

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
            if all(self._place_pod(pod, inner.nodes, inner.closeness, now) for pod in mine):
                return True
            self.trial.undo(mark)
        return False

    def place_on(self, pod: int, node: int) -> bool:
        """Place one pod on one node, bound if it fits now."""
        return self._place_pod(pod, (node,), ALIKE, now=True)

    def place_anywhere(self, pod: int) -> bool:
        """Promise one pod a place on any node."""
        return self._place_pod(pod, range(len(self.board.nodes.rows)), ALIKE, now=False)

    def _place_pod(self, pod: int, nodes: Sequence[int], closeness: Closeness, now: bool) -> bool:
        found = self.best(pod, nodes, closeness)
        if found is None:
            return False
        node, room = found
        trial, board = self.trial, self.board
        if trial.is_evicted(pod) and board.hold_node[pod] == node and set(room.seats) == set(board.hold_seats[pod]):
            trial.restore(pod)
        elif now and room.now and board.hold[pod] != RELEASING:
            trial.bind(pod, node, room.seats)
        else:
            trial.promise(pod, node, room.seats)
        return True

    def best(self, pod: int, nodes: Sequence[int], closeness: Closeness) -> tuple[int, Room] | None:
        """The best node for a pod among some, ties by name."""
        allowed = self.fit.nodes(pod)
        if len(nodes) < len(self.board.nodes.rows):
            among = set(nodes)
            allowed = [node for node in allowed if node in among]
        best: tuple[Score, int, Room] | None = None
        for node in allowed:
            room = self.fit.room(pod, node)
            if room is None:
                continue
            points = score(self.fit, pod, node, room, closeness)
            if best is None or points > best[0]:
                best = (points, node, room)
        return best and (best[1], best[2])
