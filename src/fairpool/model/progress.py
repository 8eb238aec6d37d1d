"""How much of its work a job has done, from the metrics it reports."""

from __future__ import annotations

from collections.abc import Mapping


def part_done(metrics: Mapping[str, object]) -> float | None:
    """From 0 to 1, from the epochs done and all epochs; None: it does not report them."""
    done, whole = _number(metrics.get("epoch")), _number(metrics.get("overall_epochs"))
    if done is None or whole is None or not whole > 0:
        return None
    return min(max(done / whole, 0.0), 1.0)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:  # nor NaN
        return None
    return float(value)
