"""A pod's output on disk: segments named by the offset they begin at, the oldest dropped when there are too many.

An offset counts every byte the pod ever wrote, so a reader that was away goes on where it stopped, also across
rotations. Beside each segment lies an index of when its bytes came, for `--since` and `--timestamps`.
The shim writes, others read, without locks.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from contextlib import suppress

SEGMENT = "log."
INDEX = "times."
_ENTRY = struct.Struct("<QQ")
INDEX_STEP_MS = 20
"""Output that comes closer together shares a time."""
INDEX_COARSER = 1 << 14
"""After so many entries the step is twice as long, and so on: writing a byte at a time fills no disk with times."""
INDEX_MAX_BYTES = 4 << 20
"""Of one index, when it is read; more than a shim writes."""


class LogWriter:
    """Appends output; only one shim at a time has one. Files are created when there is something to write."""

    def __init__(self, directory: str, segment_bytes: int, segments: int) -> None:
        self._directory, self._segment_bytes, self._segments = directory, segment_bytes, segments
        self._file = self._index = -1
        self._start = self._size = self._timed_ms = self._entries = 0

    @property
    def offset(self) -> int:
        return self._start + self._size

    def write(self, data: bytes, now_ms: int) -> None:
        """Append, going on in a new segment when this one is full. What the disk does not take is lost: better a gap
        in its log than a program that hangs on its output, or a shim that dies of it."""
        try:
            if self._file < 0:
                self._open_latest()
            while data:
                if self._size >= self._segment_bytes:
                    self._rotate()
                self._note_time(now_ms)
                written = os.write(self._file, data[: self._segment_bytes - self._size])
                self._size += written
                data = data[written:]
        except OSError:
            return

    def close(self) -> None:
        for fd in (self._file, self._index):
            if fd >= 0:
                os.close(fd)
        self._file = self._index = -1

    def _note_time(self, now_ms: int) -> None:
        step_ms = INDEX_STEP_MS << min(self._entries // INDEX_COARSER, 16)
        if 0 <= now_ms - self._timed_ms < step_ms:  # earlier than the last one: the clock was set back
            return
        written = os.write(self._index, _ENTRY.pack(self.offset, now_ms))
        if written < _ENTRY.size:  # half an entry would shift all that follow
            os.ftruncate(self._index, os.fstat(self._index).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._timed_ms = now_ms
        self._entries += 1

    def _open_latest(self) -> None:
        starts = segment_starts(self._directory)
        self._open(starts[-1] if starts else 0)

    def _open(self, start: int) -> None:
        """Continue in this segment; if it cannot be opened, nothing has changed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(f"{self._directory}/{SEGMENT}{start}", flags, 0o600)
        try:
            index = os.open(f"{self._directory}/{INDEX}{start}", flags, 0o600)
        except OSError:
            os.close(file)
            raise
        self.close()
        self._file, self._index = file, index
        self._start, self._size, self._timed_ms = start, os.fstat(file).st_size, 0
        self._entries = os.fstat(index).st_size // _ENTRY.size

    def _rotate(self) -> None:
        self._drop_oldest(self._segments - 1)  # before, so that its room is there for the new one
        self._open(self.offset)
        self._drop_oldest(self._segments)

    def _drop_oldest(self, kept: int) -> None:
        starts = segment_starts(self._directory)
        for start in starts[: max(0, len(starts) - kept)]:
            for kind in (SEGMENT, INDEX):
                if start != self._start:
                    with suppress(OSError):
                        os.unlink(f"{self._directory}/{kind}{start}")


def segment_starts(directory: str) -> list[int]:
    """Offsets at which the segments there are begin, in order."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    starts = (name[len(SEGMENT) :] for name in names if name.startswith(SEGMENT))
    return sorted(int(start) for start in starts if start.isascii() and start.isdigit())


def log_end(directory: str) -> int:
    """The offset after the last byte so far."""
    starts = segment_starts(directory)
    return starts[-1] + _size(f"{directory}/{SEGMENT}{starts[-1]}") if starts else 0


def read_from(directory: str, offset: int, limit: int) -> tuple[int, bytes]:
    """At most `limit` bytes from an offset on, and where they really begin: later if the place was rotated away."""
    parts: list[bytes] = []
    begin = None
    for start in segment_starts(directory):
        path = f"{directory}/{SEGMENT}{start}"
        at = max(start, offset)
        if limit <= 0 or at >= start + _size(path):
            continue
        if begin is None:
            begin = at
        elif at != begin + sum(map(len, parts)):
            break  # a gap: the next read returns where it really begins
        part = _part(path, at - start, limit)
        parts.append(part)
        limit -= len(part)
    return (offset if begin is None else begin), b"".join(parts)


def tail_offset(directory: str, lines: int) -> int:
    """Where the last so many lines begin."""
    end = at = log_end(directory)
    first = next(iter(segment_starts(directory)), 0)
    if lines <= 0 or at == first:
        return end
    missing = lines
    while at > first:
        step = max(first, at - 65536)
        begin, data = read_from(directory, step, at - step)
        if at == end and data.endswith(b"\n"):
            data = data[:-1]
        if (found := data.count(b"\n")) >= missing:
            for _ in range(missing):
                data = data[: data.rindex(b"\n")]
            return begin + len(data) + 1
        missing -= found
        at = step
    return first


def times(directory: str) -> list[tuple[int, int]]:
    """(offset, milliseconds since the epoch) where output came after a pause, in order."""
    entries: list[tuple[int, int]] = []
    for start in segment_starts(directory):
        data = _part(f"{directory}/{INDEX}{start}", 0, INDEX_MAX_BYTES)
        entries.extend(_ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]))
    return entries


def offset_since(directory: str, since_ms: int) -> int:
    """Where the output that came at this moment or later begins."""
    return next((offset for offset, at in times(directory) if at >= since_ms), log_end(directory))


def _size(path: str) -> int:
    try:
        about = os.lstat(path)
    except OSError:
        return 0
    return about.st_size if stat.S_ISREG(about.st_mode) else 0


def _part(path: str, at: int, limit: int) -> bytes:
    """A piece of a regular file; empty for anything else, and for a file that was removed meanwhile."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        file.seek(at)
        return file.read(limit)
