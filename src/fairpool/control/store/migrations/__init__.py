"""From any earlier shape of the tables to today's, one step after the other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import StaticPool

from fairpool.control.store.sqlite import driver_of


def upgrade(connection: Connection, version: str = "head") -> None:
    """Bring the tables of a database up to date, or to an earlier version."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, version)


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
    config = _config()
    config.attributes["connection"] = connection
    command.downgrade(config, version)


def known_versions() -> list[str]:
    """The versions of the tables that this program can bring up to date, the oldest first."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return [script.revision for script in scripts][::-1]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config
