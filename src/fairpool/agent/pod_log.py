"""Reads a pod's log: from an offset, the last lines, or since a moment; with timestamps on request."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairpool.agent.log_segments import log_end, offset_since, read_from, tail_offset, times

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
    if offset is None:
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
    return LogChunk(begin, _stamped(where, begin, data) if timestamps else data, after, is_complete)


def _stamped(directory: str, begin: int, data: bytes) -> bytes:
    entries = times(directory)
    offsets = [offset for offset, _ in entries]
    lines, at = [], begin
    for line in data.splitlines(keepends=True):
        entry = bisect_right(offsets, at) - 1
        lines.append(_stamp(entries[max(entry, 0)][1]) + line if entries else line)
        at += len(line)
    return b"".join(lines)


def _stamp(at_ms: int) -> bytes:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z ".encode()
