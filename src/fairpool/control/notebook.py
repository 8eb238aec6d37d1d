"""What the stand-in remembers, as rows of one SQLite file, or of memory where no file is named.

The log of changes is the revision beside each declaration: a pull reads the rows above its cursor, so it costs what
has changed. Of removed declarations the latest are remembered; whoever asks about earlier ones is told everything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from fairpool.api.clusters import DesiredWorkload, EventReport, Over, WorkloadReport
from fairpool.api.declarations import OrganizationWire
from fairpool.model.ids import Revision, Token, WorkloadId
from fairpool.model.organization import Organization
from fairpool.model.spec import WorkloadSpec

REMOVED_KEPT: Final = 10_000
"""Removed declarations that are remembered: a cluster that reads once a minute is never behind by so many."""

# The first revision is 1, because a cluster that has read nothing asks what came after 0.
SCHEMA = """
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO mark VALUES ('revision', 1), ('forgotten', 0), ('organization', 1);
CREATE TABLE IF NOT EXISTS workload (id TEXT PRIMARY KEY, revision INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS workload_by_revision ON workload (revision);
CREATE TABLE IF NOT EXISTS removed (id TEXT PRIMARY KEY, revision INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS removed_by_revision ON removed (revision);
CREATE TABLE IF NOT EXISTS organization (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cluster (
  name TEXT PRIMARY KEY, token INTEGER NOT NULL, number INTEGER NOT NULL, events_through INTEGER NOT NULL,
  unsure INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS level (
  kind TEXT, key TEXT, cluster TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, key, cluster)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS incarnation (
  workload TEXT, pod INTEGER, highest INTEGER NOT NULL, PRIMARY KEY (workload, pod)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
  cluster TEXT, number INTEGER, body TEXT NOT NULL, PRIMARY KEY (cluster, number)
) WITHOUT ROWID;
"""


class LevelKind(StrEnum):
    """What a cluster reports levels of."""

    WORKLOAD = "workload"
    NODE = "node"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Heard:
    """How far a cluster's reports have come."""

    token: Token
    number: int
    events_through: int
    unsure: bool = False
    """Something that it once told us is missing here; only a whole report cures that."""


class Notebook:
    """The rows. Whoever writes opens `transaction`; what was written in it is kept together or not at all."""

    def __init__(self, path: Path | None, removed_kept: int) -> None:
        self._removed_kept = removed_kept
        self._rows = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        # Written through to the system at every commit, so that it outlives the process; only a crash of the whole
        # machine could take the latest commits, never the file.
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.execute("PRAGMA synchronous = NORMAL")
        self._rows.executescript(SCHEMA)

    def transaction(self) -> sqlite3.Connection:
        return self._rows

    def close(self) -> None:
        self._rows.close()

    # --- what is declared ---

    def mark(self, name: str) -> Revision:
        (value,) = self._rows.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
        return Revision(value)

    def set_mark(self, name: str, value: Revision) -> None:
        self._rows.execute("UPDATE mark SET value = ? WHERE name = ?", (value, name))

    def next_revision(self) -> Revision:
        revision = Revision(self.mark("revision") + 1)
        self.set_mark("revision", revision)
        return revision

    def declare(self, spec: WorkloadSpec, revision: Revision) -> None:
        body = DesiredWorkload.from_spec(spec).to_json()
        self._rows.execute("INSERT OR REPLACE INTO workload VALUES (?, ?, ?)", (spec.id, revision, body))

    def remove(self, workload: WorkloadId, revision: Revision) -> None:
        """Forget a declaration and what was reported of it, except its history."""
        self._rows.execute("DELETE FROM workload WHERE id = ?", (workload,))
        self._rows.execute("DELETE FROM level WHERE kind = ? AND key = ?", (LevelKind.WORKLOAD, workload))
        self._rows.execute("DELETE FROM incarnation WHERE workload = ?", (workload,))
        self._rows.execute("INSERT OR REPLACE INTO removed VALUES (?, ?)", (workload, revision))
        query = "SELECT revision FROM removed ORDER BY revision DESC LIMIT 1 OFFSET ?"
        too_old = self._rows.execute(query, (self._removed_kept,)).fetchone()
        if too_old is not None:
            self._rows.execute("DELETE FROM removed WHERE revision <= ?", too_old)
            self.set_mark("forgotten", Revision(too_old[0]))

    def spec(self, workload: WorkloadId) -> WorkloadSpec | None:
        row = self._rows.execute("SELECT body FROM workload WHERE id = ?", (workload,)).fetchone()
        return DesiredWorkload.from_json(row[0]).to_spec() if row else None

    def specs(self) -> list[WorkloadSpec]:
        rows = self._rows.execute("SELECT body FROM workload ORDER BY id")
        return [DesiredWorkload.from_json(body).to_spec() for (body,) in rows]

    def was_removed(self, workload: WorkloadId) -> bool:
        return self._rows.execute("SELECT 1 FROM removed WHERE id = ?", (workload,)).fetchone() is not None

    def organization(self) -> Organization:
        row = self._rows.execute("SELECT body FROM organization").fetchone()
        return OrganizationWire.from_json(row[0]).to_organization() if row else Organization()

    def set_organization(self, organization: Organization, revision: Revision) -> None:
        body = OrganizationWire.from_organization(organization).to_json()
        self._rows.execute("INSERT OR REPLACE INTO organization VALUES (1, ?)", (body,))
        self.set_mark("organization", revision)

    def desired_after(self, after: Revision) -> tuple[DesiredWorkload, ...]:
        query = "SELECT body FROM workload WHERE revision > ? ORDER BY revision, id"
        bodies = self._rows.execute(query, (after,)).fetchall()
        return tuple(self._with_what_was_heard(DesiredWorkload.from_json(body)) for (body,) in bodies)

    def removed_after(self, after: Revision) -> tuple[WorkloadId, ...]:
        rows = self._rows.execute("SELECT id FROM removed WHERE revision > ? ORDER BY revision, id", (after,))
        return tuple(WorkloadId(each) for (each,) in rows)

    def _with_what_was_heard(self, desired: DesiredWorkload) -> DesiredWorkload:
        report = self.workload_level(desired.id)
        over = Over.of_report(report) if report is not None and report.run == desired.run else None
        rows = self._rows.execute("SELECT pod, highest FROM incarnation WHERE workload = ?", (desired.id,))
        return desired.heard(over, dict(rows.fetchall()), report.done if report is not None else ())

    # --- what is reported ---

    def heard(self, cluster: str) -> Heard | None:
        query = "SELECT token, number, events_through, unsure FROM cluster WHERE name = ?"
        row = self._rows.execute(query, (cluster,)).fetchone()
        return Heard(Token(row[0]), row[1], row[2], bool(row[3])) if row else None

    def note_heard(self, cluster: str, heard: Heard) -> None:
        row = (cluster, heard.token, heard.number, heard.events_through, heard.unsure)
        self._rows.execute("INSERT OR REPLACE INTO cluster VALUES (?, ?, ?, ?, ?)", row)

    def heard_of_any(self) -> tuple[Token | None, int]:
        """The highest token and event number that any cluster told."""
        token, number = self._rows.execute("SELECT max(token), max(events_through) FROM cluster").fetchone()
        return (None if token is None else Token(token), number or 0)

    def forget_levels(self, cluster: str) -> None:
        self._rows.execute("DELETE FROM level WHERE cluster = ?", (cluster,))

    def set_levels(self, cluster: str, kind: LevelKind, bodies: Mapping[str, str]) -> None:
        rows = [(kind, key, cluster, body) for key, body in bodies.items()]
        self._rows.executemany("INSERT OR REPLACE INTO level VALUES (?, ?, ?, ?)", rows)

    def drop_levels(self, cluster: str, kind: LevelKind, keys: Iterable[str]) -> None:
        rows = [(kind, key, cluster) for key in keys]
        self._rows.executemany("DELETE FROM level WHERE kind = ? AND key = ? AND cluster = ?", rows)

    def levels(self, kind: LevelKind) -> list[str]:
        rows = self._rows.execute("SELECT body FROM level WHERE kind = ? ORDER BY key, cluster", (kind,))
        return [body for (body,) in rows]

    def workload_level(self, workload: WorkloadId) -> WorkloadReport | None:
        query = "SELECT body FROM level WHERE kind = ? AND key = ? ORDER BY cluster"
        row = self._rows.execute(query, (LevelKind.WORKLOAD, workload)).fetchone()
        return WorkloadReport.from_json(row[0]) if row else None

    def note_incarnations(self, report: WorkloadReport) -> None:
        rows = [(report.id, pod.index, pod.incarnation) for pod in report.pods]
        insert = "INSERT INTO incarnation VALUES (?, ?, ?)"
        rise = "ON CONFLICT DO UPDATE SET highest = max(highest, excluded.highest)"
        self._rows.executemany(f"{insert} {rise}", rows)

    def add_events(self, cluster: str, events: Iterable[EventReport]) -> None:
        rows = [(cluster, event.number, event.to_json()) for event in events]
        self._rows.executemany("INSERT OR IGNORE INTO event VALUES (?, ?, ?)", rows)

    def events(self, cluster: str, after: int) -> list[EventReport]:
        query = "SELECT body FROM event WHERE cluster = ? AND number > ? ORDER BY number"
        return [EventReport.from_json(body) for (body,) in self._rows.execute(query, (cluster, after))]
