"""SQL for usage of pods, sums of hours, and quotas over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, Connection, bindparam, delete, func, insert, or_, select, update

from fairpool.control.store.compiled import Compiled, CompiledIn
from fairpool.control.store.tables import (
    quota_history,
    usage_days,
    usage_hours,
    usage_progress,
    usage_spans,
    usage_subjects,
)
from fairpool.control.usage_sums import HOUR_MS, Quota, Quotas, UsageSpan, UsageSubject, UsageSums

MIB_S: Final = (1 << 20) * 1000
"""In bytes x milliseconds."""
DAY_HOURS: Final = 24
SOME: Final = 500
"""Ids in one statement; of more, all rows are read."""
_HOUR_SUMS: Final = ("requested", "allocated", "lost", "used", "measured", "over_quota", "cpu")

_OF_PODS = CompiledIn(lambda pods: select(usage_spans).where(usage_spans.c.pod.in_(pods)))
_OPEN = Compiled(
    select(usage_spans.c.pod, usage_spans.c.workload)
    .where(usage_spans.c.cluster == bindparam("of"), usage_spans.c.ended_at.is_(None))
    .order_by(usage_spans.c.pod)
)
_ADD = Compiled(insert(usage_spans))
_THIS = (
    usage_spans.c.cluster == bindparam("of"),
    usage_spans.c.pod == bindparam("name"),
    usage_spans.c.part == bindparam("number"),
)
_CHANGE = Compiled(update(usage_spans).where(*_THIS))
_DROP = Compiled(delete(usage_spans).where(*_THIS))
_PROGRESS = Compiled(select(usage_progress))
_SUBJECTS = Compiled(select(usage_subjects))
_ADD_SUBJECT = Compiled(insert(usage_subjects))
_ADD_HOUR = Compiled(insert(usage_hours))
_DROP_HOUR = Compiled(delete(usage_hours).where(usage_hours.c.hour == bindparam("of")))
_LAST_QUOTAS = Compiled(
    select(quota_history.c.pool, quota_history.c.quota_milli)
    .where(quota_history.c.project == bindparam("of"), quota_history.c.project_number == bindparam("its_number"))
    .order_by(quota_history.c.from_at)
)


# --- spans ---------------------------------------------------------------------------------------------------


def of_pods(connection: Connection, cluster: str, pods: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The parts of these pods in order, of those that are known."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(_OF_PODS.rows(connection, pods), key=lambda row: int(row.part)):
        if row.cluster == cluster:
            found.setdefault(row.pod, []).append(row._asdict())
    return found


def open_pods(connection: Connection, cluster: str) -> list[Any]:
    """Pods of a cluster that have not ended, with their workloads."""
    return _OPEN.rows(connection, {"of": cluster})


def add_all(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    _ADD.run_all(connection, rows)


def change(connection: Connection, row: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    _CHANGE.run(connection, {**_key(row), **values})


def drop(connection: Connection, row: Mapping[str, Any]) -> None:
    _DROP.run(connection, _key(row))


def _key(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"of": row["cluster"], "name": row["pod"], "number": row["part"]}


def open_of(connection: Connection, *, workload: str | None = None, project: str | None = None) -> list[dict[str, Any]]:
    """Rows of pods that have not ended, of one workload or of all workloads in a project."""
    chosen = usage_spans.c.workload == workload if workload is not None else usage_spans.c.project == project
    rows = connection.execute(select(usage_spans).where(chosen, usage_spans.c.ended_at.is_(None)))
    return [row._asdict() for row in rows]


def close_cluster(connection: Connection, cluster: str, now: int) -> None:
    """It is removed: nothing more will be reported."""
    mine = (usage_spans.c.cluster == cluster, usage_spans.c.ended_at.is_(None))
    connection.execute(update(usage_spans).where(*mine).values(ended_at=now, cause="cluster-removed"))


def between(connection: Connection, start: int, end: int, values: Mapping[str, str] | None = None) -> list[UsageSpan]:
    """Everything that was asked for or held at some time within a period; `values`: of rows with these only."""
    query = select(usage_spans).where(
        usage_spans.c.created_at < end,
        or_(usage_spans.c.ended_at > start, usage_spans.c.ended_at.is_(None)),
        *(usage_spans.c[name] == value for name, value in (values or {}).items()),
    )
    known: dict[UsageSubject, UsageSubject] = {}
    return [span_of(row, known) for row in connection.execute(query)]


def span_of(row: Any, known: dict[UsageSubject, UsageSubject]) -> UsageSpan:
    """`known`: subjects of other rows, of which there are few."""
    subject = subject_of(row)
    return UsageSpan(
        subject=known.setdefault(subject, subject),
        workload=row.workload,
        workload_name=row.workload_name,
        node=row.node,
        gpus_milli=row.gpus_milli,
        cpu_milli=row.cpu_milli,
        memory_bytes=row.memory_bytes,
        created_at=row.created_at,
        bound_at=row.bound_at,
        ended_at=row.ended_at,
        is_lost=row.is_lost,
    )


_subject_values = attrgetter(*UsageSubject._fields)


def subject_of(row: Any) -> UsageSubject:
    return UsageSubject._make(_subject_values(row))


def drop_before(connection: Connection, before: int, most: int) -> int:
    """Delete spans that ended before this; says how many."""
    old = select(usage_spans.c.cluster, usage_spans.c.pod, usage_spans.c.part)
    old = old.where(usage_spans.c.ended_at < before).order_by(usage_spans.c.ended_at).limit(most)
    rows = connection.execute(old).all()
    for row in rows:
        drop(connection, row._asdict())
    return len(rows)


# --- sums of hours -------------------------------------------------------------------------------------------


class SumProgress(NamedTuple):
    """How far hours are summed."""

    summed_until: int = 0
    """Whole hours before this are summed."""
    spans_from: int = 0
    """Spans that ended before this are deleted."""
    disturbed: int = 0
    """Changes of the hour that is summed next, or began to be."""


def progress(connection: Connection) -> SumProgress:
    row = _PROGRESS.one(connection)
    return SumProgress() if row is None else SumProgress(row.summed_until, row.spans_from, row.disturbed)


def set_progress(connection: Connection, value: SumProgress) -> None:
    if connection.execute(update(usage_progress).values(**value._asdict())).rowcount == 0:
        connection.execute(insert(usage_progress).values(id=1, **value._asdict()))


def unsettle(connection: Connection, at: int) -> None:
    """Something changed at this time or later: hours from there on are summed again."""
    now = progress(connection)
    if at < now.summed_until:
        set_progress(connection, now._replace(summed_until=max(at // HOUR_MS * HOUR_MS, now.spans_from)))
    elif at < now.summed_until + HOUR_MS:
        set_progress(connection, now._replace(disturbed=now.disturbed + 1))


def first_end(connection: Connection) -> int | None:
    """When the first pod that is kept ended."""
    return connection.execute(select(func.min(usage_spans.c.ended_at))).scalar()


def first_span(connection: Connection) -> int | None:
    """When the first pod that is known was created."""
    return connection.execute(select(func.min(usage_spans.c.created_at))).scalar()


def set_hour(connection: Connection, hour: int, sums: Mapping[UsageSubject, UsageSums]) -> None:
    """The sums of one hour."""
    _DROP_HOUR.run(connection, {"of": hour})
    ids = _subject_ids(connection, sums)
    rows = [
        {
            "hour": hour,
            "subject": ids[subject],
            **{name: getattr(usage, name) for name in _HOUR_SUMS},
            "memory": round(usage.memory / MIB_S),
        }
        for subject, usage in sums.items()
    ]
    _ADD_HOUR.run_all(connection, rows)


def _subject_ids(connection: Connection, sums: Mapping[UsageSubject, UsageSums]) -> dict[UsageSubject, int]:
    """The ids of these subjects. One process sums at a time, so none is given twice."""
    known = {subject_of(row): int(row.id) for row in _SUBJECTS.rows(connection)}
    last = max(known.values(), default=0)
    for subject in sums:
        if subject not in known:
            last += 1
            known[subject] = last
            _ADD_SUBJECT.run(connection, {"id": last, **subject._asdict()})
    return known


def set_day(connection: Connection, day: int) -> None:
    """Sum a day from its hours."""
    hours = range(day * DAY_HOURS, (day + 1) * DAY_HOURS)
    rows = _summed(connection, usage_hours.c.hour, hours.start, hours.stop)
    connection.execute(delete(usage_days).where(usage_days.c.day == day))
    if rows:
        connection.execute(insert(usage_days), [{"day": day, **row._asdict()} for row in rows])


def hour_sums(connection: Connection, start: int, end: int) -> dict[UsageSubject, UsageSums]:
    """The sums of a period of whole hours, all of which are summed."""
    first, last = start // HOUR_MS, end // HOUR_MS
    days = range(-(-first // DAY_HOURS), last // DAY_HOURS)
    if not days:
        rows = _summed(connection, usage_hours.c.hour, first, last)
    else:
        rows = _summed(connection, usage_days.c.day, days.start, days.stop)
        rows += _summed(connection, usage_hours.c.hour, first, days.start * DAY_HOURS)
        rows += _summed(connection, usage_hours.c.hour, days.stop * DAY_HOURS, last)
    subjects = _subjects(connection, {int(row.subject) for row in rows})
    found: dict[UsageSubject, UsageSums] = {}
    for row in rows:
        amounts = {name: int(getattr(row, name)) for name in _HOUR_SUMS}
        found.setdefault(subjects[row.subject], UsageSums()).add(UsageSums(**amounts, memory=int(row.memory) * MIB_S))
    return found


def _subjects(connection: Connection, ids: set[int]) -> dict[int, UsageSubject]:
    """Of these, by id. An answer in hours asks a thousand times, so that not all are read each time."""
    query = select(usage_subjects)
    if len(ids) <= SOME:
        query = query.where(usage_subjects.c.id.in_(sorted(ids)))
    return {int(row.id): subject_of(row) for row in connection.execute(query)} if ids else {}


def _summed(connection: Connection, unit: Column[int], first: int, last: int) -> list[Any]:
    """The sums of a range of hours or days by subject."""
    if first >= last:
        return []
    table = unit.table
    summed = [func.sum(table.c[name]).label(name) for name in (*_HOUR_SUMS, "memory")]
    query = select(table.c.subject, *summed).where(unit >= first, unit < last).group_by(table.c.subject)
    return list(connection.execute(query))


# --- quotas over time ----------------------------------------------------------------------------------------


def note_quotas(
    connection: Connection, project: str, number: int, quotas: Mapping[str, int], now: int, first: int | None = None
) -> bool:
    """The quotas of a project in each pool from now on; those that are as they were stay. `first`: from when they hold
    if none were known. Says whether something was written."""
    rows = _LAST_QUOTAS.rows(connection, {"of": project, "its_number": number})
    known = {row.pool: row.quota_milli for row in rows}
    from_at = now if known or first is None else first
    wanted = {**dict.fromkeys(known, 0), **quotas}
    changed = {pool: milli for pool, milli in wanted.items() if known.get(pool) != milli}
    for pool, milli in changed.items():
        key = {"project": project, "project_number": number, "pool": pool, "from_at": from_at}
        mine = [quota_history.c[name] == value for name, value in key.items()]
        connection.execute(delete(quota_history).where(*mine))
        connection.execute(insert(quota_history).values(**key, quota_milli=milli))
    return bool(changed)


def quotas(connection: Connection) -> Quotas:
    """All of them, in the order of time."""
    found: dict[tuple[str, int, str], list[Quota]] = defaultdict(list)
    for row in connection.execute(select(quota_history).order_by(quota_history.c.from_at)):
        found[(row.project, row.project_number, row.pool)].append(Quota(row.from_at, row.quota_milli))
    return found
