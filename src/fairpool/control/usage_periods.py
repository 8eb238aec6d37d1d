"""Usage over any period: from the sums of whole hours, and at its edges from the pods themselves.

Hours are summed (`next_hour`) some time after they are over. A change of what was summed sets back how far hours count
as summed (`store.usage.unsettle`), and they are summed again. Spans older than the retention are deleted once they are
summed; from then on, periods of that time begin and end with whole hours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from fairpool.control.store import usage
from fairpool.control.store.database import Connection
from fairpool.control.usage_sums import (
    HOUR_MS,
    Consumer,
    GpuUses,
    PeriodSpans,
    Quotas,
    UsageSubject,
    UsageSums,
    whole_hours,
)
from fairpool.model.ids import Instant

NO_VALUES: Final[Mapping[str, str]] = {}
NO_QUOTAS: Final[Quotas] = {}
LAG_MS: Final = 2 * HOUR_MS
"""Hours are summed so long after they are over: samples and reports of clusters come late."""
Summing = Callable[[GpuUses | None], dict[Consumer, UsageSums]]
"""What is left to do when everything is read: it takes time, and reads samples."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period as it is counted."""

    start: int
    end: int
    now: Instant
    """What has not ended is counted up to here."""


def counted_period(connection: Connection, start: int, end: int, now: Instant) -> Period:
    """Up to now. An edge at a time of which only whole hours are kept is moved back to a whole hour."""
    kept = usage.progress(connection).spans_from
    first, last = (each if each >= kept else each // HOUR_MS * HOUR_MS for each in (start, min(end, now)))
    return Period(first, max(first, last), now)


def sums_by_subject(connection: Connection, period: Period) -> Summing:
    """The sums of a period."""
    start, end = period.start, period.end
    first = -(-start // HOUR_MS) * HOUR_MS
    last = min(end // HOUR_MS * HOUR_MS, usage.progress(connection).summed_until)
    edges, hours = [(start, end)], dict[UsageSubject, UsageSums]()
    if first < last:
        hours = usage.hour_sums(connection, first, last)
        edges = [each for each in ((start, first), (last, end)) if each[0] < each[1]]
    spans = [_spans(connection, Period(*edge, period.now)) for edge in edges]
    quotas = usage.quotas(connection) if spans else {}

    def sums(source: GpuUses | None) -> dict[Consumer, UsageSums]:
        found = {Consumer(each): replace(stored) for each, stored in hours.items()}
        for edge in spans:
            for subject, usage_sums in edge.by_subject(quotas, source).items():
                found.setdefault(Consumer(subject), UsageSums()).add(usage_sums)
        return found

    return sums


def sums_by_workload(connection: Connection, period: Period, values: Mapping[str, str] = NO_VALUES) -> Summing:
    """The same by workload and node, of rows with these values."""
    return _spans(connection, period, values).by_workload


def _spans(connection: Connection, period: Period, values: Mapping[str, str] = NO_VALUES) -> PeriodSpans:
    """Of whole hours: samples are compared with what was held in each hour."""
    spans = usage.between(connection, *whole_hours(period.start, period.end), values)
    return PeriodSpans(start=period.start, end=period.end, now=period.now, spans=spans)


class SummedHour(NamedTuple):
    """The sums of the next hour, and how far hours were summed when they were computed."""

    before: usage.SumProgress
    start: int
    """Of the hour. If it is not the next one, there is nothing to store but that the one after it is next."""
    sums: Mapping[UsageSubject, UsageSums]


class UnsummedHour(NamedTuple):
    """What the next hour is summed from."""

    before: usage.SumProgress
    start: int
    spans: PeriodSpans | None = None
    quotas: Quotas = NO_QUOTAS

    def summed(self, source: GpuUses | None) -> SummedHour:
        sums = {} if self.spans is None else self.spans.by_subject(self.quotas, source)
        return SummedHour(self.before, self.start, sums)


def next_hour(connection: Connection, now: Instant) -> UnsummedHour | None:
    """The next hour that is over; None: there is none yet."""
    until = (now - LAG_MS) // HOUR_MS * HOUR_MS
    state = usage.progress(connection)
    if not state.summed_until:
        first = usage.first_span(connection)
        start = min(until, first // HOUR_MS * HOUR_MS) if first is not None else 0
        return UnsummedHour(state, start - HOUR_MS) if start else None
    if state.summed_until > now:  # the clock was set back: what was summed as past is yet to come
        # Of hours whose pods are deleted there is nothing but their sums.
        start = max(until, min(state.spans_from, now // HOUR_MS * HOUR_MS))
        return UnsummedHour(state, start - HOUR_MS) if start < state.summed_until else None
    start = state.summed_until
    if start >= until:
        return None
    spans = _spans(connection, Period(start, start + HOUR_MS, now))
    return UnsummedHour(state, start, spans, usage.quotas(connection))


def set_summed(connection: Connection, hour: SummedHour) -> None:
    """Store the sums of an hour, unless something changed since they were computed: then they are computed again."""
    if usage.progress(connection) != hour.before:
        return
    if hour.start == hour.before.summed_until:
        usage.set_hour(connection, hour.start // HOUR_MS, hour.sums)
    end = hour.start // HOUR_MS + 1
    if end % usage.DAY_HOURS == 0:
        usage.set_day(connection, end // usage.DAY_HOURS - 1)
    kept = min(hour.before.spans_from, end * HOUR_MS)  # no pod of a time that is yet to come is too old
    usage.set_progress(connection, hour.before._replace(summed_until=end * HOUR_MS, spans_from=kept))


def delete_old_spans(connection: Connection, before: int, most: int) -> int:
    """Delete spans that ended before this and are summed; says how many."""
    state = usage.progress(connection)
    before = min(before // HOUR_MS * HOUR_MS, state.summed_until)
    if before <= state.spans_from:
        before = state.spans_from
    else:
        usage.set_progress(connection, state._replace(spans_from=before))
    return usage.drop_before(connection, before, most) if before else 0
