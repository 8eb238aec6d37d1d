"""Sends notifications from the outbox, by mail or webhook.

They were written there with the report that is worth one (`notification_outbox.py`). For each channel of each user, the
sender claims all that is due, sends it together, and writes down what became of it. If the server dies in between, the
claim ends after `CLAIM_S` and it is sent again: each notification has an id, by which a receiver recognizes one that it
has. What failed is tried again, later each time, until it is `EXPIRED_MS` old.

Mails to one user are at least `BETWEEN_MAILS_MS` apart, so that ten thousand jobs that finish together are a few
mails. What a user may not see any more when it is sent is withheld.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlsplit

from fairpool.api.access import SubjectType
from fairpool.control import mail, preferences, rbac
from fairpool.control.moments import iso
from fairpool.control.notification_events import Note, subject_of, text_of
from fairpool.control.outbound import INTERNET, OutboundFailed, OutboundRequest, send
from fairpool.control.outbound_rules import OutboundRules
from fairpool.control.plane import Plane
from fairpool.control.sealing import KeyUnusable
from fairpool.control.store import access as access_store
from fairpool.control.store import notifications as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

EVERY_S: Final = 1.0
CLAIM_S: Final = 60
BETWEEN_MAILS_MS: Final = 60 * SECOND_MS
IN_A_REQUEST: Final = 500
"""Notifications in one request to a webhook."""
FIRST_RETRY_MS: Final = 10 * SECOND_MS
LAST_RETRY_MS: Final = 3600 * SECOND_MS
EXPIRED_MS: Final = 86_400 * SECOND_MS
EMAIL: Final = "email"
CHANNELS_MAX: Final = 16
"""Channels that are sent to at a time."""
SAME_MAX: Final = 2
"""Of these, for one user, and at one receiver."""


def webhook_rules(plane: Plane, connection: Connection) -> OutboundRules:
    """Which URLs webhooks may have: on hosts that an administrator allowed."""
    private = preferences.current_value(plane.settings, connection, preferences.WEBHOOK_PRIVATE)
    return OutboundRules(hosts=preferences.webhook_hosts(connection), private=bool(private), body_max_bytes=64 * 1024)


async def send_notifications(plane: Plane) -> None:
    """Send what is due, until cancelled."""
    sender = NotificationSender(plane)
    try:
        while True:
            try:
                await sender.begin_due()
            except Unavailable:  # already logged by the database
                pass
            except Exception:
                log.exception("could not look for notifications to send")
            await sender.wait()
    finally:
        await sender.cancel()


class NotificationSender:
    """Sends to several channels at a time. A receiver or user gets only some of the places, so that a slow one does not
    delay the others."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._sending: dict[asyncio.Task[None], store.DueChannel] = {}

    @property
    def count(self) -> int:
        """How many channels it is sending to."""
        return len(self._sending)

    async def begin_due(self) -> int:
        """Begin to send what is due, as far as there are places; for how many channels that is."""
        now, before = self._plane.now(), self.count
        for due in await self._plane.read(lambda connection: store.due_channels(connection, now)):
            if self.count >= CHANNELS_MAX:
                break
            if self._has_place(due):
                task = asyncio.create_task(self._send(due), name="notification")
                self._sending[task] = due
                task.add_done_callback(self._sending.pop)
        return self.count - before

    async def wait(self) -> None:
        """Until a place is free, or more may be due."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(EVERY_S)

    async def cancel(self) -> None:
        """Nothing is lost: what was claimed is due again later."""
        tasks = list(self._sending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has_place(self, due: store.DueChannel) -> bool:
        others = self._sending.values()
        return (
            all((each.owner, each.channel) != (due.owner, due.channel) for each in others)
            and sum(each.owner == due.owner for each in others) < SAME_MAX
            and sum(_receiver(each) == _receiver(due) for each in others) < SAME_MAX
        )

    async def _send(self, due: store.DueChannel) -> None:
        try:
            claimed = await self._plane.write(lambda c: _claimed(c, self._plane, due.owner, due.channel))
            if claimed:
                await _Batch(self._plane, due.owner, due.channel, claimed).send()
        except Unavailable:  # already logged by the database
            await asyncio.sleep(EVERY_S)  # in its place, so that it is not tried again at once
        except Exception:  # nothing is lost: what was claimed is due again later
            log.exception("could not send notifications")
            await asyncio.sleep(EVERY_S)


def _receiver(due: store.DueChannel) -> str:
    """Host and port of a webhook; all mails go to one server."""
    return EMAIL if due.channel == EMAIL else urlsplit(due.url).netloc.lower()


def _claimed(connection: Connection, plane: Plane, owner: str, channel: str) -> list[Any]:
    """What is to be sent now; what the owner may not see is withheld."""
    now = plane.now()
    switches = [preferences.NOTIFICATIONS, *([preferences.NOTIFICATION_MAIL] if channel == EMAIL else [])]
    if not all(preferences.current_value(plane.settings, connection, each) for each in switches):
        store.postpone(connection, owner, channel, now, now + LAST_RETRY_MS)
        return []
    if channel == EMAIL:
        next_mail = store.last_sent(connection, owner, channel) + BETWEEN_MAILS_MS
        if next_mail > now:
            store.postpone(connection, owner, channel, now, next_mail)
            return []
    rows = store.claim(connection, owner, channel, now, now + CLAIM_S * SECOND_MS)
    user = access_store.user(connection, owner)
    is_gone = user is None or user.disabled
    grants = () if is_gone else access_store.grants(connection, owner, SubjectType.USER)
    visible = [
        row
        for row in rows
        if rbac.allowed(grants, rbac.Action.WORKLOAD_READ, rbac.Scope(row.project, row.department, row.cluster))
    ]
    if len(visible) < len(rows):
        hidden = sorted({row.id for row in rows} - {row.id for row in visible})
        why = "the user is disabled or deleted" if is_gone else "the project is not visible to its owner any more"
        store.settle(connection, hidden, state="withheld", problem=why)
    return visible


class _Batch:
    """What is sent together to one channel of one user."""

    def __init__(self, plane: Plane, owner: str, channel: str, rows: Sequence[Any]) -> None:
        self._plane, self._owner, self._channel, self._rows = plane, owner, channel, rows
        self._is_final = False

    async def send(self) -> None:
        """Send it and write down what became of it.

        Each request is settled when it was answered, so that what arrived is not sent again if a later one fails.
        After a failure the rest is not tried now: it would most likely fail too.
        """
        if self._channel == EMAIL:
            await self._settle(self._rows, await self._mailed())
            return
        for start in range(0, len(self._rows), IN_A_REQUEST):
            some = self._rows[start : start + IN_A_REQUEST]
            problem = await self._posted(_notes(some))
            if problem is not None:
                await self._settle(self._rows[start:], problem)
                return
            await self._settle(some, None)

    async def _settle(self, rows: Sequence[Any], problem: Problem | None) -> None:
        await self._plane.write(lambda connection: self._settled(connection, rows, problem))

    async def _mailed(self) -> Problem | None:
        user = await self._plane.read(lambda connection: access_store.user(connection, self._owner))
        if user is None or user.disabled:  # since it was claimed
            self._is_final = True
            return Problem("notification.no_user", "the user is disabled or deleted", "")
        notes = _notes(self._rows)
        return await mail.send(self._plane, mail.Mail(user.email, subject_of(notes), text_of(notes, len(notes))))

    async def _posted(self, notes: Sequence[Note]) -> Problem | None:
        try:
            found = await self._plane.read(self._webhook)
        except KeyUnusable as error:  # until the file can be read again
            return error.problem
        if isinstance(found, Problem):
            self._is_final = True
            return found
        url, secret, rules = found
        body = json.dumps({"notifications": [asdict(note) for note in notes]}).encode()
        stamp = str(self._plane.now() // SECOND_MS)
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": hashlib.sha256("".join(note.id for note in notes).encode()).hexdigest()[:32],
            "X-Fairpool-Timestamp": stamp,
            "X-Fairpool-Signature": signature(secret, stamp, body),
        }
        network = self._plane.settings.network or INTERNET
        try:
            answer = await send(OutboundRequest("POST", url, headers, body), rules, network=network)
        except OutboundFailed as error:
            self._is_final = not error.may_succeed_later
            return error.problem
        if 200 <= answer.status < 300:
            return None
        return Problem("notification.refused", f"the webhook answered {answer.status}", "")

    def _webhook(self, connection: Connection) -> tuple[str, bytes, OutboundRules] | Problem:
        row = store.webhook(connection, self._owner, self._channel.removeprefix(store.WEBHOOK))
        if row is None:
            return Problem("notification.no_webhook", "the webhook was deleted", "")
        key = self._plane.key_file.existing()
        values = key.unseal(row.sealed, sealed_for(self._owner, row.name)) if key is not None else None
        if values is None:
            return Problem("notification.secret", "the webhook's secret cannot be read: create the webhook again", "")
        return row.url, values["secret"], webhook_rules(self._plane, connection)

    def _settled(self, connection: Connection, rows: Sequence[Any], problem: Problem | None) -> None:
        now, ids = self._plane.now(), [row.id for row in rows]
        if problem is None:
            store.settle(connection, ids, state="sent", sent_at=now, problem="")
            return
        words = str(problem)[:512]
        old = [row.id for row in rows if self._is_final or now - row.at > EXPIRED_MS]
        store.settle(connection, old, state="failed", problem=words)
        tries = 1 + max((row.tries for row in rows), default=0)
        due_at = now + min(LAST_RETRY_MS, FIRST_RETRY_MS << min(tries - 1, 16))
        gone = set(old)
        store.settle(connection, [each for each in ids if each not in gone], due_at=due_at, problem=words)


def signature(secret: bytes, stamp: str, body: bytes) -> str:
    """What proves to a receiver that a request is ours, and how old it is."""
    return "sha256=" + hmac.new(secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def sealed_for(owner: str, name: str) -> str:
    """What the secret of a webhook is encrypted for."""
    return f"webhook {owner}/{name}"


def _notes(rows: Sequence[Any]) -> list[Note]:
    return [Note(row.id, row.event, row.workload_name, row.workload, row.project, iso(row.at)) for row in rows]
