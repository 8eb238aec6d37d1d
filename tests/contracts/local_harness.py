"""The local engine for the contract suite: real processes, real time, and a reboot as far as one can be had."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairpool.engines.local import LocalEngine
from fairpool.engines.port import Engine
from fairpool.model.ids import NodeName, Token
from fairpool.model.observation import Answer, Observation, Order, PodState, StartOrder
from tests.local_machine import NODE, PATIENCE_S, Machine

IMPATIENCE_S = 0.4
"""What a real machine needs besides: a process to be scheduled, a shell to start."""


class LocalHarness:
    """The local engine in this process, or one after the other, each opened when the one before is gone."""

    def __init__(self, folder: Path, *, reopened: bool = False) -> None:
        self.machine = Machine(folder, boot_id="boot-1")
        self.node: NodeName = NODE
        self.keeps_objects = not reopened
        self.engine: Engine = Patient(self.machine, reopened=reopened)
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
        deaf = "trap '' TERM; " if stop_s else ""
        work = f"sleep {'infinity' if run_s is None else run_s}"
        return self.machine.order(
            workload,
            *("sh", "-c", f"{deaf}{work}; exit {exit_code}"),
            index=index,
            life=incarnation,
            devices=(device,),
        )

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds + IMPATIENCE_S)

    def reboot(self) -> None:
        """Nothing runs any more, nothing was said, and the boot is another."""
        for engine in self.machine.engines:
            engine.close()
        self.machine.engines.clear()
        self.machine.kill_what_is_left()
        self._boots += 1
        self.machine.reopen(boot_id=f"boot-{self._boots}")

    def silence(self) -> None:
        pytest.skip("the local engine is on the machine it looks at")

    def end_silence(self) -> None: ...


class Patient:
    """Answers starts when they have happened: the suite asks at once, and a process takes a moment."""

    def __init__(self, machine: Machine, *, reopened: bool) -> None:
        self._machine, self._reopened = machine, reopened

    def observe(self, token: Token) -> Observation:
        return self._engine().observe(token)

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[Answer]:
        engine = self._engine()
        answers = engine.carry_out(orders, token)
        end = time.monotonic() + PATIENCE_S
        while any(pod.state is PodState.STARTING for pod in engine.observe(token).pods.values()):
            assert time.monotonic() < end, "nothing starts"
            engine.wait(0.02)
        return answers

    def _engine(self) -> LocalEngine:
        if not self._reopened:
            return self._machine.engine
        self._machine.engine.close()
        self._machine.engines.remove(self._machine.engine)
        return self._machine.reopen()
