"""Node roles and preferred node affinity, added to a finished world."""

from __future__ import annotations

import random
from dataclasses import replace

from fairpool.model.node_role import NodeRole
from fairpool.model.workload import NodePreference, NodeSelectorOperator, NodeSelectorRequirement
from fairpool.scheduler.snapshot import Snapshot

LABELS = {"zone": "ab", "rack": "xyz", "generation": "123"}


def add_roles(snapshot: Snapshot, rng: random.Random) -> Snapshot:
    """Roles given to nodes on which pods already run."""
    roles = [*NodeRole, NodeRole.ANY, NodeRole.GPU_WORKER, NodeRole.GPU_WORKER]
    return replace(snapshot, nodes=tuple(replace(node, role=rng.choice(roles)) for node in snapshot.nodes))


def add_preferences(snapshot: Snapshot, rng: random.Random) -> Snapshot:
    """Preferences of some shapes; pods of one shape keep one shape."""
    shapes = list(dict.fromkeys(pod.shape for pod in snapshot.pods))
    chosen = {shape: replace(shape, preferences=_preferences(rng)) for shape in shapes if rng.random() < 0.7}
    pods = tuple(replace(pod, shape=chosen.get(pod.shape, pod.shape)) for pod in snapshot.pods)
    return replace(snapshot, pods=pods)


def _preferences(rng: random.Random) -> tuple[NodePreference, ...]:
    return tuple(NodePreference(rng.choice([1, 10, 100]), _requirements(rng)) for _ in range(rng.randint(1, 3)))


def _requirements(rng: random.Random) -> tuple[NodeSelectorRequirement, ...]:
    keys = rng.sample(sorted(LABELS), rng.choice([1, 1, 2]))
    return tuple(
        NodeSelectorRequirement(
            key,
            rng.choice([NodeSelectorOperator.IN, NodeSelectorOperator.NOT_IN]),
            (rng.choice(LABELS[key]),),
        )
        for key in keys
    )
