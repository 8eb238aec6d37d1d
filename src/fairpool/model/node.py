"""Nodes, their labels and taints, and the pools they form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fairpool.model.ids import NodeName, PoolName
from fairpool.model.node_role import NodeRole

DEFAULT_POOL = PoolName("default")

SIMULATED_LABEL = "fairpool/simulated"
RUNTIME_LABEL = "fairpool/runtime"
"""On nodes whose pods run in containers: podman or docker."""
PRODUCT_LABEL = "nvidia.com/gpu.product"
NODE_TYPE_LABEL = "run.ai/type"
HOSTNAME_LABEL = "kubernetes.io/hostname"
"""Every node has it: its name, unless it is labelled otherwise."""


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark that keeps pods away unless they tolerate it, such as `runai=drain:NoExecute`."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


DRAIN = Taint("runai", "drain", TaintEffect.NO_EXECUTE)
"""What `runai-adm node drain` puts on a node."""


class MigStrategy(StrEnum):
    """How a node with GPUs in MIG mode offers them."""

    SINGLE = "single"
    """Every slice is offered as a whole GPU."""
    MIXED = "mixed"
    """Slices are offered by profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine as the scheduler sees it: what it has, not what is in use."""

    name: NodeName
    cpu_milli: int
    memory_bytes: int
    pods_max: int = 110
    gpus: int = 0
    """Devices 0 to `gpus` - 1, scheduled whole or in portions."""
    gpu_memory_mib: int = 0
    """Memory of each device; 0 when it is not known, and then no pod can request GPU memory here."""
    gpus_withheld: tuple[int, ...] = ()
    """Devices that exist and are not scheduled: failed, or used by processes outside Fairpool."""
    mig_strategy: MigStrategy | None = None
    mig_instances: Mapping[str, int] = field(default_factory=dict)
    """MIG profile (`nvidia.com/mig-3g.20gb`) to number of instances."""
    extended: Mapping[str, int] = field(default_factory=dict)
    """Any other countable resource, by name."""
    claim_devices: tuple[str, ...] = ()
    """Devices that are scheduled through device claims, by name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False
    role: NodeRole = NodeRole.ANY

    def label(self, key: str) -> str | None:
        """The value of a label; None: it has no such label."""
        return self.labels.get(key, self.name if key == HOSTNAME_LABEL else None)

    def offers(self, devices: Iterable[int]) -> bool:
        """Whether all these devices exist and can be scheduled."""
        return all(0 <= each < self.gpus and each not in self.gpus_withheld for each in devices)

    @property
    def is_healthy(self) -> bool:
        """Whether new pods may go here and its capacity counts."""
        return self.ready and not self.cordoned


class Placement(StrEnum):
    """Where a pod goes among the nodes where it fits."""

    BINPACK = "binpack"
    """On the fullest node."""
    SPREAD = "spread"
    """On the emptiest node."""
    FRAGMENTATION = "fragmentation"
    """Where typical requests lose least of what they could still use; see `scheduler/fragments.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """Nodes that share a label value; quotas and placement are per pool. Without a label: the rest."""

    name: PoolName = DEFAULT_POOL
    label_key: str = ""
    label_value: str = ""
    gpu_placement: Placement = Placement.BINPACK
    cpu_placement: Placement = Placement.BINPACK


def nodes_by_pool(nodes: Iterable[Node], pools: Sequence[NodePool]) -> dict[PoolName, tuple[Node, ...]]:
    """The nodes of each pool: the first pool, by name, whose label a node carries; the default pool takes the rest."""
    labelled = sorted((pool for pool in pools if pool.label_key), key=lambda pool: pool.name)
    rest = next((pool.name for pool in pools if not pool.label_key), DEFAULT_POOL)
    members: dict[PoolName, list[Node]] = {pool.name: [] for pool in pools}
    for node in nodes:
        home = next((pool.name for pool in labelled if node.labels.get(pool.label_key) == pool.label_value), rest)
        members.setdefault(home, []).append(node)
    return {name: tuple(each) for name, each in members.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A tree over nodes: label keys from the widest level to the narrowest."""

    name: str
    levels: tuple[str, ...] = ()

    def domain_of(self, node: Node) -> tuple[str, ...] | None:
        """Where a node is, from the widest level to the narrowest; None if it lacks a label and takes no part."""
        found = [value for level in self.levels if (value := node.label(level)) is not None]
        return tuple(found) if len(found) == len(self.levels) else None
