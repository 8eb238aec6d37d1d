"""Blocks: samples of several subjects over a few slots of time, packed for the disk.

A subject (a device, a pod, a project) has a run of slots in which it existed, with a row for each of its metrics. What
was not measured is NaN. The first row is always the coverage: which part of each slot was measured. Averages are
weighted with it, so that a slot with one sample of six counts for a sixth.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
"""A row for each metric, a column for each slot."""

COVERAGE = 0
"""The row that says how much of a slot was measured, between 0 and 1."""
_HEAD = struct.Struct("<BHI")
_FORMAT = 1
_LEVEL = 1
"""Of compression: the next ones take twice the time for a twentieth of the size."""


class NotABlock(Exception):
    """What was read is not a block, or is one of a newer version."""


@dataclass(frozen=True, slots=True)
class Run:
    """The slots of one subject."""

    first: int
    values: Values

    @property
    def end(self) -> int:
        return self.first + int(self.values.shape[1])


Block = Mapping[str, Run]


def of_sample(slot: int, subjects: Sequence[str], values: Values) -> Block:
    """A block with one slot: a row for each subject, a column for each metric without the coverage."""
    covered = np.ones((len(subjects), 1), np.float32)
    rows = np.concatenate((covered, values), axis=1, dtype=np.float32)
    return {subject: Run(slot, rows[at, :, np.newaxis]) for at, subject in enumerate(subjects)}


def merged(blocks: Iterable[Block]) -> Block:
    """Blocks of the same time as one. Where two have the same slot, the later one counts."""
    runs: dict[str, list[Run]] = {}
    for block in blocks:
        for subject, run in block.items():
            runs.setdefault(subject, []).append(run)
    return {subject: found[0] if len(found) == 1 else _joined(found) for subject, found in runs.items()}


def _joined(runs: Sequence[Run]) -> Run:
    first = min(run.first for run in runs)
    return Run(first, dense(runs, first, max(run.end for run in runs) - first))


def dense(runs: Sequence[Run], first: int, slots: int) -> Values:
    """The values of these slots, from whichever run has them; what none has was not measured."""
    values = np.full((max((len(run.values) for run in runs), default=1), slots), np.nan, np.float32)
    values[COVERAGE] = 0
    for run in runs:
        begin, end = max(run.first, first), min(run.end, first + slots)
        if begin < end:
            part = run.values[:, begin - run.first : end - run.first]
            values[: len(part), begin - first : end - first] = part
    return values


def averaged(blocks: Iterable[tuple[int, Block]], ratio: int) -> Block:
    """Coarser slots, each from `ratio` finer ones. Of each block: at which of the finer slots it begins."""
    runs: dict[str, list[Run]] = {}
    for offset, block in blocks:
        for subject, run in block.items():
            runs.setdefault(subject, []).append(Run(offset + run.first, run.values))
    return {subject: averaged_run(found, ratio) for subject, found in runs.items()}


def averaged_run(runs: Sequence[Run], ratio: int) -> Run:
    first = min(run.first for run in runs) // ratio
    end = -(-max(run.end for run in runs) // ratio)
    fine = dense(runs, first * ratio, (end - first) * ratio)
    slots = fine.reshape(len(fine), end - first, ratio)
    weights = np.where(np.isnan(slots), np.float32(0), slots[COVERAGE])
    with np.errstate(invalid="ignore"):
        values = (np.nan_to_num(slots, nan=0.0) * weights).sum(axis=2) / weights.sum(axis=2)
    values[COVERAGE] = slots[COVERAGE].mean(axis=1)
    return Run(first, values)


def packed(block: Block) -> bytes:
    """For the disk. The bytes of the numbers are sorted by significance, which halves what is left to compress."""
    runs = list(block.values())
    names = "\0".join(block).encode()
    shapes = np.array([(run.first, *run.values.shape) for run in runs], "<u2").tobytes()
    numbers = b"".join(run.values.astype("<f4").tobytes() for run in runs)
    sorted_bytes = np.frombuffer(numbers, np.uint8).reshape(-1, 4).T.tobytes()
    body = struct.pack("<I", len(names)) + names + shapes + sorted_bytes
    return _HEAD.pack(_FORMAT, 0, len(runs)) + zlib.compress(body, _LEVEL)


def unpacked(data: bytes, only: str | None = None) -> Block:
    """A block, or one subject of it. Raises `NotABlock`."""
    try:
        form, _, count = _HEAD.unpack_from(data)
        if form != _FORMAT:
            raise NotABlock(f"a block has format {form}")
        body = zlib.decompress(data[_HEAD.size :])
        (length,) = struct.unpack_from("<I", body)
        names = body[4 : 4 + length].decode().split("\0") if count else []
        after = 4 + length + count * 6
        shapes = np.frombuffer(body[4 + length : after], "<u2").reshape(count, 3)
        numbers = np.frombuffer(body[after:], np.uint8).reshape(4, -1)
        ends = np.cumsum(shapes[:, 1].astype(np.int64) * shapes[:, 2])
        if len(names) != count or (count and ends[-1] != numbers.shape[1]):
            raise NotABlock("a block is cut off")
        return {
            names[at]: _unpacked_run(shapes[at], numbers, int(ends[at]))
            for at in range(count)
            if only is None or names[at] == only
        }
    except (struct.error, zlib.error, ValueError, UnicodeDecodeError) as error:
        raise NotABlock(str(error)) from error


def _unpacked_run(shape: NDArray[np.uint16], numbers: NDArray[np.uint8], end: int) -> Run:
    first, width, slots = (int(each) for each in shape)
    found = np.ascontiguousarray(numbers[:, end - width * slots : end].T).view("<f4").reshape(width, slots)
    return Run(first, found.astype(np.float32))
