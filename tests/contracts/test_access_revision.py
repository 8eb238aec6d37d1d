"""The access revision: another number after each write to what callers are made of."""

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
from fairpool.control.refusal import Refused
from fairpool.control.settings import Settings
from fairpool.control.store import access, access_revision, identity_providers, programs, sessions, tables
from fairpool.control.store.access import UserRow
from fairpool.control.store.access_revision import ENDED_WITH_TOKEN, MADE_OF, WITH_TOKEN, AccessRevision
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
    """However it is executed. New rows of tables that a known caller has a row in already change none."""

    async def scenario(plane: Plane) -> None:
        for name in sorted(MADE_OF):
            table = tables.metadata.tables[name]
            for changes, ways in ((update, updates(table)), (delete, deletes(table))):
                is_end = changes is delete and name in ENDED_WITH_TOKEN
                for unit in ways:
                    assert await changed_by(plane, unit) == {"revoked" if is_end else "access"}, name
            is_new = access_revision.changed_by(insert(table)) is None
            assert is_new == (name in WITH_TOKEN), name
        for unit in (*updates(tables.departments), *deletes(tables.departments)):
            assert await changed_by(plane, unit) == set()

    with_plane(tmp_path, scenario)


def updates(table: Table) -> list[Callable[[Connection], Any]]:
    """Of no row, by every means that there is."""
    key, none = _key(table)
    changed = update(table).where(key == bindparam("which", none["which"])).values({key: none["which"]})
    return [
        lambda connection: connection.execute(changed),
        lambda connection: Compiled(changed).run(connection, none),
    ]


def deletes(table: Table) -> list[Callable[[Connection], Any]]:
    key, none = _key(table)
    gone = delete(table).where(key == bindparam("which"))
    return [
        lambda connection: connection.execute(gone, none),
        lambda connection: Compiled(gone).run(connection, none),
        lambda connection: Compiled(gone).run_all(connection, [none]),
    ]


def _key(table: Table) -> tuple[Any, dict[str, Any]]:
    key = next(iter(table.primary_key))
    return key, {"which": 0 if isinstance(key.type, BigInteger) else "0"}


async def changed_by(plane: Plane, unit: Callable[[Connection], Any]) -> set[str]:
    """Which numbers are others afterwards, and whether this process was told."""
    said = list[bool]()
    plane.database.after_access_change = lambda: said.append(True)
    before = await plane.read(access_revision.current)
    await plane.write(unit)
    after = await plane.read(access_revision.current)
    changed = {name for name in before._fields if getattr(before, name) != getattr(after, name)}
    assert len(said) == bool(changed)
    return changed


def test_signing_in_and_out_leaves_others_known(tmp_path: Path) -> None:
    """What clients do all day. A unit that fails has changed nothing either."""

    def signed_in_and_worked(connection: Connection) -> None:
        sign_in(connection, 2)
        access.note_login(connection, "user-2", NOW)
        access.spend_token(connection, "digest-2", NOW)
        sessions.note_use(connection, {"family-2": NOW})
        access.drop_expired(connection, NOW, 10)
        sessions.drop_ended(connection, NOW, 10)

    def fails(connection: Connection) -> None:
        access.delete_user(connection, "user-1")
        raise LookupError

    async def scenario(plane: Plane) -> None:
        digest = await plane.write(lambda connection: add_caller(connection, 1))
        caller = await guard.known(plane, digest)
        await plane.write(signed_in_and_worked)
        with pytest.raises(LookupError):
            await plane.write(fails)
        assert await guard.known(plane, digest) is caller, "it was not read again"
        third = await plane.write(lambda connection: sign_in(connection, 3))
        await guard.known(plane, third)
        await plane.write(lambda connection: access.revoke_family(connection, "family-3"))
        assert await guard.known(plane, digest) is caller, "it was asked which tokens there are"
        with pytest.raises(Refused):
            await guard.known(plane, third)
        await plane.write(lambda connection: access.change_user(connection, "user-1", email="another@example.com"))
        assert (await guard.known(plane, digest)).name == "another@example.com"

    with_plane(tmp_path, scenario)


def test_a_caller_that_was_read_before_a_change_is_not_kept(tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        digest = await plane.write(lambda connection: add_caller(connection, 1))
        await guard.known(plane, digest)
        before = plane.callers.changes
        await plane.write(lambda connection: access.revoke_family(connection, "family-1"))
        await plane.confirm_callers()
        plane.callers.keep(digest, Caller(id="", name="", kind="user"), before)
        assert len(plane.callers) == 0

    with_plane(tmp_path, scenario)


class Asked:
    """Answers that no caller has changed, and counts how often."""

    def __init__(self, on_read: Callable[[], None] = lambda: None) -> None:
        self.times = 0
        self._on_read = on_read

    async def __call__(self, unit: Callable[[Connection], Any]) -> Any:
        self.times += 1
        self._on_read()
        await asyncio.sleep(0)
        return AccessRevision(1, 1), set[str]()


def test_one_asks_for_all_and_again_after_a_while_or_when_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fairpool.control.plane.time.monotonic", lambda: now[0])

    async def play() -> None:
        callers, asked = Callers(0.5), Asked()
        await asyncio.gather(*(callers.confirm(asked) for _ in range(100)))
        callers.keep("digest", Caller(id="ann", name="ann", kind="user"), callers.changes)
        now[0] = 0.4
        await callers.confirm(asked)
        assert asked.times == 1
        assert "digest" in callers
        for then, doubts in ((0.4, callers.doubt), (0.95, lambda: None)):
            now[0] = then
            doubts()
            assert "digest" not in callers
            await callers.confirm(asked)
            assert "digest" in callers
        assert asked.times == 3

    asyncio.run(play())


def test_what_is_said_while_it_is_asked_is_asked_again() -> None:
    async def play() -> None:
        callers = Callers()
        await callers.confirm(Asked(callers.doubt))
        assert not callers.is_confirmed
        await callers.confirm(Asked())
        assert callers.is_confirmed

    asyncio.run(play())
