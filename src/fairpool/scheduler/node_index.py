"""Heap of the nodes where one shape fits, best first, kept up to date as nodes change.

After a placement only one node has changed, so only that node is ranked anew. Entries carry the version of the node
they were made for; an entry of another version is stale and dropped when it comes to the top.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import heapify, heappop, heappush

from fairpool.scheduler.fit import Fit
from fairpool.scheduler.score import ALIKE, Closeness, Score

Entry = tuple[float, float, int, int]
"""Rank of a node, its number (ties go by name) and its version."""


class NodeIndex:
    """The nodes for one shape, inside one set of nodes."""

    def __init__(self, fit: Fit, shape: int, nodes: Sequence[int] | None, closeness: Closeness) -> None:
        self.fit = fit
        self.facts = fit.columns.facts[shape]
        self.score = Score(fit, self.facts, closeness)
        self.nodes = fit.columns.nodes
        self.allowed = fit.nodes(shape)
        self.is_allowed = fit.node_set(shape)
        if nodes is not None:
            self.is_allowed = self.is_allowed.intersection(nodes)
            self.allowed = sorted(self.is_allowed)
        self.heap: list[Entry] = []
        self._rebuild()

    def best(self, among: Container[int] | None = None) -> int | None:
        """The best node, or the best among some."""
        self._catch_up()
        heap, version = self.heap, self.nodes.version
        aside: list[Entry] = []
        found = None
        while heap:
            node = heap[0][2]
            if heap[0][3] != version[node]:
                heappop(heap)
            elif among is None or node in among:
                found = node
                break
            else:
                aside.append(heappop(heap))
        for entry in aside:
            heappush(heap, entry)
        return found

    def entries(self) -> list[tuple[float, float, int]]:
        """Rank and number of every node where the shape fits."""
        self._catch_up()
        version = self.nodes.version
        self.heap = sorted(entry for entry in set(self.heap) if entry[3] == version[entry[2]])
        return [entry[:3] for entry in self.heap]

    def _rebuild(self) -> None:
        self.heap = [entry for node in self._promising() if (entry := self._entry(node)) is not None]
        heapify(self.heap)
        self._read = len(self.nodes.changes)

    def _promising(self) -> list[int]:
        """A quick filter that leaves out most nodes of a full cluster."""
        idle, releasing, whole = self.nodes.gpus_idle, self.nodes.gpus_releasing, self.facts.whole
        allowed = self.is_allowed
        if self.facts.shared:
            return [node for node in self.fit.with_free_gpus(shared_too=True) if node in allowed]
        if not whole:
            return self.allowed
        return [node for node in self.fit.with_free_gpus() if idle[node] + releasing[node] >= whole and node in allowed]

    def _catch_up(self) -> None:
        changes = self.nodes.changes
        fresh = len(changes) - self._read
        if not fresh:
            return
        changed = changes[self._read :] if fresh == 1 else list(dict.fromkeys(changes[self._read :]))
        if fresh > len(self.allowed) + 16 and 2 * len(changed) > len(self.allowed):
            self._rebuild()
            return
        self._read = len(changes)
        for node in changed:
            if node in self.is_allowed:
                entry = self._entry(node)
                if entry is not None:
                    heappush(self.heap, entry)

    def _entry(self, node: int) -> Entry | None:
        if not self.fit.amounts_fit(self.facts, node):
            return None
        points, placement = self.score.rank(node)
        return points, placement, node, self.nodes.version[node]


class CandidateNodes:
    """Nodes to try a group on, and how close each is to where most of it should go."""

    def __init__(
        self, nodes: Sequence[int], closeness: Closeness = ALIKE, *, is_part: bool = False, is_limited: bool = False
    ) -> None:
        self.nodes = nodes
        self.closeness = closeness
        self.is_part = is_part
        """A part of a topology, small or ranked in its own way, so that it has indexes of its own."""
        self.members: frozenset[int] | None = frozenset(nodes) if is_part or is_limited else None
        """None: all nodes."""
        self._indexes: dict[int, NodeIndex] = {}

    def contains(self, node: int) -> bool:
        return self.members is None or node in self.members

    def index(self, fit: Fit, shape: int) -> NodeIndex:
        """The nodes of this set for one shape."""
        known = self._indexes.get(shape)
        if known is None:
            known = self._indexes[shape] = NodeIndex(fit, shape, self.nodes, self.closeness)
        return known
