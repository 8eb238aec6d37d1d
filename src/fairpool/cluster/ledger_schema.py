"""Tables of the ledger, as migrations from each version to the next.

A released migration is never edited: files made by it exist. A new field of a value that has columns needs a new
migration, with a default for existing rows; PostgreSQL gets the same statements, see `POSTGRESQL_MIGRATIONS`.

Times are milliseconds since the epoch, lists and records are JSON text (`plain`), enums are their values.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x46504C47
"""In the file's header: this SQLite database is a ledger of Fairpool."""

Step = tuple[str, ...]

FIRST: Step = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    """CREATE TABLE lease (
        only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
        token      INTEGER NOT NULL,
        holder     TEXT NOT NULL,
        renewed_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    )""",
    "INSERT INTO lease VALUES (1, 0, '', 0, 0)",
    """CREATE TABLE progress (
        only_row          INTEGER PRIMARY KEY CHECK (only_row = 1),
        cursor            INTEGER,
        events_through    INTEGER NOT NULL,
        dropped_events    INTEGER NOT NULL
    )""",
    "INSERT INTO progress VALUES (1, NULL, 0, 0)",
    "CREATE TABLE organization (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), body TEXT NOT NULL)",
    """CREATE TABLE specs (
        id          TEXT NOT NULL PRIMARY KEY,
        name        TEXT NOT NULL,
        project     TEXT NOT NULL,
        created_at  INTEGER NOT NULL,
        kind        TEXT NOT NULL,
        template    TEXT NOT NULL,
        leader      TEXT,
        arrangement TEXT NOT NULL,
        pods        INTEGER NOT NULL,
        minimum     INTEGER,
        completions INTEGER,
        priority    INTEGER,
        preemptible INTEGER,
        restart     TEXT,
        retries     INTEGER,
        deadline_s  INTEGER,
        ttl_s       INTEGER,
        grace_s     INTEGER NOT NULL,
        pools       TEXT NOT NULL,
        "constraint" TEXT,
        want        TEXT NOT NULL,
        run         INTEGER NOT NULL
    )""",
    """CREATE TABLE lives (
        id          TEXT NOT NULL PRIMARY KEY,
        workload    TEXT NOT NULL,
        "index"     INTEGER NOT NULL,
        incarnation INTEGER NOT NULL,
        "group"     TEXT NOT NULL,
        shape       TEXT NOT NULL,
        pod_set     TEXT NOT NULL,
        run         INTEGER NOT NULL,
        phase       TEXT NOT NULL,
        since       INTEGER NOT NULL,
        born_at     INTEGER NOT NULL,
        not_before  INTEGER NOT NULL,
        node        TEXT,
        devices     TEXT NOT NULL,
        boot_id     TEXT NOT NULL,
        promised_at INTEGER,
        nominated   TEXT,
        started_at  INTEGER,
        cause       TEXT,
        detail      TEXT NOT NULL,
        outcome     TEXT,
        exit_code   INTEGER,
        grace_s     INTEGER NOT NULL,
        attempts    INTEGER NOT NULL,
        retry_at    INTEGER NOT NULL
    )""",
    "CREATE INDEX lives_by_workload ON lives (workload)",
    """CREATE TABLE standings (
        workload     TEXT NOT NULL PRIMARY KEY,
        run          INTEGER NOT NULL,
        failures     INTEGER NOT NULL,
        halt         TEXT,
        active_since INTEGER,
        pool         TEXT,
        groups       TEXT NOT NULL,
        avoided      TEXT NOT NULL
    )""",
    """CREATE TABLE events (
        number   INTEGER PRIMARY KEY,
        at       INTEGER NOT NULL,
        kind     TEXT NOT NULL,
        workload TEXT NOT NULL,
        pod      TEXT,
        node     TEXT,
        cause    TEXT NOT NULL,
        detail   TEXT NOT NULL
    )""",
)

START_FAILURES: Step = (
    "ALTER TABLE lives ADD COLUMN trouble TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE standings ADD COLUMN refusals INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE standings ADD COLUMN first_incarnation INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE events ADD COLUMN outcome TEXT",
    "ALTER TABLE events ADD COLUMN exit_code INTEGER",
)

LAST_FAILURE: Step = ("ALTER TABLE standings ADD COLUMN failure TEXT NOT NULL DEFAULT ''",)

DEPENDENCIES: Step = (
    "ALTER TABLE specs ADD COLUMN after TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE specs ADD COLUMN array TEXT",
    "ALTER TABLE standings ADD COLUMN met TEXT NOT NULL DEFAULT '[]'",
)

TABLE_NAMES: Step = (
    "ALTER TABLE lives RENAME TO pods",
    "DROP INDEX lives_by_workload",
    "CREATE INDEX pods_by_workload ON pods (workload)",
    "ALTER TABLE standings RENAME TO workload_states",
)

PROTOCOL: Step = ("ALTER TABLE progress ADD COLUMN protocol INTEGER NOT NULL DEFAULT 2",)
"""The version of the protocol in which the declarations were pulled."""

FIELD_NAMES: Step = (
    "ALTER TABLE specs RENAME COLUMN want TO desired_state",
    "ALTER TABLE pods RENAME COLUMN born_at TO created_at",
    "ALTER TABLE pods RENAME COLUMN trouble TO start_failure",
    """UPDATE organization
        SET body = json_set(json_remove(body, '$.marks'), '$.node_overrides', json_extract(body, '$.marks'))
        WHERE json_valid(body) AND json_type(body, '$.marks') IS NOT NULL""",
)

DISTRIBUTED_RUNS: Step = ("ALTER TABLE specs ADD COLUMN distributed TEXT",)

GANG_RETRIES: Step = ("ALTER TABLE workload_states ADD COLUMN retry_at INTEGER NOT NULL DEFAULT 0",)

USAGE: Step = (
    "ALTER TABLE pods ADD COLUMN usage TEXT",
    "ALTER TABLE events ADD COLUMN usage TEXT",
    "ALTER TABLE progress ADD COLUMN delivered INTEGER NOT NULL DEFAULT 0",
)
"""`delivered`: the control plane has every event up to this one. They are kept for a while."""
DECISIONS: Step = ("ALTER TABLE events ADD COLUMN decision TEXT",)

MIGRATIONS: tuple[Step, ...] = (
    FIRST,
    START_FAILURES,
    LAST_FAILURE,
    DEPENDENCIES,
    TABLE_NAMES,
    PROTOCOL,
    FIELD_NAMES,
    DISTRIBUTED_RUNS,
    GANG_RETRIES,
    USAGE,
    DECISIONS,
)
"""Migration n leads from version n to version n + 1; an empty file has version 0."""

VERSION = len(MIGRATIONS)


POSTGRESQL_TABLES: Step = (
    """CREATE TABLE lease (
        only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
        token      INTEGER NOT NULL,
        holder     TEXT NOT NULL,
        renewed_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    )""",
    "INSERT INTO lease VALUES (1, 0, '', 0, 0)",
    """CREATE TABLE progress (
        only_row       INTEGER PRIMARY KEY CHECK (only_row = 1),
        cursor         INTEGER,
        events_through INTEGER NOT NULL,
        dropped_events INTEGER NOT NULL,
        protocol       INTEGER NOT NULL,
        delivered      INTEGER NOT NULL
    )""",
    "INSERT INTO progress VALUES (1, NULL, 0, 0, 0, 0)",
    "CREATE TABLE organization (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), body TEXT NOT NULL)",
    """CREATE TABLE specs (
        id            TEXT NOT NULL PRIMARY KEY,
        name          TEXT NOT NULL,
        project       TEXT NOT NULL,
        created_at    INTEGER NOT NULL,
        kind          TEXT NOT NULL,
        template      TEXT NOT NULL,
        leader        TEXT,
        arrangement   TEXT NOT NULL,
        pods          INTEGER NOT NULL,
        minimum       INTEGER,
        completions   INTEGER,
        priority      INTEGER,
        preemptible   INTEGER,
        restart       TEXT,
        retries       INTEGER,
        deadline_s    INTEGER,
        ttl_s         INTEGER,
        grace_s       INTEGER NOT NULL,
        pools         TEXT NOT NULL,
        "constraint"  TEXT,
        desired_state TEXT NOT NULL,
        run           INTEGER NOT NULL,
        after         TEXT NOT NULL,
        "array"       TEXT,
        distributed   TEXT
    )""",
    """CREATE TABLE pods (
        id            TEXT NOT NULL PRIMARY KEY,
        workload      TEXT NOT NULL,
        "index"       INTEGER NOT NULL,
        incarnation   INTEGER NOT NULL,
        "group"       TEXT NOT NULL,
        shape         TEXT NOT NULL,
        pod_set       TEXT NOT NULL,
        run           INTEGER NOT NULL,
        phase         TEXT NOT NULL,
        since         INTEGER NOT NULL,
        created_at    INTEGER NOT NULL,
        not_before    INTEGER NOT NULL,
        node          TEXT,
        devices       TEXT NOT NULL,
        boot_id       TEXT NOT NULL,
        promised_at   INTEGER,
        nominated     TEXT,
        started_at    INTEGER,
        cause         TEXT,
        detail        TEXT NOT NULL,
        outcome       TEXT,
        exit_code     INTEGER,
        grace_s       INTEGER NOT NULL,
        attempts      INTEGER NOT NULL,
        retry_at      INTEGER NOT NULL,
        start_failure TEXT NOT NULL,
        usage         TEXT
    )""",
    "CREATE INDEX pods_by_workload ON pods (workload)",
    """CREATE TABLE workload_states (
        workload          TEXT NOT NULL PRIMARY KEY,
        run               INTEGER NOT NULL,
        failures          INTEGER NOT NULL,
        halt              TEXT,
        active_since      INTEGER,
        pool              TEXT,
        groups            TEXT NOT NULL,
        avoided           TEXT NOT NULL,
        refusals          INTEGER NOT NULL,
        first_incarnation INTEGER NOT NULL,
        failure           TEXT NOT NULL,
        met               TEXT NOT NULL,
        retry_at          INTEGER NOT NULL
    )""",
    """CREATE TABLE events (
        number    INTEGER PRIMARY KEY,
        at        INTEGER NOT NULL,
        kind      TEXT NOT NULL,
        workload  TEXT NOT NULL,
        pod       TEXT,
        node      TEXT,
        cause     TEXT NOT NULL,
        detail    TEXT NOT NULL,
        outcome   TEXT,
        exit_code INTEGER,
        usage     TEXT,
        decision  TEXT
    )""",
)
POSTGRESQL_FROM = 11
"""The version of these tables: the first that could be on a server."""


def _on_postgresql(step: Step) -> Step:
    """The same statements with the types of PostgreSQL. Texts are sorted by character, as SQLite does."""
    return tuple(text.replace("INTEGER", "BIGINT").replace("TEXT", 'TEXT COLLATE "C"') for text in step)


POSTGRESQL_MIGRATIONS: tuple[tuple[int, Step], ...] = (
    (POSTGRESQL_FROM, _on_postgresql(POSTGRESQL_TABLES)),
    *((number, _on_postgresql(step)) for number, step in enumerate(MIGRATIONS, start=1) if number > POSTGRESQL_FROM),
)
"""Each with the version that it leads to. Later migrations must be written so that both understand them."""


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of the tables in a file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(connection: sqlite3.Connection) -> None:
    """Apply every missing migration, in the transaction of the caller. The version is written in any case."""
    assert connection.in_transaction
    for step in MIGRATIONS[schema_version(connection) :]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
