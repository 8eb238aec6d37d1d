"""The order of workloads by what needs attention: failed, then longest waiting, then newest.

No index has this order. Each of the three parts has one, and the numbers by phase tell which rows of which part a page
consists of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairpool.control.filters import Filter, Operator
from fairpool.control.store import workload_lists
from fairpool.control.store.database import Connection
from fairpool.control.store.workload_lists import Listing
from fairpool.control.store.workloads import Key

ATTENTION: Final = "attention"
"""What lists are sorted by to have this order."""


@dataclass(frozen=True, slots=True)
class AttentionPart:
    """Workloads that are sorted alike."""

    conditions: tuple[Filter, ...]
    sort_by: str
    descending: bool


PARTS: Final = (
    AttentionPart((Filter("phase", Operator.EQUALS, "Failed"),), "completedAt", descending=True),
    AttentionPart((Filter("phase", Operator.EQUALS, "Pending"),), "createdAt", descending=False),
    AttentionPart(
        (Filter("phase", Operator.DIFFERS, "Failed"), Filter("phase", Operator.DIFFERS, "Pending")),
        "createdAt",
        descending=True,
    ),
)


@dataclass(frozen=True, slots=True)
class PagePiece:
    """The rows of one part that are on a page."""

    part: int
    offset: int
    limit: int


def pieces(offset: int, limit: int, counts: Sequence[int]) -> list[PagePiece]:
    """What a page of `limit` rows from `offset` on consists of; `counts` are the rows of each part."""
    found: list[PagePiece] = []
    before, left = 0, limit
    for part, count in enumerate(counts):
        first = max(0, offset - before)
        if first < count and left > 0:
            found.append(PagePiece(part, first, min(left, count - first)))
            left -= found[-1].limit
        before += count
    return found


def page(connection: Connection, listing: Listing, phases: Mapping[str, int]) -> list[Key]:
    """The keys of one page, and one more if there is another page. `phases` are the numbers of the listing's workloads
    by phase, read in the same transaction."""
    failed, pending = phases.get("Failed", 0), phases.get("Pending", 0)
    counts = (failed, pending, sum(phases.values()) - failed - pending)
    found: list[Key] = []
    for each in pieces(listing.offset, listing.limit + 1, counts):
        part = PARTS[each.part]
        mine = replace(
            listing,
            filters=(*listing.filters, *part.conditions),
            sort_by=part.sort_by,
            descending=part.descending,
            offset=each.offset,
            limit=each.limit,
        )
        found += workload_lists.page(connection, mine)[: each.limit]
    return found
