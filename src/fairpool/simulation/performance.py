"""Runs a scenario: cycles, due actions, next moment.

Virtual time jumps. In real time it waits before each jump as long as the jump is, divided by the speed; nothing else
is different, so the outcome is the same. While it is not played, the time of a simulation stands still.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.simulation.checkpoint import Checkpoint
from fairpool.simulation.script import Script
from fairpool.simulation.world import Stage

GLANCE_S = 0.1
"""How often a watcher is told while real time passes."""

Spectator = Callable[[Stage, float], None]
"""Is shown the stage and how much of the script is done."""


@dataclass
class Pace:
    """Waits for real time; without a speed it does not."""

    speed: float | None = None
    _real_s: float = 0.0
    _virtual: Instant | None = None

    def wait_until(self, moment: Instant, now: Instant, glance: Callable[[], None]) -> None:
        if self.speed is None:
            return
        if self._virtual is None:
            self._real_s, self._virtual = time.monotonic(), now
        due_s = self._real_s + (moment - self._virtual) / SECOND_MS / self.speed
        while (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, GLANCE_S))
            glance()


def play(stage: Stage, checkpoint: Checkpoint, pace: Pace, spectator: Spectator) -> None:
    """To the end of the script, from wherever it is."""
    script = Script(stage, checkpoint)
    if checkpoint.position.in_batch:
        script.go_on()
    while not script.is_over:
        stage.rest()
        spectator(stage, script.part_done)
        if script.go_on() or script.is_over:
            continue
        moment = _next_moment(stage, script)
        if moment is None:
            script.give_up()
            continue
        checkpoint.position.now = moment
        checkpoint.keep()  # before anything happens at that moment: who continues must not be earlier
        pace.wait_until(moment, stage.now, lambda: spectator(stage, script.part_done))
        stage.clock.set(moment)
    stage.rest()


def _next_moment(stage: Stage, script: Script) -> Instant | None:
    """When something is due; None: never, if nothing is submitted or changed."""
    by_itself = stage.next_moment()
    if by_itself is None and script.waits_for_others:
        return None
    moments = [each for each in (by_itself, script.wakes_at()) if each is not None]
    return max(min(moments), stage.now)
