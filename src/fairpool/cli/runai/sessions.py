"""`runai sessions` and `runai-adm session`: list and end sign-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.sessions import SessionItem


@command("list", "runai sessions list", with_project=False)
@output_flag
@click.pass_obj
def list_sessions(options: GlobalOptions, output: str | None) -> None:
    """List where you are signed in, and when each session was last used."""
    with Session(options).connected() as client:
        found = client.own_sessions()
    show(output, session_columns(), found, documents=document(found))


def session_columns() -> list[Column[SessionItem]]:
    return [
        Column("SESSION", lambda each: each.id),
        Column("KIND", lambda each: f"{each.kind} (this one)" if each.is_current else each.kind),
        Column("SIGNED IN WITH", lambda each: (each.method or "-").replace("-", " ")),
        Column("FROM", lambda each: each.source_ip or "-"),
        Column("LAST USED", lambda each: ages.age(each.last_used_at)),
        Column("CLIENT", lambda each: each.client or "-", least=12, spare=1),
        Column("SIGNED IN", lambda each: ages.local(each.created_at), spare=2),
        Column("EXPIRES", lambda each: ages.local(each.expires_at) if each.expires_at else "-", wide=True),
        Column("ACCESS KEY", lambda each: each.access_key_id or "-", wide=True),
    ]


@command("end", "runai sessions end --others", with_project=False)
@click.argument("ids", nargs=-1, metavar="[SESSION]...")
@flag("--others", is_flag=True, help="End all sessions but this one.")
@click.pass_obj
def end_sessions(options: GlobalOptions, ids: tuple[str, ...], others: bool) -> None:
    """End sessions of yours. Their tokens are refused from then on."""
    if bool(ids) == others:
        raise failure("session.none", "name the sessions to end, or pass --others", "see `runai sessions list`")
    with Session(options).connected() as client:
        if others:
            count = client.end_other_sessions()
            click.echo(f"{count} session{'' if count == 1 else 's'} ended.")
        for each in ids:
            client.end_own_session(each)
            click.echo(f"Session {printable(each)} ended.")


@command("list", "runai-adm session list --user ann@example.com", with_project=False)
@flag("--user", metavar="NAME", help="Only those of this user, application or service account.")
@output_flag
@click.pass_obj
def list_all_sessions(options: GlobalOptions, user: str | None, output: str | None) -> None:
    """List the sessions of all users and programs."""
    with Session(options).connected() as client:
        found = client.all_sessions(user or "")
    first, *others = session_columns()
    subject: Column[SessionItem] = Column("USER", lambda each: each.subject_name or "-")
    show(output, [first, subject, *others], found, documents=document(found))


@command("end", "runai-adm session end SESSION", with_project=False)
@click.argument("ids", nargs=-1, required=True, metavar="SESSION...")
@click.pass_obj
def end_any_sessions(options: GlobalOptions, ids: tuple[str, ...]) -> None:
    """End sessions of any user or program."""
    with Session(options).connected() as client:
        for each in ids:
            client.end_session(each)
            click.echo(f"Session {printable(each)} ended.")
