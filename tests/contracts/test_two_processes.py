"""What two control processes on one PostgreSQL database share, tried with two of them on one event loop."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.clusters import PushReport
from fairpool.api.gateway_address import GatewayAddress
from fairpool.api.multiplexer import Multiplexer
from fairpool.api.nodes import ClusterRequest
from fairpool.control import app, clusters, exclusive, organization
from fairpool.control.attempts import names_of
from fairpool.control.cluster_sync import pushed
from fairpool.control.exclusive import alone
from fairpool.control.guard import digest_of, known
from fairpool.control.plane import BELIEVED_S, Caller, Plane
from fairpool.control.refusal import Refused
from fairpool.control.settings import Settings
from fairpool.control.sign_in_attempt import recalled, save_counts
from fairpool.control.store import access, leases, processes
from fairpool.control.store.database import Connection
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.postgresql_database import PostgresDatabase
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.tool_access import Tools, new_ticket
from fairpool.control.tunnel_holders import TunnelHolders
from fairpool.model.ids import Instant, Token
from tests.postgresql import databases

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
ORIGIN = "0b5e2a5c-0000-4000-8000-000000000000-8888"


def played(folder: Path, scene: Callable[[Plane, Plane], Awaitable[None]]) -> None:
    url = databases().url(folder)

    async def play() -> None:
        planes = [Plane(settings=Settings(data=folder / name), database=PostgresDatabase(url)) for name in "ab"]
        for each in planes:
            await each.database.open(upgrade)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scene(*planes)
        finally:
            for each in planes:
                await each.database.close()

    asyncio.run(play())


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.01)


def test_one_process_at_a_time_works_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "LEASE_S", 1.0)
    monkeypatch.setattr(exclusive, "RENEW_S", 0.1)
    inside: list[str] = []

    async def work(plane: Plane, name: str) -> None:
        async with alone(plane, "work"):
            inside.append(name)
            assert len(inside) == 1
            await asyncio.sleep(1.5 if name == "first" else 0.0)  # longer than a lease that is not renewed
            inside.remove(name)

    async def scene(one: Plane, other: Plane) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work(one, "first"))
            await until(lambda: _is(bool(inside)))
            for number in range(3):
                tasks.create_task(work(other if number % 2 else one, f"later {number}"))
        await one.write(lambda connection: leases.take(connection, "work", "killed", one.now(), one.now() + 300))
        await work(other, "after a process that was killed")

    played(tmp_path, scene)


def test_work_whose_lease_is_lost_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "LEASE_S", 1.0)
    monkeypatch.setattr(exclusive, "RENEW_S", 0.1)

    async def scene(one: Plane, other: Plane) -> None:
        def steal(connection: Connection) -> None:
            leases.release(connection, "work", one.process)
            leases.take(connection, "work", other.process, other.now(), other.now() + 60_000)

        async def work() -> None:
            async with alone(one, "work"):
                await other.write(steal)
                await asyncio.sleep(PATIENCE_S)

        with pytest.raises(Unavailable):
            await work()
        assert not await one.read(lambda connection: leases.is_free(connection, "work", one.process, one.now()))

    played(tmp_path, scene)


async def _is(value: bool) -> bool:
    return value


def test_a_report_waits_while_the_other_process_takes_one_in(tmp_path: Path) -> None:
    async def scene(one: Plane, other: Plane) -> None:
        def unit(connection: Connection) -> str:
            organization.make_first_organization(one, connection)
            return clusters.add_cluster(one, connection, ClusterRequest(name="east"))[0]

        east = await one.write(unit)
        report = PushReport(cluster=east, token=Token(1), number=1, whole=True, at=Instant(1))
        name = f"report {east}"
        await one.write(
            lambda connection: leases.take(connection, name, one.process, one.now(), exclusive.lease_ends(one))
        )
        waiting = asyncio.create_task(pushed(other, east, report))
        assert (await pushed(one, east, report)).number == 1, "its own lease does not stop it"
        assert not waiting.done()
        await one.write(lambda connection: leases.release(connection, name, one.process))
        assert (await waiting).number == 1

    played(tmp_path, scene)


def test_a_cluster_is_connected_to_the_process_it_connected_to_last(tmp_path: Path) -> None:
    async def scene(one: Plane, other: Plane) -> None:
        holders = [TunnelHolders(one, "one:1"), TunnelHolders(other, "other:2")]
        noting = [asyncio.create_task(each.run()) for each in holders]
        first, second = Multiplexer(), Multiplexer()
        one.pod_access.tunnels.join("east", first)
        await until(lambda: _has(holders[1], {"east": (one.process, "one:1")}))
        assert await holders[0].elsewhere() == {}
        other.pod_access.tunnels.join("east", second)
        await first.ended()
        assert second.broken is None
        await until(lambda: _has(holders[0], {"east": (other.process, "other:2")}))
        for each in noting:
            each.cancel()
        await asyncio.gather(*noting, return_exceptions=True)
        await holders[1].end()
        assert await holders[0].elsewhere() == {}

    played(tmp_path, scene)


def test_a_ticket_of_one_begins_one_session_at_the_other(tmp_path: Path) -> None:
    async def scene(one: Plane, other: Plane) -> None:
        caller = Caller(id="u", name="ann", kind="user", token_hash="t" * 64, family="f")

        def unit(connection: Connection) -> list[str]:
            access.add_token(
                connection,
                caller.token_hash,
                family="f",
                kind="access",
                subject_id="u",
                subject_type="user",
                now=one.now(),
                expires_at=None,
            )
            return [new_ticket(connection, ORIGIN, "browser", caller, one.now()) for _ in range(2)]

        first, second = await one.write(unit)
        tools = [Tools(each, GatewayAddress("http", "localhost", 8088), "http://here") for each in (one, other)]
        assert await tools[1].enter(ORIGIN, first, ("browser",)) is not None
        assert await tools[0].enter(ORIGIN, first, ("browser",)) is None, "it was used at the other"
        assert await tools[1].enter(ORIGIN, second, ("another browser",)) is None
        assert await tools[0].enter(ORIGIN, second, ("browser",)) is None, "it was shown at the wrong place"

    played(tmp_path, scene)


def test_a_process_with_other_keys_of_tokens_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "NEW_KEYS_S", 0.1)

    async def scene(one: Plane, other: Plane) -> None:
        await app._check_keys(one)
        noting = asyncio.create_task(TunnelHolders(one, "one:1").run())
        await until(lambda: other.read(lambda connection: bool(processes.others(connection, other.process, 0))))
        (tmp_path / "b").mkdir()
        shutil.copy(tmp_path / "a" / "secret.key", tmp_path / "b")
        with pytest.raises(app.StartupFailed, match=r"token keys in .*/b .* \(fairpool-.*--keys"):
            await app._check_keys(other)
        shutil.copy(tmp_path / "a" / "token-keys.json", tmp_path / "b")
        await app._check_keys(other)
        noting.cancel()

    played(tmp_path, scene)


def test_wrong_passwords_at_one_count_at_the_other(tmp_path: Path) -> None:
    def begun(connection: Connection) -> int:
        names = names_of("user", "guessed", "203.0.113.1")
        attempts = recalled(connection, names)
        wait_s = attempts.begin(names, Instant(1_000_000))
        save_counts(connection, names, attempts)
        return wait_s

    async def scene(one: Plane, other: Plane) -> None:
        waits = [await each.write(begun) for each in (one, other, one, other)]
        assert waits == [0, 0, 0, 1]

    played(tmp_path, scene)


def test_what_one_changes_about_a_caller_holds_at_the_other_which_was_not_told(tmp_path: Path) -> None:
    async def scene(one: Plane, other: Plane) -> None:
        other.database.after_commit_elsewhere = lambda said: None
        body = ClusterRequest(name="east")
        cluster, token = await one.write(lambda connection: clusters.add_cluster(one, connection, body))
        digest = digest_of(token)
        caller, reads = await known(other, digest), 0
        read = other.database.read

        async def counted(unit: Callable[[Connection], Any]) -> Any:
            nonlocal reads
            reads += 1
            return await read(unit)

        other.database.read = counted  # type: ignore[method-assign]
        began = time.monotonic()
        while time.monotonic() < began + 2 * BELIEVED_S:
            assert await known(other, digest) is caller
            await asyncio.sleep(0.001)
        assert 1 <= reads <= 3, "it asks whether a caller changed, and not for each"
        await one.write(lambda connection: access.revoke_subject(connection, cluster))
        await asyncio.sleep(BELIEVED_S)
        with pytest.raises(Refused):
            await known(other, digest)

    played(tmp_path, scene)


async def _has(holders: TunnelHolders, expected: object) -> bool:
    return await holders.elsewhere() == expected
