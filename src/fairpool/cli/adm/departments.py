"""`runai-adm department`: list, get, create, update, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairpool.api.limits import PROJECT_NAME_MAX
from fairpool.api.record import document
from fairpool.cli.adm.names import check_name, find_named
from fairpool.cli.adm.quota_flags import changed_quotas, is_given, quota_flags
from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import output_flag, show, show_one
from fairpool.cli.runai.projects import pool_line, pool_text, quota_text
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column, printable

if TYPE_CHECKING:
    from fairpool.api.organization import Department


@command("list", "runai-adm department list", with_project=False)
@output_flag
@click.pass_obj
def list_departments(options: GlobalOptions, output: str | None) -> None:
    """List departments with their quota and projects."""
    with Session(options).connected() as client:
        found = sorted(client.departments(), key=lambda each: each.name)
    columns: list[Column[Department]] = [
        Column("NAME", lambda each: each.name),
        Column("GPU QUOTA", department_quota_text),
        Column("ALLOCATED", lambda each: f"{each.allocated_gpus:.2f}"),
        Column("PROJECTS", lambda each: ", ".join(each.projects) or "-"),
        Column("POOLS", lambda each: "; ".join(pool_line(each) for each in each.resources), wide=True),
        Column("DESCRIPTION", lambda each: each.description, wide=True),
    ]
    show(output, columns, found, documents=document(found))
    if output in (None, "wide"):
        options.warn_each(warning for each in found for warning in each.warnings)


@command("get", "runai-adm department get research", with_project=False)
@click.argument("name")
@output_flag
@click.pass_obj
def get_department(options: GlobalOptions, name: str, output: str | None) -> None:
    """Show a department."""
    with Session(options).connected() as client:
        found = find_named("department", name, client.departments())
    pairs = [
        ("NAME", found.name),
        ("DESCRIPTION", found.description),
        ("GPU QUOTA", department_quota_text(found)),
        ("ALLOCATED GPUS", f"{found.allocated_gpus:.2f}"),
        *(
            (f"NODE POOL {each.node_pool.name or each.node_pool.id}".upper(), pool_text(each))
            for each in found.resources
        ),
        ("PROJECTS", ", ".join(found.projects) or "-"),
        *(("WARNING", warning) for warning in found.warnings),
    ]
    show_one(output, found, pairs)


@command("create", "runai-adm department create research --gpu-quota 8", with_project=False)
@click.argument("name")
@quota_flags
@flag("--description", metavar="TEXT", help="Description of the department.")
@flag("--cluster", metavar="NAME", help="Only for projects of this cluster (default: of all clusters).")
@click.pass_obj
def create_department(
    options: GlobalOptions, /, name: str, node_pool: str, description: str | None, cluster: str | None, **asked: Any
) -> None:
    """Create a department. Without --gpu-quota, its quota is the sum of its projects' quotas.

    With `--gpu-quota unlimited`, nothing that its projects use counts as over the department's quota.
    """
    check_name(name, PROJECT_NAME_MAX)
    resources = changed_quotas([], node_pool, asked, may_be_unset=True)
    with Session(options).connected() as client:
        where = {"clusterId": cluster} if cluster else {}
        made = client.create_department(
            {"name": name, "description": description or "", "resources": resources, **where},
        )
    click.echo(f"Department {printable(name)} created successfully.")
    options.warn_each(made.warnings)


@command("update", "runai-adm department update research --gpu-quota 12", with_project=False)
@click.argument("name")
@quota_flags
@flag("--description", metavar="TEXT", help="Description of the department.")
@click.pass_obj
def update_department(
    options: GlobalOptions, /, name: str, node_pool: str, description: str | None, **asked: Any
) -> None:
    """Change a department. Settings that you do not name keep their values.

    With `--gpu-quota unset`, its quota is the sum of its projects' quotas again.
    """
    if not is_given(asked) and description is None:
        raise failure("command.no_change", "nothing to change", "see `runai-adm department update --help`")
    with Session(options).connected() as client:
        before = find_named("department", name, client.departments())
        said = {
            "name": name,
            "description": before.description if description is None else description,
            "resources": changed_quotas(before.resources, node_pool, asked, may_be_unset=True),
        }
        made = client.replace_department(said, before.revision)
    click.echo(f"Department {printable(name)} updated successfully.")
    options.warn_each(made.warnings)


@command("delete", "runai-adm department delete research", with_project=False)
@click.argument("name")
@click.pass_obj
def delete_department(options: GlobalOptions, name: str) -> None:
    """Delete a department. It must have no projects."""
    with Session(options).connected() as client:
        find_named("department", name, client.departments())
        client.delete_department(name)
    click.echo(f"Department {printable(name)} deleted successfully.")


def department_quota_text(found: Department) -> str:
    """The GPU quota of a department; where it is not set, the sum of its projects' quotas."""
    owed = quota_text(found.total_resources.gpu_quota)
    return owed if found.quota_is_set else f"not set (follows its projects: {owed})"
