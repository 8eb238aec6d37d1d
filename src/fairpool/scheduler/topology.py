"""Topology constraints: which sets of nodes a group may be placed on, and in which order.

A topology is a tree over nodes. Pods go into the tightest domain that has room for all of them, and inside it are
drawn to the roomiest domain of the preferred level, so that as many as possible share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairpool.model.node import Topology
from fairpool.model.workload import GpuKind, TopologyConstraint
from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.node_index import CandidateNodes
from fairpool.scheduler.score import Closeness
from fairpool.scheduler.trial import Trial

Domain = tuple[str, ...]


def node_sets(
    trial: Trial,
    constraint: TopologyConstraint | None,
    sets: Sequence[int],
    chunk: Sequence[int],
    outer: CandidateNodes,
) -> Iterator[CandidateNodes]:
    """Node sets inside `outer` that a constraint allows, best first. Without a constraint: `outer` itself."""
    columns = trial.columns
    if constraint is None or not columns.policy.topology or not (constraint.required or constraint.preferred):
        yield outer
        return
    topology = columns.topologies.get(constraint.topology)
    wanted = [level for level in (constraint.required, constraint.preferred) if level]
    if topology is None or any(level not in topology.levels for level in wanted):
        return
    tree = DomainTree(trial, topology, outer.nodes, chunk)
    required = topology.levels.index(constraint.required) + 1 if constraint.required else 0
    preferred = topology.levels.index(constraint.preferred) + 1 if constraint.preferred else 0
    closeness = tree.closeness(preferred) if preferred else outer.closeness
    anchors = _domains_in_use(trial, tree, sets, chunk, required) if required else set()
    for depth in range(max(preferred, required), required - 1, -1):
        for domain in tree.in_order(depth):
            if anchors and domain[:required] not in anchors:
                continue
            if tree.fits(domain):
                yield CandidateNodes(tree.nodes_of(domain), closeness, is_part=True)


def _domains_in_use(
    trial: Trial, tree: DomainTree, sets: Sequence[int], chunk: Sequence[int], depth: int
) -> set[Domain]:
    """Domains where pods of the group already are: the rest must join one of them."""
    columns = trial.columns
    used = set()
    for number in sets:
        for pod in columns.sets.pods[number]:
            node = trial.place(pod)[0]
            if pod not in chunk and trial.is_active(pod) and node != NOWHERE and node in tree.domain_of:
                used.add(tree.domain_of[node][:depth])
    return used


class DomainTree:
    """The domains of a topology over some nodes, with what is free in each for one chunk of pods."""

    def __init__(self, trial: Trial, topology: Topology, nodes: Sequence[int], chunk: Sequence[int]) -> None:
        columns = trial.columns
        self.columns = columns
        self.chunk = chunk
        self.claims = trial.claims if any(columns.pods[pod].claims for pod in chunk) else None
        self.domain_of: dict[int, Domain] = {}
        for node in nodes:
            domain = topology.domain_of(columns.nodes.rows[node])
            if domain is not None:
                self.domain_of[node] = domain
        self._members: dict[Domain, list[int]] = {}
        for node, domain in self.domain_of.items():
            for depth in range(len(domain) + 1):
                self._members.setdefault(domain[:depth], []).append(node)
        shapes = [columns.shape(pod) for pod in chunk]
        on_gpus = [shape.gpu.kind is not GpuKind.NONE for shape in shapes]
        alike = all(on_gpus) or not any(on_gpus)
        if self.claims is not None:
            alike = False  # pods may share a claim
        elif not columns.policy.domains_by_largest_pod:
            alike = len(set(map(id, shapes))) == 1
        self.homogeneous = alike
        self.largest = (
            max(shape.cpu_milli for shape in shapes),
            max(shape.memory_bytes for shape in shapes),
            max(shape.gpu.devices if shape.gpu.kind is GpuKind.WHOLE else 0 for shape in shapes),
        )
        gpus = sum(columns.charges.waiting_milli(shape) for shape in shapes) / 1000
        if self.claims is not None:
            gpus += self.claims.devices_asked(name for pod in chunk for name in columns.pods[pod].claims)
        self.asked = (
            sum(shape.cpu_milli for shape in shapes),
            sum(shape.memory_bytes for shape in shapes),
            gpus,
        )

    def nodes_of(self, domain: Domain) -> list[int]:
        return self._members.get(domain, [])

    def in_order(self, depth: int) -> list[Domain]:
        """Domains of one level, tightest first among siblings, in tree order."""
        level: list[Domain] = [()] if () in self._members else []
        for step in range(1, depth + 1):
            level = [
                child
                for parent in level
                for child in sorted(
                    {self.domain_of[node][:step] for node in self._members[parent]},
                    key=lambda each: (-self.tightness(each), each),
                )
            ]
        return level

    def closeness(self, depth: int) -> Closeness:
        """Points for the nodes of each domain of the preferred level: the roomiest get most."""
        domains = self.in_order(depth)
        return {
            node: 10 * (place + 1) // len(domains)
            for place, domain in enumerate(domains)
            for node in self._members[domain]
        }

    def fits(self, domain: Domain) -> bool:
        """Whether a domain may have room for the whole chunk; a cheap look, placing decides."""
        if self.homogeneous:
            return self.copies(domain) >= len(self.chunk)
        return self.tightness(domain) <= 1

    def copies(self, domain: Domain) -> int:
        """How many pods as large as the largest find room in a domain."""
        return sum(self._copies_on(node) for node in self.nodes_of(domain))

    def _copies_on(self, node: int) -> int:
        nodes = self.columns.nodes
        copies = nodes.slots_idle[node] + nodes.slots_releasing[node]
        for free, asked in zip(self._free(node), self.largest, strict=True):
            if asked > 0:
                copies = min(copies, free // asked)
        return max(0, copies)

    def _free(self, node: int) -> tuple[int, int, int]:
        nodes = self.columns.nodes
        claimable = 0 if self.claims is None else len(self.claims.free(node)) + len(self.claims.soon(node))
        return (
            nodes.cpu_idle[node] + nodes.cpu_releasing[node],
            nodes.memory_idle[node] + nodes.memory_releasing[node],
            nodes.gpus_idle[node] + nodes.gpus_releasing[node] + claimable,
        )

    def tightness(self, domain: Domain) -> float:
        """The largest ratio, over resources, of what is asked to what is free."""
        free = [0, 0, 0]
        for node in self.nodes_of(domain):
            for resource, amount in enumerate(self._free(node)):
                free[resource] += amount
        ratios = [
            asked / have if have > 0 else float("inf")
            for asked, have in zip(self.asked, free, strict=True)
            if asked > 0
        ]
        return max(ratios, default=0.0)
