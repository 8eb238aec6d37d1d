"""Around a measurement: a process per point with a time limit, the host, the table, the lines of JSON, exponents.

Shared by all benchmarks. What is measured, and how, is none of its business.
"""

from __future__ import annotations

import json
import math
import os
import platform
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent
SLACK_S = 60.0
"""Building the input and judging the outcome, which is not measured, may take this long."""


# ---- a process with a limit


class OverLimitError(Exception):
    """A measured step took longer than it may."""


class FailedError(Exception):
    """The process ended without a result."""


def watched(module: str, point: Mapping[str, object], limit_s: float) -> Iterator[dict[str, Any]]:
    """Start a module on one point and hand on what it says, ending with its result.

    It is stopped as soon as a measured step takes longer than the limit, or anything else much longer.
    """
    command = [sys.executable, "-m", module, json.dumps(point)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stderr is not None
    events: queue.Queue[dict[str, Any] | None] = queue.Queue()
    complaints: list[str] = []
    threading.Thread(target=_listen, args=(child.stdout, events), daemon=True).start()
    hearing = threading.Thread(target=lambda stream: complaints.append(stream.read()), args=(child.stderr,))
    hearing.start()
    said, patience_s = "", limit_s + SLACK_S
    try:
        while said != "result":
            event = events.get(timeout=patience_s)
            if event is None:
                child.wait()
                hearing.join()
                raise _failure(child.returncode, "\n".join(complaints).strip())
            said = str(event["event"])
            patience_s = limit_s if said == "built" else limit_s + SLACK_S
            if said == "run" and event["wall_s"] > limit_s:
                raise OverLimitError
            yield event
    except queue.Empty:
        raise OverLimitError from None
    finally:
        child.kill()
        child.wait()


def _listen(stream: IO[str], events: queue.Queue[dict[str, Any] | None]) -> None:
    for line in stream:
        events.put(json.loads(line))
    events.put(None)


def _failure(code: int, complaint: str) -> FailedError:
    """The last line says what happened; the rest is for debugging."""
    print(complaint, file=sys.stderr, flush=True)
    return FailedError(complaint.rpartition("\n")[2] or f"the process ended with {code}")


# ---- where and when


@dataclass(frozen=True, slots=True)
class Setting:
    """What a figure depends on besides the work: machine, version, day."""

    host: Mapping[str, object]
    commit: str
    date: str

    @classmethod
    def here(cls) -> Setting:
        """Of this machine and this moment."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        host = {
            "python": platform.python_version(),
            "cpu": cpu_model(),
            "cores": cores,
            "cores_used": 1,
            "system": platform.system(),
        }
        return cls(host, commit(), datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        host = self.host
        return (
            f"Python {host['python']}, {host['cpu']}, {host['cores']} cores (1 used), commit {self.commit}, {self.date}"
        )


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that is measured, with a mark when the package differs from it."""
    try:
        name = _git("rev-parse", "--short=10", "HEAD")
        return f"{name}-dirty" if _git("status", "--porcelain", "--", "src") else name
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


# ---- lines


@dataclass(slots=True)
class Line:
    """What came of one case at one size."""

    case: str
    params: Mapping[str, object]
    size: int
    metrics: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    note: str = ""

    def as_json(self, bench: str, setting: Setting) -> str:
        """One object, with the names that all benchmarks share."""
        rounded = {name: float(f"{value:.6g}") for name, value in self.metrics.items()}
        values: dict[str, object] = {"bench": bench, "case": self.case, "params": self.params, "metrics": rounded}
        values |= {"faults": self.faults} if self.faults else {}
        values |= {"note": self.note} if self.note else {}
        return json.dumps({**values, "host": setting.host, "commit": setting.commit, "date": setting.date})


def exponent(lines: Iterable[Line]) -> float | None:
    """Least-squares slope of log(median time) on log(size); None with fewer than two sizes."""
    points = [(math.log(line.size), math.log(line.metrics["median_s"])) for line in lines if "median_s" in line.metrics]
    if len({x for x, _ in points}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope: float = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return slope


# ---- the table


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table: how wide it is, and what stands in it."""

    title: str
    width: int
    metric: str = ""
    is_time: bool = False

    def text(self, line: Line) -> str:
        value = line.metrics.get(self.metric)
        if value is None:
            return ""
        return seconds(value) if self.is_time else number(value)


def seconds(value: float) -> str:
    """A time as people read it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value:.0f} s"
    return f"{value * 1e6:.0f} us"


def number(value: float) -> str:
    """A count with separators, a ratio with two decimals."""
    return f"{value:,.0f}" if float(value).is_integer() or value >= 100 else f"{value:.2f}"


class Table:
    """A table that grows line by line, so that long runs show what they have."""

    def __init__(self, columns: Sequence[Column], size: str = "nodes", case_width: int = 19) -> None:
        self.columns = columns
        self.size = size
        self.case_width = case_width

    def head(self) -> None:
        titles = "".join(f"{column.title:>{column.width}}" for column in self.columns)
        print(f"{'case':<{self.case_width}}{self.size:>7}{titles}  outcome", flush=True)

    def add(self, line: Line, outcome: str) -> None:
        cells = "".join(f"{column.text(line):>{column.width}}" for column in self.columns)
        print(f"{line.case:<{self.case_width}}{line.size:>7}{cells}  {outcome}", flush=True)


def progress(text: str) -> None:
    """Say on standard error what is going on: in place on a terminal, else a line each."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
