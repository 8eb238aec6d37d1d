"""Tells the owners of running workloads that a limit will soon end them: the project's, or their own deadline.

That a workload leaves its GPUs idle is seen by its cluster, which says so in a line of history. Time limits are those
that the cluster enforces (`cluster/workload_end.py`), counted from the start that it reported. Only workloads of users
who want to know are looked at. A warning is in the outbox once for each limit, however often the workload is looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from fairpool.api.clusters import EventReport
from fairpool.control import declared, organization
from fairpool.control.notification_events import NEAR_LIMIT, warned_from
from fairpool.control.notification_outbox import note
from fairpool.control.plane import Plane
from fairpool.control.store import notifications as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.workload_documents import declaration_of
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.workload import WorkloadKind

log = logging.getLogger("fairpool.control")

EVERY_S: Final = 20.0


async def warn_of_limits(plane: Plane) -> None:
    """Put warnings into the outbox, until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            await warn_once(plane)
        except Unavailable:  # already logged by the database
            continue
        except Exception:  # the next round tries again
            log.exception("could not look for jobs near their time limit; retrying in %g s", EVERY_S)


async def warn_once(plane: Plane) -> None:
    """Put the warnings that are due into the outbox."""
    due = await plane.read_apart(lambda connection: due_warnings(connection, plane.now()))
    if due:
        await plane.write(lambda connection: _note_all(connection, due, plane.now()))


def due_warnings(connection: Connection, now: Instant) -> list[tuple[Any, int]]:
    """Workloads that are near a limit, each with the limit in seconds."""
    projects: dict[str, Any] = {}
    found = []
    for row in store.running_work_of_subscribers(connection, NEAR_LIMIT):
        if row.project not in projects:
            project = organization_store.project(connection, row.project)
            said = None if project is None else organization.effective_project(connection, project).scheduling_rules
            projects[row.project] = None if said is None else declared.project_rules(said)
        workload, rules = declaration_of(row).workload, projects[row.project]
        by_kind = {} if rules is None else _limits_by_kind(rules)
        limits = [each for each in (by_kind.get(workload.kind), workload.deadline_s) if each is not None]
        if not limits:
            continue
        limit_s = min(limits)
        if warned_from(row.started_at, limit_s) <= now < row.started_at + limit_s * SECOND_MS:
            found.append((row, limit_s))
    return found


def note_warnings(connection: Connection, lines: Sequence[EventReport]) -> None:
    """In the transaction that takes in lines of history, which are new: put warnings of idle limits into the outbox."""
    said = [line for line in lines if line.kind == NEAR_LIMIT]
    owners = workload_store.some(connection, list(dict.fromkeys(line.workload for line in said))) if said else {}
    for line in said:
        row = owners.get(line.workload)
        if row is not None:
            note(connection, row, NEAR_LIMIT, line.at, line.at)


def _limits_by_kind(rules: Any) -> dict[WorkloadKind, int | None]:
    return {WorkloadKind.BUILD: rules.interactive_limit_s, WorkloadKind.TRAIN: rules.training_limit_s}


def _note_all(connection: Connection, due: list[tuple[Any, int]], now: Instant) -> None:
    for row, limit_s in due:
        note(connection, row, NEAR_LIMIT, row.started_at + limit_s * SECOND_MS, now)
