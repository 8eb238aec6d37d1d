"""`runai-adm user`: list, get, create, update, delete, reset-password; roles in projects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.adm.memberships import (
    Subject,
    change_projects,
    first_role_flags,
    project_flags,
    roles_of,
    show_with_roles,
)
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.access import User

EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


@command("list", "runai-adm user list", with_project=False)
@output_flag
@click.pass_obj
def list_users(options: GlobalOptions, output: str | None) -> None:
    """List users with their roles: system-wide, or of a project or department."""
    with Session(options).connected() as client:
        found = sorted(client.users(), key=lambda each: each.email)
        rules = client.access_rules()
    roles = roles_of(found, rules)
    columns: list[Column[User]] = [
        Column("USER", lambda each: each.username),
        Column("ROLES", lambda each: ", ".join(roles[each.id]) or "-", least=20),
        Column("STATE", lambda each: "disabled" if each.disabled else "enabled"),
        Column("CREATED", lambda each: ages.local(each.created_at), spare=1),
        Column("ID", lambda each: each.id, wide=True),
    ]
    documents = document(found)
    show(output, columns, found, documents=documents)


@command("get", "runai-adm user get ann@example.com", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_user(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a user with their roles and the projects in which they apply."""
    with Session(options).connected() as client:
        found = _user(client, name)
        rules = [rule for rule in client.access_rules() if rule.subject_id == found.id]
    facts = [
        ("USER", found.username),
        ("ID", found.id),
        ("STATE", "disabled" if found.disabled else "enabled"),
        ("CREATED", ages.local(found.created_at)),
    ]
    show_with_roles(output, found, found.username, facts, rules)


@command("create", "runai-adm user create ann@example.com --project team-a", with_project=False)
@click.argument("email")
@first_role_flags("user")
@click.pass_obj
def create_user(options: GlobalOptions, email: str, role: str | None, projects: tuple[str, ...]) -> None:
    """Create a user. The password is shown once and must be changed at the first login."""
    if not EMAIL.fullmatch(email):
        raise failure("user.email", f"{email!r} is not a valid email address", "write NAME@HOST")
    with Session(options).connected() as client:
        for project in projects:
            check_project(client, project)
        made = client.create_user({"email": email, "roles": [role] if role else []})
        click.echo(f"User {printable(made.username)} created successfully.")
        click.echo(f"Temporary password, shown only once: {made.temp_password}")
        change_projects(client, Subject(made.id, made.username), projects, ())
        for project in projects:
            click.echo(f"Role researcher granted in project {printable(project)}.")
    if not role and not projects:
        fix = f"runai-adm user update {made.username} --add-project PROJECT"
        options.notice(f"This user has no role yet and cannot do anything. To grant one: {fix}")


@command("update", "runai-adm user update ann@example.com --add-project team-b", with_project=False)
@click.argument("name")
@project_flags("user")
@flag("--disable/--enable", "disabled", default=None, help="A disabled user cannot sign in; their sessions end.")
@click.pass_obj
def update_user(
    options: GlobalOptions,
    name: str,
    add_project: tuple[str, ...],
    remove_project: tuple[str, ...],
    disabled: bool | None,
) -> None:
    """Add a user to projects, remove them from projects, or disable the account."""
    if not add_project and not remove_project and disabled is None:
        raise failure("command.no_change", "nothing to change", "see `runai-adm user update --help`")
    with Session(options).connected() as client:
        found = _user(client, name)
        change_projects(client, Subject(found.id, name), add_project, remove_project)
        if disabled is not None:
            client.disable_user(found.id, disabled)
    click.echo(f"User {printable(name)} updated successfully.")


@command("delete", "runai-adm user delete ann@example.com", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_user(options: GlobalOptions, name: str) -> None:
    """Delete a user. Their sessions end; their jobs are kept."""
    with Session(options).connected() as client:
        client.delete_user(_user(client, name).id)
    click.echo(f"User {printable(name)} deleted successfully.")


@command("reset-password", "runai-adm user reset-password ann@example.com", with_project=False)
@click.argument("name")
@click.pass_obj
def reset_password(options: GlobalOptions, name: str) -> None:
    """Set a new password. It is shown once and must be changed at the next login. All sessions of the user end."""
    with Session(options).connected() as client:
        password = client.reset_password(_user(client, name).id)
    click.echo(f"Temporary password of {printable(name)}, shown only once: {password}")


def _user(client: Client, name: str) -> User:
    found = {each.email: each for each in client.users()}
    user = found.get(name.lower()) or next((each for each in found.values() if each.id == name), None)
    if user is None:
        raise failure("user.unknown", f"there is no user {name}", hint=meant(name, found))
    return user
