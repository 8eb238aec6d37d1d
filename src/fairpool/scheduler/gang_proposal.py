"""All victims of a gang at once, by counting: a shortcut of the search that solves for one pod after the other.

The search pod by pod simulates once for each pod; a proposal is simulated once. It is only made where both find the
same victims, which takes that

- the pods are equal, find no room without victims, and each victim group is lost as a whole and from one node;
- no victim gets its own place back when only some of the pods are solved for: whatever is left of its node beside them
  is less than it needs (`Spare`);
- the gang comes before all victims in the simulation, however many pods it is solved for (`comes_first`).

Rules then hold for fewer pods and victims if they hold for all of them, except limits, which `Solver` checks for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.chunk import chunk_need
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.order import queue_precedence
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.queues import NONE, Vector, diverging_ancestors
from fairpool.scheduler.room_count import Freed, RoomCount
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.victim_line import VictimLines


@dataclass(slots=True)
class Proposal:
    """Victims that would make room for all pods of a gang."""

    steps: list[tuple[list[int], int]] = field(default_factory=list)
    """Victims that are taken together, and how many pods there is room for then."""
    passed_over: list[int] = field(default_factory=list)
    """Pods that were offered and not taken."""

    @property
    def victims(self) -> list[int]:
        return [pod for pods, _ in self.steps for pod in pods]


def propose(placer: Placer, shape: int, pods: int, line: VictimLines) -> Proposal | None:
    """Victims, in order, so that so many pods of a shape find room where none did; None if counting does not show it.

    Without any steps, all that may be taken is not enough.
    """
    columns = placer.columns
    count, proposal = RoomCount(placer, shape), Proposal()
    spare = Spare(placer.trial, columns.facts[shape])
    offered: dict[int, None] = {}
    if count.places:
        return None
    place = 0
    while count.places < pods:
        given = line.unit(place)
        if given is None:
            return Proposal()
        place += 1
        group, unit = given.group, given.pods
        nodes = count.offer(group, unit)
        if len(nodes) > 1 or not _is_lost_as_a_whole(columns, group, unit):
            return None
        offered |= dict.fromkeys(unit)
        gain = count.gain(nodes[0])
        if gain > 0:
            victims = count.take_around(nodes[0])
            if not spare.is_too_little(victims, nodes[0], count.taken, gain):
                return None
            proposal.steps.append((victims, count.places))
    for pod in proposal.victims:
        del offered[pod]
    proposal.passed_over = list(offered)
    return proposal


def _is_lost_as_a_whole(columns: Columns, group: int, unit: Sequence[int]) -> bool:
    """Whether a group gives all it has in one unit, and is nothing but these pods to the simulation."""
    sets, numbers = columns.sets, columns.sets_of[group]
    return (
        columns.is_plain[group]
        and len(unit) == sum(sets.active[number] for number in numbers)
        and all(sets.active[number] <= sets.minimum[number] and not sets.waiting[number] for number in numbers)
    )


class Spare:
    """What the nodes of victims have left beside the pods that they make room for.

    Solving for fewer pods than there is room for leaves more, on any of the nodes: each may then have that many pods
    less than it has room for.
    """

    def __init__(self, trial: Trial, facts: ShapeFacts) -> None:
        self.trial = trial
        self.columns = trial.columns
        self.facts = facts
        self.smallest: dict[int, int] = {}
        """By node, the fewest devices that one of its victims needs."""
        self.tolerated: int | None = None
        """How many pods less than there is room for every node so far may have; None before the first."""

    def is_too_little(self, victims: Iterable[int], node: int, taken: Freed, gain: int) -> bool:
        """Whether, with these victims, no victim so far finds its own place again for any smaller number of pods."""
        for pod in victims:
            devices = self._devices(pod, node, taken)
            if devices is None:
                return False
            self.smallest[node] = min(devices, self.smallest.get(node, devices))
        left = taken.gpus(node) - taken.copies(self.facts, node) * self.facts.whole
        tolerated = (self.smallest[node] - 1 - left) // self.facts.whole
        self.tolerated = tolerated if self.tolerated is None else min(tolerated, self.tolerated)
        return gain - 1 <= self.tolerated

    def _devices(self, pod: int, node: int, taken: Freed) -> int | None:
        """How many devices, at least, a victim needs free to get its place back; None: it may need none."""
        facts = self.columns.facts[self.columns.shape_of[pod]]
        if facts.whole:
            return facts.whole
        devices = self.trial.place(pod)[1]
        return 1 if devices and all(taken.is_emptied(node, device) for device in devices) else None


def comes_first(columns: Columns, group: int, chunk: Sequence[int], victims: Sequence[int], passed: set[int]) -> bool:
    """Whether a gang that came first with all these victims also does with any fewer, and fewer of its own pods.

    To be asked when they are evicted; `passed` are leaf queues of other groups that came before it. In its own queue
    the order does not depend on amounts. From other sides of the queue tree, its own side is no later with fewer pods,
    and theirs are no earlier with fewer victims, if all of them part from it at one level.
    """
    queues, queue = columns.queues, columns.queue_of[group]
    by_group: dict[int, list[int]] = {}
    for pod in victims:
        by_group.setdefault(columns.group_of[pod], []).append(pod)
    elsewhere = [pods for each, pods in by_group.items() if columns.queue_of[each] != queue]
    if not elsewhere:
        return True
    least: dict[int, Vector] = {}
    sides = set()
    for pods in elsewhere:
        side, theirs = diverging_ancestors(queues, queue, columns.queue_of[columns.group_of[pods[0]]])
        sides.add(side)
        need = chunk_need(columns, pods)
        least[theirs] = tuple(map(min, need, least.get(theirs, need)))
    mine = sides.pop()
    if sides or len(elsewhere) < len(by_group) or any(mine in queues.path[leaf] for leaf in passed):
        return False
    if not columns.policy.fair_order:
        return all((queues.created_at[mine], mine) < (queues.created_at[theirs], theirs) for theirs in least)
    first = queue_precedence(queues, columns.policy, mine, chunk_need(columns, chunk), NONE)
    return all(first < queue_precedence(queues, columns.policy, theirs, need, NONE) for theirs, need in least.items())
