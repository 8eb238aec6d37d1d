"""Roles of users and applications in projects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import Failure
from fairpool.cli.runai.flags import flag, project_names
from fairpool.cli.runai.listing import screen_here, show_document
from fairpool.cli.runai.role_scope import role_in_scope
from fairpool.cli.runai.session import check_project
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.access import AccessRule


@dataclass(frozen=True, slots=True)
class Subject:
    """A user or an application."""

    id: str
    name: str
    type: str = "user"


def change_projects(client: Client, subject: Subject, add: Sequence[str], remove: Sequence[str]) -> None:
    """Make it a researcher in these projects, and take its roles in those; nothing is done if one of them is wrong."""
    rules = [rule for rule in client.access_rules() if rule.subject_id == subject.id and rule.scope_type == "project"]
    strange = [project for project in remove if project not in {rule.scope_id for rule in rules}]
    if strange:
        what = "{} has no role in project {}"
        raise Failure([Problem("rule.unknown", what.format(subject.name, project), "") for project in strange])
    for project in add:
        check_project(client, project)
    for project in add:
        client.create_access_rule(
            {"subjectId": subject.id, "subjectType": subject.type, "roleId": "researcher", "scopeId": project}
        )
    for rule in rules:
        if rule.scope_id in remove:
            client.delete_access_rule(rule.id)


def first_role_flags(noun: str) -> Callable[[Any], Any]:
    """`--role` and `--project`, for one that is created."""
    projects = _project_flag("--project", "projects", text=f"Make the {noun} a researcher in this project; repeatable.")
    return lambda function: flag("--role", metavar="NAME", help="Grant a system-wide role.")(projects(function))


def project_flags(noun: str) -> Callable[[Any], Any]:
    """`--add-project` and `--remove-project`."""
    add = _project_flag("--add-project", text=f"Make the {noun} a researcher in this project; repeatable.")
    leave = f"Remove the {noun} from this project; repeatable."
    remove = flag("--remove-project", multiple=True, metavar="NAME", help=leave)
    return lambda function: add(remove(function))


def _project_flag(*names: str, text: str) -> Callable[[Any], Any]:
    return flag(*names, multiple=True, metavar="NAME", shell_complete=project_names, help=text)


def show_with_roles(
    output: str | None, found: Any, name: str, facts: Sequence[tuple[str, str]], rules: Sequence[AccessRule]
) -> None:
    """A user or an application, with the projects in which its roles apply."""
    if output in ("json", "yaml"):
        show_document(output, {**document(found), "accessRules": document(list(rules))})
    elif output == "name":
        click.echo(printable(name))
    else:
        screen = screen_here()
        screen.facts(facts, aligned=False)
        screen.facts([("ROLE", role_in_scope(rule)) for rule in rules], aligned=False)
        screen.show()


def roles_of(found: Sequence[Any], rules: Sequence[AccessRule]) -> dict[str, list[str]]:
    """For each id of users or applications, its roles: system-wide, then those of departments and projects."""
    roles: dict[str, list[str]] = {each.id: list(each.roles) for each in found}
    for rule in sorted(rules, key=lambda each: (each.role, each.scope_name)):
        if rule.subject_id in roles and rule.scope_type != "tenant":
            roles[rule.subject_id].append(role_in_scope(rule))
    return roles
