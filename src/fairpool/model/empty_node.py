"""What an empty node could hold: for requests that can never start, at admission and in verdicts."""

from __future__ import annotations

from fairpool.model.node import Node
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


def _holds(rule: NodeSelectorRequirement, node: Node) -> bool:
    """Whether a rule about labels holds on a node."""
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
