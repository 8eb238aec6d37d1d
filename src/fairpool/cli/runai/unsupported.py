"""Commands that are documented and that nothing here can do so far: each says so, and what to do instead."""

from __future__ import annotations

import click

from fairpool.cli.runai.command_tree import Leaf
from fairpool.cli.runai.failure import Failure, not_yet

INSTEAD = {
    "port-forward": "submit with --service-type=ingress --port, and open its address",
    "submit-mpi": "submit it through the API: POST /api/v1/workloads/distributed",
    "submit-dist": "submit it through the API: POST /api/v1/workloads/distributed",
    "template": "give the flags themselves",
    "templates": "give the flags themselves",
    "update": "update the package that this command came with",
    "generate-values": "there is no installation on Kubernetes so far",
    "secret": "there are no secrets so far",
    "collect-logs": "look at the logs in the data folder",
}


def unsupported(program: str, name: str) -> click.Command:
    """A command that takes anything and does nothing but say so."""

    @click.command(
        name,
        cls=Leaf,
        short_help="Not supported yet.",
        example=f"{program} --help",
        context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
        with_project=False,
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def refuse(words: tuple[str, ...]) -> None:
        """Documented elsewhere, and not supported here yet."""
        raise Failure([not_yet(f"{program} {name}", INSTEAD[name])])

    return refuse
