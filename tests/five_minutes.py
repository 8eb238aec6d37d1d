"""The five minutes of the README, typed line by line as they stand there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

Shell = Callable[[str], subprocess.CompletedProcess[str]]
Until = Callable[[Callable[[], object], str], object]


def five_minutes() -> list[str]:
    """Each command, with what it is said to print below it."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Five minutes")[2].partition("\n## ")[0].partition("fairpool status")[0]
    blocks = re.findall(r"^```console\n(.*?)(?:^```|\Z)", section, re.MULTILINE | re.DOTALL)
    lines = [each for block in blocks for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert any(line.startswith("runai delete") for line in lines), lines
    return lines


def type_line(line: str, shell: Shell, until: Until, *, ignored: str = "") -> str:
    """Type a line until it does what it says; what a job has not written yet is asked for again. `ignored`: lines that
    it is said to print and that differ by platform. What was printed at last."""
    command, _, shown = line.partition("\n") if line.startswith("runai") else (line, "", "")
    patient = line.startswith(("runai logs", "runai exec"))
    printed: list[str] = []

    def went_well() -> bool:
        done = shell(command)
        assert done.returncode == 0 or patient, (done.args, done.stdout, done.stderr)
        printed.append(_words([done.stdout, done.stderr]))
        return done.returncode == 0

    until(went_well, command)
    differing = re.compile(f"for \\d+s\\.$|^\\.\\.\\.$|{ignored}" if ignored else r"for \d+s\.$|^\.\.\.$")
    expected = _words([each for each in shown.splitlines() if not differing.search(each)])
    if expected not in printed[-1]:
        until(lambda: went_well() and expected in printed[-1], shown)
    return printed[-1]


def _words(lines: list[str]) -> str:
    """However the lines are wrapped."""
    return " ".join(" ".join(lines).split())
