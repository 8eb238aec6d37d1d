"""What a pod or a machine used between two samples, and the rates of its counters."""

from __future__ import annotations

from dataclasses import dataclass

Pair = tuple[int, int]
"""Two counters: received and sent, or read and written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """None: it was not measured. Rates are not in the first sample."""

    cpu_cores: float | None = None
    memory_bytes: int | None = None
    received_bytes_s: float | None = None
    sent_bytes_s: float | None = None
    read_bytes_s: float | None = None
    written_bytes_s: float | None = None


def rates(last: Pair | None, now: Pair | None, elapsed_s: float) -> tuple[float | None, float | None]:
    """Of two counters. One that has become smaller belonged to a device that was removed."""
    if last is None or now is None:
        return None, None
    return max(0, now[0] - last[0]) / elapsed_s, max(0, now[1] - last[1]) / elapsed_s
