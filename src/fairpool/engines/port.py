"""The engine interface: two calls that may be repeated without harm, and a wait between them.

The contract, which every engine passes (tests/contracts/test_engine.py):

- `observe` begins after it was called, and returns the same object as last time if nothing has changed since.
- If an observation's number follows that of another, its `changed_pods` contains at least the pods that differ.
- An order is carried out at most once, however often it is sent: a pod is started once, and its grace period runs once.
  A second stop order may shorten the grace period, never extend it.
- A pod that was stopped or has ended is never started (again), nor is one whose order names another boot of its node.
- After a stop order was answered with DONE, the pod is absent or exited in every observation that begins later, or it
  is observed within its grace period. To ensure this, an engine searches for the pod in every way it has, even if its
  record of the pod is lost; it remembers the stop, and enforces the grace period whatever the pod does.
- A node that is no longer offered does not end its pods: they are observed, and can be stopped.
- Once a token has been shown, calls with a lower one raise `Fenced` and have no effect.
- `wait` returns when something may have changed, at the latest when its time is over. It is a hint only: the loop
  observes for itself, and an engine that never gives one is slow, not wrong.
- An engine that cannot be reached raises `EngineUnreachable`: what was done is unknown.

Besides, every engine measures (`Samples`):

- `sample` contains every node that responds, with all its devices by their index, and every pod that was last observed
  to run there.
- What was not measured is None, never 0. Rates are averages since the last sample by a clock that is never set; in the
  first sample of a pod they are None, and so they are after a restart of the engine.
- Together the pods of a device do not have more of a simulated one than there is.
- It needs no token and changes nothing. It may be called by another thread than the loop's, one call at a time, delays
  neither `observe` nor `carry_out`, and returns in a few seconds although a driver hangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairpool.model.ids import Token
from fairpool.model.observation import Observation, Order, OrderResult
from fairpool.model.sample import Sample


class EngineUnreachable(Exception):
    """The engine does not respond. Every call may be retried."""


class Fenced(Exception):
    """Another loop has taken over: this one must not act any more."""

    def __init__(self, highest: Token, mine: Token) -> None:
        super().__init__(f"a newer loop has taken over (token {highest}); orders with token {mine} are rejected")
        self.highest = highest


class Engine(Protocol):
    """Runs pods."""

    def observe(self, token: Token) -> Observation:
        """All nodes and pods. From now on, calls with a lower token are refused."""

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Carry out orders, unless that was done before; a result for each, in the same order."""

    def wait(self, timeout_s: float) -> None:
        """Sleep until something may have changed, `wake` was called, or the time is over."""

    def wake(self) -> None:
        """End the present `wait`, or the next one. From any thread."""


class Samples(Protocol):
    """Measures nodes, their devices and pods."""

    def sample(self) -> Sample:
        """What was used since the last sample."""
