"""`runai-adm access-rule`: list, get, create, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.access import AccessRule


def rule_columns() -> list[Column[AccessRule]]:
    return [
        Column("ID", lambda each: str(each.id)),
        Column("TYPE", lambda each: each.subject_type),
        Column("SUBJECT", lambda each: each.subject_name or each.subject_id, least=12),
        Column("ROLE", lambda each: each.role),
        Column("SCOPE", lambda each: f"{each.scope_type} {each.scope_name}" if each.scope_id else "tenant"),
        Column("BY", lambda each: each.created_by or "-", spare=1),
    ]


@command("list", "runai-adm access-rule list", with_project=False)
@output_flag
@click.pass_obj
def list_rules(options: GlobalOptions, output: str | None) -> None:
    """List who has which role where, as far as you may see it."""
    with Session(options).connected() as client:
        found = client.access_rules()
    show(output, rule_columns(), found, documents=document(found))


@command("get", "runai-adm access-rule get 7", with_project=False)
@click.argument("rule_id")
@output_flag
@click.pass_obj
def get_rule(options: GlobalOptions, rule_id: str, output: str | None) -> None:
    """Show an access rule."""
    with Session(options).connected() as client:
        found = client.access_rule(rule_id)
    show_one(output, found, [(column.heading, column.cell(found)) for column in rule_columns()])


@command(
    "create", "runai-adm access-rule create --group ml-team --role l1-researcher --project team-a", with_project=False
)
@flag("--user", metavar="EMAIL", help="Assign the role to this user.")
@flag("--group", metavar="NAME", help="To this group of the identity provider.")
@flag("--application", metavar="NAME", help="To this application.")
@flag("--service-account", metavar="ID", help="To this service account.")
@flag("--role", metavar="NAME", required=True, help="The role, by name or id.")
@flag("--project", "scope_project", metavar="NAME", help="In this project.")
@flag("--department", metavar="NAME", help="In all projects of this department.")
@flag("--cluster", "scope_cluster", metavar="NAME", help="In all projects of this cluster.")
@flag("--tenant", is_flag=True, help="Everywhere.")
@click.pass_obj
def create_rule(
    options: GlobalOptions,
    user: str | None,
    group: str | None,
    application: str | None,
    service_account: str | None,
    role: str,
    scope_project: str | None,
    department: str | None,
    scope_cluster: str | None,
    tenant: bool,
) -> None:
    """Assign a role in a scope. You cannot assign a role that permits more than you may do there."""
    subjects = {"user": user, "group": group, "app": application, "service-account": service_account}
    scopes = {"project": scope_project, "department": department, "cluster": scope_cluster}
    subject = [(kind, name) for kind, name in subjects.items() if name]
    scope = [(kind, name) for kind, name in scopes.items() if name] + [("tenant", "")] * tenant
    if len(subject) != 1:
        raise failure(
            "rule.subject", "name one subject", "use one of --user, --group, --application, --service-account"
        )
    if len(scope) != 1:
        raise failure("rule.scope", "name one scope", "use one of --project, --department, --cluster, --tenant")
    body = {
        "subjectType": subject[0][0],
        "subjectId": subject[0][1],
        "roleId": role,
        "scopeType": scope[0][0],
        "scopeId": scope[0][1],
    }
    with Session(options).connected() as client:
        made = client.create_access_rule(body)
    where = f"{made.scope_type} {made.scope_name}" if made.scope_id else "the whole tenant"
    click.echo(f"{printable(subject[0][1])} has the role {made.role} in {printable(where)} (rule {made.id}).")


@command("delete", "runai-adm access-rule delete 7", with_project=False)
@click.argument("rule_id")
@click.pass_obj
def delete_rule(options: GlobalOptions, rule_id: str) -> None:
    """Take a role away. Open sessions lose it at once."""
    with Session(options).connected() as client:
        client.delete_access_rule(rule_id)
    click.echo(f"Access rule {printable(rule_id)} deleted successfully.")
