"""Snapshots of single cycles: `FILE@12`, `FILE@90s`, `FILE@last`. They are what `fairpool plan` plans again."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairpool.model.ids import SECOND_MS, Instant, PoolName
from fairpool.model.problem import Problem
from fairpool.model.typed_text import duration_s, whole_number
from fairpool.scheduler.snapshot import Snapshot
from fairpool.simulation.scenario import START

LAST = "last"


@dataclass
class CaptureRequest:
    """A file, and which cycle is to be in it."""

    file: str
    cycle: int | None = None
    until: Instant | None = None
    """The last cycle no later than this."""
    snapshot: Snapshot | None = None


def request(text: str) -> CaptureRequest | Problem:
    """From what a person wrote."""
    file, at, which = text.rpartition("@")
    if not at:
        return CaptureRequest(text)
    if not file:
        return Problem("capture.file", f"{text!r} names no file", "write FILE@12, FILE@90s or FILE@last")
    if which == LAST:
        return CaptureRequest(file)
    cycle = whole_number(which)
    if isinstance(cycle, int) and cycle > 0:
        return CaptureRequest(file, cycle=cycle)
    length = duration_s(which)
    if isinstance(length, Problem) or which.isdigit():
        fix = "write FILE@12 for the 12th cycle, FILE@90s for the one at that time, or FILE@last"
        return Problem("capture.cycle", f"{which!r} names no cycle", fix)
    return CaptureRequest(file, until=Instant(START + length * SECOND_MS))


@dataclass
class Capture:
    """Snapshot hook that keeps the requested cycles."""

    requests: list[CaptureRequest]
    pool: PoolName
    cycles: int = field(default=0)

    def __call__(self, pool: PoolName, snapshot: Snapshot) -> None:
        if pool != self.pool:
            return
        self.cycles += 1
        for each in self.requests:
            wanted = each.cycle == self.cycles if each.cycle is not None else True
            if wanted and (each.until is None or snapshot.now <= each.until):
                each.snapshot = snapshot
