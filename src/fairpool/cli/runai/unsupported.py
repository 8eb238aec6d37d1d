"""Commands that are documented and that nothing here can do so far: each says so, and what to do instead."""

from __future__ import annotations

import click

from fairpool.cli.runai.command_tree import Leaf
from fairpool.cli.runai.failure import Failure, not_yet

PEERS = "use `runai submit-dist pytorch`: its pods find each other by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE"
INSTEAD = {
    "mpi": f"no launcher reaches into other pods so far; {PEERS}",
    "tf": f"no TF_CONFIG is made so far; {PEERS}",
    "xgboost": f"no tracker is made so far; {PEERS}",
    "port-forward": "submit with --service-type=ingress --port, and open the address that `runai list` shows",
    "submit-mpi": f"no launcher reaches into other pods so far; {PEERS}",
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
