"""What projects, departments and pools have in common: what is declared to clusters, and what is there at first."""

from __future__ import annotations

from typing import Any

from fairpool.api import organization as wire
from fairpool.control import declared, preferences
from fairpool.control.plane import Plane
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import changes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import departments as departments_table
from fairpool.control.store.tables import node_pools
from fairpool.model.ids import Instant
from fairpool.model.organization import Organization

DEFAULT_DEPARTMENT = "default"


def cluster_of(connection: Connection, asked: str | None) -> str:
    """The cluster that was named, by id or name; without a name, the only one there is."""
    if asked:
        row = cluster_store.cluster(connection, asked) or cluster_store.cluster_by_name(connection, asked)
        if row is None:
            raise refused(422, "cluster.unknown", f"there is no cluster {asked!r}", "name one of the list", "clusterId")
        return str(row.id)
    rows = cluster_store.all_clusters(connection)
    if len(rows) != 1:
        what = f"there are {len(rows)} clusters, and none was named"
        raise refused(422, "cluster.not_named", what, "give clusterId", "clusterId")
    return str(rows[0].id)


def pool_names(connection: Connection) -> frozenset[str]:
    return frozenset(store.pool_names(connection))


def organization_of(plane: Plane, connection: Connection, cluster: str) -> Organization:
    """Everything that is declared for a cluster except its workloads."""
    marks = {row.node: row.document for row in store.marks(connection) if row.cluster == cluster}
    return declared.organization(
        [_project_unit(row) for row in store.all_projects(connection) if row.cluster == cluster],
        [_department_unit(row) for row in store.all_departments(connection)],
        [wire.NodePoolRequest.model_validate_json(row.document) for row in store.all_node_pools(connection)],
        {node: wire.NodeMarksRequest.model_validate_json(document) for node, document in marks.items()},
        use_departments=bool(preferences.chosen(plane.settings, connection, preferences.DEPARTMENTS)),
        graces=preferences.graces(plane.settings, connection),
    )


def make_first_organization(plane: Plane, connection: Connection) -> None:
    """On a fresh database: the default department and the default pool."""
    now = plane.now()
    if store.department(connection, DEFAULT_DEPARTMENT) is None:
        body = wire.DepartmentRequest(name=DEFAULT_DEPARTMENT)
        store.add(
            connection,
            departments_table,
            name=body.name,
            document=body.model_dump_json(by_alias=True),
            created_at=now,
            updated_at=now,
            revision=changed(plane, connection, "department", body.name, "created", now),
        )
    if store.node_pool(connection, "default") is None:
        pool = wire.NodePoolRequest(name="default", label_key="-", label_value="-")
        store.add(
            connection,
            node_pools,
            name=pool.name,
            document=pool.model_dump_json(by_alias=True),
            created_at=now,
            updated_at=now,
            revision=changed(plane, connection, "node-pool", pool.name, "created", now),
        )


def check_resources(connection: Connection, resources: list[wire.PoolResources]) -> None:
    """Go no further if what is owed cannot be."""
    problems = declared.resource_problems(resources, pool_names(connection))
    if problems:
        raise Refused(422, problems)


def changed(plane: Plane, connection: Connection, noun: str, name: str, verb: str, now: Instant) -> int:
    """Write down that it changed; its new revision."""
    project = name if noun == "project" else None
    return changes.record(connection, noun, name, verb, now, project=project, kept=plane.settings.changes_kept)


def _project_unit(row: Any) -> declared.Unit:
    body = wire.ProjectRequest.model_validate_json(row.document)
    return declared.Unit(row.name, tuple(body.resources), row.created_at, row.department, body.scheduling_rules)


def _department_unit(row: Any) -> declared.Unit:
    body = wire.DepartmentRequest.model_validate_json(row.document)
    return declared.Unit(row.name, tuple(body.resources), row.created_at)
