"""Snapshot files on disk: reading one, writing one. What is in them is `scheduler/snapshot_file.py`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from fairpool.model.problem import Problem
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import LARGEST_BYTES, Loaded, decode, encode

STANDARD_STREAM = "-"


def load(name: str) -> Loaded | Problem:
    """The snapshot in a file, or in what comes through standard input if the name is `-`."""
    try:
        data = _read(name)
    except OSError as error:
        return _unreachable("read", name, error)
    with _without_collector():
        return decode(data)


def save(snapshot: Snapshot, name: str, *, overwrite: bool = False) -> Problem | None:
    """Write a file whole or not at all; `-` is standard output."""
    data = encode(snapshot)
    try:
        if name == STANDARD_STREAM:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif not overwrite and Path(name).exists():
            return Problem("file.exists", f"{name} exists already", "choose another name, or add --force")
        else:
            _write(Path(name), data)
    except OSError as error:
        return _unreachable("written", name, error)
    return None


def _read(name: str) -> bytes:
    if name == STANDARD_STREAM:
        return sys.stdin.buffer.read(LARGEST_BYTES)
    with Path(name).open("rb") as file:
        return file.read(LARGEST_BYTES)


def _write(path: Path, data: bytes) -> None:
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def _unreachable(done: str, name: str, error: OSError) -> Problem:
    what = f"{name} cannot be {done}: {(error.strerror or str(error)).lower()}"
    return Problem(
        "file.unreachable",
        what,
        "name a snapshot file that is there and that you may read"
        if done == "read"
        else "name a file in a folder that is there and that you may write to",
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Rows make no cycles, and looking for some among 100 000 of them takes a third of the time of reading them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
