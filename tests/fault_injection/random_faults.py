"""Random faults of nodes and pods: crashes, losses, reboots, silence, removed nodes, lost records, stopped shims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from random import Random
from typing import TypeVar

from fairpool.engines.simulated.simulated_node import FENCE_S, GONE_S
from fairpool.model.ids import SECOND_MS, Instant, NodeName
from fairpool.model.node import Node
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.faults import Faults

HOUR_S = 3600
UNSEEN_S = 900
DEAF_S = 900
"""At most: how long a lost record is not missed, and a shim stays stopped."""
INSTEAD = "-instead"
"""Ends the name of a node that is offered while another is not."""

TargetT = TypeVar("TargetT", bound=str)


class RandomFaults:
    """Applies faults to the nodes and pods of one engine, at their rates."""

    def __init__(self, engine: FaultableEngine, faults: Faults, rng: Random, now: Instant) -> None:
        self.faults = faults
        self._engine = engine
        self._rng = rng
        self._applied_at = now
        self._returning: list[tuple[Instant, NodeName, Node]] = []
        self._withdrawn: list[tuple[Instant, NodeName]] = []
        self._sets = 0
        self.spares_records = False
        """While a lost ledger is made again from what the engine shows: two losses at once are not survived."""

    def apply(self, now: Instant) -> None:
        """Apply the faults of the time since the last call."""
        hours = (now - self._applied_at) / SECOND_MS / HOUR_S
        self._applied_at = now
        while self._returning and self._returning[0][0] <= now:
            self._engine.add_node(heappop(self._returning)[2])
        while self._withdrawn and self._withdrawn[0][0] <= now:
            self._change_back(heappop(self._withdrawn)[1])
        if hours <= 0 or self.faults == Faults.none():
            return
        faults, rng, engine = self.faults, self._rng, self._engine
        self._apply_to_some(engine.alive, faults.pod_crash, hours, engine.crash)
        self._apply_to_some(engine.alive, faults.pod_loss, hours, engine.lose)
        self._apply_to_some(
            self._nodes, faults.node_reboot, hours, lambda name: engine.reboot(name, rng.uniform(1, 600))
        )
        self._apply_to_some(
            self._nodes, faults.node_short_silence, hours, lambda name: self._silence(name, now, 1, FENCE_S - 1)
        )
        self._apply_to_some(
            self._nodes, faults.node_long_silence, hours, lambda name: self._silence(name, now, GONE_S + 1, 1800)
        )
        self._apply_to_some(self._nodes, faults.node_removal, hours, lambda name: self._remove(name, now))
        self._apply_to_some(self._whole_nodes, faults.node_set_change, hours, lambda name: self._change_set(name, now))
        self._apply_to_some(
            engine.alive,
            faults.record_loss,
            hours,
            lambda pod: None if self.spares_records else engine.lose_record(pod, _after(now, rng.uniform(1, UNSEEN_S))),
        )
        self._apply_to_some(
            engine.alive,
            faults.shim_stop,
            hours,
            lambda pod: engine.stop_shim(pod, _after(now, rng.uniform(1, DEAF_S))),
        )

    def _nodes(self) -> list[NodeName]:
        return self._engine.nodes

    def _apply_to_some(
        self, targets: Callable[[], Sequence[TargetT]], per_hour: float, hours: float, apply: Callable[[TargetT], None]
    ) -> None:
        if not per_hour:
            return
        candidates = sorted(targets())
        expected = per_hour * hours * len(candidates)
        hit = min(len(candidates), int(expected) + (self._rng.random() < expected % 1))
        for target in self._rng.sample(candidates, hit):
            apply(target)

    def _silence(self, name: NodeName, now: Instant, least_s: float, most_s: float) -> None:
        self._engine.silence(name, _after(now, self._rng.uniform(least_s, most_s)))

    def _remove(self, name: NodeName, now: Instant) -> None:
        node = self._engine.host(name).node
        self._engine.remove_node(name)
        heappush(self._returning, (_after(now, self._rng.uniform(60, 1800)), name, node))

    def _whole_nodes(self) -> list[NodeName]:
        """Nodes that respond, and are not offered instead of another."""
        engine = self._engine
        return [name for name in engine.nodes if not engine.host(name).is_silent and INSTEAD not in name]

    def _change_set(self, name: NodeName, now: Instant) -> None:
        """The engine is started with other nodes; the pods on the old one keep running."""
        self._engine.withdraw_node(name)
        if self._rng.random() < 0.5:
            self._sets += 1
            node = self._engine.host(name).node
            self._engine.add_node(replace(node, name=NodeName(f"{name}{INSTEAD}-{self._sets}")))
        heappush(self._withdrawn, (_after(now, self._rng.uniform(1, 1800)), name))

    def _change_back(self, name: NodeName) -> None:
        self._engine.offer_node(name)
        for other in [each for each in self._engine.nodes if each.startswith(f"{name}{INSTEAD}-")]:
            self._engine.withdraw_node(other)


def _after(now: Instant, seconds: float) -> Instant:
    return Instant(now + round(seconds * SECOND_MS))
