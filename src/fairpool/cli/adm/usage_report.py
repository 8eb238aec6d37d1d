"""`runai-adm report`: GPU, CPU and memory hours of a period and what they cost, as a table, CSV or a web page."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import UNUSABLE, fail
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.accounting import UsageAmounts, UsageAnswer

HEADINGS = {
    "cluster": "CLUSTER",
    "department": "DEPARTMENT",
    "project": "PROJECT",
    "user": "USER",
    "type": "TYPE",
    "nodePool": "NODE POOL",
    "gpuType": "GPU TYPE",
    "node": "NODE",
    "workload": "WORKLOAD",
}
WORDS = {"node-pool": "nodePool", "pool": "nodePool", "gpu-type": "gpuType", "job": "workload"}
"""Groups as they may also be written."""
MONTH = re.compile(r"(\d{4})-(\d{2})")


@command("report", "runai-adm report --month last --by department,project --csv > invoice.csv", with_project=False)
@flag("--month", metavar="MONTH", help="A month in UTC: 2026-11, this or last (default: this).")
@flag("--from", "start", metavar="TIME", help="Start: a time (ISO 8601), or how long ago, such as 7d.")
@flag("--to", "end", metavar="TIME", help="End, not included, in the same form (default: now).")
@flag(
    "--by",
    "groups",
    default="project",
    show_default=True,
    metavar="FIELDS",
    help=f"A row for each of these, comma-separated: {', '.join(HEADINGS)}.",
)
@flag("--interval", type=click.Choice(["hour", "day", "month"]), help="A row also for each of these, in UTC.")
@flag("--filter", "filter_by", metavar="CONDITIONS", help="E.g. project==team-a,type!=Inference.")
@flag("--csv", "form", flag_value="csv", help="Print CSV with all columns.")
@flag("--html", "form", flag_value="html", help="Print a web page, to be kept, sent or printed.")
@output_flag
@click.pass_obj
def report(
    options: GlobalOptions,
    month: str | None,
    start: str | None,
    end: str | None,
    groups: str,
    interval: str | None,
    filter_by: str | None,
    form: str | None,
    output: str | None,
) -> None:
    """Show how many GPU, CPU and memory hours were used in a period, by whom, and what they cost.

    REQUESTED counts pods that waited or ran, ALLOCATED those that held GPUs. USED and IDLE are what was measured of
    that. OVER QUOTA is what projects held beyond their quotas. LOST is what pods held that were preempted, moved or
    lost with their node. Costs need prices: see `runai-adm price --help`.
    """
    if month is not None and (start is not None or end is not None):
        _fail("--month cannot be combined with --from or --to", "use one or the other")
    if form is not None and output is not None:
        _fail(f"--{form} cannot be combined with -o", "use one or the other")
    said = {"start": start, "end": end, "interval": interval, "filterBy": filter_by}
    if month is not None:
        said["start"], said["end"] = month_span(month, ages.now().strftime("%Y-%m"))
    named = [WORDS.get(each.strip(), each.strip()) for each in groups.split(",")]
    query = {name: value for name, value in {**said, "groupBy": ",".join(named)}.items() if value is not None}
    with Session(options).connected() as client:
        if form is not None:
            with client.usage_file(form, **query) as pieces:
                for piece in pieces:
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            return
        found = client.usage(**query)
    _show(found, [each for each in named if each in HEADINGS], interval, output)


def month_span(month: str, present: str) -> tuple[str, str]:
    """The first moments of a month and of the next one. `present` is the present month."""
    text = present if month == "this" else _shifted(present, -1) if month == "last" else month
    found = MONTH.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= 12 or int(found[1]) < 1970:
        _fail(f"--month {month!r} is not a month", "use e.g. 2026-11, this or last")
    return f"{text}-01T00:00:00Z", f"{_shifted(text, 1)}-01T00:00:00Z"


def _shifted(month: str, by: int) -> str:
    year, number = month.split("-")
    count = int(year) * 12 + int(number) - 1 + by
    return f"{count // 12:04d}-{count % 12 + 1:02d}"


def _fail(what: str, fix: str) -> None:
    fail([Problem("command.period", what, fix)], UNUSABLE)


def _show(found: UsageAnswer, groups: list[str], interval: str | None, output: str | None) -> None:
    columns = _columns(groups, interval, found.total)
    if output in ("json", "yaml", "name"):
        show(output, columns, found.rows, documents=document(found))
        return
    title = f"GPU hours from {ages.utc(found.start)} to {ages.utc(found.end)}"
    rows: list[UsageAmounts] = [*found.rows, found.total]
    show(output, columns, rows, documents=None, title=title)


def _columns(groups: list[str], interval: str | None, total: UsageAmounts) -> list[Column[UsageAmounts]]:
    names = [("PERIOD", "period_start")] if interval is not None or not groups else []
    names += [(HEADINGS[name], name) for name in groups]
    length = _LENGTHS[interval] if interval is not None else None
    return [
        *(_group(heading, name, total, length, is_first=not number) for number, (heading, name) in enumerate(names)),
        Column("REQUESTED", lambda each: _amount(each.gpu_hours_requested), spare=3),
        Column("ALLOCATED", lambda each: _amount(each.gpu_hours_allocated)),
        Column("USED", lambda each: _amount(each.gpu_hours_used), spare=1),
        Column("IDLE", lambda each: _amount(each.gpu_hours_idle), spare=2),
        Column("OVER QUOTA", lambda each: _amount(each.gpu_hours_over_quota), spare=4),
        Column("LOST", lambda each: _amount(each.gpu_hours_lost), spare=5),
        Column("CPU HOURS", lambda each: _amount(each.cpu_core_hours), spare=6),
        Column("MEMORY GIB HOURS", lambda each: _amount(each.memory_gib_hours), spare=7),
        Column("COST", lambda each: "-" if each.cost is None else f"{Decimal(each.cost):.2f}"),
    ]


_LENGTHS = {"hour": len("2026-11-15T12:00"), "day": len("2026-11-15"), "month": len("2026-11")}


def _group(heading: str, name: str, total: UsageAmounts, length: int | None, *, is_first: bool) -> Column[UsageAmounts]:
    def cell(row: UsageAmounts) -> str:
        if row is total:
            return "TOTAL" if is_first else ""
        return str(getattr(row, name, None) or "-")[: length if name == "period_start" else None]

    return Column(heading, cell, least=12 if name == "user" else 0)


def _amount(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:.2f}"
