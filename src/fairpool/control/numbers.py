"""Numbers of projects, departments and node pools: their ids for clients of the original, beside their names.

The original's older paths and its assets know a project by a number. Here it is the revision that created it: no other
thing ever gets the same. Names begin with a letter, so that the two cannot be confused.
"""

from __future__ import annotations

from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection, Table
from fairpool.control.store.tables import departments, node_pools, projects


def project_name(connection: Connection, said: str | int) -> str:
    """The name of a project that was given by name or number; what is neither is returned as it is."""
    return _name(connection, projects, said)


def department_name(connection: Connection, said: str | int) -> str:
    """The same of a department."""
    return _name(connection, departments, said)


def pool_name(connection: Connection, said: str | int) -> str:
    """The same of a node pool."""
    return _name(connection, node_pools, said)


def project_number(connection: Connection, name: str) -> int | None:
    """The number of a project; None: there is no such project."""
    row = store.project(connection, name)
    return None if row is None else int(row.number)


NUMBER_DIGITS_MAX = 18
"""A longer one does not fit the column."""


def _name(connection: Connection, table: Table, said: str | int) -> str:
    text = str(said)
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        return text
    return store.name_of_number(connection, table, int(text)) or text
