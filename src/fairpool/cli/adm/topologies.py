"""`runai-adm topology`: list, get, create, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairpool.api.limits import LABEL_NAME_MAX
from fairpool.api.record import document
from fairpool.cli.adm.names import check_name, find_named
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.nodes import NetworkTopology


def topology_columns() -> list[Column[NetworkTopology]]:
    return [
        Column("NAME", lambda each: each.name),
        Column("LEVELS", lambda each: " > ".join(each.levels)),
        Column("NODES", lambda each: ", ".join(each.nodes) or "-", spare=1),
    ]


@command("list", "runai-adm topology list", with_project=False)
@output_flag
@click.pass_obj
def list_topologies(options: GlobalOptions, output: str | None) -> None:
    """List network topologies with the nodes that have their labels."""
    with Session(options).connected() as client:
        found = sorted(client.topologies(), key=lambda each: each.name)
    show(output, topology_columns(), found, documents=document(found))


@command("get", "runai-adm topology get fabric", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_topology(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a network topology."""
    with Session(options).connected() as client:
        found = find_named("network topology", name, client.topologies())
    show_one(output, found, [(column.heading, column.cell(found)) for column in topology_columns()])


@command(
    "create",
    "runai-adm topology create fabric --level example.com/zone --level example.com/rack",
    with_project=False,
)
@click.argument("name")
@flag(
    "--level",
    "levels",
    multiple=True,
    required=True,
    metavar="LABEL",
    help="A node label, from the widest level to the narrowest; repeatable.",
)
@click.pass_obj
def create_topology(options: GlobalOptions, name: str, levels: tuple[str, ...]) -> None:
    """Create a network topology from node labels. Jobs name its levels with --required-pod-topology-key."""
    check_name(name, LABEL_NAME_MAX)
    with Session(options).connected() as client:
        made = client.create_topology({"name": name, "levels": list(levels)})
    click.echo(f"Network topology {printable(name)} created successfully.")
    if not made.nodes:
        options.warn(f"Note: no node has all of its labels yet: runai-adm node update NODE --label {levels[0]}=VALUE")


@command("delete", "runai-adm topology delete fabric", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_topology(options: GlobalOptions, name: str) -> None:
    """Delete a network topology that no job uses."""
    with Session(options).connected() as client:
        find_named("network topology", name, client.topologies())
        client.delete_topology(name)
    click.echo(f"Network topology {printable(name)} deleted successfully.")
