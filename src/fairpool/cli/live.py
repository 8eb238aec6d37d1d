"""The live snapshot of a cluster, for `fairpool snapshot --live` and `fairpool plan --live`.

It is fetched from the API with the login of `runai`, and needs the permission to see the work of all projects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairpool.api.client import Client
from fairpool.cli.failure import Failure, failure
from fairpool.cli.runai.flags import GlobalOptions
from fairpool.cli.runai.session import Session
from fairpool.model.spelling import unknown_name

if TYPE_CHECKING:
    from fairpool.api.questions import PastCycle
    from fairpool.api.workloads import WorkloadItem

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class LiveNames:
    """Names of workloads in place of their ids: snapshots know only ids."""

    ids: Mapping[str, str]
    """By name, where only one project has it, and by `project/name`."""
    names: Mapping[str, str]
    """By id."""

    @classmethod
    def of(cls, workloads: Iterable[WorkloadItem], groups: Iterable[str]) -> LiveNames:
        """Of those workloads that have one of these pod groups."""
        present = {each.partition("/")[0] for each in groups}
        listed = [each for each in workloads if each.id in present]
        counts = Counter(each.name for each in listed)
        ids = {f"{each.project_name}/{each.name}": each.id for each in listed}
        ids |= {each.name: each.id for each in listed if counts[each.name] == 1}
        shown = {
            each.id: each.name if counts[each.name] == 1 else f"{each.project_name}/{each.name}" for each in listed
        }
        return cls(ids, shown)

    def group(self, name: str) -> str:
        """The pod group that a user names; what is not known here is an id, or is refused with the names there are."""
        workload, slash, replica = name.rpartition("/")
        if name in self.ids:
            return self.ids[name]
        if slash and replica.isdecimal() and workload in self.ids:
            return f"{self.ids[workload]}/{replica}"
        if name.partition("/")[0] not in self.names:
            raise Failure([unknown_name("job", name, self.names.values())])
        return name

    def setting(self, text: str) -> str:
        """A setting such as `group.NAME.priority=3`, with the id of the group."""
        noun, dot, rest = text.partition(".")
        name, second, field = rest.partition(".")
        return f"{noun}.{self.group(name)}.{field}" if noun == "group" and dot and second else text

    def shown(self, text: str) -> str:
        """A text with names in place of ids."""
        return ID.sub(lambda found: self.names.get(found[0], found[0]), text)


def live_plan(cluster: str | None, pool: str | None) -> tuple[bytes, list[WorkloadItem]]:
    """The bytes of a snapshot file, and the workloads of which some are in it; raises a failure."""
    session = Session(GlobalOptions())
    with session.connected() as client:
        data = b"".join(client.snapshot(_chosen(session, client, cluster), pool=pool))
        return data, client.all_workloads(filters=["desiredPhase!=Deleted"])


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
