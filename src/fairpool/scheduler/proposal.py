"""Victims proposed by counting: how many must go, and which, so that a gang of equal pods finds room.

Simulating after each victim would cost a simulation for each; for pods that take whole devices it can be counted when
a node has room for one more. What is proposed here is then simulated once, with all the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairpool.scheduler.board import COMING, STAYING
from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.victims import VictimWalk


def can_propose(placer: Placer, group: int, chunk: Sequence[int]) -> bool:
    """Whether counting tells when a chunk fits: equal pods that take whole devices, and not all of them fit now."""
    board = placer.board
    shape = board.shape_of[chunk[0]]
    facts = board.facts[shape]
    if not board.is_plain[group] or not facts.whole or facts.others:
        return False
    if any(board.shape_of[pod] != shape or placer.fit.is_particular(pod) for pod in chunk):
        return False
    return _room(placer, shape) < len(chunk)


def _room(placer: Placer, shape: int) -> int:
    """How many pods of a shape find room without any victim."""
    board = placer.board
    none = _Freed(placer.trial)
    return sum(none.copies(board.facts[shape], node) for _, _, node in placer.index(shape).entries())


def propose(placer: Placer, chunk: Sequence[int], walk: VictimWalk) -> list[int] | None:
    """Victims, in order, so that there is room for a chunk; None if all that may be taken is not enough."""
    board, trial = placer.board, placer.trial
    shape = board.shape_of[chunk[0]]
    count = _Count(trial, board.facts[shape], set(placer.fit.nodes(shape)))
    missing = len(chunk) - _room(placer, shape)
    while missing > 0:
        given = walk.pop()
        if given is None:
            return None
        walk.take(*given)
        missing -= count.offer(*given)
    return count.victims


class _Count:
    """Counts the places that victims free, and keeps those that make one."""

    def __init__(self, trial: Trial, facts: ShapeFacts, allowed: set[int]) -> None:
        self.trial = trial
        self.facts = facts
        self.allowed = allowed
        self.victims: list[int] = []
        self.taken = _Freed(trial)
        self.offered = _Freed(trial)
        """Everything, taken or not."""
        self.pods_of: dict[int, list[int]] = {}
        """By group, what was offered and not taken."""
        self.groups_on: dict[int, dict[int, None]] = {}
        self.scattered: set[int] = set()
        """Groups with pods on several nodes."""

    def offer(self, group: int, unit: Sequence[int]) -> int:
        """One more unit; returns how many places it makes together with what was offered before on its nodes."""
        self.pods_of.setdefault(group, []).extend(unit)
        for pod in unit:
            node = self.trial.place(pod)[0]
            self.offered.add(pod)
            self.groups_on.setdefault(node, {})[group] = None
        nodes = sorted({self.trial.place(pod)[0] for pod in self.pods_of[group]})
        if len(nodes) > 1:
            self.scattered.add(group)
        for node in sorted({self.trial.place(pod)[0] for pod in unit}):
            gain = self._gain(node)
            if gain > 0:
                return gain
        return 0

    def _gain(self, node: int) -> int:
        """Places made by taking all groups offered on a node; they are taken if there are any."""
        groups = self.groups_on[node]
        if self.scattered.isdisjoint(groups):
            if node not in self.allowed:
                return 0
            if self.offered.copies(self.facts, node) <= self.taken.copies(self.facts, node):
                return 0
        pods = [pod for group in groups for pod in self.pods_of[group]]
        nodes = sorted({self.trial.place(pod)[0] for pod in pods} & self.allowed)
        before = sum(self.taken.copies(self.facts, each) for each in nodes)
        for pod in pods:
            self.taken.add(pod)
        gain = sum(self.taken.copies(self.facts, each) for each in nodes) - before
        if gain > 0:
            self._keep(groups, pods)
        else:
            for pod in pods:
                self.taken.add(pod, -1)
        return gain

    def _keep(self, groups: Iterable[int], pods: Sequence[int]) -> None:
        self.victims += pods
        for group in list(groups):
            for pod in self.pods_of.pop(group):
                self.groups_on[self.trial.place(pod)[0]].pop(group, None)


class _Freed:
    """What nodes would have if some pods left."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.board = trial.board
        self.amounts: dict[int, list[int]] = {}
        """By node: whole devices, CPU, memory, pod slots."""
        self.shared: dict[int, dict[int, int]] = {}
        """By node and shared device: memory."""

    def add(self, pod: int, sign: int = 1) -> None:
        board = self.board
        node, seats = self.trial.place(pod)
        facts = board.facts[board.shape_of[pod]]
        amounts = self.amounts.setdefault(node, [0, 0, 0, 0])
        amounts[0] += sign * facts.whole
        amounts[1] += sign * facts.cpu_milli
        amounts[2] += sign * facts.memory_bytes
        amounts[3] += sign
        for seat in seats:
            freed = self.shared.setdefault(node, {})
            freed[seat] = freed.get(seat, 0) + sign * facts.occupied_mib(board.nodes.device_mib[node])

    def copies(self, facts: ShapeFacts, node: int) -> int:
        """How many pods that take whole devices would find room on a node."""
        nodes = self.board.nodes
        gpus, cpu, memory, slots = self.amounts.get(node, (0, 0, 0, 0))
        gpus += nodes.gpus_idle[node] + nodes.gpus_releasing[node] + self._emptied(node)
        copies = gpus // facts.whole
        if facts.cpu_milli:
            copies = min(copies, (cpu + nodes.cpu_idle[node] + nodes.cpu_releasing[node]) // facts.cpu_milli)
        if facts.memory_bytes:
            memory += nodes.memory_idle[node] + nodes.memory_releasing[node]
            copies = min(copies, memory // facts.memory_bytes)
        if self.board.policy.predicates:
            copies = min(copies, slots + nodes.slots_idle[node] + nodes.slots_releasing[node])
        return max(0, copies)

    def _emptied(self, node: int) -> int:
        """Shared devices that everybody leaves and that did not count as free before."""
        freed = self.shared.get(node)
        if not freed:
            return 0
        emptied = 0
        for seat, mib in freed.items():
            device = self.board.nodes.shared[node][seat]
            used = device[STAYING] + device[COMING]
            emptied += 0 < used <= mib
        return emptied
