"""SQL for estimates of when waiting work starts: the first that was given for each wait, and when it did start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update

from fairpool.control.store.compiled import Compiled, CompiledIn
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import start_estimates, workloads

_ONE = Compiled(
    select(start_estimates).where(
        start_estimates.c.workload == bindparam("of"), start_estimates.c.waiting_since == bindparam("since")
    )
)
_ADD = Compiled(insert(start_estimates))
_OPEN = CompiledIn(
    lambda ids: (
        select(start_estimates.c.workload, start_estimates.c.waiting_since, start_estimates.c.made_at)
        .join(workloads, workloads.c.id == start_estimates.c.workload)
        .where(
            start_estimates.c.workload.in_(ids),
            start_estimates.c.started_at.is_(None),
            start_estimates.c.run == workloads.c.run,
        )
    )
)


def first(connection: Connection, workload: str, waiting_since: int) -> Any:
    """The first estimate of this wait; None: there was none."""
    return _ONE.one(connection, {"of": workload, "since": waiting_since})


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    """Keep an estimate, unless one of the same wait is kept already."""
    if first(connection, values["workload"], values["waiting_since"]) is None:
        _ADD.run(connection, dict(values))


def note_starts(connection: Connection, started: Mapping[str, int]) -> None:
    """Workloads of which pods started, and when."""
    for row in _OPEN.rows(connection, list(started)) if started else ():
        at = started[row.workload]
        if at >= row.made_at:
            mine = (start_estimates.c.workload == row.workload, start_estimates.c.waiting_since == row.waiting_since)
            connection.execute(update(start_estimates).where(*mine).values(started_at=at))


def made_after(connection: Connection, moment: int) -> list[Any]:
    """Estimates with the place of their workload and its present run, oldest first."""
    columns = (workloads.c.project, workloads.c.department, workloads.c.cluster, workloads.c.run.label("run_now"))
    query = select(start_estimates, *columns).join(workloads, workloads.c.id == start_estimates.c.workload)
    return list(
        connection.execute(query.where(start_estimates.c.made_at >= moment).order_by(start_estimates.c.made_at))
    )


def drop_old(connection: Connection, before: int, most: int) -> int:
    """Let go of the oldest; says how many went."""
    query = select(start_estimates.c.workload, start_estimates.c.waiting_since)
    old = list(connection.execute(query.where(start_estimates.c.made_at < before).limit(most)))
    for row in old:
        mine = (start_estimates.c.workload == row.workload, start_estimates.c.waiting_since == row.waiting_since)
        connection.execute(delete(start_estimates).where(*mine))
    return len(old)
