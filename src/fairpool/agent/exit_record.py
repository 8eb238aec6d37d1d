"""How a pod ended, `exit.json`: written last, by its shim or in its place.

It is a second name of the file with the order, to which the record is added as a line of its own: one file less to
create and to flush for each pod. The record is the last line that is one. Used by shims, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress

from fairpool.agent.durable import read_regular, sync_directory, sync_file, write_all, write_durably

NAME = "exit.json"
ORDER = "order.json"
CONTENT_MAX = 1 << 17
WRITERS_MAX = 16
"""Lines that are looked through from the end, whatever a pod may have put there."""

UNKNOWN_EXIT_CODE = 137
"""Reported for a program whose end was not observed. Not zero, so that it is never taken for success."""


class ExitRecord:
    """The exit code of a pod, why it ended, and whether it had a stop notice."""

    __slots__ = ("after_notice", "code", "words")

    def __init__(self, code: int, words: str, after_notice: bool) -> None:
        self.code, self.words, self.after_notice = code, words, after_notice


def write(directory: str, record: ExitRecord, at_ms: int) -> None:
    """On the disk when this returns, with the order, which was not flushed at the start."""
    values = {"code": record.code, "words": record.words, "at": at_ms, "after_notice": record.after_notice}
    text = json.dumps(values).encode()
    try:
        _add_to_order(directory, text)
    except OSError:  # no order any more, a very long one, another record, or a file system without hard links
        with suppress(OSError):
            sync_file(f"{directory}/{ORDER}")
        write_durably(f"{directory}/{NAME}", text)


def _add_to_order(directory: str, text: bytes) -> None:
    order = os.open(f"{directory}/{ORDER}", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(order).st_size + len(text) >= CONTENT_MAX:
            raise OSError(errno.EFBIG, f"{ORDER} is long")
        # Begins with a line break, so that one that was cut off by a full disk damages only itself.
        write_all(order, b"\n" + text)
        os.fsync(order)
    finally:
        os.close(order)
    os.link(f"{directory}/{ORDER}", f"{directory}/{NAME}")
    sync_directory(directory)


def read(directory: str) -> ExitRecord | None:
    """None: the pod has not ended, or the file is unreadable; then its shim, or a replacement, writes another."""
    try:
        lines = read_regular(f"{directory}/{NAME}", CONTENT_MAX).rsplit(b"\n", WRITERS_MAX)
    except OSError:
        return None
    # A second writer, such as the reaper beside a shim, may have been cut off after the first had written all.
    return next((record for line in reversed(lines) if (record := _parsed(line)) is not None), None)


def _parsed(line: bytes) -> ExitRecord | None:
    try:
        found = json.loads(line)
        return ExitRecord(int(found["code"]), str(found["words"]), bool(found["after_notice"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
