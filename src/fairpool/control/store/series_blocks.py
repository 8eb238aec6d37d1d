"""Units of work on stored samples: blocks are made of what came, once their time is over.

They are made from the finer ones, and again when samples come late. Each is a function of what is stored, so that it
does no harm to make one again after a crash. What several control planes have to make is made by one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairpool.control.store import series
from fairpool.control.store.database import Connection
from fairpool.control.store.series import StoredBlock
from fairpool.metrics.block import Block, NotABlock, averaged, merged, packed, unpacked
from fairpool.metrics.resolution import ALL, FINE, Resolution, coarser, finer

LATE_S = 30
"""How long after its end a block is made: samples take their way."""


class DueBlock(NamedTuple):
    """A block that is to be made."""

    grp: str
    resolution: Resolution
    start_s: int


def due_blocks(connection: Connection, now_s: int) -> list[DueBlock]:
    """What can be made now; of the finest resolution that has something, because the others are made from it."""
    if not series.is_our_turn(connection):
        return []
    ended_s = FINE.block_start(now_s - LATE_S)
    late = series.tick_blocks(connection, FINE, ended_s)
    if late:
        return [DueBlock(grp, FINE, start_s) for grp, start_s in late]
    _set_back(connection, FINE, ended_s)
    series.set_until(connection, FINE.step_s, ended_s)
    for each in ALL[1:]:
        source = finer(each)
        assert source is not None
        ended_s = each.block_start(series.until(connection, source.step_s) or 0)
        _set_back(connection, each, ended_s)
        made_s = series.until(connection, each.step_s)
        if made_s is not None and made_s >= ended_s:
            continue
        start_s = made_s if made_s is not None else series.first_block(connection, source)
        found: list[DueBlock] = []
        while start_s is not None and start_s < ended_s and not found:
            start_s = each.block_start(start_s)
            groups = series.groups_with_blocks(connection, source, start_s, start_s + each.block_s)
            missing = set(groups) - set(series.groups_with_blocks(connection, each, start_s, start_s + 1))
            found = [DueBlock(grp, each, start_s) for grp in sorted(missing)]
            start_s += each.block_s
            if not found:
                series.set_until(connection, each.step_s, start_s)
        if found:
            return found
    return []


def _set_back(connection: Connection, resolution: Resolution, ended_s: int) -> None:
    """If the clock was set back, blocks of a time that is yet to come go. The clocks of two control planes may differ
    by less than a block."""
    made_s = series.until(connection, resolution.step_s)
    if made_s is not None and made_s > ended_s + resolution.block_s:
        series.drop_blocks(connection, resolution, ended_s)
        series.set_until(connection, resolution.step_s, ended_s)


def make_blocks(connection: Connection, due: Iterable[DueBlock]) -> None:
    if not series.is_our_turn(connection):
        return  # another process makes them
    for each in due:
        if each.resolution is FINE:
            _gather(connection, each)
        elif not series.has_block(connection, each.grp, each.resolution, each.start_s):
            _average(connection, each)


def _gather(connection: Connection, due: DueBlock) -> None:
    end_s = due.start_s + FINE.block_s
    came = series.ticks_of(connection, due.grp, due.start_s, end_s)
    if not came:
        return  # another process has made it meanwhile
    before = [
        each
        for each in series.blocks_of(connection, due.grp, FINE, due.start_s, due.start_s + 1)
        if each.start_s == due.start_s
    ]
    block = merged(_readable([*before, *came]))
    series.put_block(connection, due.grp, FINE, StoredBlock(due.start_s, packed(block)))
    series.drop_ticks(connection, due.grp, due.start_s, end_s)
    following = coarser(FINE)
    while following is not None:  # they came late: what was made without them is made again
        start_s = following.block_start(due.start_s)
        if start_s + following.block_s > (series.until(connection, following.step_s) or 0):
            return
        _average(connection, DueBlock(due.grp, following, start_s))
        following = coarser(following)


def _average(connection: Connection, due: DueBlock) -> None:
    source = finer(due.resolution)
    assert source is not None
    found = series.blocks_of(connection, due.grp, source, due.start_s, due.start_s + due.resolution.block_s)
    within = [each for each in found if each.start_s >= due.start_s]
    placed = [((each.start_s - due.start_s) // source.step_s, block) for each in within for block in _readable([each])]
    block = averaged(placed, due.resolution.step_s // source.step_s)
    series.put_block(connection, due.grp, due.resolution, StoredBlock(due.start_s, packed(block)))


def _readable(stored: Iterable[StoredBlock]) -> list[Block]:
    """What cannot be read is a gap."""
    found = []
    for each in stored:
        try:
            found.append(unpacked(each.data))
        except NotABlock:
            continue
    return found
