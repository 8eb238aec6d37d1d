"""`runai-adm pvc`: volume claims of all projects, also of deleted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai.claims import NOT_ENFORCED, claim_columns, delete_all
from fairpool.cli.runai.flags import GlobalOptions, command
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column

if TYPE_CHECKING:
    from fairpool.api.workloads import ClaimItem


@command("list", "runai-adm pvc list", with_project=False)
@output_flag
@click.pass_obj
def list_all_claims(options: GlobalOptions, output: str | None) -> None:
    """List the volume claims of all projects. Those of deleted projects are kept until they are deleted here."""
    with Session(options).connected() as client:
        found = client.claims()
    columns = claim_columns()
    project: Column[ClaimItem] = Column("PROJECT", lambda each: each.project_id)
    show(output, [columns[0], project, *columns[1:]], found, documents=document(found))
    if output in (None, "wide") and found:
        options.notice(NOT_ENFORCED)


@command("delete", "runai-adm pvc delete data -p team-a")
@click.argument("names", nargs=-1, required=True)
@click.pass_obj
def delete_any_claims(options: GlobalOptions, names: tuple[str, ...]) -> None:
    """Delete volume claims with their data, also of a deleted project: -p PROJECT as `runai-adm pvc list` shows it."""
    if not options.project:
        raise failure("claim.no_project", "the project of the claims is missing", "add -p PROJECT")
    with Session(options).connected() as client:
        delete_all(client, options.project, names)
