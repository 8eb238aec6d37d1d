"""The notice a life is given, `stop.json`: how long it still has, and why it must leave.

The moment is written by a clock that neither a restart of the server nor a change of the time of day moves: seconds
since boot, suspended time included. A life belongs to one boot, so that is enough. Whoever reads the notice later, an
heir or the next server, goes on with what is left of the grace and never begins it anew. Used by shims too, so it
imports next to nothing.
"""

from __future__ import annotations

import json
import os
import time

from fairpool.agent.durable import read_regular, replace_file

NAME = "stop.json"
CONTENT_MAX = 1 << 17
GRACE_MAX_S = 366 * 24 * 3600.0
"""Longer than any grace that is accepted; beyond it, numbers no longer fit into what the kernel takes."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError)
"""What reading JSON of unknown content may raise."""


class Notice:
    """A notice as it was read."""

    __slots__ = ("kill_at", "reason")

    def __init__(self, kill_at: float, reason: str) -> None:
        self.kill_at = kill_at
        """When the grace is over, by `now()`."""
        self.reason = reason

    @property
    def left_s(self) -> float:
        return max(0.0, self.kill_at - now())


def now() -> float:
    """Seconds since the machine was started, by the clock of all notices."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def bounded(grace_s: float) -> float:
    """A grace as the kernel can count it."""
    if grace_s <= 0:
        return 0.0
    return grace_s if grace_s < GRACE_MAX_S else GRACE_MAX_S  # also what is no number at all


def give(folder: str, grace_s: float, reason: str) -> None:
    """Leave the notice. Of several the one that ends first counts, so that a grace is never begun anew."""
    grace_s, at = bounded(grace_s), now()
    before = read(folder)
    if before is not None and before.kill_at <= at + grace_s:
        return
    # Nobody starts it after another boot, so the disk need not know.
    text = {"grace_s": grace_s, "reason": reason, "at_s": at}
    replace_file(f"{folder}/{NAME}", json.dumps(text).encode())


def is_given(folder: str) -> bool:
    return os.path.lexists(f"{folder}/{NAME}")


def read(folder: str) -> Notice | None:
    """None: there is none, or nobody can read it. One of an earlier version, without its moment, counts from now."""
    try:
        told = json.loads(read_regular(f"{folder}/{NAME}", CONTENT_MAX))
        grace_s, reason = bounded(float(told["grace_s"])), str(told["reason"])
        at, present = float(told.get("at_s", now())), now()
    except UNREADABLE:
        return None
    # Whatever is written there, a grace never ends later than if it began now.
    return Notice((at if at <= present else present) + grace_s, reason)
