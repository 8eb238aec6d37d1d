"""Nodes and node pools, by the administrator: marks, roles, drain and cordon; pools with their labels.

A node comes from its cluster; what an administrator says about it are marks, kept beside what the cluster reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.failure import failure, meant
from fairpool.cli.runai.listing import Column, facts, output_flag, screen_here, show, show_document
from fairpool.cli.runai.nodes import columns, draw_gpus, node_facts, unknown_node
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.screen import printable

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.nodes import NodeAnswer, NodeOverridesRequest, NodePoolAnswer

DRAIN_KEY, DRAIN_VALUE, DRAIN_EFFECT = "runai", "drain", "NoExecute"
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
STRATEGIES = ("binpack", "spread", "fragmentation")

Change = Callable[["NodeOverridesRequest"], "NodeOverridesRequest"]


# --- nodes -------------------------------------------------------------------------------------------------------


@click.command("list", cls=Leaf, short_help="List nodes.", example="runai-adm node list -o wide", with_project=False)
@output_flag
@click.pass_obj
def list_nodes(here: Here, output: str | None) -> None:
    """List nodes with their free resources."""
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        found = sorted(client.nodes(), key=lambda each: each.name)
    documents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]
    show(output, columns(), found, documents=documents)


@click.command("get", cls=Leaf, short_help="Show a node.", example="runai-adm node get dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@output_flag
@click.pass_obj
def get_node(here: Here, name: str, output: str | None) -> None:
    """Show a node with its labels, taints and GPUs."""
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        found = known_node(client, name)
    if output in ("json", "yaml"):
        show_document(output, found.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif output == "name":
        click.echo(printable(found.name))
    else:
        screen = screen_here()
        facts(screen, node_facts(found))
        draw_gpus(screen, found)
        screen.show()


@click.command(
    "update",
    cls=Leaf,
    short_help="Change the labels and taints of a node.",
    example="runai-adm node update dgx1-1 --label run.ai/type=dgx-2",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@flag("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Set a label; KEY- removes it.")
@flag("--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", help="Add a taint; KEY- removes it.")
@click.pass_obj
def update_node(here: Here, name: str, labels: tuple[str, ...], taints: tuple[str, ...]) -> None:
    """Change the labels and taints that administrators set on a node."""
    if not labels and not taints:
        raise failure("command.no_change", "nothing to change", "add --label or --taint")

    def change(marks: NodeOverridesRequest) -> NodeOverridesRequest:
        kept = dict(marks.labels)
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
        marked = marks.model_copy(update={"labels": kept})
        for text in taints:
            marked = _tainted(marked, text)
        return marked

    _mark(here, name, change, "updated")


@click.command(
    "drain",
    cls=Leaf,
    short_help="Drain a node for maintenance.",
    example="runai-adm node drain dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def drain(here: Here, name: str) -> None:
    """Drain a node: no new pods are scheduled on it, and its running pods are stopped.

    Training jobs are queued again. Interactive jobs are suspended until you resume them.
    """
    taint = f"{DRAIN_KEY}={DRAIN_VALUE}:{DRAIN_EFFECT}"
    _mark(here, name, lambda marks: _tainted(marks, taint), "is being drained")


@click.command(
    "undrain",
    cls=Leaf,
    short_help="Return a drained node to service.",
    example="runai-adm node undrain dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def undrain(here: Here, name: str) -> None:
    """Return a drained node to service."""
    _mark(here, name, lambda marks: _tainted(marks, f"{DRAIN_KEY}-"), "is no longer drained")


@click.command(
    "cordon",
    cls=Leaf,
    short_help="Stop scheduling new pods on a node.",
    example="runai-adm node cordon dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def cordon(here: Here, name: str) -> None:
    """Stop scheduling new pods on a node. Running pods are not affected."""
    _mark(here, name, lambda marks: marks.model_copy(update={"cordoned": True}), "is cordoned")


@click.command(
    "uncordon",
    cls=Leaf,
    short_help="Schedule pods on a cordoned node again.",
    example="runai-adm node uncordon dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def uncordon(here: Here, name: str) -> None:
    """Schedule pods on a cordoned node again."""
    _mark(here, name, lambda marks: marks.model_copy(update={"cordoned": False}), "is no longer cordoned")


def refused_verb(verb: str) -> click.Command:
    """`create` and `delete` of nodes, which nobody can do here."""

    @click.command(
        verb,
        cls=Leaf,
        short_help="Nodes are added and removed by their cluster.",
        example="runai-adm node list",
        with_project=False,
    )
    @click.argument("name", required=False)
    def refuse(name: str | None) -> None:
        """Nodes are added and removed by their cluster. See drain and cordon."""
        what = f"nodes cannot be {verb}d here; their cluster adds and removes them"
        raise failure("node.not_ours", what, "to take a node out of service: runai-adm node drain NAME")

    return refuse


def known_node(client: Client, name: str) -> NodeAnswer:
    found = {each.name: each for each in client.nodes()}
    if name not in found:
        raise unknown_node([name], sorted(found))
    return found[name]


def _mark(here: Here, name: str, change: Change, done: str) -> None:
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        before = known_node(client, name)
        client.override_node(name, complete(change(before.marks)), before.revision)
    click.echo(f"Node {printable(name)} {done}.")


def complete(marks: NodeOverridesRequest) -> NodeOverridesRequest:
    """With every field said: marks are sent whole."""
    return type(marks).model_validate(marks.model_dump())


def _tainted(marks: NodeOverridesRequest, text: str) -> NodeOverridesRequest:
    from fairpool.api.nodes import TaintWire

    if text.endswith("-"):
        gone = text[:-1].partition("=")[0].partition(":")[0]
        return marks.model_copy(update={"taints": [each for each in marks.taints if each.key != gone]})
    pair, colon, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not colon or effect not in EFFECTS or not key:
        raise failure(
            "flag.taint",
            f"--taint {text!r} is not a valid taint",
            f"write KEY=VALUE:EFFECT; EFFECT is one of {', '.join(EFFECTS)}",
        )
    taint = TaintWire(key=key, value=value, effect=effect)
    others = [each for each in marks.taints if (each.key, each.effect) != (key, effect)]
    return marks.model_copy(update={"taints": [*others, taint]})


# --- pools -------------------------------------------------------------------------------------------------------


@click.command("list", cls=Leaf, short_help="List node pools.", example="runai-adm node-pool list", with_project=False)
@output_flag
@click.pass_obj
def list_pools(here: Here, output: str | None) -> None:
    """List node pools with their nodes."""
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        found = sorted(client.node_pools(), key=lambda each: each.name)
    documents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]
    show(output, pool_columns(), found, documents=documents)


def pool_columns() -> list[Column[NodePoolAnswer]]:
    return [
        Column("NAME", lambda each: each.name),
        Column("STATUS", lambda each: each.phase),
        Column("LABEL", lambda each: f"{each.label_key}={each.label_value}" if each.label_key else "-"),
        Column("GPU PLACEMENT", lambda each: each.placement_strategy.gpu),
        Column("CPU PLACEMENT", lambda each: each.placement_strategy.cpu),
        Column("NODES", lambda each: ", ".join(each.nodes) or "-", spare=1),
    ]


@click.command(
    "get", cls=Leaf, short_help="Show a node pool.", example="runai-adm node-pool get a100", with_project=False
)
@click.argument("name")
@output_flag
@click.pass_obj
def get_pool(here: Here, name: str, output: str | None) -> None:
    """Show a node pool."""
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        found = _pool(client, name)
    if output in ("json", "yaml"):
        show_document(output, found.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif output == "name":
        click.echo(printable(found.name))
    else:
        screen = screen_here()
        facts(screen, [(column.heading, column.cell(found)) for column in pool_columns()])
        screen.show()


def _placement_flags(command: Any) -> Any:
    cpu = flag("--cpu-placement", type=click.Choice(STRATEGIES[:2]), help="The same for pods without GPUs.")
    return flag(
        "--gpu-placement",
        type=click.Choice(STRATEGIES),
        help="Fill nodes one by one, spread pods over them, or minimize fragmentation.",
    )(cpu(command))


@click.command(
    "create",
    cls=Leaf,
    short_help="Create a node pool.",
    example="runai-adm node-pool create a100 --label run.ai/type=a100",
    with_project=False,
)
@click.argument("name")
@flag("--label", required=True, metavar="KEY=VALUE", help="Label that selects the pool's nodes.")
@_placement_flags
@click.pass_obj
def create_pool(here: Here, name: str, label: str, gpu_placement: str | None, cpu_placement: str | None) -> None:
    """Create a node pool from the nodes that have a label."""
    from fairpool.api.nodes import NodePoolRequest, PlacementStrategy
    from fairpool.cli.adm.projects import checked
    from fairpool.cli.runai.session import Session

    key, value = _label(label)
    strategy = PlacementStrategy(gpu=gpu_placement or "binpack", cpu=cpu_placement or "binpack")
    said = {"name": name, "label_key": key, "label_value": value, "placement_strategy": strategy}
    request = checked(NodePoolRequest, said)
    with Session(here).connected() as client:
        client.create_node_pool(request)
    click.echo(f"Node pool {printable(name)} created successfully.")


@click.command(
    "update",
    cls=Leaf,
    short_help="Change a node pool.",
    example="runai-adm node-pool update a100 --gpu-placement spread",
    with_project=False,
)
@click.argument("name")
@flag("--label", metavar="KEY=VALUE", help="Label that selects the pool's nodes.")
@_placement_flags
@click.pass_obj
def update_pool(here: Here, name: str, label: str | None, gpu_placement: str | None, cpu_placement: str | None) -> None:
    """Change a node pool. Settings that you do not name keep their values."""
    from fairpool.api.nodes import NodePoolUpdate, PlacementStrategy
    from fairpool.cli.runai.session import Session

    said: dict[str, Any] = {}
    if label is not None:
        said["label_key"], said["label_value"] = _label(label)
    with Session(here).connected() as client:
        before = _pool(client, name)
        if gpu_placement or cpu_placement:
            known = before.placement_strategy
            said["placement_strategy"] = PlacementStrategy(
                gpu=gpu_placement or known.gpu, cpu=cpu_placement or known.cpu
            )
        if not said:
            raise failure("command.no_change", "nothing to change", "see `runai-adm node-pool update --help`")
        client.update_node_pool(name, NodePoolUpdate(**said), before.revision)
    click.echo(f"Node pool {printable(name)} updated successfully.")


@click.command(
    "delete",
    cls=Leaf,
    short_help="Delete a node pool.",
    example="runai-adm node-pool delete a100",
    with_project=False,
)
@click.argument("name")
@click.pass_obj
def delete_pool(here: Here, name: str) -> None:
    """Delete a node pool in which no project or department has a quota. Its nodes move to the default pool."""
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        _pool(client, name)
        client.delete_node_pool(name)
    click.echo(f"Node pool {printable(name)} deleted successfully.")


def _pool(client: Client, name: str) -> NodePoolAnswer:
    found = {each.name: each for each in client.node_pools()}
    if name not in found:
        raise failure("pool.unknown", f"there is no node pool {name}", hint=meant(name, found))
    return found[name]


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise failure("flag.label", f"--label {text!r} is not KEY=VALUE", "write KEY=VALUE, such as run.ai/type=a100")
    return key, value
