"""Jobs in lists: what each column says, and `runai list jobs`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from fairpool.cli.runai import ages
from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.listing import Column, natural, output_flag, show

if TYPE_CHECKING:
    from fairpool.api.workloads import WorkloadItem

FINISHED = frozenset({"Completed", "Failed", "Deleted"})


@click.command("jobs", cls=Leaf, short_help="Jobs of a project, or of all.", example="runai list jobs -p team-a")
@flag("-A", "--all-projects", is_flag=True, help="Of every project that you may see.")
@output_flag
@click.pass_obj
def list_jobs(here: Here, all_projects: bool, output: str | None) -> None:
    """Jobs of a project, by name."""
    from fairpool.cli.runai.session import Session, check_project

    session = Session(here)
    project = None if all_projects else session.project()
    with session.connected() as client:
        found = client.all_workloads(filters=[] if project is None else [f"projectName=={project}"])
        if not found and project is not None:
            check_project(client, project)
    found.sort(key=lambda each: (natural(each.project_name), natural(each.name)))
    documents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]
    title = "" if project is None else f"Showing jobs for project {project}"
    show(output, columns(ages.now(), one_project=project is not None), found, documents=documents, title=title)
    if not found and output in (None, "wide"):
        where = f"in project {project}" if project is not None else "that you may see"
        here.notice(f"There are no jobs {where}. To submit one: runai submit NAME -i IMAGE -g 0.5 -- COMMAND")


def columns(at: datetime, *, one_project: bool) -> list[Column[WorkloadItem]]:
    """The eleven that people know, and more where there is room without end."""
    return [
        Column("NAME", lambda each: each.name),
        Column("STATUS", lambda each: each.classic_status or each.phase.value),
        Column("AGE", lambda each: ages.age(each.created_at, at)),
        Column("NODE", node, spare=2),
        Column("IMAGE", lambda each: ", ".join(each.images), spare=8),
        Column("TYPE", type_word, spare=4),
        Column("PROJECT", lambda each: each.project_name, spare=7 if one_project else 0),
        Column("USER", lambda each: each.submitted_by, spare=6),
        Column("GPUs Allocated (Requested)", gpus),
        Column("PODs Running (Pending)", pods, spare=5),
        Column("SERVICE URL(S)", lambda each: ", ".join(each.urls), spare=3),
        Column("NODE POOL", lambda each: ", ".join(each.current_node_pools), wide=True),
        Column("PRIORITY", lambda each: each.priority_class_name or str(each.priority), wide=True),
        Column("ID", lambda each: each.id, wide=True),
        Column("MESSAGE", lambda each: each.phase_message, wide=True),
    ]


def type_word(each: WorkloadItem) -> str:
    """What kind of work, in the classic words."""
    match each.type.value:
        case "Workspace":
            return "Interactive-Preemptible" if each.preemptible else "Interactive"
        case "Inference":
            return "Inference"
        case _:
            return "Train"


def node(each: WorkloadItem) -> str:
    return "<multiple>" if len(each.current_nodes) > 1 else "".join(each.current_nodes)


def gpus(each: WorkloadItem) -> str:
    """`0.30 (0.30)`; of what is over, `- (0.30)`; of a request by memory, `0.13 (4096MiB)`."""
    held = each.allocated_resources.gpu
    return f"{'-' if each.phase.value in FINISHED and not held else f'{held:.2f}'} ({gpus_asked(each)})"


def gpus_asked(each: WorkloadItem, parts: int = 1) -> str:
    """What all its pods ask for, or one of so many: GPUs, or memory of a GPU that nobody knows yet."""
    asked = each.workload_requested_resources
    if asked.gpu_memory_mib is not None:
        return f"{asked.gpu_memory_mib // parts}MiB"
    return f"{asked.gpu / parts:.2f}"


def pods(each: WorkloadItem) -> str:
    """`1 (0)`: those that run, and those that are to."""
    waiting = each.requested_pods if each.phase.value == "Creating" else each.pending_pods
    return f"{each.running_pods} ({waiting})"


def running_seconds(each: WorkloadItem) -> int:
    """Since it began, or as long as it lasted."""
    if each.started_at is None:
        return 0
    end = ages.moment(each.completed_at) if each.completed_at else ages.now()
    return max(0, int((end - ages.moment(each.started_at)).total_seconds()))
