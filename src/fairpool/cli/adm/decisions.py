"""`runai-adm decisions`: what the schedulers decided."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.watching import redraw, watch_flags
from fairpool.cli.screen import Column, Screen
from fairpool.model.decision_record import DecisionKind
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.decisions import Decision


WHY = 26
"""How narrow the reason may become: with time, kind, project and job it fits on 80 columns."""


@command("decisions", "runai-adm decisions --kind taken-back --since 2h", with_project=False)
@flag("--kind", type=click.Choice([each.value for each in DecisionKind]), help="Only decisions of this kind.")
@flag("--project", "-p", "project", metavar="NAME", help="Only about jobs of this project.")
@flag("--since", metavar="DURATION", help="Only of the last 10m, 2h or 3d.")
@flag("--filter", "conditions", metavar="CONDITIONS", help="E.g. workloadName=^train-,departmentId==research.")
@flag("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Number of decisions.")
@watch_flags
@output_flag
@click.pass_obj
def list_decisions(
    options: GlobalOptions,
    /,
    output: str | None,
    limit: int,
    watch: bool,
    interval: float,
    rounds: int | None,
    **chosen: str | None,
) -> None:
    """List what the scheduler decided, newest first: what started, what was lent, taken back and moved, and why."""
    query = _filter(**chosen)

    def found(client: Client) -> list[Decision]:
        return client.decisions(limit=limit, **({"filterBy": query} if query else {}))

    with Session(options).connected() as client:
        if watch:
            redraw(lambda screen: _draw(screen, found(client)), interval, rounds)
            return
        listed = found(client)
    show(output, decision_columns(), listed, documents=document(listed))


def _draw(screen: Screen, listed: list[Decision]) -> None:
    screen.draw([column for column in decision_columns() if not column.wide], listed)


def _filter(kind: str | None, project: str | None, since: str | None, conditions: str | None) -> str:
    found = [conditions] if conditions else []
    found += [f"kind=={kind}"] if kind else []
    found += [f"projectId=={project}"] if project else []
    if since:
        seconds = ages.seconds(since)
        if isinstance(seconds, Problem):
            raise failure(seconds.code, seconds.what, seconds.fix)
        found.append(f"at>={(ages.now() - timedelta(seconds=seconds)).isoformat()}")
    return ",".join(found)


def decision_columns() -> list[Column[Decision]]:
    """One decision a row."""
    return [
        Column("ID", lambda each: each.id, wide=True),
        Column("TIME", lambda each: ages.local(each.at)[len("2026-") :]),
        Column("DECISION", lambda each: each.kind),
        Column("PROJECT", lambda each: each.project_id, least=8),
        Column("JOB", lambda each: each.workload_name, least=12),
        Column("GPUS", lambda each: f"{each.gpus:g}", spare=2),
        Column("LENT", lambda each: f"{each.lent_gpus:g}", wide=True),
        Column("NODES", lambda each: ",".join(each.nodes) or "-", wide=True),
        Column("AT", lambda each: each.at, wide=True),
        Column("WHY", lambda each: each.message, least=WHY),
    ]
