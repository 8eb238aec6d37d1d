"""How finely and how long samples are kept, and which resolution answers a question.

Fine samples are packed into blocks, and blocks are averaged into coarser ones when their time is over. A resolution is
kept longer than it takes to make the next one from it, so a question about any time has one answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class Resolution:
    """Slots of one length, several of them in a block."""

    step_s: int
    block_s: int
    """Slots that are kept together."""
    kept_s: int

    @property
    def slots(self) -> int:
        """In a block."""
        return self.block_s // self.step_s

    def block_start(self, at_s: int) -> int:
        """The start of the block that a moment is in."""
        return at_s - at_s % self.block_s


FINE = Resolution(step_s=10, block_s=600, kept_s=2 * HOUR_S)
"""An hour back from now, and what blocks of minutes are made from."""
MINUTES = Resolution(step_s=60, block_s=HOUR_S, kept_s=8 * DAY_S)
HOURS = Resolution(step_s=HOUR_S, block_s=DAY_S, kept_s=366 * DAY_S)
ALL: Final = (FINE, MINUTES, HOURS)


def coarser(resolution: Resolution) -> Resolution | None:
    """The one that is made from this one."""
    following = ALL.index(resolution) + 1
    return ALL[following] if following < len(ALL) else None


def finer(resolution: Resolution) -> Resolution | None:
    """The one that it is made from."""
    place = ALL.index(resolution)
    return ALL[place - 1] if place else None


def resolution_for(start_s: int, end_s: int, samples: int, now_s: int) -> Resolution:
    """The coarsest one that still has as many slots as asked for; a finer one that is not kept so long is not taken."""
    kept = [each for each in ALL if start_s >= now_s - each.kept_s] or [HOURS]
    enough = [each for each in kept if (end_s - start_s) // each.step_s >= samples]
    return enough[-1] if enough else kept[0]
