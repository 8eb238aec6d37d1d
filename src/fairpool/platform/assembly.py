"""The platform of `fairpool up`: control plane and cluster in one process, on one data directory.

1. the cluster's engine, which adopts pods that run already
2. the control plane's database and application, on the main thread's event loop
3. the scheduling loop in a thread, which talks to the control plane through the same two calls that a cluster elsewhere
   makes, without socket and text
4. the sockets: HTTP, the API on a Unix socket, the admin socket

Everything is stopped in the reverse order. `control_program.py` and `cluster_program.py` run the two halves as programs
of their own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from starlette.applications import Starlette

from fairpool import __version__
from fairpool.agent.disk_reserve import RESERVE_BYTES
from fairpool.control.clusters import cluster_beside
from fairpool.model.problem import Problem
from fairpool.platform.control_server import ControlOptions, ControlServer, start_up_errors
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.in_process import InProcessControl
from fairpool.platform.local_cluster import LocalCluster
from fairpool.platform.loop_cluster import ControlPeer
from fairpool.platform.node_set import NodeSet, nodes_summary
from fairpool.platform.owner_access import FIRST_PROJECT, OwnerAccess, Welcome
from fairpool.platform.server_process import keep_what_is_loaded, run_server, stepped_down

log = logging.getLogger("fairpool.up")

HOLDER = "fairpool up"

OnReady = Callable[[Welcome | Problem], None]


class Platform:
    """Control plane, scheduling loop and local engine in one process."""

    def __init__(
        self,
        data_directory: DataDirectory,
        options: ControlOptions,
        listener: socket.socket,
        node_set: NodeSet,
        disk_reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        self._data_directory, self._options = data_directory, options
        self._node_set, self._disk_reserve_bytes = node_set, disk_reserve_bytes
        self._control = ControlServer(data_directory, options, listener)
        self._stepped_down = ""

    def run(self, on_ready: OnReady, question: Mapping[str, Any]) -> None:
        """Run until a signal comes. `on_ready` is called with the answer to the question for a welcome.

        Raises `PlatformError` if it cannot be started, or another loop has taken over.
        """
        with start_up_errors():
            run_server(self._serve(on_ready, question))
        if self._stepped_down:
            raise stepped_down(self._stepped_down)

    async def _serve(self, on_ready: OnReady, question: Mapping[str, Any]) -> None:
        """The start-up sequence."""
        self._log_start()
        async with AsyncExitStack() as stack:
            cluster = LocalCluster(self._data_directory, self._node_set, disk_reserve_bytes=self._disk_reserve_bytes)
            stack.callback(cluster.close)
            app = await stack.enter_async_context(
                self._control.opened(
                    is_ready=lambda: cluster.is_ready,
                    pod_access=cluster.pod_access,
                    first_project=FIRST_PROJECT,
                    program="up",
                )
            )
            peer = await self._peer(app)
            await stack.enter_async_context(cluster.scheduling(peer, HOLDER, self._step_down))
            app.state.plane.pod_access.local_answers = cluster.questions
            app.state.plane.cluster_figures = partial(cluster.series, cluster=app.state.plane.cluster_beside)
            keep_what_is_loaded()
            access = OwnerAccess(app.state, cluster.not_isolated)

            async def status(question: Mapping[str, Any]) -> Mapping[str, Any]:
                return {**await self._control.status(app), **cluster.status()}

            async def when_ready() -> None:
                on_ready(await access.welcome(question))

            await self._control.serve(app, {"status": status, **access.handlers}, when_ready)

    def _log_start(self) -> None:
        fields = {
            "version": __version__,
            "pid": os.getpid(),
            "address": self._options.address.url,
            "data": self._data_directory.root,
            "nodes": nodes_summary(self._node_set.nodes),
        }
        log.info("server starting", extra={"fields": fields})

    async def _peer(self, app: Starlette) -> ControlPeer:
        plane = app.state.plane
        own = await cluster_beside(plane)
        connect = partial(InProcessControl, plane, own.uuid, asyncio.get_running_loop())
        return ControlPeer(cluster=own.name, connect=connect)

    def _step_down(self, why: str) -> None:
        self._stepped_down = why
        self._control.stop()
