"""Runs a scenario: cycles, due actions, next moment.

Virtual time jumps. In real time it waits before each jump as long as the jump is, divided by the speed; nothing else
is different, so the outcome is the same. While no process runs it, the time of a simulation stands still.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.simulation.checkpoint import Checkpoint
from fairpool.simulation.script import Script
from fairpool.simulation.simulated_cluster import SimulatedCluster

PROGRESS_S = 0.1
"""How often progress is shown while real time passes."""

ProgressCallback = Callable[[SimulatedCluster, float], None]
"""Called with the cluster and the fraction of the script that is done."""


@dataclass
class Pacer:
    """Waits for real time; without a speed it does not."""

    speed: float | None = None
    is_stopped: bool = False
    """Set from outside: the run ends before the next moment."""
    _real_s: float = 0.0
    _virtual: Instant | None = None

    def wait_until(self, moment: Instant, now: Instant, show_progress: Callable[[], None]) -> bool:
        """False: it was stopped."""
        if self.speed is not None:
            if self._virtual is None:
                self._real_s, self._virtual = time.monotonic(), now
            due_s = self._real_s + (moment - self._virtual) / SECOND_MS / self.speed
            while not self.is_stopped and (left_s := due_s - time.monotonic()) > 0:
                time.sleep(min(left_s, PROGRESS_S))
                show_progress()
        return not self.is_stopped


def run_scenario(
    cluster: SimulatedCluster, checkpoint: Checkpoint, pacer: Pacer, show_progress: ProgressCallback
) -> None:
    """Run the script from the position of the checkpoint to its end, or until it is stopped."""
    script = Script(cluster, checkpoint)
    if checkpoint.position.in_batch:
        script.advance()
    while not script.is_over:
        cluster.rest()
        show_progress(cluster, script.part_done)
        if script.advance() or script.is_over:
            continue
        moment = _next_moment(cluster, script)
        if moment is None:
            script.give_up()
            continue
        checkpoint.position.now = moment
        checkpoint.keep()  # before anything happens at that moment: a process that continues must not be earlier
        if not pacer.wait_until(moment, cluster.now, lambda: show_progress(cluster, script.part_done)):
            return
        cluster.clock.set(moment)
    cluster.rest()


def _next_moment(cluster: SimulatedCluster, script: Script) -> Instant | None:
    """When something is due; None: never, if nothing is submitted or changed."""
    by_itself = cluster.next_moment()
    if by_itself is None and script.waits_for_condition:
        return None
    moments = [each for each in (by_itself, script.wakes_at()) if each is not None]
    return max(min(moments), cluster.now)
