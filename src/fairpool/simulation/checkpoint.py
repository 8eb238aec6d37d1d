"""Progress of a simulation, in memory or in a folder, so that it can continue.

Everything else in the folder (ledger, journal of the engine, database of the control plane) is written by its owner
before it is acted on. The position is written before time moves on and after each action, so a process that continues
repeats at most one moment, in which everything may be repeated.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairpool import __version__
from fairpool.model.ids import Instant
from fairpool.model.problem import Problem
from fairpool.simulation.scenario import START, Scenario
from fairpool.simulation.simulated_cluster import Files

FORMAT = 3
IDENTITY, POSITION, LOCK = "simulation.json", "position.json", "lock"


@dataclass(frozen=True, slots=True)
class Check:
    """One figure that was expected, and what it was."""

    phase: str
    what: str
    expected: str
    reached: str
    passed: bool
    at: Instant


@dataclass
class Position:
    """How far the script has come."""

    now: Instant = START
    step: int = 0
    """The next action."""
    since: Instant = START
    """When that became the next."""
    mark: str = ""
    """How the cluster was before the action was tried that cannot be repeated; empty: it was not tried."""
    in_batch: bool = False
    """Some of what happens at this moment has been done, and the loop has not run since: the rest comes first."""
    checks: list[Check] = field(default_factory=list)
    quotas: list[tuple[Instant, str, str, int]] = field(default_factory=list)
    """Quotas that were changed on the way: when, whose, in which pool, to how much."""
    stopped: str = ""
    """Why the script ended before its last action."""
    done: bool = False


class Checkpoint:
    """Keeps a position in memory."""

    def __init__(self) -> None:
        self.position = Position()

    @property
    def files(self) -> Files:
        return Files()

    def keep(self) -> None:
        """From here on a crash loses nothing."""

    def close(self) -> None:
        """Let another process use it."""


class Folder(Checkpoint):
    """Keeps it in a folder, for one process at a time."""

    def __init__(self, path: Path, lock: int) -> None:
        super().__init__()
        self._path, self._lock = path, lock
        place = path / POSITION
        if place.exists():
            self.position = _position(json.loads(place.read_text(encoding="utf-8")))

    @property
    def files(self) -> Files:
        return Files.within(self._path)

    def keep(self) -> None:
        _write(self._path / POSITION, asdict(self.position))

    def close(self) -> None:
        os.close(self._lock)


def opened(path: Path, scenario: Scenario) -> Folder | Problem:
    """The folder of this scenario, new or as it was left."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Problem("state.unreachable", f"{path} cannot be used: {why}", "name a folder that you may write to")
    try:
        # The system lets go of the lock when the process ends, however it ends.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        problem = _claim(path, scenario)
        if problem is None:
            return Folder(path, lock)
    except BlockingIOError:
        fix = "wait for it, end it, or name another folder"
        problem = Problem("state.in_use", f"another process runs the simulation in {path}", fix)
    except (OSError, ValueError, TypeError, KeyError) as error:
        fix = "name another folder, and remove this one"
        problem = Problem("state.damaged", f"what is in {path} cannot be read: {error}", fix)
    os.close(lock)
    return problem


def _claim(path: Path, scenario: Scenario) -> Problem | None:
    """See that the folder is of this scenario, or make it so."""
    identity = path / IDENTITY
    mine = {"format": FORMAT, "scenario": scenario.name, "digest": scenario.digest(), "written_by": __version__}
    if not identity.exists():
        if any(each.name != LOCK for each in path.iterdir() if not each.name.startswith(".")):
            fix = "name an empty folder, or one that does not exist yet"
            return Problem("state.foreign", f"there is something else in {path}", fix)
        _write(identity, mine)
        return None
    found = json.loads(identity.read_text(encoding="utf-8"))
    if found["format"] != FORMAT:
        what = f"{path} was written by Fairpool {found['written_by']} in another format"
        return Problem("state.version", what, "run that version, or name another folder")
    if found["digest"] != mine["digest"]:
        same = found["scenario"] == scenario.name
        what = f"{path} holds {'another version of ' if same else ''}the scenario {found['scenario']!r}"
        return Problem("state.other", what, "name another folder, or the scenario as it was")
    return None


def _write(path: Path, document: dict[str, Any]) -> None:
    """Beside its place first: a reader finds the old one or the new one, never half of it."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(document), encoding="utf-8")
    beside.replace(path)


def _position(document: dict[str, Any]) -> Position:
    checks = [Check(**each) for each in document.pop("checks")]
    quotas = [(at, queue, pool, milli) for at, queue, pool, milli in document.pop("quotas")]
    return Position(checks=checks, quotas=quotas, **document)
