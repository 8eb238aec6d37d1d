"""SQL for what is known of a cluster at the moment of a sample: who holds what, and who waits."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import select

from fairpool.api.clusters import QueueReport
from fairpool.api.workload_spec import Kind
from fairpool.control.admission import KINDS
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import holdings, pods, queue_reports, workloads
from fairpool.control.store.workloads import WAITS
from fairpool.metrics.totals import PodHolding, Waiting
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.status import WaitReason


def holdings_of(connection: Connection, cluster: str) -> list[PodHolding]:
    """What each pod holds, and whose it is."""
    owner = (workloads.c.project, workloads.c.department, workloads.c.kind, pods.c.phase)
    query = (
        select(holdings, *owner)
        .join(workloads, workloads.c.id == holdings.c.workload)
        .outerjoin(pods, pods.c.id == holdings.c.pod)
    )
    return [
        PodHolding(
            pod=PodId(row.pod),
            workload=row.workload,
            project=row.project,
            department=row.department,
            kind=KINDS[Kind(row.kind)],
            node=NodeName(row.node),
            devices=tuple(json.loads(row.devices)),
            gpus_milli=row.gpus_milli,
            cpu_milli=row.cpu_milli,
            memory_bytes=row.memory_bytes,
            is_running=row.phase == PodPhase.RUNNING,
            since=Instant(row.since),
        )
        for row in connection.execute(query.where(holdings.c.cluster == cluster).order_by(holdings.c.pod))
    ]


def fair_shares_of(connection: Connection, cluster: str) -> dict[tuple[str, str], int]:
    """In thousandths of a GPU, by node pool and queue, as the cluster last reported them."""
    found = connection.execute(select(queue_reports.c.document).where(queue_reports.c.cluster == cluster)).scalars()
    return {(each.pool, each.queue): each.fair_share_milli for each in map(QueueReport.from_json, found)}


def waiting_in(connection: Connection, cluster: str, pools: Collection[str], now: Instant) -> list[Waiting]:
    """Workloads that wait and hold nothing; `pools`: those of the cluster."""
    only = next(iter(pools)) if len(pools) == 1 else None
    columns = (
        *(workloads.c.project, workloads.c.department, workloads.c.requested_gpus_milli),
        *(workloads.c.created_at, workloads.c.run, workloads.c.report),
    )
    query = select(*columns).where(
        workloads.c.deleted_at.is_(None),
        workloads.c.phase.in_(WAITS),
        workloads.c.allocated_gpus_milli == 0,
        workloads.c.cluster == cluster,
    )
    found = []
    for row in connection.execute(query):
        wait = reported_wait(row)
        found.append(
            Waiting(
                project=row.project,
                department=row.department,
                pool=only if only is not None else wait.pool,
                gpus_milli=row.requested_gpus_milli,
                since_s=max(0.0, (now - wait.since) / SECOND_MS),
                is_held_back=wait.reason in HELD_BACK,
            )
        )
    return found


class ReportedWait(NamedTuple):
    """What the cluster last said about a workload that waits."""

    pool: str
    """The node pool that it last tried; empty: it has not said."""
    since: int
    reason: str = ""


HELD_BACK = frozenset({WaitReason.DEPENDENCY.value, WaitReason.BACK_OFF.value})


def reported_wait(row: Any) -> ReportedWait:
    """From its report, run and moment of creation. One that was preempted or resumed waits since then.

    The report is not validated: there may be many, and they are read with every sample.
    """
    report = {} if row.report is None else json.loads(row.report)
    if not report or report.get("run", 0) < row.run:
        return ReportedWait("", row.created_at)
    since = report.get("waiting_since") or report["since"]
    return ReportedWait(report.get("pool") or "", since, report.get("reason") or "")
