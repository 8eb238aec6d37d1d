"""`runai top`, `top node` and `top job`: what is allocated and used now; with `--watch`, refreshed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.cli.runai import ages, figures
from fairpool.cli.runai.cluster_choice import ONE_CLUSTER, ClusterChoice, choose, cluster_flag, nodes_of
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.jobs import node_cell, running_seconds, type_word
from fairpool.cli.runai.listing import natural, screen_here
from fairpool.cli.runai.nodes import check_known, memory, status_cell, usable
from fairpool.cli.runai.projects import quota_text
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.runai.watching import Draw, redraw, watch_flags
from fairpool.cli.screen import Column, Screen

if TYPE_CHECKING:
    from fairpool.api.measured import MeasuredDevice
    from fairpool.api.nodes import NodeAnswer
    from fairpool.api.organization import Project
    from fairpool.api.workloads import WorkloadItem

BAR = 20


_output = flag(
    "-o", "--output", type=click.Choice(["wide"]), help="wide: show all columns, whatever the terminal's width."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """Nodes, projects and running jobs at one moment."""

    nodes: list[NodeAnswer]
    projects: list[Project]
    running: list[WorkloadItem]
    waiting: dict[str, int]
    hidden: int = 0
    """Jobs in projects that the caller may not see."""
    choice: ClusterChoice = ONE_CLUSTER


@command("overview", "runai top --watch")
@watch_flags
@cluster_flag
@_output
@click.pass_obj
def top_overview(
    options: GlobalOptions, watch: bool, interval: float, rounds: int | None, cluster: str | None, output: str | None
) -> None:
    """Show the GPUs of every node and project, and the running jobs."""
    session = Session(options)
    with session.connected() as client:

        def draw(screen: Screen) -> None:
            draw_overview(screen, look(session, client, cluster), whole=output == "wide")

        _show(draw, watch, interval, rounds)


def look(session: Session, client: Client, cluster: str | None = None) -> Seen:
    found = client.overview()
    choice = choose(session, client, cluster, {each.cluster_uuid for each in found.nodes})
    projects = [each for each in found.projects if choice.includes(each.cluster_id)]
    inside = {each.name for each in projects}
    return Seen(
        sorted((each for each in found.nodes if choice.includes(each.cluster_uuid)), key=lambda it: natural(it.name)),
        sorted(projects, key=lambda each: natural(each.name)),
        sorted(
            (each for each in found.workloads if choice.includes(each.cluster_id)),
            key=lambda each: (natural(each.project_name), natural(each.name)),
        ),
        {project: count for project, count in found.waiting.items() if choice.chosen is None or project in inside},
        found.hidden_workloads if choice.chosen is None else 0,
        choice,
    )


def headline(seen: Seen) -> str:
    """`8 of 16 GPUs allocated; 3 jobs running, 1 waiting`."""
    total = sum(usable(each) for each in seen.nodes)
    held = round(sum(each.gpu_info.allocated for each in seen.nodes), 3)
    running = len(seen.running) + seen.hidden
    hidden = f" ({seen.hidden} in projects that you cannot see)" if seen.hidden else ""
    jobs = "1 job" if running == 1 else f"{running} jobs"
    waiting = sum(seen.waiting.values())
    return f"{held:g} of {total} GPUs allocated{_utilization(seen)}; {jobs} running{hidden}, {waiting} waiting"


def _utilization(seen: Seen) -> str:
    """`, 42% used`: the average of the GPUs of nodes that were measured; empty: none was."""
    known = [
        (value, each.gpu_info.gpu_count)
        for each in seen.nodes
        if (value := figures.utilization(each.measured)) is not None and each.gpu_info.gpu_count
    ]
    gpus = sum(count for _, count in known)
    return f", {sum(value * count for value, count in known) / gpus:.0f}% used" if gpus else ""


def draw_overview(screen: Screen, seen: Seen, *, whole: bool = False) -> None:
    """Three tables: nodes, projects, jobs."""
    screen.text(headline(seen))
    screen.text()
    nodes: list[Column[NodeAnswer]] = [
        Column("NODE", lambda each: each.name),
        *seen.choice.column(lambda each: each.cluster_uuid),
        Column("STATUS", status_cell),
        Column("POOL", lambda each: each.node_pool, spare=3),
        Column("GPUS", lambda each: str(usable(each))),
        Column("ALLOCATED", lambda each: f"{each.gpu_info.allocated:.2f}"),
        Column("", lambda each: bar(each.gpu_info.allocated, usable(each)), spare=2),
        Column("GPU UTIL", lambda each: figures.percent(figures.utilization(each.measured)), spare=1),
        Column(
            "GPU MEMORY", lambda each: figures.used_size(figures.gpu_memory(each.measured), gpu_bytes(each)), spare=5
        ),
        Column("CPU", lambda each: figures.share(figures.cpu(each.measured), cpu_cores(each)), spare=6),
        Column("MEMORY", lambda each: figures.used_size(figures.memory(each.measured), each.memory_bytes), spare=7),
        Column("PODS", lambda each: str(each.pods), spare=4),
    ]
    screen.draw(nodes, seen.nodes, whole=whole)
    screen.text()
    projects: list[Column[Project]] = [
        Column("PROJECT", lambda each: each.name),
        *seen.choice.column(lambda each: each.cluster_id),
        Column("QUOTA", lambda each: quota_text(each.total_resources.gpu_quota)),
        Column("ALLOCATED", lambda each: f"{each.allocated_gpus:.2f}"),
        Column("", lambda each: bar(each.allocated_gpus, each.total_resources.gpu_quota), spare=1),
        Column("WAITING", lambda each: str(seen.waiting.get(each.name, 0))),
    ]
    screen.draw(projects, seen.projects, whole=whole)
    screen.text()
    screen.draw(job_columns(), seen.running, whole=whole)


def bar(held: float, total: float) -> str:
    """Usage as a bar; `+` beyond 100 %."""
    if total <= 0:
        return "+" if held > 0 and total == 0 else ""
    filled = min(BAR, round(BAR * held / total))
    return "#" * filled + "." * (BAR - filled) + ("+" if held > total else "")


def job_columns() -> list[Column[WorkloadItem]]:
    return [
        Column("NAME", lambda each: each.name),
        Column("PROJECT", lambda each: each.project_name),
        Column("USER", lambda each: each.submitted_by, spare=9),
        Column("TYPE", type_word, spare=3),
        Column("DURATION", lambda each: ages.clock(running_seconds(each))),
        Column("NODE", node_cell, spare=1),
        Column("GPU Allocated", lambda each: f"{each.allocated_resources.gpu:.2f}"),
        Column("GPU Util", lambda each: figures.percent(figures.utilization(each.measured)), spare=2),
        Column("PROGRESS", lambda each: figures.brief_percent(figures.progress(each.measured)), spare=4),
        Column("GPU MEMORY Allocated", _gpu_memory_allocated, spare=8),
        Column("GPU MEMORY Usage", lambda each: figures.size(figures.gpu_memory(each.measured)), spare=5),
        Column("CPU Allocated", lambda each: f"{each.workload_requested_resources.cpu.request * 1000:.0f}m", spare=7),
        Column("CPU Usage", lambda each: figures.cores(figures.cpu(each.measured)), spare=6),
        Column("CPU MEMORY Allocated", _memory, spare=8),
        Column("CPU MEMORY Usage", lambda each: figures.size(figures.memory(each.measured)), spare=6),
    ]


def _gpu_memory_allocated(each: WorkloadItem) -> str:
    return figures.size(each.measured.gpu_memory_allocated_bytes if each.measured is not None else None)


def gpu_bytes(each: NodeAnswer) -> int:
    """The memory of all its GPUs."""
    return each.gpu_info.gpu_count * (each.gpu_info.gpu_memory_mib << 20)


def cpu_cores(each: NodeAnswer) -> float | None:
    return None if each.cpu_milli is None else each.cpu_milli / 1000


def _memory(each: WorkloadItem) -> str:
    return figures.size(each.workload_requested_resources.memory_bytes)


@command("job", "runai top job -A")
@flag("-A", "--all-projects", is_flag=True, help="Show the jobs of all projects you can see.")
@flag("-d", "--details", is_flag=True, help="Show all columns, as with -o wide.")
@watch_flags
@_output
@click.pass_obj
def top_job(
    options: GlobalOptions,
    all_projects: bool,
    details: bool,
    watch: bool,
    interval: float,
    rounds: int | None,
    output: str | None,
) -> None:
    """Show running jobs, what is allocated to them and what they use."""
    session = Session(options)
    project = None if all_projects else session.project()
    with session.connected() as client:
        if project is not None:
            check_project(client, project)
        chosen = ["phase==Running", *([f"projectName=={project}"] if project is not None else [])]

        found: list[WorkloadItem] = []

        def draw(screen: Screen) -> None:
            found[:] = client.all_workloads(filters=chosen, measured=True)
            found.sort(key=lambda each: (natural(each.project_name), natural(each.name)))
            screen.draw(job_columns(), found, whole=details or output == "wide")

        _show(draw, watch, interval, rounds)
    if not found and not watch:
        where = f"in project {project} (-A shows all projects)" if project is not None else "that you can see"
        options.notice(f"There are no running jobs {where}.")


def _show(draw: Draw, watch: bool, interval: float, rounds: int | None) -> None:
    """Once, or again and again."""
    if watch:
        redraw(draw, interval, rounds)
        return
    screen = screen_here()
    draw(screen)
    screen.show()


@command("node", "runai top node", with_project=False)
@click.argument("names", nargs=-1, shell_complete=node_names)
@cluster_flag
@flag("-d", "--details", is_flag=True, help="Show all columns, and each GPU.")
@watch_flags
@_output
@click.pass_obj
def top_node(
    options: GlobalOptions,
    names: tuple[str, ...],
    cluster: str | None,
    details: bool,
    watch: bool,
    interval: float,
    rounds: int | None,
    output: str | None,
) -> None:
    """Show the capacity of nodes, and how much of it is allocated and used."""
    session = Session(options)
    with session.connected() as client:

        def draw(screen: Screen) -> None:
            found, choice = nodes_of(session, client, cluster, "devices" if details else "true")
            check_known(names, found)
            shown = [each for each in found if not names or each.name in names]
            screen.draw(node_columns(choice, details=details), shown, whole=output == "wide")
            for each in shown if details else ():
                draw_devices(screen, each)

        _show(draw, watch, interval, rounds)


def node_columns(choice: ClusterChoice, *, details: bool) -> list[Column[NodeAnswer]]:
    return [
        Column("NAME", lambda each: each.name),
        *choice.column(lambda each: each.cluster_uuid),
        Column("STATUS", status_cell),
        Column("GPU CAPACITY", lambda each: str(usable(each))),
        Column("GPU ALLOCATED", lambda each: f"{each.gpu_info.allocated:.2f}"),
        Column("GPU UTILIZATION", lambda each: figures.percent(figures.utilization(each.measured)), spare=1),
        Column(
            "CPU CAPACITY",
            lambda each: figures.UNKNOWN if each.cpu_milli is None else f"{each.cpu_milli / 1000:g}",
            spare=5,
        ),
        Column("CPU UTILIZATION", lambda each: figures.share(figures.cpu(each.measured), cpu_cores(each)), spare=3),
        Column("MEMORY CAPACITY", memory, spare=6),
        Column(
            "MEMORY USAGE", lambda each: figures.used_size(figures.memory(each.measured), each.memory_bytes), spare=4
        ),
        *(_more_node_columns() if details else []),
    ]


def _more_node_columns() -> list[Column[NodeAnswer]]:
    """With `--details`."""
    return [
        Column("CPU USAGE", lambda each: figures.cores(figures.cpu(each.measured)), spare=7),
        Column(
            "MEMORY UTILIZATION", lambda each: figures.share(figures.memory(each.measured), each.memory_bytes), spare=9
        ),
        Column("GPU MEMORY CAPACITY", lambda each: figures.size(gpu_bytes(each)), spare=8),
        Column("GPU MEMORY USAGE", lambda each: figures.size(figures.gpu_memory(each.measured)), spare=2),
        Column(
            "GPU MEMORY UTILIZATION",
            lambda each: figures.share(figures.gpu_memory(each.measured), gpu_bytes(each)),
            spare=9,
        ),
    ]


def draw_devices(screen: Screen, each: NodeAnswer) -> None:
    """What was measured of each GPU of a node."""
    if not each.gpu_info.gpu_count:
        return
    simulated = " (simulated)" if each.gpu_info.simulated else ""
    screen.title(f"GPUs of {each.name}{simulated}:")
    memory_bytes = each.gpu_info.gpu_memory_mib << 20 or None
    known = (each.measured.devices if each.measured is not None else None) or []
    devices = {device.index: device for device in known}
    columns: list[Column[int]] = [
        Column("GPU", str),
        Column("UTILIZATION", lambda index: figures.percent(_of(devices.get(index), "utilization"))),
        Column("MEMORY", lambda _: figures.size(memory_bytes)),
        Column("MEMORY USAGE", lambda index: figures.used_size(_of(devices.get(index), "memory_bytes"), memory_bytes)),
        Column("IDLE TIME", lambda index: figures.idle(_of(devices.get(index), "idle_seconds"))),
        Column("TEMPERATURE", lambda index: _with_unit(_of(devices.get(index), "temperature_celsius"), "°C")),
        Column("POWER", lambda index: _with_unit(_of(devices.get(index), "power_watts"), "W")),
    ]
    screen.draw(columns, range(each.gpu_info.gpu_count))


def _of(device: MeasuredDevice | None, field: str) -> float | None:
    return None if device is None else getattr(device, field)


def _with_unit(value: float | None, unit: str) -> str:
    return figures.UNKNOWN if value is None else f"{value:.0f}{unit}"
