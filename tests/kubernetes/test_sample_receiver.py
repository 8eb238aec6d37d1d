"""Samples of agents: only the agent of a node is heard about it, whatever else can connect."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.node_samples import BYTES_MAX, FRESH_S, NodeSamples
from fairpool.model.ids import NodeName
from fairpool.platform.sample_receiver import ACCOUNT, AUDIENCE, sample_receiver
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import fake_nodes

pytestmark = pytest.mark.slow

BODY = b'{"node": {"cpu_cores": 3.5}, "pods": {"u1": {"cpu_cores": 1.5, "memory_bytes": 1048576}}}'


class Receiver:
    """One that runs, in a thread of its own."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.samples = NodeSamples()
        self._plane, self._namespace = plane, namespace
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._stop, self._started = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._started.wait(30)

    async def _run(self) -> None:
        def take(node: NodeName, body: bytes) -> bool:
            return self.samples.take(node, body, 0.0)

        server = find_api_server(str(self._plane.kubeconfig()))
        async with sample_receiver(self._listener, server, self._namespace, take):
            self._started.set()
            await self._stop.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def post(self, token: str, body: bytes = BODY, path: str = "/samples") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, body, {"Authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def receiver(control_plane: ControlPlane, namespace: str) -> Iterator[Receiver]:
    made = Receiver(control_plane, namespace)
    yield made
    made.close()


def token(plane: ControlPlane, namespace: str, node: str, account: str = ACCOUNT, audience: str = AUDIENCE) -> str:
    """Of a pod with this account on this node; empty: of no pod."""
    admin, place = plane.admin, f"/api/v1/namespaces/{namespace}"
    if admin.find(f"{place}/serviceaccounts/{account}") is None:
        admin.create(f"{place}/serviceaccounts", {"metadata": {"name": account}})
    asked = {"audiences": [audience], "expirationSeconds": 600}
    if node:
        spec = {"serviceAccountName": account, "nodeName": node, "containers": [{"name": "a", "image": "a"}]}
        body = {"metadata": {"generateName": "agent-"}, "spec": {**spec, "automountServiceAccountToken": False}}
        pod = admin.create(f"{place}/pods", body)["metadata"]
        asked["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
    return str(admin.create(f"{place}/serviceaccounts/{account}/token", {"spec": asked})["status"]["token"])


def test_an_agent_is_heard_about_its_own_node_and_nothing_else_is(
    receiver: Receiver, control_plane: ControlPlane, namespace: str
) -> None:
    with fake_nodes(control_plane, 2) as (here, there):
        agent = token(control_plane, namespace, here)
        assert [receiver.post(agent), receiver.post(agent)] == [204, 204]
        refused = {
            "no token": "",
            "an invented token": "abc.def.ghi",
            "of no pod": token(control_plane, namespace, ""),
            "of another account": token(control_plane, namespace, there, account="other"),
            "for another audience": token(control_plane, namespace, there, audience="https://kubernetes.default.svc"),
            "of an administrator": control_plane.tokens["admin"],
        }
        assert {why: receiver.post(each) for why, each in refused.items()} == dict.fromkeys(refused, 401)
        for broken in (b"", b"[]", b'{"node": {"cpu_cores": -1}}', b'{"node": {"cpu_cores": 1e99}}', b"[" * 100_000):
            assert receiver.post(agent, broken) == 400
        assert receiver.post(agent, path="/healthz") == 404
        known = receiver.samples
        assert known.of(NodeName(here), 1.0).pods["u1"].cpu_cores == 1.5, "what cannot be read changes nothing"
        assert known.of(NodeName(there), 1.0).pods == {}
        assert known.of(NodeName(here), FRESH_S + 1).pods == {}, "what is old is not known any more"


def test_requests_are_bounded(receiver: Receiver) -> None:
    for head in (
        f"POST /samples HTTP/1.1\r\nContent-Length: {BYTES_MAX + 1}\r\n\r\n",
        "POST /samples HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
            connection.sendall(head.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=30) as connection:
        connection.sendall(b"POST /samples HTTP/1.1\r\nX: " + b"a" * 100_000)
        assert connection.recv(100) == b"", "closed without an answer"
