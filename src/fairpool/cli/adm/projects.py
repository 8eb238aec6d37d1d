"""`runai-adm project`: list, get, create, update, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Refused
from fairpool.api.limits import PROJECT_NAME_MAX
from fairpool.api.record import document
from fairpool.cli.adm.names import check_name, find_named
from fairpool.cli.adm.quota_flags import changed_quotas, is_given, quota_flags
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.cluster_choice import cluster_flag
from fairpool.cli.runai.flags import GlobalOptions, command, flag, project_names
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.projects import pool_line, project_facts, projects_of, quota_text
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.organization import Project

RULES = "Scheduling"
LIMITS = {
    "interactive_time_limit": "interactiveJobTimeLimitSeconds",
    "train_time_limit": "trainingJobTimeLimitSeconds",
    "interactive_idle_limit": "interactiveJobMaxIdleDurationSeconds",
    "interactive_preemptible_idle_limit": "interactiveJobPreemptIdleDurationSeconds",
    "train_idle_limit": "trainingJobMaxIdleDurationSeconds",
}
"""Flags to fields."""


def project_flags(command: Any) -> Any:
    """Flags of a project besides its quota."""
    for decorate in reversed(
        (
            flag("--department", metavar="NAME", help="Department of the project."),
            flag("--description", metavar="TEXT", help="Description of the project."),
            flag("--default-node-pools", metavar="NAMES", section=RULES, help="Default node pools, in order: a,b."),
            flag(
                "--interactive-time-limit",
                metavar="TIME",
                section=RULES,
                help="How long an interactive job may run, such as 8h; 0 for no limit.",
            ),
            flag("--train-time-limit", metavar="TIME", section=RULES, help="The same for training jobs."),
            flag(
                "--interactive-idle-limit",
                metavar="TIME",
                section=RULES,
                help="How long an interactive job may leave its GPUs idle.",
            ),
            flag(
                "--interactive-preemptible-idle-limit",
                metavar="TIME",
                section=RULES,
                help="The same for preemptible interactive jobs.",
            ),
            flag(
                "--train-idle-limit",
                metavar="TIME",
                section=RULES,
                help="The same for training jobs.",
            ),
            flag(
                "--node-types-train",
                metavar="NAMES",
                section=RULES,
                help="Run training jobs only on nodes with these run.ai/type labels: a,b.",
            ),
            flag("--node-types-interactive", metavar="NAMES", section=RULES, help="The same for interactive jobs."),
        )
    ):
        command = decorate(command)
    return command


@command("list", "runai-adm project list -o wide", with_project=False)
@cluster_flag
@output_flag
@click.pass_obj
def list_projects(options: GlobalOptions, cluster: str | None, output: str | None) -> None:
    """List projects with their quota and usage."""
    session = Session(options)
    with session.connected() as client:
        found, choice = projects_of(session, client, cluster)
    columns: list[Column[Project]] = [
        Column("NAME", lambda each: each.name),
        *choice.column(lambda each: each.cluster_id),
        Column("DEPARTMENT", lambda each: each.parent.name),
        Column("STATUS", lambda each: each.status.phase),
        Column("GPU QUOTA", lambda each: quota_text(each.total_resources.gpu_quota)),
        Column("ALLOCATED", lambda each: f"{each.allocated_gpus:.2f}"),
        Column("JOBS", lambda each: str(each.workloads)),
        Column("POOLS", lambda each: "; ".join(pool_line(each) for each in each.resources), wide=True),
        Column("DESCRIPTION", lambda each: each.description, wide=True),
    ]
    show(output, columns, found, documents=document(found))
    if output in (None, "wide"):
        options.warn_each(warning for each in found for warning in each.warnings)


@command("get", "runai-adm project get team-a", with_project=False)
@click.argument("name", shell_complete=project_names)
@output_flag
@click.pass_obj
def get_project(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a project."""
    with Session(options).connected() as client:
        found = find_named("project", name, client.projects())
    show_one(output, found, project_facts(found))


@command("create", "runai-adm project create team-a --gpu-quota 4 --department default", with_project=False)
@click.argument("name")
@flag("--cluster", metavar="NAME", help="Cluster of the project (default: the one set with `runai config cluster`).")
@flag(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Make the members of this group of the identity provider researchers in the project; repeatable.",
)
@quota_flags
@project_flags
@click.pass_obj
def create_project(
    options: GlobalOptions, /, name: str, node_pool: str, cluster: str | None, groups: tuple[str, ...], **asked: Any
) -> None:
    """Create a project. The default quota is 0: everything that the project runs is then over quota.

    If there is more than one cluster, choose one with --cluster or `runai config cluster`.
    """
    session = Session(options)
    check_name(name, PROJECT_NAME_MAX)
    said = _said(asked, None)
    chosen = cluster or session.default("cluster")
    if chosen:
        said["clusterId"] = chosen
    request = {"name": name, "resources": changed_quotas([], node_pool, asked), **said}
    with session.connected() as client:
        made = client.create_project(request)
        click.echo(f"Project {printable(name)} created successfully.")
        for group in groups:
            rule = {"subjectId": group, "subjectType": "group", "roleId": "researcher", "scopeId": name}
            client.create_access_rule(rule)
            click.echo(f"Role researcher granted to group {printable(group)}.")
    options.warn_each(made.warnings)


@command("update", "runai-adm project update team-a --gpu-quota 6", with_project=False)
@click.argument("name", shell_complete=project_names)
@quota_flags
@project_flags
@click.pass_obj
def update_project(options: GlobalOptions, /, name: str, node_pool: str, **asked: Any) -> None:
    """Change a project. Settings that you do not name keep their values.

    If the project is changed by another request at the same time, the update is refused.
    """
    with Session(options).connected() as client:
        before = find_named("project", name, client.projects())
        said = _said(asked, before)
        if is_given(asked):
            said["resources"] = changed_quotas(before.resources, node_pool, asked)
        if not said:
            raise failure("command.no_change", "nothing to change", "see `runai-adm project update --help`")
        made = client.update_project(name, said, before.revision)
    click.echo(f"Project {printable(name)} updated successfully.")
    options.warn_each(made.warnings)


@command("delete", "runai-adm project delete team-a --move-jobs-to team-b", with_project=False)
@click.argument("name", shell_complete=project_names)
@flag("--delete-jobs", is_flag=True, help="Stop and delete the project's jobs.")
@flag("--move-jobs-to", metavar="PROJECT", shell_complete=project_names, help="Move the jobs to another project.")
@click.pass_obj
def delete_project(options: GlobalOptions, name: str, delete_jobs: bool, move_jobs_to: str | None) -> None:
    """Delete a project. If it still has jobs, add --delete-jobs or --move-jobs-to."""
    if delete_jobs and move_jobs_to:
        raise failure("flag.both", "--delete-jobs and --move-jobs-to cannot be used together", "leave one out")
    with Session(options).connected() as client:
        find_named("project", name, client.projects())
        choice = "delete" if delete_jobs else "move" if move_jobs_to else None
        try:
            client.delete_project(name, workloads=choice, move_to=move_jobs_to)
        except Exception as error:
            raise _undecided(error) from error
    click.echo(f"Project {printable(name)} deleted successfully.")


def _undecided(error: Exception) -> Exception:
    """A refusal that asks for a decision, with the flags that make it."""
    if not isinstance(error, Refused) or not any(each.code == "project.has_work" for each in error.problems):
        return error
    fix = "add --delete-jobs or --move-jobs-to PROJECT"
    return Failure([Problem(each.code, each.what, fix) for each in error.problems])


def _said(asked: dict[str, Any], before: Project | None) -> dict[str, Any]:
    """The flags besides the quota, as fields of the API."""
    said: dict[str, Any] = {}
    if asked["department"] is not None:
        said["parentId"] = asked["department"]
    if asked["description"] is not None:
        said["description"] = asked["description"]
    if asked["default_node_pools"] is not None:
        said["defaultNodePools"] = _listed(asked["default_node_pools"])
    limits = _limits(asked)
    if limits:
        rules = document(before.scheduling_rules) if before is not None else {}
        said["schedulingRules"] = rules | limits
    types = {"training": asked["node_types_train"], "workspace": asked["node_types_interactive"]}
    if any(text is not None for text in types.values()):
        known = document(before.node_types) if before is not None else {}
        said["nodeTypes"] = known | {name: _listed(text) for name, text in types.items() if text is not None}
    return said


def _limits(asked: dict[str, Any]) -> dict[str, int | None]:
    """The limits that were given, as fields of the API; 0 removes one."""
    read = {LIMITS[name]: ages.seconds(asked[name]) for name in LIMITS if asked[name] is not None}
    wrong = [limit for limit in read.values() if isinstance(limit, Problem)]
    if wrong:
        raise Failure(wrong)
    return {field: limit or None for field, limit in read.items() if not isinstance(limit, Problem)}


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
