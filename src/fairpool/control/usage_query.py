"""A question about usage: which period, grouped by what, of whom; and who may see what of the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice, pairwise
from typing import Final, NamedTuple

from fairpool.api import accounting as wire
from fairpool.control import filters
from fairpool.control.moments import iso, moment_or_ago
from fairpool.control.paging import parsed
from fairpool.control.plane import Caller, Places, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, not_a_date, refused
from fairpool.control.store import organization, prices, usage
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.usage_figures import GROUP_VALUES, NOT_OF_QUOTAS, OF_PODS, FigureTable, HourPrice, Prices
from fairpool.control.usage_periods import Period, Summing, counted_period, sums_by_subject, sums_by_workload
from fairpool.control.usage_sums import HOUR_MS, Consumer, GpuUses
from fairpool.model.ids import Instant

log = logging.getLogger("fairpool.control")

PARTS_MAX: Final = 1000
"""Parts of a period in one answer."""
PARTS_OF_PODS_MAX: Final = 100
"""The same by workload or node: all pods of each part are read, which takes a second in large clusters."""
NO_MONTH_FROM: Final = 253_402_300_800_000
"""The end of the year 9999, the last that a date can have."""
NEVER: Final = 2**62
SPELLINGS: Final = {
    "projectName": "project",
    "departmentName": "department",
    "nodepoolName": "nodePool",
    "nodePoolName": "nodePool",
    "clusterId": "cluster",
    "clusterUuid": "cluster",
}
"""Names of fields in the original's filters."""
FILTERS: Final = dict.fromkeys((*GROUP_VALUES, *SPELLINGS), filters.Sort.TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """A question that makes sense."""

    start: int
    end: int
    groups: tuple[str, ...] = ()
    interval: wire.Interval | None = None
    conditions: tuple[filters.Filter, ...] = ()

    @property
    def dimensions(self) -> set[str]:
        """What it is grouped and filtered by."""
        return {*self.groups, *(SPELLINGS.get(each.field, each.field) for each in self.conditions)}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFigures:
    """The answer: the period as it was counted, and the figures."""

    period: Period
    at: Instant
    table: FigureTable


def question(
    now: Instant,
    *,
    start: str | None,
    end: str | None,
    groups: Sequence[str] = (),
    interval: wire.Interval | None = None,
    filter_by: str = "",
) -> UsageQuestion:
    """What was asked for; refuses with what is wrong. Without a period it is the present month."""
    moments = {
        name: (text, moment_or_ago(text, now)) for name, text in (("start", start), ("end", end)) if text is not None
    }
    problems = [not_a_date(text, name) for name, (text, moment) in moments.items() if moment is None]
    if problems:
        raise Refused(400, problems)
    first, last = (moments[name][1] if name in moments else None for name in ("start", "end"))
    until = now if last is None else last
    since = month_start(until - (last is not None)) if first is None else first
    if since > until:
        raise refused(400, "usage.period", "the period ends before it starts", "use an end after the start", "end")
    unknown = [each for each in groups if each not in GROUP_VALUES]
    if unknown:
        fix = f"use one or more of {', '.join(GROUP_VALUES)}"
        raise refused(400, "usage.group", f"usage cannot be grouped by {unknown[0][:64]!r}", fix, "groupBy")
    asked = UsageQuestion(
        start=since,
        end=until,
        groups=tuple(dict.fromkeys(groups)),
        interval=interval,
        conditions=tuple(parsed(filter_by, "project", FILTERS, {})),
    )
    most = PARTS_OF_PODS_MAX if asked.dimensions & OF_PODS else PARTS_MAX
    if interval is not None and sum(1 for _ in islice(parts(asked), most + 1)) > most:
        what = f"the period has more than {most} parts of one {interval}"
        raise refused(400, "usage.parts", what, "ask for a shorter period, or a longer interval", "interval")
    return asked


def parts(asked: UsageQuestion) -> Iterator[tuple[int, int]]:
    """The period, cut into hours, days or months in UTC."""
    start = asked.start
    while start < asked.end:
        following = min(asked.end, _following(start, asked.interval))
        yield start, following
        start = following


def _following(at: int, interval: wire.Interval | None) -> int:
    match interval:
        case wire.Interval.HOUR:
            return (at // HOUR_MS + 1) * HOUR_MS
        case wire.Interval.DAY:
            return (at // (24 * HOUR_MS) + 1) * 24 * HOUR_MS
        case wire.Interval.MONTH:
            following = month_start(at) + 32 * 24 * HOUR_MS
            return month_start(following) if following < NO_MONTH_FROM else NEVER
    return NEVER


def month_start(at: int) -> int:
    """The beginning of the month, in UTC."""
    moment = datetime.fromtimestamp(max(0, at) / 1000, UTC)
    return int(moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1000


class UnsummedPart(NamedTuple):
    """A part of a period with the same prices: what is left to do when it is read."""

    name: str
    """Its beginning, if parts were asked for."""
    start: int
    sums: Summing


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsummedUsage:
    """Everything that the answer needs from the database, read at one moment."""

    asked: UsageQuestion
    period: Period
    parts: Sequence[UnsummedPart]
    prices: Prices
    shown: Callable[[Consumer], bool]
    has_over_quota: bool

    def figures(self, source: GpuUses | None) -> UsageFigures:
        """The answer. Raises `Unavailable`."""
        table = FigureTable(self.asked.groups, self.prices, has_over_quota=self.has_over_quota)
        for part in self.parts:
            found = part.sums(source)
            table.add(part.name, part.start, {each: usage for each, usage in found.items() if self.shown(each)})
        return UsageFigures(period=self.period, at=self.period.now, table=table)


async def figures(plane: Plane, asked: UsageQuestion, places: Places | None) -> UsageFigures:
    """The answer, of what is in these places; None: of everything. What was used is read from samples and summed in a
    thread, without a transaction: of a month of single workloads, that takes seconds."""
    now = plane.now()
    unsummed = await plane.read_apart(lambda connection: _unsummed(connection, asked, places, now))
    try:
        return await asyncio.to_thread(unsummed.figures, plane.gpu_uses)
    except Unavailable as error:
        log.warning("usage is summed without samples", extra={"fields": {"reason": error.described.what}})
        return await asyncio.to_thread(unsummed.figures, None)


def _unsummed(connection: Connection, asked: UsageQuestion, places: Places | None, now: Instant) -> UnsummedUsage:
    dimensions = asked.dimensions
    needs_pods = bool(dimensions & OF_PODS)
    period = counted_period(connection, asked.start, asked.end, now)
    if needs_pods and period.start < (kept := usage.progress(connection).spans_from):
        what = f"usage of single workloads and nodes is kept since {iso(kept)}"
        raise refused(400, "usage.too_old", what, "ask for a later period, or group by project or user", "start")
    known = Prices(HourPrice(*row) for row in prices.of_hours(connection))
    sums = partial(sums_by_workload, values=_exact_values(asked)) if needs_pods else sums_by_subject
    unsummed = []
    counted = UsageQuestion(start=period.start, end=period.end, interval=asked.interval)
    for first, last in parts(counted):
        name = iso(first) if asked.interval is not None else ""
        cuts = sorted({first, last, *known.cuts(first, last)})
        for begin, end in pairwise(cuts):
            unsummed.append(UnsummedPart(name, begin, sums(connection, Period(begin, end, now))))
    return UnsummedUsage(
        asked=asked,
        period=period,
        parts=unsummed,
        prices=known,
        shown=_shown(connection, asked, places),
        has_over_quota=not dimensions & NOT_OF_QUOTAS,
    )


COLUMNS: Final = {"project": "project", "department": "department", "user": "submitted_by", "workload": "workload_name"}


def _exact_values(asked: UsageQuestion) -> dict[str, str]:
    """Columns that must have a value: there are many pods, and the database finds those that are meant."""
    return {
        COLUMNS[name]: str(each.value)
        for each in asked.conditions
        if each.operator is filters.Operator.EQUALS and (name := SPELLINGS.get(each.field, each.field)) in COLUMNS
    }


def _shown(connection: Connection, asked: UsageQuestion, places: Places | None) -> Callable[[Consumer], bool]:
    """Whether a figure is part of the answer: the caller may see it, and the conditions hold."""
    is_visible = _visible(connection, places)

    def shown(each: Consumer) -> bool:
        return is_visible(each) and all(
            filters.holds(condition, GROUP_VALUES[SPELLINGS.get(condition.field, condition.field)](each))
            for condition in asked.conditions
        )

    return shown


def _visible(connection: Connection, places: Places | None) -> Callable[[Consumer], bool]:
    """A role in a project or department shows nothing of an earlier one of the same name."""
    if places is None:
        return lambda each: True
    projects = {(row.name, row.number) for row in organization.all_projects(connection, names=places.projects)}
    departments = {
        (row.name, row.number) for row in organization.all_departments(connection) if row.name in places.departments
    }
    clusters = frozenset(places.clusters)

    def visible(each: Consumer) -> bool:
        of = each.subject
        return (
            (of.project, of.project_number) in projects
            or (of.department, of.department_number) in departments
            or of.cluster in clusters
        )

    return visible


def places_of(caller: Caller) -> Places | None:
    """Where the caller may see usage; None: everywhere."""
    return caller.places(Action.PROJECT_READ)
