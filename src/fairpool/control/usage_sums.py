"""Sums of what pods asked for and held, over any period. Pure.

Time is in milliseconds, so GPUs and cores are summed in thousandths x milliseconds and memory in bytes x milliseconds:
integers, exact, and the sums of two periods that meet are the sum of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Protocol

from fairpool.metrics.catalogue import workload_group
from fairpool.model.ids import Instant
from fairpool.model.quantity import UNLIMITED

HOUR_MS: Final = 3_600_000


class UsageSubject(NamedTuple):
    """Whose usage it is. The numbers tell projects and departments from earlier ones of the same names."""

    cluster: str
    project: str
    project_number: int
    department: str
    department_number: int
    submitted_by: str
    kind: str
    pool: str
    gpu_type: str

    @property
    def of_project(self) -> UsageSubject:
        """The project in this pool, for all users, types and GPUs together: what quotas are compared with."""
        return self._replace(submitted_by="", kind="", gpu_type="")


class Consumer(NamedTuple):
    """Whose usage a figure is; node and workload only where they were asked for."""

    subject: UsageSubject
    node: str = ""
    workload: str = ""
    workload_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSpan:
    """What one pod asked for and held for one project."""

    subject: UsageSubject
    workload: str
    workload_name: str
    node: str
    gpus_milli: int
    cpu_milli: int
    memory_bytes: int
    created_at: int
    bound_at: int | None
    ended_at: int | None
    """None: it has not ended."""
    is_lost: bool = False

    def asked_ms(self, start: int, end: int) -> int:
        """For how long of a period it waited or ran."""
        return _overlap(self.created_at, self.ended_at, start, end)

    def held_ms(self, start: int, end: int) -> int:
        """For how long of a period it held something."""
        return 0 if self.bound_at is None else _overlap(self.bound_at, self.ended_at, start, end)


def _overlap(begin: int, ended: int | None, start: int, end: int) -> int:
    last = end if ended is None else min(ended, end)
    return max(0, last - max(begin, start))


@dataclass(slots=True)
class UsageSums:
    """Sums over a period. GPU time in thousandths x milliseconds."""

    requested: int = 0
    """Of pods that waited or ran."""
    allocated: int = 0
    """Of pods that were bound and had not ended."""
    lost: int = 0
    """The part of `allocated` of pods that were taken back, moved or lost with their node."""
    used: int = 0
    """The part of `measured` in which the GPUs computed."""
    measured: int = 0
    """The part of `allocated` for which there are samples."""
    over_quota: int = 0
    cpu: int = 0
    memory: int = 0
    """In bytes x milliseconds."""

    def add(self, other: UsageSums) -> None:
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_AMOUNTS: Final = tuple(each.name for each in fields(UsageSums))


@dataclass(frozen=True, slots=True)
class MeasuredUse:
    """What was measured of the GPUs of one workload within one hour."""

    utilization: float
    """Mean of the GPUs it held, over the time that was measured, between 0 and 1."""
    covered: float = 1.0
    """Which part of the time in which it held GPUs was measured, between 0 and 1."""


WorkloadHour = tuple[str, int]
"""A workload, and an hour since the epoch."""
MeasuredUses = Mapping[WorkloadHour, MeasuredUse]
NO_USES: Final[MeasuredUses] = {}


class GpuTime(NamedTuple):
    """GPU time of one workload within one hour, as its samples say: thousandths x milliseconds."""

    measured: int
    used: int


class GpuUses(Protocol):
    """Where measured utilization comes from. What was not measured is neither used nor idle."""

    def gpu_times(
        self, group: str, workloads: Collection[str], start: Instant, end: Instant
    ) -> Mapping[WorkloadHour, GpuTime]:
        """Of some workloads whose samples are in one group, in all hours of a period. Raises `Unavailable`."""


def pieces(start: int, end: int, length: int = HOUR_MS) -> Iterator[tuple[int, int]]:
    """A period, cut at whole hours."""
    while start < end:
        following = min(end, (start // length + 1) * length)
        yield start, following
        start = following


def span_usage(span: UsageSpan, start: int, end: int, uses: MeasuredUses = NO_USES) -> UsageSums | None:
    """What one pod counts for in a period; None: nothing."""
    asked_ms = span.asked_ms(start, end)
    held_ms = span.held_ms(start, end)
    if not asked_ms and not held_ms:
        return None
    allocated = span.gpus_milli * held_ms
    usage = UsageSums(
        requested=span.gpus_milli * max(asked_ms, held_ms),
        allocated=allocated,
        lost=allocated if span.is_lost else 0,
        cpu=span.cpu_milli * held_ms,
        memory=span.memory_bytes * held_ms,
    )
    if uses and allocated:
        for first, last in pieces(max(start, span.bound_at or start), min(end, span.ended_at or end)):
            use = uses.get((span.workload, first // HOUR_MS))
            if use is not None:
                measured = round(span.gpus_milli * (last - first) * use.covered)
                usage.measured += measured
                usage.used += round(measured * use.utilization)
    return usage


# --- over quota ----------------------------------------------------------------------------------------------


class Quota(NamedTuple):
    """The GPU quota of a project in a pool, from a moment on."""

    from_at: int
    milli: int


Quotas = Mapping[tuple[str, int, str], Sequence[Quota]]
"""By project, its number and pool, in the order of time. Before the first there is none, which is a quota of 0."""


def over_quota(spans: Iterable[UsageSpan], quotas: Quotas, start: int, end: int) -> dict[UsageSubject, int]:
    """GPU time that projects held beyond their quota in each pool: the integral of held - quota, where it is positive.

    The scheduler does not mark single pods as over quota, so it is a figure of the project.
    """
    steps: dict[UsageSubject, list[tuple[int, int]]] = defaultdict(list)
    for span in spans:
        if span.bound_at is None or not span.gpus_milli or not span.held_ms(start, end):
            continue
        owner = span.subject.of_project
        steps[owner].append((max(span.bound_at, start), span.gpus_milli))
        steps[owner].append((end if span.ended_at is None else min(span.ended_at, end), -span.gpus_milli))
    found = {}
    for owner, changes in steps.items():
        quota = quotas.get((owner.project, owner.project_number, owner.pool), ())
        beyond = _beyond(sorted(changes), quota, start, end)
        if beyond:
            found[owner] = beyond
    return found


def _beyond(held: Sequence[tuple[int, int]], quotas: Sequence[Quota], start: int, end: int) -> int:
    """The integral of max(0, held - quota). `held` are changes of what is held, in the order of time."""
    owed = next((each.milli for each in reversed(quotas) if each.from_at <= start), 0)
    changes: list[tuple[int, int, int | None]] = [(at, amount, None) for at, amount in held]
    changes += [(each.from_at, 0, each.milli) for each in quotas if start < each.from_at < end]
    total = now_held = 0
    last = start
    for at, amount, quota in sorted(changes, key=lambda each: each[0]):
        if owed != UNLIMITED:
            total += max(0, now_held - owed) * (at - last)
        last = at
        now_held += amount
        owed = owed if quota is None else quota
    return total


# --- used and idle -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodSpans:
    """Everything that was asked for or held within the hours of a period, and what is needed to sum it."""

    start: int
    end: int
    now: int
    """Up to when pods that have not ended are counted."""
    spans: Sequence[UsageSpan]

    def usages(self, source: GpuUses | None) -> Iterator[tuple[UsageSpan, UsageSums]]:
        """What each pod counts for. Samples are read group by group, because there may be many."""
        if source is None:
            yield from self._usages(self.spans, NO_USES)
            return
        groups: dict[str, list[UsageSpan]] = defaultdict(list)
        for span in self.spans:
            groups[workload_group(span.subject.cluster, span.workload)].append(span)
        for group, spans in groups.items():
            held = {each.workload for each in spans if each.gpus_milli and each.bound_at is not None}
            first, last = whole_hours(self.start, self.end)
            times = source.gpu_times(group, held, Instant(first), Instant(last)) if held else {}
            yield from self._usages(spans, measured_uses(spans, times, self.now))

    def _usages(self, spans: Sequence[UsageSpan], uses: MeasuredUses) -> Iterator[tuple[UsageSpan, UsageSums]]:
        for span in spans:
            usage = span_usage(span, self.start, self.end, uses)
            if usage is not None:
                yield span, usage

    def by_subject(self, quotas: Quotas, source: GpuUses | None = None) -> dict[UsageSubject, UsageSums]:
        """Everything that is summed, by subject."""
        sums: dict[UsageSubject, UsageSums] = {}
        for span, usage in self.usages(source):
            sums.setdefault(span.subject, UsageSums()).add(usage)
        for subject, beyond in over_quota(self.spans, quotas, self.start, self.end).items():
            sums.setdefault(subject, UsageSums()).over_quota += beyond
        return sums

    def by_workload(self, source: GpuUses | None = None) -> dict[Consumer, UsageSums]:
        """The same by workload and node. What is over quota is not attributed to them."""
        sums: dict[Consumer, UsageSums] = {}
        for span, usage in self.usages(source):
            key = Consumer(span.subject, span.node, span.workload, span.workload_name)
            sums.setdefault(key, UsageSums()).add(usage)
        return sums


def whole_hours(start: int, end: int) -> tuple[int, int]:
    """The hours of which a period has at least a part."""
    return start // HOUR_MS * HOUR_MS, -(-end // HOUR_MS) * HOUR_MS


def measured_uses(
    spans: Iterable[UsageSpan], times: Mapping[WorkloadHour, GpuTime], now: int
) -> dict[WorkloadHour, MeasuredUse]:
    """Which part of what workloads held in each hour was measured, and used. `spans`: all of these hours."""
    held: dict[WorkloadHour, int] = defaultdict(int)
    hours = {hour for _, hour in times}
    if not hours:
        return {}
    first, last = min(hours) * HOUR_MS, (max(hours) + 1) * HOUR_MS
    for span in spans:
        if span.bound_at is None or not span.gpus_milli:
            continue
        until = now if span.ended_at is None else min(span.ended_at, now)
        for begin, end in pieces(max(first, span.bound_at), min(last, until)):
            held[span.workload, begin // HOUR_MS] += span.gpus_milli * (end - begin)
    return {
        key: MeasuredUse(min(1.0, time.used / time.measured), min(1.0, time.measured / held[key]))
        for key, time in times.items()
        if time.measured > 0 and held.get(key)
    }
