"""Why each group that is left waiting waits."""

from __future__ import annotations

from collections.abc import Iterator

from fairpool.model.ids import Instant
from fairpool.scheduler.decision import Verdict
from fairpool.scheduler.placement import Placer


def verdicts(placer: Placer) -> Iterator[Verdict]:
    return iter(())


def quiet_until(placer: Placer) -> Instant | None:
    return None
