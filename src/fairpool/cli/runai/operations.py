"""`runai suspend`, `resume` and `delete`, for several jobs at a time."""

from __future__ import annotations

import sys

import click

from fairpool.api.client import Client
from fairpool.cli.failure import ERROR, failure, meant, print_problem
from fairpool.cli.runai.flags import KindFilter, command, flag
from fairpool.cli.runai.session import NAME, Session, check_project, other_kind
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable

NOUNS = frozenset({"job", "jobs"})
AT_ONCE = 1000

_names = click.argument("names", nargs=-1, shell_complete=job_names)
_all = flag("-A", "--all", "everything", is_flag=True, help="All jobs of the project.")


@command("delete", "runai delete -p team-d d-1-gggg d-2-gg d-3-gg")
@_names
@_all
@flag("-y", "--yes", is_flag=True, help="With --all, do not ask for confirmation.")
@flag("--force", is_flag=True, help="Kill the pods immediately, without a grace period.")
@click.pass_context
def delete(ctx: click.Context, names: tuple[str, ...], everything: bool, yes: bool, force: bool) -> None:
    """Stop and delete jobs, including their container files and logs.

    A job gets its grace period to stop. --force skips it, also for jobs that are already being deleted.
    """
    ask = everything and not yes and sys.stdin.isatty()
    _operate(ctx, "delete", "deleted", names, everything, ask=ask, force=force)


@command("suspend", "runai suspend hyper1")
@_names
@_all
@click.pass_context
def suspend(ctx: click.Context, names: tuple[str, ...], everything: bool) -> None:
    """Stop jobs and release their GPUs. The jobs stay in the list and can be resumed."""
    _operate(ctx, "suspend", "suspended", names, everything)


@command("resume", "runai resume hyper1")
@_names
@_all
@click.pass_context
def resume(ctx: click.Context, names: tuple[str, ...], everything: bool) -> None:
    """Queue suspended or finished jobs again."""
    _operate(ctx, "resume", "resumed", names, everything)


def _operate(
    ctx: click.Context,
    action: str,
    done: str,
    names: tuple[str, ...],
    everything: bool,
    *,
    ask: bool = False,
    force: bool = False,
) -> None:
    if len(names) > 1 and names[0] in NOUNS:
        names = names[1:]  # `delete job x`, the later spelling
    if bool(names) == everything:
        what = "job names and --all cannot be used together" if names else "no job was named"
        raise failure("job.none", what, f"use {ctx.command_path} NAME ... or {ctx.command_path} --all")
    noun = ctx.obj.kind.noun
    session = Session(ctx.obj)
    project = session.project()
    with session.connected() as client:
        if everything:
            found = _everything(client, project, ctx.obj.kind, leaving=force)
        else:
            found = _named(client, project, names, ctx.obj.kind, leaving=force)
        if ask and found:
            what = f"the only {noun}" if len(found) == 1 else f"all {len(found)} {noun}s"
            click.confirm(f"{action.capitalize()} {what} of project {project}?", abort=True)
        failed = _done(client, action, done, found, force)
    if everything and not found:
        ctx.obj.notice(f"There are no {noun}s in project {project}.")
    ctx.exit(ERROR if failed or len(found) < len(set(names)) else 0)


Found = dict[str, list[str]]
"""Ids by name: one that is being deleted may have the name of another."""


def _named(client: Client, project: str, names: tuple[str, ...], kind: KindFilter, *, leaving: bool) -> Found:
    """Ids by name. A name that does not exist is reported, and the others are still processed."""
    check_project(client, project)
    found: Found = {}
    for name in dict.fromkeys(names):
        known = client.find_workload(project, name) if NAME.fullmatch(name) else None
        if known is not None and not kind.includes(known.type, known.distributed_framework):
            print_problem(other_kind(known, kind))
            continue
        ids = [known.id] if known is not None else []
        if leaving and not ids and NAME.fullmatch(name):  # a new job of the same name is not meant with it
            leaving_ones = client.leaving_workloads(project, name)
            ids += [each.id for each in leaving_ones if kind.includes(each.type, each.distributed_framework)]
        if ids:
            found[name] = ids
            continue
        words = "If the job exists in a different project, use -p <project-name>."
        click.echo(f"Job {printable(name)} does not exist in project {printable(project)}. {words}", err=True)
        page = client.workloads(filters=[f"projectName=={project}", "desiredPhase!=Deleted"], limit=500)
        near = meant(name, [each.name for each in page.workloads])
        if near:
            click.echo(near, err=True)
    return found


def _everything(client: Client, project: str, kind: KindFilter, *, leaving: bool) -> Found:
    check_project(client, project)
    filters = [f"projectName=={project}"] if leaving else [f"projectName=={project}", "desiredPhase!=Deleted"]
    found: Found = {}
    for each in client.all_workloads(filters=filters):
        if kind.includes(each.type, each.distributed_framework):
            found.setdefault(each.name, []).append(each.id)
    return found


def _done(client: Client, action: str, done: str, found: Found, force: bool) -> bool:
    """Whether any of them failed."""
    listed = [workload for ids in found.values() for workload in ids]
    failures: dict[str, str] = {}
    for start in range(0, len(listed), AT_ONCE):
        answer = client.batch(listed[start : start + AT_ONCE], action, force=force)
        failures |= {each.id: each.message for each in answer.failed}
    for name, ids in found.items():
        wrong = [failures[workload] for workload in ids if workload in failures]
        if wrong:
            click.echo(f"Job {printable(name)} was not {done}: {printable(wrong[0])}", err=True)
        elif force:
            click.echo(f"Job {printable(name)} {done}. Its pods are killed without a grace period.")
        else:
            click.echo(f"Job {printable(name)} {done} successfully.")
    return bool(failures)
