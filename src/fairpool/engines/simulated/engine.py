"""Simulated engine: carries out orders in virtual time, and reports what it observes.

Simulations, scenarios and `fairpool simulate` own one and make things happen to its nodes and pods (`machines.py`).
Unreliable networks are not simulated here; `tests/fault_injection` wraps this engine for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.engines.port import Fenced
from fairpool.engines.simulated.machines import ENDED_BEFORE, SimulatedMachines, work_of
from fairpool.engines.simulated.simulated_node import SimulatedNode
from fairpool.engines.simulated.timeline import PodTimeline, start_timeline, stopped
from fairpool.model.ids import SECOND_MS, Token
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    Order,
    OrderResult,
    OrderStatus,
    StartOrder,
    StopOrder,
)
from fairpool.model.sample import Sample

NO_ANSWER = "the node does not respond"
STOPPED_BEFORE = "this pod was stopped before it started"


class SimulatedEngine(SimulatedMachines):
    """The engine port (`engines/port.py`) to simulated nodes and pods."""

    def observe(self, token: Token) -> Observation:
        """All nodes and pods; the same object as last time if nothing changed."""
        self._pass_time()
        self._check_token(token)
        return self._observed.observation(self._now, self._token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Carry out orders. All results are durable before any is returned."""
        self._pass_time()
        self._check_token(token)
        answers = [self._answer(order, token) for order in orders]
        self._save()
        return answers

    def sample(self) -> Sample:
        """What the nodes and pods used, by their behaviour."""
        now = max(self._now, self._clock.now())
        return self._sampler.take(now, list(self._hosts.values()), list(self._timelines.values()))

    def wait(self, timeout_s: float) -> None:
        """Sleep until something will look different, on a clock that runs by itself."""
        change = self.next_change_at
        left_s = timeout_s if change is None else (change - self._clock.now()) / SECOND_MS
        self._woken.wait(max(0.0, min(timeout_s, left_s)))
        self._woken.clear()

    def wake(self) -> None:
        """From any thread."""
        self._woken.set()

    # --- one order ---

    def _check_token(self, token: Token) -> None:
        if token < self._token:
            raise Fenced(highest=self._token, mine=token)
        if token > self._token:
            self._token = token
            self._changes.note("meta", "token", token)
        if self._changes.has("meta", "token"):
            self._save()

    def _answer(self, order: Order, token: Token) -> OrderResult:
        timeline = self._timelines.get(order.pod)
        at_home = self._hosts.get(timeline.order.node) if timeline is not None else None
        addressed = self._hosts.get(order.node) if order.node is not None else None
        if any(host is not None and host.is_silent for host in (at_home, addressed)):
            return OrderResult(order.pod, OrderStatus.UNKNOWN, NO_ANSWER)
        self._invariants.acted(token)
        self._find(order.pod)
        timeline = self._timelines.get(order.pod)
        match order:
            case StartOrder():
                return self._start(order, timeline, addressed)
            case StopOrder():
                return self._stop(order, timeline)
            case ForgetOrder():
                return self._forget(order, timeline)

    def _start(self, order: StartOrder, timeline: PodTimeline | None, host: SimulatedNode | None) -> OrderResult:
        if timeline is not None:
            if timeline.order.node != order.node:
                self._invariants.ordered_elsewhere(timeline.order, order)
            return OrderResult(order.pod, OrderStatus.DONE)
        if order.pod in self._tombstones:
            return OrderResult(order.pod, OrderStatus.REFUSED, self._tombstones[order.pod])
        if host is None or not host.offered:
            return self._refuse(order, f"there is no node {order.node}")
        if order.boot_id != host.boot_id:
            return self._refuse(order, "the node has rebooted")
        if not host.node.offers(order.devices):
            return self._refuse(order, f"{order.node} does not have all of the devices {list(order.devices)}")
        self._numbers += 1
        done_ms = self._done_ms.get(work_of(order), 0)
        self._alive[order.pod] = None
        self._invariants.started(order, host.node)
        self._on_node[order.node][order.pod] = None
        self._set_timeline(start_timeline(self._numbers, order, self._behaviour_of(order), done_ms, self._now))
        return OrderResult(order.pod, OrderStatus.DONE)

    def _refuse(self, order: StartOrder, words: str) -> OrderResult:
        """A refusal is final: an earlier copy of the order that is still on its way must not start it either."""
        self._add_tombstone(order.pod, words)
        return OrderResult(order.pod, OrderStatus.REFUSED, words)

    def _stop(self, order: StopOrder, timeline: PodTimeline | None) -> OrderResult:
        if timeline is not None:
            self._set_timeline(stopped(timeline, self._now, order.grace_s, order.reason))
        elif order.pod not in self._tombstones:
            self._add_tombstone(order.pod, STOPPED_BEFORE)
        return OrderResult(order.pod, OrderStatus.DONE)

    def _forget(self, order: ForgetOrder, timeline: PodTimeline | None) -> OrderResult:
        if timeline is not None and not timeline.is_over(self._now):
            return OrderResult(order.pod, OrderStatus.LATER, "it has not ended yet")
        if timeline is not None or order.pod not in self._tombstones:
            self._vanish(order.pod, ENDED_BEFORE)
        return OrderResult(order.pod, OrderStatus.DONE)
