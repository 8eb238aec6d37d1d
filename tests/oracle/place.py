"""Placement: where a pod fits, which place is best, and places for whole chunks (specification, 4.0.3 and 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from fairpool.model.ids import GroupId, NodeName, PodId
from fairpool.model.node import MigStrategy, Node, Placement, Taint, TaintEffect
from fairpool.model.node_role import NodeRole
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
from tests.oracle.topology import NodeSet, node_sets
from tests.oracle.world import (
    CLAIM_DEVICES,
    CPU_MILLI,
    GPUS,
    MEMORY_BYTES,
    NEW_DEVICE,
    NOW,
    PLACED,
    PODS,
    SOON,
    WHOLE_GPU,
    Free,
    Place,
    PodState,
    Status,
    World,
    gpus_of,
)

CLAIM_CONSUMERS_MAX = 256


def place_chunk(
    world: World, group: GroupId, pods: Iterable[PodState], nodes: Iterable[NodeName], *, may_bind: bool
) -> World | None:
    """The world in which every pod of a chunk has a place; None: not all of them find one."""
    everywhere = NodeSet(tuple(sorted(nodes)), {})
    return _place(world, group, world.groups[group].row.tree, [pod.row.id for pod in pods], everywhere, may_bind)


def _place(
    world: World, group: GroupId, part: SubGroup | PodSet, chunk: list[PodId], among: NodeSet, may_bind: bool
) -> World | None:
    """Place the pods of a part of a group inside one set of nodes: the first that has room for all of them."""
    names = {each.name for each in part.all_pod_sets()} if isinstance(part, SubGroup) else {part.name}
    pods = [world.pods[pod] for pod in chunk if world.pods[pod].row.pod_set in names]
    if not pods:
        return world
    for node_set in node_sets(world, group, part.constraint, names, pods, among):
        after: World | None = world
        if isinstance(part, SubGroup):
            order = set_order(world, group)
            parts: list[SubGroup | PodSet] = [*sorted(part.groups, key=lambda each: each.name)]
            parts += sorted(part.pod_sets, key=lambda each: order.index(each.name))
            for each in parts:
                after = after and _place(after, group, each, chunk, node_set, may_bind)
        else:
            for pod in pods:
                after = after and _place_pod(after, pod.row.id, node_set, may_bind)
        if after is not None:
            return after
    return None


def _place_pod(world: World, name: PodId, among: NodeSet, may_bind: bool) -> World | None:
    """The node with the highest score among those where the pod fits; the smaller name on a tie."""
    pod = world.pods[name]
    score = scores(world, pod, among)
    for node in sorted(among.nodes, key=lambda each: (-score[each], each)):
        found = find_place(world, pod, node)
        if found is not None:
            place, is_free_now = found
            return world.give(name, place, now=may_bind and is_free_now)
    return None


# Fit


def find_place(world: World, pod: PodState, name: NodeName, wanted: tuple[int, ...] = ()) -> tuple[Place, bool] | None:
    """The place that a pod would get on a node, and whether it is free now; None: it does not fit there.

    A pod that shares devices gets those that are wanted, if they have room.
    """
    now, soon = world.free(name, NOW), world.free(name, SOON)
    if not may_run_on(world, pod, world.nodes[name]) or not _is_enough(soon, needs(world, pod)):
        return None
    is_free_now = _is_enough(now, needs(world, pod)) or is_best_effort(world, pod)
    if not pod.shares_devices:
        return Place(name), is_free_now
    devices = choose_devices(world, pod, name, now, soon, wanted)
    if devices is None:
        return None
    opened = [device for device in devices if device not in soon.used]
    joined = {device for device in devices if device in soon.used}
    is_free_now &= len(opened) <= now.amounts[GPUS]
    is_free_now &= not any(device in now.used or device in world.held_whole(name, NOW) for device in opened)
    is_free_now &= joined <= {*_hosts(world, pod, name, now)}
    return Place(name, devices), is_free_now


def is_free_now(world: World, pod: PodState) -> bool:
    """Whether the place that a pod is promised is free now."""
    assert pod.place is not None
    now = world.free(pod.place.node, NOW)
    asked = needs(world.with_pods(PodState(pod.row, Status.WAITING)), pod)
    opened = [device for device in pod.place.devices if device not in now.used]
    joined = {device for device in pod.place.devices if device in now.used}
    hosts = {*_hosts(world, pod, pod.place.node, now)}
    return _is_enough(now, asked) and len(opened) <= now.amounts[GPUS] and joined <= hosts


def _is_enough(there: Free, asked: Mapping[str, int]) -> bool:
    return all(amount <= there.amounts.get(name, 0) for name, amount in asked.items())


def needs(world: World, pod: PodState) -> dict[str, int]:
    """What must be free on a node, shared devices aside. CPU, memory and GPUs may not be overcommitted in any case."""
    shape = pod.row.shape
    others = {**dict(shape.extended), **dict(shape.gpu.mig), PODS: int(world.policy.predicates)}
    others[CLAIM_DEVICES] = world.devices_to_claim(pod.row.claims)
    return {
        CPU_MILLI: shape.cpu_milli,
        MEMORY_BYTES: shape.memory_bytes,
        GPUS: shape.gpu.devices if shape.gpu.kind is GpuKind.WHOLE else 0,
        **{name: amount for name, amount in others.items() if amount > 0},
    }


def is_best_effort(world: World, pod: PodState) -> bool:
    """So small that the reference binds it without asking what is idle."""
    milli, cpu_milli, memory_bytes = world.charge(pod)
    is_small = milli < 10 and cpu_milli < 10 and memory_bytes < 10 * 2**20
    return world.policy.best_effort_need_not_wait and is_small


def may_run_on(world: World, pod: PodState, node: Node) -> bool:
    """Everything but amounts (6.2)."""
    shape, group = pod.row.shape, world.groups[pod.row.group]
    if not node.is_healthy or node.name in group.row.avoid or not _claims_allow(world, pod, node):
        return False
    if not world.policy.predicates:
        return True
    return (
        shape.schedulable
        and _role_allows(shape.gpu.kind, node)
        and _suits_kind(world, shape.gpu.kind, node)
        and not any(taint.effect is not TaintEffect.PREFER_NO_SCHEDULE for taint in _not_tolerated(pod, node))
        and (not shape.node_rules or any(all(_holds(rule, node) for rule in rules) for rules in shape.node_rules))
        and all(_is_near(world, pod, rule, node) for rule in shape.near)
        and not any(_is_beside(world, pod, rule, node) for rule in shape.apart)
        and not _is_kept_apart(world, pod, node)
        and is_allowed(world, pod.row.group, _charge_at_node(world, pod, node))
    )


def _charge_at_node(world: World, pod: PodState, node: Node) -> tuple[float, ...]:
    """What the limits are asked about on a node; the reference counts one of several devices (B6)."""
    milli, *rest = world.charge(pod, node.name)
    devices = 1 if world.policy.charge_all_devices_per_node else max(1, pod.row.shape.gpu.devices)
    return (milli // devices, *rest)


def _role_allows(kind: GpuKind, node: Node) -> bool:
    """GPU workers take pods with GPUs, CPU workers the others."""
    wanted = NodeRole.CPU_WORKER if kind is GpuKind.NONE else NodeRole.GPU_WORKER
    return node.role in (NodeRole.ANY, wanted)


def _suits_kind(world: World, kind: GpuKind, node: Node) -> bool:
    """MIG requests go to nodes that offer MIG profiles, other GPU requests to nodes that offer devices."""
    if kind is GpuKind.NONE:
        return True
    if kind is GpuKind.MIG:
        runs_legacy = any(not other.row.shape.schedulable for other, _, _ in world.pods_on(node.name))
        return node.mig_strategy is MigStrategy.MIXED and not runs_legacy
    if node.claim_devices or node.mig_strategy is MigStrategy.MIXED:
        return False
    if kind is GpuKind.MEMORY and not node.gpu_memory_mib:
        return False
    return kind is GpuKind.WHOLE or node.mig_strategy is None


def _not_tolerated(pod: PodState, node: Node) -> list[Taint]:
    tolerations = pod.row.shape.tolerations
    return [
        taint
        for taint in node.taints
        if not any(
            each.key in ("", taint.key) and each.value in (None, taint.value) and each.effect in (None, taint.effect)
            for each in tolerations
        )
    ]


def _holds(rule: NodeSelectorRequirement, node: Node) -> bool:
    value = node.labels.get(rule.key)
    match rule.operator:
        case NodeSelectorOperator.IN:
            return value in rule.values
        case NodeSelectorOperator.NOT_IN:
            return value not in rule.values
        case NodeSelectorOperator.EXISTS:
            return value is not None
        case NodeSelectorOperator.DOES_NOT_EXIST:
            return value is None
    numbers = [value, *rule.values[:1]]
    if len(numbers) < 2 or not all(each is not None and each.removeprefix("-").isdecimal() for each in numbers):
        return False
    mine, bound = (int(each or 0) for each in numbers)
    return mine > bound if rule.operator is NodeSelectorOperator.GT else mine < bound


# Other pods nearby


def _is_near(world: World, pod: PodState, rule: PodAffinityTerm, node: Node) -> bool:
    """In a domain with a matching pod; the first pod of its kind may go to any domain."""
    if world.policy.near_what_stays:
        leaving = [other for other in world.pods.values() if other.status is Status.LEAVING]
        world = world.with_pods(*(PodState(other.row, Status.WAITING) for other in leaving))
    if _is_beside(world, pod, rule, node):
        return True
    is_first = not any(_is_beside(world, pod, rule, other) for other in world.nodes.values())
    return rule.topology_key in node.labels and is_first and set(rule.labels) <= set(pod.row.shape.labels)


def _is_beside(world: World, pod: PodState, rule: PodAffinityTerm, node: Node) -> bool:
    """Whether a pod that matches a rule is in the node's domain."""
    return any(
        set(rule.labels) <= set(other.row.shape.labels) and _are_together(rule, node, there)
        for other, there in _others(world, pod)
    )


def _is_kept_apart(world: World, pod: PodState, node: Node) -> bool:
    """Whether a pod in the node's domain keeps apart from pods with this pod's labels."""
    return any(
        set(rule.labels) <= set(pod.row.shape.labels) and _are_together(rule, node, there)
        for other, there in _others(world, pod)
        for rule in other.row.shape.apart
    )


def _others(world: World, pod: PodState) -> list[tuple[PodState, Node]]:
    """The other pods of the namespace that have a place, and their nodes."""
    namespace = world.groups[pod.row.group].row.namespace
    return [
        (other, world.nodes[other.place.node])
        for other in world.pods.values()
        if other.place is not None
        and other.row.id != pod.row.id
        and world.groups[other.row.group].row.namespace == namespace
    ]


def _are_together(rule: PodAffinityTerm, node: Node, other: Node) -> bool:
    domain = node.labels.get(rule.topology_key)
    return domain is not None and other.labels.get(rule.topology_key) == domain


# Device claims


def _claims_allow(world: World, pod: PodState, node: Node) -> bool:
    """Every claim exists, may be used from this queue, has room for one more user and is not on another node."""
    for name in pod.row.claims:
        claim = world.claims.get(name)
        if claim is None:
            return False
        users = [other for other in world.pods.values() if name in other.row.claims and other.status in PLACED]
        if claim.consumers_elsewhere + len(users) >= CLAIM_CONSUMERS_MAX:
            return False
        if claim.counts_as_gpu and not claim.from_template and claim.queue != world.groups[pod.row.group].queue:
            return False
        if world.claim_node(name) not in (None, node.name):
            return False
    return True


# Devices for pods that share them


def _hosts(world: World, pod: PodState, node: NodeName, there: Free) -> list[int]:
    """Shared devices of a node that have room for one more pod."""
    most = world.device_memory(node) - world.memory_on_device(pod, node)
    return sorted(device for device, used in there.used.items() if used <= most)


def choose_devices(
    world: World, pod: PodState, node: NodeName, now: Free, soon: Free, wanted: tuple[int, ...]
) -> tuple[int, ...] | None:
    """As many different devices as the pod asks for (6.4): shared ones, then whole ones, opened for sharing."""
    count, whole = pod.row.shape.gpu.devices, max(0, soon.amounts[GPUS])
    hosts = _hosts(world, pod, node, soon)
    if world.memory_on_device(pod, node) > world.device_memory(node) or len(hosts) + whole < count:
        return None
    opened = [device for device in wanted if device not in soon.used and device not in world.held_whole(node, SOON)]
    if len(wanted) == count and len(opened) <= whole and all(each in hosts or each in opened for each in wanted):
        return wanted
    memory_used = dict.fromkeys(hosts, 0)
    for other, devices, _ in world.pods_on(node):
        for device in devices:
            if device in memory_used:
                memory_used[device] += world.memory_on_device(other, node)
    spreads = world.snapshot.pool.gpu_placement is Placement.SPREAD
    match world.policy.device_choice or (DeviceChoice.SPREAD if spreads else DeviceChoice.PACK):
        case DeviceChoice.PACK:
            chosen = sorted(hosts, key=lambda each: -memory_used[each])[:count]
        case DeviceChoice.SPREAD:
            chosen = sorted(hosts, key=lambda each: memory_used[each])[: max(0, count - whole)]
        case _:
            chosen = hosts[:count]
    own: tuple[int, ...] = ()
    if world.policy.victims_keep_devices and pod.is_evicted and pod.place is not None and pod.place.node == node:
        own = pod.place.devices
    chosen += [device for device in own if device in now.used and device not in soon.used][: count - len(chosen)]
    newest = max([NEW_DEVICE, *(device for _, devices, _ in world.pods_on(node) for device in devices)])
    chosen += range(newest + 1, newest + 1 + count - len(chosen))
    return own if set(own) == set(chosen) else tuple(chosen)


# Score


def scores(world: World, pod: PodState, among: NodeSet) -> dict[NodeName, Fraction]:
    """How good each node is for a pod, fitting or not (6.3). Each term outweighs those after it."""
    found, is_gpu = {}, world.wants_gpu(pod)
    placement = _placement(world, among, is_gpu)
    for name in among.nodes:
        node = world.nodes[name]
        has_no_gpus = not (node.gpus or node.mig_instances or node.claim_devices)
        points: dict[ScoreTerm, Fraction | int] = {
            ScoreTerm.NOMINATED: 10**11 * (pod.row.nominated == name),
            ScoreTerm.TOPOLOGY: 10**9 * among.points.get(name, 0),
            ScoreTerm.PREFERENCES: 10**4 * _preference(pod, node) * _is_available(world, pod, name),
            ScoreTerm.SHARING: 1000 * _joins_shared_device(world, pod, name),
            ScoreTerm.AVAILABILITY: 100 * _is_available(world, pod, name),
            ScoreTerm.RESOURCE_TYPE: 10 * (has_no_gpus and not is_gpu),
            ScoreTerm.SOFT_TAINTS: -len(_not_tolerated(pod, node)),
            ScoreTerm.PLACEMENT: placement[name] / 10,
        }
        found[name] = Fraction(sum(points[term] for term in points if term in world.policy.score_terms))
    return found


def _preference(pod: PodState, node: Node) -> int:
    terms = pod.row.shape.preferences
    return sum(term.weight for term in terms if all(_holds(each, node) for each in term.requirements))


def _joins_shared_device(world: World, pod: PodState, node: NodeName) -> bool:
    """A shared device has room; in the reference, a pod without GPU likes shared devices in use, too."""
    if world.snapshot.pool.gpu_placement is not Placement.BINPACK:
        return False
    if pod.shares_devices:
        return bool(_hosts(world, pod, node, world.free(node, SOON)))
    return world.policy.cpu_pods_join_shared and not world.wants_gpu(pod) and bool(world.free(node, NOW).used)


def _is_available(world: World, pod: PodState, node: NodeName) -> bool:
    now = world.free(node, NOW)
    if not _is_enough(now, needs(world, pod)) and not is_best_effort(world, pod):
        return False
    if not pod.shares_devices:
        return True
    hosts = {*_hosts(world, pod, node, now)} & {*_hosts(world, pod, node, world.free(node, SOON))}
    return max(0, now.amounts[GPUS]) + len(hosts) >= pod.row.shape.gpu.devices


def _placement(world: World, among: NodeSet, is_gpu: bool) -> dict[NodeName, Fraction]:
    """Pack: the fuller a node the better, 0 to 9. Spread: the emptier the better, 0 to 1."""
    nodes, pool = {name: world.nodes[name] for name in among.nodes}, world.snapshot.pool
    capacity = {name: WHOLE_GPU * gpus_of(node) if is_gpu else node.cpu_milli for name, node in nodes.items()}
    there = {name: _free_there(world, name, is_gpu) for name in nodes if capacity[name]}
    points = dict.fromkeys(nodes, Fraction(0))
    for name, amount in there.items():
        least, most = min(there.values()), max(there.values())
        if (pool.gpu_placement if is_gpu else pool.cpu_placement) is Placement.SPREAD:
            points[name] = Fraction(amount, capacity[name])
        else:
            points[name] = Fraction(9) if least == most else 9 - Fraction(9 * (amount - least), most - least)
    return points


def _free_there(world: World, node: NodeName, is_gpu: bool) -> int:
    """What is idle or being released on a node: thousandths of GPUs, or of cores."""
    soon = world.free(node, SOON)
    if not is_gpu:
        return soon.amounts[CPU_MILLI]
    whole = WHOLE_GPU * (soon.amounts[GPUS] + soon.amounts[CLAIM_DEVICES])
    return whole + (world.partly_free(node, soon) if world.policy.pack_partial_devices else 0)
