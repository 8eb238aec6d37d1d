"""Where a pod fits, and why not elsewhere.

`Fit.nodes` is what never changes during a plan (labels, taints, kind of node), worked out once for each shape.
`Fit.room` is what does: amounts, shared devices, neighbours, limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.node import MigStrategy, Node, TaintEffect
from fairpool.model.workload import GpuKind, LabelOperator, LabelRule, Neighbourhood, PodShape
from fairpool.scheduler import gate
from fairpool.scheduler.board import COMING, LEAVING, RELEASING, STAYING, Board
from fairpool.scheduler.policy import DeviceChoice
from fairpool.scheduler.trial import Trial

CLAIM_CONSUMERS_MAX = 256


@dataclass(frozen=True, slots=True)
class Room:
    """A place for a pod on a node."""

    now: bool
    """Free at once, as opposed to being released."""
    seats: tuple[int, ...] = ()
    """Shared devices it would be on."""


class Fit:
    """Answers for one trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.board: Board = trial.board
        self._nodes: dict[int, list[int]] = {}
        self._labelled = [
            pod for pod, row in enumerate(self.board.pods) if row.shape.labels or row.shape.near or row.shape.apart
        ]

    def nodes(self, pod: int) -> list[int]:
        """Nodes that would take this shape if they were empty, smaller requests aside."""
        shape = self.board.shape_of[pod]
        known = self._nodes.get(shape)
        if known is None:
            rows = self.board.nodes.rows
            known = [node for node in range(len(rows)) if self.objection(self.board.shapes[shape], node) is None]
            self._nodes[shape] = known
        return known

    def objection(self, shape: PodShape, node: int) -> str | None:
        """What keeps a shape off a node whatever else is on it; None if nothing does."""
        row = self.board.nodes.rows[node]
        if not row.ready:
            return "not ready"
        if row.cordoned:
            return "cordoned"
        if not self.board.policy.predicates:
            return None
        if not shape.schedulable:
            return "kind of pod not supported"
        return (
            _wrong_kind_of_node(shape, row)
            or _label_objection(shape, row)
            or _taint_objection(shape, row)
            or self._legacy_objection(shape, node)
        )

    def _legacy_objection(self, shape: PodShape, node: int) -> str | None:
        return "runs unsupported MIG pods" if shape.gpu.mig and self.board.nodes.unschedulable_pods[node] else None

    def room(self, pod: int, node: int) -> Room | None:
        """Where on this node the pod could go now or soon; None if nowhere."""
        board = self.board
        shape = board.shape(pod)
        if not self._amounts_fit(shape, node, soon=True):
            return None
        if board.policy.predicates and not self._predicates_hold(pod, node):
            return None
        now = self.amounts_fit_now(pod, node)
        if not board.is_shared[board.shape_of[pod]]:
            return Room(now)
        return self._shared_room(pod, node, now)

    def amounts_fit_now(self, pod: int, node: int) -> bool:
        """Whether what a pod asks for, shared devices aside, is idle."""
        shape = self.board.shape_of[pod]
        return self.board.is_best_effort[shape] or self._amounts_fit(self.board.shapes[shape], node, soon=False)

    def _amounts_fit(self, shape: PodShape, node: int, *, soon: bool) -> bool:
        nodes = self.board.nodes
        cpu, memory, slots = nodes.cpu_idle[node], nodes.memory_idle[node], nodes.slots_idle[node]
        gpus = nodes.gpus_idle[node]
        if soon:
            cpu += nodes.cpu_releasing[node]
            memory += nodes.memory_releasing[node]
            slots += nodes.slots_releasing[node]
            gpus += nodes.gpus_releasing[node]
        if shape.cpu_milli > cpu or shape.memory_bytes > memory:
            return False
        if slots < 1 and self.board.policy.predicates:
            return False
        if shape.gpu.kind is GpuKind.WHOLE and shape.gpu.devices > gpus:
            return False
        for name, amount in (*shape.extended, *shape.gpu.mig):
            idle = nodes.other_idle.get(name)
            free = 0 if idle is None else idle[node] + (nodes.other_releasing[name][node] if soon else 0)
            if amount > free:
                return False
        return True

    def _predicates_hold(self, pod: int, node: int) -> bool:
        board = self.board
        group = board.group_of[pod]
        shape = board.shape(pod)
        if shape.gpu.kind is GpuKind.MEMORY and (
            not board.nodes.rows[node].gpu_memory_mib or shape.gpu.memory_mib > board.nodes.device_mib[node]
        ):
            return False
        if board.nodes.names[node] in board.groups[group].avoid:
            return False
        if board.policy.fair_order and not self._within_limits(pod, node, group):
            return False
        if board.pods[pod].claims and not self._claims_fit(pod, node):
            return False
        return all(self._is_near(pod, node, term) for term in shape.near) and not any(
            self._is_beside(pod, node, term) for term in shape.apart
        )

    def _within_limits(self, pod: int, node: int, group: int) -> bool:
        board = self.board
        need = board.placed_need(pod, node)
        if not board.policy.charge_all_devices_per_node and board.shape(pod).gpu.kind is GpuKind.WHOLE:
            need[0] = min(need[0], 1000)
        return gate.passes(board.queues, board.queue_of[group], need, firm=board.is_firm(group))

    # ---- shared devices

    def _shared_room(self, pod: int, node: int, now: bool) -> Room | None:
        """Choose as many different devices as the pod asks for, best first."""
        board, nodes = self.board, self.board.nodes
        wanted = board.shape(pod).gpu.devices
        hosts = self.hosts(pod, node)
        whole = max(0, nodes.gpus_idle[node] + nodes.gpus_releasing[node])
        if len(hosts) + whole < wanted:
            return None
        choice = board.policy.device_choice
        if choice is DeviceChoice.SPREAD:
            opened = min(wanted, whole)
            seats = sorted(hosts, key=lambda seat: (sum(nodes.shared[node][seat]), seat < 0, abs(seat)))[
                : wanted - opened
            ]
        else:
            if choice is DeviceChoice.PACK:
                hosts.sort(key=lambda seat: (-sum(nodes.shared[node][seat]), seat < 0, abs(seat)))
            seats = hosts[:wanted]
            opened = wanted - len(seats)
        now = now and all(self._hosts_now(pod, node, seat) for seat in seats)
        opens_now = now and opened <= nodes.gpus_idle[node]
        if opened:
            seats = [*seats, *self._open(pod, node, opened)]
        return Room(opens_now if opened else now, tuple(seats))

    def hosts(self, pod: int, node: int) -> list[int]:
        """Devices already shared on a node that have room for a pod, counting what is being released."""
        board = self.board
        mib = board.nodes.device_mib[node]
        need = board.charges.occupied_mib(board.shape(pod), mib)
        return [
            seat
            for seat, device in board.nodes.shared[node].items()
            if (device[STAYING] or device[COMING]) and mib - device[STAYING] - device[COMING] >= need
        ]

    def hosts_now(self, pod: int, node: int) -> bool:
        """Whether one of them has room at once."""
        return any(self._hosts_now(pod, node, seat) for seat in self.hosts(pod, node))

    def _hosts_now(self, pod: int, node: int, seat: int) -> bool:
        board = self.board
        mib = board.nodes.device_mib[node]
        device = board.nodes.shared[node][seat]
        used = device[STAYING] + device[LEAVING]
        return used > 0 and mib - used >= board.charges.occupied_mib(board.shape(pod), mib)

    def _open(self, pod: int, node: int, count: int) -> list[int]:
        """Devices to open for sharing; an evicted pod gets its own back if everybody on them leaves."""
        board = self.board
        own: list[int] = []
        was_here = board.hold[pod] == RELEASING and board.hold_node[pod] == node and self.trial.is_evicted(pod)
        if was_here and board.policy.victims_keep_devices:
            shared = board.nodes.shared[node]
            own = [seat for seat in board.hold_seats[pod] if not shared[seat][STAYING] and not shared[seat][COMING]]
        return (own + [self.trial.open_seat() for _ in range(count - len(own))])[:count]

    # ---- neighbours and claims

    def _matching(self, pod: int, term: Neighbourhood) -> list[int]:
        """Nodes of the other active pods that carry the labels of a term, in the same namespace."""
        board = self.board
        namespace = board.groups[board.group_of[pod]].namespace
        found = []
        for other in self._labelled:
            if other == pod or self.trial.is_waiting(other):
                continue
            same = board.groups[board.group_of[other]].namespace == namespace
            if same and set(term.labels) <= set(board.shape(other).labels):
                found.append(self.trial.place(other)[0])
        return found

    def _is_beside(self, pod: int, node: int, term: Neighbourhood) -> bool:
        rows = self.board.nodes.rows
        domain = rows[node].labels.get(term.topology_key)
        if domain is None:
            return False
        return any(rows[other].labels.get(term.topology_key) == domain for other in self._matching(pod, term))

    def _is_near(self, pod: int, node: int, term: Neighbourhood) -> bool:
        """Beside a pod it wants to be near; the first of its kind may go anywhere in the topology."""
        rows = self.board.nodes.rows
        if rows[node].labels.get(term.topology_key) is None:
            return False
        others = [other for other in self._matching(pod, term) if term.topology_key in rows[other].labels]
        if not others:
            return set(term.labels) <= set(self.board.shape(pod).labels)
        return self._is_beside(pod, node, term)

    def _claims_fit(self, pod: int, node: int) -> bool:
        """Every claim exists, is meant for this queue, has room for one more consumer, and can be had here."""
        board, trial = self.board, self.trial
        queue = board.groups[board.group_of[pod]].queue
        needed = 0
        for name in board.pods[pod].claims:
            claim = board.claims.get(name)
            if claim is None or trial.claim_consumers(name) >= CLAIM_CONSUMERS_MAX:
                return False
            if claim.counts_as_gpu and not claim.from_template and claim.queue != queue:
                return False
            place = trial.claim_place.get(name)
            if place is None:
                needed += claim.devices
            elif place[0] != node:
                return False
        return needed <= len(board.nodes.claim_free[node])


def _wrong_kind_of_node(shape: PodShape, node: Node) -> str | None:
    kind = shape.gpu.kind
    if kind is GpuKind.NONE:
        return None
    if kind is GpuKind.MIG:
        return None if node.mig_strategy is MigStrategy.MIXED else "no MIG instances"
    if node.claim_devices:
        return "GPUs only through device claims"
    if node.mig_strategy is MigStrategy.SINGLE:
        return None if kind is GpuKind.WHOLE else "GPUs in MIG mode"
    return "GPUs in MIG mode" if node.mig_strategy is MigStrategy.MIXED else None


def _label_objection(shape: PodShape, node: Node) -> str | None:
    if not shape.node_rules or any(all(holds(rule, node) for rule in rules) for rules in shape.node_rules):
        return None
    return " or ".join(" and ".join(str(rule) for rule in rules) for rules in shape.node_rules)


def holds(rule: LabelRule, node: Node) -> bool:
    """Whether a rule about labels holds on a node."""
    value = node.labels.get(rule.key)
    match rule.operator:
        case LabelOperator.IN:
            return value in rule.values
        case LabelOperator.NOT_IN:
            return value not in rule.values
        case LabelOperator.EXISTS:
            return value is not None
        case LabelOperator.DOES_NOT_EXIST:
            return value is None
        case LabelOperator.GT:
            return _number(value) > _number(rule.values[0])
        case LabelOperator.LT:
            return _number(value) < _number(rule.values[0])


def _number(text: str | None) -> float:
    """Labels that are compared as numbers; whatever is none compares false with everything."""
    try:
        return float("nan") if text is None else int(text)
    except ValueError:
        return float("nan")


def _taint_objection(shape: PodShape, node: Node) -> str | None:
    for taint in node.taints:
        hard = taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        if hard and not any(toleration.covers(taint) for toleration in shape.tolerations):
            return f"taint {taint}"
    return None


def soft_taints(shape: PodShape, node: Node) -> int:
    """How many taints that a shape does not tolerate would rather keep it away."""
    return sum(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        and not any(toleration.covers(taint) for toleration in shape.tolerations)
        for taint in node.taints
    )
