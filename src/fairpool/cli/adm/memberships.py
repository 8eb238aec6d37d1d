"""Roles of users and applications in projects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairpool.api.client import Client
from fairpool.cli.failure import Failure
from fairpool.cli.runai.session import check_project
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


def rule_text(rule: AccessRule) -> str:
    return f"{rule.role_name} in {rule.scope_type} {rule.scope_id}".rstrip()
