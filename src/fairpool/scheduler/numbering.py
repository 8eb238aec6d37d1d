"""Numbering of rows in id order, and how numbers follow from those of the previous snapshot.

Columns are lists indexed by these numbers. A column of the previous snapshot becomes one of this snapshot by splicing:
slices of what is kept, with the values of fresh rows between them. Nothing is done for each row that is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import islice
from operator import is_
from typing import TypeVar

Row = TypeVar("Row")
Id = TypeVar("Id", bound=str)
Value = TypeVar("Value")

GAP_MAX = 32
"""So many rows that are gone or come are found by looking ahead."""

Piece = tuple[int, int, int]
"""A range of earlier numbers that are kept, and how many fresh rows follow."""


class Numbering:
    """The numbers of rows, as pieces of the previous numbering."""

    def __init__(self, pieces: Sequence[Piece], count_before: int) -> None:
        self.pieces = pieces
        self.count_before = count_before

    @classmethod
    def from_nothing(cls, count: int) -> Numbering:
        """All rows are fresh."""
        return cls([(0, 0, count)], 0)

    @property
    def is_same(self) -> bool:
        """Nothing is fresh and nothing gone."""
        return self.pieces == [(0, self.count_before, 0)]

    @cached_property
    def count(self) -> int:
        return sum(stop - start + fresh for start, stop, fresh in self.pieces)

    @cached_property
    def fresh(self) -> list[int]:
        """Numbers of the rows that are new or replaced."""
        numbers: list[int] = []
        at = 0
        for start, stop, fresh in self.pieces:
            at += stop - start
            numbers += range(at, at + fresh)
            at += fresh
        return numbers

    @cached_property
    def gone(self) -> list[int]:
        """Earlier numbers of the rows that are no longer there, or replaced."""
        numbers: list[int] = []
        at = 0
        for start, stop, _ in self.pieces:
            numbers += range(at, start)
            at = stop
        numbers += range(at, self.count_before)
        return numbers

    @cached_property
    def moved(self) -> list[int] | None:
        """By earlier number the number now; -1 for what is gone, and for -1. None: no number changed."""
        at, is_moved = 0, False
        for start, stop, fresh in self.pieces:
            is_moved = is_moved or (start != stop and start != at)
            at += stop - start + fresh
        if not is_moved:
            return None
        table = [-1] * (self.count_before + 1)
        at = 0
        for start, stop, fresh in self.pieces:
            table[start:stop] = range(at, at + stop - start)
            at += stop - start + fresh
        return table

    def splice(self, column: Sequence[Value], values: Iterable[Value]) -> list[Value]:
        """A column as it is now, given the values of the fresh rows."""
        if self.is_same and isinstance(column, list):
            return column
        spliced: list[Value] = []
        given = iter(values)
        for start, stop, fresh in self.pieces:
            spliced += column[start:stop]
            if fresh:
                spliced += islice(given, fresh)
        return spliced

    def renumber(self, references: list[int]) -> list[int]:
        """Numbers in a column, as they are now."""
        moved = self.moved
        return references if moved is None else [moved[each] for each in references]

    def part(self, members: Sequence[int], looked_at: Collection[int], belong: Iterable[int]) -> list[int]:
        """A sorted selection of rows as it is now: earlier members, but of those `looked_at` only those that `belong`.

        What is fresh must be among those looked at.
        """
        moved, count = self.moved, self.count
        kept = members if moved is None else [moved[each] for each in members]
        rest = [each for each in kept if 0 <= each < count and each not in looked_at]
        return sorted([*rest, *belong])

    def below(self, firsts: Sequence[int], counts: Iterable[int]) -> Numbering:
        """The numbering of what each row has several of, in the same order.

        `firsts` gives, for each earlier row and after the last one, the number of its first; `counts` how many each
        fresh row has.
        """
        given = iter(counts)
        pieces = [
            (firsts[start], firsts[stop], sum(islice(given, fresh)) if fresh else 0)
            for start, stop, fresh in self.pieces
        ]
        return Numbering(pieces, firsts[self.count_before])


def renumbered(ids: Sequence[Id], gone: Collection[Id], fresh: Collection[Id]) -> tuple[Numbering, list[Id]]:
    """The numbering once some ids are gone and others are new or have another row; and all ids, in order."""
    if not ids:
        return Numbering.from_nothing(len(fresh)), sorted(fresh)
    pieces: list[Piece] = []
    at = 0
    changed = sorted({*gone, *fresh})
    for each in changed:
        place = bisect_left(ids, each, at)
        is_fresh = int(each in fresh)
        if place == at and pieces:
            start, stop, before = pieces[-1]
            pieces[-1] = (start, stop, before + is_fresh)
        else:
            pieces.append((at, place, is_fresh))
        at = place + (place < len(ids) and ids[place] == each)
    if at < len(ids) or not pieces:
        pieces.append((at, len(ids), 0))
    numbering = Numbering(pieces, len(ids))
    return numbering, numbering.splice(ids, (each for each in changed if each in fresh))


def differences(before: Sequence[Row], now: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that were there and are not, and rows that are there and were not, as the same objects.

    Rows mostly come in the same order, with gaps of a few rows; where they do not, a row that is in another place may
    be among both.
    """
    old: list[Row] = []
    new: list[Row] = []
    if before is now:
        return old, new
    at, at_now = 0, 0
    while at < len(before) and at_now < len(now):
        alike = _alike(before, at, now, at_now)
        at, at_now = at + alike, at_now + alike
        gap = _gap(before[at : at + GAP_MAX], now[at_now : at_now + GAP_MAX])
        if gap is None:
            break
        old += before[at : at + gap[0]]
        new += now[at_now : at_now + gap[1]]
        at, at_now = at + gap[0], at_now + gap[1]
    rest, rest_now = before[at:], now[at_now:]
    kept = set(map(id, rest)).intersection(map(id, rest_now))
    old += [row for row in rest if id(row) not in kept]
    new += [row for row in rest_now if id(row) not in kept]
    return old, new


def _alike(before: Sequence[object], at_before: int, now: Sequence[object], at_now: int) -> int:
    """How many rows from two places on are the same objects."""
    count, size = 0, 64
    while True:
        begin, begin_now = at_before + count, at_now + count
        same = list(map(is_, before[begin : begin + size], now[begin_now : begin_now + size]))
        if False in same:
            return count + same.index(False)
        if not same:
            return count
        count += len(same)
        size = min(2 * size, 8192)


def _gap(before: Sequence[object], now: Sequence[object]) -> tuple[int, int] | None:
    """How many rows are gone and come before both go on with the same object; None: that is not to be seen."""
    places = {id(row): place for place, row in enumerate(now)}
    for gone, row in enumerate(before):
        if id(row) in places:
            return gone, places[id(row)]
    return None
