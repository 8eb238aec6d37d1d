"""`runai-adm setting`: list, get, update. The settings of the control plane that can be changed while it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_document
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, Screen, printable

if TYPE_CHECKING:
    from fairpool.api.settings import Setting


@command("list", "runai-adm setting list", with_project=False)
@output_flag
@click.pass_obj
def list_settings(options: GlobalOptions, output: str | None) -> None:
    """List all settings with their values."""
    with Session(options).connected() as client:
        found = sorted(client.settings(), key=lambda each: each.key)
    show(output, setting_columns(), found, documents=document(found))


def setting_columns() -> list[Column[Setting]]:
    return [
        Column("SETTING", lambda each: each.key),
        Column("VALUE", lambda each: value_text(each.value)),
        Column("DEFAULT", lambda each: value_text(each.default)),
        Column("LABEL", lambda each: each.label, least=24),
        Column("CHANGED BY", lambda each: each.updated_by or "-", wide=True),
        Column("DESCRIPTION", lambda each: each.description, wide=True),
    ]


def value_text(value: bool | int | str) -> str:
    """As it is typed: true, false or a number."""
    return value if isinstance(value, str) else json.dumps(value)


@command("get", "runai-adm setting get department.use", with_project=False)
@click.argument("key")
@output_flag
@click.pass_obj
def get_setting(options: GlobalOptions, key: str, output: str | None) -> None:
    """Show a setting with its description."""
    with Session(options).connected() as client:
        found = known_setting(client, key)
    if output in ("json", "yaml"):
        show_document(output, document(found))
    elif output == "name":
        click.echo(printable(found.key))
    else:
        screen = Screen.here()
        screen.facts([(column.heading, column.cell(found)) for column in setting_columns()], aligned=False)
        changed = "never" if found.updated_at is None else ages.local(found.updated_at)
        screen.facts([("CHANGED", changed)], aligned=False)
        screen.show()


@command("update", "runai-adm setting update security.passwordMinLength 12", with_project=False)
@click.argument("key")
@click.argument("value", required=False)
@flag("--default", "restored", is_flag=True, help="Set it to its default value.")
@click.pass_obj
def update_setting(options: GlobalOptions, key: str, value: str | None, restored: bool) -> None:
    """Change a setting: VALUE is true, false or a number."""
    if (value is None) != restored:
        raise failure("setting.value", "give either a value or --default", "see `runai-adm setting update --help`")
    with Session(options).connected() as client:
        found = known_setting(client, key)
        made = client.change_setting(key, {"value": found.default if value is None else parsed(value)}, found.revision)
    click.echo(f"Setting {printable(key)} is now {printable(value_text(made.value)) or 'empty'}.")


def parsed(text: str) -> bool | int | str:
    """What was typed as a value; the server says which values are right."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 16 else text


def known_setting(client: Client, key: str) -> Setting:
    """The setting of this name; a failure with a hint if there is none."""
    found = {each.key: each for each in client.settings()}
    if key not in found:
        raise failure("setting.unknown", f"there is no setting {key}", hint=meant(key, found))
    return found[key]


def refused_setting_verb(verb: str) -> click.Command:
    """`create` and `delete` of settings, of which there is a fixed set."""

    @command(verb, "runai-adm setting list", with_project=False)
    @click.argument("words", nargs=-1)
    def refuse(words: tuple[str, ...]) -> None:
        """There is a fixed set of settings."""
        what = f"settings cannot be {verb}d: there is a fixed set of them"
        raise failure("setting.fixed", what, "to undo a change: runai-adm setting update NAME --default")

    return refuse
