"""Losses: what queues may lose to a taker by the rules of reclaim, as far as counting shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fairpool.scheduler.chunk import chunk_need
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.queues import CPU, GPU, MEMORY, QueueTable, Vector, diverging_ancestors, minus, plus, within

Amounts = Sequence[Vector] | Mapping[int, Vector]
"""By queue."""


class Losses:
    """What may be lost to one group at most, so that what cannot be enough need not be tried.

    Each unit that is lost must leave a side that still holds more than it should, so a side loses less than its excess
    and one more unit. What is neither lost nor free cannot be gained: victims that move take up other room instead.
    """

    def __init__(self, placer: Placer, taker: int) -> None:
        self.columns = placer.columns
        self.trial = placer.trial
        self.queue = placer.columns.queue_of[taker]
        self.free_milli = placer.free.milli()
        self.can_count = not placer.free.is_overcommitted
        """Not where nodes hold more than they have."""

    def could_do(self, chunk: Sequence[int], victims: Sequence[int]) -> bool:
        """Whether the rules could allow so much to be lost that a chunk finds room. Only whole GPUs are counted."""
        columns = self.columns
        if not self.can_count or not all(is_whole(columns, pod) for pod in (*chunk, *victims)):
            return True
        need = chunk_need(columns, chunk)
        missing = need[GPU] - self.free_milli
        if missing <= 0:
            return True
        units: dict[int, dict[int, float]] = {}
        for pod in victims:
            group = columns.group_of[pod]
            of_side = units.setdefault(diverging_ancestors(columns.queues, self.queue, columns.queue_of[group])[1], {})
            of_side[group] = of_side.get(group, 0) + columns.placed_need(pod, self.trial.place(pod)[0])[GPU]
        return missing <= sum(self._most(side, of_side.values(), need) for side, of_side in units.items())

    def shield(self, chunk: Sequence[int]) -> Callable[[int], bool] | None:
        """Tells for a leaf queue whether groups of it with whole devices may not be lost to a chunk at all.

        None where something else than such losses may make room.
        """
        columns, queues = self.columns, self.columns.queues
        need = chunk_need(columns, chunk)
        if not self.can_count or need[GPU] <= self.free_milli or not all(is_whole(columns, pod) for pod in chunk):
            return None
        known: dict[int, bool] = {}

        def is_shielded(leaf: int) -> bool:
            side = diverging_ancestors(queues, self.queue, leaf)[1]
            answer = known.get(side)
            if answer is None:
                answer = known[side] = not self._most(side, (need[GPU],), need)
            return answer

        return is_shielded

    def _most(self, side: int, units: Collection[float], need: Vector) -> float:
        queues = self.columns.queues
        mine = queues.path[self.queue][len(queues.path[side]) - 1]
        bounds = queues.allocatable(side)
        if within(plus(queues.held[mine], need), queues.quota[mine]):
            bounds = [min(pair) for pair in zip(bounds, queues.quota[side], strict=True)]
        excess = minus(queues.held[side], bounds)
        if excess[CPU] > 0 or excess[MEMORY] > 0:
            return sum(units)
        return min(sum(units), excess[GPU] + max(units)) if excess[GPU] > 0 else 0


def is_whole(columns: Columns, pod: int) -> bool:
    """Whether a pod takes whole devices, and no others by a claim."""
    return columns.facts[columns.shape_of[pod]].whole > 0 and not columns.pods[pod].claims


def is_owed_by(queues: QueueTable, queue: int, other: int, need: Vector) -> bool:
    """Whether, as things are now, a queue that asks for so much may take anything from another."""
    mine, theirs = diverging_ancestors(queues, queue, other)
    return unit_is_justified(queues, mine, theirs, need, queues.held, queues.held)


def unit_is_justified(queues: QueueTable, mine: int, theirs: int, need: Vector, held: Amounts, left: Amounts) -> bool:
    """The victim's side is above what it may hold; or the taker's stays within quota and the victim's is above its."""
    if not within(left[theirs], queues.allocatable(theirs)):
        return True
    return within(plus(held[mine], need), queues.quota[mine]) and not within(left[theirs], queues.quota[theirs])
