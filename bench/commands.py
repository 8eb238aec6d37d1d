"""What one call of `runai` costs: CPU and wall time from fork to exit, each call in a process of its own.

    python -m bench.commands [--repeat N] [--json FILE]

A platform of its own (`fairpool up`, one simulated node) runs beside. Each command is called once to warm the file and
bytecode caches, then N times. CPU time is user and system time of that one process, as `wait4` reports it; the server's
is not in it. `PYTHONDONTWRITEBYTECODE` is ignored: an installed command has its bytecode beside it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench._report import Column, Line, Setting, Table
from bench._server import end_in_good_order
from bench.e2e import processes

RUNAI = (sys.executable, "-m", "fairpool.cli.runai.main")
ADM = (sys.executable, "-m", "fairpool.cli.adm.main")
ORDINARY_S, HELP_S = 0.120, 0.090
"""Goals, in seconds of CPU time."""
COLUMNS = (
    Column("goal", 9, "goal_s", is_time=True),
    Column("cpu", 9, "median_s", is_time=True),
    Column("worst", 9, "max_s", is_time=True),
    Column("wall", 9, "wall_median_s", is_time=True),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A command, and what it may cost."""

    words: tuple[str, ...]
    goal_s: float | None = None


MEASURED = {
    "python": Case((sys.executable, "-c", "pass")),
    "help": Case((*RUNAI, "--help"), HELP_S),
    "submit --help": Case((*RUNAI, "submit", "--help"), HELP_S),
    "adm --help": Case((*ADM, "--help"), HELP_S),
    "list": Case((*RUNAI, "list"), ORDINARY_S),
    "list projects": Case((*RUNAI, "list", "projects"), ORDINARY_S),
    "list nodes": Case((*RUNAI, "list", "nodes"), ORDINARY_S),
    "describe": Case((*RUNAI, "describe", "job", "first"), ORDINARY_S),
    "logs": Case((*RUNAI, "logs", "first"), ORDINARY_S),
    "why": Case((*RUNAI, "why", "first"), ORDINARY_S),
    "submit": Case((*RUNAI, "submit", "-i", "python", "-g", "0.1", "--", "true"), ORDINARY_S),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.commands", description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    end_in_good_order()
    setting = Setting.here()
    print(f"{setting}, load average {os.getloadavg()[0]:.1f}")
    table = Table(COLUMNS, size="calls")
    table.head()
    lines = []
    with tempfile.TemporaryDirectory(prefix="fairpool-bench-") as made, processes(Path(made), 1):
        environment = _environment(Path(made))
        _prepare(environment)
        for name, case in MEASURED.items():
            line = Line(name, {"calls": asked.repeat}, asked.repeat, _measured(case, environment, asked.repeat))
            table.add(line, _outcome(line))
            lines.append(line)
    if asked.json:
        asked.json.write_text("".join(f"{line.as_json('commands', setting)}\n" for line in lines))
    return 0


def _outcome(line: Line) -> str:
    """Nothing fails when a goal is missed: how busy the machine is decides too much."""
    goal_s = line.metrics.get("goal_s")
    return "" if goal_s is None else "within" if line.metrics["median_s"] <= goal_s else "over"


def _environment(folder: Path) -> dict[str, str]:
    """Signed in to the platform of this folder, with a bytecode cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "PYTHON"))}
    own = {"FAIRPOOL_CONFIG": str(folder / "config"), "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "COLUMNS": "80"}
    return kept | own


def _prepare(environment: Mapping[str, str]) -> None:
    """A project, and a job that has run."""
    script = "print('one line of output')"
    for command in (
        (*ADM, "project", "create", "team-a", "-g", "4"),
        (*RUNAI, "config", "project", "team-a"),
        (*RUNAI, "submit", "first", "-i", "python", "-g", "0.1", "--command", "--", "python", "-c", script),
        (*RUNAI, "wait", "first", "--timeout", "5m"),
    ):
        subprocess.run(command, env=dict(environment), capture_output=True, check=True)


def _measured(case: Case, environment: Mapping[str, str], repeat: int) -> dict[str, float]:
    calls = [_called(case.words, environment) for _ in range(repeat + 1)][1:]
    cpu, wall = [each[0] for each in calls], [each[1] for each in calls]
    goal = {} if case.goal_s is None else {"goal_s": case.goal_s}
    return goal | {"median_s": median(cpu), "min_s": min(cpu), "max_s": max(cpu), "wall_median_s": median(wall)}


def _called(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """CPU and wall time of one call; an error of the command is one of the benchmark."""
    began = time.perf_counter()
    child = subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    took = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime, took


if __name__ == "__main__":
    sys.exit(main())
