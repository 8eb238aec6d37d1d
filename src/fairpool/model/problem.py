"""Expected errors as values, the same in the API, the commands, the pages and the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong and what to do about it. `code` is stable and meant for programs."""

    code: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}" if self.fix else self.what
