"""The process of `fairpool cluster` before it has joined a control plane."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

from fairpool.platform.address import Address
from fairpool.platform.cluster_program import ClusterOptions, ClusterProgram
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.local_cluster import LocalSite
from fairpool.platform.node_set import NodeSet
from fairpool.platform.remote_control import ControlTarget


def test_garbage_is_collected_while_the_control_plane_is_awaited(tmp_path: Path) -> None:
    collects: list[bool] = []
    with socket.socket() as health, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        target = ControlTarget(f"http://127.0.0.1:{silent.getsockname()[1]}", "token")
        options = ClusterOptions(target=target, health=Address("127.0.0.1", 0), site=LocalSite(node_set=NodeSet(())))
        program = ClusterProgram(DataDirectory(tmp_path), options, health)

        def on_waiting(_why: str) -> None:
            collects.append(gc.isenabled())
            program._shut_down()

        gc.disable()  # as when a server starts
        try:
            assert asyncio.run(program._join(on_waiting)) is None
        finally:
            gc.enable()
    assert collects == [True]
