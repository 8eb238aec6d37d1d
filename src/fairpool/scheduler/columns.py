"""The snapshot as columns, indexed in id order.

`column_builder.py` makes them from rows. Everything here that changes during a plan (idle and releasing amounts,
shared devices, what pods hold, what queues hold) is changed by `trial.py` and, for runs of equal groups, by `batch.py`,
on a copy: the columns of a prepared snapshot stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

from fairpool.model.ids import ClaimId, GroupId, Instant, NodeName, PodId
from fairpool.model.node import Node, Placement, Topology
from fairpool.model.precedence import KindRule, mig_milli
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import Claim, Pod, PodGroup, PodShape
from fairpool.scheduler.charge import Charges, ShapeFacts
from fairpool.scheduler.pod_validation import PodsOnNodes
from fairpool.scheduler.policy import DeviceChoice, Policy
from fairpool.scheduler.queues import CPU, GPU, MEMORY, QueueTable, Vector

NOWHERE = -1

# What a pod physically holds; PROMISED is the way in which it fills a place that it does not hold yet.
NOTHING, REAL, RELEASING, PROMISED = 0, 1, 2, 3

# Of a shared device: memory of pods that stay, of pods that leave, and of pods that are promised a place.
STAYING, LEAVING, COMING = REAL - 1, RELEASING - 1, PROMISED - 1

State = tuple[int, int, tuple[int, ...], int, tuple[int, ...]]
"""What a pod holds, on which node and devices; and the node and devices it is promised."""

WAITS: State = (NOTHING, NOWHERE, (), NOWHERE, ())

NODE_AMOUNTS = (
    *("cpu_idle", "memory_idle", "slots_idle", "gpus_idle"),
    *("cpu_releasing", "memory_releasing", "slots_releasing", "gpus_releasing"),
    *("unschedulable_pods", "opened", "version", "changes"),
)
"""Columns of nodes that depend on the pods there."""


class NodeColumns:
    """What is idle and what is being released on each node."""

    def __init__(self, rows: Iterable[Node], charges: Charges) -> None:
        self.rows = sorted(rows, key=lambda node: node.name)
        self.names: list[NodeName] = [node.name for node in self.rows]
        self.index: dict[NodeName, int] = {name: number for number, name in enumerate(self.names)}
        count = len(self.rows)
        self.healthy: list[bool] = [node.is_healthy for node in self.rows]
        self.device_mib: list[int] = [charges.device_mib(node) for node in self.rows]
        self.gpus: list[int] = [node.gpus - len(node.gpus_withheld) for node in self.rows]
        self.cpu_idle: list[int] = [node.cpu_milli for node in self.rows]
        self.memory_idle: list[int] = [node.memory_bytes for node in self.rows]
        self.slots_idle: list[int] = [node.pods_max for node in self.rows]
        self.gpus_idle: list[int] = list(self.gpus)
        self.cpu_releasing: list[int] = [0] * count
        self.memory_releasing: list[int] = [0] * count
        self.slots_releasing: list[int] = [0] * count
        self.gpus_releasing: list[int] = [0] * count
        names = {name for node in self.rows for name in (*node.extended, *node.mig_instances)}
        self.other_idle: dict[str, list[int]] = {
            name: [node.extended.get(name, 0) + node.mig_instances.get(name, 0) for node in self.rows]
            for name in sorted(names)
        }
        self.other_releasing: dict[str, list[int]] = {name: [0] * count for name in self.other_idle}
        self.shared: list[dict[int, list[int]]] = [{} for _ in self.rows]
        """Shared devices by number: memory staying, leaving, coming. A trial opens devices with negative numbers."""
        self.opened: list[int] = [0] * count
        """How many devices were opened for sharers whose device is not known."""
        self.unschedulable_pods: list[int] = [0] * count
        """Active pods of a kind that must not be started; MIG pods are not placed beside them."""
        self.version: list[int] = [0] * count
        """Counts the changes of a node, so that what was worked out from it can be kept."""
        self.changes: list[int] = []
        """Nodes that changed, in order; each index of nodes reads on from where it was."""
        self.total = self._total(charges)
        """Capacity of the healthy nodes, in the three resources that quotas are about."""

    def copy(self) -> NodeColumns:
        """The same, in which amounts may be changed."""
        mine = copy(self)
        for name in NODE_AMOUNTS:
            setattr(mine, name, getattr(self, name).copy())
        mine.other_idle = {name: amounts.copy() for name, amounts in self.other_idle.items()}
        mine.other_releasing = {name: amounts.copy() for name, amounts in self.other_releasing.items()}
        mine.shared = [{device: use[:] for device, use in here.items()} if here else here for here in self.shared]
        return mine

    def take_over(self, before: NodeColumns) -> None:
        """The amounts of the same nodes as they were before."""
        theirs = before.copy()
        for name in (*NODE_AMOUNTS, "other_idle", "other_releasing", "shared"):
            setattr(self, name, getattr(theirs, name))

    def empty(self, node: int) -> None:
        """A node as it is without any pod."""
        row = self.rows[node]
        self.cpu_idle[node], self.memory_idle[node], self.slots_idle[node] = (
            row.cpu_milli,
            row.memory_bytes,
            row.pods_max,
        )
        self.gpus_idle[node] = self.gpus[node]
        self.cpu_releasing[node] = self.memory_releasing[node] = 0
        self.slots_releasing[node] = self.gpus_releasing[node] = 0
        for name in self.other_idle:
            self.other_idle[name][node] = row.extended.get(name, 0) + row.mig_instances.get(name, 0)
            self.other_releasing[name][node] = 0
        self.shared[node] = {}
        self.opened[node] = self.unschedulable_pods[node] = 0

    def shared_devices(self, node: int) -> Iterable[list[int]]:
        """What is on the shared devices of a node that are schedulable."""
        withheld = self.rows[node].gpus_withheld
        if not withheld:
            return self.shared[node].values()
        return [use for device, use in self.shared[node].items() if device not in withheld]

    def fill(self, facts: ShapeFacts, node: int, devices: tuple[int, ...], how: int, sign: int) -> None:
        """Staying pods use up what is idle, leaving ones too, but that is being released; promised ones use up that.

        `sign` is 1 for a pod that comes, -1 for one that goes, and more for several without shared devices.
        """
        self.version[node] += 1
        self.changes.append(node)
        cpu, memory, gpus = sign * facts.cpu_milli, sign * facts.memory_bytes, sign * facts.whole
        if how != PROMISED:
            self.cpu_idle[node] -= cpu
            self.memory_idle[node] -= memory
            self.slots_idle[node] -= sign
            self.gpus_idle[node] -= gpus
        if how != REAL:
            if how == PROMISED:
                cpu, memory, gpus, slot = -cpu, -memory, -gpus, -sign
            else:
                slot = sign
            self.cpu_releasing[node] += cpu
            self.memory_releasing[node] += memory
            self.slots_releasing[node] += slot
            self.gpus_releasing[node] += gpus
        if facts.shared:
            need = sign * facts.occupied_mib(self.device_mib[node])
            for device in devices:
                self._share(node, device, how - 1, need)
        for name, amount in facts.others:
            self._fill_other(name, node, how, sign * amount)

    def _fill_other(self, name: str, node: int, how: int, amount: int) -> None:
        if name not in self.other_idle:
            return
        if how != PROMISED:
            self.other_idle[name][node] -= amount
        if how != REAL:
            self.other_releasing[name][node] += amount if how == RELEASING else -amount

    def _share(self, node: int, device: int, how: int, mib: int) -> None:
        """Change what is on a shared device, and what that makes of it as a whole device."""
        if not self.shared[node]:
            self.shared[node] = {}  # one that is empty may be that of a copy
        use = self.shared[node].setdefault(device, [0, 0, 0])
        if device in self.rows[node].gpus_withheld:  # not counted as idle, whatever is on it
            use[how] += mib
            return
        idle, releasing = _as_whole(use)
        use[how] += mib
        idle_then, releasing_then = _as_whole(use)
        self.gpus_idle[node] += idle_then - idle
        self.gpus_releasing[node] += releasing_then - releasing
        if use == [0, 0, 0]:
            del self.shared[node][device]

    def _total(self, charges: Charges) -> Vector:
        total = [0, 0, 0]
        for number, node in enumerate(self.rows):
            if self.healthy[number]:
                gpus = self.gpus[number] + len(node.claim_devices) if node.role.takes_gpu_pods else 0
                total[GPU] += gpus * 1000
                if node.mig_instances and node.role.takes_gpu_pods:
                    total[GPU] += mig_milli(node.mig_instances.items(), charges.policy.mig_slices_per_gpu)
                total[CPU] += node.cpu_milli
                total[MEMORY] += node.memory_bytes
        return tuple(total)


def _as_whole(use: list[int]) -> tuple[int, int]:
    """What a shared device does to the counts of idle and of releasing whole devices."""
    staying, leaving, coming = use
    if staying:
        return -1, 0
    if leaving:
        return -1, 0 if coming else 1
    return 0, -1 if coming else 0


@dataclass(slots=True, eq=False)
class SetColumns:
    """Pod sets of all groups, numbered through, and how many of their pods are where."""

    name: list[str] = field(default_factory=list)
    minimum: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    pods: list[Sequence[int]] = field(default_factory=list)
    """In the order in which they are placed."""
    only_pod: list[int] = field(default_factory=list)
    """The pod of a set that has one only, else NOWHERE."""
    active: list[int] = field(default_factory=list)
    """Hold a place or are promised one."""
    leaving: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    gated: list[int] = field(default_factory=list)

    def copy(self) -> SetColumns:
        """The same, in which a trial may change what changes."""
        mine = copy(self)
        for name in ("minimum", "pods", "active", "leaving", "waiting", "gated"):
            setattr(mine, name, getattr(self, name).copy())
        return mine


@dataclass(slots=True, eq=False, kw_only=True)
class Columns:
    """A snapshot as columns. Nodes, groups, pod sets and pods are numbered in id order, each from 0."""

    now: Instant
    policy: Policy
    charges: Charges
    nodes: NodeColumns
    queues: QueueTable
    gpu_placement: Placement = Placement.BINPACK
    cpu_placement: Placement = Placement.BINPACK
    device_choice: DeviceChoice = DeviceChoice.PACK
    has_soft_taints: bool = False
    node_classes: list[list[int]] = field(default_factory=list)
    """Nodes that are alike in everything that decides whether a shape may go there when they are empty."""
    rule_keys: tuple[str, ...] = ()
    """Labels that decide whether a shape may go to a node."""
    topologies: dict[str, Topology] = field(default_factory=dict)
    claims: dict[ClaimId, Claim] = field(default_factory=dict)

    group_ids: list[GroupId] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    is_plain: list[bool] = field(default_factory=list)
    """One pod set and no topology."""
    queue_of: list[int] = field(default_factory=list)
    """Leaf queue of each group; NOWHERE when it has none that can hold it."""
    rules: list[KindRule] = field(default_factory=list)
    first_set: list[int] = field(default_factory=lambda: [0])
    """The first pod set of each group, and after the last group the number of all sets."""
    singles: list[range] = field(default_factory=list)
    """By number, the range of that number alone; most groups have one set, and most sets one pod."""
    sets_of: list[range] = field(default_factory=list)
    """The pod sets of each group, in the order of their names."""
    sets: SetColumns = field(default_factory=SetColumns)
    unplaced_groups: list[int] = field(default_factory=list)
    """Groups that have a pod that waits or is gated."""
    running_priorities: dict[int, dict[int, int]] = field(default_factory=dict)
    """By leaf queue and priority, how many groups hold something and may be preempted."""
    started: dict[int, list[Instant]] = field(default_factory=dict)
    """By leaf queue, when groups that may be preempted started, sorted."""
    broken_groups: list[int] = field(default_factory=list)
    """Groups that hold something, but in some set less than they need."""

    pod_ids: list[PodId] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    group_of: list[int] = field(default_factory=list)
    set_of: list[int] = field(default_factory=list)
    facts: list[ShapeFacts] = field(default_factory=list)
    """Each different shape once, in the order of the first pod that has it, with its charges."""
    shape_numbers: dict[PodShape, int] = field(default_factory=dict)
    first_of_shape: list[int] = field(default_factory=list)
    shape_of: list[int] = field(default_factory=list)
    claimed_gpus: list[int] = field(default_factory=list)
    started_as: list[State] = field(default_factory=list)
    """What pods hold when the plan begins."""
    hold: list[int] = field(default_factory=list)
    hold_node: list[int] = field(default_factory=list)
    hold_devices: list[tuple[int, ...]] = field(default_factory=list)
    promise_node: list[int] = field(default_factory=list)
    promise_devices: list[tuple[int, ...]] = field(default_factory=list)
    promised_pods: list[int] = field(default_factory=list)
    """Pods that were promised a place in an earlier cycle."""
    labelled_pods: list[int] = field(default_factory=list)
    """Pods that others may want to be near to or apart from, or that want it themselves."""
    nominated_pods: list[int] = field(default_factory=list)
    """Pods that another scheduler has a node in mind for."""
    claiming_pods: list[int] = field(default_factory=list)
    """Pods that name a device claim."""
    on_node: PodsOnNodes = field(default_factory=dict)
    """By name of a node, the pods that have a place there or are promised one."""

    def copy(self) -> Columns:
        """The same columns, in which a trial may change what changes during a plan."""
        mine = copy(self)
        mine.nodes, mine.sets, mine.queues = self.nodes.copy(), self.sets.copy(), self.queues.copy()
        for name in ("hold", "hold_node", "hold_devices", "promise_node", "promise_devices"):
            setattr(mine, name, getattr(self, name).copy())
        return mine

    def shape(self, pod: int) -> PodShape:
        return self.facts[self.shape_of[pod]].shape

    def waiting_need(self, pod: int) -> Vector:
        """What a pod is charged before its node is known."""
        need = self.facts[self.shape_of[pod]].waiting
        claimed = self.claimed_gpus[pod]
        return with_claimed(need, claimed) if claimed else need

    def placed_need(self, pod: int, node: int) -> Vector:
        """What a pod is charged on a node."""
        need = self.facts[self.shape_of[pod]].placed(self.nodes.device_mib[node])
        claimed = self.claimed_gpus[pod]
        return with_claimed(need, claimed) if claimed else need

    def is_non_preemptible(self, group: int) -> bool:
        """Whether a group may not be preempted, and so must stay within quota."""
        return not self.rules[group].preemptible

    def is_unplaced(self, group: int) -> bool:
        """Whether a group has a pod that waits or is gated."""
        sets, numbers = self.sets, self.sets_of[group]
        if len(numbers) == 1:
            return sets.waiting[numbers[0]] > 0 or sets.gated[numbers[0]] > 0
        return any(sets.waiting[each] or sets.gated[each] for each in numbers)

    def is_broken(self, group: int) -> bool:
        """Whether a group holds something, but in some pod set less than it needs."""
        sets, numbers = self.sets, self.sets_of[group]
        if len(numbers) == 1:
            return 0 < sets.active[numbers[0]] + sets.leaving[numbers[0]] < sets.minimum[numbers[0]]
        return any(sets.active[each] + sets.leaving[each] < sets.minimum[each] for each in numbers) and any(
            sets.active[each] or sets.leaving[each] for each in numbers
        )

    def set_number(self, group: int, name: str) -> int:
        """The pod set of a group that has this name."""
        return next(number for number in self.sets_of[group] if self.sets.name[number] == name)

    def group_number(self, group: GroupId) -> int | None:
        """None for a group that is not planned."""
        number = bisect_left(self.group_ids, group)
        return number if number < len(self.group_ids) and self.group_ids[number] == group else None

    def pod_number(self, pod: PodId) -> int | None:
        """None for a pod that is not planned."""
        number = bisect_left(self.pod_ids, pod)
        return number if number < len(self.pod_ids) and self.pod_ids[number] == pod else None


def with_claimed(need: Vector, gpus: int) -> Vector:
    """What a pod is charged that has so many GPUs through device claims."""
    return (need[GPU] + WHOLE_GPU_MILLI * gpus, need[CPU], need[MEMORY]) if gpus else need
