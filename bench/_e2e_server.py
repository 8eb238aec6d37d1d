"""The platform with simulated pods, in a process of its own, for `bench.e2e`: put together as `fairpool up` does it.

Only the engine differs: pods are values that start within a few milliseconds and end after a second.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from fairpool.cluster.ledger import Ledger
from fairpool.cluster.link_threads import LinkThreads
from fairpool.cluster.loop import Loop
from fairpool.control.app import create_app
from fairpool.control.clusters import cluster_beside
from fairpool.control.owner import owner_token
from fairpool.control.settings import Settings
from fairpool.engines.simulated.behaviour import Behaviour, same_behaviour
from fairpool.engines.simulated.engine import SimulatedEngine
from fairpool.model.ids import Instant, NodeName
from fairpool.model.node import Node
from fairpool.platform.control_server import KEEP_ALIVE_S
from fairpool.platform.in_process import InProcessControl
from fairpool.platform.local_cluster import REPORT_DELAY_MS
from fairpool.platform.loop_thread import LoopThread, now

STARTS_S = 0.01
RUNS_S = 1.0
GPUS = 8


class RealTime:
    """The clock of the loop, for the engine."""

    def now(self) -> Instant:
        return now()


async def serve(folder: Path, nodes: int) -> None:
    app = create_app(Settings(data=folder))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    machines = (
        Node(
            name=NodeName(f"n{number:05d}"), cpu_milli=80_000, memory_bytes=512 << 30, gpus=GPUS, gpu_memory_mib=32_510
        )
        for number in range(nodes)
    )
    engine = SimulatedEngine(RealTime(), machines, same_behaviour(Behaviour(start_s=STARTS_S, run_s=RUNS_S)))
    async with app.router.lifespan_context(app):
        own = await cluster_beside(app.state.plane)
        home = asyncio.get_running_loop()
        pulls, pushes = (InProcessControl(app.state.plane, own.uuid, home) for _ in range(2))
        link = LinkThreads(pulls, pushes, own.name, now, engine.wake)
        ledger = await asyncio.to_thread(Ledger, folder / "ledger.db")

        def make_loop() -> Loop:
            link.start_over()
            return Loop(ledger, engine, link, now, report_delay_ms=REPORT_DELAY_MS)

        loop_thread = await asyncio.to_thread(LoopThread, make_loop, engine, lambda why: None)
        link.open()
        loop_thread.start()
        await asyncio.to_thread(loop_thread.is_settled.wait)
        gc.collect()
        gc.freeze()
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, timeout_keep_alive=KEEP_ALIVE_S
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        token = await owner_token(app.state.plane)
        print(json.dumps({"port": listener.getsockname()[1], "token": token}), flush=True)
        await serving


def main(arguments: Sequence[str]) -> int:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(arguments[0]), int(arguments[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
