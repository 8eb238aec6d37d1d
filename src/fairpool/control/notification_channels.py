"""HTTP routes for the mail server as a notification channel, in the form of the original's client.

It is the same mail server as that of `/api/v1/mail/settings`. What the form has and Fairpool does not do is refused,
but for the values that the client sends when it is told nothing.
"""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import mail as mail_wire
from fairpool.api import notifications as wire
from fairpool.api.wire import ValidationError
from fairpool.control import mail, mail_settings
from fairpool.control.notification_delivery import EMAIL
from fairpool.control.notifications import SLACK, USE_WEBHOOK
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown, validation_problems
from fairpool.control.routes import Routes
from fairpool.control.store import preferences as store
from fairpool.control.store.database import Connection

routes = Routes("notifications")

PATH: Final = "/api/v1/notification-channels"
UNSET: Final[dict[str, tuple[Any, ...]]] = {
    "recipients": (None, []),
    "from_display_name": (None, "", "Run:ai"),
    "direct_notifications": (None, True),
    "use_attachments": (None, False),
    "subject": (None, "", "Run:ai notification - {{ .category }} {{ .reason }}"),
    "api_token": (None, ""),
}
"""Fields without an effect here, and the values that ask for none."""


@routes.get(
    PATH, action=Action.SELF, answer=list[wire.NotificationChannel], summary="List the channels that are configured"
)
async def channels(plane: Plane, caller: Caller) -> list[wire.NotificationChannel]:
    """With their settings for callers who may read settings."""

    def unit(connection: Connection) -> list[wire.NotificationChannel]:
        if store.one(connection, mail.KEY) is None:
            return []
        found = _channel(connection, EMAIL)
        is_hidden = not caller.may(Action.SETTING_READ)
        return [found.model_copy(update={"config": {}}) if is_hidden else found]

    return await plane.read(unit)


@routes.get(f"{PATH}/{{name}}", action=Action.SETTING_READ, answer=wire.NotificationChannel, summary="Get a channel")
async def channel(name: str, plane: Plane, caller: Caller) -> wire.NotificationChannel:
    caller.require(Action.SETTING_READ)
    return await plane.read(lambda connection: _channel(connection, name))


@routes.post(
    PATH, action=Action.SETTING_WRITE, answer=wire.NotificationChannel, status=201, summary="Configure a channel"
)
async def create(request: Request, plane: Plane, caller: Caller, body: wire.ChannelRequest) -> Response:
    return await _set(request, plane, caller, body, {}, status=201)


@routes.put(
    f"{PATH}/{{name}}", action=Action.SETTING_WRITE, answer=wire.NotificationChannel, summary="Replace a channel"
)
async def replace_channel(
    name: str, request: Request, plane: Plane, caller: Caller, body: wire.ChannelRequest
) -> Response:
    caller.require(Action.SETTING_WRITE)
    await plane.read(lambda connection: _channel(connection, name))
    return await _set(request, plane, caller, body, {})


@routes.patch(
    f"{PATH}/{{name}}", action=Action.SETTING_WRITE, answer=wire.NotificationChannel, summary="Change a channel"
)
async def change(name: str, request: Request, plane: Plane, caller: Caller, body: wire.ChannelRequest) -> Response:
    caller.require(Action.SETTING_WRITE)
    known = await plane.read(lambda connection: _channel(connection, name))
    return await _set(request, plane, caller, body, known.config)


@routes.delete(f"{PATH}/{{name}}", action=Action.SETTING_WRITE, status=204, summary="Remove a channel")
async def remove(name: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.SETTING_WRITE)
    await plane.read(lambda connection: _channel(connection, name))
    return await mail_settings.delete_mail_settings(request, plane, caller)


@routes.post(
    "/api/v1/validate-notification-channel",
    action=Action.SETTING_WRITE,
    status=204,
    summary="Check the settings of a channel, without storing them",
)
async def validate(plane: Plane, caller: Caller, body: wire.ChannelRequest) -> Response:
    caller.require(Action.SETTING_WRITE)
    mail_settings.check(_request(body, {}))
    return Response(None, 204)


async def _set(
    request: Request,
    plane: Plane,
    caller: Caller,
    body: wire.ChannelRequest,
    known: dict[str, Any],
    *,
    status: int = 200,
) -> Response:
    caller.require(Action.SETTING_WRITE)
    await mail_settings.set_mail_settings(request, plane, caller, _request(body, known))
    made = await plane.read(lambda connection: _channel(connection, EMAIL))
    return Response(made.model_dump_json(by_alias=True, exclude_none=True), status, media_type="application/json")


def _request(body: wire.ChannelRequest, known: dict[str, Any]) -> mail_wire.MailSettingsRequest:
    """The mail server that is asked for; refuses what has no meaning here."""
    if body.type != EMAIL:
        raise refused(422, "notification.slack", SLACK, USE_WEBHOOK, "type")
    config = body.config or wire.ChannelConfigRequest()
    for name, values in UNSET.items():
        if getattr(config, name) not in values:
            what = f"{name} cannot be set: each user is notified of their own jobs"
            raise refused(422, "notification.unsupported", what, "leave it out", f"config.{name}")
    said = {**known, **config.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)}
    has_login = said.get("authType", "") not in ("auth_none", "") or "authType" not in said
    asked = {
        "host": said.get("smtpHost", ""),
        "port": said.get("smtpPort", 587),
        "security": "starttls" if said.get("smtpTlsEnabled", True) else "none",
        "from": said.get("from", ""),
        "username": said.get("username", "") if has_login else "",
        **({"password": said["password"]} if said.get("password") and has_login else {}),
    }
    try:
        return mail_wire.MailSettingsRequest.model_validate(asked)
    except ValidationError as error:
        raise Refused(422, validation_problems(error.errors(include_url=False))) from error


def _channel(connection: Connection, name: str) -> wire.NotificationChannel:
    row = store.one(connection, mail.KEY) if name == EMAIL else None
    if row is None:
        raise unknown("channel", name)
    stored = mail_wire.StoredMailServer.model_validate(json.loads(row.value))
    config = {
        "smtpHost": stored.host,
        "smtpPort": stored.port,
        "from": stored.sender,
        "username": stored.username,
        "authType": "auth_login" if stored.username else "auth_none",
        "smtpTlsEnabled": stored.security != "none",
    }
    return wire.NotificationChannel(name=EMAIL, type=EMAIL, config=config)
