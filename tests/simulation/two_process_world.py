"""A world whose control plane and loop are two processes, each killed with SIGKILL between any two steps.

Between them is HTTP. Faults and checks are those of `world.py`; instead of a second loop that takes over, the control
plane dies, and stays away for seconds or hours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from fairpool.api.client import Client
from fairpool.model.ids import SECOND_MS, Instant, Token, WorkloadId
from fairpool.model.observation import Observation
from fairpool.simulation.control_driver import ControlDriver
from tests.fault_injection.faults import Faults
from tests.fault_injection.skewed_clock import SkewedClock
from tests.simulation.control_process import (
    UNANSWERED,
    ControlOverHttp,
    ControlProcess,
    copied_installation,
)
from tests.simulation.loop_process import LoopProcess, LoopSetup
from tests.simulation.shared_numbers import STEPS_LEFT, SharedClock, SharedNumbers
from tests.simulation.world import CLUSTER, LEASE_S, START, World

ASKS_S = 5
AGAIN_S = 10
AWAY_S = (0, 0, 5, 60, 600, 7200)


class TwoProcessWorld(World):
    """A cluster and a control plane, each in a process of its own."""

    always_on_disk = True

    def __init__(self, seed: int, faults: Faults | None = None, workloads: int | None = None) -> None:
        mixed = Faults.swarm(seed) if faults is None else faults
        crashes = 10 ** -Random(f"two processes {seed}").uniform(1.5, 3)
        mixed = replace(mixed, second_loop=0.0, loop_crash=crashes)
        self._back_at: Instant | None = None
        """When the control plane that died is started again."""
        self._declared: set[WorkloadId] = set()
        self._loops = 0
        self._shown: Observation | None = None
        """What the present loop has seen last."""
        super().__init__(seed, mixed, workloads)
        self._start_control()

    def close(self) -> None:
        self._end_loop()
        self._process.close()
        super().close()
        self._process.drop_database()

    def calm(self) -> None:
        self._shared.numbers[STEPS_LEFT] = 0
        self._calm = True
        self._keep_control_up()
        super().calm()

    def expect_settled(self) -> None:
        super().expect_settled()
        self._require(self.over_http.lost())

    # --- the control plane ---

    def _new_clock(self) -> SkewedClock:
        self._shared = SharedNumbers(self.folder / "numbers")
        return SharedClock(START, self._shared)

    def _new_control(self) -> ControlDriver:
        """What is there from the start is written before the process is started."""
        url, self._tokens = copied_installation(self.folder, CLUSTER, START)
        self._process = ControlProcess(self.folder, CLUSTER, self._shared, self.seed, url)
        client = Client(self._process.address, self._tokens.administrator)
        self.over_http = ControlOverHttp(self.clock.now, self.folder, CLUSTER, client, url)
        return self.over_http

    def _start_control(self) -> None:
        steps = 0 if self._calm else int(10 ** self.rng.uniform(0, 3))
        self._back_at = None
        if self._process.start(steps):
            self._require(self.over_http.lost())
        else:
            self._keep_control_up()

    def _keep_control_up(self) -> None:
        if self._process.is_alive:
            return
        now = self.clock.now()
        if self._back_at is None:
            self.counts["control plane crashes"] += 1
            self._back_at = Instant(now + self.rng.choice(AWAY_S) * SECOND_MS)
            self.event_log.note(now, "the control plane died")
        if self._calm or self._back_at <= now:
            self._start_control()

    def _submit_due(self) -> None:
        self._keep_control_up()
        while self.arrivals and self.arrivals[0].at <= self.clock.now():
            spec = self.arrivals[0].spec
            projects = self.control.projects()
            problem = self.control.submit(spec if spec.project in projects else replace(spec, project=projects[0]))
            if problem is not None and problem.code == UNANSWERED:
                self._put_off(AGAIN_S)
                break
            assert problem is None, problem
            del self.arrivals[0]
            self.counts["workloads"] += 1
        for each in self.control.specs().values():
            if each.id not in self._declared:
                self._declared.add(each.id)
                self.record.declare(each)

    def _put_off(self, seconds: float) -> None:
        """Those who got no answer ask again later, with the same key."""
        again = Instant(self.clock.now() + round(seconds * SECOND_MS))
        self.arrivals = [replace(each, at=max(each.at, again)) for each in self.arrivals]

    def _restart_control(self) -> None:
        pass  # it dies by itself

    def _sum_hours(self) -> None:
        pass  # it does that itself

    # --- the loop ---

    def _new_loop(self) -> LoopProcess:
        self._loops += 1
        self._shown = None
        setup = LoopSetup(
            cluster=CLUSTER,
            folder=self.folder,
            address=self._process.address,
            token=self._tokens.cluster,
            holder="loop",
            lease_s=LEASE_S,
            piece_rows=self._piece_rows,
            seed=f"control {self.seed} {self._loops}",
        )
        handlers: dict[str, Callable[..., object]] = {
            "step": self._between,
            "step in ledger": self._in_ledger,
            "observe": self._observed,
            "carry out": self.network.carry_out,
            "written": self._note_written,
            "started over": self._note_started_over,
        }
        return LoopProcess(setup, handlers, lambda: self.faults)

    def _next_moment(self) -> Instant:
        """A loop that has nothing declared yet asks all the time; that is of interest only now and then."""
        moment = super()._next_moment()
        knows_nothing = self.loop is None or self.loop.cache.cursor is None
        return Instant(max(moment, self.clock.now() + ASKS_S * SECOND_MS)) if knows_nothing else moment

    def _observed(self, token: Token, for_the_first_time: bool) -> Observation | None:
        """None: the same as last time."""
        seen = self.network.observe(token)
        if seen is self._shown and not for_the_first_time:
            return None
        self._shown = seen
        return seen

    def lose_ledger(self) -> None:
        self._end_loop()
        super().lose_ledger()

    def _end_loop(self) -> None:
        if isinstance(self.loop, LoopProcess):
            self.loop.kill()
