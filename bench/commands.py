"""What one call of `runai` costs: from the shell's fork to the exit code, each in a process of its own.

    python -m bench.commands [--repeat K]

A control plane in this process answers on a free port; the commands know it as a person's would. CPU time is what tells
on a machine with other work; wall time has the rest. The first call of each kind, which reads files from disk, is left
out of the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import uvicorn

from bench._report import Setting
from fairpool.control.app import create_app
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER, Settings
from tests.control.house import choose_password

RUNAI = [sys.executable, "-m", "fairpool.cli.runai.main"]
ADM = [sys.executable, "-m", "fairpool.cli.adm.main"]
MEASURED = {
    "python, nothing else": [sys.executable, "-c", "pass"],
    "runai --help": [*RUNAI, "--help"],
    "runai submit --help": [*RUNAI, "submit", "--help"],
    "runai-adm --help": [*ADM, "--help"],
    "runai list jobs": [*RUNAI, "list", "jobs"],
    "runai list projects": [*RUNAI, "list", "projects"],
    "runai describe job": [*RUNAI, "describe", "job", "first"],
    "runai why": [*RUNAI, "why", "first"],
    "runai submit": [*RUNAI, "submit", "-i", "python", "-g", "0.5", "--", "python", "train.py"],
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.commands", description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    repeat = parser.parse_args(arguments).repeat
    print(Setting.here())
    print(f"{'':24} {'CPU ms: least':>14} {'median':>8} {'wall ms: least':>16} {'median':>8}")
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder) / "data") as address:
        told = {"FAIRPOOL_SERVER": address, "FAIRPOOL_CONFIG": f"{folder}/config", "COLUMNS": "80"}
        _settle({**os.environ, **told})
        for name, command in MEASURED.items():
            print(_row(name, command, {**os.environ, **told}, repeat), flush=True)
    return 0


def _settle(environment: dict[str, str]) -> None:
    """Somebody who is signed in, with a project and a job."""
    for command, typed in (
        ([*RUNAI, "login", "-u", FIRST_USER, "--password-stdin"], f"{FIRST_PASSWORD}\n"),
        ([*ADM, "project", "create", "team-a", "-g", "4"], ""),
        ([*RUNAI, "config", "project", "team-a"], ""),
        ([*RUNAI, "submit", "first", "-i", "python"], ""),
    ):
        subprocess.run(command, input=typed, env=environment, text=True, capture_output=True, check=True)


def _row(name: str, command: list[str], environment: dict[str, str], repeat: int) -> str:
    cpu, wall = [], []
    for number in range(repeat + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, env=environment, capture_output=True, check=True)
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if number:
            cpu.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
            wall.append(took * 1000)
    return f"{name:24} {min(cpu):14.0f} {median(cpu):8.0f} {min(wall):16.0f} {median(wall):8.0f}"


@contextmanager
def _serving(data: Path) -> Iterator[str]:
    app = create_app(Settings(data=data))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the control plane did not start")
        time.sleep(0.01)
    asyncio.run_coroutine_threadsafe(choose_password(app), loops[0]).result()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    sys.exit(main())
