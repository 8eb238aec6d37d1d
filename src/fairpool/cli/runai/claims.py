"""`runai pvc`: volume claims of a project, listed and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.client import Refused
from fairpool.api.record import document
from fairpool.cli.failure import Failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column, printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.workloads import ClaimItem

ACCESS = {"rwo": "ReadWriteOnce", "rom": "ReadOnlyMany", "rwm": "ReadWriteMany"}
NOT_ENFORCED = "Sizes are recorded, not enforced: a claim can hold more than its size."


@command("pvc", "runai list pvc -p team-a")
@output_flag
@click.pass_obj
def list_claims(options: GlobalOptions, output: str | None) -> None:
    """List the volume claims of a project. Create one with `runai submit --new-pvc`."""
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        check_project(client, project)
        found = client.claims(project)
    title = f"Showing volume claims of project {project}"
    show(output, claim_columns(), found, documents=document(found), title=title)
    if not found and output in (None, "wide"):
        example = "runai submit NAME -i IMAGE --new-pvc claimname=data,size=10Gi,path=/data"
        options.notice(f"There are no volume claims in project {project}. To create one: {example}")
    elif output in (None, "wide"):
        options.notice(NOT_ENFORCED)


def claim_columns() -> list[Column[ClaimItem]]:
    return [
        Column("NAME", lambda each: each.name),
        Column("SIZE", lambda each: each.size or "-"),
        Column("ACCESS", lambda each: ACCESS.get(each.access_mode, each.access_mode)),
        Column("LIFETIME", lifetime),
        Column("USED BY", lambda each: ", ".join(each.used_by) or "-", spare=2),
        Column("AGE", lambda each: ages.age(each.created_at)),
        Column("USER", lambda each: each.created_by or "-", spare=1),
    ]


def lifetime(claim: ClaimItem) -> str:
    """Whether it is kept."""
    if claim.phase == "Deleting":
        return "deleting"
    if claim.ephemeral:
        return f"until {claim.workload or 'its job'} is deleted"
    return "project deleted" if claim.project_deleted else "kept"


@command("delete", "runai pvc delete data -p team-a")
@click.argument("names", nargs=-1, required=True)
@click.pass_obj
def delete_claims(options: GlobalOptions, names: tuple[str, ...]) -> None:
    """Delete volume claims with all their data. Refused while a job that has not completed mounts one."""
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        check_project(client, project)
        delete_all(client, project, names)


def delete_all(client: Client, project: str, names: tuple[str, ...]) -> None:
    """Delete claims one after the other; a failure, if one of them was not."""
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        try:
            client.delete_claim(project, name)
            click.echo(f"Claim {printable(name)} deleted with its data.")
        except Refused as refusal:
            problems += refusal.problems
    if problems:
        raise Failure(problems)
