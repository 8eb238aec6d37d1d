"""`runai list jobs`, and the columns of job lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import click

from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import ages, figures
from fairpool.cli.runai.flags import EVERY_KIND, GlobalOptions, KindFilter, command, flag
from fairpool.cli.runai.listing import TABLE, natural, output_flags, show
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.runai.watching import redraw, watch_flags
from fairpool.cli.screen import Column, Screen
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean

if TYPE_CHECKING:
    from fairpool.api.workloads import WorkloadItem

TYPES = {
    "workspace": "Workspace",
    "training": "Training",
    "distributed": "Distributed",
    "inference": "Inference",
}
FRAMEWORKS = {"pytorch": "PyTorch", "mpi": "MPI", "tensorflow": "TF", "tf": "TF", "xgboost": "XGBoost"}
FINISHED = frozenset({"Completed", "Failed", "Deleted"})


@command("jobs", "runai list jobs -p team-a")
@flag("-A", "--all-projects", "--all", is_flag=True, help="List the jobs of all projects you can see.")
@flag("--status", "statuses", multiple=True, metavar="STATUS", help="Only jobs with this status; repeatable.")
@flag("-u", "--user", metavar="USER", help="Only jobs of this user; `me` for your own.")
@flag("-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only jobs with this label; repeatable.")
@flag("--type", "type_", type=click.Choice(TYPES), help="Only jobs of this kind.")
@flag("--framework", type=click.Choice(FRAMEWORKS), help="Only distributed training with this framework.")
@flag("--limit", type=click.IntRange(1), metavar="N", help="List at most N jobs.")
@flag("--offset", type=click.IntRange(0), default=0, metavar="N", help="Leave out the first N jobs.")
@watch_flags
@output_flags
@click.pass_obj
def list_jobs(
    options: GlobalOptions,
    all_projects: bool,
    statuses: tuple[str, ...],
    user: str | None,
    labels: tuple[str, ...],
    type_: str | None,
    framework: str | None,
    limit: int | None,
    offset: int,
    watch: bool,
    interval: float,
    rounds: int | None,
    output: str | None,
    no_headers: bool,
) -> None:
    """List jobs, sorted by name."""
    output = None if output == TABLE else output
    if watch and output not in (None, "wide"):
        raise failure("list.watch", f"--watch shows a table and cannot print {output}", "leave out -o or --watch")
    chosen = Chosen(
        statuses=_statuses(statuses),
        labels=_labels(labels),
        kind=options.kind,
        type=TYPES.get(type_ or ""),
        framework=FRAMEWORKS.get(framework or ""),
        offset=offset,
        limit=limit,
    )
    session = Session(options)
    project = None if all_projects else session.project()
    with session.connected() as client:
        filters = [*chosen.filters(), *([] if project is None else [f"projectName=={project}"])]
        if user is not None:
            filters.append(f"submittedBy=={client.me().username if user == 'me' else user}")
        found = chosen.of(client.all_workloads(filters=filters, measured=True))
        if project is not None and not found:
            check_project(client, project)
        title = "" if project is None else f"Showing {options.kind.noun}s for project {project}"
        if watch:

            def table(screen: Screen) -> None:
                rows = chosen.of(client.all_workloads(filters=filters, measured=True))
                screen.text(title or f"Showing {options.kind.noun}s for all projects")
                screen.headings = not no_headers
                every = job_list_columns(ages.now(), one_project=project is not None)
                shown = [each for each in every if not each.wide]
                screen.draw(shown, rows)

            redraw(table, interval, rounds)
            return
    documents = document(found)
    shown = job_list_columns(ages.now(), one_project=project is not None)
    show(output, shown, found, documents=documents, title=title, headings=not no_headers)
    if not found and output in (None, "wide"):
        _say_none(options, project, is_filtered=bool(statuses or user or labels or type_ or framework or offset))


def _say_none(options: GlobalOptions, project: str | None, *, is_filtered: bool) -> None:
    where = f"in project {project}" if project is not None else "that you can see"
    if is_filtered:
        options.notice(f"There are no matching {options.kind.noun}s {where}.")
        return
    if options.kind is not EVERY_KIND:
        options.notice(f"There are no {options.kind.noun}s {where}.")
        return
    options.notice(f"There are no jobs {where}. To submit one: runai submit NAME -i IMAGE -g 0.5 -- COMMAND")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A filter of jobs; statuses are in lower case, those of the older command or phases."""

    statuses: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: KindFilter = EVERY_KIND
    type: str | None = None
    framework: str | None = None
    offset: int = 0
    limit: int | None = None

    def filters(self) -> list[str]:
        """What the server can leave out."""
        types = {*self.kind.types, *([self.type] if self.type else [])}
        return [f"type=={next(iter(types))}"] if len(types) == 1 else []

    def of(self, jobs: Sequence[WorkloadItem]) -> list[WorkloadItem]:
        """Those that match, by project and name; numbers in names by value: v2 before v10."""
        chosen = [each for each in jobs if self._holds(each)]
        chosen.sort(key=lambda each: (natural(each.project_name), natural(each.name)))
        return chosen[self.offset : None if self.limit is None else self.offset + self.limit]

    def _holds(self, each: WorkloadItem) -> bool:
        words = {each.classic_status.lower(), each.phase.lower()}
        return (
            self.kind.includes(each.type, each.distributed_framework)
            and self.type in (None, each.type)
            and self.framework in (None, each.distributed_framework)
            and (not self.statuses or bool(self.statuses & words))
            and all(each.labels.get(key) == value for key, value in self.labels.items())
        )


def _statuses(words: Sequence[str]) -> frozenset[str]:
    """The statuses of `--status`, separated by commas or repeated; an unknown one is refused."""
    if not words:
        return frozenset()
    from fairpool.model.status import CLASSIC_WORDS  # takes 15 ms

    known = {word.lower(): word for word in CLASSIC_WORDS}
    choices = f"use one of {', '.join(CLASSIC_WORDS)}"
    asked = [part.strip() for word in words for part in word.split(",") if part.strip()]
    problems = [
        Problem("list.status", f"unknown status {word}", did_you_mean(word, known.values(), choices))
        for word in asked
        if word.lower() not in known
    ]
    if problems:
        raise Failure(problems)
    return frozenset(word.lower() for word in asked)


def _labels(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    wrong = [text for text, (key, equals, _) in zip(texts, pairs, strict=True) if not key or not equals]
    if wrong:
        raise failure("list.label", f"{wrong[0]} is not a valid label", "write KEY=VALUE, as in --label team=vision")
    return {key: value for key, _, value in pairs}


def job_list_columns(at: datetime, *, one_project: bool) -> list[Column[WorkloadItem]]:
    """The eleven columns of the older command, then what is measured; more with `-o wide`."""
    return [
        Column("NAME", lambda each: each.name),
        Column("STATUS", lambda each: each.classic_status or each.phase),
        Column("AGE", lambda each: ages.age(each.created_at, at)),
        Column("NODE", node_cell, spare=2),
        Column("IMAGE", lambda each: ", ".join(each.images), spare=9),
        Column("TYPE", type_word, spare=5),
        Column("PROJECT", lambda each: each.project_name, spare=8 if one_project else 0),
        Column("USER", lambda each: each.submitted_by, spare=7),
        Column("GPUs Allocated (Requested)", gpus_cell),
        Column("PODs Running (Pending)", pods_cell, spare=6),
        Column("SERVICE URL(S)", lambda each: ", ".join(each.urls), spare=4),
        Column("GPU UTIL", lambda each: figures.brief_percent(figures.utilization(each.measured)), spare=1),
        Column("PROGRESS", lambda each: figures.brief_percent(figures.progress(each.measured)), spare=3),
        Column("GPU MEMORY", lambda each: figures.size(figures.gpu_memory(each.measured)), wide=True),
        Column("CPU", lambda each: figures.cores(figures.cpu(each.measured)), wide=True),
        Column("MEMORY", lambda each: figures.size(figures.memory(each.measured)), wide=True),
        Column("NODE POOL", lambda each: ", ".join(each.current_node_pools), wide=True),
        Column("PRIORITY", lambda each: each.priority_class_name or str(each.priority), wide=True),
        Column("ID", lambda each: each.id, wide=True),
        Column("MESSAGE", lambda each: each.phase_message, wide=True),
    ]


def type_word(each: WorkloadItem) -> str:
    """The type, as the older command names it."""
    match each.type:
        case "Workspace":
            return "Interactive-Preemptible" if each.preemptible else "Interactive"
        case "Inference":
            return "Inference"
        case _:
            return "Train"


def node_cell(each: WorkloadItem) -> str:
    return "<multiple>" if len(each.current_nodes) > 1 else "".join(each.current_nodes)


def gpus_cell(each: WorkloadItem) -> str:
    """`0.30 (0.30)`; of a finished job, `- (0.30)`; of a request by memory, `0.13 (4096MiB)`."""
    held = each.allocated_resources.gpu
    return f"{'-' if each.phase in FINISHED and not held else f'{held:.2f}'} ({gpus_asked(each)})"


def gpus_asked(each: WorkloadItem, parts: int = 1) -> str:
    """What all its pods request, divided by `parts`: GPUs, or GPU memory."""
    asked = each.workload_requested_resources
    if asked.gpu_memory_mib is not None:
        return f"{asked.gpu_memory_mib // parts}MiB"
    return f"{asked.gpu.request / parts:.2f}"


def pods_cell(each: WorkloadItem) -> str:
    """`1 (0)`: running and waiting pods."""
    waiting = each.requested_pods.number if each.phase == "Creating" else each.pending_pods
    return f"{each.running_pods} ({waiting})"


def running_seconds(each: WorkloadItem) -> int:
    """How long it has run, or ran."""
    if each.started_at is None:
        return 0
    end = ages.moment(each.completed_at) if each.completed_at else ages.now()
    return max(0, int((end - ages.moment(each.started_at)).total_seconds()))
