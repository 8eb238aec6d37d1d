"""`runai-adm service-account`: list, get, create, update, secret, delete."""

from __future__ import annotations

from pathlib import Path

import click

from fairpool.api.record import document
from fairpool.cli.adm.applications import SECRET_FILE, application_columns, print_login
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
from fairpool.cli.runai.access_keys import seconds
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column, printable

NOUN, PATH, TYPE = "service-account", "service-accounts", "service-account"
OVERLAP = flag(
    "--overlap", metavar="TIME", default="0s", help="How long the former secret stays valid. Default: it ends now."
)
SWITCH = flag("--enable/--disable", "enabled", default=None, help="A disabled account cannot sign in.")


@command("list", "runai-adm service-account list", with_project=False)
@output_flag
@click.pass_obj
def list_accounts(options: GlobalOptions, output: str | None) -> None:
    """List service accounts with their roles."""
    with Session(options).connected() as client:
        found = sorted(client.service_accounts(), key=lambda each: each.name)
        roles = roles_of(found, client.access_rules())
    _, *others = application_columns()
    columns = [
        Column("SERVICE ACCOUNT", lambda each: each.name),
        Column("ROLES", lambda each: ", ".join(roles[each.id]) or "-", least=20),
        *others,
    ]
    show(output, columns, found, documents=document(found))


@command("get", "runai-adm service-account get nightly-sweep", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_account(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a service account with its roles and the projects in which they apply."""
    with Session(options).connected() as client:
        found = find_named(NOUN, name, client.service_accounts())
        rules = [rule for rule in client.access_rules() if rule.subject_id == found.id]
    facts = [(column.heading, column.cell(found)) for column in application_columns()]
    show_with_roles(output, found, found.name, facts, rules)


@command("create", "runai-adm service-account create nightly-sweep --project team-a", with_project=False)
@click.argument("name")
@first_role_flags("service account")
@SECRET_FILE
@click.pass_obj
def create_account(
    options: GlobalOptions, name: str, role: str | None, projects: tuple[str, ...], secret_file: Path | None
) -> None:
    """Create a service account. Its secret is shown once; a program signs in with `runai login application`."""
    with SecretFile(secret_file, "--secret-file") as written, Session(options).connected() as client:
        for project in projects:
            check_project(client, project)
        made = client.create_service_account({"name": name, "roles": [role] if role else []})
        written.keep(made.secret)
        click.echo(f"Service account {printable(made.name)} created successfully.", err=secret_file is None)
        print_login(made, written)
        change_projects(client, Subject(made.id, made.name, TYPE), projects, ())


@command("update", "runai-adm service-account update nightly-sweep --disable", with_project=False)
@click.argument("name")
@project_flags("service account")
@SWITCH
@click.pass_obj
def update_account(
    options: GlobalOptions,
    name: str,
    add_project: tuple[str, ...],
    remove_project: tuple[str, ...],
    enabled: bool | None,
) -> None:
    """Enable or disable a service account, or change its projects."""
    if not add_project and not remove_project and enabled is None:
        raise failure("command.no_change", "nothing to change", "see `runai-adm service-account update --help`")
    with Session(options).connected() as client:
        found = find_named(NOUN, name, client.service_accounts())
        change_projects(client, Subject(found.id, found.name, TYPE), add_project, remove_project)
        if enabled is not None:
            client.change_program(PATH, found.id, {"enabled": enabled})
    click.echo(f"Service account {printable(name)} updated successfully.")


@command("secret", "runai-adm service-account secret nightly-sweep --overlap 1d", with_project=False)
@click.argument("name")
@OVERLAP
@SECRET_FILE
@click.pass_obj
def secret_account(options: GlobalOptions, name: str, overlap: str, secret_file: Path | None) -> None:
    """Make a new secret for a service account. Without overlap the earlier one and its sessions end at once."""
    with SecretFile(secret_file, "--secret-file", replaces=True) as written, Session(options).connected() as client:
        found = find_named(NOUN, name, client.service_accounts())
        made = client.new_program_secret(PATH, found.id, seconds(overlap, "--overlap"))
        written.keep(made.secret)
    print_login(made, written)


@command("delete", "runai-adm service-account delete nightly-sweep", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_account(options: GlobalOptions, name: str) -> None:
    """Delete a service account. Its sessions end; its jobs are kept."""
    with Session(options).connected() as client:
        client.delete_service_account(find_named(NOUN, name, client.service_accounts()).id)
    click.echo(f"Service account {printable(name)} deleted successfully.")
