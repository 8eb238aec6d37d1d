"""Documented commands that have no meaning here: refused by name, with what to do instead."""

from __future__ import annotations

import click

from fairpool.cli.failure import Failure
from fairpool.cli.runai.flags import command
from fairpool.model.problem import Problem

INSTEAD = {
    "generate-values": (
        "is not needed: the charts have values for everything but a host name and a token",
        "see docs/guides/kubernetes.md; `runai-adm cluster create NAME --operator-file FILE` connects a cluster",
    ),
    "report": (
        "is another command here",
        "`runai-adm report` shows GPU hours and costs of the projects that you can see, `runai top` what is used now",
    ),
    "upgrade": (
        "does not install anything: this command is part of the Python package fairpool",
        "upgrade the package with the tool that installed it, such as `pip install --upgrade fairpool`",
    ),
}
"""For each, why it is refused and what to do."""


def refused_command(program: str, name: str, row: str = "") -> click.Command:
    """A command that takes any arguments and fails; `row`: its reason above, if not that of its name."""

    @command(
        name,
        f"{program} --help",
        context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
        with_project=False,
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def refuse(words: tuple[str, ...]) -> None:
        """Not supported."""
        raise refusal(f"{program} {name}", row or name)

    return refuse


def refusal(spelled: str, row: str) -> Failure:
    """Why a command is refused; `spelled` is how it was typed."""
    what, fix = INSTEAD[row]
    return Failure([Problem("command.not_here", f"`{spelled}` {what}", fix)])
