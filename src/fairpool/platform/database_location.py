"""Which database a data directory has: a file in it, or one on a PostgreSQL server.

Of the latter the directory keeps the address, without a password, so that no command takes an empty file for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from fairpool.agent.durable import write_durably
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem

VARIABLE = "FAIRPOOL_DATABASE"
FLAG = "--database"
SCHEMES = ("postgresql", "postgres")
FILE = "database"
FILES = ("passfile", "sslrootcert", "sslcert", "sslkey", "sslcrl")
OPTIONS = ("sslmode", *FILES, "sslpassword", "user", "password", "host", "port", "dbname", "target_session_attrs")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def problem_with_location(location: str, name: str = FLAG) -> Problem | None:
    """Why this cannot be the address of a database; `name`: of the flag or argument. Never repeats the address: it may
    contain a password."""
    fix = "pass an address such as postgresql://fairpool@db.example.com/fairpool"
    scheme = location.partition("://")[0]
    if scheme not in SCHEMES:
        what = f"{name} is not an address of a PostgreSQL database: it does not begin with postgresql://"
        return Problem("database.address", what, fix)
    try:
        parts = urlsplit(location)
    except ValueError:
        return Problem("database.address", f"{name} is not a valid address", fix)
    if not parts.path.strip("/"):
        return Problem("database.address", f"{name} names no database", fix)
    options = parse_qsl(parts.query, keep_blank_values=True)
    return _port_problem(parts.netloc, name, fix) or _option_problem(options, name)


def _port_problem(netloc: str, name: str, fix: str) -> Problem | None:
    for host in netloc.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            return Problem("database.address", f"the port of {name}, {port!r}, is not a number up to 65535", fix)
    return None


def _option_problem(options: list[tuple[str, str]], of: str) -> Problem | None:
    for name, value in options:
        if name not in OPTIONS:
            known = f"use one of {', '.join(OPTIONS)}"
            return Problem("database.address", f"{of} has an option that is not known: {name[:64]}", known)
        if name == "sslmode" and value not in SSL_MODES:
            return Problem("database.address", f"{of} has an unknown sslmode", f"use one of {', '.join(SSL_MODES)}")
        if name in FILES and not Path(value).is_file():
            return Problem("database.address", f"{of}: {name} is {value}, and there is no such file", "correct it")
    given = dict(options)
    if given.get("sslmode") in ("verify-ca", "verify-full") and "sslrootcert" not in given:
        what = f"{of} has sslmode={given['sslmode']}, and no certificate to check the server with"
        return Problem("database.address", what, "add sslrootcert=FILE")
    return None


def choose_location(data_directory: DataDirectory, location: str) -> None:
    """Use this database for the directory from now on; empty: its file. Raises `PlatformError`."""
    check_location(data_directory, location)
    if not location:
        return
    from fairpool.control.store.postgresql import described

    text = described(location)
    if text != kept_location(data_directory):
        try:
            write_durably(_file(data_directory), f"{text}\n".encode())
        except OSError as error:
            raise PlatformError(directory_problem(data_directory.root, error)) from error


def check_location(data_directory: DataDirectory, location: str) -> None:
    """Whether this can be the database of the directory; empty: its file. Raises `PlatformError`."""
    kept = kept_location(data_directory)
    if not location:
        if kept:
            what = f"the control database of {data_directory.root} is {kept}"
            raise PlatformError(
                Problem(
                    "database.elsewhere", what, f"set {VARIABLE}, or pass --database where the command has that flag"
                )
            )
        return
    from fairpool.control.store.postgresql import described

    if data_directory.control.exists():
        what = f"{data_directory.root} has a control database of its own, {data_directory.control.name}"
        fix = (
            "leave out --database, or use an empty data directory; to move to PostgreSQL, run `fairpool database copy` "
            f"and then move {data_directory.control.name} elsewhere"
        )
        raise PlatformError(Problem("database.two", what, fix))
    text = described(location)
    if kept and data_directory.ledger.exists() and _database_in(text) != _database_in(kept):
        # In another database the jobs of this directory do not exist, and the loop would stop their pods.
        what = f"the jobs of {data_directory.root} are in the control database {kept}, not in {text}"
        fix = f"pass that address; if the same database has moved, delete {_file(data_directory)} first"
        raise PlatformError(Problem("database.another", what, fix))


def kept_location(data_directory: DataDirectory) -> str:
    """The address without a password; empty: the database is a file in the directory."""
    try:
        return _file(data_directory).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def given_location(data_directory: DataDirectory) -> str:
    """For commands without the flag: the address from the environment. Raises `PlatformError` where it is needed."""
    location = os.environ.get(VARIABLE, "")
    check_location(data_directory, location)
    return location


def refuse_server(data_directory: DataDirectory, action: str) -> None:
    """For commands that work on the file. Raises `PlatformError`."""
    kept = kept_location(data_directory)
    if kept:
        what = f"the control database of {data_directory.root} is {kept}: `fairpool {action}` works on files only"
        fix = "use the tools of PostgreSQL (pg_dump, pg_basebackup); see docs/guides/postgresql.md"
        raise PlatformError(Problem("database.elsewhere", what, fix))


def _database_in(text: str) -> tuple[str, str]:
    """Servers and database of an address, without its options."""
    parts = urlsplit(text)
    return parts.netloc, parts.path


def _file(data_directory: DataDirectory) -> Path:
    return data_directory.root / FILE
