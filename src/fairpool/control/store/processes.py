"""SQL for the control processes of one database: where they are reached, and whose tunnels they hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from fairpool.control.store.tables import cluster_tunnels, control_processes
from fairpool.model.ids import Instant


def note(connection: Connection, process: str, address: str, token_key: str, now: Instant) -> None:
    """This process runs, is reached there, and signs tokens with this key."""
    values = {"address": address, "token_key": token_key, "seen_at": now}
    if not connection.execute(
        update(control_processes).where(control_processes.c.id == process).values(**values)
    ).rowcount:
        connection.execute(insert(control_processes).values(id=process, **values))


def others(connection: Connection, process: str, since: int) -> list[Any]:
    """Those that were seen since then, besides this one."""
    table = control_processes.c
    return list(connection.execute(select(control_processes).where(table.id != process, table.seen_at >= since)))


def forget(connection: Connection, process: str) -> None:
    """It has ended."""
    connection.execute(delete(cluster_tunnels).where(cluster_tunnels.c.process == process))
    connection.execute(delete(control_processes).where(control_processes.c.id == process))


def forget_lost(connection: Connection, before: int) -> None:
    """Those that have not been seen since then, with their tunnels."""
    lost = select(control_processes.c.id).where(control_processes.c.seen_at < before)
    for each in list(connection.execute(lost).scalars()):
        forget(connection, each)


def tunnels(connection: Connection) -> dict[str, str]:
    """By cluster: the process that holds its tunnel."""
    found = connection.execute(select(cluster_tunnels.c.cluster, cluster_tunnels.c.process))
    return {each.cluster: each.process for each in found}


def hold(connection: Connection, process: str, clusters: Collection[str]) -> None:
    """The tunnels of these clusters are held by this process from now on."""
    connection.execute(delete(cluster_tunnels).where(cluster_tunnels.c.cluster.in_(clusters)))
    if clusters:
        connection.execute(insert(cluster_tunnels), [{"cluster": each, "process": process} for each in clusters])


def let_go(connection: Connection, process: str, clusters: Collection[str]) -> None:
    """The tunnels of these clusters are not held by this process any more."""
    held = cluster_tunnels.c.cluster.in_(clusters), cluster_tunnels.c.process == process
    connection.execute(delete(cluster_tunnels).where(*held))


def reached(connection: Connection, since: int, besides: str) -> dict[str, tuple[str, str]]:
    """By cluster: the process that holds its tunnel, and its address. Only processes that were seen since then."""
    table = control_processes.c
    query = (
        select(cluster_tunnels.c.cluster, table.id, table.address)
        .where(cluster_tunnels.c.process == table.id, table.seen_at >= since, table.id != besides)
        .order_by(cluster_tunnels.c.cluster)
    )
    return {each.cluster: (each.id, each.address) for each in connection.execute(query)}
