"""Rates of faults, by seed.

Every seed has its own mix with about half of the kinds absent ("swarm testing"): with all kinds at all times, one hides
another, and few simulations get far enough to be interesting. `faulty_engine.py` and `random_faults.py` apply those of
the engine; the rates of loop, ledger and control plane are for `tests/simulation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from random import Random


def _up_to(most: float) -> float:
    rate: float = field(default=0.0, metadata={"most": most})
    return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Rates, all zero unless said otherwise. Of one thing (a call, an order, a step): from 0 to 1."""

    # Of each call to the engine.
    observe_away: float = _up_to(0.3)
    away_before: float = _up_to(0.3)
    """The orders of a call are lost on the way there."""
    away_after: float = _up_to(0.3)
    """Some of the orders or all were carried out, and the answer is lost."""
    slow_answer: float = _up_to(0.3)
    """It takes up to 20 s."""

    # Of each order.
    order_lost: float = _up_to(0.3)
    answer_lost: float = _up_to(0.3)
    order_late: float = _up_to(0.3)
    """It arrives up to 30 s later, after orders that were given later."""
    order_twice: float = _up_to(0.3)
    """It arrives at once, and again up to 30 s later."""
    put_off: float = _up_to(0.3)
    refused: float = _up_to(0.1)
    pull_error: float = _up_to(0.2)
    """Of each start: its image cannot be pulled for up to 5 minutes."""

    # An hour, of each pod or node.
    pod_crash: float = _up_to(1.0)
    pod_loss: float = _up_to(0.5)
    node_reboot: float = _up_to(0.5)
    node_short_silence: float = _up_to(1.0)
    """Too short to be declared gone."""
    node_long_silence: float = _up_to(0.5)
    """The agent fences itself, and the node may be declared gone."""
    node_removal: float = _up_to(0.3)

    # Of each step of the loop, or each call to the control plane.
    loop_crash: float = _up_to(0.05)
    second_loop: float = _up_to(0.02)
    disk_full: float = _up_to(0.1)
    clock_jump: float = _up_to(0.02)
    control_away: float = _up_to(0.5)
    control_late: float = _up_to(0.3)
    control_twice: float = _up_to(0.3)

    # Added later, so at the end: a seed draws the rates in this order, and keeps those it had.
    node_set_change: float = _up_to(0.5)
    """An hour, of each node: it is not offered any more while its pods run on, and perhaps another one is instead."""
    record_loss: float = _up_to(1.0)
    """An hour, of each pod: the engine does not see it for a while, although it runs."""
    shim_stop: float = _up_to(1.0)
    """An hour, of each pod: its shim neither reports its exit nor forwards a signal."""
    ignores_stop: float = _up_to(0.5)
    """Of each pod: it ignores SIGTERM, and some have long grace periods. For behaviours."""
    report_cut: float = _up_to(0.5)
    """Of each piece of a report: the link is cut after it, for so long that the loop gives up for now."""
    control_cut: float = _up_to(0.5)
    """An hour: the control plane cannot be reached, for minutes or hours, also after all other faults have ended."""

    @classmethod
    def none(cls) -> Faults:
        """Nothing goes wrong."""
        return cls()

    @classmethod
    def swarm(cls, seed: int) -> Faults:
        """The mix of this seed. Strengths are spread over two orders of magnitude, so that rare is tried too."""
        rng = Random(f"faults {seed}")
        rates = {
            each.name: each.metadata["most"] * 10 ** -rng.uniform(0, 2) if rng.random() < 0.5 else 0.0
            for each in fields(cls)
        }
        return cls(**rates)
