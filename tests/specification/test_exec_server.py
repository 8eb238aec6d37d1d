"""Exec and attach at the shim's socket: errors are sent to the client."""

from __future__ import annotations

import errno
import json
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.agent import exec_client
from fairpool.agent.exec_server import ExecServer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ExecServer, select.poll]]:
    monkeypatch.chdir(tmp_path)
    poll = select.poll()
    server = ExecServer(poll, {"env": {}, "cwd": "/"})
    server.set_program(main=0, stdin=-1, is_terminal=False)
    server.open()
    yield server, poll
    server.close()


def test_only_a_pod_with_stdin_has_a_socket_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader, keyboard = os.pipe()
    for fd, has_socket in ((-1, False), (keyboard, True)):
        server = ExecServer(select.poll(), {"env": {}, "cwd": "/"})
        server.set_program(main=0, stdin=fd, is_terminal=False)
        assert (tmp_path / "exec.sock").exists() == has_socket
        server.close()
    os.close(reader)
    os.close(keyboard)


def test_a_socket_for_which_there_is_no_room_is_made_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = ExecServer(select.poll(), {"env": {}, "cwd": "/"})
    (tmp_path / "exec.sock").mkdir()
    server.open()
    with pytest.raises(ConnectionRefusedError):
        exec_client.attach(tmp_path)
    (tmp_path / "exec.sock").rmdir()
    for _ in range(2):  # opening it again changes nothing for connected clients
        server.open()
        exec_client.attach(tmp_path).close()
    server.close()


def test_where_no_process_can_be_forked_the_client_gets_the_error(
    server: tuple[ExecServer, select.poll], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = exec_client.execute(tmp_path, ["true"])
    with monkeypatch.context() as without:
        without.setattr(os, "fork", no_more_processes)
        serve(*server)
    assert run.wait(5) == 126
    assert run.stderr is not None
    assert os.read(run.stderr, 1000).startswith(b"cannot start a process in the pod")
    run.close()
    serve(*server)


def test_the_end_of_a_command_is_not_sent_to_a_client_that_left(server: tuple[ExecServer, select.poll]) -> None:
    run = exec_client.execute(Path(), ["true"])
    serve(*server)
    pid, status = os.waitpid(-1, 0)
    run.close()
    server[0].child_ended(pid, os.waitstatus_to_exitcode(status))
    server[0].child_ended(os.getpid(), 0)
    serve(*server)


def test_a_client_gets_the_exit_code_of_its_command(server: tuple[ExecServer, select.poll]) -> None:
    run = exec_client.execute(Path(), ["sh", "-c", "exit 3"])
    serve(*server)
    pid, status = os.waitpid(-1, 0)
    server[0].child_ended(pid, os.waitstatus_to_exitcode(status))
    server[0].child_ended(pid, 0)
    assert json.loads(run._connection.recv(100)) == {"exit": 3}
    run.close()


def no_more_processes() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def serve(server: ExecServer, poll: select.poll) -> None:
    """Until nothing is left to do."""
    while ready := poll.poll(0):
        for fd, events in ready:
            server.serve(fd, events)
