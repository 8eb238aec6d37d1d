"""The lock of a data directory: one process uses it at a time, and others can see which."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from fairpool.model.problem import Problem
from fairpool.platform.data_directory import (
    CLUSTER,
    CONTROL,
    PROGRAMS,
    UP,
    DataDirectory,
    PlatformError,
    directory_problem,
)

SERVER_NAMES = {UP: "Fairpool", CONTROL: "a control plane", CLUSTER: "a cluster"}
LOCK_BYTES = 1024
LOCK_TIMEOUT_S = 0.5
"""A command that only reads the lock holds it for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """The process that uses a data directory."""

    pid: int
    command: str = "up"
    """`up`, `control` or `cluster` for a server; other commands hold the lock for a moment."""
    address: str = ""
    version: str = ""
    since_ms: int = 0

    @property
    def is_server(self) -> bool:
        return self.command in PROGRAMS


def lock_holder(data_directory: DataDirectory) -> LockHolder | None:
    """The process that holds the lock, if any. A killed process holds none, whatever it has written."""
    try:
        handle = os.open(data_directory.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            until = time.monotonic() + LOCK_TIMEOUT_S
            while (holder := _read(handle)).pid == 0 and time.monotonic() < until:
                time.sleep(0.02)
            return holder
        return None
    finally:
        os.close(handle)


@contextmanager
def locked(data_directory: DataDirectory, command: str, version: str = "") -> Iterator[Callable[[str], None]]:
    """Hold the lock; the yielded function records the server's address. Raises `PlatformError` if it is held."""
    try:
        data_directory.refuse_foreign_files()
        handle = os.open(data_directory.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PlatformError(directory_problem(data_directory.root, error)) from error
    try:
        if not _take(handle):
            raise PlatformError(in_use(data_directory, _read(handle)))
        mine = LockHolder(pid=os.getpid(), command=command, version=version, since_ms=time.time_ns() // 1_000_000)
        try:
            _write(handle, mine)
        except OSError as error:
            raise PlatformError(directory_problem(data_directory.root, error)) from error
        yield lambda address: _write(handle, replace(mine, address=address))
    finally:
        os.close(handle)


def in_use(data_directory: DataDirectory, holder: LockHolder) -> Problem:
    """The error message for a second process."""
    if not holder.is_server:
        what = f"`fairpool {holder.command}` is running in {data_directory.root} (process {holder.pid})"
        return Problem("up.busy", what, "wait until it finishes")
    at = f" at {holder.address}" if holder.address else ""
    what = (
        f"{SERVER_NAMES[holder.command]} is already running{at} (process {holder.pid}, data in {data_directory.root})"
    )
    return Problem("up.already", what, "use it, stop it with `fairpool down`, or choose another directory with --data")


def _take(handle: int) -> bool:
    until = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)


def _write(handle: int, holder: LockHolder) -> None:
    # Padded, so that one write replaces the other and a concurrent reader sees no mixture of both.
    os.pwrite(handle, json.dumps(asdict(holder)).encode().ljust(LOCK_BYTES), 0)


def _read(handle: int) -> LockHolder:
    try:
        return LockHolder(**json.loads(os.pread(handle, LOCK_BYTES, 0)))
    except (ValueError, TypeError):
        return LockHolder(pid=0)  # it has taken the lock and not yet written its entry
