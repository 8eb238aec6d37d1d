"""Usage as figures that people read: grouped, in hours, with what it cost at the prices of the time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

from fairpool.api import accounting as wire
from fairpool.control.csv_text import csv_cell, csv_text
from fairpool.control.usage_sums import HOUR_MS, Consumer, UsageSums
from fairpool.model.quantity import GIB, WHOLE_GPU_MILLI

GROUP_VALUES: Final[Mapping[str, Callable[[Consumer], str]]] = {
    "cluster": lambda each: each.subject.cluster,
    "department": lambda each: each.subject.department,
    "project": lambda each: each.subject.project,
    "user": lambda each: each.subject.submitted_by,
    "type": lambda each: each.subject.kind,
    "nodePool": lambda each: each.subject.pool,
    "gpuType": lambda each: each.subject.gpu_type,
    "node": lambda each: each.node,
    "workload": lambda each: each.workload_name,
}
OF_PODS: Final = frozenset({"node", "workload"})
"""Of these, only the pods know: hours are not summed by them."""
NOT_OF_QUOTAS: Final = OF_PODS | {"user", "type", "gpuType"}
"""What is over quota is a figure of a project in a node pool, and is not divided any further."""
MILLI_HOUR: Final = WHOLE_GPU_MILLI * HOUR_MS
DECIMALS: Final = 6
"""Of an hour: less than 4 ms."""
MICRO: Final = 1_000_000


class HourPrice(NamedTuple):
    """What one hour of a GPU, a core or a GiB costs from a moment on, in millionths."""

    resource: wire.PricedResource
    gpu_type: str
    from_at: int
    micro: int


class Prices:
    """All prices."""

    def __init__(self, listed: Iterable[HourPrice]) -> None:
        self._by_key: dict[tuple[wire.PricedResource, str], list[HourPrice]] = {}
        for each in sorted(listed, key=lambda price: price.from_at):
            self._by_key.setdefault((each.resource, each.gpu_type), []).append(each)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def cuts(self, start: int, end: int) -> set[int]:
        """The moments within a period at which prices change."""
        return {each.from_at for known in self._by_key.values() for each in known if start < each.from_at < end}

    def cost(self, consumer: Consumer, usage: UsageSums, at: int) -> Decimal:
        """What this costs at the prices of a moment."""
        gpu_type = consumer.subject.gpu_type
        gpu = self._at(wire.PricedResource.GPU, gpu_type, at)
        gpu = self._at(wire.PricedResource.GPU, "", at) if gpu is None else gpu
        cpu = self._at(wire.PricedResource.CPU, "", at)
        memory = self._at(wire.PricedResource.MEMORY, "", at)
        cost = Decimal(usage.allocated * (gpu or 0) + usage.cpu * (cpu or 0)) / MILLI_HOUR
        return (cost + Decimal(usage.memory * (memory or 0)) / (GIB * HOUR_MS)) / MICRO

    def _at(self, resource: wire.PricedResource, gpu_type: str, at: int) -> int | None:
        known = self._by_key.get((resource, gpu_type), ())
        return next((each.micro for each in reversed(known) if each.from_at <= at), None)


@dataclass(slots=True)
class Figures:
    """Usage and its cost."""

    usage: UsageSums = field(default_factory=UsageSums)
    cost: Decimal = Decimal(0)


GroupKey = tuple[str, ...]
"""The beginning of a part of the period, or nothing; the values of what is grouped by; the id of the workload."""


class FigureTable:
    """Figures by group, and their total."""

    def __init__(self, groups: Sequence[str], prices: Prices, *, has_over_quota: bool) -> None:
        self._groups, self._prices, self._has_over_quota = tuple(groups), prices, has_over_quota
        self._values = [GROUP_VALUES[each] for each in groups]
        self.rows: dict[GroupKey, Figures] = {}
        self.total = Figures()

    def add(self, part: str, at: int, sums: Mapping[Consumer, UsageSums]) -> None:
        """The sums of a part of the period, in which the prices are those of `at`."""
        for consumer, usage in sums.items():
            if not self._has_over_quota:
                usage.over_quota = 0
                if not (usage.requested or usage.allocated or usage.cpu or usage.memory):
                    continue
            of = consumer.workload if "workload" in self._groups else ""
            key = (part, *(value(consumer) for value in self._values), of)
            cost = self._prices.cost(consumer, usage, at)
            for each in (self.rows.setdefault(key, Figures()), self.total):
                each.usage.add(usage)
                each.cost += cost

    def answer_rows(self) -> list[wire.UsageRow]:
        """In the order of their groups."""
        return [self._row(key, figures) for key, figures in sorted(self.rows.items())]

    def answer_total(self) -> wire.UsageAmounts:
        return wire.UsageAmounts(**self._amounts(self.total))

    def _row(self, key: GroupKey, figures: Figures) -> wire.UsageRow:
        part, *values, workload = key
        named: dict[str, Any] = {_FIELDS[name]: value for name, value in zip(self._groups, values, strict=True)}
        named |= {"period_start": part or None, "workload_id": workload or None}
        return wire.UsageRow(**named, **self._amounts(figures))

    def _amounts(self, figures: Figures) -> dict[str, Any]:
        usage = figures.usage
        return {
            "gpu_hours_requested": _hours(usage.requested),
            "gpu_hours_allocated": _hours(usage.allocated),
            "gpu_hours_used": _hours(usage.used) if usage.measured else None,
            "gpu_hours_idle": _hours(usage.measured - usage.used) if usage.measured else None,
            "gpu_hours_over_quota": _hours(usage.over_quota) if self._has_over_quota else None,
            "gpu_hours_lost": _hours(usage.lost),
            "cpu_core_hours": _hours(usage.cpu),
            "memory_gib_hours": round(usage.memory / (GIB * HOUR_MS), DECIMALS),
            "cost": _money(figures.cost) if self._prices else None,
        }


_FIELDS: Final = {
    alias or name: name for name, info in wire.UsageRow.model_fields.items() for alias in (info.alias, name)
}


def row_fields(groups: Iterable[str]) -> list[str]:
    """The fields of a row that have what was grouped by."""
    return [_FIELDS[each] for each in groups]


def _hours(milli_ms: int) -> float:
    return round(milli_ms / MILLI_HOUR, DECIMALS)


def _money(cost: Decimal) -> str:
    """As exact as prices are: of many small rows, none may become nothing."""
    whole, _, part = f"{cost:.{DECIMALS}f}".partition(".")
    return f"{whole}.{part.rstrip('0'):0<2}"


# --- CSV -----------------------------------------------------------------------------------------------------

AMOUNTS: Final = tuple(wire.UsageAmounts.model_fields)


def csv_pieces(
    rows: Sequence[wire.UsageRow], groups: Sequence[str], start: str, end: str, *, has_parts: bool, at_once: int = 500
) -> Iterator[str]:
    """A table with a header row: what was grouped by, the period, and the amounts."""
    names = [*row_fields(groups), *(["workload_id"] if "workload" in groups else [])]
    aliases = [str(wire.UsageRow.model_fields[name].alias or name) for name in (*names, *AMOUNTS)]
    period = ["periodStart"] if has_parts else ["start", "end"]
    yield csv_text([[*period, *aliases]])
    for first in range(0, len(rows), at_once):
        lines = []
        for row in rows[first : first + at_once]:
            when = [row.period_start or ""] if has_parts else [start, end]
            lines.append([*when, *(csv_cell(getattr(row, name)) for name in (*names, *AMOUNTS))])
        yield csv_text(lines)
