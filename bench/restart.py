"""A restart after kill -9: how long until the platform is ready again, and what it takes.

    python -m bench.restart [--pending N] [--repeat K]

`fairpool up` on one simulated node, with N jobs that wait for a node that is cordoned. The server is killed and started
again; the clock runs from the start of the process until `/readyz` says so. CPU time is what tells on a machine with
other work. Memory is what the process has resident then, and after a while of rest. As for an installed server, the
bytecode of its modules is kept: `PYTHONDONTWRITEBYTECODE` is ignored.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench._report import Setting
from bench._server import TICKS, resident_mib
from fairpool.api.client import Client
from fairpool.platform import admin_socket
from fairpool.platform.data_directory import DataDirectory
from fairpool.platform.directory_lock import lock_holder

COMMAND = [sys.executable, "-m", "fairpool.cli.main"]
REST_S = 3.0
LOOK_S = 0.005
PATIENCE_S = 300.0
SUBMITTERS = 16
"""Connections that submit: what arrives together is committed together."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.restart", description=__doc__)
    parser.add_argument("--pending", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    print(Setting.here())
    print(f"{'pending':>8} {'ready s':>8} {'CPU s':>6} {'MiB ready':>10} {'MiB at rest':>12}")
    with tempfile.TemporaryDirectory() as folder:
        data = DataDirectory(Path(folder, "data"))
        for pending in dict.fromkeys((0, options.pending)):
            with server(data) as (pid, _):
                submit(data, pending)
                os.kill(pid, signal.SIGKILL)
            for _ in range(options.repeat):
                with server(data) as (pid, took_s):
                    cpu_s, mib = cpu_seconds(pid), resident_mib(pid)
                    time.sleep(REST_S)
                    rested = resident_mib(pid)
                    print(f"{pending:>8} {took_s:>8.2f} {cpu_s:>6.2f} {mib:>10.0f} {rested:>12.0f}", flush=True)
    return 0


@contextmanager
def server(data: DataDirectory, simulated: str = "1x8:V100-32GB") -> Iterator[tuple[int, float]]:
    """The server in the foreground: its process, and how long it took to be ready. Killed afterwards."""
    nodes = [] if data.nodes.exists() else ["--nodes", simulated]
    command = [*COMMAND, "up", "--in-background", "--data", str(data.root), "--listen", "127.0.0.1:0", *nodes]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "PYTHON"))}
    own = {**kept, "FAIRPOOL_CONFIG": str(data.root.parent / "config"), "FAIRPOOL_DISK_RESERVE": "0"}
    began = time.perf_counter()
    process = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL)
    try:
        while not is_ready(data, process.pid):
            assert process.poll() is None, "the server ended"
            assert time.perf_counter() < began + PATIENCE_S, "the server is not ready"
            time.sleep(LOOK_S)
        yield process.pid, time.perf_counter() - began
    finally:
        process.kill()
        process.wait()


def is_ready(data: DataDirectory, pid: int) -> bool:
    holder = lock_holder(data)
    if holder is None or holder.pid != pid or not holder.address:
        return False
    try:
        with urllib.request.urlopen(f"{holder.address}/readyz", timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.HTTPError):
        return False


def submit(data: DataDirectory, jobs: int) -> None:
    """Jobs that wait for the only node, which is cordoned."""
    answer = admin_socket.ask(data.admin_socket, "welcome", PATIENCE_S, holding=[], project="")
    holder = lock_holder(data)
    assert isinstance(answer, dict)
    assert holder is not None
    token = answer["tokens"]["access_token"]
    with Client(holder.address, token) as client:
        while not (nodes := client.nodes()):
            time.sleep(LOOK_S)
        client.override_node(nodes[0].name, {"cordoned": True})
        with ThreadPoolExecutor(SUBMITTERS) as pool:
            parts = [range(first, jobs, SUBMITTERS) for first in range(SUBMITTERS)]
            list(pool.map(partial(submit_some, holder.address, token), parts))
        while jobs and client.workloads(filters=["phase==Pending"], limit=1).workloads == []:
            time.sleep(LOOK_S)


def submit_some(address: str, token: str, numbers: range) -> None:
    spec = {"image": "python", "command": "sleep", "args": "1", "compute": {"gpu": "1"}}
    with Client(address, token) as client:
        for number in numbers:
            client._post(
                "/api/v1/workloads/trainings", {"name": f"job-{number:05d}", "projectId": "demo", "spec": spec}
            )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main())
