"""Notifications: types, subscriptions, webhooks, deliveries, and the mail channel, as requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from fairpool.api.wire import Answer, Moment, Page, Request, ShortText

Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$")]
WebhookName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


class NotificationType(Answer):
    """An event that can be subscribed to."""

    category: Annotated[str, Field(examples=["workload"])]
    type: Annotated[str, Field(examples=["finished"])]
    description: str


class SubscriptionEvents(Request):
    """Types of one category."""

    category: Word
    types: Annotated[list[Word], Field(min_length=1, max_length=32)]


class SubscriptionRequest(Request):
    """Which events are sent where: `email`, or `webhook:NAME`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"events": [{"category": "workload", "types": ["finished"]}], "channels": ["email"]}]
        }
    )
    events: Annotated[list[SubscriptionEvents], Field(min_length=1, max_length=32)]
    channels: Annotated[list[Word], Field(min_length=1, max_length=16)]
    id: ShortText | None = None
    """Ignored by the server, which gives ids; the original's client sends one."""


class SubscribedEvents(Answer):
    """Types of one category."""

    category: str
    types: list[str]


class Subscription(Answer):
    """Which events of one's own workloads are sent where."""

    id: str
    events: list[SubscribedEvents]
    channels: list[str]
    created_at: Moment | None = None


class WebhookRequest(Request):
    """A URL that notifications are sent to. Its host must be one that an administrator allowed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "ci", "url": "https://hooks.example.com/fairpool"}]}
    )
    name: WebhookName
    url: Annotated[str, StringConstraints(max_length=2048)]


class Webhook(Answer):
    """A URL that notifications are sent to."""

    name: str
    url: str
    created_at: Moment


class NewWebhook(Webhook):
    """With its secret, which is shown once: it signs what is sent."""

    secret: str = ""


class WebhookPage(Answer):
    """All of one's webhooks."""

    webhooks: list[Webhook]


class Delivery(Answer):
    """One notification, and what became of it."""

    id: str
    event: str
    channel: str
    workload: str
    project: str
    at: Moment
    state: Annotated[str, Field(description="waiting, sent, failed or withheld", examples=["sent"])]
    tries: int = 0
    sent_at: Moment | None = None
    next_try_at: Moment | None = None
    problem: str = ""


class DeliveryPage(Page):
    """Notifications of the caller, newest first."""

    deliveries: list[Delivery]


class ChannelSwitch(Request):
    """Whether notifications are sent through one channel."""

    enabled: StrictBool | None = None
    workspace_name: ShortText | None = None


class NotificationStateRequest(Request):
    """Switches notifications of all users on or off, or those by mail."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": True, "email": {"enabled": True}}]})
    enabled: StrictBool | None = None
    email: ChannelSwitch | None = None
    slack: ChannelSwitch | None = None


class ChannelState(Answer):
    """Whether a channel can be used."""

    enabled: bool


class NotificationState(Answer):
    """Whether notifications are sent; mail needs a mail server."""

    enabled: bool
    email: ChannelState


class ChannelRequest(Request):
    """The mail server as a channel, in the form of the original's client."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"type": "email", "config": {"smtpHost": "smtp.example.com", "smtpPort": 587, "from": "f@example.com"}}
            ]
        }
    )
    type: ShortText = "email"
    config: ChannelConfigRequest | None = None
    name: ShortText | None = None


class ChannelConfigRequest(Request):
    """Settings of the mail server."""

    username: ShortText | None = None
    password: Annotated[str, StringConstraints(max_length=1024)] | None = None
    smtp_host: ShortText | None = None
    sender: Annotated[ShortText | None, Field(alias="from")] = None
    smtp_port: StrictInt | None = 587
    auth_type: ShortText | None = None
    smtp_tls_enabled: StrictBool | None = None
    recipients: list[ShortText] | None = None
    from_display_name: ShortText | None = None
    direct_notifications: StrictBool | None = None
    use_attachments: StrictBool | None = None
    subject: ShortText | None = None
    api_token: ShortText | None = None


ChannelRequest.model_rebuild()


class NotificationChannel(Answer):
    """A channel with its settings; its password is never shown."""

    name: str
    type: str
    config: dict[str, Any]
