"""`runai submit-dist` and `runai submit-mpi`: training over several pods that start together and find each other.

The flags are those of `runai submit` but for what makes no sense here, and some of its own. A master runs beside the
workers, of the same kind unless flags say otherwise; it is pod 0. The master of MPI is its launcher: the command runs
in it alone, and it has no GPU unless it is given one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from fairpool.cli.lazy_group import LazyCommand
from fairpool.cli.runai.flags import Flag, Group
from fairpool.cli.runai.submit import SubmitCommand, perform
from fairpool.cli.runai.submit import submit as plain

GANG = "Master and workers"
NOT_HERE = {
    "interactive": False,
    "inference": False,
    "replicas": None,
    "jupyter": False,
    "attach": False,
    "preemptible": False,
    "completions": None,
    "parallelism": None,
    "custom_url": None,
    "elastic": False,
    "array": None,
    "array_for": (),
    "array_args": None,
}
"""Flags of `runai submit` that are not taken, and what they would say by themselves."""
UNSAID: dict[str, Any] = {
    "workers": None,
    "min_replicas": None,
    "max_replicas": None,
    "no_master": False,
    "slots_per_worker": None,
    "clean_pod_policy": None,
    "master_gpu": None,
    "master_args": None,
    "master_environment": (),
    "master_extended_resource": (),
    "master_no_pvcs": False,
}
"""What the flags of master and workers say where they are not there."""


@dataclass(frozen=True, slots=True)
class FrameworkCommand:
    """One framework of `runai submit-dist`."""

    value: str
    """In the API."""
    noun: str
    effect: str
    """What its pods are given."""
    flags: tuple[str, ...] = ()
    """Those that not every framework has."""
    command: str = "python train.py"

    def example(self, path: str) -> str:
        return f"{path} dist1 -i python -g 1 --workers 2 -- {self.command}"


FRAMEWORKS = {
    "pytorch": FrameworkCommand(
        "PyTorch",
        "PyTorch",
        "The command after -- runs in every pod, with MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE set, and PET_* for "
        "torchrun. -g applies to each pod.",
        ("min_replicas", "max_replicas", "no_master"),
    ),
    "mpi": FrameworkCommand(
        "MPI",
        "MPI",
        "The command after -- runs in the launcher, which has no GPU of its own; the mpirun of Open MPI starts its "
        "processes in the workers. -g applies to each worker.",
        ("slots_per_worker",),
        "mpirun python train.py",
    ),
    "tf": FrameworkCommand(
        "TF",
        "TensorFlow",
        "The command after -- runs in every pod, with TF_CONFIG set: a chief and workers. -g applies to each pod.",
        ("no_master",),
    ),
    "xgboost": FrameworkCommand(
        "XGBoost",
        "XGBoost",
        "The command after -- runs in every pod, with MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE set, and DMLC_* of "
        "the tracker, which the program starts in rank 0. -g applies to each pod.",
    ),
}
NEWER_NAMES = {"tensorflow": "tf"}


def submit_dist() -> click.Command:
    """The command with its frameworks."""
    return Group(
        "submit-dist",
        help="Submit distributed training: several pods that start together.",
        example="runai submit-dist pytorch dist1 -i python -g 1 --workers 2 -- python train.py",
        members={
            name: LazyCommand(f"Submit {each.noun} training with {_pods(each)}.", partial(framework_command, name))
            for name, each in FRAMEWORKS.items()
        },
    )


def _pods(framework: FrameworkCommand) -> str:
    return "a launcher and workers" if framework.value == "MPI" else "a master and workers"


def framework_command(name: str) -> click.Command:
    """The flags of `runai submit`, and of workers and master."""
    framework = FRAMEWORKS[NEWER_NAMES.get(name, name)]
    return SubmitCommand(
        name,
        params=[*_common_flags(), *(each for each in _gang_flags() if _is_taken(each, framework))],
        callback=_callback(submit_framework(name)),
        help=f"Submit {framework.noun} training with {_pods(framework)} that start together or not at all. "
        f"{framework.effect}",
        example=framework.example(f"runai submit-dist {name}"),
    )


def submit_mpi() -> click.Command:
    """The older command: as many workers as processes."""
    mpi = FRAMEWORKS["mpi"]
    processes = Flag(
        ["--processes"], type=click.IntRange(1), default=1, section=GANG, help="Number of processes, each in a pod (1)."
    )
    return SubmitCommand(
        "submit-mpi",
        params=[*_common_flags(), processes],
        callback=_callback(_submit_processes),
        help=f"Submit MPI training: a launcher, and one worker for each process. {mpi.effect}",
        example="runai submit-mpi dist1 -i python -g 1 --processes 2 -- mpirun python train.py",
    )


def _submit_processes(ctx: click.Context, asked: dict[str, Any]) -> None:
    processes = asked.pop("processes")
    submit_framework("mpi")(ctx, {**asked, "workers": processes})


def submit_framework(name: str) -> Callable[[click.Context, dict[str, Any]], None]:
    """Submits with this framework, or reports everything that is wrong."""
    value = FRAMEWORKS[NEWER_NAMES.get(name, name)].value

    def submit(ctx: click.Context, asked: dict[str, Any]) -> None:
        perform(ctx, {**NOT_HERE, **UNSAID, **asked, "framework": value})

    return submit


def _callback(act: Callable[[click.Context, dict[str, Any]], None]) -> Callable[..., None]:
    @click.pass_context
    def callback(ctx: click.Context, /, **asked: Any) -> None:
        act(ctx, asked)

    return callback


def _common_flags() -> list[click.Parameter]:
    return [each for each in plain.params if each.name not in NOT_HERE]


def _is_taken(flag: click.Parameter, framework: FrameworkCommand) -> bool:
    of_some = {name for each in FRAMEWORKS.values() for name in each.flags}
    return flag.name not in of_some or flag.name in framework.flags


def _gang_flags() -> list[click.Parameter]:
    count = click.IntRange(1)
    return [
        Flag(["--workers"], type=count, section=GANG, help="Number of workers, besides the master (1)."),
        Flag(
            ["--slots-per-worker"],
            type=count,
            section=GANG,
            help="Number of processes that mpirun starts in each worker (1).",
        ),
        Flag(["--min-replicas"], type=count, section=GANG, help="Elastic: minimum number of workers to start with."),
        Flag(["--max-replicas"], type=count, section=GANG, help="Elastic: maximum number of workers."),
        Flag(["--no-master"], is_flag=True, section=GANG, help="Run workers only; the first acts as the master."),
        Flag(
            ["--master-gpu"],
            metavar="GPUS",
            section=GANG,
            help="GPUs of the master (default: as the workers; of an MPI launcher: none).",
        ),
        Flag(["--master-args"], metavar="WORDS", section=GANG, help="Arguments of the master, as one string."),
        Flag(
            ["--master-environment"],
            multiple=True,
            metavar="KEY=VALUE",
            section=GANG,
            help="Additional environment variable of the master; repeatable.",
        ),
        Flag(
            ["--master-extended-resource"],
            multiple=True,
            metavar="NAME=COUNT",
            section=GANG,
            help="Extended resource of the master; repeatable.",
        ),
        Flag(["--master-no-pvcs"], is_flag=True, section=GANG, help="Do not mount volume claims in the master."),
        Flag(
            ["--clean-pod-policy"],
            type=click.Choice(["Running", "All", "None"]),
            section=GANG,
            help="At the end: stop pods that run (Running), also remove all output (All), or stop none (None).",
        ),
    ]
