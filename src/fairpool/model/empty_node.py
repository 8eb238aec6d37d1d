"""What an empty node could hold, and why it takes no pods of a shape: for scheduling, admission and verdicts."""

from __future__ import annotations

from fairpool.model.node import MigStrategy, Node, TaintEffect
from fairpool.model.node_role import role_objection
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, NodeSelectorOperator, NodeSelectorRequirement, PodShape


def copies_when_empty(node: Node, shape: PodShape) -> int:
    """How many pods of a shape a node could hold with nothing else on it."""
    gpu = shape.gpu
    room = [node.pods_max]
    match gpu.kind:
        case GpuKind.WHOLE:
            room.append(node.gpus // gpu.devices)
        case GpuKind.PORTION:
            room.append(node.gpus * (WHOLE_GPU_MILLI // gpu.portion_milli) // gpu.devices)
        case GpuKind.MEMORY:
            room.append(node.gpus * (node.gpu_memory_mib // gpu.memory_mib) // gpu.devices)
    amounts = [(shape.cpu_milli, node.cpu_milli), (shape.memory_bytes, node.memory_bytes)]
    for name, asked in (*shape.extended, *gpu.mig):
        amounts.append((asked, node.extended.get(name, 0) + node.mig_instances.get(name, 0)))
    room += [there // asked for asked, there in amounts if asked]
    return min(room) if gpu.devices <= node.gpus else 0


def matches(shape: PodShape, node: Node) -> bool:
    """Whether a node's labels are such as a shape demands."""
    return not shape.node_rules or any(all(_holds(rule, node) for rule in rules) for rules in shape.node_rules)


def node_objection(shape: PodShape, node: Node) -> str | None:
    """Why a node excludes pods of a shape by its role, kind, labels or taints; None if it does not."""
    return (
        role_objection(node.role, on_gpus=shape.gpu.kind is not GpuKind.NONE)
        or _wrong_kind_of_node(shape, node)
        or label_objection(shape, node)
        or _taint_objection(shape, node)
    )


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


def label_objection(shape: PodShape, node: Node) -> str | None:
    """The labels that a shape demands, if a node lacks them."""
    if matches(shape, node):
        return None
    return " or ".join(" and ".join(str(rule) for rule in rules) for rules in shape.node_rules)


def _taint_objection(shape: PodShape, node: Node) -> str | None:
    for taint in node.taints:
        hard = taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        if hard and not any(toleration.covers(taint) for toleration in shape.tolerations):
            return f"taint {taint}"
    return None


def preference(shape: PodShape, node: Node) -> int:
    """Weight of the node preferences of a shape that a node meets."""
    return sum(
        each.weight for each in shape.preferences if all(_holds(requirement, node) for requirement in each.requirements)
    )


def _holds(rule: NodeSelectorRequirement, node: Node) -> bool:
    """Whether a rule about labels holds on a node."""
    value = node.label(rule.key)
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
            return bool(rule.values) and _number(value) > _number(rule.values[0])
        case NodeSelectorOperator.LT:
            return bool(rule.values) and _number(value) < _number(rule.values[0])


def _number(text: str | None) -> float:
    """Labels that are compared as numbers; whatever is none compares false with everything."""
    try:
        return float("nan") if text is None else int(text)
    except ValueError:
        return float("nan")
