"""`runai-adm shares`: quota, fair share, allocation and lending of projects and departments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.runai.cluster_choice import cluster_flag
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpool.api.shares import Loan, Share


@command("shares", "runai-adm shares --filter kind==project,nodePool==default", with_project=False)
@flag("--filter", "conditions", metavar="CONDITIONS", help="E.g. kind==project,overQuota>=1.")
@cluster_flag
@output_flag
@click.pass_obj
def list_shares(options: GlobalOptions, conditions: str | None, cluster: str | None, output: str | None) -> None:
    """List what projects and departments are owed, hold, ask for, lend and borrow, in GPUs, in each node pool."""
    session = Session(options)
    chosen = (("filterBy", conditions), ("clusterId", cluster or session.default("cluster")))
    with session.connected() as client:
        found = client.all_shares(**{name: value for name, value in chosen if value})
    show(output, share_columns(), found, documents=document(found))


def share_columns() -> list[Column[Share]]:
    """One project or department in one pool a row."""
    return [
        Column("NAME", lambda each: each.name),
        Column("KIND", lambda each: each.kind),
        Column("POOL", lambda each: each.node_pool),
        Column("QUOTA", lambda each: _bound(each.quota)),
        Column("FAIR SHARE", lambda each: f"{each.fair_share:g}"),
        Column("LIMIT", lambda each: _bound(each.limit), wide=True),
        Column("HELD", lambda each: f"{each.allocated:g}"),
        Column("OVER", lambda each: f"{each.over_quota:g}"),
        Column("WAITING", lambda each: f"{each.waiting:g}"),
        Column("LENT", lambda each: f"{each.lent:g}", spare=1),
        Column("LENT TO", lambda each: _loans(each.lent_to), wide=True),
        Column("BORROWED FROM", lambda each: _loans(each.borrowed_from), wide=True),
    ]


def _bound(gpus: float | None) -> str:
    return "unlimited" if gpus is None else f"{gpus:g}"


def _loans(loans: Sequence[Loan]) -> str:
    return ", ".join(f"{each.name or 'others'} {each.gpus:g}" for each in loans) or "-"
