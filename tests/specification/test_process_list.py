"""Whose a process is: what a look at all of them says of one pod."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from fairpool.agent import process_table
from fairpool.agent.process_table import ProcessList


def test_the_number_of_a_namespace_counts_only_while_its_first_process_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives it to the next pod at once. A pod that had ended took its successor's processes with it."""
    own = os.getpid()
    started = process_table.start_time(own)
    assert started is not None
    monkeypatch.setattr(process_table, "pid_namespace", lambda pid: 77 if pid == own else 1)
    monkeypatch.setattr(ProcessList, "in_namespace", lambda self, inode: {own} if inode == 77 else set())
    assert ProcessList().pod_processes("", {own: started}, 77).keys() >= {own}
    assert ProcessList().pod_processes("", {own: started - 1}, 77) == {}, "another process had that number before"
    assert ProcessList().pod_processes("", {}, 77) == {}


def test_any_bytes_may_be_in_the_environment_of_a_process() -> None:
    with subprocess.Popen(["sleep", "60"], env={b"POD_UUID": b"\xff\n", b"PATH": os.environb[b"PATH"]}) as process:
        try:
            while process_table.pod_uuid_of(process.pid) is None:
                time.sleep(0.01)
            found = ProcessList().by_pod_uuid()
            assert process.pid in found[process_table.pod_uuid_of(process.pid) or ""]
        finally:
            process.kill()
