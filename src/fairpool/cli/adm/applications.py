"""`runai-adm application`: list, get, create, update, secret, delete. Applications are accounts for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.adm.memberships import (
    Subject,
    change_projects,
    first_role_flags,
    project_flags,
    roles_of,
    show_with_roles,
)
from fairpool.cli.adm.names import find_named
from fairpool.cli.adm.secret_file import SecretFile
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.access_keys import seconds
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.programs import Application, NewApplication

SECRET_FILE = flag(
    "--secret-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the secret to FILE, which only you can read, instead of printing it.",
)


@command("list", "runai-adm application list", with_project=False)
@output_flag
@click.pass_obj
def list_applications(options: GlobalOptions, output: str | None) -> None:
    """List applications with their roles: system-wide, or of a project or department."""
    with Session(options).connected() as client:
        found = sorted(client.applications(), key=lambda each: each.name)
        roles = roles_of(found, client.access_rules())
    name, *others = application_columns()
    columns = [name, Column("ROLES", lambda each: ", ".join(roles[each.id]) or "-", least=20), *others]
    show(output, columns, found, documents=document(found))


def application_columns() -> list[Column[Application]]:
    return [
        Column("APPLICATION", lambda each: each.name),
        Column("CLIENT ID", lambda each: each.client_id),
        Column("ENABLED", lambda each: "yes" if each.enabled else "no", spare=2),
        Column("LAST LOGIN", lambda each: ages.age(each.last_login) or "never", spare=2),
        Column("CREATED", lambda each: ages.local(each.created_at), spare=1),
        Column("ID", lambda each: each.id, wide=True),
    ]


@command("get", "runai-adm application get nightly-sweep", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_application(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show an application with its roles and the projects in which they apply."""
    with Session(options).connected() as client:
        found = find_named("application", name, client.applications())
        rules = [rule for rule in client.access_rules() if rule.subject_id == found.id]
    facts = [(column.heading, column.cell(found)) for column in application_columns()]
    show_with_roles(output, found, found.name, facts, rules)


@command("create", "runai-adm application create nightly-sweep --project team-a", with_project=False)
@click.argument("name")
@first_role_flags("application")
@SECRET_FILE
@click.pass_obj
def create_application(
    options: GlobalOptions, name: str, role: str | None, projects: tuple[str, ...], secret_file: Path | None
) -> None:
    """Create an application. Its secret is shown once; a program signs in with `runai login application`."""
    with SecretFile(secret_file, "--secret-file") as written, Session(options).connected() as client:
        for project in projects:
            check_project(client, project)
        made = client.create_application({"name": name, "roles": [role] if role else []})
        written.keep(made.secret)
        click.echo(f"Application {printable(made.name)} created successfully.", err=secret_file is None)
        print_login(made, written)
        change_projects(client, Subject(made.id, made.name, "app"), projects, ())


@command("update", "runai-adm application update nightly-sweep --add-project team-b", with_project=False)
@click.argument("name")
@project_flags("application")
@flag("--enable/--disable", "enabled", default=None, help="A disabled application cannot sign in.")
@click.pass_obj
def update_application(
    options: GlobalOptions,
    name: str,
    add_project: tuple[str, ...],
    remove_project: tuple[str, ...],
    enabled: bool | None,
) -> None:
    """Enable or disable an application, or change its projects."""
    if not add_project and not remove_project and enabled is None:
        raise failure("command.no_change", "nothing to change", "see `runai-adm application update --help`")
    with Session(options).connected() as client:
        found = find_named("application", name, client.applications())
        change_projects(client, Subject(found.id, found.name, "app"), add_project, remove_project)
        if enabled is not None:
            client.change_program("apps", found.id, {"enabled": enabled})
    click.echo(f"Application {printable(name)} updated successfully.")


@command("secret", "runai-adm application secret nightly-sweep --secret-file sweep.secret", with_project=False)
@click.argument("name")
@flag("--overlap", metavar="TIME", default="0s", help="How long the former secret stays valid. Default: it ends now.")
@SECRET_FILE
@click.pass_obj
def secret_application(options: GlobalOptions, name: str, overlap: str, secret_file: Path | None) -> None:
    """Make a new secret for an application. Without overlap the earlier one and its sessions end at once."""
    overlap_s = seconds(overlap, "--overlap")
    with SecretFile(secret_file, "--secret-file", replaces=True) as written, Session(options).connected() as client:
        found = find_named("application", name, client.applications())
        made = client.new_program_secret("apps", found.id, overlap_s)
        written.keep(made.secret)
    until = f"works for another {overlap}" if overlap_s else "no longer works"
    click.echo(f"The earlier secret of {printable(name)} {until}.", err=True)
    print_login(made, written)


@command("delete", "runai-adm application delete nightly-sweep", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_application(options: GlobalOptions, name: str) -> None:
    """Delete an application. Its sessions end; its jobs are kept."""
    with Session(options).connected() as client:
        client.delete_application(find_named("application", name, client.applications()).id)
    click.echo(f"Application {printable(name)} deleted successfully.")


def print_login(made: NewApplication, written: SecretFile) -> None:
    """The id, and the secret or where it was written."""
    click.echo(f"Client id: {printable(made.client_id)}", err=True)
    written.print_or_name("secret", made.secret)
