"""A real PostgreSQL server for tests: one for each process that runs tests, on loopback, gone at its end.

With FAIRPOOL_TEST_DATABASE=postgresql in the environment, every control plane that a test opens has its database
there instead of in a file. Each data directory has a database of its own, a copy of one whose tables were made once.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from fairpool.control.store.database import Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.location import FILE
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.postgresql_database import PostgresDatabase
from fairpool.control.store.series_database import SeriesDatabase, series_database_at
from fairpool.control.store.sqlite import Sqlite
from tests.needs import skip_unless_ci

VARIABLE = "FAIRPOOL_TEST_DATABASE"
PROGRAMS = "FAIRPOOL_TEST_POSTGRESQL"
"""Names the folder with the programs of another server than the installed one."""
USER = "fairpool"
VERSIONS = Path("/usr/lib/postgresql")
START_S = 120.0
KEPT = 24
"""Databases that are kept: a test may open the one of an earlier step again."""
HASTY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""For tests that do not turn the machine off."""


def is_chosen() -> bool:
    """Whether tests of the control plane use PostgreSQL."""
    return os.environ.get(VARIABLE) == "postgresql"


of_sqlite = pytest.mark.skipif(is_chosen(), reason="about the file of SQLite")
of_both = pytest.mark.skipif(is_chosen(), reason="tries both databases at once")


def programs() -> Path:
    """The folder with the programs of the newest server that is installed, or of the one that was chosen."""
    if os.environ.get(PROGRAMS):
        return Path(os.environ[PROGRAMS])
    found = sorted(VERSIONS.glob("*/bin/postgres"), key=lambda path: float(path.parent.parent.name))
    if not found:
        skip_unless_ci("PostgreSQL is not installed (Debian package postgresql)")
    return found[-1].parent


class PostgresServer:
    """A server in a folder of its own. It refuses to be run by root, so root runs it as the user `postgres`."""

    def __init__(self, options: Sequence[str] = (), *, source: Sequence[str] = ()) -> None:
        """`source`: arguments of pg_basebackup, for a standby."""
        # Not in a folder of pytest, which lets no other user pass.
        self.folder, self.options = Path(tempfile.mkdtemp(prefix="fairpool-postgresql-")), options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        if source:
            self.run("pg_basebackup", "--pgdata", self.data, "--no-sync", *source)
        else:
            self.run("initdb", "--pgdata", self.data, "--username", USER, "--no-sync", "--encoding=UTF8", "--locale=C")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *arguments: str) -> str:
        command = [*_as_postgres(), str(programs() / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=START_S)
        assert done.returncode == 0, f"{program}: {done.stderr}"
        return done.stdout

    def start(self) -> None:
        settings = ("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.folder}")
        chosen = [word for each in (*settings, "max_connections=200", *self.options) for word in ("-c", each)]
        command = [*_as_postgres(), str(programs() / "postgres"), "-D", self.data, *chosen]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        until = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"no PostgreSQL server: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            self.ask("SELECT 1")
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: fast; SIGQUIT: at once, as if the machine had failed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def ask(self, statement: str, database: str = "postgres") -> Any:
        """The first value that a statement returns. Also where an event loop is running already."""

        async def asked() -> Any:
            connection = await asyncpg.connect(self.url(database), timeout=START_S, statement_cache_size=0)
            try:
                return await connection.fetchval(statement)
            finally:
                await connection.close()

        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(lambda: asyncio.run(asked())).result()

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


def _as_postgres() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL", "--"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Databases:
    """The databases of one server, one for each data directory."""

    TEMPLATE = "template_fairpool"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._names: dict[Path, str] = {}
        self._made = 0
        server.ask(f"CREATE DATABASE {self.TEMPLATE}")
        made = PostgresDatabase(server.url(self.TEMPLATE))
        made.open_now(upgrade)
        made.close_now()

    def url(self, data: Path) -> str:
        """The database of a data directory, made when it is first asked for."""
        name = self._names.get(data)
        if name is None:
            self._made += 1
            name = self._names[data] = f"test_{self._made}"
            self.server.ask(f"CREATE DATABASE {name} TEMPLATE {self.TEMPLATE}")
            if len(self._names) > KEPT:
                self.drop(next(iter(self._names)))
        return self.server.url(name)

    def copy(self, of: Path, to: Path) -> str:
        """A copy of the database of a data directory, which nothing is connected to, for another directory."""
        self._made += 1
        name = self._names[to] = f"test_{self._made}"
        self.server.ask(f"CREATE DATABASE {name} TEMPLATE {self._names[of]}")
        return self.server.url(name)

    def drop(self, data: Path) -> None:
        self.server.ask(f"DROP DATABASE {self._names.pop(data)} WITH (FORCE)")


@cache
def databases() -> Databases:
    """Of the server of this process."""
    server = PostgresServer(HASTY)
    atexit.register(server.close)
    server.start()
    return Databases(server)


def database_of(data: Path) -> Database:
    """The database of a data directory, in the system that the tests are run with."""
    if is_chosen():
        return PostgresDatabase(databases().url(data))
    return LocalDatabase(Sqlite(data / FILE))


def series_of(data: Path) -> SeriesDatabase:
    """Where the samples of a data directory are, in the same system."""
    return series_database_at(databases().url(data) if is_chosen() else "", data)
