"""A control database that a command is to work on: the file of a data directory, another file, or one on a server.

`fairpool database` names them as arguments. What is written to is held meanwhile, so that no server of this machine
starts on it; a database on a server is asked for connections of control planes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fairpool.control.store.database import Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.read_only import ReadOnlyDatabase, reader_of
from fairpool.control.store.sqlite import Sqlite
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem
from fairpool.platform.database_location import SCHEMES, given_location, kept_location, problem_with_location
from fairpool.platform.directory_lock import in_use, lock_holder, locked


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a database is."""

    location: str = field(default="", repr=False)
    """An address, perhaps with a password; empty: it is a file."""
    file: Path = Path()

    def __str__(self) -> str:
        if not self.location:
            return str(self.file)
        from fairpool.control.store.postgresql import described

        return described(self.location)

    @property
    def data_directory(self) -> DataDirectory | None:
        """The one that the file belongs to."""
        found = DataDirectory(self.file.parent)
        is_its_own = not self.location and self.file == found.control and (found.is_there or kept_location(found))
        return found if is_its_own else None

    def require(self) -> None:
        """Raises `PlatformError` for a file that cannot be a database of ours, or not be read."""
        if self.location:
            return
        from fairpool.control.store.condition import problem_with_database

        if not self.file.exists():
            fix = "pass the address of a database, a file or a data directory"
            raise PlatformError(Problem("database.none", f"there is no control database {self.file}", fix))
        problem = problem_with_database(self.file, may_be_new=False)
        if problem is not None and problem.code != "database.read_only":
            raise PlatformError(problem)

    @contextmanager
    def reading(self) -> Iterator[ReadOnlyDatabase]:
        """Look at it. Raises `PlatformError`."""
        with database_errors():
            reader = reader_of(self.location, self.file)
            try:
                yield reader
            finally:
                reader.close()

    def refuse_if_used(self, fix: str) -> None:
        """Raises `PlatformError` if a server uses it."""
        directory = self.data_directory
        holder = lock_holder(directory) if directory is not None else None
        if directory is not None and holder is not None:
            raise PlatformError(Problem("database.used", in_use(directory, holder).what, fix))
        self.refuse_if_connected(fix)

    def refuse_if_connected(self, fix: str) -> None:
        """Raises `PlatformError` if control planes are connected to the database server. A file's cannot be counted."""
        with self.reading() as database:
            count = database.users()
        if count:
            are = "is 1 connection" if count == 1 else f"are {count} connections"
            what = f"{self} is in use: there {are} of control planes"
            raise PlatformError(Problem("database.used", what, fix))

    @contextmanager
    def held(self, command: str) -> Iterator[None]:
        """Let no server of its data directory start meanwhile. Raises `PlatformError`."""
        directory = self.data_directory
        if directory is None:
            yield
            return
        with locked(directory, command):
            yield

    def opened(self) -> Database:
        """To be written to; not connected yet."""
        if not self.location:
            return LocalDatabase(Sqlite(self.file))
        from fairpool.control.store.postgresql_database import PostgresDatabase

        return PostgresDatabase(self.location)


@contextmanager
def database_errors() -> Iterator[None]:
    """Errors of a database as `PlatformError`."""
    try:
        yield
    except Unavailable as error:
        raise PlatformError(error.described) from error


def place_of(text: str, name: str) -> DatabasePlace:
    """The database that an argument names: an address, a file, or a data directory. Raises `PlatformError`."""
    if text.partition("://")[0] in SCHEMES:
        problem = problem_with_location(text, name)
        if problem is not None:
            raise PlatformError(problem)
        return DatabasePlace(text)
    if "://" in text:
        fix = "pass postgresql://USER@HOST/NAME, a file or a data directory"
        raise PlatformError(Problem("database.address", f"{name} is neither a PostgreSQL address nor a path", fix))
    path = Path(os.path.abspath(Path(text).expanduser()))
    if path.is_dir():
        return DatabasePlace(file=DataDirectory(path).control)
    if not path.parent.is_dir():
        raise PlatformError(directory_problem(path.parent, FileNotFoundError(2, "No such file or directory")))
    return DatabasePlace(file=path)


def place_of_data(data_directory: DataDirectory) -> DatabasePlace:
    """The database of a data directory. Raises `PlatformError` where its address is not known."""
    data_directory.require()
    location = given_location(data_directory)
    return DatabasePlace(location) if location else DatabasePlace(file=data_directory.control)
