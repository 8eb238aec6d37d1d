"""Topology: the sets of nodes that a constraint allows, best first (specification, section 6.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from fairpool.model.ids import GroupId, NodeName
from fairpool.model.workload import GpuKind, TopologyConstraint
from tests.oracle.world import (
    CLAIM_DEVICES,
    CPU_MILLI,
    GPUS,
    MEMORY_BYTES,
    PLACED,
    PODS,
    SOON,
    WHOLE_GPU,
    PodState,
    World,
    total,
)

Domain = tuple[str, ...]
"""Label values from the widest level down."""


@dataclass(frozen=True)
class NodeSet:
    """Nodes to try, and the points that the preferred level of a topology gives them."""

    nodes: tuple[NodeName, ...]
    points: Mapping[NodeName, int]


def node_sets(
    world: World,
    group: GroupId,
    constraint: TopologyConstraint | None,
    pod_sets: Collection[str],
    pods: list[PodState],
    among: NodeSet,
) -> Iterator[NodeSet]:
    """The sets of nodes to try in turn for these pods, which are in these pod sets."""
    if constraint is None or not world.policy.topology or not (constraint.required or constraint.preferred):
        yield among
        return
    levels = next((each.levels for each in world.snapshot.topologies if each.name == constraint.topology), ())
    if any(level is not None and level not in levels for level in (constraint.required, constraint.preferred)):
        return
    required = levels.index(constraint.required) + 1 if constraint.required else 0
    preferred = levels.index(constraint.preferred) + 1 if constraint.preferred else 0
    labels = {node: world.nodes[node].labels for node in among.nodes}
    domain_of = {
        node: tuple(labels[node][level] for level in levels)
        for node in among.nodes
        if all(level in labels[node] for level in levels)
    }
    tree = Tree(world, domain_of, pods)
    points = tree.points(preferred) if preferred else among.points
    chosen = {pod.row.id for pod in pods}
    homes = {  # where pods of the group already are, the others must follow
        domain_of[pod.place.node][:required]
        for name in pod_sets
        for pod in world.pods_of(group, PLACED, name, chosen)
        if pod.place is not None and pod.place.node in domain_of
    }
    for depth in range(max(required, preferred), required - 1, -1):
        for domain in tree.domains(depth):
            if tree.may_fit(domain) and (not required or not homes or domain[:required] in homes):
                yield NodeSet(tree.nodes_in(domain), points)


@dataclass(frozen=True)
class Tree:
    """The domains of a topology, with what is free in them for some pods."""

    world: World
    domain_of: Mapping[NodeName, Domain]
    pods: list[PodState]

    def nodes_in(self, domain: Domain) -> tuple[NodeName, ...]:
        return tuple(node for node, each in self.domain_of.items() if each[: len(domain)] == domain)

    def domains(self, depth: int) -> list[Domain]:
        """All domains of a level in tree order, the tightest of siblings first."""
        if depth == 0:
            return [()] if self.domain_of else []
        found = []
        for parent in self.domains(depth - 1):
            family = {domain[:depth] for domain in self.domain_of.values() if domain[: depth - 1] == parent}
            found += sorted(family, key=lambda each: (-self.tightness(each), each))
        return found

    def points(self, depth: int) -> dict[NodeName, int]:
        """The roomiest domain of the preferred level gets most points, so that pods concentrate there."""
        domains = self.domains(depth)
        return {
            node: 10 * (place + 1) // len(domains)
            for place, domain in enumerate(domains)
            for node in self.nodes_in(domain)
        }

    def may_fit(self, domain: Domain) -> bool:
        """Whether the pods have a chance in a domain: as copies of the largest one, or if they differ, as a sum."""
        shapes = {pod.row.shape for pod in self.pods}
        kinds = {shape.gpu.kind is not GpuKind.NONE for shape in shapes}
        have_claims = any(pod.row.claims for pod in self.pods)
        if len(kinds if self.world.policy.domains_by_largest_pod else shapes) > 1 or have_claims:
            return self.tightness(domain) <= 1
        largest = {
            CPU_MILLI: max(shape.cpu_milli for shape in shapes),
            MEMORY_BYTES: max(shape.memory_bytes for shape in shapes),
            GPUS: max(shape.gpu.devices if shape.gpu.kind is GpuKind.WHOLE else 0 for shape in shapes),
            PODS: 1,
        }
        copies = 0
        for node in self.nodes_in(domain):
            there = self.world.free(node, SOON).amounts
            copies += max(0, min(there[name] // amount for name, amount in largest.items() if amount > 0))
        return copies >= len(self.pods)

    def tightness(self, domain: Domain) -> Fraction:
        """The largest part, over resources, that the pods would take of what is free in a domain."""
        without_claims = [replace(pod, row=replace(pod.row, claims=())) for pod in self.pods]
        milli, cpu_milli, memory_bytes = total(self.world.charge(pod) for pod in without_claims)
        claims = {claim for pod in self.pods for claim in pod.row.claims}
        gpus = Fraction(milli) / WHOLE_GPU + self.world.devices_to_claim(claims)
        kinds = (GPUS, CLAIM_DEVICES) if claims else (GPUS,)
        largest = Fraction(0)
        for names, asked in (
            ((CPU_MILLI,), Fraction(cpu_milli)),
            ((MEMORY_BYTES,), Fraction(memory_bytes)),
            (kinds, gpus),
        ):
            free = [self.world.free(node, SOON).amounts for node in self.nodes_in(domain)]
            there = sum(amounts[name] for amounts in free for name in names)
            if asked > 0:
                largest = max(largest, asked / there if there > 0 else Fraction(10**12))
        return largest
