"""Moments as answers to questions have them."""

from __future__ import annotations

from datetime import UTC, datetime

from fairpool.model.ids import Instant


def moment_text(at: Instant) -> str:
    """ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
