"""Documented commands that are refused: each says why, and what to do instead."""

from __future__ import annotations

import click

from fairpool.cli.failure import Failure, not_yet
from fairpool.cli.runai.flags import command

PEERS = "use `runai submit-dist pytorch`, which sets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE in its pods"
INSTEAD = {
    "mpi": f"there is no MPI launcher; {PEERS}",
    "tf": f"TF_CONFIG is not set; {PEERS}",
    "xgboost": f"there is no XGBoost tracker; {PEERS}",
    "submit-mpi": f"there is no MPI launcher; {PEERS}",
    "secret": "set the value with -e, or mount a file",
}
"""What is not supported yet."""


def unsupported(program: str, name: str, reason: str = "") -> click.Command:
    """A command that takes any arguments and fails; `reason`: its row above, if not that of its name."""

    @command(
        name,
        f"{program} --help",
        context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
        with_project=False,
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def refuse(words: tuple[str, ...]) -> None:
        """Not supported."""
        raise Failure([not_yet(f"{program} {name}", INSTEAD[reason or name])])

    return refuse
