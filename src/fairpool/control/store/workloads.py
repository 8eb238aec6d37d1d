"""SQL for workloads and their pods; lists of workloads are in `workload_lists.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.engine import Row

from fairpool.api.clusters import NameRange
from fairpool.control.store.compiled import Compiled, CompiledIn, bounds
from fairpool.control.store.tables import (
    ended_waits,
    events,
    holdings,
    pods,
    start_estimates,
    workload_labels,
    workloads,
)
from fairpool.control.workload_documents import RELEASED

_INSERT = Compiled(insert(workloads))
_ONE = Compiled(select(workloads).where(workloads.c.id == bindparam("id")))
_SOME = CompiledIn(lambda ids: select(workloads).where(workloads.c.id.in_(ids)))
KEY = (workloads.c.id, workloads.c.revision, workloads.c.report_revision)
KEYS = CompiledIn(lambda ids: select(*KEY, workloads.c.project).where(workloads.c.id.in_(ids)))
_CLUSTERS = CompiledIn(lambda ids: select(workloads.c.id, workloads.c.cluster).where(workloads.c.id.in_(ids)))
_DECLARED = Compiled(
    select(workloads)
    .where(workloads.c.cluster == bindparam("of"), workloads.c.deleted_at.is_(None))
    .order_by(workloads.c.created_at, workloads.c.id)
)
_DECLARED_IDS = Compiled(
    select(workloads.c.id)
    .where(workloads.c.cluster == bindparam("of"), workloads.c.deleted_at.is_(None))
    .order_by(workloads.c.created_at, workloads.c.id)
)
_REPORTED = Compiled(
    select(workloads.c.id).where(
        workloads.c.cluster == bindparam("of"),
        workloads.c.deleted_at.is_(None),
        workloads.c.report.is_not(None),
        workloads.c.id > bindparam("after"),
        or_(bindparam("to_the_end", type_=Integer) == 1, workloads.c.id <= bindparam("through")),
    )
)
_WITH_ASSETS = Compiled(
    select(workloads)
    .where(workloads.c.deleted_at.is_(None), workloads.c.declaration.like(bindparam("pattern")))
    .order_by(workloads.c.created_at, workloads.c.id)
)
_DROP_PODS = Compiled(
    delete(pods).where(
        pods.c.workload == bindparam("of"),
        pods.c.pod_index == bindparam("at"),
        pods.c.incarnation < bindparam("before"),
    )
)
_TAKEN = Compiled(select(workloads.c.id).where(workloads.c.name_key == bindparam("name_key")))
_CHANGE = Compiled(update(workloads).where(workloads.c.id == bindparam("of")))
_PODS = Compiled(
    select(pods.c.id, pods.c.phase, pods.c.since, pods.c.document).where(pods.c.workload == bindparam("workload"))
)
_POD = Compiled(select(pods).where(pods.c.id == bindparam("id")))
_ADD_POD = Compiled(insert(pods))
_ADD_LABEL = Compiled(insert(workload_labels))
_CHANGE_POD = Compiled(update(pods).where(pods.c.id == bindparam("of")))


class Key(NamedTuple):
    """A workload in one state: equal keys are rendered as equal texts."""

    id: str
    revision: int
    report_revision: int


def add(connection: Connection, row: dict[str, Any], labels: Mapping[str, str]) -> None:
    """A new workload, whose name is not taken."""
    _INSERT.run(connection, row)
    _ADD_LABEL.run_all(connection, _label_rows(row["id"], labels))


def set_labels(connection: Connection, workload_id: str, labels: Mapping[str, str]) -> None:
    """Replace the labels that filters find it by."""
    connection.execute(delete(workload_labels).where(workload_labels.c.workload == workload_id))
    _ADD_LABEL.run_all(connection, _label_rows(workload_id, labels))


def _label_rows(workload_id: str, labels: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"workload": workload_id, "key": key, "value": value} for key, value in labels.items()]


def one(connection: Connection, workload_id: str) -> Any:
    """A workload as its row; None: there is none."""
    return _ONE.one(connection, {"id": workload_id})


def with_assets(connection: Connection) -> list[Any]:
    """Those whose request may name assets; few others have a text that looks like it."""
    return _WITH_ASSETS.rows(connection, {"pattern": '%"assets":{%'})


def with_credentials(connection: Connection) -> list[Any]:
    """Those that may refer to credentials."""
    return _WITH_ASSETS.rows(connection, {"pattern": '%"credential":%'})


def some(connection: Connection, ids: Sequence[str]) -> dict[str, Any]:
    """Their rows, by id; of those that there are."""
    return {row.id: row for row in _SOME.rows(connection, ids)}


def keys_of(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[Key, str]]:
    """The keys of these and their projects, by id."""
    return {row.id: (Key._make(row[:3]), row.project) for row in KEYS.rows(connection, ids)}


def declared(connection: Connection, cluster: str) -> list[Any]:
    """Everything a cluster should know, oldest first."""
    return _DECLARED.rows(connection, {"of": cluster})


def declared_ids(connection: Connection, cluster: str) -> list[str]:
    """The ids of the same."""
    return _DECLARED_IDS.column(connection, {"of": cluster})


def of_other_clusters(connection: Connection, ids: Sequence[str], cluster: str) -> set[str]:
    """Those of these that another cluster runs or ran."""
    return {row.id for row in _CLUSTERS.rows(connection, ids) if row.cluster != cluster}


def count_in_cluster(connection: Connection, cluster: str) -> int:
    """Workloads of which something may be left there."""
    query = select(func.count()).where(workloads.c.cluster == cluster, workloads.c.deleted_at.is_(None))
    return int(connection.execute(query).scalar_one())


def is_taken(connection: Connection, name_key: str) -> bool:
    return _TAKEN.one(connection, {"name_key": name_key}) is not None


def named(connection: Connection, project: str, name: str) -> str | None:
    """The id of the one that has this name now."""
    found = _TAKEN.one(connection, {"name_key": f"{project}/{name}"})
    return None if found is None else str(found.id)


def leaving(connection: Connection, project: str, name: str) -> str | None:
    """The id of the latest one that had this name and is being deleted."""
    query = (
        select(workloads.c.id)
        .where(
            workloads.c.project == project,
            workloads.c.name == name,
            workloads.c.name_key.is_(None),
            workloads.c.deleted_at.is_(None),
        )
        .order_by(workloads.c.created_at.desc(), workloads.c.id.desc())
        .limit(1)
    )
    found = connection.execute(query).scalar()
    return None if found is None else str(found)


def names_like(connection: Connection, project: str, prefix: str) -> set[str]:
    """Names in a project that begin so and are taken."""
    query = select(workloads.c.name).where(
        workloads.c.project == project,
        workloads.c.name_key.is_not(None),
        workloads.c.name.startswith(prefix, autoescape=True),
    )
    return set(connection.execute(query).scalars())


def change(connection: Connection, workload_id: str, **values: Any) -> None:
    _CHANGE.run(connection, {"of": workload_id, **values})


RUNS = ("Running", "Degraded", "Initializing")
WAITS = ("Creating", "Pending")


def busy(connection: Connection, cluster: str | None = None) -> list[Row[Any]]:
    """Key, project, department and cluster of everything that runs, starts or holds a GPU, by project and name."""
    is_busy = or_(workloads.c.phase.in_(RUNS), workloads.c.allocated_gpus_milli > 0)
    query = select(*KEY, workloads.c.project, workloads.c.department, workloads.c.cluster)
    query = query.where(workloads.c.deleted_at.is_(None), is_busy, _in(cluster))
    return list(connection.execute(query.order_by(workloads.c.project, workloads.c.name, workloads.c.id)))


def _in(cluster: str | None) -> ColumnElement[bool]:
    return true() if cluster is None else workloads.c.cluster == cluster


def with_urls(connection: Connection) -> list[Any]:
    """Workloads whose ports can be reached now."""
    return list(connection.execute(select(workloads).where(workloads.c.urls.is_not(None))))


def with_external_ports(connection: Connection) -> list[Any]:
    """Workloads that have ports of the server's machine, also while they do not run."""
    # As the documents are written; a text within one could not contain these quotation marks.
    has_some = workloads.c.declaration.contains('"external_ports":[[', autoescape=True)
    return list(connection.execute(select(workloads).where(workloads.c.deleted_at.is_(None), has_some)))


def waiting(connection: Connection, cluster: str | None = None) -> list[Row[Any]]:
    """Project, department, cluster, and how many workloads wait there without holding anything."""
    columns = (workloads.c.project, workloads.c.department, workloads.c.cluster)
    query = select(*columns, func.count().label("number")).where(
        workloads.c.deleted_at.is_(None),
        workloads.c.phase.in_(WAITS),
        workloads.c.allocated_gpus_milli == 0,
        _in(cluster),
    )
    return list(connection.execute(query.group_by(*columns).order_by(*columns)))


def set_pod(connection: Connection, known: bool, row: dict[str, Any]) -> None:
    if known:
        _CHANGE_POD.run(connection, {"of": row["id"], **row})
    else:
        _ADD_POD.run(connection, row)


def known_pods(connection: Connection, workload_id: str) -> dict[str, Any]:
    return {row.id: row for row in _PODS.rows(connection, {"workload": workload_id})}


def pod(connection: Connection, pod_id: str) -> Any:
    """One pod as its row; None: it was never reported."""
    return _POD.one(connection, {"id": pod_id})


def pods_of(connection: Connection, workload_id: str) -> list[Row[Any]]:
    query = select(pods).where(pods.c.workload == workload_id).order_by(pods.c.pod_index, pods.c.incarnation)
    return list(connection.execute(query))


def not_reported(connection: Connection, cluster: str, reported: Set[str], span: NameRange) -> list[str]:
    """Those in this range of ids that were reported before and are not among these."""
    found = _REPORTED.column(connection, {"of": cluster, **bounds(span)})
    return [workload for workload in found if workload not in reported]


def projects_with_work(connection: Connection, project: str) -> bool:
    query = select(workloads.c.id).where(workloads.c.project == project, workloads.c.deleted_at.is_(None)).limit(1)
    return connection.execute(query).first() is not None


def mark_deleted(connection: Connection, workload_id: str, **values: Any) -> None:
    """Nothing is left of it in its cluster; it is kept as history."""
    change(connection, workload_id, **values, name_key=None, urls=None)
    connection.execute(delete(holdings).where(holdings.c.workload == workload_id))


def release_name(connection: Connection, column: Column[str], name: str, revision: int) -> None:
    """What is left of a project or department that is no more. The name may be used again; no role covers this.

    A slash is in no name, so that no role can be given over it.
    """
    connection.execute(update(workloads).where(column == name).values({column: f"{name}{RELEASED}{revision:x}"}))


def set_department(connection: Connection, project: str, department: str) -> None:
    """Of all the work in a project, also of what is gone."""
    connection.execute(update(workloads).where(workloads.c.project == project).values(department=department))


def existing_in(connection: Connection, project: str) -> list[str]:
    """The ids of the workloads in a project that are not deleted."""
    query = select(workloads.c.id).where(workloads.c.project == project, workloads.c.deleted_at.is_(None))
    return list(connection.execute(query.order_by(workloads.c.id)).scalars())


def distributed(connection: Connection) -> list[Row[Any]]:
    """Distributed workloads that are not deleted."""
    query = select(workloads).where(workloads.c.kind == "Distributed", workloads.c.deleted_at.is_(None))
    return list(connection.execute(query.order_by(workloads.c.id)))


def drop_deleted(connection: Connection, before: int, most: int) -> int:
    """Remove workloads that were deleted earlier than this, with everything about them; says how many."""
    query = select(workloads.c.id).where(workloads.c.deleted_at < before).order_by(workloads.c.deleted_at).limit(most)
    old = list(connection.execute(query).scalars())
    columns = (events.c.workload, pods.c.workload, holdings.c.workload, workload_labels.c.workload)
    for column in (*columns, start_estimates.c.workload, ended_waits.c.workload, workloads.c.id):
        connection.execute(delete(column.table).where(column.in_(old)))
    return len(old)


def drop_pods_before(connection: Connection, workload_id: str, place: int, before: int) -> None:
    """Delete the pods of one index with an earlier incarnation than this."""
    _DROP_PODS.run(connection, {"of": workload_id, "at": place, "before": before})
