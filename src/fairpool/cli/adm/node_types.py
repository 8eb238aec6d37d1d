"""`runai-adm node-type`: groups of nodes by the label `run.ai/type`, and the projects that are limited to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

from fairpool.cli.adm.nodes import known_node, overrides_of
from fairpool.cli.failure import failure
from fairpool.cli.runai.cluster_choice import cluster_flag, nodes_of
from fairpool.cli.runai.flags import GlobalOptions, command
from fairpool.cli.runai.listing import output_flag, show
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.screen import Column, printable
from fairpool.model.node import NODE_TYPE_LABEL


@dataclass
class NodeType:
    """The nodes of one type, and the projects whose jobs are limited to it."""

    name: str
    nodes: list[str] = field(default_factory=list)
    training: list[str] = field(default_factory=list)
    interactive: list[str] = field(default_factory=list)


COLUMNS: list[Column[NodeType]] = [
    Column("TYPE", lambda each: each.name),
    Column("NODES", lambda each: ", ".join(each.nodes) or "-", spare=1),
    Column("TRAINING OF", lambda each: ", ".join(each.training) or "-", spare=2),
    Column("INTERACTIVE OF", lambda each: ", ".join(each.interactive) or "-", spare=2),
]


@command("list", "runai-adm node-type list", with_project=False)
@cluster_flag
@output_flag
@click.pass_obj
def list_types(options: GlobalOptions, cluster: str | None, output: str | None) -> None:
    """List node types with their nodes, and the projects that are limited to them."""
    session = Session(options)
    types: dict[str, NodeType] = {}

    def of(name: str) -> NodeType:
        return types.setdefault(name, NodeType(name))

    with session.connected() as client:
        for node in nodes_of(session, client, cluster)[0]:
            if NODE_TYPE_LABEL in node.labels:
                of(node.labels[NODE_TYPE_LABEL]).nodes.append(node.name)
        for project in client.projects():
            for name in project.node_types.training:
                of(name).training.append(project.name)
            for name in project.node_types.workspace:
                of(name).interactive.append(project.name)
    found = [types[name] for name in sorted(types)]
    documents = [vars(each) for each in found]
    show(output, COLUMNS, found, documents=documents)


@command("set", "runai-adm node-type set dgx-2 node-1 node-2", with_project=False)
@click.argument("name")
@click.argument("nodes", nargs=-1, required=True, shell_complete=node_names)
@cluster_flag
@click.pass_obj
def set_type(options: GlobalOptions, name: str, nodes: tuple[str, ...], cluster: str | None) -> None:
    """Set the type of nodes. A node has one type; running jobs stay."""
    if not name or name != printable(name):
        raise failure("type.name", f"{printable(name)!r} is not a valid node type", "use letters, digits and dashes")
    _label(options, nodes, cluster, name)


@command("remove", "runai-adm node-type remove node-1", with_project=False)
@click.argument("nodes", nargs=-1, required=True, shell_complete=node_names)
@cluster_flag
@click.pass_obj
def remove_type(options: GlobalOptions, nodes: tuple[str, ...], cluster: str | None) -> None:
    """Remove the type of nodes."""
    _label(options, nodes, cluster, None)


def _label(options: GlobalOptions, names: tuple[str, ...], cluster: str | None, value: str | None) -> None:
    session = Session(options)
    with session.connected() as client:
        for before in [known_node(session, client, name, cluster) for name in names]:
            overrides = overrides_of(before)
            labels = {key: each for key, each in overrides["labels"].items() if key != NODE_TYPE_LABEL}
            if value is not None:
                labels[NODE_TYPE_LABEL] = value
            client.override_node(before.name, {**overrides, "labels": labels}, before.revision, before.cluster_uuid)
            done = "removed" if value is None else f"set to {printable(value)}"
            click.echo(f"Node {printable(before.name)}: type {done}.")
