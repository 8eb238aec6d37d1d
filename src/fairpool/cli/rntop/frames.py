"""The screen of `rntop`: framed lines for the cluster, its nodes and their GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click

from fairpool.cli.rntop.gpu_sample import HostSample, Usage, usage_of_all, usage_of_gpu
from fairpool.cli.screen import printable, width_of

MIB_IN = {"MB": 1.048576, "MiB": 1.0, "GB": 1.048576 / 1000, "GiB": 1 / 1024}
WIDTH_MIN = 40


@dataclass(frozen=True, slots=True)
class Look:
    """How it is shown."""

    width: int | None
    """None: as wide as it takes."""
    unit: str = "MiB"
    colour: bool = False
    gpu_index: bool = True
    gpu_name: bool = False
    gpu_uuid: bool = False
    ascii: bool = False
    is_short: bool = False
    """With short names before the figures."""


def frames(hosts: Sequence[HostSample], look: Look) -> list[str]:
    """All lines, equally wide. Where the figures do not fit, their names are shorter."""
    sections = _sections(hosts, look)
    needed = _widest(_sections([each for each in hosts if each.gpus], look)) + 4
    if look.width is not None and needed > look.width:
        sections = _sections(hosts, replace(look, is_short=True))
    width = _widest(sections) + 4 if look.width is None else max(look.width, WIDTH_MIN)
    return [line for title, rows in sections.items() for line in _frame(title, rows, width, look)]


def _sections(hosts: Sequence[HostSample], look: Look) -> dict[str, list[str]]:
    away = sum(not each.gpus for each in hosts)
    nodes = f"{len(hosts) - away} of {len(hosts)} nodes" if away else ""
    return {
        "Cluster": [_cluster_row(usage_of_all(hosts), look, nodes)],
        "Nodes": _aligned(_node_cells(hosts, look)),
        "GPUs": _aligned(_gpu_cells(hosts, look)) or ["none"],
    }


def _widest(sections: Mapping[str, Sequence[str]]) -> int:
    return max(width_of(click.unstyle(row)) for rows in sections.values() for row in rows)


def _cluster_row(usage: Usage, look: Look, nodes: str) -> str:
    """The one row in colour."""
    parts = [
        _coloured(_utilization(usage, look), _colour(usage.utilization, 10), look),
        _coloured(_memory(usage, look), _colour(usage.memory_percent, 50), look),
        *([nodes] if nodes else []),
    ]
    return "  ".join(parts)


def _colour(value: float | None, low: float) -> str | None:
    if value is None:
        return None
    return "red" if value < low else "green" if value >= 80 else "cyan"


def _coloured(text: str, colour: str | None, look: Look) -> str:
    return click.style(text, fg=colour) if colour and look.colour else text


def _node_cells(hosts: Sequence[HostSample], look: Look) -> Iterator[Sequence[str]]:
    for each in hosts:
        if each.gpus:
            yield each.host, f"driver {each.driver}", _utilization(each.usage, look), _memory(each.usage, look)
        else:
            yield each.host, each.problem


def _gpu_cells(hosts: Sequence[HostSample], look: Look) -> Iterator[Sequence[str]]:
    for each in hosts:
        for gpu in each.gpus:
            names = [
                *([f"#{gpu.index}"] if look.gpu_index else []),
                *([gpu.name] if look.gpu_name else []),
                *([gpu.uuid] if look.gpu_uuid else []),
            ]
            usage = usage_of_gpu(gpu)
            yield each.host, *names, _utilization(usage, look), _memory(usage, look)


def _utilization(usage: Usage, look: Look) -> str:
    name = "GPU" if look.is_short else "GPU utilization:"
    return f"{name} {'  -' if usage.utilization is None else f'{usage.utilization:3.0f}%'}"


def _memory(usage: Usage, look: Look) -> str:
    name = "mem" if look.is_short else "Used GPU memory:"
    if usage.used_mib is None or usage.total_mib is None:
        return f"{name} -"
    factor, digits = MIB_IN[look.unit], 0 if look.unit.startswith("M") else 1
    percent = usage.memory_percent
    share = "" if percent is None else f" ({percent:.0f}%)"
    used, total = usage.used_mib * factor, usage.total_mib * factor
    return f"{name} {used:.{digits}f} / {total:.{digits}f} {look.unit}{share}"


def _aligned(rows: Iterator[Sequence[str]]) -> list[str]:
    """Cells below each other; text of machines with its control characters escaped."""
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = max(map(len, cells), default=0)
    # A message takes the rest of its row and decides no column's width.
    whole = [row for row in cells if len(row) == columns] or cells
    widths = [max((width_of(row[place]) for row in whole if place < len(row)), default=0) for place in range(columns)]
    widths[:1] = [max((width_of(row[0]) for row in cells), default=0)] if cells else []
    return ["  ".join(_padded(cell, widths[place]) for place, cell in enumerate(row)).rstrip() for row in cells]


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - width_of(text))


def _frame(title: str, rows: Sequence[str], width: int, look: Look) -> list[str]:
    line, side, corners = ("-", "|", "++++") if look.ascii else ("─", "│", "┌┐└┘")
    head = f"{corners[0]}{line} {title} "
    inner = width - 4
    return [
        f"{head}{line * (width - len(head) - 1)}{corners[1]}",
        *(f"{side} {_fitted(row, inner)} {side}" for row in rows),
        f"{corners[2]}{line * (width - 2)}{corners[3]}",
    ]


def _fitted(row: str, width: int) -> str:
    """As wide as the frame; what does not fit is cut off, without the colour that it may have."""
    plain = click.unstyle(row)
    if width_of(plain) <= width:
        return row + " " * (width - width_of(plain))
    while width_of(plain) > width - 1:
        plain = plain[:-1]
    return plain + "~" + " " * (width - 1 - width_of(plain))
