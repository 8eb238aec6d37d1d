"""Case files: finding them below a folder, reading them, choosing among them.

A case stays the JSON that was read; the modules that know what a part of it means look it up there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FORMAT_VERSION = 1


class CannotRead(Exception):
    """Something that makes a run meaningless: no folder, no cases, a file that is not what it seems."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case, with what its file says about all of them."""

    id: str
    suite: str
    data: Json
    default_plugins: tuple[Json, ...]

    @property
    def is_unit(self) -> bool:
        """Whether it tests a single decision instead of whole cycles."""
        return "runner" not in self.data


def read_folder(folder: Path) -> list[Case]:
    """Every case in the folder and below it, in the order of file names."""
    if not folder.is_dir():
        raise CannotRead(f"{folder} is not a folder")
    cases = [case for path in sorted(folder.rglob("*.json")) for case in read_file(path)]
    if not cases:
        raise CannotRead(f"no case files in {folder}")
    return cases


def read_file(path: Path) -> Iterator[Case]:
    """The cases of a file; none if it holds something else, such as the list of names that may lie beside the cases."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CannotRead(f"cannot read {path}: {problem}") from problem
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        return
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise CannotRead(f"{path} is not a case file: its format_version is {version!r}, not {FORMAT_VERSION}")
    for number, case in enumerate(content["cases"]):
        if not isinstance(case, dict) or not isinstance(case.get("id"), str) or "expected" not in case:
            raise CannotRead(f"{path} is not a case file: its case number {number} has no id or no expectation")
        suite = str(case.get("suite", content.get("suite", "")))
        yield Case(case["id"], suite, case, tuple(content.get("default_plugins") or ()))


def choose(cases: Iterable[Case], pattern: str | None) -> list[Case]:
    """The cases whose id or suite matches a glob; all of them without one."""
    chosen = [
        case for case in cases if pattern is None or fnmatchcase(case.id, pattern) or fnmatchcase(case.suite, pattern)
    ]
    if not chosen:
        raise CannotRead(f"no case matches {pattern!r}")
    return chosen
