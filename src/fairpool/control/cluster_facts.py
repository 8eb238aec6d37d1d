"""What the control plane knows of a cluster at one moment: nodes, who holds what, quotas, and who waits.

One read, so that the figures of a sample, and those of an answer, agree with each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from fairpool.api.clusters import NodeReport
from fairpool.control.organization import organization_tree
from fairpool.control.plane import Plane
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store.cluster_facts import fair_shares_of, holdings_of, waiting_in
from fairpool.control.store.database import Connection
from fairpool.metrics.totals import ClusterFacts, NodeFacts, QueueFacts
from fairpool.model.ids import Instant
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import DEPARTMENT_PREFIX, Queue, department_queue, name_of_queue


def facts_of(plane: Plane, connection: Connection, cluster: str, now: Instant) -> ClusterFacts:
    nodes = nodes_of(connection, cluster)
    return ClusterFacts(
        cluster=cluster,
        holdings=holdings_of(connection, cluster),
        nodes=nodes,
        queues=_queues(plane, connection, cluster),
        waiting=waiting_in(connection, cluster, {each.pool for each in nodes}, now),
    )


def nodes_of(connection: Connection, cluster: str) -> list[NodeFacts]:
    return [_node(row.document) for row in cluster_store.nodes_of(connection, cluster)]


# Read with every sample, while few nodes are reported again in between.
@lru_cache(maxsize=20_000)
def _node(document: str) -> NodeFacts:
    report = NodeReport.from_json(document)
    return NodeFacts(
        name=report.name,
        pool=report.pool or DEFAULT_POOL,
        is_ready=report.ready and report.silent_since is None,
        gpus=report.gpus,
        gpus_withheld=len(report.gpus_withheld),
        gpu_memory_mib=report.gpu_memory_mib,
        cpu_milli=report.cpu_milli,
        memory_bytes=report.memory_bytes,
    )


def _queues(plane: Plane, connection: Connection, cluster: str) -> list[QueueFacts]:
    shares = fair_shares_of(connection, cluster)
    declared = plane.cache.get(
        ("quotas", cluster),
        plane.organization_state(connection),
        lambda: list(_declared_queues(plane, connection, cluster)),
    )
    return [_queue_facts(queue, pool, above, shares.get((pool, queue.id))) for pool, queue, above in declared]


def _declared_queues(plane: Plane, connection: Connection, cluster: str) -> Iterator[tuple[str, Queue, str]]:
    """Node pool, queue and department. Each in the node pools where it, or a project of it, has resources."""
    tree = organization_tree(plane, connection)
    named: dict[str, set[str]] = {}
    for project in tree.projects:
        pools = {each.pool for each in project.resources}
        named.setdefault(project.name, set()).update(pools)
        if project.parent is not None and tree.clusters[project.name] == cluster:
            named.setdefault(department_queue(project.parent), set()).update(pools)
    for department in tree.departments:
        named.setdefault(department_queue(department.name), set()).update(each.pool for each in department.resources)
    above = {each.name: each.parent or "" for each in tree.projects}
    for pool, queues in sorted(tree.queues(cluster).items()):
        for queue in queues:
            if pool in named.get(queue.id, ()):
                yield pool, queue, above.get(queue.id, "")


def _queue_facts(queue: Queue, pool: str, above: str, fair_share_milli: int | None) -> QueueFacts:
    name, is_department = name_of_queue(queue.id), queue.id.startswith(DEPARTMENT_PREFIX)
    return QueueFacts(
        pool=pool,
        project="" if is_department else name,
        department=name if is_department else above,
        gpu_quota_milli=queue.gpu.quota,
        fair_share_milli=fair_share_milli,
        gpu_limit_milli=queue.gpu.limit,
        cpu_quota_milli=queue.cpu.quota,
        memory_quota_bytes=queue.memory.quota,
    )
