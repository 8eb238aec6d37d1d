"""How a pod ended, `exit.json`: written last, by its shim or in its place.

Used by shims, so it imports next to nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress

from fairpool.agent.durable import read_regular, sync_file, write_durably

NAME = "exit.json"
CONTENT_MAX = 1 << 17

UNKNOWN_EXIT_CODE = 137
"""Reported for a program whose end was not observed. Not zero, so that it is never taken for success."""


class ExitRecord:
    """The exit code of a pod, why it ended, and whether it had a stop notice."""

    __slots__ = ("after_notice", "code", "words")

    def __init__(self, code: int, words: str, after_notice: bool) -> None:
        self.code, self.words, self.after_notice = code, words, after_notice


def write(directory: str, record: ExitRecord, at_ms: int) -> None:
    """On the disk when this returns; after the order, which was not flushed at the start."""
    with suppress(OSError):
        sync_file(f"{directory}/order.json")
    text = {"code": record.code, "words": record.words, "at": at_ms, "after_notice": record.after_notice}
    write_durably(f"{directory}/{NAME}", json.dumps(text).encode())


def read(directory: str) -> ExitRecord | None:
    """None: the pod has not ended, or the file is unreadable; then its shim, or a replacement, writes another."""
    try:
        found = json.loads(read_regular(f"{directory}/{NAME}", CONTENT_MAX))
        return ExitRecord(int(found["code"]), str(found["words"]), bool(found["after_notice"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
