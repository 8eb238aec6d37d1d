"""The live snapshot of a cluster, for `fairpool snapshot --live` and `fairpool plan --live`.

It is fetched from the API with the login of `runai`, and needs the permission to see the work of all projects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpool.api.client import Client
from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import GlobalOptions
from fairpool.cli.runai.session import Session

if TYPE_CHECKING:
    from fairpool.api.questions import PastCycle


def live_snapshot(cluster: str | None, pool: str | None, cycle: int | None = None) -> bytes:
    """The bytes of a snapshot file; raises a failure."""
    session = Session(GlobalOptions())
    with session.connected() as client:
        return b"".join(client.snapshot(_chosen(session, client, cluster), pool=pool, cycle=cycle))


def past_cycles(cluster: str | None) -> list[PastCycle]:
    """The cycles that are kept, the newest first; raises a failure."""
    session = Session(GlobalOptions())
    with session.connected() as client:
        return client.past_cycles(_chosen(session, client, cluster))


def _chosen(session: Session, client: Client, cluster: str | None) -> str:
    """By flag, by default, or the only one there is."""
    named = cluster or session.default("cluster")
    if named:
        return named
    names = [each.name for each in client.clusters()]
    if len(names) != 1:
        what = f"there are {len(names)} clusters: {', '.join(sorted(names))}"
        raise failure("cluster.not_named", what, "name one with --cluster NAME")
    return names[0]
