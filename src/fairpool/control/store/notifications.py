"""SQL for subscriptions, webhooks and the outbox of notifications."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, literal, or_, select, update

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import notifications, subscriptions, webhooks, workloads

WAITING_MAX: Final = 10_000
"""Notifications of one user that may wait to be sent; later ones are dropped."""
TOGETHER_MAX: Final = 10_000
"""Sent at once to one channel of one user."""
WEBHOOK: Final = "webhook:"
"""Begins the channel of a webhook, before its name."""

_SUBSCRIBED = Compiled(select(subscriptions).where(subscriptions.c.owner_name == bindparam("name")))


@dataclass(frozen=True, slots=True)
class WantedNote:
    """A channel of a user that wants to know of an event."""

    owner: str
    channel: str


@dataclass(frozen=True, slots=True)
class DueChannel:
    """A channel of a user for which something is due."""

    owner: str
    channel: str
    url: str
    """Of a webhook."""


def wanted(connection: Connection, owner_name: str, event: str) -> list[WantedNote]:
    """Where the user of this name wants to be told of an event of their work."""
    found = {}
    for row in _SUBSCRIBED.rows(connection, {"name": owner_name}):
        document = json.loads(row.document)
        if any(event in each["types"] for each in document["events"]):
            found.update({(row.owner, channel): WantedNote(row.owner, channel) for channel in document["channels"]})
    return list(found.values())


def running_work_of_subscribers(connection: Connection, event: str) -> list[Any]:
    """The running workloads of users who subscribed to an event."""
    wanted_by = select(subscriptions.c.owner_name).where(subscriptions.c.document.contains(f'"{event}"'))
    query = select(workloads).where(
        workloads.c.phase == "Running",
        workloads.c.deleted_at.is_(None),
        workloads.c.started_at.is_not(None),
        workloads.c.submitted_by.in_(wanted_by),
    )
    return list(connection.execute(query))


def add(connection: Connection, values: dict[str, Any]) -> bool:
    """Put a notification into the outbox, once; False: it is there already, or too many wait."""
    if connection.execute(select(notifications.c.id).where(notifications.c.id == values["id"])).first() is not None:
        return False
    mine = and_(notifications.c.owner == values["owner"], notifications.c.state == "waiting")
    waiting = connection.execute(select(func.count()).select_from(notifications).where(mine)).scalar_one()
    if waiting >= WAITING_MAX:
        return False
    row = {**values, "state": "waiting", "due_at": values["at"], "tries": 0, "sent_at": None, "problem": ""}
    connection.execute(insert(notifications).values(**row))
    return True


def due_channels(connection: Connection, now: int) -> list[DueChannel]:
    """The channels for which something is due; the one that has waited longest first."""
    due = (
        select(notifications.c.owner, notifications.c.channel, func.min(notifications.c.due_at).label("since"))
        .where(notifications.c.state == "waiting", notifications.c.due_at <= now)
        .group_by(notifications.c.owner, notifications.c.channel)
        .subquery()
    )
    is_its = and_(webhooks.c.owner == due.c.owner, literal(WEBHOOK) + webhooks.c.name == due.c.channel)
    query = (
        select(due.c.owner, due.c.channel, webhooks.c.url)
        .select_from(due.outerjoin(webhooks, is_its))
        .order_by(due.c.since, due.c.owner, due.c.channel)
    )
    return [DueChannel(row.owner, row.channel, row.url or "") for row in connection.execute(query)]


def claim(connection: Connection, owner: str, channel: str, now: int, until: int) -> list[Any]:
    """All that is due for a channel; until then no other server sends it, and after that it is due again."""
    mine = and_(
        notifications.c.owner == owner,
        notifications.c.channel == channel,
        notifications.c.state == "waiting",
        notifications.c.due_at <= now,
    )
    query = select(notifications).where(mine).order_by(notifications.c.at, notifications.c.id).limit(TOGETHER_MAX)
    rows = list(connection.execute(query))
    connection.execute(update(notifications).where(mine).values(due_at=until, tries=notifications.c.tries + 1))
    return rows


def last_sent(connection: Connection, owner: str, channel: str) -> int:
    """When something was last sent to a channel; 0: never."""
    query = select(func.max(notifications.c.sent_at)).where(
        notifications.c.owner == owner, notifications.c.channel == channel, notifications.c.state == "sent"
    )
    return int(connection.execute(query).scalar() or 0)


def postpone(connection: Connection, owner: str, channel: str, now: int, until: int) -> None:
    """What is due for a channel waits longer, to be sent together."""
    connection.execute(
        update(notifications)
        .where(
            notifications.c.owner == owner,
            notifications.c.channel == channel,
            notifications.c.state == "waiting",
            notifications.c.due_at <= now,
        )
        .values(due_at=until)
    )


def settle(connection: Connection, ids: Sequence[str], **values: Any) -> None:
    """What became of these."""
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        connection.execute(update(notifications).where(notifications.c.id.in_(some)).values(**values))


def of_owner(
    connection: Connection, owner: str, offset: int, limit: int, within: Mapping[str, Sequence[str]] | None = None
) -> list[Any]:
    """The log of a user, newest first; `within`: only of these projects (`names`), departments and clusters."""
    query = select(notifications).where(notifications.c.owner == owner)
    if within is not None:
        query = query.where(
            or_(
                notifications.c.project.in_(within["names"]),
                notifications.c.department.in_(within["parents"]),
                notifications.c.cluster.in_(within["clusters"]),
            )
        )
    order = (notifications.c.at.desc(), notifications.c.id)
    return list(connection.execute(query.order_by(*order).offset(offset).limit(limit)))


def drop_old(connection: Connection, before: int, most: int) -> int:
    """Delete notifications that are older; says how many went."""
    old = select(notifications.c.id).where(notifications.c.at < before).order_by(notifications.c.at).limit(most)
    ids = [row.id for row in connection.execute(old)]
    connection.execute(delete(notifications).where(notifications.c.id.in_(ids)))
    return len(ids)


# --- subscriptions and webhooks ---


def subscriptions_of(connection: Connection, owner: str) -> list[Any]:
    query = select(subscriptions).where(subscriptions.c.owner == owner)
    return list(connection.execute(query.order_by(subscriptions.c.created_at, subscriptions.c.id)))


def put_subscription(connection: Connection, row: dict[str, Any]) -> None:
    """Add or replace one."""
    drop_subscription(connection, row["owner"], row["id"])
    connection.execute(insert(subscriptions).values(**row))


def drop_subscription(connection: Connection, owner: str, subscription: str) -> bool:
    mine = and_(subscriptions.c.owner == owner, subscriptions.c.id == subscription)
    return bool(connection.execute(delete(subscriptions).where(mine)).rowcount)


def webhooks_of(connection: Connection, owner: str) -> list[Any]:
    return list(connection.execute(select(webhooks).where(webhooks.c.owner == owner).order_by(webhooks.c.name)))


def webhook(connection: Connection, owner: str, name: str) -> Any:
    """One; None: there is none."""
    return connection.execute(select(webhooks).where(webhooks.c.owner == owner, webhooks.c.name == name)).first()


def add_webhook(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(insert(webhooks).values(**row))


def drop_webhook(connection: Connection, owner: str, name: str) -> None:
    connection.execute(delete(webhooks).where(webhooks.c.owner == owner, webhooks.c.name == name))
