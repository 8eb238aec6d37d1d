"""SQL for departments, projects, node pools, topologies and node overrides."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.engine import Row

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import departments, node_pools, projects, topologies, workloads
from fairpool.control.store.tables import node_overrides as overrides_table
from fairpool.model.ids import Instant

_PROJECT = Compiled(select(projects).where(projects.c.name == bindparam("name")))
_PROJECTS = Compiled(select(projects).order_by(projects.c.name))
_DEPARTMENT = Compiled(select(departments).where(departments.c.name == bindparam("name")))
_DEPARTMENTS = Compiled(select(departments).order_by(departments.c.name))
_POOL = Compiled(select(node_pools).where(node_pools.c.name == bindparam("name")))
_POOLS = Compiled(select(node_pools).order_by(node_pools.c.name))
_TOPOLOGIES = Compiled(select(topologies).order_by(topologies.c.name))
_OVERRIDES = Compiled(select(overrides_table).order_by(overrides_table.c.cluster, overrides_table.c.node))


def project(connection: Connection, name: str) -> Any:
    """A project as its row; None: there is none."""
    return _PROJECT.one(connection, {"name": name})


def name_of_number(connection: Connection, table: Table, number: int) -> str | None:
    """The department, project or pool that has this number; None: there is none."""
    return connection.execute(select(table.c.name).where(table.c.number == number)).scalar_one_or_none()


def all_projects(
    connection: Connection,
    *,
    names: tuple[str, ...] | None = None,
    parents: tuple[str, ...] = (),
    clusters: tuple[str, ...] = (),
) -> list[Any]:
    """By name; `names`, `parents`, `clusters`: only those, and those of these departments and clusters."""
    if names is None:
        return _PROJECTS.rows(connection)
    query = select(projects).where(
        or_(projects.c.name.in_(names), projects.c.department.in_(parents), projects.c.cluster.in_(clusters))
    )
    return list(connection.execute(query.order_by(projects.c.name)))


def department(connection: Connection, name: str) -> Any:
    """A department as its row; None: there is none."""
    return _DEPARTMENT.one(connection, {"name": name})


def all_departments(connection: Connection) -> list[Any]:
    return _DEPARTMENTS.rows(connection)


def node_pool(connection: Connection, name: str) -> Any:
    """A node pool as its row; None: there is none."""
    return _POOL.one(connection, {"name": name})


def all_node_pools(connection: Connection) -> list[Any]:
    return _POOLS.rows(connection)


_POOL_NAMES = Compiled(select(node_pools.c.name))


def pool_names(connection: Connection) -> list[str]:
    return _POOL_NAMES.column(connection)


def all_topologies(connection: Connection) -> list[Any]:
    return _TOPOLOGIES.rows(connection)


def node_overrides(connection: Connection) -> list[Any]:
    return _OVERRIDES.rows(connection)


def set_node_overrides(connection: Connection, cluster: str, node: str, document: str, revision: int) -> None:
    where = (overrides_table.c.cluster == cluster) & (overrides_table.c.node == node)
    values = {"document": document, "revision": revision}
    if connection.execute(update(overrides_table).where(where).values(**values)).rowcount == 0:
        connection.execute(insert(overrides_table).values(cluster=cluster, node=node, **values))


def add(connection: Connection, table: Table, **values: object) -> None:
    """A new department, project, pool or topology."""
    connection.execute(insert(table).values(**values))


def change(connection: Connection, table: Table, name: str, now: Instant, **values: object) -> None:
    connection.execute(update(table).where(table.c.name == name).values(updated_at=now, **values))


def remove(connection: Connection, table: Table, name: str) -> None:
    connection.execute(delete(table).where(table.c.name == name))


def projects_of(connection: Connection, department_name: str) -> list[str]:
    query = select(projects.c.name).where(projects.c.department == department_name).order_by(projects.c.name)
    return list(connection.execute(query).scalars())


def homes(connection: Connection) -> dict[str, tuple[str, str]]:
    """Department and cluster of each project."""
    query = select(projects.c.name, projects.c.department, projects.c.cluster)
    return {row.name: (row.department, row.cluster) for row in connection.execute(query)}


def work_in(connection: Connection, project_name: str) -> list[Row[Any]]:
    """Workloads of a project that are not gone."""
    query = select(workloads.c.id, workloads.c.name, workloads.c.desired_state, workloads.c.phase)
    query = query.where(workloads.c.project == project_name, workloads.c.deleted_at.is_(None))
    return list(connection.execute(query.order_by(workloads.c.id)))


def use_by_project(connection: Connection) -> dict[str, tuple[int, int]]:
    """Workloads that are not gone and GPUs they hold, in thousandths, by project."""
    query = (
        select(workloads.c.project, func.count(), func.sum(workloads.c.allocated_gpus_milli))
        .where(workloads.c.deleted_at.is_(None))
        .group_by(workloads.c.project)
    )
    return {name: (number, int(held or 0)) for name, number, held in connection.execute(query)}
