"""Colour slots of projects: which of the twenty project colours a new project gets.

Pages, charts of the command and reports draw a project in the same colour, so the server keeps its slot. The slot that
a name prefers does not depend on other projects, so that the same projects mostly get the same colours elsewhere too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

SLOTS: Final = 20
STEP: Final = 7
"""Has no factor in common with the number of slots, so that probing reaches all of them."""
FNV_OFFSET, FNV_PRIME = 2_166_136_261, 16_777_619


def color_slot(name: str, taken: Collection[int]) -> int:
    """The slot of a new project. If all are taken it shares the one that its name prefers."""
    preferred = fnv_1a(name) % SLOTS
    probed = ((preferred + STEP * number) % SLOTS for number in range(SLOTS))
    return next((slot for slot in probed if slot not in taken), preferred)


def fnv_1a(text: str) -> int:
    """The hash FNV-1a of 32 bits, of a text in UTF-8."""
    found = FNV_OFFSET
    for byte in text.encode():
        found = (found ^ byte) * FNV_PRIME % 2**32
    return found
