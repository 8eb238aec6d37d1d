"""The one connection of a process that writes to PostgreSQL.

Every write transaction begins with `SELECT … FOR UPDATE` on the row of the last revision. So transactions of all
processes come one after the other, and revisions can be read in the order of their numbers. A transaction that waits
for longer than `busy_s` is given up.

If the connection breaks while a commit is on its way, the server is asked afterwards what became of it
(`txid_status`). It is not believed if another server has taken over meanwhile, which counts on from where its copy
ended: then the caller is told that it is not known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection

from fairpool.control.store.postgresql import IDLE_IN_TRANSACTION_MS, PostgresLink, PostgresLinks
from fairpool.control.store.postgresql_errors import code_of, is_lost
from fairpool.control.store.unavailable import UNSURE, Unavailable

log = logging.getLogger("fairpool.control")

T = TypeVar("T")

LOCK = "SELECT 1 FROM revision WHERE id = 1 FOR UPDATE"
BEGIN = f"BEGIN; {LOCK}; SAVEPOINT unit"
CHANNEL = "fairpool"
"""Where each commit is announced."""
_MARK = "SELECT txid_current(), left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
ANSWER_S = 5.0
"""How long the server may take to begin or undo a transaction, besides waiting for its turn. One that has vanished from
the network without a word is given up then, and another is looked for."""
INQUIRIES = 20
INQUIRY_S = 0.5


@dataclass(frozen=True, slots=True)
class _Mark:
    """By which a transaction is known afterwards."""

    xid: int
    timeline: str


class PostgresWriter:
    """Transactions that write, one at a time. For one event loop."""

    def __init__(self, links: PostgresLinks, where: str, busy_s: float) -> None:
        self._links, self._where, self._begin_s = links, where, busy_s + ANSWER_S
        self._settings = {
            "lock_timeout": f"{int(busy_s * 1000)}",
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_MS}",
        }
        self._link: PostgresLink | None = None
        self._marking: Any = None
        self._mark: _Mark | None = None
        self.connected = 0
        """How often it has connected."""

    async def begin(self) -> None:
        """Take the right to write. A connection that broke while it was idle is replaced without a word."""
        if self._link is not None:
            try:
                await self._begin(self._link)
                return
            except Exception as error:
                await self.drop()
                if not is_lost(error):
                    raise
        await self._connect()
        assert self._link is not None
        await self._begin(self._link)

    async def _begin(self, link: PostgresLink) -> None:
        try:
            await link.raw.execute(BEGIN, timeout=self._begin_s)
            self._mark = _Mark(*await self._marking.fetchrow(timeout=ANSWER_S))
        except BaseException as error:
            await self.roll_back(error)
            raise

    async def _connect(self) -> None:
        self._link = await self._links.connect(**self._settings)
        self._marking = await self._link.raw.prepare(_MARK)
        self.connected += 1

    async def run(self, unit: Callable[[Connection], T]) -> T:
        assert self._link is not None
        result: T = await self._link.run(unit)
        return result

    async def keep(self) -> None:
        """Keep what the last unit wrote; another follows."""
        assert self._link is not None
        await self._link.raw.execute("RELEASE unit; SAVEPOINT unit")

    async def undo(self) -> None:
        """Undo what the last unit wrote."""
        assert self._link is not None
        await self._link.raw.execute("ROLLBACK TO unit")

    async def commit(self, sender: str) -> None:
        """When it returns, what was written is durable. Raises `Unavailable` with `UNSURE` if that is not known."""
        assert self._link is not None
        mark, self._mark = self._mark, None
        assert mark is not None
        try:
            status = await self._link.raw.execute(f"SELECT pg_notify('{CHANNEL}', '{sender}'); COMMIT")
        except Exception as error:
            if not is_lost(error):
                raise
            await self.drop()
            if not await self._was_committed(mark):
                raise
            return
        if status != "COMMIT":
            raise AssertionError(f"the transaction ended with {status}")

    async def roll_back(self, error: BaseException | None = None) -> None:
        """Undo the transaction, if there is one. `error`: why; if it broke the connection, no answer is waited for."""
        self._mark = None
        if error is not None and is_lost(error):
            await self.drop()
        elif self._link is not None:
            try:
                await self._link.raw.execute("ROLLBACK", timeout=ANSWER_S)
            except BaseException:
                await self.drop()

    async def drop(self) -> None:
        """Give the connection up; the next transaction makes another."""
        link, self._link, self._mark = self._link, None, None
        if link is not None:
            await link.close()

    async def _was_committed(self, mark: _Mark) -> bool:
        """What became of a transaction whose commit was not answered. Raises `Unavailable` if that cannot be known."""
        for _ in range(INQUIRIES):
            try:
                status = await self._inquiry(mark)
            except Exception as error:
                await self.drop()
                if code_of(error) is None:
                    raise
            else:
                if status in ("committed", "aborted"):
                    log.info("commit without answer", extra={"fields": {"status": status}})
                    return status == "committed"
            await asyncio.sleep(INQUIRY_S)
        raise Unavailable(UNSURE, self._where)

    async def _inquiry(self, mark: _Mark) -> str:
        if self._link is None:
            await self._connect()
        assert self._link is not None
        raw = self._link.raw
        timeline = (await self._marking.fetchrow())[1]
        if timeline != mark.timeline:
            raise Unavailable(UNSURE, self._where)
        status = str(await raw.fetchval("SELECT txid_status($1)", mark.xid))
        if status == "committed":
            # A standby that has the next commit has this one too: it is waited for where replication is synchronous.
            await raw.execute(f"BEGIN; {LOCK}; COMMIT")
        return status
