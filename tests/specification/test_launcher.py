"""The supervisor's end of the fork server: whether it is silent is judged by what it has said."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from fairpool.agent.launcher import Launcher


def test_an_answer_that_was_not_read_yet_is_no_silence(tmp_path: Path) -> None:
    """Between two turns answers are not read; `fairpool status` must not call that an error."""
    launcher = Launcher(tmp_path / "log", tmp_path / "rehearsal")
    ours, fork_server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    launcher._connection, launcher._unanswered, launcher._answered_at = ours, 1, time.monotonic() - 60
    assert "has not answered for 60 s" in launcher.error
    fork_server.send(b"k")
    launcher.read_answers()
    assert launcher.error == ""
    launcher.close()
    fork_server.close()
