"""Keeping pods together: the node sets that a topology constraint allows, best first (specification, section 6.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction

from fairpool.model.ids import NodeName
from fairpool.model.workload import GpuKind, TopologyConstraint
from tests.oracle.world import ALLOCATED, CPU, GPUS, MEMORY, PODS, GroupState, PodState, Room, World

Scores = Mapping[NodeName, int]
Domain = tuple[str, ...]
"""Label values from the widest level down."""


def node_sets(
    world: World,
    group: GroupState,
    constraint: TopologyConstraint | None,
    pod_sets: Collection[str],
    pods: Collection[PodState],
    nodes: list[NodeName],
    scores: Scores,
) -> Iterator[tuple[list[NodeName], Scores]]:
    """Sets of nodes to try in turn, each with the scores that its preferred level gives."""
    if constraint is None or not world.policy.topology or not (constraint.required or constraint.preferred):
        yield nodes, scores
        return
    topology = world.topologies.get(constraint.topology)
    named = [level for level in (constraint.required, constraint.preferred) if level is not None]
    if topology is None or any(level not in topology.levels for level in named):
        return
    tree = _Tree(world, topology.levels, nodes, pods)
    highest = 0 if constraint.required is None else topology.levels.index(constraint.required) + 1
    deepest = topology.levels.index(constraint.preferred or constraint.required or "") + 1
    if constraint.preferred is not None:
        scores = tree.scores(topology.levels.index(constraint.preferred) + 1)
    homes = _homes(group, tree, pod_sets, pods, highest) if constraint.required is not None else set()
    for depth in range(max(deepest, highest), highest - 1, -1):
        for domain in tree.domains(depth):
            if tree.fits(domain) and (not homes or domain[:highest] in homes):
                yield tree.nodes_in(domain), scores


def _homes(
    group: GroupState, tree: _Tree, pod_sets: Collection[str], pods: Collection[PodState], depth: int
) -> set[Domain]:
    """Domains of the required level where pods of the group already are."""
    return {
        tree.domain_of(pod.stand.place.node, depth)
        for pod in group.pods
        if pod.row.pod_set in pod_sets
        and pod.status in ALLOCATED
        and pod not in pods
        and pod.stand.place is not None
        and pod.stand.place.node in tree.nodes
    }


class _Tree:
    """Domains over the nodes that carry all labels of a topology, with what is free in them for some pods."""

    def __init__(
        self, world: World, levels: tuple[str, ...], nodes: list[NodeName], pods: Collection[PodState]
    ) -> None:
        self._labels = {name: world.nodes[name].labels for name in nodes}
        self._levels = levels
        self.nodes = [name for name in nodes if all(level in self._labels[name] for level in levels)]
        self._rooms: dict[NodeName, Room] = {name: world.room(name) for name in self.nodes}
        self.policy = world.policy
        self._pods = list(pods)
        self._asked = self._total_asked(world)

    def domain_of(self, node: NodeName, depth: int) -> Domain:
        return tuple(self._labels[node][level] for level in self._levels[:depth])

    def nodes_in(self, domain: Domain) -> list[NodeName]:
        return [node for node in self.nodes if self.domain_of(node, len(domain)) == domain]

    def domains(self, depth: int) -> list[Domain]:
        """All domains of a level in tree order, the tightest of siblings first."""
        domains: list[Domain] = [()] if self.nodes else []
        for level in range(1, depth + 1):
            children = [{self.domain_of(node, level) for node in self.nodes_in(parent)} for parent in domains]
            domains = [
                child for family in children for child in sorted(family, key=lambda each: (-self._ratio(each), each))
            ]
        return domains

    def scores(self, depth: int) -> dict[NodeName, int]:
        """The roomiest domain of the preferred level scores most, so that pods concentrate there."""
        domains = self.domains(depth)
        return {
            node: 10 * (place + 1) // len(domains)
            for place, domain in enumerate(domains)
            for node in self.nodes_in(domain)
        }

    def fits(self, domain: Domain) -> bool:
        """Whether the pods have a chance in a domain: copies of the largest one, or the sums if they differ in kind."""
        uses_gpu = {pod.row.shape.gpu.kind is not GpuKind.NONE for pod in self._pods}
        shapes = {pod.row.shape for pod in self._pods}
        if len(uses_gpu if self.policy.domains_by_largest_pod else shapes) == 1:
            return sum(self._copies(node) for node in self.nodes_in(domain)) >= len(self._pods)
        return self._ratio(domain) <= 1

    def _copies(self, node: NodeName) -> int:
        shapes = [pod.row.shape for pod in self._pods]
        whole = [shape.gpu.devices for shape in shapes if shape.gpu.kind is GpuKind.WHOLE]
        largest = {
            CPU: max(shape.cpu_milli for shape in shapes),
            MEMORY: max(shape.memory_bytes for shape in shapes),
            GPUS: max(whole, default=0),
            PODS: 1,
        }
        room = self._rooms[node]
        return max(0, min(room.soon(name) // amount for name, amount in largest.items() if amount > 0))

    def _ratio(self, domain: Domain) -> Fraction:
        """The largest part that the pods would take of what a domain has free; parts of GPUs as numbers of GPUs."""
        largest = Fraction(0)
        for name, asked in self._asked.items():
            free = sum(self._rooms[node].soon(name) for node in self.nodes_in(domain))
            if asked > 0:
                largest = max(largest, asked / free if free > 0 else Fraction(10**12))
        return largest

    def _total_asked(self, world: World) -> dict[str, Fraction]:
        charge = world.chunk_charge(self._pods)
        return {
            CPU: Fraction(charge.cpu_milli),
            MEMORY: Fraction(charge.memory_bytes),
            GPUS: Fraction(charge.gpu_milli, 1000),
        }
