"""Ranking of many sibling queues in a heap, so that finding the one to serve next does not compare them all.

The comparison of queues is not transitive in general: equal precedences are decided by size, and sizes need not be
comparable. Where they are, it is a total order, and a heap finds what scanning the siblings would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from fairpool.scheduler.order import Precedence
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import QueueTable, within

ABSENT = -1
SIBLINGS_MIN = 16
"""Fewer siblings than this are scanned."""

Key = tuple[Precedence | None, int]
"""The precedence of a queue, and its place among queues of equal precedence."""


def ties(queues: QueueTable, policy: Policy, siblings: Sequence[int]) -> dict[int, int] | None:
    """By queue, its place among siblings of equal precedence: smaller first, then older; None: they are no line."""
    if not policy.fair_order:
        ranked = sorted(siblings, key=lambda queue: (queues.created_at[queue], queue))
        return {queue: place for place, queue in enumerate(ranked)}
    ranked = sorted(siblings, key=lambda queue: (tuple(queues.allocatable(queue)), queues.created_at[queue], queue))
    if not all(within(queues.allocatable(one), queues.allocatable(other)) for one, other in pairwise(ranked)):
        return None
    return {queue: place for place, queue in enumerate(ranked)}


class SiblingRanking:
    """Siblings that have a group, best first; each is ranked again only after it changed."""

    def __init__(self, siblings: Iterable[int], place: dict[int, int], precedence: Callable[[int], Precedence | None]):
        self.changed: set[int] = set(siblings)
        self._place = place
        self._precedence = precedence
        self._keys: dict[int, Key] = {}
        self._heap: list[tuple[Key, int]] = []

    def best(self, has_group: Callable[[int], bool]) -> int:
        """The queue to serve next; ABSENT if none has a group."""
        keys, heap = self._keys, self._heap
        for queue in self.changed:
            key = (self._precedence(queue), self._place[queue]) if has_group(queue) else None
            if key is None:
                keys.pop(queue, None)
            elif keys.get(queue) != key:
                keys[queue] = key
                heappush(heap, (key, queue))
        self.changed.clear()
        while heap and keys.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][1] if heap else ABSENT
