"""Classes of nodes that are alike for every shape of a snapshot, so that a shape is checked once for each class."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from fairpool.model.workload import PodShape
from fairpool.scheduler.columns import NodeColumns


def rule_keys(shapes: Iterable[PodShape]) -> tuple[str, ...]:
    """Labels of nodes that the rules of some shapes are about."""
    return tuple(sorted({rule.key for shape in shapes for rules in shape.node_rules for rule in rules}))


def node_classes(nodes: NodeColumns, keys: Sequence[str]) -> list[list[int]]:
    """Nodes that are alike in everything that decides whether a shape may go there when they are empty."""
    classes: dict[Hashable, list[int]] = {}
    for node, row in enumerate(nodes.rows):
        alike = (
            (row.ready, row.cordoned, row.role, row.mig_strategy, bool(row.claim_devices), row.taints),
            (row.gpus, nodes.gpus[node], row.gpu_memory_mib, row.cpu_milli, row.memory_bytes),
            tuple(sorted(row.extended.items())) if row.extended else (),
            tuple(sorted(row.mig_instances.items())) if row.mig_instances else (),
            tuple(row.label(key) for key in keys) if keys else (),
            nodes.unschedulable_pods[node] > 0,
        )
        known = classes.get(alike)
        if known is None:
            classes[alike] = [node]
        else:
            known.append(node)
    return list(classes.values())
