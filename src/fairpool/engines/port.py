"""The seam to where pods run: two verbs that may be repeated without harm.

The contract, which every engine passes (tests/contracts/test_engine.py):

- `observe` looks after it was called, and returns the very same object as last time if nothing has changed since;
- an order is carried out at most once, however often it is given: a life is started once, and its grace
  runs once: a second stop may make it shorter, never longer;
- a life that was stopped or has ended never starts (again), nor does an order for another boot of its node;
- after a stop was answered with DONE the life is absent or exited in every observation that begins later, or still
  within its grace, and then it is seen. To be sure, an engine looks for what it is told to stop in every way it has,
  also where its record of it is lost, and remembers whom it has told; it keeps to the grace whatever the pod does;
- a node that is not offered any more does not end what runs there: that is seen, and can be stopped;
- once a token has been shown, orders with a lower one raise `Outranked` and do nothing;
- whoever cannot be reached raises `Away`: nobody knows what was done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairpool.model.ids import Token
from fairpool.model.observation import Observation, Order, OrderResult


class EngineUnreachable(Exception):
    """The engine does not answer. Everything may be tried again later."""


class Fenced(Exception):
    """Another loop has taken over; whoever is told this must not act any more."""

    def __init__(self, highest: Token, mine: Token) -> None:
        super().__init__(f"a newer loop has taken over (token {highest}); orders with token {mine} are rejected")
        self.highest = highest


class Engine(Protocol):
    """Where pods run."""

    def observe(self, token: Token) -> Observation:
        """Everything there is, and from now on obey nobody with a lower token."""

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Do these, or make sure that they were done; an answer for each, in the same order."""
