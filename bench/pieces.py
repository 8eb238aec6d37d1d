"""Pieces of work on the control plane's event loop: how long the longest one keeps all other requests waiting.

    python -m bench.pieces [--case NAME ...] [--size WORKLOADS] [--nodes N]

The control plane behind the HTTP server of `fairpool up`, in this process on asyncio's own event loop, where each
callback is measured in CPU time (`_callback_times.py`): other work on the machine does not count. The requests come
from threads. The goal is 5 ms for each piece, however large the request or the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench._callback_times import LONG_S, CallbackTimes
from bench._report import Setting
from bench.api import level
from fairpool.api.clusters import NodeReport, PushReport
from fairpool.api.message import PREVIOUS, VERSION
from fairpool.control.app import cluster_identity, create_app
from fairpool.control.owner import owner_token
from fairpool.control.settings import Settings
from fairpool.model.ids import Instant, NodeName, PoolName, Token
from fairpool.platform.http_server import Server

PROJECTS = 100
PIECE_ROWS = 500
BATCH = 500
AT_ONCE = 32
MOST_SHOWN = 3


@dataclass(slots=True)
class World:
    """A control plane that is asked over HTTP, from threads."""

    port: int
    token: str
    cluster: str
    cluster_token: str
    workloads: int
    nodes: int
    ids: list[str]
    reports: int = 0

    def ask(self, method: str, path: str, body: bytes = b"", *, by_cluster: bool = False) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        headers = {"Authorization": f"Bearer {self.cluster_token if by_cluster else self.token}"}
        if body:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def right(self, status: int, method: str, path: str, body: bytes = b"", *, by_cluster: bool = False) -> bytes:
        found, answer = self.ask(method, path, body, by_cluster=by_cluster)
        assert found == status, f"{method} {path}: {found} {answer[:200]!r}"
        return answer

    def at_once(self, calls: Iterable[Callable[[], bytes]]) -> list[bytes]:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(lambda call: call(), calls))

    def report(self, moment: int, piece: int, version: int = VERSION) -> None:
        """All workloads and nodes, so many rows at a time."""
        at = Instant(time.time_ns() // 1_000_000 + moment)
        names = [f"node-{number:05d}" for number in range(self.nodes)]
        levels = [level(each, names[number % len(names)], number, at) for number, each in enumerate(self.ids)]
        nodes = [NodeReport(name=NodeName(each), pool=PoolName("default"), gpus=8) for each in names]
        for first in range(0, max(len(levels), len(nodes)), piece):
            self.reports += 1
            report = PushReport(
                cluster=self.cluster,
                token=Token(1),
                number=self.reports,
                after=self.reports - 1,
                at=at,
                workloads=tuple(levels[first : first + piece]),
                nodes=tuple(nodes[first : first + piece]),
            )
            self.right(200, "POST", "/api/v1/cluster/push", report.to_json(version).encode(), by_cluster=True)


def submit(world: World, number: int) -> bytes:
    spec = {"image": "python", "command": "python", "args": "-c pass", "compute": {"gpu": "0.5"}}
    body = {"name": f"job-{number:06d}", "projectId": f"team-{number % PROJECTS:03d}", "spec": spec}
    return world.right(202, "POST", "/api/v1/workloads/trainings", json.dumps(body).encode())


def fill(world: World) -> None:
    for number in range(PROJECTS):
        body = json.dumps({"name": f"team-{number:03d}", "resources": [{"gpu": {"deserved": 8}}]}).encode()
        world.right(201, "POST", "/api/v1/org-unit/projects", body)


def warm(world: World) -> None:
    """What is imported and compiled when it is first needed is not what is measured."""
    for case in (pages, organization, audit, documents):
        case(world)


# --- cases ---------------------------------------------------------------------------------------------------


def submits(world: World) -> None:
    def one(number: int) -> Callable[[], bytes]:
        return lambda: submit(world, number)

    world.ids += [json.loads(each)["id"] for each in world.at_once(one(n) for n in range(world.workloads))]


def report_in_pieces(world: World) -> None:
    world.report(0, PIECE_ROWS)


def report_of_previous_version(world: World) -> None:
    world.report(1, 10**6, PREVIOUS)


def pull_of_everything(world: World) -> None:
    body = json.dumps({"after": 0, "waitS": 0, "version": VERSION}).encode()
    found = json.loads(world.right(200, "POST", "/api/v1/cluster/pull", body, by_cluster=True))
    assert len(found["workloads"]) == world.workloads


def gets(world: World) -> None:
    for each in world.ids[:200]:
        world.right(200, "GET", f"/api/v1/workloads/{each}")


def pages(world: World) -> None:
    for query in ("sortBy=name", "sortBy=submittedBy&filterBy=phase==Running", "search=99", "sortBy=allocatedGPU"):
        for offset in (0, world.workloads // 2):
            world.right(200, "GET", f"/api/v1/workloads?{query}&limit=500&offset={offset}")
    world.right(200, "GET", "/api/v1/workloads/count?filterBy=name=@9")


def organization(world: World) -> None:
    for path in ("org-unit/projects", "org-unit/departments", "nodes", "node-pools", "overview", "clusters"):
        for query in ("limit=500", "limit=500&offset=500") if path == "nodes" else ("",):
            world.right(200, "GET", f"/api/v1/{path}?{query}")


def audit(world: World) -> None:
    world.right(200, "GET", "/api/v1/audit/log?limit=500")
    world.right(200, "GET", "/api/v1/audit/log/file")


def documents(world: World) -> None:
    for path in ("/api/openapi.json", "/docs", "/"):
        world.right(200, "GET", path)


def large_bodies(world: World) -> None:
    """JSON of all sizes that are accepted, and more; none of it is a valid request."""
    path = "/api/v1/workloads/trainings"
    for size in (2**16, 2**18, 2**19, 2**20 - 100, 2**22, 2**23):
        for body in (
            b'{"spec":[' + b",".join([b"1"] * (size // 2)) + b"]}",
            b'{"spec":{"labels":{' + b",".join(b'"k%07d":"%d"' % (n, n) for n in range(size // 20)) + b"}}}",
            b'{"spec":{"environmentVariables":[' + b",".join([b'{"a":1}'] * (size // 8)) + b"]}}",
            b'{"spec":{"image":"' + b"\\u0041" * (size // 6) + b'"}}',
            b'{"ids":["' + b'","'.join([b"x"] * (size // 4)) + b'"]}',
        ):
            status, _ = world.ask("POST", path if b"ids" not in body[:9] else "/api/v1/workloads/batch", body)
            assert status in (400, 413, 422), status


def moving_a_project(world: World) -> None:
    world.right(201, "POST", "/api/v1/org-unit/departments", b'{"name":"other"}')
    world.right(200, "PATCH", "/api/v1/org-unit/projects/team-001", b'{"parentId":"other"}')


def deletes(world: World) -> None:
    for first in range(0, len(world.ids), BATCH):
        body = json.dumps({"ids": world.ids[first : first + BATCH], "action": "delete"}).encode()
        world.right(200, "POST", "/api/v1/workloads/batch", body)


CASES: dict[str, Callable[[World], None]] = {
    "submits": submits,
    "report in pieces": report_in_pieces,
    "report, previous version": report_of_previous_version,
    "pull of everything": pull_of_everything,
    "gets": gets,
    "pages of 500": pages,
    "organization": organization,
    "audit log": audit,
    "documents": documents,
    "large bodies": large_bodies,
    "project to department": moving_a_project,
    "deletes": deletes,
}
NEEDED = ("submits", "report in pieces")


async def measured(folder: Path, workloads: int, nodes: int, cases: Sequence[str]) -> None:
    app = create_app(Settings(data=folder))
    async with app.router.lifespan_context(app):
        identity = await cluster_identity(app)
        server = Server(app, host="127.0.0.1", port=0)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        world = World(
            port=server.servers[0].sockets[0].getsockname()[1],
            token=await owner_token(app.state.plane),
            cluster=identity.name,
            cluster_token=identity.token,
            workloads=workloads,
            nodes=nodes,
            ids=[],
        )
        gc.collect()
        gc.freeze()
        with CallbackTimes().measured() as times:
            await asyncio.to_thread(fill, world)
            await asyncio.to_thread(warm, world)
            for name in cases:
                gc.collect()
                gc.freeze()  # what this benchmark keeps for its requests is not the server's
                await asyncio.sleep(0)  # so that this does not count
                times.take()
                began = time.perf_counter()
                await asyncio.to_thread(CASES[name], world)
                show(name, times.take(), time.perf_counter() - began)
        server.should_exit = True
        await serving


def show(name: str, times: CallbackTimes, took_s: float) -> None:
    worst = sorted(times.long, reverse=True)[:MOST_SHOWN] or [times.longest]
    longest = "; ".join(f"{1000 * each.cpu_s:.1f} ms {each.name}" for each in worst)
    print(
        f"{name:26} {1000 * times.longest.cpu_s:>8.1f} ms {len(times.long):>6} {took_s:>7.1f} s  {longest}", flush=True
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pieces", description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="extend", nargs="+", default=[], choices=CASES, metavar="NAME")
    parser.add_argument("--size", type=int, default=10_000, metavar="N", help="workloads (default 10000)")
    parser.add_argument("--nodes", type=int, default=1_000, metavar="N", help="nodes (default 1000)")
    options = parser.parse_args(arguments)
    cases = [name for name in CASES if name in NEEDED or not options.case or name in options.case]
    print(Setting.here())
    print(f"{'case':26} {'longest':>11} {f'> {1000 * LONG_S:.0f} ms':>6} {'took':>9}  the longest")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measured(Path(folder), options.size, options.nodes, cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
