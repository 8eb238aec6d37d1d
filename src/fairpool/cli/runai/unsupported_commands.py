"""Documented commands that are refused: each says why, and what to do instead."""

from __future__ import annotations

import click

from fairpool.cli.failure import Failure, not_yet
from fairpool.cli.runai.flags import command
from fairpool.model.problem import Problem

INSTEAD = {
    "report": "utilization is not measured yet; `runai top` shows what is allocated",
}
"""What is not supported yet."""
NOT_HERE = {
    "generate-values": (
        "writes the Helm values of a Kubernetes installation, and there is no Kubernetes here",
        "start the platform with `fairpool up`, or `fairpool control` and `fairpool cluster`",
    ),
    "kubeconfig": (
        "changes the configuration of kubectl, and there is no Kubernetes here",
        "sign in with `runai login`; for several servers see `runai context`",
    ),
    "update": (
        "cannot change a job: what it requests is fixed when it is submitted",
        "delete the job and submit it again; `runai suspend` and `runai resume` stop and restart it",
    ),
    "upgrade": (
        "does not install anything: this command is part of the Python package fairpool",
        "upgrade the package with the tool that installed it, such as `pip install --upgrade fairpool`",
    ),
}
"""What has no meaning without Kubernetes, or where the command comes as a package: why, and what to do."""


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
        row, spelled = reason or name, f"{program} {name}"
        if row == "update" and not words:
            row = "upgrade"  # which the older command calls update
        if row in NOT_HERE:
            what, fix = NOT_HERE[row]
            raise Failure([Problem("command.not_here", f"`{spelled}` {what}", fix)])
        raise Failure([not_yet(spelled, INSTEAD[row])])

    return refuse
