"""`runai list nodes`, `describe node`, `list clusters` and `config cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure, meant
from fairpool.cli.runai import figures
from fairpool.cli.runai.cluster_choice import ONE_CLUSTER, ClusterChoice, cluster_flag, nodes_of
from fairpool.cli.runai.flags import GlobalOptions, command
from fairpool.cli.runai.listing import natural, output_flag, screen_here, show, show_document
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.screen import Column, Screen, printable
from fairpool.model.node import DRAIN
from fairpool.model.node_role import ROLE_PREFIX
from fairpool.model.quantity import GIB

if TYPE_CHECKING:
    from fairpool.api.measured import MeasuredNode
    from fairpool.api.nodes import ClusterAnswer, NodeAnswer, NodeDetail, NodePod


@command("nodes", "runai list nodes", with_project=False)
@click.argument("names", nargs=-1, shell_complete=node_names)
@cluster_flag
@output_flag
@click.pass_obj
def list_nodes(options: GlobalOptions, names: tuple[str, ...], cluster: str | None, output: str | None) -> None:
    """List nodes with their status, role and free resources."""
    session = Session(options)
    with session.connected() as client:
        found, choice = _asked_for(session, client, names, cluster)
    documents = document(found)
    show(output, node_list_columns(choice), found, documents=documents)
    if output in (None, "wide"):
        for each in found:
            if each.gpu_info.withheld_because:
                click.echo(printable(f"{each.name}: {each.gpu_info.withheld_because}"), err=True)


def node_list_columns(choice: ClusterChoice = ONE_CLUSTER) -> list[Column[NodeAnswer]]:
    """Columns of node lists."""
    return [
        Column("NAME", lambda each: each.name),
        *choice.column(lambda each: each.cluster_uuid),
        Column("STATUS", status_cell),
        Column("IP Address", lambda _: "-", spare=9),
        Column("ROLE", role_cell, spare=3),
        Column(
            "CPU ALLOCATABLE", lambda each: "-" if each.cpu_milli is None else f"{each.cpu_milli / 1000:g}", spare=5
        ),
        Column("CPU ALLOCATED", lambda each: f"{each.cpu_allocated_milli / 1000:g}", spare=8),
        Column("MEMORY ALLOCATABLE", memory, spare=6),
        Column("MEMORY ALLOCATED", lambda each: gib(each.memory_allocated_bytes), spare=7),
        Column("GPU TYPE", gpu_type, spare=1),
        Column("GPU ALLOCATABLE", lambda each: str(usable(each))),
        Column("GPU FREE", lambda each: f"{max(0.0, usable(each) - each.gpu_info.allocated):.2f}"),
        Column("NODE POOL", lambda each: each.node_pool, wide=True),
        Column("PODS", lambda each: str(each.pods), wide=True),
        Column("TAINTS", taints, wide=True),
    ]


def gpu_type(each: NodeAnswer) -> str:
    """The model, marked if it is simulated."""
    mark = "simulated " if each.gpu_info.simulated else ""
    return f"{mark}{each.gpu_info.gpu_type}".strip() or "-"


def usable(each: NodeAnswer) -> int:
    """GPUs that are scheduled."""
    return max(0, each.gpu_info.gpu_count - len(each.gpu_info.withheld))


def status_cell(each: NodeAnswer) -> str:
    """Its conditions, joined, as `kubectl get nodes` does; and whether it was drained."""
    conditions = [each.status]
    if each.cordoned:
        conditions.append("SchedulingDisabled")
    if any((taint.key, taint.value, taint.effect) == astuple(DRAIN) for taint in each.taints):
        conditions.append("Draining" if each.pods else "Drained")
    return ",".join(conditions)


def role_cell(each: NodeAnswer) -> str:
    return (
        ",".join(sorted(key.removeprefix(ROLE_PREFIX) for key in each.labels if key.startswith(ROLE_PREFIX)))
        or "<none>"
    )


def taints(each: NodeAnswer) -> str:
    return ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in each.taints)


def memory(each: NodeAnswer) -> str:
    return "-" if each.memory_bytes is None else gib(each.memory_bytes)


def gib(size: int) -> str:
    return f"{size / GIB:.1f}GiB"


@command("node", "runai describe node dgx1-1", with_project=False)
@click.argument("names", nargs=-1, shell_complete=node_names)
@cluster_flag
@output_flag
@click.pass_obj
def describe_node(options: GlobalOptions, names: tuple[str, ...], cluster: str | None, output: str | None) -> None:
    """Show nodes in detail, with their GPUs and pods. Without a name: all nodes."""
    session = Session(options)
    with session.connected() as client:
        listed, choice = _asked_for(session, client, names, cluster, "devices")
        measured = {(each.cluster_uuid, each.name): each.measured for each in listed}
        found = [client.node(each.name, each.cluster_uuid) for each in listed]
    if output in ("json", "yaml"):
        for each in found:
            each["measured"] = measured[each.cluster_uuid, each.name]  # type: ignore[index]
        show_document(output, document(found))
        return
    if output == "name":
        show(output, node_list_columns(), found, documents=())
        return
    screen = screen_here()
    for each in found:
        if screen.lines:
            screen.text()
        there = measured[each.cluster_uuid, each.name]
        screen.facts([*node_facts(each, choice), *in_use(each, there)], aligned=False)
        draw_gpus(screen, each, there)
        draw_pods(screen, each)
    screen.show()


def in_use(each: NodeAnswer, measured: MeasuredNode | None) -> list[tuple[str, str]]:
    """What was last measured of a node."""
    mark = " (simulated)" if each.gpu_info.simulated else ""
    memory_bytes = each.gpu_info.gpu_count * (each.gpu_info.gpu_memory_mib << 20)
    cpu_cores = None if each.cpu_milli is None else each.cpu_milli / 1000
    rows = [
        ("GPU UTILIZATION", figures.percent(figures.utilization(measured)), mark),
        ("GPU MEMORY USED", figures.used_size(figures.gpu_memory(measured), memory_bytes), mark),
        ("CPU USED", figures.cores(figures.cpu(measured)) + figures.part(figures.cpu(measured), cpu_cores), ""),
        ("MEMORY USED", figures.used_size(figures.memory(measured), each.memory_bytes), ""),
    ]
    return [(name, text if text == figures.UNKNOWN else f"{text}{more}") for name, text, more in rows]


def draw_gpus(screen: Screen, each: NodeAnswer, measured: MeasuredNode | None = None) -> None:
    """Its GPUs, and how much of each is allocated and used."""
    if not each.gpu_info.gpu_count:
        return
    screen.title("NODE GPUs INFO:")
    columns: list[Column[int]] = [
        Column("GPU", str),
        Column("ALLOCATED", lambda index: _device_text(each, index)),
        *_device_figures(measured),
    ]
    screen.draw(columns, range(each.gpu_info.gpu_count))


def _device_figures(measured: MeasuredNode | None) -> list[Column[int]]:
    known = {each.index: each for each in (measured.devices if measured is not None else None) or ()}
    return [
        Column("UTILIZATION", lambda at: figures.percent(known[at].utilization if at in known else None)),
        Column("MEMORY USAGE", lambda at: figures.size(known[at].memory_bytes if at in known else None)),
        Column("IDLE TIME", lambda at: figures.idle(known[at].idle_seconds if at in known else None)),
    ]


def draw_pods(screen: Screen, each: NodeDetail) -> None:
    """The pods on it."""
    screen.title("NODE PODS:")
    if not each.pods_there:
        screen.text("No pods")
        return
    columns: list[Column[NodePod]] = [
        Column("POD", lambda pod: pod.name),
        Column("PROJECT", lambda pod: pod.project_name or "-"),
        Column("USER", lambda pod: pod.submitted_by or "-", spare=2),
        Column("GPU ALLOCATED", lambda pod: f"{pod.gpu:.2f}"),
        Column("GPUS", lambda pod: ",".join(map(str, pod.devices)) or "-", spare=1),
    ]
    screen.draw(columns, sorted(each.pods_there, key=lambda pod: (pod.project_name or "~", natural(pod.name))))


def _device_text(each: NodeAnswer, index: int) -> str:
    if index in each.gpu_info.withheld:
        return "not schedulable: unhealthy, or used by other processes"
    known = each.gpu_info.allocated_by_device
    return f"{known[index]:.2f}" if index < len(known) else "-"


def node_facts(each: NodeAnswer, choice: ClusterChoice = ONE_CLUSTER) -> list[tuple[str, str]]:
    """The facts of one node."""
    pairs = [(column.heading.upper(), column.cell(each)) for column in node_list_columns(choice)]
    return [
        *pairs,
        ("GPU CAPACITY", str(each.gpu_info.gpu_count)),
        ("ALLOCATED GPUS", f"{each.gpu_info.allocated:.2f}"),
        ("GPU MEMORY", f"{each.gpu_info.gpu_memory_mib} MiB each" if each.gpu_info.gpu_memory_mib else "-"),
        ("UNHEALTHY GPUS", str(len(each.gpu_info.withheld))),
        *([("MESSAGE", each.gpu_info.withheld_because)] if each.gpu_info.withheld_because else []),
        ("LABELS", ", ".join(f"{key}={value}" for key, value in sorted(each.labels.items())) or "<none>"),
    ]


def _asked_for(
    session: Session, client: Client, names: Sequence[str], cluster: str | None, measured: str = ""
) -> tuple[list[NodeAnswer], ClusterChoice]:
    """The nodes of these names, or all; of the same name in several clusters, each."""
    found, choice = nodes_of(session, client, cluster, measured)
    check_known(names, found)
    return [each for each in found if not names or each.name in names], choice


def check_known(names: Sequence[str], nodes: Sequence[NodeAnswer]) -> None:
    """Raises a failure if a node is not among them."""
    known = dict.fromkeys(each.name for each in nodes)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise unknown_node(unknown, list(known))


def unknown_node(unknown: Sequence[str], known: Sequence[str]) -> Failure:
    """There is no node of that name; with the known names."""
    shown = "\n".join(f"  {printable(name)}" for name in known[:50]) or "  (none)"
    near = meant(unknown[0], known)
    click.echo(f"No match found for node(s) {printable(', '.join(unknown))}", err=True)
    click.echo(f"Available node names:\n{shown}", err=True)
    return Failure([], hint=near)


@command("clusters", "runai list clusters", with_project=False)
@output_flag
@click.pass_obj
def list_clusters(options: GlobalOptions, output: str | None) -> None:
    """List the clusters of this server and show the current one."""
    session = Session(options)
    with session.connected() as client:
        found = client.clusters()
    current = session.default("cluster") or (found[0].name if len(found) == 1 else None)
    project = session.default_project or ""
    columns: list[Column[ClusterAnswer]] = [
        Column("CLUSTER", lambda each: f"{each.name} (current)" if _marked(each, current, output) else each.name),
        Column("CURRENT PROJECT", lambda each: project if each.name == current else ""),
        Column("STATUS", lambda each: each.status.state, wide=True),
        Column("ID", lambda each: each.uuid, wide=True),
    ]
    documents = document(found)
    show(output, columns, found, documents=documents, title="Configured clusters on this computer are:")


def _marked(each: ClusterAnswer, current: str | None, output: str | None) -> bool:
    return each.name == current and output != "name"


@command("cluster", "runai config cluster local", with_project=False)
@click.argument("name")
@click.pass_obj
def config_cluster(options: GlobalOptions, name: str) -> None:
    """Set the cluster in which new projects are created. A job runs in the cluster of its project."""
    session = Session(options)
    with session.connected() as client:
        names = [each.name for each in client.clusters()]
    if name not in names:
        raise failure("cluster.unknown", f"Cluster {name} does not exist", hint=meant(name, names))
    session.set_default("cluster", name)
    click.echo(f"Set current cluster to {printable(name)}")
