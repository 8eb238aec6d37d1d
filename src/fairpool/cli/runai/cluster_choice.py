"""Which cluster a command is about: the one of `--cluster`, else the configured one, else all of them.

With a single cluster nothing is asked or shown. A node that exists in several clusters must be named with its cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fairpool.api.client import Client
from fairpool.cli.failure import failure, meant
from fairpool.cli.runai.flags import flag
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import Column

if TYPE_CHECKING:
    from fairpool.api.nodes import NodeAnswer

T = TypeVar("T")

cluster_flag = flag(
    "--cluster",
    metavar="NAME",
    help="Only this cluster (default: the one set with `runai config cluster`, otherwise all).",
)


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """The clusters that a command is about."""

    names: Mapping[str, str]
    """By id; empty if there is no need to tell clusters apart."""
    chosen: str | None = None
    """The id of the only one that it is about."""

    def includes(self, cluster: str) -> bool:
        return self.chosen is None or self.chosen == cluster

    def column(self, cluster: Callable[[T], str]) -> list[Column[T]]:
        """A column with the name of the cluster, where there are several."""
        return [Column("CLUSTER", lambda each: self.name(cluster(each)))] if self.names else []

    def name(self, cluster: str) -> str:
        return self.names.get(cluster, cluster) or "all"


ONE_CLUSTER = ClusterChoice({})


def choose(session: Session, client: Client, asked: str | None, seen: Collection[str]) -> ClusterChoice:
    """The choice among clusters; `seen` are the ids of those that something was found in."""
    default = session.default("cluster")
    if asked is None and default is None and len(set(seen)) < 2:
        return ClusterChoice({})
    known = {each.uuid: each.name for each in client.clusters()}
    if asked is None and (default is None or len(known) < 2):
        return ClusterChoice(known if len(known) > 1 else {})
    wanted = asked or default
    found = [uuid for uuid, name in known.items() if wanted in (uuid, name)]
    if not found:
        fix = f"use one of {', '.join(sorted(known.values()))}" if known else "there is none"
        where = "--cluster" if asked else "`runai config cluster`"
        what = f"there is no cluster {wanted} (of {where})"
        raise failure("cluster.unknown", what, fix, hint=meant(str(wanted), known.values()))
    return ClusterChoice(known if len(known) > 1 else {}, found[0])


def nodes_of(
    session: Session, client: Client, asked: str | None, measured: str = ""
) -> tuple[list[NodeAnswer], ClusterChoice]:
    """The nodes of the chosen cluster, or of all; `measured` as in `Client.nodes`."""
    found = client.nodes(measured=measured)
    choice = choose(session, client, asked, {each.cluster_uuid for each in found})
    chosen = [each for each in found if choice.includes(each.cluster_uuid)]
    return sorted(chosen, key=lambda each: (each.name, choice.name(each.cluster_uuid))), choice


def only_one(name: str, found: Sequence[NodeAnswer], choice: ClusterChoice) -> NodeAnswer:
    """The node of this name, which must be in one cluster only."""
    if len(found) > 1:
        places = ", ".join(choice.name(each.cluster_uuid) for each in found)
        what = f"there is a node {name} in several clusters: {places}"
        raise failure("node.ambiguous", what, "choose one with --cluster NAME, or set a default: runai config cluster")
    return found[0]
