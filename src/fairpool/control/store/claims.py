"""SQL for volume claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from fairpool.control.store.tables import claims, workloads

READY, DELETING = "Ready", "Deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClaim:
    """A claim that a submit asks for."""

    name: str
    size: str
    access_mode: str
    ephemeral: bool
    storage_class: str = ""


def all_of(connection: Connection, project: str) -> list[Any]:
    """The claims of a project, by name."""
    return list(connection.execute(select(claims).where(claims.c.project == project).order_by(claims.c.name)))


def everything(connection: Connection) -> list[Any]:
    """The claims of all projects, also of deleted ones."""
    return list(connection.execute(select(claims).order_by(claims.c.project, claims.c.name)))


def named(connection: Connection, name: str) -> list[Any]:
    """The claims of this name of all projects, oldest first."""
    query = select(claims).where(claims.c.name == name)
    return list(connection.execute(query.order_by(claims.c.created_at, claims.c.project)))


def one(connection: Connection, project: str, name: str) -> Any:
    """A claim; None: there is none."""
    query = select(claims).where(claims.c.project == project, claims.c.name == name)
    return connection.execute(query).one_or_none()


def names(connection: Connection, project: str) -> frozenset[str]:
    """The names of those that a project has."""
    return frozenset(connection.execute(select(claims.c.name).where(claims.c.project == project)).scalars())


def latest(connection: Connection, project: str) -> int | None:
    """When the latest claim of a project was created; None: it has none."""
    found = connection.execute(select(func.max(claims.c.created_at)).where(claims.c.project == project)).scalar()
    return None if found is None else int(found)


def set_aside(connection: Connection, project: str, kept_as: str) -> None:
    """Those of an earlier project of this name are kept under another, which no project has."""
    connection.execute(update(claims).where(claims.c.project == project).values(project=kept_as))


def note(
    connection: Connection, project: str, made: Iterable[NewClaim], *, workload: str, cluster: str, by: str, now: int
) -> None:
    """Claims that a project has from now on; those that it had stay as they are."""
    known = names(connection, project)
    about = {"project": project, "workload": workload, "cluster": cluster, "created_at": now, "created_by": by}
    rows = [asdict(each) | about | {"phase": READY} for each in made if each.name not in known]
    if rows:
        connection.execute(insert(claims), rows)


def mark(connection: Connection, project: str, name: str) -> None:
    """It is being deleted."""
    connection.execute(update(claims).where(claims.c.project == project, claims.c.name == name).values(phase=DELETING))


def remove_marked(connection: Connection, project: str, name: str) -> None:
    """Its data is removed. One that was created meanwhile under the same name stays."""
    is_it = (claims.c.project == project) & (claims.c.name == name) & (claims.c.phase == DELETING)
    connection.execute(delete(claims).where(is_it))


def marked(connection: Connection) -> list[Any]:
    """Those that are being deleted."""
    return list(connection.execute(select(claims).where(claims.c.phase == DELETING)))


def mark_abandoned(connection: Connection) -> None:
    """Mark claims that were to be deleted with a workload that is gone."""
    is_there = select(workloads.c.id).where(workloads.c.id == claims.c.workload, workloads.c.deleted_at.is_(None))
    query = update(claims).where(claims.c.ephemeral, claims.c.phase == READY, ~is_there.exists())
    connection.execute(query.values(phase=DELETING))


def has_abandoned(connection: Connection) -> bool:
    """Whether `mark_abandoned` or `marked` would find one."""
    is_there = select(workloads.c.id).where(workloads.c.id == claims.c.workload, workloads.c.deleted_at.is_(None))
    is_over = or_(claims.c.phase == DELETING, claims.c.ephemeral & ~is_there.exists())
    return connection.execute(select(claims.c.name).where(is_over).limit(1)).first() is not None


def mounting(connection: Connection, project: str, name: str, finished: Iterable[str]) -> list[Any]:
    """Rows of workloads that may mount a claim: their declaration contains its name. Not those in a finished phase."""
    query = select(workloads).where(
        workloads.c.project == project,
        workloads.c.deleted_at.is_(None),
        workloads.c.phase.not_in(list(finished)),
        workloads.c.declaration.contains(f'"{name}"', autoescape=True),
    )
    return list(connection.execute(query.order_by(workloads.c.name)))
