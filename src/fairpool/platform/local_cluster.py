"""The cluster in the server's own process: the scheduling loop's thread with its ledger and its link to control."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.cycle_ring import CycleRing
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.cluster.long_poll import LongPoll
from fairpool.cluster.loop import Loop
from fairpool.cluster.questions import Questions
from fairpool.control.clusters import cluster_beside
from fairpool.control.plane import Plane
from fairpool.engines.local import LocalEngine
from fairpool.platform.in_process import InProcessControl
from fairpool.platform.loop_thread import LoopThread, Waker, note_event, now

log = logging.getLogger("fairpool.up")

HOLDER = "fairpool up"
"""Of the lease. The same for every process on one data directory: its lock makes sure that there is only one."""
STOP_TIMEOUT_S = 10.0
CYCLES = "cycles"
"""The directory of past cycles, beside the ledger."""
REPORT_DELAY_MS = 30
"""A process runs some 10 ms after it was ordered."""


@dataclass(slots=True)
class LocalCluster:
    """The scheduling loop and what it needs."""

    ledger: Ledger
    waker: Waker
    long_poll: LongPoll
    calls: tuple[InProcessControl, InProcessControl]
    loop_thread: LoopThread
    is_stuck: bool = False
    """Its thread has not ended: nothing that it may still use can be closed."""

    @property
    def is_settled(self) -> bool:
        return self.loop_thread.is_settled.is_set()

    def start(self) -> None:
        self.long_poll.open()
        self.loop_thread.start()

    def stop(self) -> None:
        """Blocks; the control plane must still be running. Pods are not affected."""
        direct, waiting = self.calls
        waiting.close()  # ends the pull that is held
        if not self.loop_thread.stop(STOP_TIMEOUT_S):
            log.error("the scheduling loop did not finish within %g s; exiting without it", STOP_TIMEOUT_S)
            self.is_stuck = True
            return
        self.long_poll.close(STOP_TIMEOUT_S)
        direct.close()
        self.ledger.close()
        self.waker.close()


@asynccontextmanager
async def local_cluster(
    plane: Plane, engine: LocalEngine, ledger_file: Path, on_step_down: Callable[[str], None]
) -> AsyncIterator[LocalCluster]:
    """Run the scheduling loop; `on_step_down` is called on this event loop if another one has taken over."""
    own = await cluster_beside(plane)
    event_loop = asyncio.get_running_loop()
    direct, waiting = (InProcessControl(plane, own.uuid, event_loop) for _ in range(2))
    waker = Waker(engine.supervisor.wake_descriptors())
    long_poll = LongPoll(direct, waiting, waker.wake)
    ledger = await asyncio.to_thread(Ledger, ledger_file)
    ring = CycleRing(ledger_file.parent / CYCLES)
    live = LiveSnapshots(ring.offer)

    def make_loop() -> Loop:
        link = ControlLink(long_poll, own.name)
        return Loop(
            ledger,
            engine,
            link,
            now,
            holder=HOLDER,
            report_delay_ms=REPORT_DELAY_MS,
            on_event=note_event,
            on_snapshot=live.note,
        )

    def step_down(why: str) -> None:
        event_loop.call_soon_threadsafe(on_step_down, why)

    loop_thread = await asyncio.to_thread(LoopThread, make_loop, waker, step_down)
    cluster = LocalCluster(ledger, waker, long_poll, (direct, waiting), loop_thread)
    plane.pod_access.local_answers = Questions(live, lambda each: loop_thread.loop.cache.specs.get(each), now, ring)
    ring.start()
    cluster.start()
    try:
        yield cluster
    finally:
        await asyncio.to_thread(cluster.stop)
        await asyncio.to_thread(ring.stop, STOP_TIMEOUT_S)
