"""What was measured, as tables show it. What was not measured is `–`, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpool.cli.runai import ages
from fairpool.model.quantity import GIB

if TYPE_CHECKING:
    from fairpool.api.measured import MeasuredNode, MeasuredWork

UNKNOWN = "–"
MIB = 1 << 20


def percent(value: float | None) -> str:
    """`59.0%`."""
    return UNKNOWN if value is None else f"{value:.1f}%"


def brief_percent(value: float | None) -> str:
    """`59%`."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def cores(value: float | None) -> str:
    """In thousandths: `1500m`."""
    return UNKNOWN if value is None else f"{value * 1000:.0f}m"


def size(value: float | None) -> str:
    """`512MiB`, `3.5GiB`."""
    if value is None:
        return UNKNOWN
    return f"{value / GIB:.1f}GiB" if value >= GIB else f"{value / MIB:.0f}MiB"


def used_size(used: float | None, whole: float | None) -> str:
    """`3.5GiB (22%)`."""
    return size(used) + part(used, whole)


def part(used: float | None, whole: float | None) -> str:
    """` (22%)`; empty if it is not known."""
    return f" ({100 * used / whole:.0f}%)" if used is not None and whole else ""


def share(used: float | None, whole: float | None) -> str:
    """Used as a percentage of the whole."""
    return percent(100 * used / whole if used is not None and whole else None)


def idle(seconds: float | None) -> str:
    """How long nothing was done."""
    return UNKNOWN if seconds is None else ages.brief(seconds)


def utilization(each: MeasuredWork | MeasuredNode | None) -> float | None:
    return None if each is None else each.gpu_utilization


def progress(each: MeasuredWork | None) -> float | None:
    return None if each is None else each.progress_percent


def gpu_memory(each: MeasuredWork | MeasuredNode | None) -> float | None:
    return None if each is None else each.gpu_memory_bytes


def cpu(each: MeasuredWork | MeasuredNode | None) -> float | None:
    return None if each is None else each.cpu_cores


def memory(each: MeasuredWork | MeasuredNode | None) -> float | None:
    return None if each is None else each.memory_bytes
