"""Visitors of a pod, at the door itself: what cannot be done for them is said to them."""

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
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ExecServer, select.poll]]:
    monkeypatch.chdir(tmp_path)
    poll = select.poll()
    door = ExecServer(poll, {"env": {}, "cwd": "/"})
    door.set_program(main=0, stdin=-1, is_terminal=False)
    door.open()
    yield door, poll
    door.close()


def test_only_who_has_a_keyboard_has_a_door_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader, keyboard = os.pipe()
    for fd, has_door in ((-1, False), (keyboard, True)):
        door = ExecServer(select.poll(), {"env": {}, "cwd": "/"})
        door.set_program(main=0, stdin=fd, is_terminal=False)
        assert (tmp_path / "exec.sock").exists() == has_door
        door.close()
    os.close(reader)
    os.close(keyboard)


def test_a_door_for_which_there_is_no_room_is_made_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    door = ExecServer(select.poll(), {"env": {}, "cwd": "/"})
    (tmp_path / "exec.sock").mkdir()
    door.open()
    with pytest.raises(ConnectionRefusedError):
        exec_client.attach(tmp_path)
    (tmp_path / "exec.sock").rmdir()
    for _ in range(2):  # who knocks again changes nothing for those inside
        door.open()
        exec_client.attach(tmp_path).close()
    door.close()


def test_where_no_process_can_be_made_the_visitor_is_told(
    door: tuple[ExecServer, select.poll], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = exec_client.execute(tmp_path, ["true"])
    with monkeypatch.context() as without:
        without.setattr(os, "fork", no_more_processes)
        serve(*door)
    assert run.wait(5) == 126
    assert run.stderr is not None
    assert os.read(run.stderr, 1000).startswith(b"cannot start a process in the pod")
    run.close()
    serve(*door)


def test_the_end_of_a_command_is_told_to_nobody_who_left(door: tuple[ExecServer, select.poll]) -> None:
    run = exec_client.execute(Path(), ["true"])
    serve(*door)
    pid, status = os.waitpid(-1, 0)
    run.close()
    door[0].child_ended(pid, os.waitstatus_to_exitcode(status))
    door[0].child_ended(os.getpid(), 0)
    serve(*door)


def test_a_visitor_learns_how_its_command_ended(door: tuple[ExecServer, select.poll]) -> None:
    run = exec_client.execute(Path(), ["sh", "-c", "exit 3"])
    serve(*door)
    pid, status = os.waitpid(-1, 0)
    door[0].child_ended(pid, os.waitstatus_to_exitcode(status))
    door[0].child_ended(pid, 0)
    assert json.loads(run._connection.recv(100)) == {"exit": 3}
    run.close()


def no_more_processes() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def serve(door: ExecServer, poll: select.poll) -> None:
    """Until nothing is left to do."""
    while ready := poll.poll(0):
        for fd, events in ready:
            door.serve(fd, events)
