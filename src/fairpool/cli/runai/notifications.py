"""`runai notifications`: subscribe to events of one's jobs, webhooks, and what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.notifications import Delivery, Subscription, Webhook


@command("list", "runai notifications list", with_project=False)
@output_flag
@click.pass_obj
def list_subscriptions(options: GlobalOptions, output: str | None) -> None:
    """List your subscriptions."""
    with Session(options).connected() as client:
        found = client.subscriptions()
    show(output, subscription_columns(), found, documents=document(found))


def subscription_columns() -> list[Column[Subscription]]:
    return [
        Column("ID", lambda each: each.id),
        Column("EVENTS", lambda each: ", ".join(name for events in each.events for name in events.types)),
        Column("CHANNELS", lambda each: ", ".join(each.channels)),
    ]


@command("subscribe", "runai notifications subscribe finished failed --channel email", with_project=False)
@click.argument("events", nargs=-1, required=True)
@flag("--channel", "channels", multiple=True, default=("email",), help="email or webhook:NAME; repeatable.")
@click.pass_obj
def subscribe(options: GlobalOptions, events: tuple[str, ...], channels: tuple[str, ...]) -> None:
    """Be notified of your jobs: started, finished, failed, preempted, near-limit."""
    body = {"events": [{"category": "workload", "types": list(events)}], "channels": list(channels)}
    with Session(options).connected() as client:
        made = client.subscribe(body)
    click.echo(f"Subscribed. To undo: runai notifications unsubscribe {made.id}")


@command("unsubscribe", "runai notifications unsubscribe ID", with_project=False)
@click.argument("subscription")
@click.pass_obj
def unsubscribe(options: GlobalOptions, subscription: str) -> None:
    """Delete a subscription."""
    with Session(options).connected() as client:
        client.unsubscribe(subscription)
    click.echo(f"Subscription {printable(subscription)} deleted successfully.")


@command("log", "runai notifications log", with_project=False)
@output_flag
@click.pass_obj
def delivery_log(options: GlobalOptions, output: str | None) -> None:
    """List the notifications that were sent to you, or wait to be sent, newest first."""
    with Session(options).connected() as client:
        found = client.notifications()
    show(output, delivery_columns(), found, documents=document(found))


def delivery_columns() -> list[Column[Delivery]]:
    return [
        Column("TIME", lambda each: ages.local(each.at)),
        Column("EVENT", lambda each: each.event),
        Column("JOB", lambda each: f"{each.project}/{each.workload}"),
        Column("CHANNEL", lambda each: each.channel),
        Column("STATE", lambda each: each.state),
        Column("PROBLEM", lambda each: each.problem or "-", spare=1),
    ]


@command("webhooks", "runai notifications webhooks", with_project=False)
@output_flag
@click.pass_obj
def list_webhooks(options: GlobalOptions, output: str | None) -> None:
    """List your webhooks."""
    with Session(options).connected() as client:
        found = client.webhooks()
    columns: list[Column[Webhook]] = [Column("NAME", lambda each: each.name), Column("URL", lambda each: each.url)]
    show(output, columns, found, documents=document(found))


@command("add-webhook", "runai notifications add-webhook ci https://hooks.example.com/fairpool", with_project=False)
@click.argument("name")
@click.argument("url")
@click.pass_obj
def add_webhook(options: GlobalOptions, name: str, url: str) -> None:
    """Add a webhook. Its secret is shown once: it signs what is sent."""
    with Session(options).connected() as client:
        made = client.add_webhook({"name": name, "url": url})
    click.echo(f"Webhook {printable(name)} created successfully. Its secret is shown only now:")
    click.echo(made.secret)


@command("delete-webhook", "runai notifications delete-webhook ci", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_webhook(options: GlobalOptions, name: str) -> None:
    """Delete a webhook that no subscription uses."""
    with Session(options).connected() as client:
        client.delete_webhook(name)
    click.echo(f"Webhook {printable(name)} deleted successfully.")
