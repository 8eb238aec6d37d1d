"""`runai submit-dist`: training over several pods that start together and find each other.

The flags are those of `runai submit` but for what makes no sense here, and some of its own. A master runs beside the
workers, of the same kind unless flags say otherwise; it is pod 0. What needs more than the addresses of the others
(MPI's launcher, TensorFlow's description of its cluster) is refused by name.
"""

from __future__ import annotations

from typing import Any

import click

from fairpool.cli.failure import Failure, not_yet
from fairpool.cli.lazy_group import LazyCommand
from fairpool.cli.runai.flags import Flag, Group
from fairpool.cli.runai.submit import SubmitCommand, perform
from fairpool.cli.runai.submit import submit as plain
from fairpool.cli.runai.unsupported_commands import unsupported

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


def submit_dist() -> click.Command:
    """The command with its frameworks."""
    return Group(
        "submit-dist",
        help="Submit distributed training: several pods that start together.",
        example="runai submit-dist pytorch dist1 -i python -g 1 --workers 2 -- python train.py",
        members={
            "pytorch": LazyCommand("Submit PyTorch training with a master and workers.", pytorch),
            **{name: _refused(name) for name in ("mpi", "tf", "xgboost")},
        },
    )


def _refused(framework: str) -> LazyCommand:
    """A framework that is not supported yet."""
    return LazyCommand("Not supported yet.", lambda: unsupported("runai submit-dist", framework), hidden=True)


def pytorch() -> click.Command:
    """The flags of `runai submit`, and of workers and master."""
    return SubmitCommand(
        "pytorch",
        params=[*(each for each in plain.params if each.name not in NOT_HERE), *_gang_flags()],
        callback=_pytorch,
        help="Submit training with a master and workers that start together or not at all. The command after -- runs "
        "in every pod, with MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE set. -g applies to each pod.",
        example="runai submit-dist pytorch dist1 -i python -g 1 --workers 2 -- python train.py",
    )


def _gang_flags() -> list[click.Parameter]:
    count = click.IntRange(1)
    return [
        Flag(["--workers"], type=count, section=GANG, help="Number of workers, besides the master (1)."),
        Flag(["--min-replicas"], type=count, section=GANG, help="Elastic: minimum number of workers to start with."),
        Flag(["--max-replicas"], type=count, section=GANG, help="Elastic: maximum number of workers."),
        Flag(["--no-master"], is_flag=True, section=GANG, help="Run workers only; the first acts as the master."),
        Flag(["--master-gpu"], metavar="GPUS", section=GANG, help="GPUs of the master (default: as the workers)."),
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
        Flag(["--master-no-pvcs"], is_flag=True, hidden=True),
        Flag(["--slots-per-worker"], type=count, hidden=True),
        Flag(
            ["--clean-pod-policy"],
            type=click.Choice(["Running", "All", "None"]),
            section=GANG,
            help="Pods to remove at the end (only Running is supported).",
        ),
    ]


@click.pass_context
def _pytorch(ctx: click.Context, /, **asked: Any) -> None:
    submit_pytorch(ctx, asked)


def submit_pytorch(ctx: click.Context, asked: dict[str, Any]) -> None:
    """Submit, or report everything that is wrong."""
    uncarried = {
        f"--clean-pod-policy={asked['clean_pod_policy']}": asked["clean_pod_policy"] in ("All", "None"),
        "--master-no-pvcs": asked["master_no_pvcs"],
        "--slots-per-worker": asked["slots_per_worker"] is not None,
    }
    if any(uncarried.values()):
        raise Failure([not_yet(name) for name, is_asked in uncarried.items() if is_asked])
    perform(ctx, {**NOT_HERE, **asked, "framework": "PyTorch"})
