"""The database of samples: a file beside the control plane's, or connections of its own to the same server.

It shares neither lock nor connection with the control plane's tables, so that whatever happens here keeps no change
there waiting. Commits do not wait for the disk: a power failure costs the last samples.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fairpool.control.store import series
from fairpool.control.store.database import Connection
from fairpool.control.store.event_loop_thread import EventLoopThread
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.read_only import SqliteReader
from fairpool.control.store.sqlite import Sqlite, Synchronous
from fairpool.control.store.unavailable import DAMAGED, Unavailable

if TYPE_CHECKING:
    from fairpool.control.store.postgresql import PostgresLink

T = TypeVar("T")

FILE = "metrics.sqlite"
APPLICATION = "fairpool metrics"
"""How the server shows our connections."""


class SeriesDatabase(Protocol):
    """Where samples are. Calls may come from several threads; writes wait for each other, and reads for reads."""

    def write(self, unit: Callable[[Connection], T]) -> T:
        """One transaction. Raises `Unavailable`."""

    def read(self, unit: Callable[[Connection], T]) -> T:
        """What is written, at one moment. Raises `Unavailable`."""

    def close(self) -> None: ...


class _SampleFile(LocalDatabase):
    """It does not say in the log that no change can be saved: changes of the control plane can be. Who keeps samples
    says that they are not kept."""

    def _note(self, problem: Unavailable) -> None:
        if self._problem is None or not self._problem.is_for_good:
            self._problem = problem

    def _recovered(self) -> None:
        if self._problem is not None and not self._problem.is_for_good:
            self._problem = None


class SqliteSeries:
    """A file. One that is damaged is put aside: the next samples begin a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer: LocalDatabase | None = None
        self._reader: SqliteReader | None = None

    def write(self, unit: Callable[[Connection], T]) -> T:
        with self._writing:
            try:
                if self._writer is None:
                    self._writer = self._opened()
                return self._writer.write_now(unit)
            except Unavailable as error:
                if error.is_for_good:
                    self._put_aside(error)
                raise

    def _opened(self) -> LocalDatabase:
        database = _SampleFile(Sqlite(self._path, Synchronous.NORMAL))
        database.open_now(series.prepare)
        return database

    def _put_aside(self, error: Unavailable) -> None:
        self._close_writer()
        if error.code == DAMAGED and self._path.exists():
            self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))
            for suffix in ("-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        with self._reading:
            self._close_reader()

    def read(self, unit: Callable[[Connection], T]) -> T:
        if self._reader is None:
            self._create()
        with self._reading:
            reader = self._reader = self._reader or SqliteReader(self._path)
            try:
                return reader.read(unit)
            except Unavailable as error:
                failure = error
        with self._writing:
            if failure.is_for_good and self._reader is reader:  # or it was put aside meanwhile
                self._put_aside(failure)
        raise failure

    def _create(self) -> None:
        """If it is not there. Another thread may just be at it."""
        with self._writing:
            is_there = self._path.exists()
        if not is_there:
            self.write(_nothing)

    def close(self) -> None:
        with self._writing, self._reading:
            self._close_reader()  # first: the last connection empties the log into the file, and a reader cannot
            self._close_writer()

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close_now()
            self._writer = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class PostgresSeries:
    """Tables in the control plane's database."""

    def __init__(self, location: str) -> None:
        from fairpool.control.store.postgresql import PostgresLinks, described

        self._where = described(location)
        self._thread = EventLoopThread("metrics")
        self._links = PostgresLinks(location, APPLICATION)
        self._link: PostgresLink | None = None
        self._is_prepared = False
        self._writing = threading.Lock()

    def write(self, unit: Callable[[Connection], T]) -> T:
        with self._writing:
            return self._run(self._written(unit))

    def read(self, unit: Callable[[Connection], T]) -> T:
        if not self._is_prepared:
            self.write(_nothing)
        return self._run(self._links.read(unit))

    async def _written(self, unit: Callable[[Connection], T]) -> T:
        """On a connection that is kept as long as nothing fails."""
        link, self._link = self._link, None
        if link is None or link.raw.is_closed():
            link = await self._linked()
        try:
            result: T = await link.run(lambda connection: _committed(connection, unit))
        except BaseException:
            await link.close()
            raise
        self._link = link
        return result

    async def _linked(self) -> PostgresLink:
        link = await self._links.connect(synchronous_commit="off")
        try:
            await link.connection.execution_options(isolation_level="READ COMMITTED")
            if not self._is_prepared:
                await link.run(series.prepare)
                self._is_prepared = True
        except BaseException:
            await link.close()
            raise
        return link

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        from fairpool.control.store.postgresql_errors import unavailable

        try:
            return self._thread.run(work)
        except Exception as error:
            problem = unavailable(error, self._where)
            if problem is None:
                raise
            raise problem from error

    def close(self) -> None:
        self._thread.run(self._closed())
        self._thread.stop()

    async def _closed(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()
        await self._links.close()


def _committed(connection: Connection, unit: Callable[[Connection], T]) -> T:
    result = unit(connection)
    connection.commit()
    return result


def _nothing(_: Connection) -> None:
    """A first write creates the tables."""


def series_database_at(location: str, data: Path) -> SeriesDatabase:
    """Beside the control plane's database at this location; an empty one is a file in the data directory."""
    return PostgresSeries(location) if location else SqliteSeries(data / FILE)
