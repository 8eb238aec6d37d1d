"""`runai-adm node-pool`: list, get, create, update, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairpool.api.limits import LABEL_NAME_MAX
from fairpool.api.record import document
from fairpool.cli.adm.names import check_name, find_named
from fairpool.cli.failure import failure
from fairpool.cli.runai.cluster_choice import ONE_CLUSTER, ClusterChoice, choose, cluster_flag
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.nodes import NodePoolAnswer

STRATEGIES = ("binpack", "spread", "fragmentation")


@command("list", "runai-adm node-pool list", with_project=False)
@cluster_flag
@output_flag
@click.pass_obj
def list_pools(options: GlobalOptions, cluster: str | None, output: str | None) -> None:
    """List node pools with their nodes."""
    session = Session(options)
    with session.connected() as client:
        pools = sorted(client.node_pools(), key=lambda each: each.name)
        choice = choose(session, client, cluster, {each.cluster_id for each in pools})
    found = [each for each in pools if not each.cluster_id or choice.includes(each.cluster_id)]
    documents = document(found)
    show(output, pool_columns(choice), found, documents=documents)


def pool_columns(choice: ClusterChoice = ONE_CLUSTER) -> list[Column[NodePoolAnswer]]:
    return [
        Column("NAME", lambda each: each.name),
        *choice.column(lambda each: each.cluster_id),
        Column("STATUS", lambda each: each.phase),
        Column("LABEL", lambda each: f"{each.label_key}={each.label_value}" if not each.is_default else "-"),
        Column("GPU PLACEMENT", lambda each: each.placement_strategy.gpu),
        Column("CPU PLACEMENT", lambda each: each.placement_strategy.cpu),
        Column("NODES", lambda each: ", ".join(each.nodes) or "-", least=14),
    ]


@command("get", "runai-adm node-pool get a100", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_pool(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a node pool."""
    with Session(options).connected() as client:
        found = find_named("node pool", name, client.node_pools())
    show_one(output, found, [(column.heading, column.cell(found)) for column in pool_columns()])


def _placement_flags(command: Any) -> Any:
    cpu = flag("--cpu-placement", type=click.Choice(STRATEGIES[:2]), help="The same for pods without GPUs.")
    return flag(
        "--gpu-placement",
        type=click.Choice(STRATEGIES),
        help="Fill nodes one by one, spread pods over them, or minimize fragmentation.",
    )(cpu(command))


@command("create", "runai-adm node-pool create a100 --label run.ai/type=a100", with_project=False)
@click.argument("name")
@flag("--label", required=True, metavar="KEY=VALUE", help="Label that selects the pool's nodes.")
@_placement_flags
@flag("--cluster", metavar="NAME", help="Only of nodes of this cluster (default: of all clusters).")
@click.pass_obj
def create_pool(
    options: GlobalOptions,
    name: str,
    label: str,
    gpu_placement: str | None,
    cpu_placement: str | None,
    cluster: str | None,
) -> None:
    """Create a node pool from the nodes that have a label."""
    check_name(name, LABEL_NAME_MAX)
    key, value = _label(label)
    strategy = {"gpu": gpu_placement or "binpack", "cpu": cpu_placement or "binpack"}
    request = {"name": name, "labelKey": key, "labelValue": value, "placementStrategy": strategy}
    if cluster:
        request["clusterId"] = cluster
    with Session(options).connected() as client:
        client.create_node_pool(request)
    click.echo(f"Node pool {printable(name)} created successfully.")


@command("update", "runai-adm node-pool update a100 --gpu-placement spread", with_project=False)
@click.argument("name")
@flag("--label", metavar="KEY=VALUE", help="Label that selects the pool's nodes.")
@_placement_flags
@click.pass_obj
def update_pool(
    options: GlobalOptions, name: str, label: str | None, gpu_placement: str | None, cpu_placement: str | None
) -> None:
    """Change a node pool. Settings that you do not name keep their values."""
    said: dict[str, Any] = {}
    if label is not None:
        said["labelKey"], said["labelValue"] = _label(label)
    with Session(options).connected() as client:
        before = find_named("node pool", name, client.node_pools())
        if gpu_placement or cpu_placement:
            known = before.placement_strategy
            said["placementStrategy"] = {"gpu": gpu_placement or known.gpu, "cpu": cpu_placement or known.cpu}
        if not said:
            raise failure("command.no_change", "nothing to change", "see `runai-adm node-pool update --help`")
        client.update_node_pool(name, said, before.revision)
    click.echo(f"Node pool {printable(name)} updated successfully.")


@command("delete", "runai-adm node-pool delete a100", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_pool(options: GlobalOptions, name: str) -> None:
    """Delete a node pool in which no project or department has a quota. Its nodes move to the default pool."""
    with Session(options).connected() as client:
        find_named("node pool", name, client.node_pools())
        client.delete_node_pool(name)
    click.echo(f"Node pool {printable(name)} deleted successfully.")


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise failure("flag.label", f"--label {text!r} is not KEY=VALUE", "write KEY=VALUE, such as run.ai/type=a100")
    return key, value
