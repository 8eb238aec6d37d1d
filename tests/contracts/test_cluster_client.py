"""The client of a cluster: what it says of a control plane that refuses, is something else, or does not answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.api.credentials import SecretsRequest
from fairpool.model.ids import Revision, WorkloadId

PATIENCE_S = 60.0


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """An HTTP server that answers everything so."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            while True:
                line, _ = listener.accept()
                with line:
                    line.recv(65536)
                    line.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def refused(code: str) -> bytes:
    return json.dumps({"problems": [{"code": code, "what": "that is so", "fix": ""}]}).encode()


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        pytest.param(401, refused("access.not_signed_in"), "control.token", id="the token is wrong"),
        pytest.param(403, refused("access.denied"), "control.token", id="the token is not a cluster's"),
        pytest.param(409, refused("cluster.joined"), "cluster.joined", id="another installation has joined"),
        pytest.param(404, b"<html>", "control.not_fairpool", id="another server"),
        pytest.param(503, refused("database.busy"), None, id="it will pass"),
        pytest.param(502, b"<html>", None, id="a proxy whose server is away"),
        pytest.param(200, b"{}", None, id="not understood"),
    ],
)
def test_only_what_does_not_pass_by_itself_is_a_problem(status: int, body: bytes, code: str | None) -> None:
    with answering(status, body) as address, pytest.raises(ControlPlaneUnreachable) as raised:
        ClusterClient(address, "fpc_x").join("one")
    problem = raised.value.problem
    assert (problem.code if problem is not None else None) == code


@pytest.mark.parametrize(
    ("status", "body", "is_refusal"),
    [
        pytest.param(401, refused("access.not_signed_in"), True, id="the token was revoked"),
        pytest.param(403, refused("access.denied"), True, id="denied"),
        pytest.param(404, refused("workload.unknown"), True, id="there is no such workload any more"),
        pytest.param(403, b"<html>", False, id="a proxy"),
        pytest.param(404, b"<html>", False, id="another server"),
        pytest.param(503, refused("database.busy"), False, id="it will pass"),
    ],
)
def test_only_an_answer_of_the_control_plane_itself_is_a_refusal(status: int, body: bytes, *, is_refusal: bool) -> None:
    with answering(status, body) as address, pytest.raises(ControlPlaneUnreachable) as raised:
        ClusterClient(address, "fpc_x").secrets(SecretsRequest(workload=WorkloadId("w"), names=["a"], registry=""))
    assert raised.value.is_refusal is is_refusal


def test_closing_ends_a_call_in_another_thread() -> None:
    """A pull is held for many seconds, and a stop must not wait for it."""
    silent = socket.create_server(("127.0.0.1", 0))
    client = ClusterClient(f"http://127.0.0.1:{silent.getsockname()[1]}", "fpc_x")
    said: list[str] = []

    def pull() -> None:
        try:
            client.pull(Revision(1), PATIENCE_S)
        except ControlPlaneUnreachable as error:
            said.append(str(error))

    thread = threading.Thread(target=pull)
    thread.start()
    line, _ = silent.accept()
    assert line.recv(65536)
    begun = time.monotonic()
    client.close()
    thread.join(PATIENCE_S)
    assert said == ["the call was cancelled"]
    assert time.monotonic() - begun < PATIENCE_S / 2
    with pytest.raises(ControlPlaneUnreachable, match="cancelled"):
        client.pull(Revision(1), 0.0)
    line.close()
    silent.close()
