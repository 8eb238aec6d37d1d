"""Units of work on stored samples: blocks are made of what came, and what one subject did over a time is read.

Blocks are made from the finer ones when their time is over, and again when samples come late. Each is a function of
what is stored, so that it does no harm to make one twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairpool.control.store import series
from fairpool.control.store.database import Connection
from fairpool.control.store.series import StoredBlock
from fairpool.metrics.block import (
    Block,
    NotABlock,
    Run,
    Values,
    averaged,
    averaged_run,
    dense,
    merged,
    packed,
    unpacked,
)
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
    series.set_until(connection, FINE.step_s, ended_s)
    for each in ALL[1:]:
        source, made_s = finer(each), series.until(connection, each.step_s)
        assert source is not None
        ended_s = each.block_start(series.until(connection, source.step_s) or 0)
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


def make_blocks(connection: Connection, due: Iterable[DueBlock]) -> None:
    if not series.is_our_turn(connection):
        return  # another process makes them
    for each in due:
        if each.resolution is FINE:
            _gather(connection, each)
        else:
            _average(connection, each)


def _gather(connection: Connection, due: DueBlock) -> None:
    end_s = due.start_s + FINE.block_s
    before = series.blocks_of(connection, due.grp, FINE, due.start_s, due.start_s + 1)
    came = series.ticks_of(connection, due.grp, due.start_s, end_s)
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


def _readable(stored: Iterable[StoredBlock], only: str | None = None) -> list[Block]:
    """What cannot be read is a gap."""
    found = []
    for each in stored:
        try:
            found.append(unpacked(each.data, only))
        except NotABlock:
            continue
    return found


def values_of(
    connection: Connection, grp: str, subject: str, resolution: Resolution, start_s: int, end_s: int
) -> Values:
    """The slots of one subject from `start_s` (where a slot begins) on, before `end_s`."""
    first, count = start_s // resolution.step_s, -(-(end_s - start_s) // resolution.step_s)
    return dense(_runs(connection, grp, subject, resolution, start_s, end_s), first, count)


def _runs(
    connection: Connection, grp: str, subject: str, resolution: Resolution, start_s: int, end_s: int
) -> list[Run]:
    """In slots since 1970."""
    found: list[Run] = []
    for each in series.blocks_of(connection, grp, resolution, start_s, end_s):
        found += [Run(each.start_s // resolution.step_s + run.first, run.values) for run in _run_in(each, subject)]
    source = finer(resolution)
    if source is None:
        for each in series.ticks_of(connection, grp, start_s, end_s):
            start = FINE.block_start(each.start_s) // FINE.step_s
            found += [Run(start + run.first, run.values) for run in _run_in(each, subject)]
        return found
    made_s = max(series.until(connection, resolution.step_s) or 0, start_s)
    if made_s < end_s:
        rest = _runs(connection, grp, subject, source, made_s - made_s % resolution.step_s, end_s)
        if rest:
            found.append(averaged_run(rest, resolution.step_s // source.step_s))
    return found


def _run_in(stored: StoredBlock, subject: str) -> list[Run]:
    return [run for block in _readable([stored], subject) for run in block.values()]
