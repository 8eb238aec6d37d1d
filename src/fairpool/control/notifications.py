"""HTTP routes for notifications: types, subscriptions, webhooks and the log of deliveries, of the caller alone.

An access key decides nothing here: what is subscribed to tells of all the user's jobs, also of those that the key may
not see.
"""

from __future__ import annotations

import json
import secrets
import uuid
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import notifications as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.control import preferences
from fairpool.control.mail import KEY as MAIL_SERVER
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.notification_delivery import EMAIL, sealed_for, webhook_rules
from fairpool.control.notification_events import CATEGORY, TYPES
from fairpool.control.outbound import check_url
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.sealing import KeyUnusable
from fairpool.control.store import notifications as store
from fairpool.control.store import preferences as preference_store
from fairpool.control.store.database import Connection

routes = Routes("notifications")

SUBSCRIPTIONS_MAX: Final = 50
WEBHOOKS_MAX: Final = 10
SLACK: Final = "Slack is not supported"
USE_WEBHOOK: Final = "use mail, or a webhook: POST /api/v1/notification-webhooks"


@routes.get(
    "/api/v1/notification-types",
    action=Action.SELF,
    answer=list[wire.NotificationType],
    summary="List the events that can be subscribed to",
)
async def types(caller: Caller) -> list[wire.NotificationType]:
    return [wire.NotificationType(category=CATEGORY, type=name, description=text) for name, text in TYPES.items()]


@routes.get(
    "/api/v1/subscriptions", action=Action.SELF, answer=list[wire.Subscription], summary="List your subscriptions"
)
async def subscriptions(plane: Plane, caller: Caller) -> list[wire.Subscription]:
    rows = await plane.read(lambda connection: store.subscriptions_of(connection, caller.id))
    return [_subscription(row) for row in rows]


@routes.post(
    "/api/v1/subscriptions",
    action=Action.SELF,
    answer=wire.Subscription,
    status=201,
    summary="Subscribe to events of your workloads",
)
async def subscribe(request: Request, plane: Plane, caller: Caller, body: wire.SubscriptionRequest) -> Response:
    return await _put(request, plane, caller, body, str(uuid.uuid4()), is_new=True)


@routes.put(
    "/api/v1/subscriptions/{subscription_id}",
    action=Action.SELF,
    answer=wire.Subscription,
    summary="Replace a subscription",
)
async def change_subscription(
    subscription_id: str, request: Request, plane: Plane, caller: Caller, body: wire.SubscriptionRequest
) -> Response:
    return await _put(request, plane, caller, body, subscription_id, is_new=False)


async def _put(
    request: Request, plane: Plane, caller: Caller, body: wire.SubscriptionRequest, identity: str, *, is_new: bool
) -> Response:
    caller.require_no_key()
    if caller.kind != "user":
        what = f"{caller.name} is not a user, and only users are notified"
        raise refused(422, "notification.not_a_user", what, "subscribe as a user")
    _check_events(body)

    def unit(connection: Connection) -> ActionResult:
        mine = {row.id: row for row in store.subscriptions_of(connection, caller.id)}
        if not is_new and identity not in mine:
            raise unknown("subscription", identity)
        if is_new and len(mine) >= SUBSCRIPTIONS_MAX:
            what = f"you have {SUBSCRIPTIONS_MAX} subscriptions already"
            raise refused(409, "notification.too_many", what, "delete or change one of them")
        _check_channels(connection, caller, body)
        document = {
            "events": [{"category": each.category, "types": list(each.types)} for each in body.events],
            "channels": list(dict.fromkeys(body.channels)),
        }
        row = {
            "id": identity,
            "owner": caller.id,
            "owner_name": caller.name,
            "document": json.dumps(document),
            "created_at": plane.now() if is_new else mine[identity].created_at,
        }
        store.put_subscription(connection, row)
        made = next(each for each in store.subscriptions_of(connection, caller.id) if each.id == identity)
        return ActionResult(
            body=_subscription(made),
            status=201 if is_new else 200,
            action="create" if is_new else "update",
            entity_type="subscription",
            entity_id=identity,
        )

    return await plane.perform(request, caller, unit)


@routes.delete(
    "/api/v1/subscriptions/{subscription_id}", action=Action.SELF, status=204, summary="Delete a subscription"
)
async def unsubscribe(subscription_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require_no_key()

    def unit(connection: Connection) -> ActionResult:
        if not store.drop_subscription(connection, caller.id, subscription_id):
            raise unknown("subscription", subscription_id)
        return ActionResult(action="delete", entity_type="subscription", entity_id=subscription_id)

    return await plane.perform(request, caller, unit)


def _check_events(body: wire.SubscriptionRequest) -> None:
    for each in body.events:
        wrong = [name for name in each.types if name not in TYPES]
        if each.category != CATEGORY or wrong:
            named = f"{each.category} {wrong[0]}" if wrong else each.category
            fix = f"use the category {CATEGORY} with {', '.join(TYPES)}"
            raise refused(422, "notification.no_such_event", f"there is no event {named!r}", fix, "events")


def _check_channels(connection: Connection, caller: Caller, body: wire.SubscriptionRequest) -> None:
    for channel in body.channels:
        if channel == EMAIL:
            if preference_store.one(connection, MAIL_SERVER) is None:
                what, fix = "no mail server is configured", "ask an administrator, or use a webhook"
                raise refused(422, "notification.no_mail", what, fix, "channels")
        elif channel == "slack":
            raise refused(422, "notification.slack", SLACK, USE_WEBHOOK, "channels")
        elif not channel.startswith(store.WEBHOOK) or (
            store.webhook(connection, caller.id, channel.removeprefix(store.WEBHOOK)) is None
        ):
            fix = "use email, or webhook:NAME with the name of one of your webhooks"
            raise refused(422, "notification.no_channel", f"there is no channel {channel!r}", fix, "channels")


def _subscription(row: Any) -> wire.Subscription:
    return wire.Subscription(id=row.id, created_at=iso(row.created_at), **json.loads(row.document))


# --- webhooks ---


@routes.get("/api/v1/notification-webhooks", action=Action.SELF, answer=wire.WebhookPage, summary="List your webhooks")
async def webhooks(plane: Plane, caller: Caller) -> wire.WebhookPage:
    rows = await plane.read(lambda connection: store.webhooks_of(connection, caller.id))
    return wire.WebhookPage(webhooks=[_webhook(row) for row in rows])


@routes.post(
    "/api/v1/notification-webhooks",
    action=Action.SELF,
    answer=wire.NewWebhook,
    status=201,
    summary="Add a webhook; returns the secret that signs its requests",
)
async def add_webhook(request: Request, plane: Plane, caller: Caller, body: wire.WebhookRequest) -> Response:
    caller.require_no_key()
    secret = "fpw_" + secrets.token_urlsafe(32)
    try:
        sealed = plane.key_file.key().seal({"secret": secret.encode()}, sealed_for(caller.id, body.name))
    except KeyUnusable as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error

    def unit(connection: Connection) -> ActionResult:
        problem = check_url(body.url, webhook_rules(plane, connection))
        if problem is not None:
            raise refused(422, problem.code, problem.what, problem.fix, "url")
        mine = store.webhooks_of(connection, caller.id)
        if any(row.name == body.name for row in mine):
            what = f"you have a webhook {body.name} already"
            raise refused(409, "webhook.exists", what, "choose another name, or delete it first", "name")
        if len(mine) >= WEBHOOKS_MAX:
            raise refused(409, "webhook.too_many", f"you have {WEBHOOKS_MAX} webhooks already", "delete one of them")
        row = {"owner": caller.id, "name": body.name, "url": body.url, "sealed": sealed, "created_at": plane.now()}
        store.add_webhook(connection, row)
        made = _webhook(store.webhook(connection, caller.id, body.name))
        return ActionResult(
            body=wire.NewWebhook(**made.model_dump(), secret=secret),
            kept=wire.NewWebhook(**made.model_dump()),
            status=201,
            action="create",
            entity_type="webhook",
            entity_id=body.name,
        )

    return await plane.perform(request, caller, unit)


@routes.delete("/api/v1/notification-webhooks/{name}", action=Action.SELF, status=204, summary="Delete a webhook")
async def delete_webhook(name: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require_no_key()

    def unit(connection: Connection) -> ActionResult:
        if store.webhook(connection, caller.id, name) is None:
            raise unknown("webhook", name)
        used = [
            row.id for row in store.subscriptions_of(connection, caller.id) if _names(row, f"{store.WEBHOOK}{name}")
        ]
        if used:
            what = f"the subscription {used[0]} uses this webhook"
            raise refused(409, "webhook.in_use", what, "delete or change the subscription first")
        store.drop_webhook(connection, caller.id, name)
        return ActionResult(action="delete", entity_type="webhook", entity_id=name)

    return await plane.perform(request, caller, unit)


def _names(row: Any, channel: str) -> bool:
    return channel in json.loads(row.document)["channels"]


def _webhook(row: Any) -> wire.Webhook:
    return wire.Webhook(name=row.name, url=row.url, created_at=iso(row.created_at))


# --- deliveries ---


@routes.get(
    "/api/v1/notifications",
    action=Action.SELF,
    answer=wire.DeliveryPage,
    summary="List your notifications and whether they arrived, newest first",
)
async def deliveries(
    plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.DeliveryPage:
    # Users see all of their own log, which says what was withheld from them; a key sees what its scope allows.
    places = caller.places(Action.WORKLOAD_READ) if caller.access_key is not None else None
    within = places.of_projects if places is not None else None
    rows = await plane.read(lambda connection: store.of_owner(connection, caller.id, offset, limit + 1, within))
    following = offset + limit if len(rows) > limit else None
    return wire.DeliveryPage(deliveries=[_delivery(row) for row in rows[:limit]], next=following)


def _delivery(row: Any) -> wire.Delivery:
    return wire.Delivery(
        id=row.id,
        event=row.event,
        channel=row.channel,
        workload=row.workload_name,
        project=row.project,
        at=iso(row.at),
        state=row.state,
        tries=row.tries,
        sent_at=iso_or_none(row.sent_at),
        next_try_at=iso(row.due_at) if row.state == "waiting" else None,
        problem=row.problem,
    )


# --- on or off ---


@routes.get(
    "/api/v1/notification-state",
    action=Action.SELF,
    answer=wire.NotificationState,
    summary="Get whether notifications are sent",
)
async def state(plane: Plane, caller: Caller) -> wire.NotificationState:
    return await plane.read(lambda connection: _state(plane, connection))


@routes.patch(
    "/api/v1/notification-state",
    action=Action.SETTING_WRITE,
    answer=wire.NotificationState,
    summary="Switch notifications on or off",
)
async def change_state(request: Request, plane: Plane, caller: Caller, body: wire.NotificationStateRequest) -> Response:
    caller.require(Action.SETTING_WRITE)
    if body.slack is not None and body.slack.enabled:
        raise refused(422, "notification.slack", SLACK, USE_WEBHOOK, "slack")

    def unit(connection: Connection) -> ActionResult:
        switched = {
            preferences.NOTIFICATIONS: body.enabled,
            preferences.NOTIFICATION_MAIL: body.email.enabled if body.email is not None else None,
        }
        if switched[preferences.NOTIFICATION_MAIL] and preference_store.one(connection, MAIL_SERVER) is None:
            what, fix = "no mail server is configured", "set one: POST /api/v1/notification-channels"
            raise refused(422, "notification.no_mail", what, fix, "email")
        for key, value in switched.items():
            if value is not None:
                preferences.choose_value(plane, connection, key, value, caller.name)
        return ActionResult(
            body=_state(plane, connection),
            action="update",
            entity_type="setting",
            entity_id=preferences.NOTIFICATIONS,
        )

    return await plane.perform(request, caller, unit)


def _state(plane: Plane, connection: Connection) -> wire.NotificationState:
    enabled = bool(preferences.current_value(plane.settings, connection, preferences.NOTIFICATIONS))
    by_mail = preferences.current_value(plane.settings, connection, preferences.NOTIFICATION_MAIL)
    has_mail = bool(by_mail) and preference_store.one(connection, MAIL_SERVER) is not None
    return wire.NotificationState(enabled=enabled, email=wire.ChannelState(enabled=has_mail))
