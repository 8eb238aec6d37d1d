"""A stand-in for a Kubernetes API server, in a process of its own: it keeps nodes and pods in memory, and plays pods.

For clusters so large that a real API server with its etcd would take longer to fill them than to measure anything: it
has the calls that the engine makes, without validation, admission, quorum or TLS. Pods run as soon as they were
created, and end when a line on standard input asks for it. Every call but a watch is counted.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.kubernetes.fake_nodes import node

Thing = dict[str, Any]
PAGE = 500
NOTHING: Thing = {}


@dataclass(slots=True)
class Watcher:
    """A watch that is open."""

    kind: str
    name: str = ""
    """Of the only object that it is about; empty: all of them."""
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)


class Cluster:
    """Objects by their paths, and who watches them."""

    def __init__(self) -> None:
        self.things: dict[str, dict[str, Thing]] = {}
        """By kind, then by path."""
        self.watchers: list[Watcher] = []
        self.version = 1
        self.calls = 0

    def put(self, kind: str, path: str, thing: Thing) -> Thing:
        known = self.things.setdefault(kind, {})
        event = "MODIFIED" if path in known else "ADDED"
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        known[path] = thing
        self._send(kind, event, thing)
        return thing

    def remove(self, kind: str, path: str) -> None:
        thing = self.things[kind].pop(path)
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        self._send(kind, "DELETED", thing)

    def _send(self, kind: str, event: str, thing: Thing) -> None:
        name = thing["metadata"]["name"]
        watchers = [each for each in self.watchers if each.kind == kind and each.name in ("", name)]
        if watchers:
            line = json.dumps({"type": event, "object": thing}).encode() + b"\n"
            for each in watchers:
                each.lines.put_nowait(line)

    # --- pods

    def run(self, path: str) -> None:
        """What its kubelet does, at once."""
        pod = self.things["pods"].get(path)
        if pod is not None and pod["status"]["phase"] == "Pending":
            self._report(path, pod, "Running", {"running": {"startedAt": _now()}})

    def end(self, path: str) -> None:
        """Its program is done, or was stopped."""
        pod = self.things["pods"].get(path)
        if pod is not None and pod["status"]["phase"] in ("Pending", "Running"):
            code = 143 if "deletionTimestamp" in pod["metadata"] else 0
            end = {"exitCode": code, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}
            self._report(path, pod, "Failed" if code else "Succeeded", {"terminated": end})
        self.let_go(path)

    def let_go(self, path: str) -> None:
        """An object that was deleted and has no finalizer is gone."""
        pod = self.things["pods"].get(path)
        if pod is not None and "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("finalizers"):
            self.remove("pods", path)

    def _report(self, path: str, pod: Thing, phase: str, state: Thing) -> None:
        statuses = [{"name": each["name"], "state": state} for each in pod["spec"]["containers"]]
        self.put("pods", path, {**pod, "status": {"phase": phase, "containerStatuses": statuses}})


class Api:
    """The calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({})
        kind, path = _place(request.path)
        if request.query.get("watch"):
            return await self._watch(request, kind)
        self._cluster.calls += 1
        match request.method:
            case "GET" if path:
                found = self._cluster.things.get(kind, NOTHING).get(path)
                return web.json_response(found) if found is not None else _refused(404, "NotFound")
            case "GET":
                return self._listed(request, kind)
            case "POST":
                return self._created(request, kind, await request.json())
            case "DELETE":
                return self._deleted(kind, path)
        return self._changed(kind, path, await request.json())

    def _listed(self, request: web.Request, kind: str) -> web.Response:
        wanted = _selection(request)
        everything = [each for each in self._cluster.things.get(kind, NOTHING).values() if wanted(each)]
        first = int(request.query.get("continue", "0"))
        metadata = {"resourceVersion": str(self._cluster.version)}
        if first + PAGE < len(everything):
            metadata["continue"] = str(first + PAGE)
        return web.json_response({"metadata": metadata, "items": everything[first : first + PAGE]})

    def _created(self, request: web.Request, kind: str, thing: Thing) -> web.Response:
        name = thing["metadata"]["name"]
        _, path = _place(f"{request.path}/{name}")
        if path in self._cluster.things.get(kind, NOTHING):
            return _refused(409, "AlreadyExists")
        thing["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now()}
        if kind == "pods":
            thing["status"] = {"phase": "Pending"}
            asyncio.get_running_loop().call_soon(self._cluster.run, path)
        return web.json_response(self._cluster.put(kind, path, thing), status=201)

    def _deleted(self, kind: str, path: str) -> web.Response:
        found = self._cluster.things.get(kind, NOTHING).get(path)
        if found is None:
            return _refused(404, "NotFound")
        if kind != "pods":
            self._cluster.remove(kind, path)
            return web.json_response({})
        metadata = {**found["metadata"], "deletionTimestamp": _now(), "deletionGracePeriodSeconds": 1}
        self._cluster.put(kind, path, {**found, "metadata": metadata})
        asyncio.get_running_loop().call_soon(self._cluster.end, path)
        return web.json_response({})

    def _changed(self, kind: str, path: str, patch: Thing) -> web.Response:
        found = self._cluster.things.get(kind, NOTHING).get(path)
        if found is None:
            return _refused(404, "NotFound")
        metadata, changes = dict(found["metadata"]), dict(patch.get("metadata", {}))
        gone = changes.pop("$deleteFromPrimitiveList/finalizers", [])
        metadata["finalizers"] = [each for each in metadata.get("finalizers", []) if each not in gone]
        metadata["labels"] = {**metadata.get("labels", {}), **changes.get("labels", {})}
        data = {"data": {**found.get("data", {}), **patch["data"]}} if "data" in patch else {}
        answer = web.json_response(self._cluster.put(kind, path, {**found, "metadata": metadata, **data}))
        if kind == "pods":
            self._cluster.let_go(path)
        return answer

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        watcher = Watcher(kind, request.query.get("fieldSelector", "").removeprefix("metadata.name="))
        self._cluster.watchers.append(watcher)
        try:
            await answer.prepare(request)
            while True:
                lines = [await watcher.lines.get()]
                while not watcher.lines.empty():
                    lines.append(watcher.lines.get_nowait())
                await answer.write(b"".join(lines))
        except (ConnectionError, asyncio.CancelledError):
            return answer
        finally:
            self._cluster.watchers.remove(watcher)


def _place(path: str) -> tuple[str, str]:
    """The kind, and the path of one object: empty for a list."""
    parts = path.removeprefix("/api/v1/").split("/")
    if parts[0] == "namespaces" and len(parts) > 2:
        return parts[2], "/".join(parts[1:4:2]) if len(parts) > 3 else ""
    return parts[0], "/".join(parts[1:])


def _selection(request: web.Request) -> Callable[[Thing], bool]:
    """The selectors that the engine uses: one name, and labels that are there, have a value or one of several."""
    name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
    terms = re.findall(r"([^,= ]+)(?:=([^,]+)| in \(([^)]*)\))?", request.query.get("labelSelector", ""))
    allowed = {
        key: frozenset([value] if value else several.split(",") if several else ()) for key, value, several in terms
    }

    def is_wanted(thing: Thing) -> bool:
        labels = thing["metadata"].get("labels", NOTHING)
        has_labels = all(key in labels and (not values or labels[key] in values) for key, values in allowed.items())
        return has_labels and name in ("", thing["metadata"]["name"])

    return is_wanted


def _refused(status: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": reason, "code": status}, status=status)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def obey(cluster: Cluster) -> None:
    """`end N`: so many pods that run end. `calls`: how many calls there were. The rest of the time, serve."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().split():
        if line[0] == "end":
            pods = cluster.things.get("pods", {})
            running = [path for path, each in pods.items() if each["status"]["phase"] == "Running"]
            for path in running[: int(line[1])]:
                cluster.end(path)
        print(json.dumps({"calls": cluster.calls, "pods": len(cluster.things.get("pods", {}))}), flush=True)


async def serve(nodes: int, gpus: int) -> None:
    cluster = Cluster()
    for number in range(nodes):
        made = node(f"n{number:05d}", gpus)
        made["metadata"]["uid"] = str(uuid.uuid4())
        cluster.put("nodes", made["metadata"]["name"], made)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", Api(cluster).answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    print(json.dumps({"port": site._server.sockets[0].getsockname()[1]}), flush=True)  # type: ignore[attr-defined]
    await obey(cluster)


def main(arguments: Sequence[str]) -> int:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(arguments[0]), int(arguments[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
