"""`runai-adm node`: labels, taints, drain and cordon.

A node comes from its cluster; what administrators set on it is kept beside what the cluster reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai.cluster_choice import cluster_flag, nodes_of, only_one
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.nodes import check_known, draw_gpus, node_facts, node_list_columns
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.screen import printable
from fairpool.model.node import DRAIN

if TYPE_CHECKING:
    from fairpool.api.nodes import NodeAnswer

EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

Overrides = dict[str, Any]
"""The cordon, taints and labels that administrators set on a node; always sent as a whole."""
Change = Callable[[Overrides], Overrides]


@command("list", "runai-adm node list -o wide", with_project=False)
@cluster_flag
@output_flag
@click.pass_obj
def list_nodes(options: GlobalOptions, cluster: str | None, output: str | None) -> None:
    """List nodes with their free resources."""
    session = Session(options)
    with session.connected() as client:
        found, choice = nodes_of(session, client, cluster)
    documents = document(found)
    show(output, node_list_columns(choice), found, documents=documents)


@command("get", "runai-adm node get dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@cluster_flag
@output_flag
@click.pass_obj
def get_node(options: GlobalOptions, name: str, cluster: str | None, output: str | None) -> None:
    """Show a node with its labels, taints and GPUs."""
    session = Session(options)
    with session.connected() as client:
        found = known_node(session, client, name, cluster)
    show_one(output, found, node_facts(found), lambda screen: draw_gpus(screen, found))


@command("update", "runai-adm node update dgx1-1 --label run.ai/type=dgx-2", with_project=False)
@click.argument("name", shell_complete=node_names)
@flag("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Set a label; KEY- removes it.")
@flag("--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", help="Add a taint; KEY- removes it.")
@cluster_flag
@click.pass_obj
def update_node(
    options: GlobalOptions, name: str, labels: tuple[str, ...], taints: tuple[str, ...], cluster: str | None
) -> None:
    """Change the labels and taints that administrators set on a node."""
    if not labels and not taints:
        raise failure("command.no_change", "nothing to change", "add --label or --taint")

    def change(overrides: Overrides) -> Overrides:
        kept = dict(overrides["labels"])
        for text in labels:
            key, equals, value = text.partition("=")
            if equals:
                kept[key] = value
            elif text.endswith("-"):
                kept.pop(text[:-1], None)
            else:
                raise failure(
                    "flag.label",
                    f"--label {text!r} is not KEY=VALUE",
                    "write KEY=VALUE to set it, or KEY- to remove it",
                )
        changed = {**overrides, "labels": kept}
        for text in taints:
            changed = _tainted(changed, text)
        return changed

    _mark(options, name, cluster, change, "updated")


@command("drain", "runai-adm node drain dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@cluster_flag
@click.pass_obj
def drain(options: GlobalOptions, name: str, cluster: str | None) -> None:
    """Drain a node: no new pods are scheduled on it, and its running pods are stopped.

    Training jobs are queued again. Interactive jobs are suspended until you resume them.
    """
    _mark(options, name, cluster, lambda overrides: _tainted(overrides, str(DRAIN)), "is being drained")


@command("undrain", "runai-adm node undrain dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@cluster_flag
@click.pass_obj
def undrain(options: GlobalOptions, name: str, cluster: str | None) -> None:
    """Return a drained node to service."""
    _mark(options, name, cluster, lambda overrides: _tainted(overrides, f"{DRAIN.key}-"), "is no longer drained")


@command("cordon", "runai-adm node cordon dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@cluster_flag
@click.pass_obj
def cordon(options: GlobalOptions, name: str, cluster: str | None) -> None:
    """Stop scheduling new pods on a node. Running pods are not affected."""
    _mark(options, name, cluster, lambda overrides: {**overrides, "cordoned": True}, "is cordoned")


@command("uncordon", "runai-adm node uncordon dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@cluster_flag
@click.pass_obj
def uncordon(options: GlobalOptions, name: str, cluster: str | None) -> None:
    """Schedule pods on a cordoned node again."""
    _mark(options, name, cluster, lambda overrides: {**overrides, "cordoned": False}, "is no longer cordoned")


def refused_verb(verb: str) -> click.Command:
    """`create` and `delete` of nodes, which only their cluster can do."""

    @command(verb, "runai-adm node list", with_project=False)
    @click.argument("name", required=False)
    def refuse(name: str | None) -> None:
        """Nodes are added and removed by their cluster. See drain and cordon."""
        what = f"nodes cannot be {verb}d here; their cluster adds and removes them"
        raise failure("node.not_ours", what, "to take a node out of service: runai-adm node drain NAME")

    return refuse


def known_node(session: Session, client: Client, name: str, cluster: str | None) -> NodeAnswer:
    """The node of this name, in the chosen cluster if several have one."""
    found, choice = nodes_of(session, client, cluster)
    check_known([name], found)
    return only_one(name, [each for each in found if each.name == name], choice)


def _mark(options: GlobalOptions, name: str, cluster: str | None, change: Change, done: str) -> None:
    session = Session(options)
    with session.connected() as client:
        before = known_node(session, client, name, cluster)
        client.override_node(name, change(overrides_of(before)), before.revision, before.cluster_uuid)
    click.echo(f"Node {printable(name)} {done}.")


def overrides_of(node: NodeAnswer) -> Overrides:
    """What administrators have set on a node, every field of it."""
    said: Overrides = document(node.overrides)
    return {"cordoned": False, "taints": [], "labels": {}} | said


def _tainted(overrides: Overrides, text: str) -> Overrides:
    taints = overrides["taints"]
    if text.endswith("-"):
        gone = text[:-1].partition("=")[0].partition(":")[0]
        return {**overrides, "taints": [each for each in taints if each["key"] != gone]}
    pair, colon, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not colon or effect not in EFFECTS or not key:
        raise failure(
            "flag.taint",
            f"--taint {text!r} is not a valid taint",
            f"write KEY=VALUE:EFFECT; EFFECT is one of {', '.join(EFFECTS)}",
        )
    taint = {"key": key, "value": value, "effect": effect}
    others = [each for each in taints if (each["key"], each["effect"]) != (key, effect)]
    return {**overrides, "taints": [*others, taint]}
