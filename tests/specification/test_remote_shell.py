"""The launcher's way to its workers: what `fairpool-rsh` says, and what the socket of a worker refuses."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairpool.agent.exec_server import PEERS_MAX, ExecServer
from fairpool.agent.pod import remote_shell

REQUEST = {"op": "exec", "argv": ["/bin/true"], "env": {}, "cwd": "", "tty": False, "size": [24, 80]}


class Worker:
    """The socket of a worker, served when a test says so."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "dist1-worker-0"
        self._poll = select.poll()
        self.server = ExecServer(self._poll, {"gang": [str(directory), self.path.name], "view": None, "env": {}})
        self.server.set_program(main=0, stdin=-1, is_terminal=False)

    def serve(self) -> None:
        while events := self._poll.poll(0):
            for fd, event in events:
                self.server.serve(fd, event)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.settimeout(10)
        client.connect(str(self.path))
        self.serve()
        return client

    def is_refused(self, client: socket.socket) -> bool:
        self.serve()
        try:
            return client.recv(4096) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    found = Worker(tmp_path)
    yield found
    found.server.close()


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(json.dumps({"op": "attach"}), id="to attach to its program"),
        pytest.param(json.dumps({**REQUEST, "tty": True}), id="a terminal"),
        pytest.param(json.dumps(REQUEST), id="a command without streams"),
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="no request"),
        pytest.param(json.dumps({"op": "halt"}), id="what there is not"),
    ],
)
def test_a_worker_takes_commands_and_nothing_else_from_other_pods(worker: Worker, packet: str) -> None:
    with worker.connect() as client:
        client.send(packet.encode())
        assert worker.is_refused(client)


def test_a_worker_takes_a_limited_number_of_connections_at_a_time(worker: Worker) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(worker.connect()) for _ in range(PEERS_MAX)]
        with worker.connect() as another:
            assert worker.is_refused(another)
        clients.pop().close()
        worker.serve()
        with worker.connect() as another:
            another.settimeout(0.01)
            with pytest.raises(TimeoutError):
                another.recv(1)


def test_the_socket_of_a_killed_shim_is_replaced(tmp_path: Path) -> None:
    Worker(tmp_path).server.close()
    again = Worker(tmp_path)
    again.connect().close()
    again.server.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "usage: fairpool-rsh HOST COMMAND"),
        (["dist1-worker-0"], "usage: fairpool-rsh HOST COMMAND"),
        (
            ["-l", "me", "dist1-worker-9", "true"],
            "dist1-worker-9 is not a worker of this job; its workers: dist1-worker-0",
        ),
        (["../dist1-worker-0", "true"], "'../dist1-worker-0' is not a worker of this job"),
        (["dist1-worker-0", "x" * 70_000], "the command is longer than 65536 characters"),
    ],
)
def test_a_host_that_is_no_worker_is_named(
    worker: Worker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.setenv(remote_shell.PEERS, str(worker.path.parent))
    assert remote_shell.main(arguments) == 255
    assert words in capsys.readouterr().err


def test_outside_of_an_mpi_job_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(remote_shell.PEERS, raising=False)
    assert remote_shell.main(["dist1-worker-0", "true"]) == 255
    assert "this is not a pod of an MPI job" in capsys.readouterr().err
