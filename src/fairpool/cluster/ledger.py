"""The ledger: the durable state of the loop. Declarations as last pulled, pods, workload states, recent events.

The loop records one `LedgerEntry` per cycle, in one transaction, before it acts on any of it; it reads `LedgerContents`
when it starts. The ledger decides only who may write: a loop acquires the lease and with it a fencing token. The next
loop gets a higher token, and entries with the older one are refused. The lease's expiry only says when another loop may
take over; that two never write is ensured by the token, whatever the clocks do.

One caller at a time, not necessarily always the same thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairpool.api.message import VERSION as PROTOCOL_VERSION
from fairpool.cluster.history import Event
from fairpool.cluster.ledger_entry import LedgerContents, LedgerEntry
from fairpool.cluster.ledger_file import (
    START_ANEW,
    LedgerProblem,
    LedgerUnavailable,
    connect,
    ledger_error,
    refuse_newer,
)
from fairpool.cluster.ledger_rows import EVENTS, PODS, SPECS, STATES, organization_text, organization_value
from fairpool.cluster.ledger_schema import schema_version
from fairpool.model.bulk_read import without_garbage_collection
from fairpool.model.ids import SECOND_MS, Instant, PodId, Revision, Token
from fairpool.model.lifecycle import PodPhase
from fairpool.model.plain import Unreadable
from fairpool.model.problem import Problem

__all__ = ["LeaseHeld", "LeaseLost", "Ledger", "LedgerContents", "LedgerEntry", "LedgerProblem", "LedgerUnavailable"]

LEASE_S = 15
BUSY_S = 5.0
EVENTS_MAX = 200_000
DELIVERED_S = 7 * 86_400
"""How long events are kept that the control plane has: one that is put back to a backup asks for them again."""
DELETED_AT_A_TIME = 500
NO_TOKEN = Token(0)
PARAMETERS = 500
"""In one statement."""

BEFORE_BEGIN = "before begin"
BEFORE_COMMIT = "before commit"
AFTER_COMMIT = "after commit"


class LeaseHeld(Exception):
    """Another loop holds the lease of this cluster."""

    def __init__(self, holder: str, until: Instant) -> None:
        super().__init__(f"{holder} holds the lease until {until} and may renew it")
        self.holder, self.until = holder, until


class LeaseLost(Exception):
    """Another loop has taken over: this one must not act any more."""

    def __init__(self, token: Token, current: Token, holder: str) -> None:
        now_with = f"{holder} has taken over with token {current}" if holder else "it was released"
        super().__init__(f"the lease with token {token} has ended: {now_with}")
        self.token, self.current, self.holder = token, current, holder


class Ledger:
    """One cluster's ledger, in a file or, for simulations, in memory."""

    def __init__(
        self,
        path: Path | None,
        *,
        lease_s: int = LEASE_S,
        busy_s: float = BUSY_S,
        events_max: int = EVENTS_MAX,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        """Open the file, or create it; raises `LedgerProblem` or `LedgerUnavailable`.

        `on_step` is called with the name of each step of a transaction; what it raises is a crash at that point.
        """
        self._path = path
        self._lease_ms = lease_s * SECOND_MS
        self._events_max = events_max
        self._on_step = on_step or (lambda step: None)
        self._connection = connect(path, busy_s)

    def is_new(self) -> bool:
        """Whether the lease was never held: the very first start, or the first after the ledger was lost."""
        with self._reading() as connection:
            (token,) = connection.execute("SELECT token FROM lease").fetchone()
        return bool(token == NO_TOKEN)

    def acquire(self, holder: str, now: Instant, at_least: Token = NO_TOKEN) -> Token:
        """Acquire the lease, with a token above every earlier one and above `at_least`; raises `LeaseHeld`.

        The same holder may acquire it again, as after a crash: it gets a new token, and the older one is void.
        """
        assert holder, "a holder has a name"
        with self._transaction() as connection:
            row = connection.execute("SELECT token, holder, renewed_at, expires_at FROM lease").fetchone()
            token, current, renewed_at, expires_at = row
            # A renewal in the future is from before the clock was set back: it must not block for years.
            believable = renewed_at <= now + self._lease_ms
            if current not in ("", holder) and now < expires_at and believable:
                raise LeaseHeld(current, Instant(expires_at))
            taken = Token(max(token, at_least) + 1)
            _write_lease(connection, taken, holder, now, self._lease_ms)
        return taken

    def renew(self, token: Token, now: Instant) -> None:
        """Extend the lease from now; raises `LeaseLost`. Recording an entry does so as well."""
        with self._transaction() as connection:
            self._hold(connection, token, now)

    def release(self, token: Token) -> None:
        """Release the lease, so that the next loop need not wait. No effect without the lease."""
        with self._transaction() as connection:
            connection.execute("UPDATE lease SET holder = '', expires_at = 0 WHERE token = ?", (token,))

    def record(self, entry: LedgerEntry, token: Token, now: Instant) -> None:
        """Record an entry, all of it or nothing.

        Raises `LeaseLost`, and `LedgerUnavailable` if it cannot be written now.
        """
        with self._transaction() as connection:
            self._hold(connection, token, now)
            _write_values(connection, entry)
            _remove(connection, entry)
            _write_events(connection, entry, self._events_max, now)

    def start_over(self, token: Token, now: Instant) -> None:
        """Remove everything but the lease and the event counter: the content is older than the pods that run."""
        with self._transaction() as connection:
            self._hold(connection, token, now)
            for table in ("specs", "pods", "workload_states", "organization", "events"):
                connection.execute(f"DELETE FROM {table}")
            connection.execute("UPDATE progress SET cursor = NULL")

    def load(self) -> LedgerContents:
        """Everything, as of one moment."""
        with self._reading() as connection, without_garbage_collection():
            return _contents(connection)

    def events(self, after: int, limit: int) -> list[tuple[int, Event]]:
        """The events with numbers above `after`, the oldest first."""
        where = "WHERE number > ? ORDER BY number LIMIT ?"
        with self._reading() as connection:
            numbers = [number for (number,) in connection.execute(f"SELECT number FROM events {where}", (after, limit))]
            events = EVENTS.values(connection.execute(f"{EVENTS.select} {where}", (after, limit)))
            return list(zip(numbers, events, strict=True))

    def close(self) -> None:
        """Close the file, with its log folded in. The lease is not released by this."""
        self._connection.close()

    def _hold(self, connection: sqlite3.Connection, token: Token, now: Instant) -> None:
        current, holder = connection.execute("SELECT token, holder FROM lease").fetchone()
        if current != token or not holder:
            raise LeaseLost(token, Token(current), holder)
        _write_lease(connection, token, holder, now, self._lease_ms)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        try:
            self._on_step(BEFORE_BEGIN)
            connection.execute("BEGIN IMMEDIATE")
            refuse_newer(schema_version(connection), self._path)  # it may have been migrated since it was opened
            yield connection
            self._on_step(BEFORE_COMMIT)
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise ledger_error(error, self._path) from error
            raise
        self._on_step(AFTER_COMMIT)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("BEGIN")
            yield self._connection
        except sqlite3.Error as error:
            raise ledger_error(error, self._path) from error
        except (Unreadable, ValueError, TypeError, LookupError, RecursionError) as error:
            what = f"the ledger {self._path} contains data that this Fairpool version cannot read: {error}"
            fix = f"run the Fairpool version that wrote it; if it is the same version, {START_ANEW}"
            raise LedgerProblem(Problem("ledger.content", what, fix)) from error
        finally:
            self._roll_back()

    def _roll_back(self) -> None:
        # After some errors SQLite has rolled back already.
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")


def _write_lease(connection: sqlite3.Connection, token: Token, holder: str, now: Instant, lease_ms: int) -> None:
    connection.execute(
        "UPDATE lease SET token = ?, holder = ?, renewed_at = ?, expires_at = ?", (token, holder, now, now + lease_ms)
    )


def _write_values(connection: sqlite3.Connection, entry: LedgerEntry) -> None:
    connection.executemany(SPECS.upsert, map(SPECS.row, entry.specs))
    connection.executemany(PODS.upsert, map(PODS.row, entry.pods))
    connection.executemany(STATES.upsert, map(STATES.row, entry.states))
    if entry.organization is not None:
        body = organization_text(entry.organization)
        connection.execute("INSERT OR REPLACE INTO organization (only_row, body) VALUES (1, ?)", (body,))
    if entry.cursor is not None:
        connection.execute("UPDATE progress SET cursor = ?, protocol = ?", (entry.cursor, PROTOCOL_VERSION))


def _remove(connection: sqlite3.Connection, entry: LedgerEntry) -> None:
    gone = [(workload,) for workload in entry.dropped]
    connection.executemany(SPECS.delete, [(workload,) for workload in entry.undesired])
    connection.executemany(SPECS.delete, gone)
    connection.executemany(STATES.delete, gone)
    connection.executemany("DELETE FROM pods WHERE workload = ?", gone)
    _forget(connection, entry.forgotten)


def _forget(connection: sqlite3.Connection, forgotten: tuple[PodId, ...]) -> None:
    if not forgotten:
        return
    connection.executemany(f"{PODS.delete} AND phase = '{PodPhase.ENDED}'", [(pod,) for pod in forgotten])
    for first in range(0, len(forgotten), PARAMETERS):
        some = forgotten[first : first + PARAMETERS]
        kept = connection.execute(f"SELECT id, phase FROM pods WHERE id IN ({', '.join('?' * len(some))})", some)
        assert (left := kept.fetchone()) is None, f"{left[0]} is {left[1]}: only what has ended can be forgotten"


def _write_events(connection: sqlite3.Connection, entry: LedgerEntry, events_max: int, now: Instant) -> None:
    """Number and insert new events; delete those that were delivered long ago and, beyond the cap, the oldest."""
    if entry.acknowledged is not None:
        _note_delivered(connection, entry.acknowledged, now)
    if entry.reported_events is not None:
        connection.execute(
            "UPDATE progress SET events_through = max(events_through, ?), delivered = max(delivered, ?)",
            (entry.reported_events, entry.reported_events),
        )
    if not entry.events:
        return
    through, delivered = connection.execute("SELECT events_through, delivered FROM progress").fetchone()
    numbered = enumerate(entry.events, start=through + 1)
    connection.executemany(EVENTS.upsert, ([number, *EVENTS.row(event)] for number, event in numbered))
    through += len(entry.events)
    # Numbers have no gaps and the oldest are deleted first, so `events_max` are left.
    connection.execute("DELETE FROM events WHERE number <= ?", (min(through - events_max, delivered),))
    dropped = connection.execute("DELETE FROM events WHERE number <= ?", (through - events_max,)).rowcount
    connection.execute(
        "UPDATE progress SET events_through = ?, dropped_events = dropped_events + ?", (through, dropped)
    )


def _note_delivered(connection: sqlite3.Connection, number: int, now: Instant) -> None:
    """The control plane has every event up to this one; not more than there are, and fewer if it was put back."""
    connection.execute("UPDATE progress SET delivered = min(?, events_through)", (number,))
    oldest = f"SELECT number, at FROM events WHERE number <= ? ORDER BY number LIMIT {DELETED_AT_A_TIME}"
    before = now - DELIVERED_S * SECOND_MS
    connection.execute(
        f"DELETE FROM events WHERE number <= (SELECT max(number) FROM ({oldest}) WHERE at < ?)", (number, before)
    )


def _contents(connection: sqlite3.Connection) -> LedgerContents:
    progress = "SELECT cursor, protocol, events_through, dropped_events, delivered FROM progress"
    cursor, protocol, events_through, dropped_events, delivered = connection.execute(progress).fetchone()
    body = connection.execute("SELECT body FROM organization").fetchone()
    return LedgerContents(
        specs=tuple(SPECS.values(connection.execute(f"{SPECS.select} ORDER BY id"))),
        pods=tuple(PODS.values(connection.execute(f"{PODS.select} ORDER BY id"))),
        states=tuple(STATES.values(connection.execute(f"{STATES.select} ORDER BY workload"))),
        organization=organization_value(body[0]) if body else None,
        cursor=Revision(cursor) if cursor is not None else None,
        protocol=protocol if cursor is not None else PROTOCOL_VERSION,
        events_through=events_through,
        dropped_events=dropped_events,
        delivered=delivered,
    )
