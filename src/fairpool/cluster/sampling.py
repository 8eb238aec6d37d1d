"""Samples of a cluster on their way to the control plane, in a thread of their own.

Samples are taken when the seconds of the clock are a multiple of the interval, so that those of all clusters fall into
the same slots. None is taken twice and none is waited for: while the control plane is away the latest few are kept, and
what is older becomes a gap.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.api.samples import SamplesAnswer, SamplesReport
from fairpool.cluster.idle_time import GAP_MS, PodIdleTimes
from fairpool.engines.port import EngineUnreachable, Samples
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.sample import Sample

log = logging.getLogger("fairpool.cluster")

INTERVAL_S: Final = 10
KEPT: Final = 30
"""Samples that wait for a control plane: five minutes."""
NOT_KEPT: Final = "its disk for samples is full or away, or its clock and that of this machine differ by over a minute"


class SampleReceiver(Protocol):
    """The control plane, as far as samples are concerned."""

    def samples(self, report: SamplesReport) -> SamplesAnswer:
        """Take in samples. Raises `ControlPlaneUnreachable`."""

    def close(self) -> None: ...


class Sampling:
    """Takes and sends samples until it is closed."""

    def __init__(
        self,
        engine: Samples,
        receiver: SampleReceiver,
        clock: Callable[[], Instant],
        interval_s: float = INTERVAL_S,
        steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """`steady_ms`: a clock that is never set."""
        self._engine, self._receiver, self._clock, self._steady_ms = engine, receiver, clock, steady_ms
        self._interval_ms = int(interval_s * SECOND_MS)
        self._waiting: deque[SamplesReport] = deque(maxlen=KEPT)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
        self.latest: Sample | None = None
        """From any thread."""
        self._idle = PodIdleTimes()
        self._is_refused = False
        self.taken = 0
        self.dropped = 0
        """Samples that were taken and could not be sent for too long."""

    @property
    def waiting(self) -> int:
        """Samples that are not sent yet."""
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> bool:
        """Returns whether the thread has ended."""
        self._closed.set()
        self._receiver.close()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._closed.wait(self._until_next_s()):
            try:
                self._take()
                self._send()
            except Exception:  # the next one may succeed
                log.exception("no samples were taken")

    def _until_next_s(self) -> float:
        """Also after the time of day was set: never longer than an interval."""
        return (self._interval_ms - self._clock() % self._interval_ms) / SECOND_MS

    def idle(self) -> PodIdleTimes:
        """How long pods have left their GPUs idle, as far as it is known now. From any thread."""
        idle = self._idle
        return idle if self._steady_ms() - idle.at_ms <= GAP_MS else PodIdleTimes()

    def _take(self) -> None:
        try:
            self.latest = self._engine.sample()
        except EngineUnreachable:  # the loop says so already
            return
        self._idle = self._idle.after(self.latest, self._steady_ms())
        if self.latest.nodes:
            self.taken += 1
            self.dropped += len(self._waiting) == KEPT
            self._waiting.append(SamplesReport.of_sample(self.latest))

    def _send(self) -> None:
        while self._waiting and not self._closed.is_set():
            try:
                is_kept = self._receiver.samples(self._waiting[0]).is_kept
                reason = "" if is_kept else NOT_KEPT
            except ControlPlaneUnreachable as error:
                if not error.is_refusal:
                    return
                reason = str(error)  # an older control plane, which is upgraded first
            if reason and not self._is_refused:
                log.warning("the control plane keeps no samples", extra={"fields": {"reason": reason}})
            self._is_refused = bool(reason)
            self._waiting.popleft()
