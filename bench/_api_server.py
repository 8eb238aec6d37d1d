"""The server that `bench.api` measures, in a process of its own: the control plane, as `fairpool up` serves it.

Beside its own routes it has one that does nothing but know the caller, for comparison. It says on standard output
where it listens, and obeys lines on standard input: `churn N` lets scheduling cycles of N nodes run in a thread of the
same process, `rest` ends them and says how long they took.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from starlette.responses import Response

from bench._cases import case_named
from bench._ledger import Ledger
from bench._stopwatch import peak_mib
from fairpool.control import app as control
from fairpool.control.app import cluster_identity, create_app
from fairpool.control.owner import owner_token
from fairpool.control.plane import Caller
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.settings import Settings
from fairpool.scheduler.plan import plan

EMPTY = "/api/v1/empty"


class Churn:
    """Scheduling cycles in a thread: each plans, as a loop would that has always something to do."""

    def __init__(self, nodes: int) -> None:
        snapshot = case_named("churn").build(nodes)
        self._ledger = Ledger(snapshot)
        self._stop = threading.Event()
        self.wall: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._ledger.turn_over()
            seen = self._ledger.snapshot()
            began = time.perf_counter()
            planned = plan(seen)
            self.wall.append(time.perf_counter() - began)
            self._ledger.record(planned)
            self._stop.wait(0.2)  # a loop plans when something happened, not all the time

    def rest(self) -> list[float]:
        self._stop.set()
        self._thread.join()
        return self.wall


def add_empty_route() -> None:
    """A route that any caller may ask for and that does nothing. It is found and called as all others, so that nothing
    can be cheaper."""
    routes = Routes()

    @routes.get(EMPTY, action=Action.SELF)
    async def empty(caller: Caller) -> Response:
        return Response("{}", media_type="application/json")

    control.ROUTES = (*control.ROUTES, *routes)


async def serve(folder: Path, database: str) -> None:
    add_empty_route()
    app = create_app(Settings(data=folder, database=database))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    async with app.router.lifespan_context(app):
        identity = await cluster_identity(app)
        gc.collect()
        gc.freeze()  # as `fairpool up` does
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False)
        )
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        token = await owner_token(app.state.plane)
        say(port=listener.getsockname()[1], token=token, cluster_token=identity.token, cluster=identity.name)
        threading.Thread(target=obey, daemon=True).start()
        await serving


def obey() -> None:
    churn: Churn | None = None
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "churn":
            churn = Churn(int(rest))
            say(churns=True)
        elif word == "rest" and churn is not None:
            say(cycles=churn.rest())
        elif word == "memory":
            say(peak_mib=peak_mib())


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main(arguments: Sequence[str]) -> int:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(arguments[0]), arguments[1] if len(arguments) > 1 else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
