"""Pod groups with their sub-groups, pods with their shapes, GPU requests.

A `PodShape` is everything that decides where a pod may go. It is hashable, so that pods of equal shape can be
decided together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fairpool.model.ids import ClaimId, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Taint, TaintEffect, Topology
from fairpool.model.quantity import WHOLE_GPU_MILLI, portion_memory_mib


class GpuKind(StrEnum):
    """The ways to ask for a GPU."""

    NONE = "none"
    WHOLE = "whole"
    PORTION = "portion"
    MEMORY = "memory"
    MIG = "mig"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """GPUs of one pod: whole devices, a portion or an amount of memory of each, or MIG instances."""

    devices: int = 0
    portion_milli: int = WHOLE_GPU_MILLI
    """Of each device."""
    memory_mib: int = 0
    """Of each device, instead of a portion; 0 when not asked for."""
    mig: tuple[tuple[str, int], ...] = ()
    """MIG profile and count, sorted by profile."""

    @property
    def kind(self) -> GpuKind:
        if self.mig:
            return GpuKind.MIG
        if not self.devices:
            return GpuKind.NONE
        if self.memory_mib:
            return GpuKind.MEMORY
        return GpuKind.WHOLE if self.portion_milli == WHOLE_GPU_MILLI else GpuKind.PORTION

    def own_memory_mib(self, device_memory_mib: int) -> int:
        """What it gives of a device with so much memory."""
        if self.memory_mib:
            return min(self.memory_mib, device_memory_mib)
        if self.portion_milli >= WHOLE_GPU_MILLI:
            return device_memory_mib
        return portion_memory_mib(self.portion_milli, device_memory_mib)


NO_GPU = GpuRequest()


def whole_gpus(count: int) -> GpuRequest:
    """A request for whole devices."""
    return GpuRequest(devices=count)


def gpu_portion(portion_milli: int, devices: int = 1) -> GpuRequest:
    """A request for a portion of each of several devices."""
    return GpuRequest(devices=devices, portion_milli=portion_milli)


def gpu_memory(memory_mib: int, devices: int = 1) -> GpuRequest:
    """A request for an amount of GPU memory on each of several devices."""
    return GpuRequest(devices=devices, memory_mib=memory_mib)


class NodeSelectorOperator(StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class NodeSelectorRequirement:
    """One condition on a node's labels, as in Kubernetes' node affinity."""

    key: str
    operator: NodeSelectorOperator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.values:
            return f"{self.key} {self.operator}"
        if self.operator is NodeSelectorOperator.IN and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        return f"{self.key} {self.operator} ({', '.join(self.values)})"


@dataclass(frozen=True, slots=True)
class NodePreference:
    """A preferred node affinity: of the nodes where a pod can start, those that meet all requirements are better."""

    weight: int
    """1 to 100; the weights of all that a node meets add up."""
    requirements: tuple[NodeSelectorRequirement, ...]


@dataclass(frozen=True, slots=True)
class Toleration:
    """Lets a pod onto nodes with matching taints. An empty key tolerates every taint."""

    key: str = ""
    value: str | None = None
    """None: any value."""
    effect: TaintEffect | None = None
    """None: any effect."""

    def covers(self, taint: Taint) -> bool:
        return (
            (not self.key or self.key == taint.key)
            and (self.value is None or self.value == taint.value)
            and (self.effect is None or self.effect == taint.effect)
        )


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A required pod (anti-)affinity: the same, or another, domain of a node label as pods that carry these labels."""

    topology_key: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """Everything about a pod that decides where it may go."""

    gpu: GpuRequest = NO_GPU
    cpu_milli: int = 0
    memory_bytes: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Any other countable resource and how much of it, sorted by name."""
    node_rules: tuple[tuple[NodeSelectorRequirement, ...], ...] = ()
    """Node selector terms: every requirement of one of them must hold. Empty: any node."""
    tolerations: tuple[Toleration, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    """Pod affinity."""
    apart: tuple[PodAffinityTerm, ...] = ()
    """Pod anti-affinity."""
    schedulable: bool = True
    """False for a kind of pod that is known and must not be started."""
    preferences: tuple[NodePreference, ...] = ()
    """Preferred node affinity: never keeps a pod from starting, or from starting now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A device claim: a number of devices of one node, shared by the pods that name it."""

    id: ClaimId
    namespace: str = ""
    devices: int = 1
    counts_as_gpu: bool = True
    queue: QueueId | None = None
    """The queue it is labelled for; a claim that pods share by name must be labelled with theirs."""
    from_template: bool = False
    node: NodeName | None = None
    """Where it is allocated now, if it is."""
    allocated: tuple[str, ...] = ()
    consumers_elsewhere: int = 0
    """Consumers that are not pods of this snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyConstraint:
    """Keep pods of a group together: inside one domain of `required`, and of `preferred` where possible."""

    topology: str
    """Its name; empty: the labels alone, of no topology that was declared."""
    required: str | None = None
    preferred: str | None = None

    @property
    def label_topology(self) -> Topology:
        """A topology of the labels that it names, the required one above the preferred one."""
        levels = tuple(dict.fromkeys(level for level in (self.required, self.preferred) if level))
        return Topology(name=f"labels {', '.join(levels)}", levels=levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods of a group that count together, and how many of them must run for the group to run."""

    name: str = "default"
    minimum: int = 1
    constraint: TopologyConstraint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroup:
    """A node in the tree of a pod group; its pods are those of the sets below it."""

    name: str = ""
    constraint: TopologyConstraint | None = None
    groups: tuple[SubGroup, ...] = ()
    pod_sets: tuple[PodSet, ...] = ()

    def all_pod_sets(self) -> tuple[PodSet, ...]:
        """The pod sets of the whole subtree."""
        if not self.groups:
            return self.pod_sets
        below = tuple(pod_set for group in self.groups for pod_set in group.all_pod_sets())
        return self.pod_sets + below


class WorkloadKind(StrEnum):
    """What a workload is for; the policy decides what follows from it."""

    BUILD = "build"
    TRAIN = "train"
    INFERENCE = "inference"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods that start together or not at all: the unit of scheduling."""

    id: GroupId
    queue: QueueId
    created_at: Instant
    kind: WorkloadKind = WorkloadKind.TRAIN
    priority: int | None = None
    """None: as the policy has it for the kind."""
    preemptible: bool | None = None
    """None: as the policy has it for kind and priority."""
    tree: SubGroup = SubGroup(pod_sets=(PodSet(),))
    namespace: str = ""
    started_at: Instant | None = None
    """When its first pods were last bound while none of it held anything."""
    stale_since: Instant | None = None
    """When it was first seen with fewer pods than it needs."""
    succeeded: bool = False
    """Some pod of it has already succeeded, so that missing pods are no sign of a stale gang."""
    movable: bool = True
    """Whether running pods may be moved to make room for others."""
    avoid: tuple[NodeName, ...] = ()
    """Nodes that refused its pods lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as the scheduler sees it."""

    id: PodId
    group: GroupId
    shape: PodShape
    pod_set: str = "default"
    phase: PodPhase = PodPhase.WAITING
    node: NodeName | None = None
    devices: tuple[int, ...] = ()
    """Indices of the devices it holds (or is promised) on its node."""
    claims: tuple[ClaimId, ...] = ()
    leader: bool = False
    """Placed first and evicted last among its set."""
    order: int | None = None
    """Place among the pods of its set: larger first, none last."""
    created_at: Instant = Instant(0)
    gated: bool = False
    """Exists but may not be scheduled yet."""
    nominated: NodeName | None = None
    promised_at: Instant | None = None
