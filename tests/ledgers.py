"""Ledgers for tests: in memory, in a file, and on a real PostgreSQL server."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable

from fairpool.cluster.ledger import Ledger
from fairpool.cluster.ledger_file import LedgerFile
from fairpool.cluster.ledger_postgresql import PostgresLedger
from fairpool.cluster.ledger_store import LedgerStore
from tests.postgresql import databases

MEMORY, POSTGRESQL = "memory", "postgresql"
STORES = (MEMORY, POSTGRESQL)

NewPlace = Callable[[], LedgerStore | None]


def new_place(store: str) -> NewPlace:
    """Where a new ledger is, each time another."""
    return (lambda: postgresql_place(new_cluster())) if store == POSTGRESQL else lambda: None


def postgresql_place(cluster: str) -> PostgresLedger:
    """The ledger of a cluster on the server of this process."""
    return PostgresLedger(databases().server.url(), cluster)


def new_cluster() -> str:
    return str(uuid.uuid4())


def sqlite_connection(ledger: Ledger) -> sqlite3.Connection:
    """Of a ledger in memory or in a file."""
    assert isinstance(ledger.store, LedgerFile)
    return ledger.store.connection
