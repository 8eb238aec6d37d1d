"""SQL for what clusters report about their objects beside pods."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from fairpool.control.store.tables import cluster_equipment
from fairpool.model.ids import Instant


def reported(connection: Connection, cluster: str) -> str | None:
    """The last report of a cluster; None: it has no such objects."""
    query = select(cluster_equipment.c.document).where(cluster_equipment.c.cluster == cluster)
    return connection.execute(query).scalar_one_or_none()


def reported_by_all(connection: Connection) -> dict[str, str]:
    """The last reports, by cluster."""
    rows = connection.execute(select(cluster_equipment.c.cluster, cluster_equipment.c.document))
    return {row.cluster: row.document for row in rows}


def store(connection: Connection, cluster: str, document: str, now: Instant) -> None:
    """Keep the report of a cluster, instead of the one before."""
    forget(connection, cluster)
    connection.execute(insert(cluster_equipment).values(cluster=cluster, document=document, reported_at=now))


def forget(connection: Connection, cluster: str) -> None:
    """The cluster is gone."""
    connection.execute(delete(cluster_equipment).where(cluster_equipment.c.cluster == cluster))
