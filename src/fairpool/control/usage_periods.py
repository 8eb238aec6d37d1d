"""Usage over any period: from the sums of whole hours, and at its edges from the pods themselves.

Hours are summed (`next_hour`) some time after they are over. A change of what was summed sets back how far hours count
as summed (`store.usage.unsettle`), and they are summed again. Spans older than the retention are deleted once they are
summed; from then on, periods of that time begin and end with whole hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from fairpool.control.store import usage
from fairpool.control.store.database import Connection
from fairpool.control.usage_sums import (
    HOUR_MS,
    NO_USES,
    Consumer,
    GpuUses,
    MeasuredUse,
    UsageSubject,
    UsageSums,
    span_usage,
    subject_sums,
)
from fairpool.model.ids import Instant

NO_VALUES: Final[Mapping[str, str]] = {}
LAG_MS: Final = 2 * HOUR_MS
"""Hours are summed so long after they are over: samples and reports of clusters come late."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period as it is counted."""

    start: int
    end: int


def counted_period(connection: Connection, start: int, end: int, now: Instant) -> Period:
    """Up to now. An edge at a time of which only whole hours are kept is moved back to a whole hour."""
    kept = usage.progress(connection).spans_from
    first, last = (each if each >= kept else each // HOUR_MS * HOUR_MS for each in (start, min(end, now)))
    return Period(first, max(first, last))


def sums_by_subject(connection: Connection, period: Period, source: GpuUses | None) -> dict[Consumer, UsageSums]:
    """The sums of a period."""
    start, end = period.start, period.end
    first = -(-start // HOUR_MS) * HOUR_MS
    last = min(end // HOUR_MS * HOUR_MS, usage.progress(connection).summed_until)
    if first >= last:
        return {Consumer(each): sums for each, sums in _from_spans(connection, start, end, source).items()}
    found: dict[UsageSubject, UsageSums] = usage.hour_sums(connection, first, last)
    for edge in ((start, first), (last, end)):
        if edge[0] < edge[1]:
            for subject, sums in _from_spans(connection, *edge, source).items():
                found.setdefault(subject, UsageSums()).add(sums)
    return {Consumer(each): sums for each, sums in found.items()}


def sums_by_workload(
    connection: Connection, period: Period, source: GpuUses | None, values: Mapping[str, str] = NO_VALUES
) -> dict[Consumer, UsageSums]:
    """The same by workload and node, of rows with these values. What is over quota is not attributed to them."""
    uses = _uses(source, period.start, period.end)
    found: dict[Consumer, UsageSums] = {}
    for span in usage.between(connection, period.start, period.end, values):
        sums = span_usage(span, period.start, period.end, uses)
        if sums is not None:
            key = Consumer(span.subject, span.node, span.workload, span.workload_name)
            found.setdefault(key, UsageSums()).add(sums)
    return found


def _from_spans(connection: Connection, start: int, end: int, source: GpuUses | None) -> dict[UsageSubject, UsageSums]:
    spans = usage.between(connection, start, end)
    return subject_sums(spans, usage.quotas(connection), start, end, _uses(source, start, end))


def _uses(source: GpuUses | None, start: int, end: int) -> Mapping[tuple[str, int], MeasuredUse]:
    if source is None:
        return NO_USES
    return source.gpu_uses(Instant(start // HOUR_MS * HOUR_MS), Instant(end))


class SummedHour(NamedTuple):
    """The sums of the next hour, and how far hours were summed when they were computed."""

    before: usage.SumProgress
    start: int
    """Of the hour. If it is not the next one, there is nothing to store but that the one after it is next."""
    sums: Mapping[UsageSubject, UsageSums]


def next_hour(connection: Connection, now: Instant, source: GpuUses | None) -> SummedHour | None:
    """The next hour that is over, summed; None: there is none yet."""
    until = (now - LAG_MS) // HOUR_MS * HOUR_MS
    state = usage.progress(connection)
    if not state.summed_until:
        first = usage.first_span(connection)
        start = min(until, first // HOUR_MS * HOUR_MS) if first is not None else 0
        return SummedHour(state, start - HOUR_MS, {}) if start else None
    if state.summed_until > now:  # the clock was set back: what was summed as past is yet to come
        # Of hours whose pods are deleted there is nothing but their sums.
        start = max(until, min(state.spans_from, now // HOUR_MS * HOUR_MS))
        return SummedHour(state, start - HOUR_MS, {}) if start < state.summed_until else None
    start = state.summed_until
    if start >= until:
        return None
    return SummedHour(state, start, _from_spans(connection, start, start + HOUR_MS, source))


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
