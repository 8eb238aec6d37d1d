"""Blocks: samples of several subjects over a few slots of time, packed for the disk.

A subject (a device, a pod, a project) has a run of slots in which it existed, with a row for each of its metrics. What
was not measured is NaN. The first row is always the coverage: which part of each slot was measured. Averages are
weighted with it, so that a slot with one sample of six counts for a sixth.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpool.metrics.resolution import Resolution

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
        return self.first + self.values.shape[1]


Block = Mapping[str, Run]


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample of several subjects: a row for each, a column for each metric without the coverage."""

    slot: int
    subjects: Sequence[str]
    values: Values


def of_ticks(ticks: Sequence[Tick]) -> Block:
    """A block of samples that came one by one. Of two for one slot, the later counts."""
    rows: dict[str, dict[int, Values]] = {}
    for tick in ticks:
        for subject, row in zip(tick.subjects, tick.values, strict=True):
            rows.setdefault(subject, {})[tick.slot] = row
    return {subject: _run(found) for subject, found in rows.items()}


def _run(found: Mapping[int, Values]) -> Run:
    first, last = min(found), max(found)
    width = max(len(row) for row in found.values())
    values = np.full((width + 1, last - first + 1), np.nan, np.float32)
    values[COVERAGE] = 0
    for slot, row in found.items():
        values[1 : len(row) + 1, slot - first] = row
        values[COVERAGE, slot - first] = 1
    return Run(first, values)


def averaged(blocks: Sequence[tuple[int, Block]], fine: Resolution, coarse: Resolution, start_s: int) -> Block:
    """The block of a coarser resolution that begins at `start_s`, from finer ones and the times at which they begin."""
    runs: dict[str, list[tuple[int, Run]]] = {}
    for begins_s, block in blocks:
        offset = (begins_s - start_s) // fine.step_s
        for subject, run in block.items():
            runs.setdefault(subject, []).append((offset + run.first, run))
    ratio = coarse.step_s // fine.step_s
    return {subject: _averaged(found, ratio) for subject, found in runs.items()}


def _averaged(runs: Sequence[tuple[int, Run]], ratio: int) -> Run:
    first = min(offset for offset, _ in runs) // ratio
    end = max(-(-(offset + run.values.shape[1]) // ratio) for offset, run in runs)
    width = max(len(run.values) for _, run in runs)
    fine = np.full((width, (end - first) * ratio), np.nan, np.float32)
    fine[COVERAGE] = 0
    for offset, run in runs:
        place = offset - first * ratio
        fine[: len(run.values), place : place + run.values.shape[1]] = run.values
    slots = fine.reshape(width, end - first, ratio)
    weights = np.where(np.isnan(slots), np.float32(0), slots[COVERAGE])
    total = weights.sum(axis=2)
    with np.errstate(invalid="ignore"):
        values = (np.nan_to_num(slots, nan=0.0) * weights).sum(axis=2) / total
    values[COVERAGE] = slots[COVERAGE].mean(axis=1)
    return Run(first, values.astype(np.float32))


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
