"""A platform for tests: the real command in a process of its own, on a free port and a folder of its own."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from fairpool.agent import process_table
from fairpool.api import organization as org
from fairpool.api import workload_spec as work
from fairpool.api.client import Client, Unreachable
from fairpool.model.problem import Problem
from fairpool.platform import admin_socket, background
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.directory_lock import lock_holder
from tests import postgresql

PATIENCE_S = 180.0
"""Until a test gives up; much longer than anything takes, because machines that test are busy."""


def fairpool(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command, as a person types it, until it ends."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    kept = {
        "FAIRPOOL_CONFIG": _nowhere(),
        **variables,
    }  # `up` signs `runai` in: not that of the user who runs the tests
    return subprocess.run(
        [sys.executable, "-m", "fairpool.cli.main", *arguments],
        env={**own, "FAIRPOOL_DISK_RESERVE": "32MiB", **kept},  # of many platforms on one disk
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@lru_cache
def _nowhere() -> str:
    folder = tempfile.TemporaryDirectory(prefix="fairpool-config-")
    atexit.register(folder.cleanup)
    return folder.name


class Running:
    """A platform on one folder, that may be up or not."""

    def __init__(self, folder: Path, nodes: str = "simulated", config: Path | None = None) -> None:
        self.data_directory = DataDirectory(folder)
        self._variables = {} if config is None else {"FAIRPOOL_CONFIG": str(config)}
        self._nodes = nodes
        self._client: Client | None = None

    def command(self, *arguments: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        variables = dict(self._variables) if config is None else {"FAIRPOOL_CONFIG": str(config)}
        if postgresql.is_chosen() and arguments[0] == "up":
            variables["FAIRPOOL_DATABASE"] = postgresql.databases().url(self.data_directory.root)
        return fairpool(*arguments, "--data", str(self.data_directory.root), **variables)

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start it in the background, at a free port; at first with simulated nodes, whatever machine this is."""
        if not self.data_directory.nodes.exists() and not {"--nodes", "--node"}.intersection(arguments):
            arguments = (*arguments, "--nodes", self._nodes)
        started = self.command("up", "--detach", "--listen", "127.0.0.1:0", *arguments)
        assert started.returncode == 0, started.stdout + started.stderr
        return started

    def down(self, *arguments: str) -> str:
        ended = self.command("down", *arguments)
        assert ended.returncode == 0, ended.stderr
        self._client = None
        return ended.stdout

    def kill(self) -> None:
        """As the power would, for this process."""
        os.kill(self.pid, signal.SIGKILL)
        self.until(lambda: lock_holder(self.data_directory) is None, "the lock is free")
        self._client = None

    @property
    def status(self) -> dict[str, Any]:
        status = background.status_of(self.data_directory, 10.0)
        assert status is not None
        return status

    @property
    def pid(self) -> int:
        return int(self.status["pid"])

    @property
    def client(self) -> Client:
        """Signed in as the first user, with a project to work in."""
        if self._client is None:
            self._client = Client(self.status["address"], self.owner_token())
            if not any(each.name == "team-a" for each in self._client.projects()):
                body = {"name": "team-a", "resources": [{"gpu": {"deserved": 4}}]}
                self._client.create_project(org.ProjectRequest.model_validate(body))
        return self._client

    def sign_in(self, config: Path) -> None:
        """Sign a `runai` with this configuration in as the first user, as its owner does: by repeating `up`."""
        done = self.command("up", "--detach", config=config)
        assert (done.returncode, "is signed in" in done.stdout) == (0, True), done.stdout + done.stderr

    def owner_token(self) -> str:
        """A token of the first user, as `fairpool up` gets it: over the admin socket."""
        answer = admin_socket.ask(self.data_directory.admin_socket, "welcome", PATIENCE_S, holding=[], project="")
        assert not isinstance(answer, Problem), answer
        return str(answer["tokens"]["access_token"])

    def submit(self, name: str, program: str, gpu: str = "0.5") -> str:
        """A training that is a line of Python; its id."""
        spec = {"image": "python", "command": "python", "args": f"-u -c '{program}'", "compute": {"gpu": gpu}}
        body = {"name": name, "projectId": "team-a", "spec": spec}
        return self.client.submit(work.SubmitTraining.model_validate(body)).id

    def phase(self, workload: str) -> str:
        try:
            return str(self.client.workload(workload).phase)
        except Unreachable:
            return ""

    def until_phase(self, workload: str, phase: str) -> None:
        self.until(lambda: self.phase(workload) == phase, f"{workload} is {phase}")

    def log(self, workload: str) -> str:
        return b"".join(self.client.logs(workload)).decode()

    def until(self, holds: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"waited in vain until {what}\n{self._journal()}"
            time.sleep(0.02)

    def leftovers(self) -> list[str]:
        """Every process that has to do with this folder: server, fork server, shims, pods."""
        root = str(self.data_directory.root).encode()
        found: dict[int, str] = {}
        for pid in process_table.pids():
            try:
                where = os.readlink(f"/proc/{pid}/cwd").encode()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            is_ours = where.startswith(root) or root in command or root in environment
            if is_ours and pid != os.getpid() and process_table.start_time(pid) is not None:
                found[pid] = command.decode(errors="replace")
        for pid in [
            below for each in found for below in process_table.descendants(each)
        ]:  # pods do not name the folder
            if process_table.start_time(pid) is not None:
                with suppress(OSError):
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return [f"{pid}: {command}" for pid, command in found.items()]

    def clean_up(self) -> None:
        """End everything as a person would, and prove that nothing is left; else kill it and fail."""
        try:
            self.down("--stop-pods")
            end = time.monotonic() + PATIENCE_S
            while (left := self.leftovers()) and time.monotonic() < end:
                time.sleep(0.02)
            assert not left, left
        finally:
            for line in self.leftovers():
                os.kill(int(line.partition(":")[0]), signal.SIGKILL)

    def _journal(self) -> str:
        return self.data_directory.log.read_text(encoding="utf-8")[-4000:] if self.data_directory.log.exists() else ""
