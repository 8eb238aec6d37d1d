"""The snapshot as columns, indexed in id order.

Building it is linear in what exists. Everything here that changes during a plan (idle and releasing amounts,
shared devices, what pods hold, what queues hold) is changed by `trial.py` and, for runs of equal groups, by `batch.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from fairpool.model.ids import ClaimId, GroupId, NodeName
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Placement, TaintEffect
from fairpool.model.precedence import KindRule, mig_milli
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import Claim, Pod, PodGroup, PodShape
from fairpool.scheduler.charge import Charges, ShapeFacts
from fairpool.scheduler.policy import DeviceChoice
from fairpool.scheduler.queues import CPU, GPU, MEMORY, QueueTable, Vector
from fairpool.scheduler.snapshot import Snapshot

NOWHERE = -1

# What a pod physically holds; PROMISED is the way in which it fills a place that it does not hold yet.
NOTHING, REAL, RELEASING, PROMISED = 0, 1, 2, 3

# Of a shared device: memory of pods that stay, of pods that leave, and of pods that are promised a place.
STAYING, LEAVING, COMING = REAL - 1, RELEASING - 1, PROMISED - 1

NODE_AMOUNTS = (
    *("cpu_idle", "memory_idle", "slots_idle", "gpus_idle"),
    *("cpu_releasing", "memory_releasing", "slots_releasing", "gpus_releasing"),
    *("unschedulable_pods", "version", "changes"),
)
"""Columns of nodes that change during a plan."""

DEVICE_CHOICES = {
    Placement.BINPACK: DeviceChoice.PACK,
    Placement.SPREAD: DeviceChoice.SPREAD,
    Placement.FRAGMENTATION: DeviceChoice.FRAGMENTATION,
}


class NodeColumns:
    """What is idle and what is being released on each node."""

    def __init__(self, snapshot: Snapshot, charges: Charges) -> None:
        self.rows = sorted(snapshot.nodes, key=lambda node: node.name)
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
        self.unschedulable_pods: list[int] = [0] * count
        """Active pods of a kind that must not be started; MIG pods are not placed beside them."""
        self.version: list[int] = [0] * count
        """Counts the changes of a node, so that what was worked out from it can be kept."""
        self.changes: list[int] = []
        """Nodes that changed, in order; each index of nodes reads on from where it was."""

    def copy(self) -> NodeColumns:
        mine = copy(self)
        for name in NODE_AMOUNTS:
            setattr(mine, name, getattr(self, name).copy())
        mine.other_idle = {name: amounts.copy() for name, amounts in self.other_idle.items()}
        mine.other_releasing = {name: amounts.copy() for name, amounts in self.other_releasing.items()}
        mine.shared = [{device: use[:] for device, use in here.items()} if here else {} for here in self.shared]
        return mine

    def shared_devices(self, node: int) -> Iterable[list[int]]:
        """What is on the shared devices of a node that are schedulable."""
        withheld = self.rows[node].gpus_withheld
        if not withheld:
            return self.shared[node].values()
        return [use for device, use in self.shared[node].items() if device not in withheld]

    def total(self, charges: Charges) -> Vector:
        """Capacity of the healthy nodes, in the three resources that quotas are about."""
        total = [0, 0, 0]
        for number, node in enumerate(self.rows):
            if self.healthy[number]:
                gpus = self.gpus[number] + len(node.claim_devices)
                total[GPU] += gpus * 1000 + mig_milli(node.mig_instances.items(), charges.policy.mig_slices_per_gpu)
                total[CPU] += node.cpu_milli
                total[MEMORY] += node.memory_bytes
        return tuple(total)


class SetColumns:
    """Pod sets of all groups, numbered through, and how many of their pods are where."""

    def __init__(self) -> None:
        self.name: list[str] = []
        self.minimum: list[int] = []
        self.group: list[int] = []
        self.pods: list[list[int]] = []
        """In the order in which they are placed."""
        self.active: list[int] = []
        """Hold a place or are promised one."""
        self.leaving: list[int] = []
        self.waiting: list[int] = []
        self.gated: list[int] = []

    def add(self, name: str, minimum: int, group: int) -> int:
        self.name.append(name)
        self.minimum.append(max(minimum, 1))
        self.group.append(group)
        self.pods.append([])
        self.active.append(0)
        self.leaving.append(0)
        self.waiting.append(0)
        self.gated.append(0)
        return len(self.name) - 1

    def copy(self) -> SetColumns:
        mine = copy(self)
        for name in ("minimum", "pods", "active", "leaving", "waiting", "gated"):
            setattr(mine, name, getattr(self, name).copy())
        return mine

    def waiting_groups(self) -> set[int]:
        """Groups with a pod that waits and enough pods, in every set, to run."""
        waiting = {group for group, pods in zip(self.group, self.waiting, strict=True) if pods}
        rows = zip(self.group, self.active, self.waiting, self.minimum, strict=True)
        return waiting - {group for group, active, pods, minimum in rows if active + pods < minimum}

    def broken_groups(self) -> set[int]:
        """Groups that hold something, but in some set less than they need."""
        rows = list(zip(self.group, self.active, self.leaving, self.minimum, strict=True))
        short = {group for group, active, leaving, minimum in rows if active + leaving < minimum}
        return short & {group for group, active, leaving, _ in rows if active or leaving}


class Columns:
    """A snapshot as columns. Expects rows that `validation.clean` returned."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy
        self.gpu_placement = snapshot.pool.gpu_placement
        self.cpu_placement = snapshot.pool.cpu_placement
        self.device_choice = self.policy.device_choice or DEVICE_CHOICES[self.gpu_placement]
        self.has_soft_taints = any(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE for node in snapshot.nodes for taint in node.taints
        )
        self.now = snapshot.now
        self.charges = Charges(snapshot.nodes, self.policy)
        self.nodes = NodeColumns(snapshot, self.charges)
        self.queues = QueueTable(snapshot.queues)
        self.queues.total = self.nodes.total(self.charges)
        self.topologies = {topology.name: topology for topology in snapshot.topologies}
        self.claims: dict[ClaimId, Claim] = {claim.id: claim for claim in snapshot.claims}
        self._number_groups(snapshot)
        self._number_pods(snapshot)

    def _number_groups(self, snapshot: Snapshot) -> None:
        self.groups: list[PodGroup] = sorted(snapshot.groups, key=lambda group: group.id)
        self.group_index: dict[GroupId, int] = {group.id: number for number, group in enumerate(self.groups)}
        self.is_plain: list[bool] = [
            len(group.tree.pod_sets) == 1
            and not group.tree.groups
            and group.tree.constraint is None
            and group.tree.pod_sets[0].constraint is None
            for group in self.groups
        ]
        """One pod set and no topology."""
        self.queue_of: list[int] = []
        """Leaf queue of each group; NOWHERE when it has none that can hold it."""
        self.rules: list[KindRule] = []
        self.plain_key: list[tuple[int, int, int, int]] = []
        """Sort key of a group that has nothing yet, among the groups of its queue; see `order.group_key`."""
        self.sets = SetColumns()
        self.sets_of: list[list[int]] = []
        self.set_index: dict[tuple[int, str], int] = {}
        for number, group in enumerate(self.groups):
            queue = self.queues.index.get(group.queue, NOWHERE)
            is_leaf = queue != NOWHERE and not self.queues.children[queue]
            self.queue_of.append(queue if is_leaf else NOWHERE)
            rule = self.policy.rule_for(group.kind, group.priority, group.preemptible)
            self.rules.append(rule)
            priority = -rule.priority if self.policy.priority_order else 0
            self.plain_key.append((priority, 0, group.created_at, number))
            numbers = []
            for pod_set in group.tree.all_pod_sets():
                set_number = self.sets.add(pod_set.name, pod_set.minimum, number)
                self.set_index[number, pod_set.name] = set_number
                numbers.append(set_number)
            if len(numbers) > 1:
                numbers.sort(key=lambda each: self.sets.name[each])
            self.sets_of.append(numbers)

    def _number_pods(self, snapshot: Snapshot) -> None:
        alive = (pod for pod in snapshot.pods if pod.phase is not PodPhase.ENDED)
        self.pods: list[Pod] = sorted(alive, key=lambda pod: pod.id)
        count = len(self.pods)
        self.group_of: list[int] = [self.group_index[pod.group] for pod in self.pods]
        self.set_of: list[int] = [
            self.set_index[self.group_of[number], pod.pod_set] for number, pod in enumerate(self.pods)
        ]
        self.facts: list[ShapeFacts] = []
        """Each different shape once, with its charges."""
        self.shape_of: list[int] = self._intern_shapes()
        self.claimed_gpus: list[int] = [self._claimed_gpus(pod) if pod.claims else 0 for pod in self.pods]
        self.hold: list[int] = [NOTHING] * count
        self.hold_node: list[int] = [NOWHERE] * count
        self.hold_devices: list[tuple[int, ...]] = [()] * count
        self.promise_node: list[int] = [NOWHERE] * count
        self.promise_devices: list[tuple[int, ...]] = [()] * count
        for number in range(count):
            self.sets.pods[self.set_of[number]].append(number)
        for pods in self.sets.pods:
            if len(pods) > 1:
                pods.sort(key=self._pod_order)

    def _intern_shapes(self) -> list[int]:
        known: dict[PodShape, int] = {}
        by_identity: dict[int, int] = {}
        numbers = []
        for pod in self.pods:
            number = by_identity.get(id(pod.shape))
            if number is None:
                number = known.setdefault(pod.shape, len(self.facts))
                if number == len(self.facts):
                    self.facts.append(ShapeFacts(pod.shape, self.charges))
                by_identity[id(pod.shape)] = number
            numbers.append(number)
        return numbers

    def _claimed_gpus(self, pod: Pod) -> int:
        claims = (self.claims.get(claim) for claim in pod.claims)
        return sum(claim.devices for claim in claims if claim is not None and claim.counts_as_gpu)

    def _pod_order(self, pod: int) -> tuple[bool, bool, int, int, str]:
        """Leaders first, then by number, then by age."""
        row = self.pods[pod]
        if not self.policy.pod_order:
            return (False, False, 0, row.created_at, row.id)
        return (not row.leader, row.order is None, -(row.order or 0), row.created_at, row.id)

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
        return self._with_claims(pod, need) if self.claimed_gpus[pod] else need

    def placed_need(self, pod: int, node: int) -> Vector:
        """What a pod is charged on a node."""
        need = self.facts[self.shape_of[pod]].placed(self.nodes.device_mib[node])
        return self._with_claims(pod, need) if self.claimed_gpus[pod] else need

    def _with_claims(self, pod: int, need: Vector) -> Vector:
        return (need[GPU] + WHOLE_GPU_MILLI * self.claimed_gpus[pod], need[CPU], need[MEMORY])

    def is_non_preemptible(self, group: int) -> bool:
        """Whether a group may not be preempted, and so must stay within quota."""
        return not self.rules[group].preemptible
