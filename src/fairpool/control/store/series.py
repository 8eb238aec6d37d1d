"""SQL for samples: rows as they come, blocks that are made of them, and up to when that was done.

The tables are not among those of the control plane: on SQLite they are a file of their own, on PostgreSQL they have
connections of their own. A sample that is lost is a gap in a chart, so tables of another format are begun anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)

from fairpool.metrics.resolution import ALL, FINE, Resolution, coarser

FORMAT = 1
TURN, PREPARING = 0x46504D54, 0x46504D55
"""Numbers of advisory locks: of the process that makes blocks, and of the one that creates the tables."""
GROUP_MAX = 320
"""A cluster's id and the name of a node."""
GROUPS_NAMED = 64
"""More are read with all others of their cluster."""

metadata = MetaData()

ticks = Table(
    "sample_ticks",
    metadata,
    Column("grp", String(GROUP_MAX), primary_key=True),
    Column("at_s", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_sample_ticks_at_s", "at_s"),
)
"""Samples of a group at one moment: a block of one slot."""

blocks = Table(
    "sample_blocks",
    metadata,
    Column("grp", String(GROUP_MAX), primary_key=True),
    Column("step_s", Integer, primary_key=True, autoincrement=False),
    Column("start_s", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_sample_blocks_step_s_start_s", "step_s", "start_s"),
)

progress = Table(
    "sample_progress",
    metadata,
    Column("step_s", Integer, primary_key=True, autoincrement=False),
    Column("until_s", BigInteger, nullable=False),
)
"""Blocks of this resolution are made up to here. The row with 0: the format of the tables."""


class StoredTick(NamedTuple):
    """Samples of a group at one moment."""

    grp: str
    at_s: int
    data: bytes


class StoredBlock(NamedTuple):
    """Samples of a group in one block."""

    start_s: int
    data: bytes


def prepare(connection: Connection) -> None:
    """Create the tables; those of another format are dropped first. Processes do it one after the other."""
    if connection.dialect.name != "sqlite":
        connection.execute(select(func.pg_advisory_xact_lock(PREPARING)))
    if inspect(connection).has_table(progress.name) and until(connection, 0) != FORMAT:
        metadata.drop_all(connection)
    metadata.create_all(connection)
    if until(connection, 0) is None:
        connection.execute(insert(progress).values(step_s=0, until_s=FORMAT))
    connection.commit()


def is_our_turn(connection: Connection) -> bool:
    """Whether no other process makes blocks just now; it cannot begin before this transaction has ended."""
    if connection.dialect.name == "sqlite":
        return True
    return bool(connection.execute(select(func.pg_try_advisory_xact_lock(TURN))).scalar())


def until(connection: Connection, step_s: int) -> int | None:
    """Up to when blocks of this resolution are made."""
    found = connection.execute(select(progress.c.until_s).where(progress.c.step_s == step_s)).scalar()
    return None if found is None else int(found)


def set_until(connection: Connection, step_s: int, until_s: int) -> None:
    where = progress.c.step_s == step_s
    if not connection.execute(update(progress).where(where).values(until_s=until_s)).rowcount:
        connection.execute(insert(progress).values(step_s=step_s, until_s=until_s))


def add_ticks(connection: Connection, rows: Iterable[StoredTick]) -> None:
    """Of two for one moment, the later stays."""
    values = [each._asdict() for each in rows]
    if not values:
        return
    gone = delete(ticks).where(ticks.c.grp == bindparam("of"), ticks.c.at_s == bindparam("at"))
    if any(_has_ticks(connection, at_s) for at_s in {each["at_s"] for each in values}):
        connection.execute(gone, [{"of": each["grp"], "at": each["at_s"]} for each in values])
    connection.execute(insert(ticks), values)


def _has_ticks(connection: Connection, at_s: int) -> bool:
    return connection.execute(select(ticks.c.grp).where(ticks.c.at_s == at_s).limit(1)).first() is not None


def ticks_of(connection: Connection, grp: str, start_s: int, end_s: int) -> list[StoredBlock]:
    query = select(ticks.c.at_s, ticks.c.data).where(ticks.c.grp == grp, ticks.c.at_s >= start_s, ticks.c.at_s < end_s)
    return [StoredBlock(at_s, data) for at_s, data in connection.execute(query.order_by(ticks.c.at_s))]


def tick_blocks(connection: Connection, resolution: Resolution, before_s: int) -> list[tuple[str, int]]:
    """Groups and starts of blocks of which there are ticks, of moments before this one."""
    start = (ticks.c.at_s - ticks.c.at_s % resolution.block_s).label("start_s")
    query = select(ticks.c.grp, start).where(ticks.c.at_s < before_s).distinct()
    return sorted((grp, int(start_s)) for grp, start_s in connection.execute(query))


class GroupBlock(NamedTuple):
    """Samples of one of several groups."""

    grp: str
    start_s: int
    data: bytes


def recent_ticks(connection: Connection, prefix: str, since_s: int) -> list[GroupBlock]:
    """Of the groups whose names begin so."""
    mine = ticks.c.at_s >= since_s, ticks.c.grp.startswith(prefix, autoescape=True)
    query = select(ticks.c.grp, ticks.c.at_s, ticks.c.data).where(*mine).order_by(ticks.c.at_s)
    return [GroupBlock._make(row) for row in connection.execute(query)]


def recent_blocks(connection: Connection, prefix: str, since_s: int) -> list[GroupBlock]:
    """The same of the finest blocks, as far as they are made."""
    mine = (
        blocks.c.step_s == FINE.step_s,
        blocks.c.start_s > since_s - FINE.block_s,
        blocks.c.grp.startswith(prefix, autoescape=True),
    )
    query = select(blocks.c.grp, blocks.c.start_s, blocks.c.data).where(*mine).order_by(blocks.c.start_s)
    return [GroupBlock._make(row) for row in connection.execute(query)]


def tick_moments(connection: Connection, since_s: int) -> list[int]:
    """When samples were taken since then, the latest first."""
    query = select(ticks.c.at_s).where(ticks.c.at_s >= since_s).distinct().order_by(ticks.c.at_s.desc())
    return [int(each) for each in connection.execute(query).scalars()]


def ticks_at(connection: Connection, prefix: str, groups: Collection[str], at_s: int) -> list[GroupBlock]:
    """Of these groups, whose names begin so, at one moment."""
    mine = ticks.c.grp.in_(groups) if len(groups) <= GROUPS_NAMED else ticks.c.grp.startswith(prefix, autoescape=True)
    query = select(ticks.c.grp, ticks.c.at_s, ticks.c.data).where(ticks.c.at_s == at_s, mine)
    return [GroupBlock._make(row) for row in connection.execute(query)]


def drop_ticks(connection: Connection, grp: str, start_s: int, end_s: int) -> None:
    connection.execute(delete(ticks).where(ticks.c.grp == grp, ticks.c.at_s >= start_s, ticks.c.at_s < end_s))


def blocks_of(connection: Connection, grp: str, resolution: Resolution, start_s: int, end_s: int) -> list[StoredBlock]:
    """Those that overlap this time."""
    query = select(blocks.c.start_s, blocks.c.data).where(
        blocks.c.grp == grp,
        blocks.c.step_s == resolution.step_s,
        blocks.c.start_s > start_s - resolution.block_s,
        blocks.c.start_s < end_s,
    )
    return [StoredBlock(at_s, data) for at_s, data in connection.execute(query.order_by(blocks.c.start_s))]


def groups_with_blocks(connection: Connection, resolution: Resolution, start_s: int, end_s: int) -> list[str]:
    where = blocks.c.step_s == resolution.step_s, blocks.c.start_s >= start_s, blocks.c.start_s < end_s
    return list(connection.execute(select(blocks.c.grp).where(*where).distinct()).scalars())


def first_block(connection: Connection, resolution: Resolution) -> int | None:
    """When the oldest one begins."""
    query = select(func.min(blocks.c.start_s)).where(blocks.c.step_s == resolution.step_s)
    found = connection.execute(query).scalar()
    return None if found is None else int(found)


def has_block(connection: Connection, grp: str, resolution: Resolution, start_s: int) -> bool:
    where = blocks.c.grp == grp, blocks.c.step_s == resolution.step_s, blocks.c.start_s == start_s
    return connection.execute(select(blocks.c.grp).where(*where)).first() is not None


def put_block(connection: Connection, grp: str, resolution: Resolution, block: StoredBlock) -> None:
    key = {"grp": grp, "step_s": resolution.step_s, "start_s": block.start_s}
    where = [blocks.c[name] == value for name, value in key.items()]
    if not connection.execute(update(blocks).where(*where).values(data=block.data)).rowcount:
        connection.execute(insert(blocks).values(**key, data=block.data))


def drop_blocks(connection: Connection, resolution: Resolution, start_s: int) -> None:
    """Those of a resolution that begin at this moment or later."""
    mine = blocks.c.step_s == resolution.step_s, blocks.c.start_s >= start_s
    connection.execute(delete(blocks).where(*mine))


def drop_old(connection: Connection, now_s: int) -> None:
    """Delete blocks that are older than they are kept, if coarser ones are made from them."""
    for each in ALL:
        old_s = now_s - each.kept_s - each.block_s
        following = coarser(each)
        if following is not None:
            old_s = min(old_s, until(connection, following.step_s) or 0)
        connection.execute(delete(blocks).where(blocks.c.step_s == each.step_s, blocks.c.start_s < old_s))
