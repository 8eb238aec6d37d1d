"""An unreliable engine: orders are lost, late or repeated, and answers are lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from fairpool.engines.port import EngineUnreachable, Fenced
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.model.ids import SECOND_MS, Instant, PodId, Token
from fairpool.model.observation import Observation, Order, OrderResult, OrderStatus, StartOrder, StopOrder
from fairpool.model.sample import Sample
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.faults import Faults
from tests.fault_injection.random_faults import RandomFaults

LATE_S = 30
DROPPED_S = 60
"""No order arrives later than this after it was given."""
SLOW_S = 20
PULL_ERROR_S = 300


class Delivery(Enum):
    """What happens to one order on the network."""

    ARRIVES = auto()
    LOST = auto()
    ANSWER_LOST = auto()
    LATE = auto()
    TWICE = auto()
    PUT_OFF = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One order: what happens to it on the network, and what arrives now."""

    order: Order
    delivery: Delivery
    arriving: Order | None


@dataclass(frozen=True, slots=True)
class DelayedOrder:
    """An order that is still on its way."""

    arrives_at: Instant
    given_at: Instant
    order: Order
    token: Token


class FaultyEngine:
    """A simulated engine behind an unreliable network, with random faults of nodes and pods.

    A slow answer moves the clock on.
    """

    def __init__(self, engine: FaultableEngine, faults: Faults, rng: Random, clock: VirtualClock) -> None:
        self._engine = engine
        self._faults = faults
        self._rng = rng
        self._clock = clock
        self._random_faults = RandomFaults(engine, faults, rng, clock.now())
        self._delayed: list[DelayedOrder] = []
        self._arrived: set[PodId] = set()

    def calm(self) -> None:
        """Nothing goes wrong from now on; what is on its way still arrives, and nodes that left come back."""
        self._faults = self._random_faults.faults = Faults.none()

    def spare_records(self, spare: bool) -> None:
        """Whether no record of a pod is lost from now on."""
        self._random_faults.spares_records = spare

    def wait(self, timeout_s: float) -> None:
        self._engine.wait(timeout_s)

    def wake(self) -> None:
        self._engine.wake()

    def sample(self) -> Sample:
        return self._engine.sample()

    def observe(self, token: Token) -> Observation:
        self.catch_up()
        self._delay()
        if self._happens(self._faults.observe_away):
            if self._happens(0.5):
                self._engine.observe(token)
            raise EngineUnreachable("no response")
        return self._engine.observe(token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        self.catch_up()
        self._delay()
        if self._happens(self._faults.away_before):
            raise EngineUnreachable("the orders did not arrive")
        cut_off = self._happens(self._faults.away_after)
        if cut_off:
            orders = orders[: self._rng.randint(min(1, len(orders)), len(orders))]
        dispatches = [self._dispatch(order, token) for order in orders]
        arriving = [dispatch.arriving for dispatch in dispatches if dispatch.arriving is not None]
        answers = iter(self._engine.carry_out(arriving, token))
        replies = [self._reply(dispatch, answers) for dispatch in dispatches]
        if cut_off:
            raise EngineUnreachable("the orders may have arrived")
        return replies

    def catch_up(self) -> None:
        """Late orders arrive, and faults are applied, until now. Worlds may call it; every call to the engine does."""
        now = self._clock.now()
        due = [each for each in self._delayed if each.arrives_at <= now]
        self._delayed = [each for each in self._delayed if each.arrives_at > now]
        for each in sorted(due, key=lambda delayed: delayed.arrives_at):
            if now - each.given_at <= DROPPED_S * SECOND_MS:
                self._arrive_late(each)
        self._random_faults.apply(now)

    def _arrive_late(self, delayed: DelayedOrder) -> None:
        if isinstance(delayed.order, StartOrder):
            self._arrived.add(delayed.order.pod)
        try:
            self._engine.carry_out([delayed.order], delayed.token)
        except Fenced:
            # Its sender has been replaced meanwhile and does not hear this.
            return

    def _dispatch(self, order: Order, token: Token) -> Dispatch:
        delivery = self._delivery(order)
        if delivery in (Delivery.LATE, Delivery.TWICE):
            now = self._clock.now()
            arrives_at = Instant(now + round(self._rng.uniform(0, LATE_S) * SECOND_MS))
            self._delayed.append(DelayedOrder(arrives_at, now, order, token))
        if delivery in (Delivery.LOST, Delivery.LATE, Delivery.PUT_OFF):
            return Dispatch(order, delivery, None)
        if delivery is Delivery.REFUSED:
            # Refused must mean never: a stop makes sure that no straggler starts it after all.
            return Dispatch(order, delivery, StopOrder(pod=order.pod, node=order.node, grace_s=0, reason="refused"))
        if isinstance(order, StartOrder):
            self._arrived.add(order.pod)
        return Dispatch(order, delivery, order)

    def _delivery(self, order: Order) -> Delivery:
        faults = self._faults
        may_be_refused = isinstance(order, StartOrder) and order.pod not in self._arrived
        chances = (
            (Delivery.LOST, faults.order_lost),
            (Delivery.ANSWER_LOST, faults.answer_lost),
            (Delivery.LATE, faults.order_late),
            (Delivery.TWICE, faults.order_twice),
            (Delivery.PUT_OFF, faults.put_off),
            (Delivery.REFUSED, faults.refused if may_be_refused else 0),
        )
        return next((delivery for delivery, chance in chances if self._happens(chance)), Delivery.ARRIVES)

    def _reply(self, dispatch: Dispatch, answers: Iterator[OrderResult]) -> OrderResult:
        answer = next(answers) if dispatch.arriving is not None else None
        pod = dispatch.order.pod
        if dispatch.delivery is Delivery.PUT_OFF:
            return OrderResult(pod, OrderStatus.LATER, "the node is busy")
        if answer is None:
            return OrderResult(pod, OrderStatus.UNKNOWN, "no response")
        if isinstance(dispatch.arriving, StartOrder) and answer.status is OrderStatus.DONE:
            self._maybe_delay_pull(pod)
        if dispatch.delivery is Delivery.ANSWER_LOST:
            return OrderResult(pod, OrderStatus.UNKNOWN, "no response")
        if dispatch.delivery is Delivery.REFUSED and answer.status is OrderStatus.DONE:
            return OrderResult(pod, OrderStatus.REFUSED, "the node could not start it")
        return answer

    def _maybe_delay_pull(self, pod: PodId) -> None:
        if self._happens(self._faults.pull_error):
            until = Instant(self._clock.now() + round(self._rng.uniform(1, PULL_ERROR_S) * SECOND_MS))
            self._engine.hold_up(pod, "ErrImagePull: the registry does not respond", until)

    def _delay(self) -> None:
        if self._happens(self._faults.slow_answer):
            self._clock.advance(self._rng.uniform(0, SLOW_S))

    def _happens(self, chance: float) -> bool:
        # Draw nothing at rate 0: a world without faults then continues the same way whatever came before.
        return chance > 0 and self._rng.random() < chance
