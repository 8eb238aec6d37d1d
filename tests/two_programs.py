"""`fairpool control` and `fairpool cluster` as two processes for tests, with a link between them that can be cut."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairpool.api.client import Client
from fairpool.platform.directory_lock import lock_holder
from tests.running_platform import Running

PIECE = 65536
LOOK_S = 0.05


class Relay:
    """Forwards TCP connections to a port, until it is cut: then what is sent stays where it is, as on a dead cable."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.target = 0
        self._is_open = threading.Event()
        self._is_open.set()
        self._is_over = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_open.clear()

    def mend(self) -> None:
        self._is_open.set()

    def close(self) -> None:
        self._is_over = True
        self._is_open.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(caller,), daemon=True).start()

    def _forward(self, caller: socket.socket) -> None:
        self._is_open.wait()
        with caller, suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
            other = {caller: server, server: caller}
            while not self._is_over:
                self._is_open.wait()
                ready, _, _ = select.select([caller, server], [], [], LOOK_S)
                for each in ready if self._is_open.is_set() else ():
                    piece = each.recv(PIECE)
                    if not piece:
                        return
                    other[each].sendall(piece)


class ServerProcess(Running):
    """One of the two programs."""

    def kill(self) -> None:
        """Whether or not it has begun to answer."""
        holder = lock_holder(self.data_directory)
        if holder is not None:
            with suppress(ProcessLookupError):
                os.kill(holder.pid, signal.SIGKILL)
            self.until(lambda: lock_holder(self.data_directory) is None, "the lock is free")


class ClusterProcess(ServerProcess):
    """`fairpool cluster` on one folder, that may be up or not."""

    def __init__(self, folder: Path, control: str, token_file: Path, config: Path, *flags: str) -> None:
        super().__init__(folder, config=config)
        self.control, self.token_file, self._flags = control, token_file, flags

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        started = self.tried(*arguments)
        assert started.returncode == 0, started.stdout + started.stderr
        return started

    def tried(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same, and it may fail."""
        if not self.data_directory.nodes.exists() and "--nodes" not in arguments:
            arguments = (*arguments, "--nodes", self._nodes)
        where = ("--control", self.control, "--token-file", str(self.token_file))
        return self.command("cluster", "--detach", *where, "--health-listen", "127.0.0.1:0", *self._flags, *arguments)


class ControlProcess(ServerProcess):
    """`fairpool control` on one folder, that may be up or not, always at the same address."""

    def __init__(self, folder: Path, config: Path, *flags: str) -> None:
        super().__init__(folder, config=config)
        self._flags = flags
        self.address = ""

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        listen = self.address.partition("://")[2] or "127.0.0.1:0"
        started = self.command("control", "--detach", "--listen", listen, *self._flags, *arguments)
        assert started.returncode == 0, started.stdout + started.stderr
        self.address = self.status["address"]
        return started

    def token_file(self, cluster: str) -> Path:
        """Add a cluster: its token, in a file."""
        file = self.data_directory.root.parent / f"{cluster}.token"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as opened:
            opened.write(self.administrator().create_cluster({"name": cluster}).token)
        return file

    def administrator(self) -> Client:
        return Client(self.address, self.owner_token())


@contextmanager
def control_at(folder: Path, *flags: str) -> Iterator[ControlProcess]:
    """A control plane, ended afterwards."""
    control = ControlProcess(folder / "control", folder / "config", *flags)
    try:
        control.up()
        yield control
    finally:
        control.down()


@contextmanager
def two_controls(folder: Path, database: str) -> Iterator[tuple[ControlProcess, ControlProcess]]:
    """Two control planes on one PostgreSQL database, killed afterwards."""
    keys = folder / "keys"
    keys.mkdir(parents=True)
    flags = ("--database", database, "--keys", str(keys), "--gateway-listen", "127.0.0.1:0")
    one, other = (ControlProcess(folder / name, folder / "config", *flags) for name in ("one", "other"))
    try:
        one.up()
        other.up()
        yield one, other
    finally:
        one.kill()
        other.kill()
