"""The local engine for the contract suite: real processes, real time, and a reboot as far as one can be had."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairpool.agent.devices import simulated_node
from fairpool.engines.local import LocalEngine
from fairpool.model.ids import NodeName, PodId, Token
from fairpool.model.observation import Observation, Order, OrderResult, OrderStatus, PodState, StartOrder, StopOrder
from fairpool.model.sample import Sample
from tests.contracts.harness import MeasuringEngine
from tests.local_machine import NODE, TIMEOUT_S, Machine

DEAF = "deaf"


class LocalHarness:
    """The local engine in this process, or one after the other, each opened when the one before is gone."""

    measures = True

    def __init__(
        self, folder: Path, *, reopened: bool = False, runtime: str = "process", image: str = "python"
    ) -> None:
        nodes = (replace(simulated_node(NODE), runtime=runtime),)
        self.machine, self._image = Machine(folder, nodes, boot_id="boot-1"), image
        self.node: NodeName = NODE
        self.keeps_objects = not reopened
        self._patient = Patient(self.machine, reopened=reopened)
        self.engine: MeasuringEngine = self._patient
        self._boots = 1

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
        # Deaf rather than slow: what needs longer than its grace is killed in either case.
        deaf = f"trap '' TERM; echo {DEAF}; " if stop_s else ""
        work = f"sleep {'infinity' if run_s is None else run_s}"
        order = self.machine.order(
            workload,
            *("sh", "-c", f"{deaf}{work}; exit {exit_code}"),
            index=index,
            incarnation=incarnation,
            devices=(device,),
            image=self._image,
        )
        self._patient.courses[order.pod] = Course(run_s=run_s, is_deaf=bool(stop_s))
        return order

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)
        self._patient.see_who_is_due_end()

    def reboot(self) -> None:
        """Nothing runs any more, nothing was said, and the boot is another."""
        for engine in self.machine.engines:
            engine.close()
        self.machine.engines.clear()
        self.machine.kill_what_is_left()
        self._patient.due.clear()
        self._boots += 1
        self.machine.reopen(boot_id=f"boot-{self._boots}")

    def silence(self) -> None:
        pytest.skip("the local engine is on the machine it looks at")

    def end_silence(self) -> None: ...


@dataclass(frozen=True)
class Course:
    """What a pod will do."""

    run_s: float | None
    is_deaf: bool


class Patient:
    """Answers starts when they have happened: the suite asks at once, and a process takes a moment.

    It also knows when each pod should be over, so that time that passes can be followed by a look instead of a guess
    how long a busy machine takes to stop_notice.
    """

    def __init__(self, machine: Machine, *, reopened: bool) -> None:
        self._machine, self._reopened = machine, reopened
        self._token = Token(0)
        self.courses: dict[PodId, Course] = {}
        self.due: dict[PodId, float] = {}
        """By the monotonic clock."""

    def observe(self, token: Token) -> Observation:
        observation = self._engine().observe(token)
        self._token = token
        return observation

    def sample(self) -> Sample:
        engine = self._engine()
        engine.observe(self._token)
        return engine.sample()

    def wait(self, timeout_s: float) -> None:
        self._machine.engine.wait(timeout_s)

    def wake(self) -> None:
        self._machine.engine.wake()

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        engine = self._engine()
        answers = engine.carry_out(orders, token)
        self._token = token
        end = time.monotonic() + TIMEOUT_S
        while any(pod.state is PodState.STARTING for pod in engine.observe(token).pods.values()):
            assert time.monotonic() < end, "nothing starts"
            engine.wait(0.02)
        for order, answer in zip(orders, answers, strict=True):
            if answer.status is OrderStatus.DONE:
                self._wait_until_deaf(order)
                self._note_end(order)
        return answers

    def _wait_until_deaf(self, order: Order) -> None:
        """A program runs a moment before it has said what it does not want to hear."""
        course = self.courses.get(order.pod)
        if isinstance(order, StartOrder) and course is not None and course.is_deaf:
            end = time.monotonic() + TIMEOUT_S
            while self._runs(order.pod) and DEAF not in self._machine.log(order.pod):
                assert time.monotonic() < end, f"{order.pod} does not become deaf"
                time.sleep(0.01)

    def see_who_is_due_end(self) -> None:
        """Wait until pods that should be over by now are seen to be."""
        due = [pod for pod, at in self.due.items() if at <= time.monotonic()]
        end = time.monotonic() + TIMEOUT_S
        while any(self._runs(pod) for pod in due):
            assert time.monotonic() < end, f"one of {due} does not end"
            self._machine.engine.wait(0.02)

    def _note_end(self, order: Order) -> None:
        course = self.courses.get(order.pod, Course(run_s=None, is_deaf=False))
        now = time.monotonic()
        if isinstance(order, StartOrder) and course.run_s is not None:
            self.due.setdefault(order.pod, now + course.run_s)
        elif isinstance(order, StopOrder):
            grace_s = order.grace_s if course.is_deaf else 0
            self.due[order.pod] = min(self.due.get(order.pod, now + grace_s), now + grace_s)

    def _runs(self, pod: PodId) -> bool:
        observed = self._machine.engine.observe(self._token).pods.get(pod)
        return observed is not None and observed.state is not PodState.EXITED

    def _engine(self) -> LocalEngine:
        if not self._reopened:
            return self._machine.engine
        self._machine.engine.close()
        self._machine.engines.remove(self._machine.engine)
        return self._machine.reopen()
