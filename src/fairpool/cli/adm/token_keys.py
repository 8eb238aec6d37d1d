"""`runai-adm token-key`: list and rotate the keys that access tokens are signed with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column

if TYPE_CHECKING:
    from fairpool.api.sessions import TokenKeyAnswer


@command("list", "runai-adm token-key list", with_project=False)
@output_flag
@click.pass_obj
def list_keys(options: GlobalOptions, output: str | None) -> None:
    """List the keys; the first one signs new tokens."""
    with Session(options).connected() as client:
        found = client.token_keys()
    columns: list[Column[TokenKeyAnswer]] = [
        Column("TOKEN KEY", lambda each: each.id),
        Column("ALGORITHM", lambda each: each.algorithm),
        Column("CREATED", lambda each: ages.local(each.created_at)),
        Column("PUBLISHED UNTIL", lambda each: ages.local(each.published_until) if each.published_until else "-"),
    ]
    show(output, columns, found, documents=document(found))


@command("rotate", "runai-adm token-key rotate", with_project=False)
@flag("--now", "at_once", is_flag=True, help="Tokens of the present key end at once, as after a theft.")
@click.pass_obj
def rotate_keys(options: GlobalOptions, at_once: bool) -> None:
    """Sign tokens with a new key. Tokens of the present key stay valid until they expire."""
    with Session(options).connected() as client:
        client.rotate_token_keys(overlap=not at_once)
    click.echo("Tokens are signed with a new key.")
    if at_once:
        click.echo("All users and programs must renew their tokens or sign in again.", err=True)
