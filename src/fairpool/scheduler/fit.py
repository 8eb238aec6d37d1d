"""Predicates: on which nodes a pod fits, and why not on others.

`Fit.nodes` is what never changes during a plan (labels, taints, kind of node), computed once for each shape.
`Fit.room` is what does: amounts, shared devices, pod affinity, limits.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from fairpool.model.empty_node import node_objection
from fairpool.model.node import Node, TaintEffect
from fairpool.model.workload import GpuKind, PodAffinityTerm, PodShape
from fairpool.scheduler import gate
from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.columns import COMING, LEAVING, REAL, RELEASING, STAYING, Columns
from fairpool.scheduler.fragments import Fragments
from fairpool.scheduler.policy import DeviceChoice
from fairpool.scheduler.trial import Trial


@dataclass(frozen=True, slots=True)
class Room:
    """A place for a pod on a node."""

    now: bool
    """Free at once, as opposed to being released."""
    devices: tuple[int, ...] = ()
    """Shared devices it would be on."""


class Fit:
    """Predicates on one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.columns: Columns = trial.columns
        self._nodes: dict[Hashable, tuple[list[int], frozenset[int]]] = {}
        self._with_free: set[int] = set()
        self._with_shared: set[int] = set()
        self._free_read: int | None = None
        self.classes = self.columns.node_classes
        self._labelled = self.columns.labelled_pods
        self._has_anti_affinity = any(facts.shape.apart for facts in self.columns.facts)
        self.one_device_size = len(set(self.columns.nodes.device_mib)) <= 1
        self._fragments: Fragments | None = None

    @property
    def fragments(self) -> Fragments:
        """What places cost, for pools that avoid fragmentation."""
        if self._fragments is None:
            self._fragments = Fragments(self.columns, self.nodes_for)
        return self._fragments

    def nodes(self, shape: int) -> list[int]:
        """Nodes that would take this shape if they were empty, smaller requests aside."""
        return self._allowed(self.columns.facts[shape].shape)[0]

    def nodes_for(self, shape: PodShape) -> list[int]:
        """The same for a shape that no pod needs to have."""
        return self._allowed(shape)[0]

    def node_set(self, shape: int) -> frozenset[int]:
        """The same, to ask whether a node is among them."""
        return self._allowed(self.columns.facts[shape].shape)[1]

    def _allowed(self, row: PodShape) -> tuple[list[int], frozenset[int]]:
        key = (_kind_of_node(row), row.node_rules, row.tolerations, row.schedulable)
        known = self._nodes.get(key)
        if known is None:
            fitting = [members for members in self.classes if self.objection(row, members[0]) is None]
            nodes = sorted(chain.from_iterable(fitting))
            known = self._nodes[key] = (nodes, frozenset(nodes))
        return known

    def with_free_gpus(self, *, shared_too: bool = False) -> list[int]:
        """Nodes that may have a GPU idle or being released: all that had one, and all that changed since.

        With `shared_too` also those that may have room on a shared one.
        """
        nodes = self.columns.nodes
        if self._free_read is None:
            counts = zip(nodes.gpus_idle, nodes.gpus_releasing, strict=True)
            self._with_free = {node for node, (idle, releasing) in enumerate(counts) if idle + releasing > 0}
            self._with_shared = {
                node for node, devices in enumerate(nodes.shared) if devices and self._has_shared_room(node)
            }
        else:
            self._with_free.update(nodes.changes[self._free_read :])
        self._free_read = len(nodes.changes)
        return sorted(self._with_free | self._with_shared if shared_too else self._with_free)

    def _has_shared_room(self, node: int) -> bool:
        mib = self.columns.nodes.device_mib[node]
        return any(use[STAYING] + use[COMING] < mib for use in self.columns.nodes.shared[node].values())

    def objection(self, shape: PodShape, node: int) -> str | None:
        """Why a node excludes a shape whatever else is on it; None if it does not."""
        row = self.columns.nodes.rows[node]
        if not row.ready:
            return "not ready"
        if row.cordoned:
            return "cordoned"
        return self.objection_of(shape, row, node)

    def objection_of(self, shape: PodShape, row: Node, node: int) -> str | None:
        """The same for a node as it would be with another row, ready and in service."""
        if not self.columns.policy.predicates:
            return None
        if not shape.schedulable:
            return "unsupported kind of pod"
        return node_objection(shape, row) or self._legacy_objection(shape, node)

    def _legacy_objection(self, shape: PodShape, node: int) -> str | None:
        return "runs unsupported MIG pods" if shape.gpu.mig and self.columns.nodes.unschedulable_pods[node] else None

    def is_particular(self, pod: int) -> bool:
        """Whether more than its shape decides where a pod fits, so that nodes must be looked at one by one."""
        columns = self.columns
        if not columns.policy.predicates:
            return False
        return bool(
            columns.shape_of[pod] in self.particular_shapes
            or columns.pods[pod].claims
            or columns.groups[columns.group_of[pod]].avoid
        )

    @cached_property
    def particular_shapes(self) -> frozenset[int]:
        """Shapes for which more decides than amounts and the kind of node: affinity, or memory of unlike devices."""
        if not self.columns.policy.predicates:
            return frozenset()
        return frozenset(
            number
            for number, facts in enumerate(self.columns.facts)
            if facts.shape.near
            or facts.shape.apart
            or (facts.shape.labels and self._has_anti_affinity)
            or (facts.shape.gpu.memory_mib and not self.one_device_size)
        )

    def room(self, pod: int, node: int) -> Room | None:
        """Where on this node the pod could go now or soon; None if nowhere."""
        facts = self.columns.facts[self.columns.shape_of[pod]]
        if not self.amounts_fit(facts, node):
            return None
        if self.columns.policy.predicates and not (gate.pod_passes(self.columns, pod, node) and self._suits(pod, node)):
            return None
        return self.room_on(pod, node)

    def room_on(self, pod: int, node: int) -> Room:
        """The place on a node where the amounts fit."""
        facts = self.columns.facts[self.columns.shape_of[pod]]
        claims = self.columns.pods[pod].claims
        now = self.amounts_fit_now(facts, node) and (not claims or self.trial.claims.is_free(claims, node))
        return self._shared_room(pod, node, now) if facts.shared else Room(now)

    def amounts_fit(self, facts: ShapeFacts, node: int) -> bool:
        """Whether there is enough on a node, counting what is being released."""
        nodes = self.columns.nodes
        if (
            facts.cpu_milli > nodes.cpu_idle[node] + nodes.cpu_releasing[node]
            or facts.memory_bytes > nodes.memory_idle[node] + nodes.memory_releasing[node]
            or (nodes.slots_idle[node] + nodes.slots_releasing[node] < 1 and self.columns.policy.predicates)
        ):
            return False
        whole = nodes.gpus_idle[node] + nodes.gpus_releasing[node]
        if facts.whole > whole:
            return False
        if facts.shared and not self._shares_fit(facts, node, whole):
            return False
        for name, amount in facts.others:
            idle = nodes.other_idle.get(name)
            if idle is None or amount > idle[node] + nodes.other_releasing[name][node]:
                return False
        return True

    def amounts_fit_now(self, facts: ShapeFacts, node: int) -> bool:
        """Whether there is enough idle on a node, shared devices aside."""
        nodes = self.columns.nodes
        if facts.is_best_effort:
            return True
        if (
            facts.cpu_milli > nodes.cpu_idle[node]
            or facts.memory_bytes > nodes.memory_idle[node]
            or facts.whole > nodes.gpus_idle[node]
            or (nodes.slots_idle[node] < 1 and self.columns.policy.predicates)
        ):
            return False
        return not facts.others or all(amount <= nodes.other_idle[name][node] for name, amount in facts.others)

    def _suits(self, pod: int, node: int) -> bool:
        columns = self.columns
        shape = columns.shape(pod)
        if columns.nodes.names[node] in columns.groups[columns.group_of[pod]].avoid:
            return False
        claims, queue = columns.pods[pod].claims, columns.groups[columns.group_of[pod]].queue
        if claims and not self.trial.claims.fits(claims, node, queue):
            return False
        return (
            all(self._meets_affinity(pod, node, term) for term in shape.near)
            and not any(self._is_in_same_domain(pod, node, term) for term in shape.apart)
            and not (shape.labels and self._has_anti_affinity and self._breaks_anti_affinity(pod, node))
        )

    # ---- shared devices

    def _shares_fit(self, facts: ShapeFacts, node: int, whole: int) -> bool:
        """Whether enough devices of a node have room for a sharer."""
        nodes = self.columns.nodes
        if facts.shape.gpu.memory_mib and self.columns.policy.predicates:
            is_known = nodes.rows[node].gpu_memory_mib > 0
            if not is_known or facts.shape.gpu.memory_mib > nodes.device_mib[node]:
                return False
        missing = facts.shared - max(0, whole)
        return missing <= 0 or len(self.hosts(facts, node)) >= missing

    def _shared_room(self, pod: int, node: int, now: bool) -> Room:
        """Choose as many different devices as the pod asks for, best first."""
        columns, nodes = self.columns, self.columns.nodes
        facts = columns.facts[columns.shape_of[pod]]
        wanted = facts.shared
        hosts = self.hosts(facts, node)
        whole = max(0, nodes.gpus_idle[node] + nodes.gpus_releasing[node])
        if columns.device_choice is DeviceChoice.SPREAD:
            opened = min(wanted, whole)
            hosts.sort(key=lambda device: (sum(nodes.shared[node][device]), device < 0, abs(device)))
            devices = hosts[: wanted - opened]
        else:
            if columns.device_choice is DeviceChoice.FRAGMENTATION:
                hosts = self._least_loss(facts, node, hosts)
            elif columns.device_choice is DeviceChoice.PACK:
                hosts.sort(key=lambda device: (-sum(nodes.shared[node][device]), device < 0, abs(device)))
            devices = hosts[:wanted]
            opened = wanted - len(devices)
        now = now and all(self._hosts_now(facts, node, device) for device in devices)
        opens_now = now and opened <= nodes.gpus_idle[node]
        if opened:
            devices = [*devices, *self._open(pod, node, opened)]
        return Room(opens_now if opened else now, tuple(devices))

    def _least_loss(self, facts: ShapeFacts, node: int, hosts: list[int]) -> list[int]:
        """Those of the shared devices that a sharer should join; what it lacks then are devices to open."""
        mib, shared = self.columns.nodes.device_mib[node], self.columns.nodes.shared[node]
        rooms = list(self.fragments.rooms_to_take(facts, node))
        chosen = []
        for device in sorted(hosts, key=lambda device: (device < 0, abs(device))):
            room = mib - shared[device][STAYING] - shared[device][COMING]
            if room in rooms:
                rooms.remove(room)
                chosen.append(device)
        return chosen

    def room_on_devices(self, pod: int, node: int, devices: tuple[int, ...]) -> Room | None:
        """The place of a sharer on particular devices; None if one of them is not to be had."""
        facts, nodes = self.columns.facts[self.columns.shape_of[pod]], self.columns.nodes
        if not facts.shared or len(devices) != facts.shared:
            return None
        shared, hosts = nodes.shared[node], self.hosts(facts, node)
        opened = [device for device in devices if not any(shared.get(device, ())[::2])]
        staying, leaving = self._held_whole(node)
        if any(device not in hosts and device not in opened for device in devices) or staying.intersection(opened):
            return None
        if len(opened) > nodes.gpus_idle[node] + nodes.gpus_releasing[node]:
            return None
        is_free = len(opened) <= nodes.gpus_idle[node] and not any(
            device in leaving or device in shared for device in opened
        )
        joined = (device for device in devices if device not in opened)
        now = is_free and all(self._hosts_now(facts, node, device) for device in joined)
        return Room(now and self.amounts_fit_now(facts, node), devices)

    def _held_whole(self, node: int) -> tuple[set[int], set[int]]:
        """Devices of a node that pods hold as a whole: those that stay, and those that leave."""
        columns = self.columns
        staying: set[int] = set()
        leaving: set[int] = set()
        for pod in self.trial.residents(node):
            if columns.facts[columns.shape_of[pod]].whole:
                (staying if columns.hold[pod] == REAL else leaving).update(columns.pods[pod].devices)
        return staying, leaving

    def hosts(self, facts: ShapeFacts, node: int) -> list[int]:
        """Devices already shared on a node that have room for a sharer, counting what is being released."""
        shared = self.columns.nodes.shared[node]
        if not shared:
            return []
        mib = self.columns.nodes.device_mib[node]
        free = mib - facts.occupied_mib(mib)
        withheld = self.columns.nodes.rows[node].gpus_withheld
        return [
            device
            for device, (staying, _, coming) in shared.items()
            if (staying or coming) and staying + coming <= free and device not in withheld
        ]

    def hosts_now(self, facts: ShapeFacts, node: int) -> int:
        """How many of them have room at once."""
        return sum(self._hosts_now(facts, node, seat) for seat in self.hosts(facts, node))

    def _hosts_now(self, facts: ShapeFacts, node: int, device: int) -> bool:
        mib = self.columns.nodes.device_mib[node]
        use = self.columns.nodes.shared[node][device]
        used = use[STAYING] + use[LEAVING]
        return used > 0 and mib - used >= facts.occupied_mib(mib)

    def _open(self, pod: int, node: int, count: int) -> list[int]:
        """Devices to open for sharing; an evicted pod gets its own back if all pods on them leave."""
        columns = self.columns
        own: list[int] = []
        was_here = columns.hold[pod] == RELEASING and columns.hold_node[pod] == node and self.trial.is_evicted(pod)
        if was_here and columns.policy.victims_keep_devices:
            shared = columns.nodes.shared[node]
            own = [
                device
                for device in columns.hold_devices[pod]
                if not shared[device][STAYING] and not shared[device][COMING]
            ]
        return (own + [self.trial.open_device() for _ in range(count - len(own))])[:count]

    # ---- pod affinity

    def _matching(self, pod: int, term: PodAffinityTerm, *, staying: bool = False) -> list[int]:
        """Nodes of the other pods that carry the labels of a term, in the same namespace."""
        columns = self.columns
        namespace = columns.groups[columns.group_of[pod]].namespace
        found = []
        for other in self._labelled:
            if other == pod or self.trial.is_waiting(other) or (staying and not self.trial.is_active(other)):
                continue
            same = columns.groups[columns.group_of[other]].namespace == namespace
            if same and set(term.labels) <= set(columns.shape(other).labels):
                found.append(self.trial.place(other)[0])
        return found

    def _is_in_same_domain(self, pod: int, node: int, term: PodAffinityTerm) -> bool:
        rows = self.columns.nodes.rows
        domain = rows[node].labels.get(term.topology_key)
        if domain is None:
            return False
        return any(rows[other].labels.get(term.topology_key) == domain for other in self._matching(pod, term))

    def _breaks_anti_affinity(self, pod: int, node: int) -> bool:
        """Whether the anti-affinity of a pod that is there, or comes there, excludes this one."""
        columns, labels = self.columns, set(self.columns.shape(pod).labels)
        namespace = columns.groups[columns.group_of[pod]].namespace
        here = columns.nodes.rows[node].labels
        for other in self._labelled:
            if other == pod or not columns.shape(other).apart or self.trial.is_waiting(other):
                continue
            there = columns.nodes.rows[self.trial.place(other)[0]].labels
            same = columns.groups[columns.group_of[other]].namespace == namespace
            for term in columns.shape(other).apart if same else ():
                domain = here.get(term.topology_key)
                if domain is not None and there.get(term.topology_key) == domain and set(term.labels) <= labels:
                    return True
        return False

    def _meets_affinity(self, pod: int, node: int, term: PodAffinityTerm) -> bool:
        """In the domain of a pod that the term selects; the first pod of its kind may go to any domain."""
        rows = self.columns.nodes.rows
        domain = rows[node].labels.get(term.topology_key)
        if domain is None:
            return False
        matching = self._matching(pod, term, staying=self.columns.policy.near_what_stays)
        domains = {rows[other].labels.get(term.topology_key) for other in matching} - {None}
        if not domains:
            return set(term.labels) <= set(self.columns.shape(pod).labels)
        return domain in domains


def _kind_of_node(shape: PodShape) -> str:
    """Shapes of one kind meet the same objections to the kind of node."""
    if shape.gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY):
        return "shared"
    return shape.gpu.kind


def soft_taints(shape: PodShape, node: Node) -> int:
    """How many `PreferNoSchedule` taints a shape does not tolerate."""
    return sum(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        and not any(toleration.covers(taint) for toleration in shape.tolerations)
        for taint in node.taints
    )
