"""`runai list pvc`: volume claims of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column

if TYPE_CHECKING:
    from fairpool.api.workloads import ClaimItem


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
    columns: list[Column[ClaimItem]] = [
        Column("NAME", lambda each: each.name),
        Column("SIZE", lambda each: each.size or "-"),
        Column("AGE", lambda each: ages.age(each.created_at)),
        Column("USER", lambda each: each.created_by or "-", spare=1),
    ]
    documents = document(found)
    show(output, columns, found, documents=documents, title=f"Showing volume claims of project {project}")
    if not found and output in (None, "wide"):
        example = "runai submit NAME -i IMAGE --new-pvc claimname=data,size=10Gi,path=/data"
        options.notice(f"There are no volume claims in project {project}. To create one: {example}")
