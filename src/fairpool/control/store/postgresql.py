"""PostgreSQL as the control plane's database: connections, and reads at one moment.

asyncpg speaks to the server; SQLAlchemy's asyncio dialect stands around it, so that units stay ordinary functions of a
connection: each runs in a greenlet, and while a statement is on its way the event loop does other things. Connections
belong to the event loop that made them (`PostgresLinks`). They are in autocommit as far as SQLAlchemy knows:
transactions are begun and ended here, in as few round trips as it takes.

A location is an address as libpq reads it, also with several hosts and with `sslmode` and `sslrootcert`. Passwords may
be in it, in PGPASSWORD, or in the file that PGPASSFILE names; none is ever shown (`described`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from fairpool.control.store.postgresql_errors import is_lost

T = TypeVar("T")

READERS = 8
"""Connections that read at the same time, for each event loop."""
CONNECT_S = 5.0
STATEMENT_S = 60.0
"""How long one statement may take, also where the server has vanished from the network without a word."""
IDLE_IN_TRANSACTION_MS = 15_000
"""A process that stops in the middle of a transaction must not keep the others from writing for longer."""
STATEMENTS_CACHED = 500
APPLICATION = "fairpool"
"""How the server shows connections of control planes."""

BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?<=://)([^:@/?]*):[^/?]*@|([?&](?:password|sslpassword)=)[^&]*", re.IGNORECASE)


def is_postgresql(location: str) -> bool:
    return location.startswith(SCHEMES)


def described(location: str) -> str:
    """A location without its passwords, as messages show it."""
    return _PASSWORD.sub(lambda found: found[2] + "***" if found[2] else f"{found[1]}@", location)


@dataclass(slots=True)
class PostgresLink:
    """One connection to the server."""

    connection: AsyncConnection
    raw: Any
    """The driver's own, which is told about transactions without SQLAlchemy's round trips."""

    def run(self, unit: Callable[[Connection], T]) -> Any:
        """To be awaited: what the unit returns."""
        return self.connection.run_sync(unit)

    async def close(self) -> None:
        self.raw.terminate()
        with suppress(Exception):
            await self.connection.close()


class PostgresLinks:
    """The connections of one event loop."""

    def __init__(self, location: str, application: str = APPLICATION) -> None:
        self._location, self._application = location, application
        self._engine: AsyncEngine | None = None
        self._idle: list[PostgresLink] = []
        self._room = asyncio.Semaphore(READERS)
        self._is_closed = False

    async def connect(self, **server_settings: str) -> PostgresLink:
        """A new connection. Raises the errors of asyncpg and the network."""
        engine = self._engine or self._made_engine()
        connection = engine.connect()
        self._settings = {"application_name": self._application, **server_settings}
        await connection.start()
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        return PostgresLink(connection, raw)

    async def read(self, unit: Callable[[Connection], T]) -> T:
        """What is written, at one moment."""
        async with self._room:
            link = await self._begun()
            try:
                result: T = await link.run(unit)
                await link.raw.execute("COMMIT")
            except BaseException as error:
                await self._put_back_after(link, error)
                raise
            self._put_back(link)
        return result

    async def _put_back_after(self, link: PostgresLink, error: BaseException) -> None:
        """Cut off in the middle of a statement, or with a server that is gone, it is of no further use."""
        if isinstance(error, Exception) and not is_lost(error):
            with suppress(Exception):
                await link.raw.execute("ROLLBACK", timeout=CONNECT_S)
                self._put_back(link)
                return
        await link.close()

    async def _begun(self) -> PostgresLink:
        """A connection in a new transaction. Those that broke while they were idle are replaced without a word."""
        while self._idle:
            link = self._idle.pop()
            try:
                await link.raw.execute(BEGIN_READ)
            except Exception as error:
                await link.close()
                if not is_lost(error):
                    raise
            except BaseException:
                await link.close()
                raise
            else:
                return link
        link = await self.connect()
        try:
            await link.raw.execute(BEGIN_READ)
        except BaseException:
            await link.close()
            raise
        return link

    def _put_back(self, link: PostgresLink) -> None:
        if self._is_closed or link.raw.is_closed():
            link.raw.terminate()
        else:
            self._idle.append(link)

    async def close(self) -> None:
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()
        if self._engine is not None:
            await self._engine.dispose()

    def _made_engine(self) -> AsyncEngine:
        self._engine = create_async_engine(
            "postgresql+asyncpg://", poolclass=NullPool, isolation_level="AUTOCOMMIT", async_creator=self._connected
        )
        dialect = self._engine.sync_engine.dialect
        dialect.type_compiler_instance = CollatedTypes(dialect)
        return self._engine

    async def _connected(self) -> Any:
        return await connect(self._location, **self._settings)


async def connect(location: str, **server_settings: str) -> Any:
    """One connection of the driver alone. Raises the errors of asyncpg and the network."""
    return await asyncpg.connect(
        dsn=location,
        timeout=CONNECT_S,
        command_timeout=STATEMENT_S,
        statement_cache_size=0,  # SQLAlchemy keeps the prepared statements
        target_session_attrs=None if "target_session_attrs=" in location else "read-write",
        server_settings={
            "application_name": APPLICATION,
            "synchronous_commit": "on",
            "jit": "off",
            **server_settings,
        },
    )


class CollatedTypes(PGTypeCompiler):
    """Types of columns, in whose texts every letter has its number, as in SQLite: names are sorted and paged through
    alike, whatever the language of the server."""

    def visit_VARCHAR(self, type_: Any, **options: Any) -> str:
        return _collated(super().visit_VARCHAR(type_, **options), options)

    def visit_TEXT(self, type_: Any, **options: Any) -> str:
        return _collated(super().visit_TEXT(type_, **options), options)


def _collated(text: str, options: dict[str, Any]) -> str:
    is_column = options.get("type_expression") is not None
    return f'{text} COLLATE "C"' if is_column else text
