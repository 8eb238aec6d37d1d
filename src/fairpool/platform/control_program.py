"""The process of `fairpool control`: a control plane whose clusters connect from elsewhere."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette

from fairpool import __version__
from fairpool.control.clusters import cluster_states
from fairpool.model.problem import Problem
from fairpool.platform.control_server import ControlOptions, ControlServer, start_up_errors
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.owner_access import OwnerAccess, Welcome
from fairpool.platform.server_process import keep_what_is_loaded, run_server

log = logging.getLogger("fairpool.control")


class ControlProgram:
    """A control plane in a process of its own."""

    def __init__(self, data_directory: DataDirectory, options: ControlOptions, listener: socket.socket) -> None:
        self._data_directory, self._options = data_directory, options
        self._control = ControlServer(data_directory, options, listener)

    def run(self, on_ready: Callable[[Welcome | Problem], None], question: Mapping[str, Any]) -> None:
        """Run until a signal comes. Raises `PlatformError` if it cannot be started."""
        with start_up_errors():
            run_server(self._serve(on_ready, question))

    async def _serve(self, on_ready: Callable[[Welcome | Problem], None], question: Mapping[str, Any]) -> None:
        address, root = self._options.address.url, self._data_directory.root
        fields = {"version": __version__, "pid": os.getpid(), "address": address, "data": root}
        log.info("control plane starting", extra={"fields": fields})
        async with self._control.opened(is_ready=lambda: True, pod_access=None, cluster_name="") as app:
            keep_what_is_loaded()
            access = OwnerAccess(app.state, "")

            async def status(question: Mapping[str, Any]) -> Mapping[str, Any]:
                said = await self._control.status(app)
                return said if said["database"]["problem"] else {**said, "clusters": await self._clusters(app)}

            async def when_ready() -> None:
                on_ready(await access.welcome(question))

            await self._control.serve(app, {"status": status, **access.handlers}, when_ready)

    async def _clusters(self, app: Starlette) -> list[Mapping[str, Any]]:
        found = await cluster_states(app.state.plane)
        return [{"name": each.name, "state": each.status.state, "last_seen_at": each.last_liveness} for each in found]
