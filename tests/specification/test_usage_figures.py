"""Usage as figures: grouped, in hours, with its cost."""

from __future__ import annotations

from decimal import Decimal

from fairpool.api.accounting import PricedResource
from fairpool.control.usage_figures import FigureTable, HourPrice, Prices
from fairpool.control.usage_sums import HOUR_MS, Consumer, UsageSubject, UsageSums

SUBJECT = UsageSubject("local", "vision", 7, "research", 3, "ann", "Training", "default", "A100")
PRICES = Prices([HourPrice(PricedResource.GPU, "", 0, 2_500_000)])


def test_the_costs_of_many_small_jobs_add_up() -> None:
    jobs = {
        Consumer(SUBJECT, workload=f"w{number}", workload_name="job"): UsageSums(allocated=1000 * 1000)
        for number in range(1000)
    }
    table = FigureTable(["workload"], PRICES, has_over_quota=False)
    table.add("", 0, jobs)
    costs = [row.cost for row in table.answer_rows()]
    assert set(costs) == {"0.000694"}, "a second of a GPU is less than a cent"
    assert table.answer_total().cost == "0.694444"
    assert sum(Decimal(cost or 0) for cost in costs) == Decimal("0.694000")


def test_costs_have_the_decimals_they_need() -> None:
    table = FigureTable(["project"], PRICES, has_over_quota=False)
    table.add("", 0, {Consumer(SUBJECT): UsageSums(allocated=1000 * HOUR_MS)})
    assert [row.cost for row in table.answer_rows()] == ["2.50"]
