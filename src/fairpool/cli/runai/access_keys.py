"""`runai access-key`: create, list, secret, delete. With an access key, programs sign in as you."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.adm.secret_file import SecretFile
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import ACCESS_KEY_VARIABLE, Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.programs import AccessKeyAnswer, NewAccessKey

LENGTH = re.compile(r"(\d{1,6})(s|m|h|d)")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

KEY_FILE = flag(
    "--key-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the key to FILE, which only you can read, instead of printing it.",
)


def seconds(text: str, named: str) -> int:
    """A length of time as it is typed: 30d, 12h, 10m, 90s."""
    found = LENGTH.fullmatch(text)
    if found is None:
        raise failure("command.length", f"{named} {text!r} is not a length of time", "write e.g. 30d, 12h or 10m")
    return int(found[1]) * UNITS[found[2]]


@command("list", "runai access-key list", with_project=False)
@output_flag
@click.pass_obj
def list_keys(options: GlobalOptions, output: str | None) -> None:
    """List your access keys with their scope and last use."""
    with Session(options).connected() as client:
        found = client.access_keys()
    columns: list[Column[AccessKeyAnswer]] = [
        Column("ACCESS KEY", lambda each: each.name),
        Column("SCOPE", _scope, least=20),
        Column("LAST USED", lambda each: ages.age(each.last_login) or "never"),
        Column("EXPIRES", lambda each: ages.local(each.expires_at) if each.expires_at else "never"),
        Column("CLIENT ID", lambda each: each.client_id, wide=True),
        Column("CREATED", lambda each: ages.local(each.created_at), wide=True),
    ]
    show(output, columns, found, documents=document(found))


def _scope(key: AccessKeyAnswer) -> str:
    if key.scope is None:
        return "all that you may do"
    projects = f"projects {', '.join(key.scope.projects)}" if key.scope.projects is not None else ""
    permissions = f"permissions {', '.join(key.scope.actions)}" if key.scope.actions is not None else ""
    return "; ".join(filter(None, (permissions, projects)))


@command("create", "runai access-key create ci --expires 90d --project team-a", with_project=False)
@click.argument("name")
@flag("--expires", metavar="TIME", help="When it ends, from now: 30d, 12h. Default: never.")
@flag("--project", "projects", multiple=True, metavar="NAME", help="Only for this project; repeatable.")
@flag(
    "--permission",
    "--action",
    "permissions",
    multiple=True,
    metavar="NAME",
    help="Only for this permission, e.g. workload.read; repeatable. Yours: runai whoami --permissions.",
)
@KEY_FILE
@click.pass_obj
def create_key(
    options: GlobalOptions,
    name: str,
    expires: str | None,
    projects: tuple[str, ...],
    permissions: tuple[str, ...],
    key_file: Path | None,
) -> None:
    """Create an access key. It is shown once. It can never do more than you can."""
    body: dict[str, object] = {"name": name}
    if expires is not None:
        until = ages.now() + timedelta(seconds=seconds(expires, "--expires"))
        body["expiresAt"] = until.isoformat()
    if projects or permissions:
        body["scope"] = {"projects": list(projects) or None, "actions": list(permissions) or None}
    with SecretFile(key_file, "--key-file") as written, Session(options).connected() as client:
        made = client.create_access_key(body)
        _print(made, written, f"Access key {printable(made.name)} created successfully.")


@command("secret", "runai access-key secret ci --overlap 1d", with_project=False)
@click.argument("name")
@flag("--overlap", metavar="TIME", default="0s", help="How long the former secret stays valid. Default: it ends now.")
@KEY_FILE
@click.pass_obj
def secret_key(options: GlobalOptions, name: str, overlap: str, key_file: Path | None) -> None:
    """Make a new secret for an access key."""
    with SecretFile(key_file, "--key-file", replaces=True) as written, Session(options).connected() as client:
        made = client.new_access_key_secret(name, seconds(overlap, "--overlap"))
        _print(made, written, f"Access key {printable(made.name)} has a new secret.")


@command("delete", "runai access-key delete ci", with_project=False)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_obj
def delete_keys(options: GlobalOptions, names: tuple[str, ...]) -> None:
    """Delete access keys. Sessions that began with them end."""
    with Session(options).connected() as client:
        for name in names:
            client.delete_access_key(name)
            click.echo(f"Access key {printable(name)} deleted successfully.")


def _print(made: NewAccessKey, written: SecretFile, said: str) -> None:
    key = f"{made.client_id}:{made.client_secret}"
    written.keep(key)
    click.echo(said, err=True)
    written.print_or_name("access key", key)
    click.echo(f"Use it with `runai login --access-key`, or in the variable {ACCESS_KEY_VARIABLE}.", err=True)
