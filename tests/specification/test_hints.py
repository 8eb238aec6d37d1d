"""Hints are taken as they come; what may be missing is known."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from fairpool.agent import hints
from fairpool.agent.hints import Hints
from fairpool.agent.shim_watch import is_readable


@pytest.fixture
def pod_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pods" / "a-0-0"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("pod_directory")
def test_hints_wake_and_are_taken_once(tmp_path: Path) -> None:
    listener = Hints(tmp_path)
    assert not is_readable([listener.fileno()], 0)
    for pod in ("a-0-0", "b-0-0", "a-0-0"):
        hints.send(pod)
    assert is_readable([listener.fileno()], 0)
    assert listener.take() == ({"a-0-0", "b-0-0"}, True)
    assert not is_readable([listener.fileno()], 0)
    assert listener.take() == (set(), True)
    listener.close()


@pytest.mark.usefixtures("pod_directory")
def test_who_hints_is_never_kept_waiting(tmp_path: Path) -> None:
    hints.send("a-0-0")  # there is nothing yet
    listener = Hints(tmp_path)
    for _ in range(20_000):  # far more than there is room for
        hints.send("a-0-0")
    assert listener.take() == ({"a-0-0"}, False)
    listener.close()
    hints.send("a-0-0")  # there is no reader any more
    (tmp_path / "hints").unlink()
    (tmp_path / "hints").mkdir()
    hints.send("a-0-0")


@pytest.mark.usefixtures("pod_directory")
def test_half_a_hint_may_hide_another(tmp_path: Path) -> None:
    listener = Hints(tmp_path)
    pipe = os.open(tmp_path / "hints", os.O_WRONLY)
    os.write(pipe, b"\xff\xfe")
    assert listener.take() == (set(), False)
    os.close(pipe)
    listener.close()


def test_the_next_listener_hears_all(pod_directory: Path, tmp_path: Path) -> None:
    before, now = Hints(tmp_path), Hints(tmp_path)
    hints.send(pod_directory.name)
    assert now.take() == ({pod_directory.name}, True)
    assert before.take() == (set(), True)
    before.close()
    now.close()


@pytest.mark.usefixtures("pod_directory")
def test_a_small_pipe_is_known_to_be_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with very many pipes is given small ones by the kernel."""
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: 4096)
    listener = Hints(tmp_path)
    for number in range(300):
        hints.send(f"pod-{number:03d}-0")
    _, are_all = listener.take()
    assert not are_all
    listener.close()


def test_who_writes_without_end_does_not_keep_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Hints(tmp_path)
    monkeypatch.setattr(os, "read", lambda fd, most: b"x-0-0\n" * 10)
    assert listener.take() == ({"x-0-0"}, False)
    listener.close()
