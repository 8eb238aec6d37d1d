"""The snapshot: the input of the scheduler for one node pool, as rows.

Rows come in any order; the plan does not depend on it. `validation.check` lists what is wrong with a snapshot; `plan`
works around all of it, so that one bad row never stops a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairpool.model.ids import Instant
from fairpool.model.node import Node, NodePool, Topology
from fairpool.model.organization import Queue
from fairpool.model.workload import Claim, Pod, PodGroup
from fairpool.scheduler.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One node pool at one moment."""

    now: Instant
    nodes: tuple[Node, ...] = ()
    queues: tuple[Queue, ...] = ()
    groups: tuple[PodGroup, ...] = ()
    pods: tuple[Pod, ...] = ()
    claims: tuple[Claim, ...] = ()
    topologies: tuple[Topology, ...] = ()
    pool: NodePool = NodePool()
    policy: Policy = field(default_factory=Policy.product)
