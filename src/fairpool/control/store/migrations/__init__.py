"""From any earlier shape of the tables to today's, one step after the other.

Alembic takes 10 MiB and as long to import as everything else of the store: a database that is up to date, as at nearly
every start, is recognized without it.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.pool import StaticPool

from fairpool.control.store.sqlite import driver_of
from fairpool.control.store.unavailable import FOREIGN, NEWER, Unavailable

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "head"
NAMES = ("revision", "down_revision")


def upgrade(connection: Connection, version: str = HEAD) -> None:
    """Bring the tables of a database up to date, or to an earlier version.

    Raises `Unavailable` for tables of a newer release, which are never touched, and for those of another program.
    """
    try:
        found = found_version(connection)
    finally:
        connection.rollback()  # Alembic commits only a transaction that it has begun itself
    if version == HEAD and found == known_versions()[-1]:
        return
    from alembic import command

    command.upgrade(_config(connection), version)


def found_version(connection: Connection) -> str | None:
    """The version of the tables that are there; None: there are none. Raises `Unavailable` for tables of a newer
    release, and for those of another program."""
    tables, known = set(inspect(connection).get_table_names()), known_versions()
    found: str | None = None
    if "alembic_version" in tables:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is not None and found not in known:
        raise Unavailable(NEWER, f"its version is {found}, and this one supports {known[-1]}")
    if found is None and (others := sorted(tables - {"alembic_version"})):
        raise Unavailable(FOREIGN, f"its tables are {', '.join(others[:4])}")
    return found


def create_in_memory(connection: Connection) -> None:
    """Today's tables in an empty database in memory: a copy of a template, because the steps take 35 ms each time."""
    raw = driver_of(connection)
    raw.execute("COMMIT")  # a database is replaced as a whole, outside of transactions
    raw.deserialize(_template())


@cache
def _template() -> bytes:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with closing(engine.connect()) as connection:
        upgrade(connection)
        raw: sqlite3.Connection = driver_of(connection)
        return raw.serialize()


def downgrade(connection: Connection, version: str) -> None:
    """Back to an earlier shape: for tests, and to go back to an older release."""
    from alembic import command

    command.downgrade(_config(connection), version)


@cache
def known_versions() -> list[str]:
    """The versions of the tables that this program can bring up to date, the oldest first: each step names the one
    before it."""
    after: dict[str | None, str] = {}
    for step in (Path(__file__).parent / "versions").glob("[0-9]*_*.py"):
        text = step.read_text(encoding="utf-8")
        version, before = (re.search(rf'^{name} = (?:"(\w+)"|None)', text, re.MULTILINE) for name in NAMES)
        assert version is not None, f"{step.name} has no version"
        assert before is not None, f"{step.name} does not name the step before it"
        after[before[1]] = version[1]
    found: list[str] = []
    while (following := after.get(found[-1] if found else None)) is not None:
        found.append(following)
    assert len(found) == len(after), "the steps form one line"
    return found


def steps_after(version: str | None) -> list[tuple[str, str]]:
    """The steps from a version to today's, each with what it does; None: all."""
    known = known_versions()
    return [(each, _purpose(each)) for each in known[known.index(version) + 1 if version is not None else 0 :]]


def _purpose(version: str) -> str:
    (step,) = (Path(__file__).parent / "versions").glob(f"{version}_*.py")
    words = ast.get_docstring(ast.parse(step.read_text(encoding="utf-8"))) or step.stem
    return " ".join(words.partition("\n\n")[0].split())


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.attributes["connection"] = connection
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config
