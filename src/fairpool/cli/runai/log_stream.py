"""The output of one pod as a stream for `runai logs`; a follower goes on where it was when the server was restarted."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from fairpool.api.client import Client, Refused, Unreachable
from fairpool.cli.runai.flags import GlobalOptions

T = TypeVar("T")

RETRY_S = 1.0
GIVE_UP_S = 600.0
"""How long the server may be away."""
NOT_READY = (502, 503, 504)
"""Answers of a server, or of a proxy before it, that is being started."""
ROTATED = re.compile(rb"\[fairpool: (\d+) bytes of earlier output were rotated away\]\n")


@dataclass
class Reconnection:
    """Tries again while the server is away. One for all pods of a command, so that an outage is said once."""

    options: GlobalOptions
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: bool = False

    def lost(self, since: float, error: Exception) -> None:
        """Wait before the next try; raises the error if the server was away for too long."""
        if time.monotonic() - since > GIVE_UP_S:
            raise error
        with self._lock:
            if not self._said:
                self.options.warn("The connection to the server was lost; the output goes on when it answers again ...")
            self._said = True
        time.sleep(RETRY_S)

    def back(self) -> None:
        with self._lock:
            self._said = False

    def until_answered(self, ask: Callable[[str], T], workload: str) -> T:
        """The answer to a question about a workload, asked again while the server is away."""
        since: float | None = None
        while True:
            try:
                found = ask(workload)
            except (Unreachable, Refused) as error:
                if not _is_away(error):
                    raise
                since = since or time.monotonic()
                self.lost(since, error)
            else:
                if since is not None:
                    self.back()
                return found


def _is_away(error: Unreachable | Refused) -> bool:
    return isinstance(error, Unreachable) or error.status in NOT_READY


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of the output."""

    tail: int | None
    since: str | None
    timestamps: bool
    follow: bool

    def chunks(self, client: Client, workload: str, pod: str, reconnection: Reconnection) -> Iterator[bytes]:
        """What the pod wrote, without what it wrote before and lost: that is said on standard error."""
        wanted = {"pod": pod, "tail": self.tail, "since": self.since, "timestamps": self.timestamps}
        since: float | None = None
        is_first = True
        while True:
            try:
                for offset, data in client.log_pieces(workload, follow=self.follow, **wanted):
                    if since is not None:
                        reconnection.back()
                        since = None
                    wanted = {"pod": pod, "timestamps": self.timestamps, "offset": offset}
                    dropped = ROTATED.fullmatch(data) if is_first else None
                    is_first = False
                    if dropped is None:
                        yield data
                    else:
                        _say_dropped(reconnection.options, int(dropped[1]))
                return
            except (Unreachable, Refused) as error:
                if is_first or not self.follow or not _is_away(error):
                    raise
                since = since or time.monotonic()
                reconnection.lost(since, error)


def _say_dropped(options: GlobalOptions, dropped: int) -> None:
    size = f"{dropped / 1_000_000:,.0f} MB" if dropped >= 10_000_000 else f"{dropped:,} bytes"
    options.notice(f"{size} of earlier output are no longer kept; the last part is shown.")
