"""SQL for the colour slots of projects. A deleted project keeps its slot for a while: its history is still shown."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, insert, select

from fairpool.control.store.tables import left_colors, projects
from fairpool.model.color_slot import color_slot
from fairpool.model.ids import SECOND_MS, Instant

KEPT_MS: Final = 30 * 86_400 * SECOND_MS


def slot_for(connection: Connection, name: str, now: Instant) -> int:
    """The slot of a new project: the one that it had before it was deleted, or one that is free."""
    connection.execute(delete(left_colors).where(left_colors.c.left_at <= now - KEPT_MS))
    left = {row.project: row.slot for row in connection.execute(select(left_colors))}
    if name in left:
        connection.execute(delete(left_colors).where(left_colors.c.project == name))
        return int(left[name])
    return color_slot(name, {*left.values(), *connection.execute(select(projects.c.color_slot)).scalars()})


def keep(connection: Connection, name: str, now: Instant) -> None:
    """The project is about to be removed."""
    slot = connection.execute(select(projects.c.color_slot).where(projects.c.name == name)).scalar_one_or_none()
    if slot is not None:
        connection.execute(delete(left_colors).where(left_colors.c.project == name))
        connection.execute(insert(left_colors).values(project=name, slot=slot, left_at=now))
