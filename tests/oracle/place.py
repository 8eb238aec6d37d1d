"""Where a pod goes: fit, score, devices, and whole chunks (specification, sections 4.0.3 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from fairpool.model.ids import NodeName
from fairpool.model.node import Node, Placement, Taint, TaintEffect
from fairpool.model.quantity import WHOLE_GPU_MILLI, Amounts
from fairpool.model.workload import (
    GpuKind,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodAffinityTerm,
    PodSet,
    SubGroup,
)
from fairpool.scheduler.policy import DeviceChoice, ScoreTerm
from tests.oracle.order import is_allowed, set_order
from tests.oracle.topology import Scores, node_sets
from tests.oracle.world import (
    ACTIVE,
    CLAIM_CONSUMERS_MAX,
    CLAIM_DEVICES,
    CPU,
    GPUS,
    MEMORY,
    PODS,
    GroupState,
    Place,
    PodState,
    Room,
    Shared,
    World,
    is_best_effort,
    suits_mig,
    wants_gpu,
)

SOFT_TAINT_SCORE = 50
"""For a node that no soft taint speaks against: less than being available now, more than the kind of node."""


def place_chunk(
    world: World, group: GroupState, pods: Collection[PodState], nodes: Iterable[NodeName], *, may_bind: bool
) -> bool:
    """Give every pod of a chunk a place, or none of them."""
    mark = world.mark()
    if _place_tree(world, group, group.row.tree, pods, sorted(nodes), {}, may_bind):
        return True
    world.undo(mark)
    return False


def _place_tree(
    world: World,
    group: GroupState,
    tree: SubGroup,
    pods: Collection[PodState],
    nodes: list[NodeName],
    scores: Scores,
    may_bind: bool,
) -> bool:
    names = {pod_set.name for pod_set in tree.all_pod_sets()}
    mine = [pod for pod in pods if pod.row.pod_set in names]
    if not mine:
        return True
    own_sets = {pod_set.name: pod_set for pod_set in tree.pod_sets}
    order = [own_sets[name] for name in set_order(group) if name in own_sets]
    for subset, its_scores in node_sets(world, group, tree.constraint, names, mine, nodes, scores):
        mark = world.mark()
        below = sorted(tree.groups, key=lambda each: each.name)
        if all(_place_tree(world, group, each, mine, subset, its_scores, may_bind) for each in below) and all(
            _place_set(world, group, each, mine, subset, its_scores, may_bind) for each in order
        ):
            return True
        world.undo(mark)
    return False


def _place_set(
    world: World,
    group: GroupState,
    pod_set: PodSet,
    pods: Collection[PodState],
    nodes: list[NodeName],
    scores: Scores,
    may_bind: bool,
) -> bool:
    mine = [pod for pod in pods if pod.row.pod_set == pod_set.name]
    if not mine:
        return True
    for subset, its_scores in node_sets(world, group, pod_set.constraint, {pod_set.name}, mine, nodes, scores):
        mark = world.mark()
        if all(_place_pod(world, pod, subset, its_scores, may_bind) for pod in mine):
            return True
        world.undo(mark)
    return False


def _place_pod(world: World, pod: PodState, nodes: list[NodeName], scores: Scores, may_bind: bool) -> bool:
    """The node with the highest score among those where the pod fits, the smaller name on a tie."""
    ranked = sorted(nodes, key=lambda node: (-_score(world, pod, node, nodes, scores), node))
    for node in ranked:
        seat = _seat(world, pod, node)
        if seat is not None:
            world.give(pod, seat.place, now=may_bind and seat.is_free_now)
            return True
    return False


# Fit


@dataclass(frozen=True)
class Seat:
    """A place that a pod could have."""

    place: Place
    is_free_now: bool


def _seat(world: World, pod: PodState, name: NodeName) -> Seat | None:
    """The place a pod would get on a node, if it fits there, now or soon."""
    node, room = world.nodes[name], world.room(name)
    if not _may_go(world, pod, node):
        return None
    if not all(amount <= room.soon(each) for each, amount in _needs(world, pod).items()):
        return None
    fits_now = _fits_now(world, pod, room)
    if not pod.shares_devices:
        return Seat(Place(name), fits_now)
    devices = _choose_devices(world, pod, node, room)
    if devices is None:
        return None
    opened = sum(1 for device in devices if device not in room.devices or room.devices[device].is_all_leaving)
    memory, need = world.device_memory(node), world.device_need(pod, node)
    joined = [room.devices[device] for device in devices if device in room.devices]
    is_free_now = fits_now and opened <= room.now(GPUS) and all(_hosts_now(each, memory, need) for each in joined)
    return Seat(Place(name, devices), is_free_now)


def _may_go(world: World, pod: PodState, node: Node) -> bool:
    """Everything but amounts."""
    shape = pod.row.shape
    if not node.is_healthy or node.name in pod.group.row.avoid or not _claims_allow(world, pod, node):
        return False
    if not world.policy.predicates:
        return True
    kind = shape.gpu.kind
    return (
        shape.schedulable
        and suits_mig(node, kind)
        and not (kind is GpuKind.MIG and _runs_unschedulable(world, node))
        and not (kind is GpuKind.MEMORY and not node.gpu_memory_mib)
        and not (kind in (GpuKind.WHOLE, GpuKind.PORTION, GpuKind.MEMORY) and node.claim_devices)
        and all(_tolerates(pod, taint) for taint in node.taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE)
        and (not shape.node_rules or any(_obeys(node, rules) for rules in shape.node_rules))
        and all(_is_near(world, pod, rule, node) for rule in shape.near)
        and not any(_neighbours(world, pod, rule, node) for rule in shape.apart)
        and not _is_unwelcome(world, pod, node)
        and is_allowed(world, pod.group, _charge_checked(world, pod, node))
    )


def _is_unwelcome(world: World, pod: PodState, node: Node) -> bool:
    """Whether a pod that is in one domain with this node keeps apart from pods with this pod's labels."""
    for group in world.groups.values():
        for other in group.pods if group.row.namespace == pod.group.row.namespace else ():
            if other is pod or other.status not in ACTIVE or other.stand.place is None:
                continue
            there = world.nodes[other.stand.place.node]
            for rule in other.row.shape.apart:
                domain = node.labels.get(rule.topology_key)
                is_together = domain is not None and there.labels.get(rule.topology_key) == domain
                if is_together and set(rule.labels) <= set(pod.row.shape.labels):
                    return True
    return False


def _needs(world: World, pod: PodState) -> dict[str, int]:
    """What must be free on a node, shared devices aside."""
    shape = pod.row.shape
    needs = {CPU: shape.cpu_milli, MEMORY: shape.memory_bytes, **dict(shape.extended), **dict(shape.gpu.mig)}
    if world.policy.predicates:
        needs[PODS] = 1
    if shape.gpu.kind is GpuKind.WHOLE:
        needs[GPUS] = shape.gpu.devices
    needs[CLAIM_DEVICES] = sum(
        world.claims[claim].devices
        for claim in pod.row.claims
        if claim in world.claims and world.claim_node(claim) is None
    )
    return {name: amount for name, amount in needs.items() if amount > 0}


def _fits_now(world: World, pod: PodState, room: Room) -> bool:
    needs = _needs(world, pod)
    return is_best_effort(world, pod) or all(amount <= room.now(each) for each, amount in needs.items())


def _charge_checked(world: World, pod: PodState, node: Node) -> Amounts:
    """What the gate is asked about on a node; by oddity B6 several devices count as one."""
    charge = world.charge(pod, node.name)
    devices = pod.row.shape.gpu.devices
    if world.policy.charge_all_devices_per_node or not devices:
        return charge
    return Amounts(charge.gpu_milli // devices, charge.cpu_milli, charge.memory_bytes)


def _claims_allow(world: World, pod: PodState, node: Node) -> bool:
    for name in pod.row.claims:
        claim = world.claims.get(name)
        if claim is None or world.claim_consumers(name) >= CLAIM_CONSUMERS_MAX:
            return False
        if claim.counts_as_gpu and not claim.from_template and claim.queue != pod.group.queue:
            return False
        if world.claim_node(name) not in (None, node.name):
            return False
    return True


def _runs_unschedulable(world: World, node: Node) -> bool:
    return any(not pod.row.shape.schedulable for pod, _, _ in world.at(node.name))


def _tolerates(pod: PodState, taint: Taint) -> bool:
    return any(toleration.covers(taint) for toleration in pod.row.shape.tolerations)


def _obeys(node: Node, rules: Iterable[NodeSelectorRequirement]) -> bool:
    return all(_holds(rule, node.labels.get(rule.key)) for rule in rules)


def _holds(rule: NodeSelectorRequirement, value: str | None) -> bool:
    match rule.operator:
        case NodeSelectorOperator.IN:
            return value in rule.values
        case NodeSelectorOperator.NOT_IN:
            return value not in rule.values
        case NodeSelectorOperator.EXISTS:
            return value is not None
        case NodeSelectorOperator.DOES_NOT_EXIST:
            return value is None
        case NodeSelectorOperator.GT:
            return _is_integer(value) and all(_is_integer(x) and int(value or 0) > int(x) for x in rule.values)
        case NodeSelectorOperator.LT:
            return _is_integer(value) and all(_is_integer(x) and int(value or 0) < int(x) for x in rule.values)


def _is_integer(text: str | None) -> bool:
    return text is not None and text.removeprefix("-").isdecimal()


def _is_near(world: World, pod: PodState, rule: PodAffinityTerm, node: Node) -> bool:
    """In a domain with a matching pod; the first pod of its kind may go anywhere."""
    if rule.topology_key not in node.labels:
        return False
    if _neighbours(world, pod, rule, node):
        return True
    is_first = not any(_neighbours(world, pod, rule, each) for each in world.nodes.values())
    return is_first and set(rule.labels) <= set(pod.row.shape.labels)


def _neighbours(world: World, pod: PodState, rule: PodAffinityTerm, node: Node) -> bool:
    """Whether a matching pod is in the node's domain."""
    domain = node.labels.get(rule.topology_key)
    return domain is not None and any(
        other.status in ACTIVE
        and other.stand.place is not None
        and other is not pod
        and other.group.row.namespace == pod.group.row.namespace
        and set(rule.labels) <= set(other.row.shape.labels)
        and world.nodes[other.stand.place.node].labels.get(rule.topology_key) == domain
        for other in world.pods.values()
    )


# Devices for sharers


def _hosts_soon(shared: Shared, memory: int, need: int) -> bool:
    """A device all of whose users leave counts as a whole one instead."""
    return not shared.is_all_leaving and memory - shared.real - shared.promised >= need


def _hosts_now(shared: Shared, memory: int, need: int) -> bool:
    is_really_shared = bool(shared.real or shared.leaving)
    return is_really_shared and memory - shared.real - shared.leaving >= need and _hosts_soon(shared, memory, need)


def _choose_devices(world: World, pod: PodState, node: Node, room: Room) -> tuple[str, ...] | None:
    """As many different devices as asked for, in the order of the policy; None if there are not enough."""
    count = pod.row.shape.gpu.devices
    memory, need = world.device_memory(node), world.device_need(pod, node)
    fresh = max(0, room.soon(GPUS))
    if need > memory:
        return None
    shared_ones = [name for name, shared in room.devices.items() if _hosts_soon(shared, memory, need)]
    if len(shared_ones) + fresh < count:
        return None

    def used(device: str) -> int:
        shared = room.devices[device]
        return shared.real + shared.leaving + shared.promised

    by_name = sorted(shared_ones, key=lambda device: (len(device), device))
    chosen = by_name[:count]
    packs = world.snapshot.pool.gpu_placement is Placement.BINPACK
    choice = world.policy.device_choice or (DeviceChoice.PACK if packs else DeviceChoice.SPREAD)
    if choice is DeviceChoice.PACK:
        chosen = sorted(by_name, key=used, reverse=True)[:count]
    if choice is DeviceChoice.SPREAD:
        chosen = sorted(by_name, key=used)[: max(0, count - fresh)]
    own = _own_devices(world, pod, node)
    chosen += [device for device in own if room.devices[device].is_all_leaving][: count - len(chosen)]
    chosen += [world.open_device() for _ in range(count - len(chosen))]
    return own if set(own) == set(chosen) else tuple(chosen)


def _own_devices(world: World, pod: PodState, node: Node) -> tuple[str, ...]:
    """The devices that an evicted sharer still holds on this node, if it is to keep them rather than open others."""
    before = pod.stand.before
    keeps = world.policy.victims_keep_devices and pod.is_evicted
    if not keeps or before is None or before.place is None or before.place.node != node.name:
        return ()
    return before.place.devices


# Score


def _score(
    world: World, pod: PodState, name: NodeName, among: Iterable[NodeName], topology: Mapping[NodeName, int]
) -> Fraction:
    """How good a node is for a pod; whether it fits is another question."""
    node, room = world.nodes[name], world.room(name)
    terms: dict[ScoreTerm, Callable[[], Fraction | int]] = {
        ScoreTerm.NOMINATED: lambda: 10**6 * (pod.row.nominated == name),
        ScoreTerm.TOPOLOGY: lambda: 10**4 * topology.get(name, 0),
        ScoreTerm.SHARING: lambda: 1000 * _joins_sharers(world, pod, node, room),
        ScoreTerm.AVAILABILITY: lambda: 100 * _is_available(world, pod, node, room),
        ScoreTerm.SOFT_TAINTS: lambda: SOFT_TAINT_SCORE * _is_welcome(pod, node),
        ScoreTerm.RESOURCE_TYPE: lambda: 10 * (not wants_gpu(world, pod) and not _has_gpus(node)),
        ScoreTerm.PLACEMENT: lambda: _placement(world, pod, name, among),
    }
    counted = (term() for each, term in terms.items() if each in world.policy.score_terms)
    return Fraction(sum(counted))


def _joins_sharers(world: World, pod: PodState, node: Node, room: Room) -> bool:
    if world.snapshot.pool.gpu_placement is not Placement.BINPACK:
        return False
    if pod.shares_devices:
        memory, need = world.device_memory(node), world.device_need(pod, node)
        return any(_hosts_soon(shared, memory, need) for shared in room.devices.values())
    in_use = any(not shared.is_only_promised for shared in room.devices.values())
    return world.policy.cpu_pods_join_shared and not wants_gpu(world, pod) and in_use


def _is_available(world: World, pod: PodState, node: Node, room: Room) -> bool:
    if not _fits_now(world, pod, room):
        return False
    if not pod.shares_devices:
        return True
    memory, need = world.device_memory(node), world.device_need(pod, node)
    joinable = sum(1 for shared in room.devices.values() if _hosts_now(shared, memory, need))
    return max(0, room.now(GPUS)) + joinable >= pod.row.shape.gpu.devices


def _is_welcome(pod: PodState, node: Node) -> bool:
    soft = (taint for taint in node.taints if taint.effect is TaintEffect.PREFER_NO_SCHEDULE)
    return all(_tolerates(pod, taint) for taint in soft)


def _has_gpus(node: Node) -> bool:
    return bool(node.gpus or node.mig_instances or node.claim_devices)


def _placement(world: World, pod: PodState, name: NodeName, among: Iterable[NodeName]) -> Fraction:
    """Pack: the fuller the better, 0 to 9. Spread: the emptier the better, 0 to 1."""
    is_gpu = wants_gpu(world, pod)
    pool = world.snapshot.pool
    strategy = pool.gpu_placement if is_gpu else pool.cpu_placement
    capacity = _capacity(world, world.nodes[name], is_gpu)
    if not capacity:
        return Fraction(0)
    if strategy is Placement.SPREAD:
        return Fraction(_free(world, name, is_gpu), capacity)
    free = [_free(world, each, is_gpu) for each in among if _capacity(world, world.nodes[each], is_gpu)]
    least, most = min(free), max(free)
    if least == most:
        return Fraction(9)
    return 9 - Fraction(9 * (_free(world, name, is_gpu) - least), most - least)


def _capacity(world: World, node: Node, is_gpu: bool) -> int:
    return (
        WHOLE_GPU_MILLI * (node.gpus - len(node.gpus_withheld) + len(node.claim_devices)) if is_gpu else node.cpu_milli
    )


def _free(world: World, name: NodeName, is_gpu: bool) -> int:
    """CPU, or thousandths of GPUs, idle or being released."""
    room = world.room(name)
    if not is_gpu:
        return room.soon(CPU)
    free = WHOLE_GPU_MILLI * (room.soon(GPUS) + room.soon(CLAIM_DEVICES))
    if world.policy.pack_partial_devices:
        free += sum(free_parts(world, name, room))
    return free


def free_parts(world: World, name: NodeName, room: Room) -> list[int]:
    """For every shared device that somebody stays on, the thousandths that are free or being released."""
    memory = world.device_memory(world.nodes[name])
    return [
        WHOLE_GPU_MILLI * (memory - shared.real - shared.promised) // memory
        for shared in room.devices.values()
        if not shared.is_all_leaving
    ]
