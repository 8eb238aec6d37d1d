"""`runai-adm role`: list, get, create, update, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.api.roles import ResourceType, Verb, role_key
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, screen_here, show, show_document
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.authorization import Role

PERMISSION = "RESOURCE:ACTION[,ACTION…]"


@command("list", "runai-adm role list", with_project=False)
@output_flag
@click.pass_obj
def list_roles(options: GlobalOptions, output: str | None) -> None:
    """List roles, the built-in ones first."""
    with Session(options).connected() as client:
        found = client.roles()
    columns: list[Column[Role]] = [
        Column("ROLE", lambda each: each.key),
        Column("ID", lambda each: str(each.id)),
        Column("CUSTOM", lambda each: "yes" if each.custom else "no"),
        Column("STATE", _state),
        Column("DESCRIPTION", lambda each: each.description, spare=1),
    ]
    show(output, columns, found, documents=document(found))


@command("get", "runai-adm role get l1-researcher", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_role(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a role and what it permits."""
    with Session(options).connected() as client:
        found = _role(client, name)
    if output in ("json", "yaml"):
        show_document(output, document(found))
        return
    if output == "name":
        click.echo(printable(found.key))
        return
    screen = screen_here()
    facts = [("ROLE", found.key), ("NAME", found.name), ("STATE", _state(found)), ("DESCRIPTION", found.description)]
    screen.facts(facts, aligned=False)
    screen.facts([(each.resource_type, ", ".join(each.actions)) for each in found.permissions], aligned=False)
    screen.show()


@command("create", 'runai-adm role create "Template editor" --permission templates:read,update', with_project=False)
@click.argument("name")
@flag("--permission", "permissions", multiple=True, metavar=PERMISSION, help="What it permits; repeatable.")
@flag("--copy", metavar="ROLE", help="Begin with the permissions of this role.")
@flag("--description", default="", metavar="TEXT", help="What it is for.")
@click.pass_obj
def create_role(
    options: GlobalOptions, name: str, permissions: tuple[str, ...], copy: str | None, description: str
) -> None:
    """Create a custom role. It cannot permit more than you may do."""
    if not permissions and not copy:
        raise failure("command.incomplete", "the permissions are missing", "use --permission or --copy")
    with Session(options).connected() as client:
        grid = _grid(_role(client, copy).permissions if copy else ())
        _add(grid, permissions)
        body = {"name": name, "description": description, "permissions": _wire(grid)}
        made = client.create_role(body)
    click.echo(f"Role {printable(made.name)} created successfully.")


@command("update", 'runai-adm role update "Template editor" --permission templates:read', with_project=False)
@click.argument("name")
@flag("--permission", "permissions", multiple=True, metavar=PERMISSION, help="Replaces all permissions; repeatable.")
@flag("--description", default=None, metavar="TEXT", help="What it is for.")
@flag("--enable/--disable", "enabled", default=None, help="A disabled role permits nothing.")
@click.pass_obj
def update_role(
    options: GlobalOptions, name: str, permissions: tuple[str, ...], description: str | None, enabled: bool | None
) -> None:
    """Change a custom role. It holds at once for those who have it."""
    body: dict[str, Any] = {"description": description, "enabled": enabled}
    if permissions:
        grid: dict[str, list[str]] = {}
        _add(grid, permissions)
        body["permissions"] = _wire(grid)
    said = {key: value for key, value in body.items() if value is not None}
    if not said:
        raise failure("command.no_change", "nothing to change", "see `runai-adm role update --help`")
    with Session(options).connected() as client:
        client.update_role(_role(client, name).id, said)
    click.echo(f"Role {printable(name)} updated successfully.")


@command("delete", 'runai-adm role delete "Template editor"', with_project=False)
@click.argument("name")
@click.pass_obj
def delete_role(options: GlobalOptions, name: str) -> None:
    """Delete a custom role that no access rule assigns."""
    with Session(options).connected() as client:
        client.delete_role(_role(client, name).id)
    click.echo(f"Role {printable(name)} deleted successfully.")


def _state(role: Role) -> str:
    return "enabled" if role.enabled else "disabled"


def _role(client: Client, name: str) -> Role:
    found = {role_key(each.key): each for each in client.roles()}
    named = {role_key(each.name): each for each in found.values()} | {str(each.id): each for each in found.values()}
    role = found.get(role_key(name)) or named.get(role_key(name))
    if role is None:
        raise failure("role.unknown", f"there is no role {name}", hint=meant(name, found))
    return role


def _grid(rows: Iterable[Any]) -> dict[str, list[str]]:
    return {str(row.resource_type): [str(each) for each in row.actions] for row in rows}


def _add(grid: dict[str, list[str]], permissions: Iterable[str]) -> None:
    known = {each.value for each in ResourceType}
    verbs = {each.value for each in Verb}
    for text in permissions:
        resource, _, actions = text.partition(":")
        given = [each.strip() for each in actions.split(",") if each.strip()]
        if resource not in known:
            raise failure("role.resource", f"there is no resource {resource!r}", hint=meant(resource, known))
        if not given or set(given) - verbs:
            fix = f"write {resource}:read,update with any of create, read, update, delete"
            raise failure("role.action", f"{text!r} does not name actions", fix)
        grid[resource] = list(dict.fromkeys([*grid.get(resource, []), *given]))


def _wire(grid: dict[str, list[str]]) -> list[dict[str, Any]]:
    return [{"resourceType": resource, "actions": actions} for resource, actions in grid.items()]
