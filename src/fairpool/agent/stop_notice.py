"""The stop notice of a pod, `stop.json`: when its grace period ends, and why it is stopped.

The deadline is in seconds since boot, suspended time included: a clock that neither a restart of the server nor a
change of the time of day moves. A pod never outlives a boot, so that is enough. A replacement shim or the next server
reads the notice and continues with what is left of the grace period. Used by shims, so it imports next to nothing.
"""

from __future__ import annotations

import json
import os
import time

from fairpool.agent.durable import read_regular, replace_file

NAME = "stop.json"
CONTENT_MAX = 1 << 17
GRACE_MAX_S = 366 * 24 * 3600.0
"""Longer than any grace period that is accepted; larger numbers do not fit into what the kernel takes."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError)
"""What reading JSON of unknown content may raise."""


class StopNotice:
    """A stop notice as it was read."""

    __slots__ = ("kill_at", "reason")

    def __init__(self, kill_at: float, reason: str) -> None:
        self.kill_at = kill_at
        """When the grace period ends, by `now()`."""
        self.reason = reason

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.kill_at - now())


def now() -> float:
    """Seconds since the machine booted: the clock of all stop notices."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def bounded(grace_s: float) -> float:
    """A grace period that the kernel can count."""
    if grace_s <= 0:
        return 0.0
    return grace_s if grace_s < GRACE_MAX_S else GRACE_MAX_S  # NaN too


def write(directory: str, grace_s: float, reason: str) -> None:
    """Write the notice. Of several the earliest deadline counts, so that a grace period never starts anew."""
    grace_s, at = bounded(grace_s), now()
    before = read(directory)
    if before is not None and before.kill_at <= at + grace_s:
        return
    # Not flushed: after another boot the pod is not started anyway.
    text = {"grace_s": grace_s, "reason": reason, "at_s": at}
    replace_file(f"{directory}/{NAME}", json.dumps(text).encode())


def exists(directory: str) -> bool:
    return os.path.lexists(f"{directory}/{NAME}")


def read(directory: str) -> StopNotice | None:
    """None: there is none, or it is unreadable. One without `at_s`, from an earlier version, counts from now."""
    try:
        content = json.loads(read_regular(f"{directory}/{NAME}", CONTENT_MAX))
        grace_s, reason = bounded(float(content["grace_s"])), str(content["reason"])
        at, present = float(content.get("at_s", now())), now()
    except UNREADABLE:
        return None
    # Whatever the file contains, a grace period never ends later than if it began now.
    return StopNotice((at if at <= present else present) + grace_s, reason)
