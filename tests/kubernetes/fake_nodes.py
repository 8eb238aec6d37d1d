"""Nodes without machines on a real API server, and the kubelet that plays pods on them.

The kubelet does what the API server sees of a real one: it gives devices to a pod that was bound to its node, reports
it running and its exit, stops it when it is deleted, and lets go of the object at last. How long each takes and how it
ends, the test says.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import ssl
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from fairpool.engines.simulated.behaviour import Behaviour
from tests.kubernetes.api_calls import STRATEGIC_PATCH
from tests.kubernetes.control_plane import ADMIN, ControlPlane
from tests.kubernetes.device_ids import device_ids

T = TypeVar("T")
Pod = dict[str, Any]
GPU = "nvidia.com/gpu"
TERMINATED, KILLED, LOST = 143, 137, 255
WATCH_S = 300
RETRY_S = 0.2
CONNECTIONS = 16


def node(name: str, gpus: int = 8, *, boot_id: str = "", labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A node that is ready, with the labels of NVIDIA's GPU feature discovery."""
    amounts = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "250", GPU: str(gpus)}
    found = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **(
            {
                "nvidia.com/gpu.count": str(gpus),
                "nvidia.com/gpu.memory": "81559",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            }
            if gpus
            else {}
        ),
    }
    return {
        "metadata": {"name": name, "labels": {**found, **(labels or {})}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [_condition("Ready", "True", "KubeletReady")],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                "machineID": name,
                "systemUUID": name,
                "bootID": boot_id or str(uuid.uuid4()),
                "kernelVersion": "6.12",
                "osImage": "Debian",
                "containerRuntimeVersion": "fake://1",
                "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


@contextmanager
def fake_nodes(plane: ControlPlane, count: int, gpus: int = 8, *, prefix: str = "fake") -> Iterator[list[str]]:
    """So many nodes, `PREFIX-1` and so on; they are removed at the end. Nothing plays pods on them by itself."""
    names = [f"{prefix}-{number}" for number in range(1, count + 1)]
    try:
        for each in names:
            plane.admin.create("/api/v1/nodes", node(each, gpus))
            # The API server taints new nodes as not ready; the controller that removes it does not run here.
            plane.admin.patch(f"/api/v1/nodes/{each}", {"spec": {"taints": None}})
        yield names
    finally:
        for each in names:
            plane.admin.delete(f"/api/v1/nodes/{each}")


@dataclass
class _PodRun:
    """What the kubelet knows about one pod."""

    pod: Pod
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    devices: tuple[str, ...] = ()
    exits: int | None = None
    """A test has said so."""
    gone: bool = False
    """The object was removed."""
    rebooted: bool = False
    has_freed: bool = False
    """Its devices may be those of another pod by now."""

    @property
    def node(self) -> str:
        return str(self.pod["spec"]["nodeName"])

    @property
    def grace_s(self) -> float | None:
        """None unless the pod is being deleted."""
        metadata = self.pod["metadata"]
        return float(metadata.get("deletionGracePeriodSeconds", 0)) if "deletionTimestamp" in metadata else None


class FakeKubelet:
    """Of all fake nodes, in a thread of its own. `behaviour` may be replaced at any time; it is asked at the start."""

    def __init__(self, plane: ControlPlane, behaviour: Callable[[Pod], Behaviour] = lambda pod: Behaviour()) -> None:
        self.behaviour = behaviour
        self.message: Callable[[Pod, tuple[str, ...]], str] = lambda pod, devices: ",".join(devices)
        """What the init containers of a pod leave as their termination message; by default, their devices."""
        self._plane, self._pods, self._used = plane, dict[str, _PodRun](), dict[str, set[str]]()
        self._silent: dict[str, asyncio.Event] = {}
        self._device_ids_of: dict[str, tuple[str, ...]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._tls = ssl.create_default_context(cafile=str(plane.ca))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake kubelet", daemon=True)
        self._http: aiohttp.ClientSession | None = None
        self._watching: asyncio.Task[None] | None = None

    # --- what a test calls -----------------------------------------------------------------------------------------

    def __enter__(self) -> FakeKubelet:
        self._thread.start()
        self._call(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def exit(self, namespace: str, name: str, code: int = 0) -> None:
        """The program of this pod, which runs, exits now."""
        self._call(self._exit(namespace, name, code))

    def silence(self, name: str) -> None:
        """Nothing is heard of this node, which is what the node lifecycle controller then writes. Programs run on."""
        self._call(self._silence(name))
        self._set_ready(name, "Unknown", "NodeStatusUnknown")

    def end_silence(self, name: str) -> None:
        self._set_ready(name, "True", "KubeletReady")
        self._call(self._end_silence(name))

    def reboot(self, name: str) -> None:
        """With another boot ID. What ran there is lost, and reported so."""
        info = {"nodeInfo": {"bootID": str(uuid.uuid4())}}
        self._plane.admin.patch(f"/api/v1/nodes/{name}/status", {"status": info}, STRATEGIC_PATCH)
        self._call(self._reboot(name))

    def devices(self, namespace: str, name: str) -> tuple[str, ...]:
        """Those that this pod was given."""
        found = [run for run in list(self._pods.values()) if _is(run.pod, namespace, name)]
        return found[-1].devices if found else ()

    def _set_ready(self, name: str, status: str, reason: str) -> None:
        body = {"status": {"conditions": [_condition("Ready", status, reason)]}}
        self._plane.admin.patch(f"/api/v1/nodes/{name}/status", body, STRATEGIC_PATCH)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _exit(self, namespace: str, name: str, code: int) -> None:
        for run in self._pods.values():
            if _is(run.pod, namespace, name):
                run.exits = code
                run.changed.set()

    async def _silence(self, name: str) -> None:
        self._silent[name] = asyncio.Event()

    async def _end_silence(self, name: str) -> None:
        self._silent.pop(name).set()

    async def _reboot(self, name: str) -> None:
        for run in self._pods.values():
            if run.node == name:
                run.rebooted = True
                run.changed.set()

    # --- watching pods ---------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._http = aiohttp.ClientSession(
            self._plane.address,
            headers={"Authorization": f"Bearer {self._plane.tokens[ADMIN]}"},
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=CONNECTIONS + 1),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        )
        self._watching = asyncio.create_task(self._watch())

    async def _close(self) -> None:
        assert self._http is not None
        assert self._watching is not None
        tasks = [self._watching, *self._tasks]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.close()

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, asyncio.TimeoutError):
                version = await self._list()
                async for event in self._events(version):
                    if event["type"] == "ERROR":
                        break
                    if event["type"] == "DELETED":
                        self._forget(event["object"]["metadata"]["uid"])
                    elif event["type"] != "BOOKMARK":
                        self._see(event["object"])
            await asyncio.sleep(RETRY_S)

    async def _list(self) -> str:
        assert self._http is not None
        async with self._http.get("/api/v1/pods", params={"fieldSelector": "spec.nodeName!="}) as answer:
            answer.raise_for_status()
            listed = await answer.json()
        seen = {each["metadata"]["uid"] for each in listed["items"]}
        for each in [uid for uid in self._pods if uid not in seen]:
            self._forget(each)
        for each in listed["items"]:
            self._see(each)
        return str(listed["metadata"]["resourceVersion"])

    async def _events(self, version: str) -> AsyncIterator[dict[str, Any]]:
        assert self._http is not None
        asked = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH_S)}
        asked |= {"fieldSelector": "spec.nodeName!=", "allowWatchBookmarks": "true"}
        async with self._http.get("/api/v1/pods", params=asked) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    def _see(self, pod: Pod) -> None:
        uid = pod["metadata"]["uid"]
        run = self._pods.get(uid)
        if run is None:
            run = self._pods[uid] = _PodRun(pod)
            task = asyncio.create_task(self._play(run))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        run.pod = pod
        run.changed.set()

    def _forget(self, uid: str) -> None:
        if (run := self._pods.pop(uid, None)) is not None:
            run.gone = True
            run.changed.set()
            self._free(run)

    # --- one pod -----------------------------------------------------------------------------------------

    async def _play(self, run: _PodRun) -> None:
        """From being bound to the removal of the object."""
        if run.pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            code, reason = await self._run(run)
            if run.gone:
                return
            self._free(run)
            await self._report(run, _ended(run.pod, code, reason))
        while run.grace_s is None and not run.gone:
            await _next_change(run)
        if not run.gone:
            uid = run.pod["metadata"]["uid"]
            await self._ask("DELETE", run, "", {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    async def _run(self, run: _PodRun) -> tuple[int, str]:
        """Until it ends: its exit code, and why."""
        behaviour = self.behaviour(run.pod)
        if not await self._give_devices(run):
            return 1, "UnexpectedAdmissionError"
        now = asyncio.get_running_loop().time
        start = now()
        if behaviour.pull_error is not None:
            await self._report(run, _waiting(run.pod, *behaviour.pull_error.split(": ", 1)))
            start += behaviour.pull_error_s if behaviour.pull_error_s is not None else float("inf")
        start += behaviour.pull_s + behaviour.start_s
        await _sleep(run, lambda: start if run.grace_s is None else now())
        if run.grace_s is not None or run.rebooted or run.gone:
            return KILLED, "ContainerStatusUnknown"
        await self._report(run, _running(run.pod, self.message(run.pod, run.devices)))
        return await self._work(run, behaviour, now())

    async def _work(self, run: _PodRun, behaviour: Behaviour, began: float) -> tuple[int, str]:
        now = asyncio.get_running_loop().time
        stopped_at: float | None = None
        ends = began + behaviour.run_s if behaviour.run_s is not None else float("inf")

        def exit_time() -> float:
            nonlocal stopped_at
            if run.grace_s is None:
                return ends
            stopped_at = now() if stopped_at is None else stopped_at
            return min(ends, stopped_at + behaviour.stop_s, stopped_at + run.grace_s)

        await _sleep(run, exit_time)
        if run.exits is not None:
            return run.exits, _reason(run.exits)
        if run.rebooted:
            return LOST, "Unknown"  # this is what containerd says of it
        if run.grace_s is None or stopped_at is None or ends <= now():
            return behaviour.exit_code, _reason(behaviour.exit_code)
        return (TERMINATED if behaviour.stop_s <= run.grace_s else KILLED), "Error"

    async def _give_devices(self, run: _PodRun) -> bool:
        containers = run.pod["spec"]["containers"]
        wanted = sum(int(each.get("resources", {}).get("limits", {}).get(GPU, 0)) for each in containers)
        if not wanted:
            return True
        every = await self._device_ids(run.node)
        used = self._used.setdefault(run.node, set())
        free = [each for each in every if each not in used]
        run.devices = tuple(free[:wanted]) if len(free) >= wanted else ()
        used.update(run.devices)
        return bool(run.devices)

    async def _device_ids(self, name: str) -> tuple[str, ...]:
        if name not in self._device_ids_of:
            assert self._http is not None
            async with self._http.get(f"/api/v1/nodes/{name}") as answer:
                found = await answer.json()
            amount = int(found.get("status", {}).get("allocatable", {}).get(GPU, 0))
            self._device_ids_of[name] = device_ids(name, amount)
        return self._device_ids_of[name]

    def _free(self, run: _PodRun) -> None:
        if not run.has_freed:
            self._used.get(run.node, set()).difference_update(run.devices)
        run.has_freed = True

    async def _report(self, run: _PodRun, status: dict[str, Any]) -> None:
        await self._ask("PATCH", run, "/status", {"status": status})

    async def _ask(self, method: str, run: _PodRun, below: str, body: dict[str, Any]) -> None:
        """Until the API server has answered, whatever it is. Only when something is heard of the node again."""
        assert self._http is not None
        metadata = run.pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}{below}"
        kind = STRATEGIC_PATCH if method == "PATCH" else "application/json"
        while not run.gone:
            if (silence := self._silent.get(run.node)) is not None:
                await silence.wait()
            with contextlib.suppress(aiohttp.ClientError, OSError, asyncio.TimeoutError):
                data = json.dumps(body).encode()
                async with self._http.request(method, path, data=data, headers={"Content-Type": kind}) as answer:
                    if answer.status < 500 and answer.status != 429:
                        return
            await asyncio.sleep(RETRY_S)


async def _sleep(run: _PodRun, end: Callable[[], float]) -> None:
    """Until then; what happens to the pod may bring it forward. Not longer than the pod is there."""
    now = asyncio.get_running_loop().time
    while not (run.gone or run.rebooted or run.exits is not None) and (left := end() - now()) > 0:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_next_change(run), None if left == float("inf") else left)


async def _next_change(run: _PodRun) -> None:
    await run.changed.wait()
    run.changed.clear()


def _is(pod: Pod, namespace: str, name: str) -> bool:
    return (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name)


def _reason(code: int) -> str:
    return "Completed" if code == 0 else "Error"


# --- what is reported ----------------------------------------------------------------------------------------------


def _running(pod: Pod, message: str) -> dict[str, Any]:
    address = f"10.244.{hash(pod['metadata']['uid']) % 250}.{hash(pod['metadata']['name']) % 250 + 1}"
    state = {"running": {"startedAt": _now()}}
    return {
        "phase": "Running",
        "startTime": _now(),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions("True"),
        "initContainerStatuses": _finished(pod, message),
        "containerStatuses": _containers(pod, state, ready=True),
    }


def _finished(pod: Pod, message: str) -> list[dict[str, Any]]:
    end = {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now(), "message": message}
    state, containers = {"terminated": end}, pod["spec"].get("initContainers", [])
    return _containers({**pod, "spec": {"containers": containers}}, state, ready=True)


def _waiting(pod: Pod, reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "startTime": _now(), "containerStatuses": _containers(pod, state, ready=False)}


def _ended(pod: Pod, code: int, reason: str) -> dict[str, Any]:
    if reason == "UnexpectedAdmissionError":
        message = f"Allocate failed due to requested number of devices unavailable for {GPU}, which is unexpected"
        return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    began = _now()
    for each in pod.get("status", {}).get("containerStatuses", []):
        began = each.get("state", {}).get("running", {}).get("startedAt", began)
    state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": _now()}}
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "conditions": _conditions("False"),
        "containerStatuses": _containers(pod, {**state, "running": None, "waiting": None}, ready=False),
    }


def _containers(pod: Pod, state: dict[str, Any], *, ready: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": each["image"],
            "restartCount": 0,
            "ready": ready,
            "started": ready,
            "state": state,
            "containerID": f"fake://{pod['metadata']['uid']}",
        }
        for each in pod["spec"]["containers"]
    ]


def _conditions(ready: str) -> list[dict[str, str]]:
    always = [_condition(kind, "True") for kind in ("PodScheduled", "Initialized")]
    return [*always, *(_condition(kind, ready) for kind in ("ContainersReady", "Ready"))]


def _condition(kind: str, status: str, reason: str = "") -> dict[str, str]:
    now = _now()
    found = {"type": kind, "status": status, "lastTransitionTime": now}
    return {**found, **({"reason": reason, "lastHeartbeatTime": now} if reason else {})}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
