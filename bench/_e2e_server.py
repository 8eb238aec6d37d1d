"""The platform with simulated pods, in a process of its own, for `bench.e2e` and `bench.web_ui`: put together as
`fairpool up` does it.

Only the engine differs: pods are values that start within a few milliseconds and end after a second, or after a time
between two bounds that depends on the pod. Or they are objects of a Kubernetes API server.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from fairpool.cluster.ledger import Ledger
from fairpool.cluster.link_threads import LinkThreads
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.cluster.loop import Loop
from fairpool.cluster.questions import Questions
from fairpool.control.app import create_app
from fairpool.control.clusters import cluster_beside
from fairpool.control.owner import new_link, owner_token
from fairpool.control.settings import Settings
from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.port import Engine
from fairpool.engines.simulated.behaviour import Behaviour, BehaviourOf
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


def lasting(least_s: float, most_s: float) -> BehaviourOf:
    """Pods that run for a time between these, the same in every run of the benchmark."""
    return lambda order: Behaviour(
        start_s=STARTS_S, run_s=random.Random(str(order.pod)).uniform(least_s, most_s) if most_s > least_s else least_s
    )


def simulated(nodes: int, least_s: float, most_s: float) -> SimulatedEngine:
    machines = (
        Node(
            name=NodeName(f"n{number:05d}"), cpu_milli=80_000, memory_bytes=512 << 30, gpus=GPUS, gpu_memory_mib=32_510
        )
        for number in range(nodes)
    )
    return SimulatedEngine(RealTime(), machines, lasting(least_s, most_s))


def on_kubernetes(kubeconfig: str) -> KubernetesEngine:
    return KubernetesEngine(find_api_server(kubeconfig), namespace="fairpool")


async def serve(folder: Path, engine: Engine) -> None:
    app = create_app(Settings(data=folder))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    async with app.router.lifespan_context(app):
        own = await cluster_beside(app.state.plane)
        home = asyncio.get_running_loop()
        pulls, pushes = (InProcessControl(app.state.plane, own.uuid, home) for _ in range(2))
        link = LinkThreads(pulls, pushes, own.name, now, engine.wake)
        ledger = await asyncio.to_thread(Ledger, folder / "ledger.db")
        live = LiveSnapshots()

        def make_loop() -> Loop:
            link.start_over()
            return Loop(
                ledger,
                engine,
                link,
                now,
                report_delay_ms=REPORT_DELAY_MS,
                on_snapshot=live.note,
                on_plan=live.note_plan,
            )

        loop_thread = await asyncio.to_thread(LoopThread, make_loop, engine, lambda why: None)
        link.open()
        loop_thread.start()
        app.state.plane.pod_access.local_answers = Questions(
            live, lambda workload: loop_thread.loop.cache.specs.get(workload), now
        )
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
        token, page = await owner_token(app.state.plane), await new_link(app.state.plane)
        print(json.dumps({"port": listener.getsockname()[1], "token": token, "link": page}), flush=True)
        await serving


def main(arguments: Sequence[str]) -> int:
    import uvloop

    engine: Engine
    if arguments[1].isdigit():
        least_s, most_s = (float(each) for each in arguments[2:4]) if len(arguments) > 2 else (RUNS_S, RUNS_S)
        engine = simulated(int(arguments[1]), least_s, most_s)
    else:
        engine = on_kubernetes(arguments[1])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(arguments[0]), engine))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
