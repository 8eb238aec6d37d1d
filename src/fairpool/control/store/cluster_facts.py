"""What the control plane knows of a cluster at the moment of a sample: who holds what, and who waits.

One read, so that the totals of a sample agree with each other.
"""

from __future__ import annotations

import json

from sqlalchemy import select

from fairpool.api.clusters import NodeReport, QueueReport
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import holdings, nodes, queue_reports, workloads
from fairpool.control.store.workloads import WAITS
from fairpool.metrics.totals import ClusterFacts, Holding, NodeFacts, QueueFacts, Waiting
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId
from fairpool.model.organization import DEPARTMENT_PREFIX, name_of_queue
from fairpool.model.workload import WorkloadKind


def facts_of(connection: Connection, cluster: str, now: Instant) -> ClusterFacts:
    return ClusterFacts(
        cluster=cluster,
        holdings=_holdings(connection, cluster),
        nodes=_nodes(connection, cluster),
        queues=_queues(connection, cluster),
        waiting=_waiting(connection, cluster, now),
    )


def _holdings(connection: Connection, cluster: str) -> list[Holding]:
    owner = (workloads.c.project, workloads.c.department, workloads.c.kind)
    query = select(holdings, *owner).join(workloads, workloads.c.id == holdings.c.workload)
    return [
        Holding(
            pod=PodId(row.pod),
            workload=row.workload,
            project=row.project,
            department=row.department,
            kind=WorkloadKind(row.kind),
            node=NodeName(row.node),
            devices=tuple(json.loads(row.devices)),
            gpus_milli=row.gpus_milli,
            cpu_milli=row.cpu_milli,
            memory_bytes=row.memory_bytes,
        )
        for row in connection.execute(query.where(holdings.c.cluster == cluster))
    ]


def _nodes(connection: Connection, cluster: str) -> list[NodeFacts]:
    found = connection.execute(select(nodes.c.document).where(nodes.c.cluster == cluster)).scalars()
    return [
        NodeFacts(
            name=each.name,
            pool=each.pool or "",
            is_ready=each.ready,
            gpus=each.gpus,
            gpu_memory_mib=each.gpu_memory_mib,
            cpu_milli=each.cpu_milli,
            memory_bytes=each.memory_bytes,
        )
        for each in map(NodeReport.from_json, found)
    ]


def _queues(connection: Connection, cluster: str) -> list[QueueFacts]:
    found = connection.execute(select(queue_reports.c.document).where(queue_reports.c.cluster == cluster)).scalars()
    facts = []
    for each in map(QueueReport.from_json, found):
        is_department, name = each.queue.startswith(DEPARTMENT_PREFIX), name_of_queue(each.queue)
        facts.append(
            QueueFacts(
                pool=each.pool,
                project="" if is_department else name,
                department=name if is_department else "",
                gpu_quota_milli=each.quota_milli,
                fair_share_milli=each.fair_share_milli,
            )
        )
    return facts


def _waiting(connection: Connection, cluster: str, now: Instant) -> list[Waiting]:
    columns = (
        workloads.c.project,
        workloads.c.department,
        workloads.c.requested_gpus_milli,
        workloads.c.created_at,
    )
    query = select(*columns).where(
        workloads.c.deleted_at.is_(None),
        workloads.c.phase.in_(WAITS),
        workloads.c.allocated_gpus_milli == 0,
        workloads.c.cluster == cluster,
    )
    return [
        Waiting(
            project=row.project,
            department=row.department,
            pool="",
            gpus_milli=row.requested_gpus_milli,
            since_s=max(0.0, (now - row.created_at) / SECOND_MS),
        )
        for row in connection.execute(query)
    ]
