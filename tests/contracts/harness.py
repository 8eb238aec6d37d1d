"""Engines to try the contract on, each with what a test needs around it: time, programs, and a node to lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Protocol

from fairpool.engines.port import Engine, Samples
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.state_file import StateFile
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, Token, WorkloadId, pod_id
from fairpool.model.node import Node
from fairpool.model.observation import Observation, Order, OrderResult, StartOrder
from fairpool.model.sample import Sample
from fairpool.model.spec import Program
from fairpool.model.workload import PodShape, WorkloadKind, whole_gpus
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.faults import Faults
from tests.fault_injection.faulty_engine import FaultyEngine

NODE = NodeName("n1")
START = Instant(1_700_000_000_000)
GIB = 1024**3


class MeasuringEngine(Engine, Samples, Protocol):
    """What every engine is."""


class Harness(Protocol):
    """An engine with one node of eight devices that can be made to do things. Times are short: some are real."""

    engine: MeasuringEngine
    node: NodeName
    keeps_objects: bool
    """Whether the same process answers all calls, so that an unchanged observation can be the same object."""
    measures: bool
    """Whether its samples contain more than which pods run where."""

    def order(
        self,
        workload: str = "a",
        index: int = 0,
        incarnation: int = 0,
        *,
        device: int = 0,
        run_s: float | None = None,
        exit_code: int = 0,
        stop_s: float = 0,
    ) -> StartOrder:
        """An order for the present boot of the node, for a program that works so long and then exits like this, and
        that needs so long to leave when told to."""

    def pass_time(self, seconds: float) -> None:
        """At least so long."""

    def reboot(self) -> None:
        """The node restarts, and answers again. Skips the test where that cannot be done."""

    def silence(self) -> None:
        """The node is out of reach. Skips the test where that cannot be done."""

    def end_silence(self) -> None: ...


class SimulatedHarness:
    """A simulated engine in this process."""

    keeps_objects = True
    measures = True

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.node = NODE
        self.behaviours: dict[PodId, Behaviour] = {}
        self.simulated = self.open()
        self.engine: MeasuringEngine = self.simulated

    def open(self) -> FaultableEngine:
        return FaultableEngine(self.clock, [machine()], lambda order: self.behaviours.get(order.pod, Behaviour()))

    def order(
        self,
        workload: str = "a",
        index: int = 0,
        incarnation: int = 0,
        *,
        device: int = 0,
        run_s: float | None = None,
        exit_code: int = 0,
        stop_s: float = 0,
    ) -> StartOrder:
        boot_id = self.simulated.host(self.node).boot_id
        order = start_order(workload, index, incarnation, devices=(device,), boot_id=boot_id)
        self.behaviours[order.pod] = Behaviour(run_s=run_s, exit_code=exit_code, stop_s=stop_s)
        return order

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def reboot(self) -> None:
        self.simulated.reboot(self.node, down_s=5)
        self.clock.advance(5)

    def silence(self) -> None:
        self.simulated.silence(self.node)

    def end_silence(self) -> None:
        self.simulated.end_silence(self.node)


class ReopenedHarness(SimulatedHarness):
    """A simulated engine whose process dies after every call; the next one has only the state file."""

    keeps_objects = False

    def __init__(self, folder: Path) -> None:
        self.path = folder / "engine.state"
        super().__init__()
        self.engine = Reopened(self.open)

    def open(self) -> FaultableEngine:
        self.simulated = FaultableEngine(
            self.clock,
            [machine()],
            lambda order: self.behaviours.get(order.pod, Behaviour()),
            # The one before is not closed: a process that is killed closes nothing.
            StateFile(self.path),
        )
        return self.simulated


class Reopened:
    """Opens an engine for each call."""

    def __init__(self, open_engine: Callable[[], FaultableEngine]) -> None:
        self._open = open_engine

    def observe(self, token: Token) -> Observation:
        return self._open().observe(token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        return self._open().carry_out(orders, token)

    def sample(self) -> Sample:
        return self._open().sample()

    def wait(self, timeout_s: float) -> None:
        self._open().wait(timeout_s)

    def wake(self) -> None:
        self._open().wake()


class CalmNetworkHarness(SimulatedHarness):
    """A simulated engine behind a network on which nothing goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = FaultyEngine(self.simulated, Faults.none(), Random(0), self.clock)


def machine(name: str = NODE, gpus: int = 8) -> Node:
    return Node(name=NodeName(name), cpu_milli=64_000, memory_bytes=512 * GIB, gpus=gpus, gpu_memory_mib=80_000)


def start_order(
    workload: str = "a",
    index: int = 0,
    incarnation: int = 0,
    *,
    node: str = NODE,
    boot_id: str = f"{NODE}/1",
    devices: tuple[int, ...] = (0,),
    shape: PodShape | None = None,
) -> StartOrder:
    name = WorkloadId(workload)
    return StartOrder(
        pod=pod_id(name, index, incarnation),
        workload=name,
        index=index,
        incarnation=incarnation,
        group=GroupId(workload),
        pod_set="default",
        run=0,
        name=workload,
        project=QueueId("vision"),
        kind=WorkloadKind.TRAIN,
        node=NodeName(node),
        boot_id=boot_id,
        devices=devices,
        shape=shape if shape is not None else PodShape(gpu=whole_gpus(len(devices)), cpu_milli=1000),
        program=Program(image="example/program:1"),
        created_at=START,
    )
