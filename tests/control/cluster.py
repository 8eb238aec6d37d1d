"""A cluster for a control plane in a test: the real loop and ledger, on nodes and pods that are simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import Ledger
from fairpool.cluster.loop import Loop
from fairpool.engines.simulated.behaviour import Behaviour, same_behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import NodeName
from fairpool.model.node import Node
from tests.control.control_plane import START, ControlPlane, expect

TURNS_MAX = 50


class Cluster:
    """Nodes whose work runs until it is stopped, and time that passes by hand, here and in the control plane."""

    def __init__(self, control: ControlPlane, nodes: Sequence[Node] = ()) -> None:
        self.control = control
        self.clock = VirtualClock(START)
        self.engine = SimulatedEngine(self.clock, nodes or [machine("n1"), machine("n2")], same_behaviour(Behaviour()))
        self.ledger = Ledger(None)
        self.loop = self.restart()

    def restart(self) -> Loop:
        """Another loop on the same ledger."""
        self.loop = Loop(self.ledger, self.engine, ControlLink(self.control, "local"), self.clock.now)
        return self.loop

    def run(self, seconds: int = 90) -> None:
        """Long enough for evicted pods to leave and others to start in their place, and to be told."""
        for _ in range(seconds):
            for _ in range(TURNS_MAX):
                if not self.loop.run_cycle():
                    break
            else:
                raise AssertionError("the loop does not come to rest")
            self.clock.advance(1)
            self.control.clock.turn(1)

    def shown(self, workload: Mapping[str, str], *, by: str = "admin") -> dict[str, Any]:
        answer: dict[str, Any] = expect(self.control.call("GET", f"/api/v1/workloads/{workload['id']}", by=by), 200)
        return answer

    def phase(self, workload: Mapping[str, str]) -> str:
        return str(self.shown(workload)["phase"])


def machine(name: str, gpus: int = 8, **labels: str) -> Node:
    return Node(
        name=NodeName(name), cpu_milli=64_000, memory_bytes=1 << 38, gpus=gpus, gpu_memory_mib=32_510, labels=labels
    )
