"""SQL for clusters and what they report."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.engine import Row

from fairpool.api.clusters import EventReport, NameRange, QueueReport
from fairpool.control.store.access_revision import same_callers
from fairpool.control.store.compiled import Compiled, CompiledIn, bounds
from fairpool.control.store.tables import cluster_equipment, clusters, events, nodes, pods, queue_reports, workloads
from fairpool.model.ids import Instant, PoolName, QueueId

_EVENT_NUMBERS = Compiled(
    select(events.c.number).where(
        events.c.cluster == bindparam("cluster"),
        events.c.number >= bindparam("low"),
        events.c.number <= bindparam("high"),
    )
)
_ADD_EVENT = Compiled(insert(events))
_OWNERS = CompiledIn(lambda ids: select(workloads.c.id, workloads.c.cluster).where(workloads.c.id.in_(ids)))
_INCARNATIONS = CompiledIn(
    lambda ids: (
        select(pods.c.workload, pods.c.pod_index, func.max(pods.c.incarnation).label("highest"))
        .where(pods.c.workload.in_(ids))
        .group_by(pods.c.workload, pods.c.pod_index)
    )
)
_CLUSTER = Compiled(select(clusters).where(clusters.c.id == bindparam("id")))
_IS_THIS = clusters.c.id == bindparam("of")
_CHANGE = Compiled(update(clusters).where(_IS_THIS))
_NOTE = Compiled(same_callers(update(clusters).where(_IS_THIS)))
_ADD_NODE = Compiled(insert(nodes))
_NODE_SINCE = Compiled(
    select(nodes.c.created_at).where(nodes.c.cluster == bindparam("of"), nodes.c.name == bindparam("node"))
)
_DROP_NODE = Compiled(delete(nodes).where(nodes.c.cluster == bindparam("of"), nodes.c.name == bindparam("node")))
_NODES_OF = Compiled(
    select(nodes.c.name, nodes.c.document).where(
        nodes.c.cluster == bindparam("of"),
        nodes.c.name > bindparam("after"),
        or_(bindparam("to_the_end", type_=Integer) == 1, nodes.c.name <= bindparam("through")),
    )
)
_ALL_NODES_OF = Compiled(
    select(nodes.c.name, nodes.c.document).where(nodes.c.cluster == bindparam("of")).order_by(nodes.c.name)
)
_NODES_CHANGED = Compiled(
    same_callers(update(clusters).where(_IS_THIS).values(nodes_version=clusters.c.nodes_version + 1))
)
_QUEUES_OF = Compiled(
    select(queue_reports.c.pool, queue_reports.c.queue, queue_reports.c.document).where(
        queue_reports.c.cluster == bindparam("of")
    )
)
_EVENTS_OF_POD = Compiled(
    select(events.c.document)
    .where(
        events.c.workload == bindparam("workload"),
        events.c.document.contains(bindparam("pod")),
    )
    .order_by(events.c.number)
)
_ADD_QUEUE = Compiled(insert(queue_reports))
_DROP_QUEUE = Compiled(
    delete(queue_reports).where(
        queue_reports.c.cluster == bindparam("of"),
        queue_reports.c.pool == bindparam("in_pool"),
        queue_reports.c.queue == bindparam("name"),
    )
)


def cluster(connection: Connection, cluster_id: str) -> Any:
    """A cluster as its row; None: there is none."""
    return _CLUSTER.one(connection, {"id": cluster_id})


def cluster_by_name(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(clusters).where(clusters.c.name == name)).one_or_none()


def all_clusters(connection: Connection, offset: int = 0, limit: int = 1_000_000) -> list[Row[Any]]:
    query = select(clusters).order_by(clusters.c.created_at, clusters.c.id)
    return list(connection.execute(query.offset(offset).limit(limit)))


def add_cluster(connection: Connection, **values: object) -> None:
    connection.execute(insert(clusters).values(report_number=0, events_through=0, needs_resync=True, **values))


def change_cluster(connection: Connection, cluster_id: str, **values: object) -> None:
    _CHANGE.run(connection, {"of": cluster_id, **values})


def note_report(connection: Connection, cluster_id: str, **values: object) -> None:
    """What only a cluster's reports change."""
    _NOTE.run(connection, {"of": cluster_id, **values})


def delete_cluster(connection: Connection, cluster_id: str) -> None:
    for table in (nodes, queue_reports, events, cluster_equipment):
        connection.execute(delete(table).where(table.c.cluster == cluster_id))
    connection.execute(delete(clusters).where(clusters.c.id == cluster_id))


def node_documents(connection: Connection, cluster_id: str, span: NameRange) -> dict[str, str]:
    """The last report of each node in this range of names, as text."""
    return {row.name: row.document for row in _NODES_OF.rows(connection, {"of": cluster_id, **bounds(span)})}


def set_node(connection: Connection, cluster_id: str, name: str, document: str, *, revision: int, now: Instant) -> None:
    """What is now reported of a node; when it was first heard of stays."""
    first = _NODE_SINCE.column(connection, {"of": cluster_id, "node": name})
    drop_node(connection, cluster_id, name)
    values = {"cluster": cluster_id, "name": name, "document": document, "revision": revision}
    _ADD_NODE.run(connection, {**values, "created_at": first[0] if first else now, "updated_at": now})


def drop_node(connection: Connection, cluster_id: str, name: str) -> None:
    _DROP_NODE.run(connection, {"of": cluster_id, "node": name})
    _NODES_CHANGED.run(connection, {"of": cluster_id})


def all_nodes(connection: Connection, name: str | None = None) -> list[Row[Any]]:
    """Every node, or every node of this name."""
    query = select(nodes) if name is None else select(nodes).where(nodes.c.name == name)
    return list(connection.execute(query.order_by(nodes.c.name, nodes.c.cluster)))


def nodes_of(connection: Connection, cluster_id: str) -> list[Any]:
    """Name and last report of each node of a cluster, by name."""
    return _ALL_NODES_OF.rows(connection, {"of": cluster_id})


def set_queue(connection: Connection, cluster_id: str, pool: str, queue: str, document: str) -> None:
    drop_queue(connection, cluster_id, pool, queue)
    _ADD_QUEUE.run(connection, {"cluster": cluster_id, "pool": pool, "queue": queue, "document": document})


def queue_documents(connection: Connection, cluster_id: str) -> dict[tuple[PoolName, QueueId], str]:
    """The last report of each queue as text, by pool and name."""
    return {(row.pool, row.queue): row.document for row in _QUEUES_OF.rows(connection, {"of": cluster_id})}


def drop_queue(connection: Connection, cluster_id: str, pool: str, queue: str) -> None:
    _DROP_QUEUE.run(connection, {"of": cluster_id, "in_pool": pool, "name": queue})


def queues(connection: Connection) -> list[QueueReport]:
    rows = connection.execute(select(queue_reports.c.document).order_by(queue_reports.c.pool, queue_reports.c.queue))
    return [QueueReport.from_json(document) for document in rows.scalars()]


def add_events(connection: Connection, cluster_id: str, lines: Iterable[EventReport]) -> list[EventReport]:
    """Take in lines that are not here yet; a line has a number, and comes in once. No cluster adds to the history of
    another's workloads."""
    ordered = sorted(lines, key=lambda line: line.number)
    if not ordered:
        return []
    bounds = {"cluster": cluster_id, "low": ordered[0].number, "high": ordered[-1].number}
    known = set(_EVENT_NUMBERS.column(connection, bounds))
    fresh = [line for line in {line.number: line for line in ordered}.values() if line.number not in known]
    owners = {row.id: row.cluster for row in _OWNERS.rows(connection, list({line.workload for line in fresh}))}
    fresh = [line for line in fresh if owners.get(line.workload, cluster_id) == cluster_id]
    if fresh:
        rows = [
            {
                "cluster": cluster_id,
                "number": line.number,
                "workload": line.workload,
                "at": line.at,
                "document": line.to_json(without="usage"),  # that is in a table of its own
                "decision": None if line.decision is None else line.decision.kind.value,
            }
            for line in fresh
        ]
        _ADD_EVENT.run_all(connection, rows)
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


def events_in(connection: Connection, cluster_id: str, after: int) -> list[EventReport]:
    """All of a cluster after one number, in order."""
    query = select(events.c.document).where(events.c.cluster == cluster_id, events.c.number > after)
    return [
        EventReport.from_json(document) for document in connection.execute(query.order_by(events.c.number)).scalars()
    ]


def events_of_pod(connection: Connection, workload: str, pod: str) -> list[EventReport]:
    """What is known about one pod, in the order it happened."""
    # Only documents with the id can be about it; the rest need not be parsed.
    texts = _EVENTS_OF_POD.column(connection, {"workload": workload, "pod": f'"{pod}"'})
    return [line for line in map(EventReport.from_json, texts) if line.pod == pod]


def incarnations(connection: Connection, workload_ids: Iterable[str]) -> dict[str, dict[int, int]]:
    """The highest incarnation that was reported of each pod."""
    found: dict[str, dict[int, int]] = {}
    for workload, place, highest in _INCARNATIONS.rows(connection, list(workload_ids)):
        found.setdefault(workload, {})[place] = highest
    return found


def set_last_seen(connection: Connection, cluster_id: str, now: Instant) -> None:
    _NOTE.run(connection, {"of": cluster_id, "last_seen_at": now})
