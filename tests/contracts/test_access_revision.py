"""The access revision: another number after each write to what callers are made of, whoever writes it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, Connection, Table, bindparam, delete, insert, update

from fairpool.api.access import ScopeType, SubjectType
from fairpool.control import guard
from fairpool.control.plane import Caller, Callers, Plane
from fairpool.control.rbac import Grant
from fairpool.control.settings import Settings
from fairpool.control.store import access, access_revision, identity_providers, programs, sessions, tables
from fairpool.control.store.access import UserRow
from fairpool.control.store.access_revision import MADE_OF, WITH_TOKEN, same_callers
from fairpool.control.store.compiled import Compiled
from fairpool.control.store.migrations import upgrade
from fairpool.model.ids import Instant
from tests.postgresql import database_of, of_sqlite

NOW = Instant(1_000)


def with_plane(folder: Path, scenario: Callable[[Plane], Awaitable[None]]) -> None:
    async def run() -> None:
        settings = Settings(data=folder, now=lambda: NOW)
        plane = Plane(settings=settings, database=database_of(folder))
        await plane.database.open(upgrade)
        try:
            await scenario(plane)
        finally:
            await plane.database.close()

    asyncio.run(run())


def add_caller(connection: Connection, number: int) -> str:
    """A user of a provider with a token of an access key for one project; the hash of the token."""
    user = f"user-{number}"
    identity_providers.put_account(connection, "company", user, user, "{}", NOW)
    grant = Grant("viewer", frozenset(), ScopeType.TENANT, "")
    access.add_rule(connection, f"rule-{number}", user, SubjectType.USER, grant, NOW, "")
    return sign_in(connection, number)


def sign_in(connection: Connection, number: int) -> str:
    user, digest = f"user-{number}", f"digest-{number}"
    access.add_user(connection, UserRow(user, f"{user}@example.com", "", False, False, 0, identity_provider="company"))
    identity_providers.confirm_account(connection, "company", user, "{}", NOW)
    scope = json.dumps({"projects": ["team-a"]})
    key = {"owner": user, "name": "ci", "secret_hash": "", "created_at": 0, "scope": scope}
    programs.add_key(connection, id=f"key-{number}", **key)
    session = {"id": f"family-{number}", "subject_id": user, "subject_type": "user", "kind": sessions.TOKEN}
    origin = {"client": "", "source_ip": "", "access_key": f"key-{number}", "created_at": 0, "used_at": 0}
    sessions.add(connection, {**session, **origin})
    token = {"family": f"family-{number}", "kind": "access", "subject_id": user, "subject_type": "user"}
    access.add_token(connection, digest, **token, now=NOW, expires_at=None)
    return digest


def add_program_and_cluster(connection: Connection) -> list[str]:
    programs.add(connection, id="app", name="app", secret_hash="", created_at=0)
    values = {"domain": "", "version": "", "created_at": 0, "revision": 0, "report_number": 0, "events_through": 0}
    connection.execute(insert(tables.clusters).values(id="far", name="far", needs_resync=True, **values))
    for subject, kind in (("app", "app"), ("far", "cluster")):
        rest = {"family": subject, "kind": "access", "subject_id": subject, "subject_type": kind}
        access.add_token(connection, subject, **rest, now=NOW, expires_at=None)
    return ["app", "far"]


@of_sqlite  # which says what a statement reads
def test_all_that_callers_are_made_of_is_watched(tmp_path: Path) -> None:
    read = set[str]()

    def note(action: int, table: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_READ and table is not None:
            read.add(table)
        return sqlite3.SQLITE_OK

    async def scenario(plane: Plane) -> None:
        digests = await plane.write(
            lambda connection: [add_caller(connection, 1), *add_program_and_cluster(connection)]
        )

        def unit(connection: Connection) -> list[Caller | None]:
            raw: Any = connection.connection.driver_connection
            raw.set_authorizer(note)
            found = [guard._caller(connection, plane, each) for each in digests]
            raw.set_authorizer(None)
            return found

        assert all(await plane.read(unit))

    with_plane(tmp_path, scenario)
    assert read == MADE_OF


def test_each_write_to_them_gives_another_number(tmp_path: Path) -> None:
    """However it is executed. New rows of tables that a known caller has a row in already concern nobody."""

    async def scenario(plane: Plane) -> None:
        for name in sorted(MADE_OF):
            table = tables.metadata.tables[name]
            for unit in ways_to_write(table):
                assert await is_changed_by(plane, unit), name
            assert access_revision.changes_callers(insert(table)) == (name not in WITH_TOKEN), name
        for unit in ways_to_write(tables.departments):
            assert not await is_changed_by(plane, unit)

    with_plane(tmp_path, scenario)


def ways_to_write(table: Table) -> list[Callable[[Connection], Any]]:
    """Nothing, by every means that there is."""
    key = next(iter(table.primary_key))
    gone, none = (
        delete(table).where(key == bindparam("which")),
        {"which": 0 if isinstance(key.type, BigInteger) else "0"},
    )
    return [
        lambda connection: connection.execute(gone, none),
        lambda connection: connection.execute(update(table).where(key == none["which"]).values({key: none["which"]})),
        lambda connection: Compiled(gone).run(connection, none),
        lambda connection: Compiled(gone).run_all(connection, [none]),
    ]


async def is_changed_by(plane: Plane, unit: Callable[[Connection], Any]) -> bool:
    """Whether the database has another number afterwards, and this process knows it."""
    known = list[int]()
    plane.database.after_access_change = known.append
    before = await plane.read(access_revision.current)
    await plane.write(unit)
    after = await plane.read(access_revision.current)
    assert known == ([after] if after != before else [])
    return after != before


def test_signing_in_and_working_leaves_callers_known(tmp_path: Path) -> None:
    """What every client does all the time. A unit that fails has changed nothing either."""

    def signed_in(connection: Connection) -> None:
        sign_in(connection, 2)
        access.note_login(connection, "user-2", NOW)
        access.spend_token(connection, "digest-2", NOW)
        sessions.note_use(connection, {"family-2": NOW})
        access.drop_expired(connection, NOW, 10)
        sessions.drop_ended(connection, NOW, 10)

    def fails(connection: Connection) -> None:
        access.revoke_family(connection, "family-1")
        raise LookupError

    async def scenario(plane: Plane) -> None:
        digest = await plane.write(lambda connection: add_caller(connection, 1))
        caller = await guard.known(plane, digest)
        await plane.write(signed_in)
        with pytest.raises(LookupError):
            await plane.write(fails)
        assert plane.callers.get(digest) is caller
        await plane.write(lambda connection: access.revoke_family(connection, "family-1"))
        assert plane.callers.get(digest) is None

    with_plane(tmp_path, scenario)


def test_a_caller_that_was_read_before_a_change_is_not_kept() -> None:
    callers, ann = Callers(), Caller(id="ann", name="ann", kind="user")
    began = callers.emptied
    callers.changed(7)  # while it is read
    callers.keep("digest", ann, began)
    assert "digest" not in callers
    callers.keep("digest", ann, callers.emptied)
    callers.changed(7)
    assert callers.get("digest") is ann, "the same number says that nothing changed"


def test_one_asks_for_all_and_again_after_a_while_or_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    times, asked, revision = [0.0], [], 1
    monkeypatch.setattr("fairpool.control.plane.time.monotonic", lambda: times[0])

    async def read() -> int:
        asked.append(times[0])
        await asyncio.sleep(0)
        return revision

    async def play() -> None:
        nonlocal revision
        callers = Callers(0.5)
        await asyncio.gather(*(callers.confirm(read) for _ in range(100)))
        callers.keep("digest", Caller(id="ann", name="ann", kind="user"), callers.emptied)
        times[0] = 0.4
        await callers.confirm(read)
        assert asked == [0.0]
        assert "digest" in callers
        callers.doubt()
        assert "digest" not in callers, "until it was asked for"
        times[0] = 0.41
        await callers.confirm(read)
        assert "digest" in callers, "something else had changed"
        times[0], revision = 1.0, 2
        assert "digest" not in callers
        await callers.confirm(read)
        assert (asked, len(callers)) == ([0.0, 0.41, 1.0], 0)

    asyncio.run(play())


def test_what_is_said_while_it_is_asked_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))
    monkeypatch.setattr("fairpool.control.plane.time.monotonic", lambda: next(times) / 100)

    async def play() -> None:
        callers = Callers(10.0)

        async def read() -> int:
            callers.doubt()
            return 1

        await callers.confirm(read)
        assert not callers.is_confirmed

    asyncio.run(play())


def test_a_marked_statement_stays_marked_when_it_is_compiled() -> None:
    marked = same_callers(update(tables.users).values(last_login_at=1))
    assert not access_revision.changes_callers(marked)
    assert not access_revision.changes_callers(marked.where(tables.users.c.id == "ann"))
