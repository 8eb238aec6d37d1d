"""Leader election on a real API server: one replica leads, another takes over, and neither acts on a lease it lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.leadership import ACTING_S, DURATION_S
from fairpool.engines.port import EngineUnreachable
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import Instant, Token
from fairpool.platform.leader_election import NAME, LeaderElection, LeasedEngine, steady_s
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.slow

RETRY_S = 0.2
PATIENCE_S = 60.0


@dataclass
class Clock:
    """A clock that can be moved on, as after a process was stopped for a while."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        return steady_s() + self.ahead_s


@dataclass
class Replica:
    """One replica with a clock of its own."""

    server: ApiServer
    namespace: str
    name: str
    clock: Clock = field(default_factory=Clock)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.election = LeaderElection(self.server, self.namespace, self.name, clock=self.clock, retry_s=RETRY_S)

    def start(self) -> None:
        self._task = asyncio.create_task(self.election.run())

    async def stop(self) -> None:
        """As on SIGTERM."""
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def freeze(self) -> None:
        """As on SIGSTOP: it asks and writes nothing any more, and releases nothing."""
        assert self._task is not None
        self.election._release = _nothing  # type: ignore[method-assign, assignment]
        self._task.cancel()


async def _nothing(_client: object) -> None:
    """In place of the release."""


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.fixture
def server(control_plane: ControlPlane) -> ApiServer:
    return find_api_server(str(control_plane.kubeconfig()))


def lease_of(control_plane: ControlPlane, namespace: str) -> dict[str, object]:
    found = control_plane.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{NAME}")
    return dict(found["spec"])


def test_one_leads_and_another_takes_over_at_once_when_it_is_stopped(
    server: ApiServer, namespace: str, control_plane: ControlPlane
) -> None:
    async def play() -> None:
        one, other = Replica(server, namespace, "one"), Replica(server, namespace, "other", Clock(-1e6))
        one.start()
        await asyncio.wait_for(one.election.until_leading(), PATIENCE_S)
        other.start()
        await until(lambda: other.election.leader == "one")
        await asyncio.sleep(5 * RETRY_S)
        assert (one.election.leads, other.election.leads) == (True, False)
        began = steady_s()
        await one.stop()
        await asyncio.wait_for(other.election.until_leading(), PATIENCE_S)
        assert steady_s() - began < DURATION_S, "a lease that was released need not expire"
        assert not one.election.leads
        lease = lease_of(control_plane, namespace)
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("other", 1)
        await other.stop()
        assert lease_of(control_plane, namespace).get("holderIdentity", "") == ""

    asyncio.run(play())


def test_the_lease_of_a_replica_that_died_is_taken_when_it_has_expired_and_not_before(
    server: ApiServer, namespace: str
) -> None:
    async def play() -> None:
        one, other = Replica(server, namespace, "one"), Replica(server, namespace, "other")
        one.start()
        await asyncio.wait_for(one.election.until_leading(), PATIENCE_S)
        other.start()
        await until(lambda: other.election.is_other)
        one.freeze()
        other.clock.ahead_s += DURATION_S - 2
        await asyncio.sleep(3 * RETRY_S)
        assert not other.election.leads
        other.clock.ahead_s += 3
        one.clock.ahead_s += DURATION_S + 1
        await asyncio.wait_for(other.election.until_leading(), PATIENCE_S)
        assert not one.election.leads, "it stopped acting before that, by its own clock"
        one.start()  # the process goes on
        await asyncio.wait_for(one.election.until_replaced(), PATIENCE_S)
        await other.stop()

    asyncio.run(play())


def test_nothing_is_done_while_the_api_server_is_away_and_the_same_replica_goes_on_afterwards(
    server: ApiServer, namespace: str, control_plane: ControlPlane
) -> None:
    async def play() -> None:
        one = Replica(server, namespace, "one")
        engine = LeasedEngine(SimulatedEngine(VirtualClock(Instant(0))), lambda: one.election.leads)
        with pytest.raises(EngineUnreachable, match="lease"):
            engine.observe(Token(1))
        one.start()
        await asyncio.wait_for(one.election.until_leading(), PATIENCE_S)
        engine.observe(Token(1))
        await asyncio.to_thread(control_plane.api_server.kill)
        try:
            await until(lambda: bool(one.election.error))
            assert one.election.leads, "for a moment: the lease has not expired"
            one.clock.ahead_s += ACTING_S
            with pytest.raises(EngineUnreachable, match="lease"):
                engine.carry_out([], Token(1))
            assert not one.election.is_other
        finally:
            await asyncio.to_thread(control_plane.api_server.start)
        await asyncio.wait_for(one.election.until_leading(), PATIENCE_S)
        engine.carry_out([], Token(1))
        assert lease_of(control_plane, namespace)["leaseTransitions"] == 0, "no other replica has led meanwhile"
        await one.stop()

    asyncio.run(play())
