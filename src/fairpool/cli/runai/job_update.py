"""`runai update`: change a job after it was submitted.

The flags are those of `runai submit`. Values are merged with those that the job has, as flags over a job file are, and
only what differs is sent, under the revision that was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.client import Client, Refused
from fairpool.api.record import document
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai import newer_flags, port_flags, submission
from fairpool.cli.runai.flags import Flag, GlobalOptions
from fairpool.cli.runai.refused_commands import refusal
from fairpool.cli.runai.submit import LIFE, SubmitCommand, settle_command
from fairpool.cli.runai.submit import submit as plain
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem
from fairpool.model.spelling import nearest

if TYPE_CHECKING:
    from fairpool.api.workloads import Workload

NOT_TAKEN = frozenset(
    {
        *("name", "file", "named", "name_prefix", "interactive", "inference", "jupyter", "replicas", "template"),
        *("attach", "after", "workdir", "exclude", "array", "array_for", "array_args", "address", "elastic", "user"),
    }
)
"""Flags of `runai submit` that say what a job is, or belong to one submit."""
CLEARED = {
    "time-limit": "deadlineSeconds",
    "ttl-after-finish": "autoDeletionTimeAfterCompletionSeconds",
    "grace-period": "terminationGracePeriodSeconds",
    "backoff-limit": "backoffLimit",
    "priority": "priorityClass",
    "preemptible": "preemptibility",
    "node-type": "nodeType",
    "node-pools": "nodePools",
    "toleration": "tolerations",
    "working-dir": "workingDir",
    "command": "command",
    "args": "args",
    "environment": "environmentVariables",
    "label": "labels",
    "annotation": "annotations",
}
"""Flags whose value can be removed, and their fields."""
LISTS = frozenset({"nodePools", "tolerations", "environmentVariables"})
PAIRS = frozenset({"labels", "annotations"})
TRIES = 3
"""The job may be changed by another user between reading and writing."""


class UpdateCommand(SubmitCommand):
    """The flags of a submit, without those that say what a job is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = [each.partition("=")[0] for each in args[: args.index("--") if "--" in args else None]]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            known = {name for each in self.params for name in each.opts}
            of_submit = {name for each in plain.params if isinstance(each, Flag) for name in each.opts} - known
            for name in (each for each in typed if each.startswith("-") and each not in known):
                if name in of_submit:
                    raise _for_submit_only(ctx, name) from error
                if (near := nearest(name, known | of_submit)) and near[0] in of_submit:
                    raise _for_submit_only(ctx, name, near[0]) from error
            raise


def _for_submit_only(ctx: click.Context, name: str, meant: str = "") -> click.UsageError:
    first = f"there is no flag {name}: did you mean {meant}? It" if meant else name
    can = f"see `{ctx.command_path} --help` for what an update can change"
    return click.UsageError(f"{first} belongs to a submit: submit another job, or {can}", ctx)


def update_command(path: str) -> click.Command:
    """`runai update`, `runai training update` and the like."""
    kept = [each for each in plain.params if each.name not in NOT_TAKEN]
    name = click.Argument(["name"], required=False, shell_complete=job_names)
    return UpdateCommand(
        "update",
        params=[name, *newer_flags.renamed(kept), *newer_flags.own_flags(), *_own_flags()],
        callback=_update,
        help="Change a job that was submitted. Labels, limits, priority and the number of replicas change at once, "
        "but what a pod is started with (image, command, resources, mounts) only while the job waits or is suspended. "
        "Labels, variables and mounts are added to those that it has.",
        example=f"{path} hyper1 --time-limit 2h -l team=vision",
    )


def _own_flags() -> list[click.Parameter]:
    count, section = click.IntRange(1), "Changes"
    return [
        Flag(["--replicas", "--min-replicas"], type=count, section=section, help="Number of replicas of a model."),
        Flag(["--workers"], type=count, section=section, help="Number of workers of distributed training."),
        Flag(
            ["--clear"],
            multiple=True,
            type=click.Choice(sorted(CLEARED)),
            metavar="FLAG",
            section=section,
            help=f"Remove the value of a flag: {', '.join(CLEARED)}; repeatable.",
        ),
        Flag(["--remove-label"], multiple=True, metavar="KEY", section=section, help="Remove a label; repeatable."),
        Flag(
            ["--remove-environment"],
            multiple=True,
            metavar="KEY",
            section=LIFE,
            help="Remove an environment variable; repeatable.",
        ),
    ]


@click.pass_context
def _update(ctx: click.Context, /, **flags: Any) -> None:
    name = flags.pop("name")
    if name is None:
        if len(ctx.meta["argv"]) == 0 and ctx.command_path == "runai update":
            raise refusal("runai update", "upgrade")  # what the older command means by it
        raise failure("job.none", "no job was named", f"use {ctx.command_path} NAME FLAGS")
    options: GlobalOptions = ctx.obj
    problems: list[Problem] = []
    asked = newer_flags.translated({**_defaults(ctx), **flags}, problems)
    settle_command(ctx, options, asked)
    asked["large_shm"] = asked.pop("large_shdm") or asked["large_shm"]
    problems += submission.problems(asked)
    if problems:
        raise Failure(problems)
    _change(options, name, asked)


def _defaults(ctx: click.Context) -> dict[str, Any]:
    """What the flags of `runai submit` say that are not taken here."""
    with click.Context(plain, parent=ctx, info_name="submit") as inner:
        argv = ctx.meta["argv"]
        plain.parse_args(inner, [])
        ctx.meta["argv"] = argv  # contexts share it
        return {name: value for name, value in inner.params.items() if name in NOT_TAKEN}


def _change(options: GlobalOptions, name: str, asked: Mapping[str, Any]) -> None:
    from fairpool.cli.runai.session import Session, job

    session = Session(options)
    project = session.project()
    with session.connected() as client:
        found = job(client, project, name, options.kind)
        changed = _sent(client, found.id, asked)
    if changed is None:
        options.notice(f"Job {found.name} is as the flags say; nothing was changed.")
        return
    if asked["output"] in ("json", "yaml"):
        from fairpool.cli.runai.listing import show_document

        show_document(asked["output"], document(changed))
    elif asked["output"] == "name":
        click.echo(printable(changed.name))
    elif not asked["dry_run"]:
        click.echo(f"Job {printable(changed.name)} updated successfully.")
    if asked["dry_run"]:
        from fairpool.cli.runai.sending import forecast_lines

        click.echo(f"{printable(changed.name)} could be changed so; nothing was changed.", err=True)
        for line in forecast_lines(changed.forecast):
            click.echo(printable(line), err=True)
    options.warn_each(changed.warnings or [])


def _sent(client: Client, workload: str, asked: Mapping[str, Any]) -> Workload | None:
    """The job with its changes; read again and repeated if it was changed meanwhile. None: there is none to make."""
    for number in range(TRIES):
        current = client.workload(workload)
        fields = changes(current.type, document(current.spec), asked)
        if not fields:
            if not (changes(current.type, {}, asked) or asked["clear"] or asked["remove_label"]):
                what = "no flag says what to change"
                raise failure("update.nothing", what, "add one, such as --time-limit 2h")
            return None
        try:
            return client.update(
                current, fields, wait_anyway=bool(asked["wait_anyway"]), dry_run=bool(asked["dry_run"])
            )
        except Refused as refusal:
            if refusal.status != 412 or number + 1 == TRIES:
                raise
    raise AssertionError("the last try answers or raises")


def changes(kind: str, current: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ from those of the job, with their new values. Pure."""
    current = {name: _pairs(value) if name in PAIRS else value for name, value in current.items()}
    asked = port_flags.with_kept_type(asked, current)
    if problems := port_flags.unmapped(asked):
        raise Failure(problems)
    said = submission.document({**asked, "inference": False}, project="", cluster=None, command_line="")["spec"]
    said |= _size(kind, current, asked)
    merged = dict(submission.over({"spec": current}, {"spec": said}, asked)["spec"])
    for name in asked["clear"]:
        field = CLEARED[name]
        merged[field] = {} if field in PAIRS else [] if field in LISTS else None
    _remove(merged, asked["remove_label"], asked["remove_environment"])
    gone = {name: None for name in current if name not in merged}
    return {name: value for name, value in {**merged, **gone}.items() if value != current.get(name, _unset(name))}


def _pairs(shown: Any) -> Any:
    """Labels and annotations by name; the API shows them as a list."""
    return {each["name"]: each["value"] for each in shown} if isinstance(shown, list) else shown


def _unset(field: str) -> Any:
    return {} if field in PAIRS else [] if field in LISTS else None


def _size(kind: str, current: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    replicas, workers = asked["replicas"], asked["workers"]
    if replicas is not None and kind == "Inference":
        return {"autoscaling": {**(current.get("autoscaling") or {}), "minReplicas": replicas, "maxReplicas": replicas}}
    if workers is not None and kind == "Distributed":
        return {"numWorkers": workers, **({"maxReplicas": workers} if "maxReplicas" in current else {})}
    wrong = [("--replicas", "a model", replicas), ("--workers", "distributed training", workers)]
    for flag, noun, value in wrong:
        if value is not None:
            raise failure("flag.other_kind", f"{flag} is for {noun}, and this is a {kind}", "leave it out")
    return {}


def _remove(spec: dict[str, Any], labels: Sequence[str], variables: Sequence[str]) -> None:
    if labels:
        spec["labels"] = {key: value for key, value in (spec.get("labels") or {}).items() if key not in labels}
    if variables:
        kept = [each for each in spec.get("environmentVariables") or [] if each.get("name") not in variables]
        spec["environmentVariables"] = kept
