"""Gangs of unlike pods: a launcher here, a worker there.

The pods of a group differ in node rules, sizes, parts of a GPU beside whole ones, device claims, MIG profiles, pod
affinity and the topology of its parts. A world has some of these, chosen at random.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fairpool.model.ids import ClaimId
from fairpool.model.node import Node
from fairpool.model.workload import (
    NO_GPU,
    Claim,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodAffinityTerm,
    PodGroup,
    PodShape,
    TopologyConstraint,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)

HOST, ZONE = "host", "zone"
WAYS = ("rules", "sizes", "fractions", "claims", "mig", "affinity", "topology")
NEEDED = {"claims": "claims", "mig": "mig", "affinity": "neighbours", "topology": "topology"}
"""What nodes and groups of a world must have for pods to differ in some way."""


def ways_to_differ(rng: random.Random) -> frozenset[str]:
    """One to three ways in which the pods of one world's groups differ."""
    return frozenset(rng.sample(WAYS, rng.choice([1, 1, 2, 2, 3])))


def host_rule(node: Node) -> tuple[tuple[NodeSelectorRequirement, ...], ...]:
    return ((NodeSelectorRequirement(HOST, NodeSelectorOperator.IN, (node.labels[HOST],)),),)


def may_start_on(shape: PodShape, node: Node) -> bool:
    """Whether a pod that is tied to a host is tied to this one."""
    hosts = [rule.values for rules in shape.node_rules for rule in rules if rule.key == HOST]
    return not hosts or any(node.labels[HOST] in values for values in hosts)


@dataclass(frozen=True)
class Unlike:
    """Makes the pods of a group differ."""

    rng: random.Random
    nodes: Sequence[Node]
    ways: Collection[str]

    def group(self, group: PodGroup) -> PodGroup:
        """Some groups under a topology, as a whole or in parts."""
        rng = self.rng
        if "topology" not in self.ways:
            return group
        tree = group.tree
        if rng.random() < 0.5:
            tree = replace(tree, constraint=self._constraint())
        if rng.random() < 0.3:
            tree = replace(tree, pod_sets=tuple(replace(each, constraint=self._constraint()) for each in tree.pod_sets))
        return replace(group, tree=tree)

    def _constraint(self) -> TopologyConstraint:
        required, preferred = self.rng.choice([(ZONE, None), (ZONE, "rack"), ("rack", None), (None, "rack")])
        return TopologyConstraint(topology="site", required=required, preferred=preferred)

    def pods(self, pods: Sequence[Pod]) -> list[Pod]:
        return [replace(pod, shape=self._shape(pod.shape)) for pod in pods]

    def _shape(self, shape: PodShape) -> PodShape:
        rng, ways = self.rng, self.ways
        if "rules" in ways and rng.random() < 0.7:
            shape = replace(shape, node_rules=host_rule(rng.choice(self.nodes)))
        if "sizes" in ways and rng.random() < 0.5:
            shape = replace(shape, gpu=whole_gpus(rng.choice([1, 1, 2])), cpu_milli=rng.choice([0, 500, 1000, 3000]))
        choices: list[GpuRequest] = []
        if "fractions" in ways:
            memory = self.nodes[0].gpu_memory_mib * 4 // 10
            choices += [gpu_portion(300), gpu_portion(500), gpu_memory(memory), gpu_portion(250, 2)]
        if "mig" in ways:
            choices += [
                GpuRequest(mig=(("nvidia.com/mig-1g.10gb", 1),)),
                GpuRequest(mig=(("nvidia.com/mig-3g.40gb", 1),)),
            ]
        if "claims" in ways:
            choices.append(NO_GPU)
        if choices and rng.random() < 0.5:
            shape = replace(shape, gpu=rng.choice(choices))
        if "affinity" in ways and rng.random() < 0.6:
            shape = self._neighbourly(shape)
        return shape

    def _neighbourly(self, shape: PodShape) -> PodShape:
        """With the pods of another role in one zone, or away from those of its own."""
        role, other = self.rng.choice([("u", "v"), ("v", "u"), ("v", "v")])
        term = PodAffinityTerm(self.rng.choice([ZONE, HOST]), (("app", other),))
        way = self.rng.choice(["near", "apart", "neither"])
        return replace(
            shape,
            labels=(("app", role),),
            near=(term,) if way == "near" else (),
            apart=(term,) if way == "apart" else (),
        )

    def claims(self, group: PodGroup, pods: Sequence[Pod]) -> tuple[list[Pod], list[Claim]]:
        """Claims for pods without GPU: one each, or one that several share."""
        claims: list[Claim] = []
        claiming: list[Pod] = []
        for pod in pods:
            if "claims" in self.ways and pod.shape.gpu == NO_GPU and self.rng.random() < 0.7:
                if not claims or self.rng.random() < 0.7:
                    name = ClaimId(f"claim-{pod.id}")
                    counts = self.rng.random() < 0.8
                    claims.append(
                        Claim(id=name, devices=self.rng.choice([1, 1, 2]), queue=group.queue, counts_as_gpu=counts)
                    )
                pod = replace(pod, claims=(claims[-1].id,))
            claiming.append(pod)
        return claiming, claims
