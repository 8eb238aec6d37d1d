"""Accounting adds up: the sums of any period are those of counting second by second, however it is cut."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from fairpool.api.accounting import Interval
from fairpool.control.usage_query import parts, question
from fairpool.control.usage_sums import (
    HOUR_MS,
    GpuTime,
    MeasuredUse,
    PeriodSpans,
    Quota,
    Quotas,
    UsageSpan,
    UsageSubject,
    UsageSums,
    WorkloadHour,
    over_quota,
    pieces,
    span_usage,
)
from fairpool.model.ids import Instant
from fairpool.model.quantity import UNLIMITED

SECOND = 1000
PROJECTS = ("vision", "speech")
POOLS = ("default", "a100")


def subject(project: str = "vision", pool: str = "default", user: str = "ann") -> UsageSubject:
    return UsageSubject("local", project, 7, "research", 3, user, "Training", pool, "A100")


def span(
    created: int,
    bound: int | None,
    ended: int | None,
    of: UsageSubject | None = None,
    *,
    gpus: int = 1000,
    lost: bool = False,
) -> UsageSpan:
    return UsageSpan(
        subject=of or subject(),
        workload="w",
        workload_name="train",
        node="node-1",
        gpus_milli=gpus,
        cpu_milli=2000,
        memory_bytes=1 << 30,
        created_at=created * SECOND,
        bound_at=None if bound is None else bound * SECOND,
        ended_at=None if ended is None else ended * SECOND,
        is_lost=lost,
    )


def dealt(dice: random.Random, seconds: int) -> list[UsageSpan]:
    spans = []
    for _ in range(dice.randrange(1, 12)):
        created, bound, ended = sorted(dice.randrange(seconds) for _ in range(3))
        spans.append(
            span(
                created,
                bound if dice.random() < 0.8 else None,
                ended if dice.random() < 0.8 else None,
                subject(dice.choice(PROJECTS), dice.choice(POOLS), dice.choice(("ann", "ben"))),
                gpus=dice.choice((0, 100, 500, 1000, 8000)),
                lost=dice.random() < 0.3,
            )
        )
    return spans


def dealt_quotas(dice: random.Random, seconds: int) -> Quotas:
    found: dict[tuple[str, int, str], list[Quota]] = {}
    for project in PROJECTS:
        for pool in POOLS[: dice.randrange(3)]:
            moments = sorted(dice.sample(range(seconds), dice.randrange(3)))
            found[(project, 7, pool)] = [
                Quota(each * SECOND, dice.choice((0, 500, 1000, 2500, UNLIMITED))) for each in moments
            ]
    return found


def counted(spans: list[UsageSpan], quotas: Quotas, start: int, end: int) -> dict[UsageSubject, UsageSums]:
    """The same, second by second, in the plainest way."""
    sums: dict[UsageSubject, UsageSums] = defaultdict(UsageSums)
    for second in range(start, end):
        at = second * SECOND
        held: dict[UsageSubject, int] = defaultdict(int)
        for each in spans:
            if each.ended_at is not None and at >= each.ended_at:
                continue
            usage = sums[each.subject]
            if at >= each.created_at:
                usage.requested += each.gpus_milli * SECOND
            if each.bound_at is not None and at >= each.bound_at:
                usage.allocated += each.gpus_milli * SECOND
                usage.lost += each.gpus_milli * SECOND * each.is_lost
                usage.cpu += each.cpu_milli * SECOND
                usage.memory += each.memory_bytes * SECOND
                held[each.subject.of_project] += each.gpus_milli
        for owner, milli in held.items():
            known = [each for each in quotas.get((owner.project, 7, owner.pool), ()) if each.from_at <= at]
            quota = known[-1].milli if known else 0
            if quota != UNLIMITED:
                sums[owner].over_quota += max(0, milli - quota) * SECOND
    return {owner: usage for owner, usage in sums.items() if usage != UsageSums()}


def summed(spans: list[UsageSpan], quotas: Quotas, start: int, end: int) -> dict[UsageSubject, UsageSums]:
    return PeriodSpans(start=start, end=end, now=2**62, spans=spans).by_subject(quotas)


def known(sums: dict[UsageSubject, UsageSums]) -> dict[UsageSubject, UsageSums]:
    return {owner: usage for owner, usage in sums.items() if usage != UsageSums()}


@pytest.mark.parametrize("seed", range(60))
def test_sums_are_those_of_counting_every_second(seed: int) -> None:
    dice = random.Random(seed)
    seconds = dice.randrange(2, 120)
    spans, quotas = dealt(dice, seconds), dealt_quotas(dice, seconds)
    start, end = sorted(dice.randrange(seconds + 20) for _ in range(2))
    found = summed(spans, quotas, start * SECOND, end * SECOND)
    assert known(found) == counted(spans, quotas, start, end)


@pytest.mark.parametrize("seed", range(20))
def test_the_sums_of_parts_are_the_sum_of_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    seconds = 20_000
    spans, quotas = dealt(dice, seconds), dealt_quotas(dice, seconds)
    start, end = sorted(dice.randrange(seconds * SECOND) for _ in range(2))
    together: dict[UsageSubject, UsageSums] = {}
    for first, last in pieces(start, end):
        assert last - first <= HOUR_MS
        for owner, usage in summed(spans, quotas, first, last).items():
            together.setdefault(owner, UsageSums()).add(usage)
    assert known(together) == known(summed(spans, quotas, start, end))


def test_gpu_time_is_over_quota_only_beyond_it() -> None:
    both = [span(0, 0, 100), span(0, 50, 100)]
    quota = {("vision", 7, "default"): [Quota(0, 1000)]}
    assert over_quota(both, quota, 0, 100 * SECOND) == {subject().of_project: 1000 * 50 * SECOND}
    assert over_quota(both, {("vision", 7, "default"): [Quota(0, UNLIMITED)]}, 0, 100 * SECOND) == {}
    assert sum(over_quota(both, {}, 0, 100 * SECOND).values()) == 1000 * 150 * SECOND, "without a quota, all of it"


def test_a_quota_of_an_earlier_project_of_the_same_name_is_not_its_own() -> None:
    quota = {("vision", 6, "default"): [Quota(0, 1000)]}
    assert sum(over_quota([span(0, 0, 10)], quota, 0, 10 * SECOND).values()) == 1000 * 10 * SECOND


def test_what_was_not_measured_is_neither_used_nor_idle() -> None:
    hours = span(0, 0, 3 * 3600)
    half = {("w", 0): MeasuredUse(utilization=0.5), ("w", 2): MeasuredUse(utilization=1.0, covered=0.25)}
    usage = span_usage(hours, 0, 3 * HOUR_MS, half)
    assert usage is not None
    assert usage.allocated == 3000 * HOUR_MS
    assert usage.measured == 1250 * HOUR_MS
    assert usage.used == 750 * HOUR_MS
    assert (plain := span_usage(hours, 0, 3 * HOUR_MS)) is not None
    assert (plain.measured, plain.used) == (0, 0)


class Samples:
    """Samples of two workloads, in the groups that they are kept in."""

    def __init__(self, times: Mapping[WorkloadHour, GpuTime]) -> None:
        self.times, self.asked = times, list[tuple[str, frozenset[str]]]()

    def gpu_times(self, group: str, workloads: Collection[str], start: int, end: int) -> Mapping[WorkloadHour, GpuTime]:
        self.asked.append((group, frozenset(workloads)))
        return {
            key: each for key, each in self.times.items() if start <= key[1] * HOUR_MS < end and key[0] in workloads
        }


def test_used_time_is_divided_among_the_pods_of_a_workload_by_what_they_held() -> None:
    """Two pods: one GPU for the whole hour, two for its second half. Three quarters of that were measured."""
    spans = [span(0, 0, None), replace(span(1800, 1800, 3600, gpus=2000), node="node-2")]
    samples = Samples({("w", 0): GpuTime(measured=1500 * HOUR_MS, used=600 * HOUR_MS)})
    period = PeriodSpans(start=0, end=HOUR_MS, now=2 * HOUR_MS, spans=spans)
    by_node = {each.node: sums for each, sums in period.by_workload(samples).items()}
    assert [by_node[node].measured for node in ("node-1", "node-2")] == [750 * HOUR_MS, 750 * HOUR_MS]
    assert [by_node[node].used for node in ("node-1", "node-2")] == [300 * HOUR_MS, 300 * HOUR_MS]
    (sums,) = (each for each in period.by_subject({}, samples).values() if each.allocated)
    assert (sums.allocated, sums.measured, sums.used) == (2000 * HOUR_MS, 1500 * HOUR_MS, 600 * HOUR_MS)


def test_a_part_of_an_hour_has_the_utilization_of_the_hour_and_the_present_one_ends_now() -> None:
    half = HOUR_MS // 2
    samples = Samples({("w", 0): GpuTime(measured=1000 * half, used=250 * half)})
    for end, expected in ((half, 1000 * half), (half // 2, 500 * half)):
        period = PeriodSpans(start=0, end=end, now=half, spans=[span(0, 0, None)])
        (sums,) = period.by_workload(samples).values()
        assert (sums.measured, sums.used) == (expected, expected // 4)


def test_more_samples_than_time_count_as_all_of_it_and_only_gpus_are_asked_for() -> None:
    samples = Samples({("w", 0): GpuTime(measured=2000 * HOUR_MS, used=2000 * HOUR_MS)})
    without = replace(span(0, 0, 3600, gpus=0), workload="cpu-only")
    period = PeriodSpans(start=0, end=HOUR_MS, now=HOUR_MS, spans=[span(0, 0, 3600), without])
    sums = {each.workload: found for each, found in period.by_workload(samples).items()}
    assert (sums["w"].measured, sums["w"].used) == (1000 * HOUR_MS, 1000 * HOUR_MS)
    assert [workloads for _, workloads in samples.asked] == [frozenset({"w"})]


@pytest.mark.parametrize("interval", list(Interval))
def test_a_period_up_to_the_last_of_all_dates_has_parts(interval: Interval) -> None:
    asked = question(Instant(0), start="9999-12-30T00:00:00Z", end="9999-12-31T23:59:59Z", interval=interval)
    assert [last for _, last in parts(asked)][-1] == asked.end
