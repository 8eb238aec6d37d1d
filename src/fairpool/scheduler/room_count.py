"""Counting of room: how many equal pods with whole devices fit once victims have left.

Simulating after each victim would cost a simulation for each. For such pods it can be counted when a node has room for
one more: attempts that cannot succeed are left out, and `gang_proposal.py` finds all victims of a gang at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.columns import COMING, STAYING
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.trial import Trial


def room(placer: Placer, shape: int) -> int:
    """How many pods of a shape find room without any victim."""
    columns = placer.columns
    if placer.index(shape).best() is None:
        return 0
    nothing = Freed(placer.trial)
    return sum(nothing.copies(columns.facts[shape], node) for _, _, node in placer.index(shape).entries())


class RoomCount:
    """Counts the places that victims make for pods of one shape."""

    def __init__(self, placer: Placer, shape: int, recorded: Iterable[int] = ()) -> None:
        self.trial = placer.trial
        self.columns = placer.columns
        self.facts = placer.columns.facts[shape]
        self.allowed = placer.fit.node_set(shape)
        self.taken = Freed(self.trial)
        self.began_with = self.places = room(placer, shape)
        """Places that there are with what is taken."""
        self.offered = Freed(self.trial)
        """Everything, taken or not."""
        self.pods_of: dict[int, list[int]] = {}
        """By group, what was offered and not taken."""
        self.groups_on: dict[int, dict[int, None]] = {}
        self.scattered: set[int] = set()
        """Groups with pods on several nodes."""
        self._take(tuple(recorded))
        for pod in recorded:
            self.offered.add(pod)

    def offer(self, group: int, unit: Sequence[int]) -> list[int]:
        """Note one more unit; returns the nodes that it is on."""
        nodes: set[int] = set()
        for pod in unit:
            node = self.trial.place(pod)[0]
            self.offered.add(pod)
            self.groups_on.setdefault(node, {})[group] = None
            nodes.add(node)
        others = self.pods_of.setdefault(group, [])
        if len(nodes) > 1 or any(self.trial.place(pod)[0] not in nodes for pod in others):
            self.scattered.add(group)
        others.extend(unit)
        return sorted(nodes)

    def pods_around(self, node: int) -> list[int]:
        """What was offered by the groups that have something on a node."""
        return [pod for group in self.groups_on[node] for pod in self.pods_of[group]]

    def gain(self, node: int) -> int:
        """Places made by taking all that was offered around a node."""
        if self.scattered.isdisjoint(self.groups_on[node]):
            if node not in self.allowed:
                return 0
            return self.offered.copies(self.facts, node) - self.taken.copies(self.facts, node)
        before = self.places
        pods = self.pods_around(node)
        self._take(pods)
        gain = self.places - before
        self._take(pods, -1)
        return gain

    def take_around(self, node: int) -> list[int]:
        """Take what was offered around a node."""
        pods = self.pods_around(node)
        self.take(pods)
        return pods

    def take(self, pods: Sequence[int]) -> None:
        """Take pods that were offered."""
        self._take(pods)
        for group in {self.columns.group_of[pod] for pod in pods}:
            for pod in self.pods_of.pop(group, []):
                self.groups_on[self.trial.place(pod)[0]].pop(group, None)

    def _take(self, pods: Sequence[int], sign: int = 1) -> None:
        nodes = sorted({self.trial.place(pod)[0] for pod in pods} & self.allowed)
        self.places -= sum(self.taken.copies(self.facts, each) for each in nodes)
        for pod in pods:
            self.taken.add(pod, sign)
        self.places += sum(self.taken.copies(self.facts, each) for each in nodes)


class Freed:
    """What nodes would have if some pods left."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.columns = trial.columns
        self.amounts: dict[int, list[int]] = {}
        """By node: whole devices, CPU, memory, pod slots."""
        self.shared: dict[int, dict[int, int]] = {}
        """By node and shared device: memory."""

    def add(self, pod: int, sign: int = 1) -> None:
        columns = self.columns
        node, devices = self.trial.place(pod)
        facts = columns.facts[columns.shape_of[pod]]
        amounts = self.amounts.setdefault(node, [0, 0, 0, 0])
        amounts[0] += sign * facts.whole
        amounts[1] += sign * facts.cpu_milli
        amounts[2] += sign * facts.memory_bytes
        amounts[3] += sign
        for device in devices:
            freed = self.shared.setdefault(node, {})
            freed[device] = freed.get(device, 0) + sign * facts.occupied_mib(columns.nodes.device_mib[node])

    def copies(self, facts: ShapeFacts, node: int) -> int:
        """How many pods that take whole devices would find room on a node."""
        nodes = self.columns.nodes
        _, cpu, memory, slots = self.amounts.get(node, (0, 0, 0, 0))
        copies = self.gpus(node) // facts.whole
        if facts.cpu_milli:
            copies = min(copies, (cpu + nodes.cpu_idle[node] + nodes.cpu_releasing[node]) // facts.cpu_milli)
        if facts.memory_bytes:
            memory += nodes.memory_idle[node] + nodes.memory_releasing[node]
            copies = min(copies, memory // facts.memory_bytes)
        if self.columns.policy.predicates:
            copies = min(copies, slots + nodes.slots_idle[node] + nodes.slots_releasing[node])
        return max(0, copies)

    def gpus(self, node: int) -> int:
        """Whole devices that a node would have to give."""
        nodes = self.columns.nodes
        freed = self.amounts[node][0] if node in self.amounts else 0
        emptied = sum(self.is_emptied(node, device) for device in self.shared.get(node, ()))
        return freed + nodes.gpus_idle[node] + nodes.gpus_releasing[node] + emptied

    def is_emptied(self, node: int, device: int) -> bool:
        """Whether all pods leave a shared device that did not count as free before, and is given out at all."""
        use = self.columns.nodes.shared[node][device]
        used = use[STAYING] + use[COMING]
        return 0 < used <= self.shared[node][device] and device not in self.columns.nodes.rows[node].gpus_withheld
