"""Usage as a page: names that people chose are text on it, and what was not measured is shown as such."""

from __future__ import annotations

from fairpool.api.accounting import Interval, PricedResource
from fairpool.control.usage_figures import FigureTable, HourPrice, Prices
from fairpool.control.usage_page import ROWS_MAX, usage_page
from fairpool.control.usage_periods import Period
from fairpool.control.usage_query import UsageFigures, UsageQuestion
from fairpool.control.usage_sums import HOUR_MS, Consumer, UsageSubject, UsageSums
from fairpool.model.ids import Instant

HOSTILE = '"><script>alert(1)</script>'
PRICES = Prices([HourPrice(PricedResource.GPU, "", 0, 2_500_000)])


def page(sums: dict[Consumer, UsageSums], *groups: str, interval: Interval | None = None) -> str:
    table = FigureTable(groups, PRICES, has_over_quota=True)
    table.add("2026-11-15T12:00:00.000Z" if interval else "", 0, sums)
    now = Instant(1_800_000_000_000)
    found = UsageFigures(period=Period(now - 24 * HOUR_MS, now, now), at=now, table=table)
    asked = UsageQuestion(start=0, end=now, groups=groups, interval=interval)
    return bytes(usage_page(found, asked).body).decode()


def consumer(project: str) -> Consumer:
    return Consumer(UsageSubject("local", project, 1, "research", 1, HOSTILE, "Training", "default", "A100"))


def test_names_are_text_and_amounts_have_their_share() -> None:
    usage = UsageSums(allocated=8000 * HOUR_MS, measured=4000 * HOUR_MS, used=1000 * HOUR_MS)
    text = page({consumer(HOSTILE): usage}, "project", "user", interval=Interval.DAY)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 2
    assert '<td class="name">2026-11-15</td>' in text
    assert "12 % used, 38 % idle, 50 % not measured" in text
    assert "1.00 (25 %)" in text, "of what was measured"
    assert "20.00" in text
    assert "http" not in text, "nothing is loaded from elsewhere"


def test_a_long_page_says_what_it_leaves_out() -> None:
    sums = {consumer(f"p{number}"): UsageSums(allocated=HOUR_MS * 1000) for number in range(ROWS_MAX + 3)}
    text = page(sums, "project")
    assert "3 more rows" in text
    assert text.count("<tr>") == ROWS_MAX + 2
    assert '<td colspan="1">Total</td>' in text
    assert "2,003.00" in text
