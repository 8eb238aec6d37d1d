"""`runai top`, `top node` and `top job`: current usage; with `--watch`, refreshed.

What is not measured yet (utilisation, memory in use) is shown as `-`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.cli.failure import Failure, not_yet
from fairpool.cli.runai import ages
from fairpool.cli.runai.cluster_choice import ONE_CLUSTER, ClusterChoice, choose, cluster_flag, nodes_of
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.jobs import node_cell, running_seconds, type_word
from fairpool.cli.runai.listing import natural, screen_here
from fairpool.cli.runai.nodes import check_known, gib, memory, status_cell, usable
from fairpool.cli.runai.projects import quota_text
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.runai.watching import redraw, watch_flags
from fairpool.cli.screen import Column, Screen

if TYPE_CHECKING:
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

        if watch:
            redraw(draw, interval, rounds)
            return
        screen = screen_here()
        draw(screen)
        screen.show()


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
    return f"{held:g} of {total} GPUs allocated; {jobs} running{hidden}, {sum(seen.waiting.values())} waiting"


def draw_overview(screen: Screen, seen: Seen, *, whole: bool = False) -> None:
    """Three tables: nodes, projects, jobs."""
    screen.text(headline(seen))
    screen.text()
    nodes: list[Column[NodeAnswer]] = [
        Column("NODE", lambda each: each.name),
        *seen.choice.column(lambda each: each.cluster_uuid),
        Column("STATUS", status_cell),
        Column("POOL", lambda each: each.node_pool, spare=2),
        Column("GPUS", lambda each: str(usable(each))),
        Column("ALLOCATED", lambda each: f"{each.gpu_info.allocated:.2f}"),
        Column("", lambda each: bar(each.gpu_info.allocated, usable(each)), spare=1),
        Column("PODS", lambda each: str(each.pods), spare=3),
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
        Column("GPU Util", lambda _: "-", spare=4),
        Column("GPU MEMORY Allocated", lambda _: "-", spare=8),
        Column("GPU MEMORY Usage", lambda _: "-", spare=8),
        Column("CPU Allocated", lambda each: f"{each.workload_requested_resources.cpu.request * 1000:.0f}m", spare=6),
        Column("CPU Usage", lambda _: "-", spare=7),
        Column("CPU MEMORY Allocated", _memory, spare=6),
        Column("CPU MEMORY Usage", lambda _: "-", spare=7),
    ]


def _memory(each: WorkloadItem) -> str:
    return gib(each.workload_requested_resources.memory_bytes)


@command("job", "runai top job -A")
@flag("-A", "--all-projects", is_flag=True, help="Show the jobs of all projects you can see.")
@flag("-d", "--details", is_flag=True, hidden=True)
@_output
@click.pass_obj
def top_job(options: GlobalOptions, all_projects: bool, details: bool, output: str | None) -> None:
    """Show running jobs and the resources allocated to them."""
    _refuse_details(details)
    session = Session(options)
    project = None if all_projects else session.project()
    with session.connected() as client:
        if project is not None:
            check_project(client, project)
        chosen = ["phase==Running", *([f"projectName=={project}"] if project is not None else [])]
        found = client.all_workloads(filters=chosen)
    found.sort(key=lambda each: (natural(each.project_name), natural(each.name)))
    screen = screen_here()
    screen.draw(job_columns(), found, whole=output == "wide")
    screen.show()


@command("node", "runai top node", with_project=False)
@click.argument("names", nargs=-1, shell_complete=node_names)
@cluster_flag
@flag("-d", "--details", is_flag=True, hidden=True)
@_output
@click.pass_obj
def top_node(
    options: GlobalOptions, names: tuple[str, ...], cluster: str | None, details: bool, output: str | None
) -> None:
    """Show the capacity of nodes and how much of it is allocated."""
    _refuse_details(details)
    session = Session(options)
    with session.connected() as client:
        found, choice = nodes_of(session, client, cluster)
    check_known(names, found)
    screen = screen_here()
    shown = [each for each in found if not names or each.name in names]
    screen.draw(node_columns(choice), shown, whole=output == "wide")
    screen.show()


def node_columns(choice: ClusterChoice) -> list[Column[NodeAnswer]]:
    return [
        Column("NAME", lambda each: each.name),
        *choice.column(lambda each: each.cluster_uuid),
        Column("STATUS", status_cell),
        Column("GPU CAPACITY", lambda each: str(usable(each))),
        Column("GPU ALLOCATED", lambda each: f"{each.gpu_info.allocated:.2f}"),
        Column("GPU UTILIZATION", lambda _: "-", spare=4),
        Column("CPU CAPACITY", lambda each: "-" if each.cpu_milli is None else f"{each.cpu_milli / 1000:g}", spare=2),
        Column("CPU UTILIZATION", lambda _: "-", spare=5),
        Column("MEMORY CAPACITY", memory, spare=3),
        Column("MEMORY USAGE", lambda _: "-", spare=6),
    ]


def _refuse_details(details: bool) -> None:
    if details:
        raise Failure([not_yet("--details", "utilization is not measured yet; leave it out")])
