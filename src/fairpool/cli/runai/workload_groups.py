"""The newer commands `runai training`, `workspace`, `inference` and `workload`: one group for each kind of workload.

Their verbs are the commands of `runai` itself, limited to jobs of that kind; `submit` has the kind fixed, and the
newer names of its flags as well.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from fairpool.cli.lazy_group import LazyCommand, lazy
from fairpool.cli.runai.flags import EVERY_KIND, GlobalOptions, Group, KindFilter

VERBS = {
    "list": ("List {noun}s.", "fairpool.cli.runai.jobs:list_jobs", "-p team-a"),
    "describe": ("Show one {noun} in detail.", "fairpool.cli.runai.details:describe_job", "hyper1"),
    "logs": ("Show the output of one {noun}.", "fairpool.cli.runai.logs:logs", "hyper1 --tail 100 -f"),
    "bash": ("Open a shell.", "fairpool.cli.runai.shells:bash", "hyper1"),
    "exec": ("Run a command.", "fairpool.cli.runai.shells:exec_command", "-it hyper1 -- bash"),
    "attach": ("Attach to the main process.", "fairpool.cli.runai.shells:attach", "hyper1"),
    "port-forward": (
        "Forward local ports.",
        "fairpool.cli.runai.port_forward:port_forward",
        "hyper1 --port 8888:8888",
    ),
    "suspend": ("Stop {noun}s so that they can be resumed.", "fairpool.cli.runai.operations:suspend", "hyper1"),
    "resume": ("Queue suspended {noun}s again.", "fairpool.cli.runai.operations:resume", "hyper1"),
    "delete": ("Stop and delete {noun}s.", "fairpool.cli.runai.operations:delete", "hyper1"),
}
KINDS = {
    "workspace": KindFilter("workspace", ("Workspace",)),
    "training": KindFilter("training", ("Training", "Distributed")),
    "standard": KindFilter("standard training", ("Training",)),
    "pytorch": KindFilter("PyTorch training", ("Distributed",), "PyTorch"),
    "mpi": KindFilter("MPI training", ("Distributed",), "MPI"),
    "tensorflow": KindFilter("TensorFlow training", ("Distributed",), "TF"),
    "xgboost": KindFilter("XGBoost training", ("Distributed",), "XGBoost"),
    "inference": KindFilter("inference", ("Inference",)),
    "workload": KindFilter("workload", ()),
}
FRAMEWORKS = ("standard", "pytorch", "mpi", "tensorflow", "xgboost")
OLDER_NAME = "submit-mpi"
OLDER_SUBMIT = ("-i", "--image", "--")
"""What a line of the older command has at least one of."""
NOT_OF_MODELS = ("attach", "suspend", "resume")
SWEEP: dict[str, Any] = {
    "completions": None,
    "parallelism": None,
    "array": None,
    "array_for": (),
    "array_args": None,
    "elastic": False,
}
NOT_TAKEN: dict[str, dict[str, Any]] = {
    "workspace": {"interactive": True, "inference": False, "replicas": None, **SWEEP},
    "training": {"interactive": False, "inference": False, "replicas": None, "preemptible": False, "jupyter": False},
    "inference": {"interactive": False, "inference": True, "preemptible": False, "jupyter": False, **SWEEP},
}
"""Flags of `runai submit` that a kind does not have, and what they would say."""


class KindGroup(Group):
    """Commands for one kind of workload."""

    def __init__(self, *args: Any, kind: KindFilter = EVERY_KIND, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.kind = kind

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.ensure_object(GlobalOptions).kind = self.kind
        return super().parse_args(ctx, args)


class OlderMpiGroup(KindGroup):
    """`runai mpi` is also the older name of `submit-mpi`: `runai mpi dist1 -i python -- mpirun python train.py`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and not args[0].startswith("-") and args[0] not in self.members
        if is_named and any(each in OLDER_SUBMIT or each.startswith("--image=") for each in args):
            args = [OLDER_NAME, *args]
        return super().parse_args(ctx, args)


def kind_group(name: str, parent: str = "runai") -> LazyCommand:
    """The group for one kind, by the name of its command."""
    text = f"Submit and manage {KINDS[name].noun}s."
    if name == "workload":
        text = "Manage jobs of every kind."
    return LazyCommand(text, lambda: _group(name, f"{parent} {name}", text), hidden=name in FRAMEWORKS)


def _group(name: str, path: str, text: str) -> click.Command:
    members = dict(_members(name, path))
    example = f"{path} submit hyper1 -i python -g 0.5 -- python train.py" if "submit" in members else f"{path} list -A"
    if path == "runai mpi":
        members[OLDER_NAME] = lazy("Submit.", "fairpool.cli.runai.distributed:submit_mpi", hidden=True)
        return OlderMpiGroup(name, help=text, example=example, members=members, kind=KINDS[name])
    return KindGroup(name, help=text, example=example, members=members, kind=KINDS[name])


def _members(name: str, path: str) -> Iterator[tuple[str, LazyCommand]]:
    noun = KINDS[name].noun
    if name != "workload":
        yield "submit", LazyCommand(f"Submit one {noun}.", lambda: _submit(name, f"{path} submit"))
    for verb, (text, place, words) in VERBS.items():
        if name != "inference" or verb not in NOT_OF_MODELS:
            load = lazy("", place).load
            example = f"Example: {path} {verb} {words}"
            yield verb, LazyCommand(text.format(noun=noun), lambda load=load, example=example: _with(load, example))  # type: ignore[misc]
    place = "fairpool.cli.runai.job_update:update_command"
    yield "update", lazy(f"Change one {noun}.", place, f"{path} update")
    if name == "training":
        yield from ((each, kind_group(each, path)) for each in FRAMEWORKS)


def _with(load: Callable[[], click.Command], example: str) -> click.Command:
    """The same command, whose help ends with an example in these words."""
    command = copy.copy(load())
    command.epilog = example
    return command


def _submit(name: str, path: str) -> click.Command:
    if name in FRAMEWORKS and name != "standard":
        from fairpool.cli.runai.distributed import framework_command, submit_framework

        return _submit_command(path, framework_command(name), {}, submit_framework(name))
    from fairpool.cli.runai.submit import perform
    from fairpool.cli.runai.submit import submit as plain

    return _submit_command(path, plain, NOT_TAKEN["training" if name == "standard" else name], perform)


def _submit_command(
    path: str,
    base: click.Command,
    fixed: Mapping[str, Any],
    act: Callable[[click.Context, dict[str, Any]], None],
) -> click.Command:
    """`base` with its newer flags; `fixed` is what the flags say that are left out."""
    from fairpool.cli.failure import Failure
    from fairpool.cli.runai import newer_flags
    from fairpool.cli.runai.submit import SubmitCommand
    from fairpool.model.problem import Problem

    @click.pass_context
    def submit(ctx: click.Context, /, **asked: Any) -> None:
        problems: list[Problem] = []
        said = newer_flags.translated({**fixed, **asked}, problems)
        if problems:
            raise Failure(problems)
        act(ctx, said)

    own = [*newer_flags.own_flags(), *(newer_flags.serving_flags() if fixed.get("inference") else ())]
    kept = [each for each in base.params if each.name not in fixed]
    return SubmitCommand(
        "submit",
        params=[*newer_flags.renamed(kept), *own],
        callback=submit,
        help=base.help,
        example=f"{path} hyper1 -i python -g 0.5 -- python train.py",
    )
