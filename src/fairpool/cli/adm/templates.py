"""`runai-adm template`: list, get, create, update, delete. Its values are flags of `runai submit`, or a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.asset_calls import TEMPLATE as KIND
from fairpool.api.client import Client
from fairpool.api.record import document
from fairpool.cli.adm.asset_flags import (
    Say,
    asked_scope,
    asset_found,
    check_name,
    in_scope,
    require_change,
    scope_flags,
    stored,
    values_of,
)
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import submission
from fairpool.cli.runai.assets import scope_text
from fairpool.cli.runai.field_flags import FLAGS, refused_flag
from fairpool.cli.runai.flags import Command, Flag, GlobalOptions, command, template_names
from fairpool.cli.runai.listing import output_flag
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.submit import SubmitCommand
from fairpool.cli.runai.submit import submit as plain
from fairpool.cli.runai.templates import draw_templates, show_template
from fairpool.cli.screen import printable

if TYPE_CHECKING:
    from fairpool.api.assets import Template
    from fairpool.cli.runai.job_file import Job

TEMPLATE = "Template"
NOT_IN_TEMPLATES = frozenset(
    {
        *("named", "name_prefix", "template", "after", "workdir", "exclude", "dry_run", "output", "wait_anyway"),
        *("attach", "array", "array_for", "array_args", "jupyter"),
    }
)
"""Flags of `runai submit` that are for one job."""
NO_FIELD = "none"


def _template_flags() -> list[click.Parameter]:
    return [
        *scope_flags(TEMPLATE),
        Flag(
            ["--administrative/--no-administrative"],
            default=None,
            section=TEMPLATE,
            help="Apply it to every submit in its scope.",
        ),
        Flag(
            ["--require"],
            multiple=True,
            metavar="FLAG",
            section=TEMPLATE,
            help="A submit must have a value for this flag: --require gpu; repeatable; none: no flag.",
        ),
        Flag(
            ["--lock"],
            multiple=True,
            metavar="FLAG",
            section=TEMPLATE,
            help="A submit cannot change this flag; only with --administrative; repeatable; none: no flag.",
        ),
    ]


def _with_values(name: str, callback: Any, help_text: str, example: str) -> Command:
    own = {option for each in _template_flags() for option in each.opts}
    flags = [each for each in plain.params if each.name not in NOT_IN_TEMPLATES and not own & set(each.opts)]
    params = [*flags, *_template_flags()]
    return SubmitCommand(name, params=params, callback=callback, help=help_text, example=example, with_project=False)


@command("list", "runai-adm template list", with_project=False)
@output_flag
@click.pass_obj
def list_templates(options: GlobalOptions, output: str | None) -> None:
    """List workload templates."""
    with Session(options).connected() as client:
        draw_templates(options, client.templates(), output)


@command("get", "runai-adm template get batch_ops", with_project=False)
@click.argument("name", shell_complete=template_names)
@in_scope
@output_flag
@click.pass_obj
def get_template(options: GlobalOptions, /, name: str, output: str | None, **scope: str | None) -> None:
    """Show a workload template with its values."""
    with Session(options).connected() as client:
        found = _found(client, name, scope)
    show_template(found, output)


@command("delete", "runai-adm template delete batch_ops", with_project=False)
@click.argument("name", shell_complete=template_names)
@in_scope
@click.pass_obj
def delete_template(options: GlobalOptions, /, name: str, **scope: str | None) -> None:
    """Delete a workload template. Jobs that were submitted with it stay as they are."""
    with Session(options).connected() as client:
        found = _found(client, name, scope)
        client.delete_template(found.id)
    click.echo(f"Template {printable(name)} of {printable(scope_text(found))} deleted successfully.")


@click.pass_context
def _create(ctx: click.Context, /, **asked: Any) -> None:
    options: GlobalOptions = ctx.obj
    values_of(ctx, asked)
    job = _job(options, asked)
    name = check_name(asked["name"] or (job.body.get("name") if job is not None else None), "template")
    spec, types = _spec(asked, job)
    body = {
        "meta": {"name": name, **asked_scope(asked), "description": asked["description"] or "", **types},
        "spec": spec,
        "administrative": bool(asked["administrative"]),
        "required": _fields("--require", asked["require"]),
        "locked": _fields("--lock", asked["lock"]),
    }
    with Session(options).connected() as client:
        made = stored(lambda: client.create_asset(KIND, body), _say(job))
    click.echo(f"Template {printable(name)} of {printable(scope_text(made))} created successfully.")


@click.pass_context
def _update(ctx: click.Context, /, **asked: Any) -> None:
    options: GlobalOptions = ctx.obj
    require_change(ctx)
    values_of(ctx, asked)
    job = _job(options, asked)
    name = check_name(asked["name"] or (job.body.get("name") if job is not None else None), "template")
    spec, types = _spec(asked, job)
    with Session(options).connected() as client:
        found = _found(client, name, asked)
        before = document(found)
        merged = submission.over({"spec": before["spec"]}, {"spec": spec}, asked)["spec"]
        description = (found.meta.description or "") if asked["description"] is None else asked["description"]
        body = {
            "meta": {"name": found.meta.name, "description": description, **types},
            "spec": merged,
            "administrative": found.administrative if asked["administrative"] is None else asked["administrative"],
            "required": _fields("--require", asked["require"]) if asked["require"] else list(found.required),
            "locked": _fields("--lock", asked["lock"]) if asked["lock"] else list(found.locked),
        }
        stored(lambda: client.replace_asset(KIND, found.id, body, found.revision), _say(job))
    click.echo(f"Template {printable(name)} of {printable(scope_text(found))} updated successfully.")


def create_template() -> Command:
    return _with_values(
        "create",
        _create,
        "Create a workload template. Its values are given as for `runai submit`: by flags, after --, or with -f FILE. "
        "Without --project, --department or --cluster it is for all projects.",
        "runai-adm template create batch_ops -i python -g 0.5 --require environment",
    )


def update_template() -> Command:
    return _with_values(
        "update",
        _update,
        "Change a workload template. Values that you do not name stay; jobs that were submitted with it do too.",
        "runai-adm template update batch_ops -g 1",
    )


# --- from flags to a template --------------------------------------------------------------------------------------


def _job(options: GlobalOptions, asked: Mapping[str, Any]) -> Job | None:
    """The job of the file, checked; None: there is no file."""
    if not asked["file"]:
        return None
    from fairpool.cli.runai import job_file  # loads YAML and the models of the API
    from fairpool.cli.runai.sending import jobs_in

    jobs = jobs_in(asked["file"])
    if len(jobs) != 1:
        what = f"{asked['file']} contains {len(jobs)} jobs, and a template is one"
        raise failure("file.too_many", what, "put each in a file of its own")
    job = jobs[0]
    single = [name for name in job.body if name not in ("name", "projectId", "spec")]
    single += [name for name, value in (("workdir", job.workdir), ("exclude", job.exclude)) if value]
    if single:
        what = f"{job.where((single[0],))}: {single[0]} cannot be in a template"
        raise failure("file.not_in_template", what, "remove it: it is for one job")
    if "projectId" in job.body:
        options.notice("Note: projectId of the file is not used; --project says for which project a template is.")
    checked = job_file.checked(replace(job, body={"spec": {}, **job.body, "projectId": "template"}))
    if isinstance(checked, list):
        raise Failure(checked)
    return replace(job, body={**job.body, "spec": checked["spec"]})


def _spec(asked: Mapping[str, Any], job: Job | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values, and the kind of workload that they are for if one was named."""
    kind = submission.kind_of(asked, "")
    spec: dict[str, Any] = submission.document(asked, project="", cluster=None, command_line="")["spec"]
    if job is not None:
        spec = submission.over({"spec": job.body["spec"]}, {"spec": spec}, asked)["spec"]
        kind = kind or (job.kind if ("kind",) in job.lines else "")
    return spec, {"workloadSupportedTypes": {kind.lower(): True}} if kind else {}


def _say(job: Job | None) -> Say:
    """Refusals of the server by flag, or by line of the file."""
    if job is None:
        return refused_flag
    from fairpool.cli.runai.sending import by_line

    return lambda problem, field: by_line(job, problem, field)


def _found(client: Client, name: str, asked: Mapping[str, Any]) -> Template:
    found: Template = asset_found(client, client.templates(), "template", name, asked)
    return found


def _fields(option: str, texts: Sequence[str]) -> list[str]:
    """Fields by the flag that sets them: `gpu`, `--gpu`; or by their name in the API: `compute.gpu`."""
    by_flag = {known.removeprefix("--"): path.removeprefix("spec.") for path, known in reversed(FLAGS.items())}
    by_flag |= {"gpu": "compute.gpu"}  # which is refused in other ways too
    found = []
    for word in (word for text in texts for word in text.split(",") if word != NO_FIELD):
        field = by_flag.get(word.removeprefix("--"), word)
        if f"spec.{field}" not in FLAGS and "." not in field and not field.isalnum():
            raise failure("flag.field", f"{option} {word!r} is not a flag of runai submit", "write e.g. gpu or image")
        found.append(field)
    return found
