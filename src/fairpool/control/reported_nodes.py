"""The nodes of a cluster as it last reported them: what a submit is checked against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from fairpool.api import nodes as nodes_wire
from fairpool.api.clusters import NodeReport
from fairpool.control import declared
from fairpool.control.feasibility import PoolNodes
from fairpool.control.plane import Plane
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import SECOND_MS, NodeName
from fairpool.model.node import NODE_TYPE_LABEL, RUNTIME_LABEL, Node, Topology, nodes_by_pool
from fairpool.model.node_role import NodeRole, are_roles_used, role_of

NO_BOUND = 1 << 60
"""In the place of what a node was not reported to have: so much that nothing is refused for it."""


@dataclass(frozen=True, slots=True)
class ReportedNodes:
    """The nodes of a cluster as they were last reported."""

    pools: Mapping[str, PoolNodes]
    images: tuple[str, ...] | None
    """Patterns of the images that those without containers can run; None: there are no such nodes, or unknown."""
    has_containers: bool
    """Some run pods in containers, from any image that can be pulled."""
    directory_users: bool
    """Some run pods as processes, and all of those can run them with the uid and gid of a directory."""
    types: frozenset[str]
    """Node types (`run.ai/type`)."""
    is_recent: bool
    """False: the cluster is away, or never reported."""

    def unmatched(self, topologies: Iterable[Topology]) -> frozenset[str]:
        """The topologies that no node is in; none of them while no node is known."""
        nodes = [node for pool in self.pools.values() for node in pool.nodes]
        if not nodes:
            return frozenset()
        return frozenset(each.name for each in topologies if all(each.domain_of(node) is None for node in nodes))


def reported_nodes(plane: Plane, connection: Connection, cluster: str) -> ReportedNodes:
    """The nodes of a cluster."""
    known = cluster_store.cluster(connection, cluster)
    assert known is not None, "a cluster stays as long as it has projects"
    state = (known.nodes_version, *plane.organization_state(connection))
    nodes = plane.cache.get(("nodes", cluster), state, lambda: _reported_nodes(connection, cluster))
    away_ms = plane.settings.cluster_away_s * SECOND_MS
    is_recent = known.last_seen_at is not None and plane.now() - known.last_seen_at <= away_ms
    return nodes if nodes.is_recent == is_recent else replace(nodes, is_recent=is_recent)


def pools_in(connection: Connection, cluster: str) -> list[nodes_wire.NodePoolRequest]:
    """The node pools of a cluster: its own, and those of all clusters."""
    pools = [nodes_wire.NodePoolRequest.model_validate_json(row.document) for row in store.all_node_pools(connection)]
    return [each for each in pools if each.cluster_id in (None, cluster)]


def _reported_nodes(connection: Connection, cluster: str) -> ReportedNodes:
    overrides = {row.node: row.document for row in store.node_overrides(connection) if row.cluster == cluster}
    nodes: list[Node] = []
    images: dict[str, None] = {}
    any_image = has_containers = False
    privileges: dict[NodeName, tuple[Privilege, ...]] = {}
    are_counted = True
    of_processes: list[bool] = []
    for row in cluster_store.nodes_of(connection, cluster):
        node, report = _node(row.document, overrides.get(row.name))
        nodes.append(node)
        images |= dict.fromkeys(report.images or ())
        any_image |= report.images is None
        if RUNTIME_LABEL in node.labels:
            has_containers = True
        else:
            of_processes.append(report.directory_users)
        are_counted &= report.counted is not None
        if report.privileges is not None:
            privileges[node.name] = report.privileges
    are_used = are_roles_used(node.labels for node in nodes)
    nodes = [_with_role(node, role_of(node.labels, are_used=are_used)) for node in nodes]
    # Not the pool that was reported: the cluster says it only after it has seen a new label or pool.
    by_pool = nodes_by_pool(nodes, [declared.node_pool(each) for each in pools_in(connection, cluster)])
    directory_users = bool(of_processes) and all(of_processes)
    pools: dict[str, PoolNodes] = {
        pool: PoolNodes.of(members, are_counted=are_counted, privileges=privileges, directory_users=directory_users)
        for pool, members in by_pool.items()
        if members
    }
    known = None if any_image and not has_containers else tuple(images) or None
    types = frozenset(kind for node in nodes if (kind := node.label(NODE_TYPE_LABEL)) is not None)
    return ReportedNodes(pools, known, has_containers, directory_users, types, is_recent=True)


def _with_role(node: Node, role: NodeRole) -> Node:
    return node if node.role is role else replace(node, role=role)


# A node that is reported again is seldom another: of ten thousand nodes, only those that changed are read again.
@lru_cache(maxsize=20_000)
def _node(document: str, overrides: str | None) -> tuple[Node, NodeReport]:
    """A reported node, and its report; what was not reported of it is no bound."""
    report = NodeReport.from_json(document)
    said = (
        nodes_wire.NodeOverridesRequest.model_validate_json(overrides)
        if overrides is not None
        else nodes_wire.NodeOverridesRequest()
    )
    reported = [each.to_model() for each in report.taints]
    node = Node(
        name=report.name,
        cpu_milli=report.cpu_milli or NO_BOUND,
        memory_bytes=report.memory_bytes or NO_BOUND,
        pods_max=NO_BOUND,
        gpus=report.gpus,
        gpu_memory_mib=report.gpu_memory_mib or NO_BOUND,
        mig_strategy=report.mig_strategy,
        extended=report.counted or {},
        labels={**report.labels, **said.labels},
        taints=(*reported, *declared.node_overrides(said).taints),
    )
    return node, report
