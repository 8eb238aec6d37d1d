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
    from fairpool.api.organization import NodeAnswer, NodeMarksRequest, NodePoolAnswer

DRAIN_KEY, DRAIN_VALUE, DRAIN_EFFECT = "runai", "drain", "NoExecute"
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
STRATEGIES = ("binpack", "spread", "fragmentation")

Change = Callable[["NodeMarksRequest"], "NodeMarksRequest"]


# --- nodes -------------------------------------------------------------------------------------------------------


@click.command("list", cls=Leaf, short_help="All nodes.", example="runai-adm node list -o wide", with_project=False)
@output_flag
@click.pass_obj
def list_nodes(here: Here, output: str | None) -> None:
    """All nodes, with what is free."""
    from fairpool.cli.runai.session import Session

    with Session(here).connected() as client:
        found = sorted(client.nodes(), key=lambda each: each.name)
    documents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]
    show(output, columns(), found, documents=documents)


@click.command("get", cls=Leaf, short_help="One node.", example="runai-adm node get dgx1-1", with_project=False)
@click.argument("name", shell_complete=node_names)
@output_flag
@click.pass_obj
def get_node(here: Here, name: str, output: str | None) -> None:
    """One node, with its marks."""
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
    short_help="Label or taint a node.",
    example="runai-adm node update dgx1-1 --label run.ai/type=dgx-2",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@flag("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Set a label; KEY- takes it away.")
@flag("--taint", "taints", multiple=True, metavar="KEY=VALUE:EFFECT", help="Add a taint; KEY- takes it away.")
@click.pass_obj
def update_node(here: Here, name: str, labels: tuple[str, ...], taints: tuple[str, ...]) -> None:
    """Change the labels and taints that an administrator gave to a node."""
    if not labels and not taints:
        raise failure("command.no_change", "no flag says what changes", "give --label or --taint")

    def change(marks: NodeMarksRequest) -> NodeMarksRequest:
        kept = dict(marks.labels)
        for text in labels:
            key, equals, value = text.partition("=")
            if equals:
                kept[key] = value
            elif text.endswith("-"):
                kept.pop(text[:-1], None)
            else:
                raise failure("flag.label", f"--label {text!r} is not KEY=VALUE", "write KEY=VALUE, or KEY-")
        marked = marks.model_copy(update={"labels": kept})
        for text in taints:
            marked = _tainted(marked, text)
        return marked

    _mark(here, name, change, "updated")


@click.command(
    "drain",
    cls=Leaf,
    short_help="Empty a node for maintenance.",
    example="runai-adm node drain dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def drain(here: Here, name: str) -> None:
    """Nothing new comes to the node, and what runs there leaves: training moves, build work waits for a person."""
    taint = f"{DRAIN_KEY}={DRAIN_VALUE}:{DRAIN_EFFECT}"
    _mark(here, name, lambda marks: _tainted(marks, taint), "is drained")


@click.command(
    "undrain",
    cls=Leaf,
    short_help="Use a drained node again.",
    example="runai-adm node undrain dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def undrain(here: Here, name: str) -> None:
    """Use a node again that was drained."""
    _mark(here, name, lambda marks: _tainted(marks, f"{DRAIN_KEY}-"), "is in use again")


@click.command(
    "cordon", cls=Leaf, short_help="Nothing new on a node.", example="runai-adm node cordon dgx1-1", with_project=False
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def cordon(here: Here, name: str) -> None:
    """Nothing new comes to the node; what runs there stays."""
    _mark(here, name, lambda marks: marks.model_copy(update={"cordoned": True}), "is cordoned")


@click.command(
    "uncordon",
    cls=Leaf,
    short_help="Let work onto a node again.",
    example="runai-adm node uncordon dgx1-1",
    with_project=False,
)
@click.argument("name", shell_complete=node_names)
@click.pass_obj
def uncordon(here: Here, name: str) -> None:
    """Let new work onto a node again."""
    _mark(here, name, lambda marks: marks.model_copy(update={"cordoned": False}), "is in use again")


def refused_verb(verb: str) -> click.Command:
    """`create` and `delete` of nodes, which nobody can do here."""

    @click.command(
        verb, cls=Leaf, short_help="Nodes come from their cluster.", example="runai-adm node list", with_project=False
    )
    @click.argument("name", required=False)
    def refuse(name: str | None) -> None:
        """Nodes come from their cluster and leave with it: see drain and cordon."""
        what = f"a node cannot be {verb}d here: it comes from its cluster"
        raise failure("node.not_ours", what, "to empty one: runai-adm node drain NAME")

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
        client.mark_node(name, complete(change(before.marks)), before.revision)
    click.echo(f"Node {printable(name)} {done}.")


def complete(marks: NodeMarksRequest) -> NodeMarksRequest:
    """With every field said: marks are sent whole."""
    return type(marks).model_validate(marks.model_dump())


def _tainted(marks: NodeMarksRequest, text: str) -> NodeMarksRequest:
    from fairpool.api.organization import TaintWire

    if text.endswith("-"):
        gone = text[:-1].partition("=")[0].partition(":")[0]
        return marks.model_copy(update={"taints": [each for each in marks.taints if each.key != gone]})
    pair, colon, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not colon or effect not in EFFECTS or not key:
        raise failure(
            "flag.taint", f"--taint {text!r} is no taint", f"write KEY=VALUE:EFFECT, one of {', '.join(EFFECTS)}"
        )
    taint = TaintWire(key=key, value=value, effect=effect)
    others = [each for each in marks.taints if (each.key, each.effect) != (key, effect)]
    return marks.model_copy(update={"taints": [*others, taint]})


# --- pools -------------------------------------------------------------------------------------------------------


@click.command("list", cls=Leaf, short_help="All node pools.", example="runai-adm node-pool list", with_project=False)
@output_flag
@click.pass_obj
def list_pools(here: Here, output: str | None) -> None:
    """All node pools, with their nodes."""
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


@click.command("get", cls=Leaf, short_help="One node pool.", example="runai-adm node-pool get a100", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_pool(here: Here, name: str, output: str | None) -> None:
    """One node pool, as it is."""
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
    cpu = flag("--cpu-placement", type=click.Choice(STRATEGIES[:2]), help="The same for work without GPUs.")
    return flag("--gpu-placement", type=click.Choice(STRATEGIES), help="Fill nodes, or spread over them.")(cpu(command))


@click.command(
    "create",
    cls=Leaf,
    short_help="Make a node pool.",
    example="runai-adm node-pool create a100 --label run.ai/type=a100",
    with_project=False,
)
@click.argument("name")
@flag("--label", required=True, metavar="KEY=VALUE", help="The nodes with this label.")
@_placement_flags
@click.pass_obj
def create_pool(here: Here, name: str, label: str, gpu_placement: str | None, cpu_placement: str | None) -> None:
    """Make a node pool of the nodes that carry a label."""
    from fairpool.api.organization import NodePoolRequest, PlacementStrategy
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
@flag("--label", metavar="KEY=VALUE", help="The nodes with this label.")
@_placement_flags
@click.pass_obj
def update_pool(here: Here, name: str, label: str | None, gpu_placement: str | None, cpu_placement: str | None) -> None:
    """Change what is said of a node pool; what you do not name stays."""
    from fairpool.api.organization import NodePoolUpdate, PlacementStrategy
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
            raise failure("command.no_change", "no flag says what changes", "see `runai-adm node-pool update --help`")
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
    """Delete a node pool that nobody has a quota in; its nodes go to the default pool."""
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
        raise failure("flag.label", f"--label {text!r} is not KEY=VALUE", "write run.ai/type=a100")
    return key, value
