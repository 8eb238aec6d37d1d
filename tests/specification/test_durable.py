"""A file that is written durably is the old one or the new one, whatever the disk does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairpool.agent.durable import write_durably


def test_a_disk_that_takes_a_little_at_a_time_gets_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: plain(handle, content[:7]))
    write_durably(tmp_path / "file", b"0123456789" * 10)
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_disk_that_fails_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "file", b"new")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_content_is_on_the_disk_before_its_name_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, fsync, rename = [], os.fsync, os.rename

    def flushed(handle: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "content")
        fsync(handle)

    def renamed(path: str, target: Path) -> None:
        done.append("name")
        rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    write_durably(tmp_path / "file", b"new")
    assert done == ["content", "name", "folder"]
