"""Reads a pod's log: from an offset, the last lines, or since a moment; with timestamps on request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairpool.agent.log_segments import log_end, offset_since, read_from, segment_starts, tail_offset, times

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of output. To follow the log, read again from `next_offset` until it is complete."""

    offset: int
    """Where it begins; later than asked if the place was rotated away."""
    data: bytes
    next_offset: int
    is_complete: bool
    """The pod is over and this is the last piece."""
    stamp_bytes: int = 0
    """Of the timestamp before each line; they do not count in offsets."""
    dropped: int = 0
    """Bytes that were rotated away before the last lines, or what came since, were asked for."""

    def parts(self, most: int) -> Iterator[tuple[bytes, int]]:
        """Its data in parts of at most so many bytes, each with the offset after it. Lines with timestamps are kept
        whole where they can be: from the middle of one, a reader would get its timestamp again."""
        at, part, size = self.offset, list[bytes](), 0
        for line in self.data.splitlines(keepends=True) if self.stamp_bytes else [self.data]:
            stamp = self.stamp_bytes
            for start in range(0, len(line), most):
                piece = line[start : start + most]
                if part and size + len(piece) > most:
                    yield b"".join(part), at
                    part, size = [], 0
                part.append(piece)
                size += len(piece)
                at += len(piece) - stamp
                stamp = 0
        if part:
            yield b"".join(part), at


def read_log(
    directory: Path,
    *,
    is_over: bool,
    offset: int | None = None,
    tail_lines: int | None = None,
    since_ms: int | None = None,
    limit_bytes: int = PIECE_BYTES,
    timestamps: bool = False,
) -> LogChunk:
    """One piece of output. Without an offset it begins where the last lines, or what came since, begin."""
    where = str(directory)
    dropped = 0
    if offset is None:
        dropped = next(iter(segment_starts(where)), 0)
        begins = [0]
        if tail_lines is not None and tail_lines >= 0:
            begins.append(tail_offset(where, tail_lines))
        if since_ms is not None:
            begins.append(offset_since(where, since_ms))
        offset = max(begins)
    begin, data = read_from(where, offset, limit_bytes)
    if timestamps and not (is_over and begin + len(data) >= log_end(where)):
        whole = data.rfind(b"\n") + 1
        if whole or len(data) < limit_bytes:  # a line is stamped when it is whole, unless it fills the piece
            data = data[:whole]
    after = begin + len(data)
    is_complete = is_over and after >= log_end(where)
    entries = times(where) if timestamps else []
    if not entries:
        return LogChunk(begin, data, after, is_complete, dropped=dropped)
    return LogChunk(begin, _stamped(entries, begin, data), after, is_complete, STAMP_BYTES, dropped)


def _stamped(entries: Sequence[tuple[int, int]], begin: int, data: bytes) -> bytes:
    offsets = [offset for offset, _ in entries]
    lines, at = [], begin
    for line in data.splitlines(keepends=True):
        entry = bisect_right(offsets, at) - 1
        lines.append(_stamp(entries[max(entry, 0)][1]) + line)
        at += len(line)
    return b"".join(lines)


STAMP_BYTES = len("2026-11-15T12:00:00.000Z ")


def _stamp(at_ms: int) -> bytes:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z ".encode()
