"""`runai list projects`, `describe project` and `config project`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.failure import failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.cluster_choice import ClusterChoice, choose, cluster_flag
from fairpool.cli.runai.flags import GlobalOptions, command, project_names
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.session import Session, check_project
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.organization import DepartmentResources, PoolResources, Project

CAPITAL = re.compile(r"([A-Z])")


@command("projects", "runai list projects", with_project=False)
@cluster_flag
@output_flag
@click.pass_obj
def list_projects(options: GlobalOptions, cluster: str | None, output: str | None) -> None:
    """List the projects that you can use, with their quotas."""
    session = Session(options)
    default = session.default_project
    with session.connected() as client:
        found, choice = projects_of(session, client, cluster)
    documents = document(found)
    columns: list[Column[Project]] = [
        Column("PROJECT", lambda each: f"{each.name} (default)" if _marked(each, default, output) else each.name),
        *choice.column(lambda each: each.cluster_id),
        Column("DEPARTMENT", lambda each: each.parent.name or "-", spare=3),
        Column("DESERVED GPUs", lambda each: quota_text(each.total_resources.gpu_quota)),
        Column("INT LIMIT", _interactive_limit, spare=1),
        Column("INT AFFINITY", lambda each: ";".join(each.node_types.workspace) or "-", spare=2),
        Column("TRAIN AFFINITY", lambda each: ";".join(each.node_types.training) or "-", spare=2),
        Column("ALLOCATED GPUs", lambda each: f"{each.allocated_gpus:.2f}", wide=True),
        Column("JOBS", lambda each: str(each.workloads), wide=True),
        Column("DESCRIPTION", lambda each: each.description, wide=True),
    ]
    show(output, columns, found, documents=documents)


def projects_of(session: Session, client: Client, cluster: str | None) -> tuple[list[Project], ClusterChoice]:
    """The projects of the chosen cluster, or of all."""
    found = client.projects()
    choice = choose(session, client, cluster, {each.cluster_id for each in found})
    chosen = [each for each in found if choice.includes(each.cluster_id)]
    return sorted(chosen, key=lambda each: each.name), choice


def _marked(each: Project, default: str | None, output: str | None) -> bool:
    return each.name == default and output != "name"


def quota_text(gpus: float) -> str:
    return "unlimited" if gpus == -1 else f"{gpus:g}"


def _interactive_limit(each: Project) -> str:
    limit = each.scheduling_rules.interactive_job_time_limit_seconds
    return "-" if limit is None else ages.exact(limit)


@command("project", "runai describe project team-a", with_project=False)
@click.argument("name", required=False, shell_complete=project_names)
@output_flag
@click.pass_obj
def describe_project(options: GlobalOptions, name: str | None, output: str | None) -> None:
    """Show a project with its quota, usage and rules. Without a name: the default project."""
    session = Session(options)
    chosen = name or session.project()
    with session.connected() as client:
        check_project(client, chosen)
        found = client.project(chosen)
    show_one(output, found, project_facts(found))


def project_facts(found: Project) -> list[tuple[str, str]]:
    """The facts of a project."""
    rules: dict[str, int] = document(found.scheduling_rules)
    return [
        ("NAME", found.name),
        ("NAMESPACE", found.status.namespace),
        ("STATUS", found.status.phase),
        ("DEPARTMENT", found.parent.name),
        ("DESCRIPTION", found.description),
        ("DESERVED GPUS", quota_text(found.total_resources.gpu_quota)),
        ("ALLOCATED GPUS", f"{found.allocated_gpus:.2f}"),
        ("JOBS", str(found.workloads)),
        *(
            (f"NODE POOL {each.node_pool.name or each.node_pool.id}".upper(), pool_text(each))
            for each in found.resources
        ),
        ("DEFAULT NODE POOLS", ", ".join(found.default_node_pools) or "-"),
        ("INTERACTIVE AFFINITY", ";".join(found.node_types.workspace) or "-"),
        ("TRAIN AFFINITY", ";".join(found.node_types.training) or "-"),
        *(
            (CAPITAL.sub(r" \1", name).upper().removesuffix(" SECONDS"), ages.exact(value))
            for name, value in rules.items()
        ),
    ]


def pool_line(owed: PoolResources | DepartmentResources) -> str:
    """`default: 4 GPUs, at most 8`."""
    return f"{owed.node_pool.name or owed.node_pool.id}: {pool_text(owed)}"


def pool_text(owed: PoolResources | DepartmentResources) -> str:
    """The quota in one pool, in a line."""
    quota = owed.gpu.deserved
    parts = ["GPU quota not set (follows its projects)" if quota is None else f"{quota_text(quota)} GPUs"]
    if owed.gpu.limit is not None:
        parts.append(f"at most {quota_text(owed.gpu.limit)}")
    if owed.gpu.over_quota is not None:
        parts.append(f"over quota {owed.gpu.over_quota}")
    if owed.cpu.deserved not in (None, -1):
        parts.append(f"{owed.cpu.deserved:g}m CPU")
    if owed.memory.deserved not in (None, -1):
        parts.append(f"{owed.memory.deserved:g} {owed.memory.units} memory")
    return ", ".join(parts)


@command("project", "runai config project team-a", with_project=False)
@click.argument("name", shell_complete=project_names)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def config_project(ctx: click.Context, name: str, rest: tuple[str, ...]) -> None:
    """Set the default project, which is used when -p is not given."""
    if rest and rest[0] != "runai":
        raise failure("command.too_much", f"unexpected arguments: {' '.join(rest)}", "give one project name")
    session = Session(ctx.obj)
    with session.connected() as client:
        check_project(client, name)
    session.set_default("project", name)
    click.echo(f"Project {printable(name)} has been set as default project")
    if rest:  # two commands whose line break was lost, as in a document that people copy from
        from fairpool.cli.runai.main import main

        main.main(list(rest[1:]), prog_name="runai", standalone_mode=False)


config_project.ignore_unknown_options = True
