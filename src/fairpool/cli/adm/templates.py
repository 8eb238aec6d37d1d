"""`runai-adm template`: list, get, create, update, delete. Its values are flags of `runai submit`, or a job file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client, Refused
from fairpool.api.limits import TEMPLATE_NAME_PATTERN
from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import submission
from fairpool.cli.runai.field_flags import FLAGS
from fairpool.cli.runai.flags import Command, Flag, GlobalOptions, command, flag, template_names
from fairpool.cli.runai.listing import output_flag
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.submit import SubmitCommand, settle_command
from fairpool.cli.runai.submit import submit as plain
from fairpool.cli.runai.templates import draw_templates, scope_text, show_template, template_called
from fairpool.cli.screen import printable

if TYPE_CHECKING:
    from fairpool.api.assets import Template

TEMPLATE = "Template"
SCOPES = ("project", "department", "cluster")
NOT_IN_TEMPLATES: Mapping[str, Any] = {
    "named": None,
    "name_prefix": None,
    "template": None,
    "after": (),
    "workdir": None,
    "exclude": (),
    "dry_run": False,
    "output": None,
    "wait_anyway": False,
    "attach": False,
    "array": None,
    "array_for": (),
    "array_args": None,
    "jupyter": False,
}
"""Flags of `runai submit` that are for one job, and what they would say by themselves."""
NO_FIELD = "none"
NAME = re.compile(TEMPLATE_NAME_PATTERN)


def _scope_flags() -> list[click.Parameter]:
    return [
        Flag(["--project", "-p"], metavar="NAME", section=TEMPLATE, help="Only for this project."),
        Flag(["--department"], metavar="NAME", section=TEMPLATE, help="Only for projects of this department."),
        Flag(["--cluster"], metavar="NAME", section=TEMPLATE, help="Only for projects of this cluster."),
    ]


def _template_flags() -> list[click.Parameter]:
    return [
        *_scope_flags(),
        Flag(["--description"], metavar="TEXT", section=TEMPLATE, help="Description of the template."),
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


def _in_scope(function: Any) -> Any:
    for name, text in zip(SCOPES, ("this project", "this department", "this cluster"), strict=True):
        names = ("--project", "-p") if name == "project" else (f"--{name}",)
        function = flag(*names, metavar="NAME", help=f"The template of {text}.")(function)
    return function


@command("get", "runai-adm template get batch_ops", with_project=False)
@click.argument("name", shell_complete=template_names)
@_in_scope
@output_flag
@click.pass_obj
def get_template(options: GlobalOptions, /, name: str, output: str | None, **scope: str | None) -> None:
    """Show a workload template with its values."""
    with Session(options).connected() as client:
        found = _found(client, name, scope)
    show_template(found, output)


@command("delete", "runai-adm template delete batch_ops", with_project=False)
@click.argument("name", shell_complete=template_names)
@_in_scope
@click.pass_obj
def delete_template(options: GlobalOptions, /, name: str, **scope: str | None) -> None:
    """Delete a workload template. Jobs that were submitted with it stay as they are."""
    with Session(options).connected() as client:
        found = _found(client, name, scope)
        client.delete_template(found.id)
    click.echo(f"Template {printable(name)} of {printable(scope_text(found))} deleted successfully.")


@click.pass_context
def _create(ctx: click.Context, /, **asked: Any) -> None:
    options, name = _settled(ctx, asked)
    meta = {"name": name, **_scope(asked), "description": asked["description"] or ""}
    spec, types = _spec(asked)
    body = {
        "meta": {**meta, **types},
        "spec": spec,
        "administrative": bool(asked["administrative"]),
        "required": _fields("--require", asked["require"]),
        "locked": _fields("--lock", asked["lock"]),
    }
    with Session(options).connected() as client:
        made = _stored(lambda: client.create_template(body))
    click.echo(f"Template {printable(name)} of {printable(scope_text(made))} created successfully.")


@click.pass_context
def _update(ctx: click.Context, /, **asked: Any) -> None:
    options, name = _settled(ctx, asked)
    spec, types = _spec(asked)
    with Session(options).connected() as client:
        found = _found(client, name, asked)
        before = document(found)
        merged = submission.over({"spec": before["spec"]}, {"spec": spec}, asked)["spec"]
        meta = {key: value for key, value in before["meta"].items() if key != "workloadSupportedTypes"} | types
        if asked["description"] is not None:
            meta["description"] = asked["description"]
        is_admin = found.administrative if asked["administrative"] is None else asked["administrative"]
        body = {
            "meta": meta,
            "spec": merged,
            "administrative": is_admin,
            "required": _fields("--require", asked["require"]) if asked["require"] else list(found.required),
            "locked": _fields("--lock", asked["lock"]) if asked["lock"] else list(found.locked),
        }
        _stored(lambda: client.replace_template(found.id, body, found.revision))
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


def _settled(ctx: click.Context, asked: dict[str, Any]) -> tuple[GlobalOptions, str]:
    """Complete the flags as `submit` does, and check the name; raises a failure with all that is wrong."""
    options: GlobalOptions = ctx.obj
    settle_command(ctx, options, asked)
    asked["large_shm"] = asked.pop("large_shdm") or asked["large_shm"]
    asked |= {name: value for name, value in NOT_IN_TEMPLATES.items() if name not in asked}
    name = asked["name"]
    if not name or not NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, _, . and -, such as batch_ops"
        what = f"{name!r} is not a valid template name" if name else "the template needs a name"
        raise failure("flag.name", what, fix)
    if problems := submission.problems(asked):
        raise Failure(problems)
    return options, name


def _spec(asked: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values, and the kind of workload that they are for if one was named."""
    kind = submission.kind_of(asked, "")
    spec: dict[str, Any] = submission.document(asked, project="", cluster=None, command_line="")["spec"]
    if asked["file"]:
        from fairpool.cli.runai.sending import jobs_in  # loads YAML and the models of the API

        jobs = jobs_in(asked["file"])
        if len(jobs) != 1:
            what = f"{asked['file']} contains {len(jobs)} jobs, and a template is one"
            raise failure("file.too_many", what, "put each in a file of its own")
        spec = submission.over({"spec": jobs[0].body.get("spec") or {}}, {"spec": spec}, asked)["spec"]
        kind = kind or (jobs[0].kind if jobs[0].kind != "Training" else "")
    return spec, {"workloadSupportedTypes": {kind.lower(): True}} if kind else {}


def _scope(asked: Mapping[str, Any]) -> dict[str, str]:
    given = [name for name in SCOPES if asked[name]]
    if len(given) > 1:
        what = f"the scope is given twice, --{given[0]} and --{given[1]}"
        raise failure("flag.scope", what, "leave out all but one")
    return {"scope": given[0], f"{given[0]}Id": asked[given[0]]} if given else {"scope": "tenant"}


def _found(client: Client, name: str, asked: Mapping[str, Any]) -> Template:
    said = _scope(asked)
    everything = client.templates()
    scope_id = next((value for key, value in said.items() if key != "scope"), "")
    if said["scope"] == "cluster":
        scope_id = next((each.uuid for each in client.clusters() if scope_id in (each.name, each.uuid)), scope_id)
    if scope_id:
        return template_called(everything, name, f"{said['scope']} {scope_id}")
    scopes = [scope_text(each) for each in everything if name in (each.meta.name, each.id)]
    if len(scopes) > 1:
        what = f"there are templates {name} of {', '.join(scopes)}"
        raise failure("template.several", what, "say which with --project, --department, --cluster, or its id")
    return template_called(everything, name)


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


def _stored(call: Any) -> Template:
    try:
        made: Template = call()
    except Refused as refusal:
        if refusal.status not in (409, 422):
            raise
        raise Failure([item.problem for item in refusal.items]) from refusal
    return made
