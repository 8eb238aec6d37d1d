"""How a pod behaves once it is started: how long everything takes, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairpool.model.observation import StartOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """One life of one pod, if nobody interferes."""

    pull_s: float = 0
    start_s: float = 0
    """From the image being there to running."""
    run_s: float | None = None
    """Work until it exits by itself, that of earlier lives included; None: it runs until it is stopped."""
    exit_code: int = 0
    checkpoint_s: float | None = 0
    """Work is kept in pieces of this length for the next life; 0: all of it; None: nothing, it starts from zero."""
    stop_s: float = 0
    """From the notice to its end. More than the grace it is given: it is killed."""
    pull_error: str | None = None
    """What goes wrong when the image is pulled, such as `ErrImagePull: no such image`."""
    pull_error_s: float | None = None
    """How long that goes on until the image can be had; None: for ever."""


BehaviourOf = Callable[[StartOrder], Behaviour]


def always(behaviour: Behaviour) -> BehaviourOf:
    """Every pod behaves like this."""
    return lambda order: behaviour


RUNS_UNTIL_STOPPED: BehaviourOf = always(Behaviour())
"""Starts at once, never ends by itself, leaves as soon as it is told to."""
