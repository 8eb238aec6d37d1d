"""The ledger: the durable state of the loop. Declarations as last pulled, pods, workload states, recent events.

The loop records one `LedgerEntry` per cycle, in one transaction, before it acts on any of it; it reads `LedgerContents`
when it starts. The ledger decides only who may write: a loop acquires the lease and with it a fencing token. The next
loop gets a higher token, and entries with the older one are refused. The lease's expiry only says when another loop may
take over; that two never write is ensured by the token, whatever the clocks do.

Where the rows are is the store's business: a file of SQLite, or a PostgreSQL database that replicas share
(`ledger_store.py`). The SQL here is understood by both.

One caller at a time, not necessarily always the same thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairpool.api.message import VERSION as PROTOCOL_VERSION
from fairpool.cluster.history import Event
from fairpool.cluster.ledger_entry import LedgerContents, LedgerEntry
from fairpool.cluster.ledger_file import START_ANEW, LedgerFile
from fairpool.cluster.ledger_rows import EVENTS, PODS, SPECS, STATES, organization_text, organization_value
from fairpool.cluster.ledger_store import LedgerProblem, LedgerStore, LedgerUnavailable, LedgerUncertain
from fairpool.model.bulk_read import without_garbage_collection
from fairpool.model.ids import SECOND_MS, Instant, PodId, Revision, Token
from fairpool.model.lifecycle import PodPhase
from fairpool.model.plain import Unreadable
from fairpool.model.problem import Problem

__all__ = [
    "LeaseHeld",
    "LeaseLost",
    "Ledger",
    "LedgerContents",
    "LedgerEntry",
    "LedgerProblem",
    "LedgerUnavailable",
    "LedgerUncertain",
]

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
    """One cluster's ledger: in a store, in a file or, for simulations, in memory."""

    def __init__(
        self,
        place: LedgerStore | Path | None,
        *,
        lease_s: int = LEASE_S,
        busy_s: float = BUSY_S,
        events_max: int = EVENTS_MAX,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        """A file is opened, or created; raises `LedgerProblem` or `LedgerUnavailable`.

        `on_step` is called with the name of each step of a transaction; what it raises is a crash at that point.
        """
        self.store = LedgerFile(place, busy_s) if place is None or isinstance(place, Path) else place
        self._lease_ms = lease_s * SECOND_MS
        self._events_max = events_max
        self._on_step = on_step or (lambda step: None)

    def is_new(self) -> bool:
        """Whether the lease was never held: the very first start, or the first after the ledger was lost."""
        with self._reading() as store:
            (token,) = store.row("SELECT token FROM lease")
        return bool(token == NO_TOKEN)

    def acquire(self, holder: str, now: Instant, at_least: Token = NO_TOKEN) -> Token:
        """Acquire the lease, with a token above every earlier one and above `at_least`; raises `LeaseHeld`.

        The same holder may acquire it again, as after a crash: it gets a new token, and the older one is void.
        """
        assert holder, "a holder has a name"
        with self._transaction() as store:
            token, current, renewed_at, expires_at = store.row(
                "SELECT token, holder, renewed_at, expires_at FROM lease"
            )
            # A renewal in the future is from before the clock was set back: it must not block for years.
            believable = renewed_at <= now + self._lease_ms
            if current not in ("", holder) and now < expires_at and believable:
                raise LeaseHeld(current, Instant(expires_at))
            taken = Token(max(token, at_least) + 1)
            _write_lease(store, taken, holder, now, self._lease_ms)
        return taken

    def renew(self, token: Token, now: Instant) -> None:
        """Extend the lease from now; raises `LeaseLost`. Recording an entry does so as well."""
        with self._transaction() as store:
            self._hold(store, token, now)

    def release(self, token: Token) -> None:
        """Release the lease, so that the next loop need not wait. No effect without the lease."""
        with self._transaction() as store:
            store.change("UPDATE lease SET holder = '', expires_at = 0 WHERE token = ?", token)

    def record(self, entry: LedgerEntry, token: Token, now: Instant) -> None:
        """Record an entry, all of it or nothing.

        Raises `LeaseLost`, and `LedgerUnavailable` if it cannot be written now.
        """
        with self._transaction() as store:
            self._hold(store, token, now)
            _write_values(store, entry)
            _remove(store, entry)
            _write_events(store, entry, self._events_max, now)

    def start_over(self, token: Token, now: Instant) -> None:
        """Remove everything but the lease and the event counter: the content is older than the pods that run."""
        with self._transaction() as store:
            self._hold(store, token, now)
            for table in ("specs", "pods", "workload_states", "organization", "events"):
                store.change(f"DELETE FROM {table}")
            store.change("UPDATE progress SET cursor = NULL")

    def load(self) -> LedgerContents:
        """Everything, as of one moment."""
        with self._reading() as store, without_garbage_collection():
            return _contents(store)

    def events(self, after: int, limit: int) -> list[tuple[int, Event]]:
        """The events with numbers above `after`, the oldest first."""
        where = "WHERE number > ? ORDER BY number LIMIT ?"
        with self._reading() as store:
            numbers = [number for (number,) in store.rows(f"SELECT number FROM events {where}", after, limit)]
            events = EVENTS.values(store.rows(f"{EVENTS.select} {where}", after, limit))
            return list(zip(numbers, events, strict=True))

    def close(self) -> None:
        """Close the store; the log of a file is folded in. The lease is not released by this."""
        self.store.close()

    def _hold(self, store: LedgerStore, token: Token, now: Instant) -> None:
        current, holder = store.row("SELECT token, holder FROM lease")
        if current != token or not holder:
            raise LeaseLost(token, Token(current), holder)
        _write_lease(store, token, holder, now, self._lease_ms)

    @contextmanager
    def _transaction(self) -> Iterator[LedgerStore]:
        store = self.store
        try:
            self._on_step(BEFORE_BEGIN)
            store.begin()
            yield store
            self._on_step(BEFORE_COMMIT)
            store.commit()
        except BaseException as error:
            store.roll_back()
            explained = store.explained(error)
            if explained is not error:
                raise explained from error
            raise
        self._on_step(AFTER_COMMIT)

    @contextmanager
    def _reading(self) -> Iterator[LedgerStore]:
        store = self.store
        try:
            store.begin_reading()
            yield store
        except (Unreadable, ValueError, TypeError, LookupError, RecursionError) as error:
            what = f"{store.named} contains data that this Fairpool version cannot read: {error}"
            fix = f"run the Fairpool version that wrote it; if it is the same version, {START_ANEW}"
            raise LedgerProblem(Problem("ledger.content", what, fix)) from error
        except Exception as error:
            explained = store.explained(error)
            if explained is not error:
                raise explained from error
            raise
        finally:
            store.roll_back()


def _write_lease(store: LedgerStore, token: Token, holder: str, now: Instant, lease_ms: int) -> None:
    store.change(
        "UPDATE lease SET token = ?, holder = ?, renewed_at = ?, expires_at = ?", token, holder, now, now + lease_ms
    )


def _write_values(store: LedgerStore, entry: LedgerEntry) -> None:
    store.change_many(SPECS.upsert, map(SPECS.row, entry.specs))
    store.change_many(PODS.upsert, map(PODS.row, entry.pods))
    store.change_many(STATES.upsert, map(STATES.row, entry.states))
    if entry.organization is not None:
        body = organization_text(entry.organization)
        store.change(
            "INSERT INTO organization (only_row, body) VALUES (1, ?) "
            "ON CONFLICT (only_row) DO UPDATE SET body = excluded.body",
            body,
        )
    if entry.cursor is not None:
        store.change("UPDATE progress SET cursor = ?, protocol = ?", entry.cursor, PROTOCOL_VERSION)


def _remove(store: LedgerStore, entry: LedgerEntry) -> None:
    gone = [(workload,) for workload in entry.dropped]
    store.change_many(SPECS.delete, [(workload,) for workload in entry.undesired])
    store.change_many(SPECS.delete, gone)
    store.change_many(STATES.delete, gone)
    store.change_many("DELETE FROM pods WHERE workload = ?", gone)
    _forget(store, entry.forgotten)


def _forget(store: LedgerStore, forgotten: tuple[PodId, ...]) -> None:
    if not forgotten:
        return
    store.change_many(f"{PODS.delete} AND phase = '{PodPhase.ENDED}'", [(pod,) for pod in forgotten])
    for first in range(0, len(forgotten), PARAMETERS):
        some = forgotten[first : first + PARAMETERS]
        kept = store.rows(f"SELECT id, phase FROM pods WHERE id IN ({', '.join('?' * len(some))})", *some)
        left = next(iter(kept), None)
        assert left is None, f"{left[0]} is {left[1]}: only what has ended can be forgotten"


def _write_events(store: LedgerStore, entry: LedgerEntry, events_max: int, now: Instant) -> None:
    """Number and insert new events; delete those that were delivered long ago and, beyond the cap, the oldest."""
    if entry.acknowledged is not None:
        _note_delivered(store, entry.acknowledged, now)
    through, delivered = store.row("SELECT events_through, delivered FROM progress")
    if entry.reported_events is not None:
        through, delivered = max(through, entry.reported_events), max(delivered, entry.reported_events)
        store.change("UPDATE progress SET events_through = ?, delivered = ?", through, delivered)
    if not entry.events:
        return
    numbered = enumerate(entry.events, start=through + 1)
    store.change_many(EVENTS.upsert, ([number, *EVENTS.row(event)] for number, event in numbered))
    through += len(entry.events)
    # Numbers have no gaps and the oldest are deleted first, so `events_max` are left.
    store.change("DELETE FROM events WHERE number <= ?", min(through - events_max, delivered))
    dropped = store.change("DELETE FROM events WHERE number <= ?", through - events_max)
    store.change("UPDATE progress SET events_through = ?, dropped_events = dropped_events + ?", through, dropped)


def _note_delivered(store: LedgerStore, number: int, now: Instant) -> None:
    """The control plane has every event up to this one; not more than there are, and fewer if it was put back."""
    (through,) = store.row("SELECT events_through FROM progress")
    store.change("UPDATE progress SET delivered = ?", min(number, through))
    oldest = f"SELECT number, at FROM events WHERE number <= ? ORDER BY number LIMIT {DELETED_AT_A_TIME}"
    before = now - DELIVERED_S * SECOND_MS
    store.change(
        f"DELETE FROM events WHERE number <= (SELECT max(number) FROM ({oldest}) AS oldest WHERE at < ?)",
        number,
        before,
    )


def _contents(store: LedgerStore) -> LedgerContents:
    progress = "SELECT cursor, protocol, events_through, dropped_events, delivered FROM progress"
    cursor, protocol, events_through, dropped_events, delivered = store.row(progress)
    bodies = [body for (body,) in store.rows("SELECT body FROM organization")]
    return LedgerContents(
        specs=tuple(SPECS.values(store.rows(f"{SPECS.select} ORDER BY id"))),
        pods=tuple(PODS.values(store.rows(f"{PODS.select} ORDER BY id"))),
        states=tuple(STATES.values(store.rows(f"{STATES.select} ORDER BY workload"))),
        organization=organization_value(bodies[0]) if bodies else None,
        cursor=Revision(cursor) if cursor is not None else None,
        protocol=protocol if cursor is not None else PROTOCOL_VERSION,
        events_through=events_through,
        dropped_events=dropped_events,
        delivered=delivered,
    )
