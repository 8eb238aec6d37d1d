"""Usage over a period as a page to look at, print or send: one file without scripts or anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from starlette.responses import Response

from fairpool.api.accounting import Interval, UsageAmounts, UsageRow
from fairpool.control.moments import iso
from fairpool.control.page_layout import layout
from fairpool.control.usage_figures import row_fields
from fairpool.control.usage_query import UsageFigures, UsageQuestion

ROWS_MAX: Final = 2000
"""On one page. CSV has all."""
HEADINGS: Final = {
    "period_start": "Period",
    "cluster": "Cluster",
    "department": "Department",
    "project": "Project",
    "user": "User",
    "type": "Type",
    "node_pool": "Node pool",
    "gpu_type": "GPU type",
    "node": "Node",
    "workload": "Workload",
    "gpu_hours_requested": "Requested",
    "gpu_hours_allocated": "Allocated",
    "gpu_hours_used": "Used",
    "gpu_hours_idle": "Idle",
    "gpu_hours_over_quota": "Over quota",
    "gpu_hours_lost": "Lost",
    "cpu_core_hours": "CPU hours",
    "memory_gib_hours": "GiB hours",
    "cost": "Cost",
}
AMOUNTS: Final = tuple(UsageAmounts.model_fields)
PERIOD_LENGTHS: Final = {Interval.HOUR: len("2026-11-15T12:00"), Interval.DAY: 10, Interval.MONTH: 7}
STYLE: Final = """
.wide { max-width: 84rem; } .scroll { overflow-x: auto; } td, th { padding: .4rem .9rem .4rem 0; white-space: nowrap; }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 0; padding-left: .9rem; }
.use { vertical-align: middle; padding: 0 0 0 1.2rem; }
thead th { color: var(--text-3); font-weight: 500; font-size: .82em; } tfoot td { font-weight: 650; border-bottom: 0; }
dl { display: flex; flex-wrap: wrap; gap: .8rem 2.4rem; margin: 1.6rem 0; }
dt { color: var(--text-3); font-size: .85em; }
dd { margin: 0; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.bar { display: flex; width: 9rem; height: .75rem; border: 1px solid var(--border); border-radius: 3px;
  overflow: hidden; }
.bar i { display: block; height: 100%; } .used { background: var(--accent); } .idle { background: var(--border); }
.unknown { background: repeating-linear-gradient(45deg, var(--border) 0 2px, transparent 2px 5px); }
.key { display: inline-block; width: .9rem; height: .75rem; border: 1px solid var(--border); border-radius: 3px;
  vertical-align: -.05rem; margin: 0 .3rem 0 1rem; } .key:first-child { margin-left: 0; }
@media print { @page { size: landscape; margin: 12mm; } body { padding: 0; font-size: 11px; max-width: none; }
  .scroll { overflow: visible; } tr { break-inside: avoid; } .bar, .key { print-color-adjust: exact; } }
"""


def usage_page(found: UsageFigures, asked: UsageQuestion) -> Response:
    """The answer as a page."""
    rows, total = found.table.answer_rows(), found.table.answer_total()
    names = [*(["period_start"] if asked.interval is not None else []), *row_fields(asked.groups)]
    amounts = [name for name in AMOUNTS if getattr(total, name) is not None]
    period = f"{_moment(found.period.start)} to {_moment(found.period.end)} UTC"
    body = (
        f'<h1>GPU hours</h1>\n<p class="soft">{period}, as of {_moment(found.at)} UTC</p>\n{_summary(total)}\n{_KEYS}'
        f'<div class="scroll"><table><thead>{_head(names, amounts)}</thead>\n<tbody>'
        + "".join(_row(each, names, amounts, asked.interval) for each in rows[:ROWS_MAX])
        + f"</tbody>\n<tfoot>{_total(total, names, amounts)}</tfoot></table></div>"
    )
    if len(rows) > ROWS_MAX:
        body += (
            f'<p class="soft">{len(rows) - ROWS_MAX} more rows are not shown; they are in the total and in the CSV.</p>'
        )
    return layout("GPU hours", f"<main>{body}</main>", style=STYLE, is_wide=True)


_KEYS: Final = (
    '<p class="soft"><span class="key used"></span>used<span class="key idle"></span>idle'
    '<span class="key unknown"></span>not measured</p>\n'
)


def _summary(total: UsageAmounts) -> str:
    measured = (total.gpu_hours_used or 0) + (total.gpu_hours_idle or 0)
    unknown = max(0.0, total.gpu_hours_allocated - measured)
    shown = [("Allocated", _amount(total.gpu_hours_allocated))]
    if total.gpu_hours_used is not None:
        share = f" ({100 * total.gpu_hours_used / measured:.0f} %)" if measured else ""
        shown += [("Used", _amount(total.gpu_hours_used) + share), ("Idle", _amount(total.gpu_hours_idle))]
    shown += [("Not measured", _amount(unknown))]
    if total.cost is not None:
        shown += [("Cost", total.cost)]
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in shown) + "</dl>"


def _head(names: Iterable[str], amounts: Iterable[str]) -> str:
    cells = [f"<th>{HEADINGS[name]}</th>" for name in names]
    cells += [f'<th class="number">{HEADINGS[name]}</th>' for name in amounts]
    return f'<tr>{"".join(cells)}<th class="use">Use</th></tr>'


def _row(row: UsageRow, names: Sequence[str], amounts: Sequence[str], interval: Interval | None) -> str:
    cells = [f'<td class="name">{escape(_name(row, name, interval))}</td>' for name in names]
    return f"<tr>{''.join(cells)}{_amount_cells(row, amounts)}</tr>\n"


def _total(total: UsageAmounts, names: Sequence[str], amounts: Sequence[str]) -> str:
    first = f'<td colspan="{len(names)}">Total</td>' if names else ""
    return f"<tr>{first}{_amount_cells(total, amounts)}</tr>"


def _amount_cells(row: UsageAmounts, amounts: Sequence[str]) -> str:
    cells = [f'<td class="number">{escape(_amount(getattr(row, name)))}</td>' for name in amounts]
    return "".join(cells) + f'<td class="use">{_bar(row)}</td>'


def _bar(row: UsageAmounts) -> str:
    """Which part of what was allocated was used, idle, and not measured."""
    if not row.gpu_hours_allocated:
        return ""
    used, idle = (100 * (each or 0) / row.gpu_hours_allocated for each in (row.gpu_hours_used, row.gpu_hours_idle))
    widths = (("used", used), ("idle", idle), ("unknown", max(0.0, 100 - used - idle)))
    title = ", ".join(f"{width:.0f} % {'not measured' if name == 'unknown' else name}" for name, width in widths)
    parts = "".join(f'<i class="{name}" style="width:{width:.2f}%"></i>' for name, width in widths)
    return f'<div class="bar" role="img" aria-label="{title}" title="{title}">{parts}</div>'


def _name(row: UsageRow, name: str, interval: Interval | None) -> str:
    text = str(getattr(row, name) or "–")
    return text[: PERIOD_LENGTHS[interval]].replace("T", " ") if name == "period_start" and interval else text


def _amount(value: float | str | None) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:,.2f}"


def _moment(at: int) -> str:
    return iso(at)[:16].replace("T", " ")
