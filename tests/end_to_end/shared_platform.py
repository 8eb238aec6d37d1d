"""A platform that runs, and a person who shares its GPUs between projects by typing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.end_to_end.typist import Typist
from tests.running_platform import PATIENCE_S, Running

SLEEP = "-i ubuntu -- sleep 1000"


class SharedPlatform:
    """A platform of real processes, and a user who types commands."""

    def __init__(self, platform: Running, typist: Typist) -> None:
        self.platform, self.typist = platform, typist
        self._projects: list[str] = []

    def typed(self, line: str, **options: Any) -> str:
        return self.typist.typed(line, **options)

    def project(self, name: str, flags: str) -> None:
        self.typed(f"runai-adm project create {name} {flags}")
        self._projects.append(name)

    def submit(self, project: str, name: str, flags: str, program: str = SLEEP) -> None:
        self.typed(f"runai submit {name} -p {project} {flags} {program}")

    def jobs(self, project: str) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in json.loads(self.typed(f"runai list -p {project} -o json"))}

    def status(self, project: str, name: str) -> str:
        return str(self.jobs(project)[name]["classicStatus"])

    def becomes(self, project: str, name: str, *statuses: str) -> None:
        self.until(lambda: self.status(project, name) in statuses, f"{name} of {project} is {' or '.join(statuses)}")

    def running(self, project: str) -> list[str]:
        return sorted(name for name, job in self.jobs(project).items() if job["classicStatus"] == "Running")

    def until(self, holds: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"waited in vain until {what}\n{self.typed('runai list -A -o wide')}"
            time.sleep(0.1)

    def says(self, project: str, name: str, command: str) -> str:
        """What a command says in a job."""
        return self.typed(f"runai exec {name} -p {project} -- {command}")

    def tidy(self) -> None:
        """The next one finds everything as this one did."""
        for name in self._projects:
            self.typed(f"runai-adm project delete {name} --delete-jobs")
        self.until(self._is_idle, "everything has ended and the projects are gone")
        self._projects = []

    def _is_idle(self) -> bool:
        left = {each["name"] for each in json.loads(self.typed("runai-adm project list -o json"))}
        jobs = json.loads(self.typed("runai list -A -o json"))
        return left.isdisjoint(self._projects) and not any(each["currentNodes"] for each in jobs)
