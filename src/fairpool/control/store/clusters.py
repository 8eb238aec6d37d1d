"""Clusters and what they report, as rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.engine import Row

from fairpool.api.clusters import EventReport, NodeReport, QueueReport
from fairpool.control.store.tables import clusters, events, nodes, pods, queue_reports
from fairpool.model.ids import Instant

_EVENT_NUMBERS = select(events.c.number).where(
    events.c.cluster == bindparam("cluster"), events.c.number >= bindparam("low"), events.c.number <= bindparam("high")
)


def cluster(connection: Connection, cluster_id: str) -> Row[Any] | None:
    return connection.execute(select(clusters).where(clusters.c.id == cluster_id)).one_or_none()


def cluster_by_name(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(clusters).where(clusters.c.name == name)).one_or_none()


def all_clusters(connection: Connection, offset: int = 0, limit: int = 1_000_000) -> list[Row[Any]]:
    query = select(clusters).order_by(clusters.c.created_at, clusters.c.id)
    return list(connection.execute(query.offset(offset).limit(limit)))


def add_cluster(connection: Connection, **values: object) -> None:
    connection.execute(insert(clusters).values(report_number=0, events_through=0, unsure=True, **values))


def change_cluster(connection: Connection, cluster_id: str, **values: object) -> None:
    connection.execute(update(clusters).where(clusters.c.id == cluster_id).values(**values))


def delete_cluster(connection: Connection, cluster_id: str) -> None:
    for table in (nodes, queue_reports, events):
        connection.execute(delete(table).where(table.c.cluster == cluster_id))
    connection.execute(delete(clusters).where(clusters.c.id == cluster_id))


def forget_levels(connection: Connection, cluster_id: str) -> None:
    """A whole report follows: what is not in it is no more."""
    connection.execute(delete(nodes).where(nodes.c.cluster == cluster_id))
    connection.execute(delete(queue_reports).where(queue_reports.c.cluster == cluster_id))


def node_names(connection: Connection, cluster_id: str) -> set[str]:
    return set(connection.execute(select(nodes.c.name).where(nodes.c.cluster == cluster_id)).scalars())


def set_node(connection: Connection, cluster_id: str, report: NodeReport, revision: int) -> None:
    drop_node(connection, cluster_id, report.name)
    values = {"cluster": cluster_id, "name": report.name, "document": report.to_json(), "revision": revision}
    connection.execute(insert(nodes), values)


def drop_node(connection: Connection, cluster_id: str, name: str) -> None:
    connection.execute(delete(nodes).where(nodes.c.cluster == cluster_id, nodes.c.name == name))


def all_nodes(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(select(nodes).order_by(nodes.c.name, nodes.c.cluster)))


def set_queue(connection: Connection, cluster_id: str, report: QueueReport) -> None:
    drop_queue(connection, cluster_id, report.pool, report.queue)
    values = {"cluster": cluster_id, "pool": report.pool, "queue": report.queue, "document": report.to_json()}
    connection.execute(insert(queue_reports), values)


def drop_queue(connection: Connection, cluster_id: str, pool: str, queue: str) -> None:
    where = (queue_reports.c.cluster == cluster_id) & (queue_reports.c.pool == pool) & (queue_reports.c.queue == queue)
    connection.execute(delete(queue_reports).where(where))


def queues(connection: Connection) -> list[QueueReport]:
    rows = connection.execute(select(queue_reports.c.document).order_by(queue_reports.c.pool, queue_reports.c.queue))
    return [QueueReport.from_json(document) for document in rows.scalars()]


def add_events(connection: Connection, cluster_id: str, lines: Iterable[EventReport]) -> list[EventReport]:
    """Take in lines that are not here yet; a line has a number, and comes in once."""
    told = sorted(lines, key=lambda line: line.number)
    if not told:
        return []
    bounds = {"cluster": cluster_id, "low": told[0].number, "high": told[-1].number}
    known = set(connection.execute(_EVENT_NUMBERS, bounds).scalars())
    fresh = [line for line in {line.number: line for line in told}.values() if line.number not in known]
    if fresh:
        rows = [
            {
                "cluster": cluster_id,
                "number": line.number,
                "workload": line.workload,
                "at": line.at,
                "document": line.to_json(),
            }
            for line in fresh
        ]
        connection.execute(insert(events), rows)
    return fresh


def drop_events(connection: Connection, before: int, most: int) -> int:
    """Let go of each cluster's oldest lines as long as they are older than this; says of how many at most."""
    most_went = 0
    for name in connection.execute(select(clusters.c.id)).scalars().all():
        query = select(events.c.number, events.c.at).where(events.c.cluster == name).order_by(events.c.number)
        old = [
            row.number
            for row in itertools.takewhile(lambda row: row.at < before, connection.execute(query.limit(most)))
        ]
        if old:
            connection.execute(delete(events).where(events.c.cluster == name, events.c.number <= old[-1]))
        most_went = max(most_went, len(old))
    return most_went


def events_of(connection: Connection, workload: str, offset: int, limit: int) -> list[EventReport]:
    query = select(events.c.document).where(events.c.workload == workload).order_by(events.c.cluster, events.c.number)
    return [
        EventReport.from_json(document) for document in connection.execute(query.offset(offset).limit(limit)).scalars()
    ]


def events_of_pod(connection: Connection, workload: str, pod: str) -> list[EventReport]:
    """What is here about one life, in the order it happened."""
    query = select(events.c.document).where(events.c.workload == workload).order_by(events.c.number)
    # Only lines with the id can be about it; the rest need not be read as what they are.
    texts = connection.execute(query.where(events.c.document.contains(f'"{pod}"', autoescape=True))).scalars()
    return [line for line in map(EventReport.from_json, texts) if line.pod == pod]


def incarnations(connection: Connection, workload_ids: Iterable[str]) -> dict[str, dict[int, int]]:
    """The highest incarnation that was reported of each pod."""
    wanted = list(workload_ids)
    found: dict[str, dict[int, int]] = {}
    for start in range(0, len(wanted), 500):  # SQLite takes a bounded number of parameters
        query = (
            select(pods.c.workload, pods.c.place, func.max(pods.c.incarnation))
            .where(pods.c.workload.in_(wanted[start : start + 500]))
            .group_by(pods.c.workload, pods.c.place)
        )
        for workload, place, highest in connection.execute(query):
            found.setdefault(workload, {})[place] = highest
    return found


def heard_at(connection: Connection, cluster_id: str, now: Instant) -> None:
    connection.execute(update(clusters).where(clusters.c.id == cluster_id).values(heard_at=now))
