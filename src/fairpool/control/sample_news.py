"""Which clusters have new samples: told to streams of changes, so that pages read what is measured again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from fairpool.control.notifier import Notifier
from fairpool.control.store.database import SAMPLES

APART_S: Final = 8.0
"""Between two announcements of a cluster. It samples every 10 s, and sometimes a little sooner."""


class SampleNews:
    """Counts announcements by cluster. For one event loop, except where it says so."""

    def __init__(self, notifier: Notifier, seconds: Callable[[], float] = time.monotonic) -> None:
        self._notifier = notifier
        self._seconds = seconds
        self._counts: Counter[str] = Counter()
        self._announced_at: dict[str, float] = {}
        self.announce_elsewhere: Callable[[str], None] = lambda cluster: None
        """Other processes of the same database."""

    @property
    def counts(self) -> Mapping[str, int]:
        """As they are now; keep them, to learn later what is new."""
        return dict(self._counts)

    def since(self, counts: Mapping[str, int]) -> list[str]:
        """Clusters with samples that were announced after these counts."""
        return sorted(cluster for cluster, count in self._counts.items() if count > counts.get(cluster, 0))

    def announcer(self, cluster: str) -> Callable[[], None]:
        """To call, from any thread, when samples of a cluster are stored."""
        loop = asyncio.get_running_loop()

        def announce() -> None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(self.stored, cluster)

        return announce

    def stored(self, cluster: str) -> None:
        """Samples of a cluster were stored here."""
        now = self._seconds()
        if now - self._announced_at.get(cluster, -APART_S) < APART_S:
            return
        self._announced_at[cluster] = now
        self.announce_elsewhere(cluster)
        self._counts[cluster] += 1
        self._notifier.notify()

    def heard(self, said: frozenset[str]) -> None:
        """What another process has said; streams are woken by the caller."""
        for word in said:
            noun, _, cluster = word.partition("/")
            if noun == SAMPLES and cluster:
                self._counts[cluster] += 1
