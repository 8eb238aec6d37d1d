"""Which database a data directory has: a file in it, or one on a PostgreSQL server.

Of the latter the directory keeps the address, without a password, so that no command takes an empty file for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from fairpool.agent.durable import write_durably
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem

VARIABLE = "FAIRPOOL_DATABASE"
SCHEMES = ("postgresql", "postgres")
FILE = "database"


def problem_with_location(location: str) -> Problem | None:
    """Why this cannot be the address of a database. Never repeats it: it may contain a password."""
    fix = "pass an address such as postgresql://fairpool@db.example.com/fairpool"
    scheme = location.partition("://")[0]
    if scheme not in SCHEMES:
        what = "--database is not an address of a PostgreSQL database: it does not begin with postgresql://"
        return Problem("database.address", what, fix)
    try:
        parts = urlsplit(location)
    except ValueError:
        return Problem("database.address", "--database is not a valid address", fix)
    if not parts.path.strip("/"):
        return Problem("database.address", "--database names no database", fix)
    return None


def choose_location(data_directory: DataDirectory, location: str) -> None:
    """Use this database for the directory from now on; empty: its file. Raises `PlatformError`."""
    kept = kept_location(data_directory)
    if not location:
        if kept:
            what = f"the control database of {data_directory.root} is {kept}"
            raise PlatformError(Problem("database.elsewhere", what, f"pass --database, or set {VARIABLE}"))
        return
    from fairpool.control.store.postgresql import described

    if data_directory.control.exists():
        what = f"{data_directory.root} has a control database of its own, {data_directory.control.name}"
        fix = "use an empty data directory for PostgreSQL, or leave out --database"
        raise PlatformError(Problem("database.two", what, fix))
    text = described(location)
    if text != kept:
        try:
            write_durably(_file(data_directory), f"{text}\n".encode())
        except OSError as error:
            raise PlatformError(directory_problem(data_directory.root, error)) from error


def kept_location(data_directory: DataDirectory) -> str:
    """The address without a password; empty: the database is a file in the directory."""
    try:
        return _file(data_directory).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def given_location(data_directory: DataDirectory) -> str:
    """For commands without the flag: the address from the environment. Raises `PlatformError` where it is needed."""
    location = os.environ.get(VARIABLE, "")
    choose_location(data_directory, location)
    return location


def refuse_server(data_directory: DataDirectory, action: str) -> None:
    """For commands that work on the file. Raises `PlatformError`."""
    kept = kept_location(data_directory)
    if kept:
        what = f"the control database of {data_directory.root} is {kept}: `fairpool {action}` works on files only"
        fix = "use the tools of PostgreSQL (pg_dump, pg_basebackup); see docs/guides/postgresql.md"
        raise PlatformError(Problem("database.elsewhere", what, fix))


def _file(data_directory: DataDirectory) -> Path:
    return data_directory.root / FILE
