"""How a pod behaves once it is started: how long everything takes, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from fairpool.model.observation import StartOrder
from fairpool.model.workload import WorkloadKind


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


NEVER_S = 10.0**9
"""Longer than anybody waits."""


def seeded(
    seed: int, *, run_s: tuple[float, float] = (60, 7200), failing: float = 0.02, ignores_stop: float = 0.0
) -> BehaviourOf:
    """Behaviours that depend on nothing but the seed and the life.

    How much work a pod has is the same in all its lives. `failing` is the part of lives that exit with 1, somewhere on
    the way, `deaf` that of lives that do not leave when they are told to.
    """

    def behaviour(order: StartOrder) -> Behaviour:
        # Not hash(): that of a string differs from process to process.
        pod = Random(f"{seed} {order.workload} {order.index}")
        life = Random(f"{seed} {order.workload} {order.index} {order.incarnation}")
        work_s = round(pod.uniform(*run_s), 3)
        checkpoint_s = pod.choice((0, 60, 600, None))
        fails = life.random() < failing
        ignores_stop_now = ignores_stop > 0 and Random(f"{seed} {order.pod} deaf").random() < ignores_stop
        return Behaviour(
            pull_s=round(life.choice((0, life.uniform(0, 10), life.uniform(0, 90))), 3),
            start_s=round(life.uniform(0.1, 5), 3),
            run_s=_run_s(order, work_s, life.random() if fails else 1),
            exit_code=1 if fails else 0,
            checkpoint_s=checkpoint_s,
            stop_s=NEVER_S
            if ignores_stop_now
            else round(life.choice((0, life.uniform(0, 20), life.uniform(0, 60))), 3),
        )

    return behaviour


def _run_s(order: StartOrder, work_s: float, part: float) -> float | None:
    if order.kind is WorkloadKind.INFERENCE and part == 1:
        return None
    return round(work_s * part, 3)
