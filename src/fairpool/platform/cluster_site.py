"""Where the pods of a cluster run, as `fairpool cluster` needs to know it: this machine, or Kubernetes.

On Kubernetes several replicas of the program may run, of which one leads; on one machine the lock of the data directory
makes sure that there is only one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.loop_cluster import LoopCluster
from fairpool.platform.loop_figures import LoopFigures
from fairpool.platform.remote_control import Membership


class SiteUnreachable(Exception):
    """It does not answer now; ask again."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class ClusterSite(Protocol):
    """One of the two."""

    @property
    def summary(self) -> str:
        """For the log: its nodes, or the address of its API server."""

    async def installation(self) -> str:
        """What all replicas of this cluster have in common; empty: the data directory. Raises `SiteUnreachable`, or
        `PlatformError` if it never will be reached."""

    def election(self) -> AbstractAsyncContextManager[None]:
        """Take part in the election of the replica that leads. A leader that leaves it lets another lead at once."""

    async def until_leading(self) -> None:
        """Until this replica leads."""

    async def until_replaced(self) -> None:
        """Until another replica leads."""

    @property
    def has_replicas(self) -> bool:
        """Whether another process may take over; then this one waits until it can lead again."""

    @property
    def leader(self) -> str:
        """The replica that leads, if that is another one; empty: it is this one, or not known."""

    def cluster(self, data_directory: DataDirectory, member: Membership, figures: LoopFigures) -> LoopCluster:
        """Its engine and everything around it. Blocks. Raises `EngineUnreachable`."""

    def status(self) -> Mapping[str, Any]:
        """For `fairpool status`."""
