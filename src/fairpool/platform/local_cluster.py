"""A cluster on this machine: engine, access to its pods, and disk guard, beside the scheduling loop.

The assembly of `fairpool cluster`, and one half of `fairpool up`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairpool.agent.disk_reserve import RESERVE_BYTES
from fairpool.api.config_directory import config_directory
from fairpool.api.exposition import ProcessFigure
from fairpool.cluster.ledger import Ledger
from fairpool.engines.local import LocalEngine
from fairpool.model.ids import PodId
from fairpool.platform.data_directory import DataDirectory, default_data
from fairpool.platform.disk_guard import DiskGuard
from fairpool.platform.local_pod_access import LocalPodAccess
from fairpool.platform.loop_cluster import STOP_TIMEOUT_S, ControlPeer, LoopCluster
from fairpool.platform.loop_figures import LoopFigures
from fairpool.platform.node_set import NodeSet, nodes_summary
from fairpool.platform.remote_control import Membership
from fairpool.platform.secret_source import ControlSecrets

REPORT_DELAY_MS = 30
"""A process runs some 10 ms after it was ordered."""


class LocalCluster(LoopCluster):
    """A cluster whose pods run on this machine. The engine adopts pods that run already."""

    report_delay_ms = REPORT_DELAY_MS

    def __init__(
        self,
        data_directory: DataDirectory,
        node_set: NodeSet,
        *,
        disk_reserve_bytes: int,
        hidden: Sequence[Path] = (),
        figures: LoopFigures | None = None,
    ) -> None:
        """`hidden`: what pods must not see, besides the directories of this program. `figures`: of a
        process that is nothing but this cluster."""
        self._ledger_file = data_directory.ledger
        self.engine = LocalEngine(
            data_directory.machine,
            nodes=node_set.nodes,
            protected=(data_directory.root, config_directory(), default_data(), *hidden),
            allowed=node_set.allowed,
        )
        self._local_access = LocalPodAccess(self.engine.supervisor)
        self.disk = DiskGuard(data_directory.reserve, disk_reserve_bytes, self.engine.supervisor)
        super().__init__(self.engine, self.engine, self._local_access, data_directory.ledger.parent, figures)

    def close(self) -> None:
        self.disk.stop(STOP_TIMEOUT_S)
        self._local_access.close()
        if not self._is_stuck:
            self.engine.close()

    @asynccontextmanager
    async def scheduling(
        self, control: ControlPeer, holder: str, on_step_down: Callable[[str], None]
    ) -> AsyncIterator[None]:
        async with super().scheduling(control, holder, on_step_down):
            self.disk.start()
            yield

    async def end_access(self) -> None:
        """Nothing to do: it has no connections."""

    def _open_ledger(self) -> Ledger:
        return Ledger(self._ledger_file)

    def _take_secrets(self, source: ControlSecrets) -> None:
        self.engine.supervisor.secrets.source = source

    def _reports(self, pod: PodId) -> Mapping[str, Any]:
        return self.engine.supervisor.reports(pod)

    @property
    def _engine_error(self) -> str:
        return self.engine.supervisor.error

    @property
    def not_isolated(self) -> str:
        """Why pods are not isolated from the user who runs the server; empty: they are."""
        return self.engine.supervisor.unavailable.get("isolation", "")

    def _more_figures(self) -> Iterator[ProcessFigure]:
        disk = self.disk.status
        yield ProcessFigure(
            "fairpool_disk_free_bytes", "Free space on the disk of the data directory", disk["free_bytes"]
        )
        yield ProcessFigure("fairpool_disk_reserve_held_bytes", "Space held in reserve on it", disk["held_bytes"])

    def _more_status(self) -> Mapping[str, Any]:
        return {"disk": self.disk.status}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSite:
    """A `ClusterSite` of this machine."""

    node_set: NodeSet
    disk_reserve_bytes: int = RESERVE_BYTES
    hidden: Sequence[Path] = field(default=())
    """Files and directories that pods must not see, besides the data directory."""
    leader: str = ""
    has_replicas: bool = False

    @property
    def summary(self) -> str:
        return nodes_summary(self.node_set.nodes)

    async def installation(self) -> str:
        return ""

    def election(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def until_leading(self) -> None:
        """At once: there is only one."""

    async def until_replaced(self) -> None:
        await asyncio.Event().wait()

    def cluster(self, data_directory: DataDirectory, member: Membership, figures: LoopFigures) -> LocalCluster:
        return LocalCluster(
            data_directory,
            self.node_set,
            disk_reserve_bytes=self.disk_reserve_bytes,
            hidden=self.hidden,
            figures=figures,
        )

    def status(self) -> Mapping[str, Any]:
        return {}
