"""The loop of a cluster in a process of its own, as a world with two processes has it.

The process has the real loop, its ledger on disk, and its link to the control plane over HTTP. Pods outlive a cluster,
so the simulated engine stays with the world: every call to it, and every step between two lines of the loop, is a
message that the world answers. The world kills the process where it waits for such an answer.
"""

from __future__ import annotations

import copy
import multiprocessing
import sqlite3
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from fairpool.api.cluster_client import ClusterClient
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.ledger import LedgerUnavailable
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.loop import LeadershipLost, Loop
from fairpool.engines.port import EngineUnreachable, Fenced
from fairpool.model.ids import Instant, Token
from fairpool.model.observation import Observation, Order, OrderResult
from fairpool.model.problem import Problem
from tests.fault_injection.faults import Faults
from tests.simulation.control import FaultyControl
from tests.simulation.ledger_audit import WatchedLedger
from tests.simulation.shared_numbers import SharedNumbers

HANGS_S = 120.0
"""A process that says nothing for so long hangs."""
FORKS = multiprocessing.get_context("forkserver")
"""Children are forked from a process that has everything loaded, and neither threads nor open databases."""
FORKS.set_forkserver_preload(["tests.simulation.preloaded"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSetup:
    """What the process of a loop is started with."""

    cluster: str
    folder: Path
    address: str
    token: str
    holder: str
    lease_s: int
    piece_rows: int
    seed: str


class LoopProcess:
    """A loop elsewhere, with what a world asks a loop for."""

    def __init__(
        self, setup: LoopSetup, handlers: Mapping[str, Callable[..., Any]], faults: Callable[[], Faults]
    ) -> None:
        """`handlers` answer the messages of the process, by name; what one of them raises, other than what an engine or
        a disk may raise, is the end of the process."""
        self._handlers, self._faults = handlers, faults
        self._messages, other = FORKS.Pipe()
        self._process = FORKS.Process(target=_run, args=(other, setup), daemon=True)
        self._process.start()
        other.close()
        self.error = ""
        self.token = Token(0)
        self.cache: LedgerCache
        """As it was after the last cycle."""
        self._wake: Instant | None = None
        self._converse()

    def run_cycle(self) -> bool:
        self._messages.send(self._faults())
        return bool(self._converse())

    def next_wake(self) -> Instant | None:
        return self._wake

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._messages.close()

    def _converse(self) -> object:
        """Answer the messages of the process until it has done what it was asked for."""
        try:
            while True:
                if not self._messages.poll(HANGS_S):
                    raise TimeoutError("the process of the loop hangs")
                name, arguments = self._messages.recv()
                if name == "done":
                    worked, self.error, self._wake, self.token, cache = arguments
                    self.cache = cache if cache is not None else self.cache
                    return worked
                self._messages.send(self._answer(name, arguments))
        except BaseException:
            self.kill()
            raise

    def _answer(self, name: str, arguments: Sequence[Any]) -> tuple[str, object]:
        match name:
            case "stepped down":
                raise LeadershipLost(*arguments)
            case "disk error":
                raise LedgerUnavailable(Problem("simulation.disk", str(arguments[0]), "retry"))
            case "bug":
                raise AssertionError(f"in the process of the loop: {arguments[0]}")
        if name == "observe":
            self.token = arguments[0]
        try:
            return "answer", self._handlers[name](*arguments)
        except EngineUnreachable as error:
            return "unreachable", str(error)
        except Fenced as error:
            return "fenced", error.highest
        except sqlite3.OperationalError as error:
            return "disk", (str(error), error.sqlite_errorcode)


# --- in the process -------------------------------------------------------------------------------------------------


class _World:
    """The world, as the process of the loop asks it; also the engine."""

    def __init__(self, messages: Connection) -> None:
        self._messages = messages
        self._seen: Observation | None = None

    def ask(self, name: str, *arguments: object) -> Any:
        self._messages.send((name, arguments))
        kind, value = self._messages.recv()
        if kind == "answer":
            return value
        if kind == "unreachable":
            raise EngineUnreachable(value)
        if kind == "fenced":
            raise Fenced(value, Token(0))
        error = sqlite3.OperationalError(value[0])
        error.sqlite_errorcode = value[1]
        raise error

    def step(self, name: str) -> None:
        self.ask("step", name)

    def observe(self, token: Token) -> Observation:
        seen = self.ask("observe", token, self._seen is None)
        if seen is not None:
            self._seen = seen
        assert self._seen is not None
        return self._seen

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        results: Sequence[OrderResult] = self.ask("carry out", orders, token)
        return results

    def wait(self, timeout_s: float) -> None:
        raise AssertionError("time passes when the world says so")

    def wake(self) -> None:
        pass


def _run(messages: Connection, setup: LoopSetup) -> None:
    world = _World(messages)
    try:
        _serve(messages, world, setup)
    except EOFError:
        pass  # the world is no more
    except LeadershipLost as error:
        world.ask("stepped down", str(error))
    except LedgerUnavailable as error:
        world.ask("disk error", str(error))
    except Exception:
        world.ask("bug", traceback.format_exc(limit=-8))


def _serve(messages: Connection, world: _World, setup: LoopSetup) -> None:
    shared = SharedNumbers(setup.folder / "numbers")
    client = ClusterClient(setup.address, setup.token)
    wire = FaultyControl(client, Faults.none(), Random(setup.seed), shared.now)
    ledger = WatchedLedger(
        setup.folder / "ledger.db",
        lease_s=setup.lease_s,
        between=lambda step: world.ask("step in ledger", step),
        written=lambda *entry: world.ask("written", *entry),
        started_over=lambda: world.ask("started over"),
    )
    link = ControlLink(wire, setup.cluster, piece_rows=setup.piece_rows, on_step=world.step)
    loop = Loop(ledger, world, link, shared.wall, holder=setup.holder, on_step=world.step, steady_ms=shared.now)
    _report(messages, loop, True)
    while True:
        wire.faults = messages.recv()
        _report(messages, loop, loop.run_cycle())


def _report(messages: Connection, loop: Loop, worked: bool) -> None:
    cache = None
    if worked:
        cache = copy.copy(loop.cache)
        cache.plans, cache.prepared, cache.parts = {}, {}, {}  # large, and asked for by no check
    messages.send(("done", (worked, loop.error, loop.next_wake(), loop.token, cache)))
