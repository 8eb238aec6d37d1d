"""Behaviour of a simulated pod: how long each step takes, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairpool.model.observation import StartOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Durations and exit code of one pod, unless it is stopped or fails by a fault."""

    pull_s: float = 0
    start_s: float = 0
    """From the image being pulled to running."""
    run_s: float | None = None
    """Work until it exits by itself, including that of the pods it replaces; None: it runs until it is stopped."""
    exit_code: int = 0
    checkpoint_s: float | None = 0
    """Checkpoint interval: so much work is kept for its replacement; 0: all of it; None: nothing."""
    stop_s: float = 0
    """From SIGTERM to its exit. If that is longer than its grace period, it is killed."""
    pull_error: str | None = None
    """Why its image cannot be pulled, such as `ErrImagePull: no such image`."""
    pull_error_s: float | None = None
    """How long that lasts; None: for ever."""
    load: float = 1
    """Part of what it asked for that it uses while it runs: cores, memory, computing time of its devices."""


BehaviourOf = Callable[[StartOrder], Behaviour]


def same_behaviour(behaviour: Behaviour) -> BehaviourOf:
    """The same behaviour for every pod."""
    return lambda order: behaviour


RUNS_UNTIL_STOPPED: BehaviourOf = same_behaviour(Behaviour())
"""Starts at once, never exits by itself, stops at once."""
