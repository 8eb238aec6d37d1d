"""Reads one TOML table and collects all errors with line numbers.

The parser does not say where a value was, so lines are found by looking: a header, a key, or the nth entry of a list
that is written one entry a line. Where that leads nowhere, the place in words has to do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from fairpool.api.limits import NAME_PATTERN
from fairpool.model.problem import Problem
from fairpool.model.quantity import parse_gpus
from fairpool.model.spelling import did_you_mean
from fairpool.model.typed_text import bytes_amount, duration_s, or_unlimited, thousandths, word

Word = TypeVar("Word", bound=StrEnum)
Read = TypeVar("Read")
PoolView = tuple[str | int, ...]

LONGEST_S = 10 * 365 * 86_400
MOST = 100_000
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""As names of nodes and workloads are elsewhere."""


@dataclass
class Findings:
    """What is wrong with a file, and the text to find the lines in."""

    text: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: PoolView, code: str, what: str, fix: str) -> None:
        line = line_of(self.text, place)
        at = "" if line is None else f"line {line}: "
        self.problems.append(Problem(f"scenario.{code}", f"{at}{what}", fix))


@dataclass
class Table:
    """A table, where it is, and which of its fields have been asked for."""

    findings: Findings
    values: Mapping[str, Any]
    where: str
    """In words, for people: `phase '4.8', step 3`."""
    place: PoolView = ()
    asked: set[str] = field(default_factory=set)

    # --- what is there ---

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def value(self, key: str) -> Any:
        self.asked.add(key)
        return self.values.get(key)

    def complain(self, key: str, code: str, what: str, fix: str) -> None:
        place = (*self.place, key) if key else self.place
        said = f"{self.where}: {what}" if self.where else what
        self.findings.add(place, code, said, fix)

    def refuse_others(self, noun: str) -> None:
        """Complain about every field that was not read: a misspelled name must not be ignored."""
        for key in self.values:
            if key not in self.asked:
                known = ", ".join(sorted(self.asked))
                fix = did_you_mean(key, self.asked, f"{noun} can have: {known}")
                self.complain(key, "field", f"{noun} has no {key!r}", fix)

    # --- fields of a kind ---

    def text(self, key: str, otherwise: str = "") -> str:
        value = self.value(key)
        if value is None:
            return otherwise
        if not isinstance(value, str) or not value.strip():
            self._not(key, value, "a text", f'write {key} = "..."')
            return otherwise
        return value

    def name(self, key: str) -> str:
        """A name that something new gets, or an empty one if it cannot be used."""
        if key not in self.values:
            self.asked.add(key)
            self.complain("", "missing", f"it has no {key}", f'add {key} = "..."')
            return ""
        name = self.text(key)
        if name and not NAME.fullmatch(name):
            fix = "use letters, digits, dots and dashes, 63 at most, a letter or digit first and last"
            self._not(key, name, "a name", fix)
            return ""
        return name

    def declared_name(self, key: str, longest: int) -> str:
        """The same of what the control plane declares: projects, departments and pools."""
        name = self.name(key)
        if name and (len(name) > longest or not re.fullmatch(NAME_PATTERN, name)):
            fix = f"use lowercase letters, digits and dashes, {longest} at most, a letter first"
            self._not(key, name, "a name", fix)
            return ""
        return name

    def names(self, key: str) -> tuple[str, ...]:
        """One name, or a list of them."""
        value = self.value(key)
        each = value if isinstance(value, list) else [value]
        if not each or not all(isinstance(one, str) and one for one in each):
            self._not(key, value, "a name or a list of names", f'write {key} = "..." or ["...", "..."]')
            return ()
        return tuple(each)

    def whole(self, key: str, otherwise: Read, *, least: int = 0, most: int = MOST) -> int | Read:
        value = self.value(key)
        if value is None:
            return otherwise
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self._not(key, value, f"a whole number from {least} to {most}", f"write {key} = {max(least, 1)}")
            return otherwise
        return value

    def flag(self, key: str) -> bool | None:
        value = self.value(key)
        if value is not None and not isinstance(value, bool):
            self._not(key, value, "true or false", f"write {key} = true or {key} = false, without quotes")
            return None
        return value

    def word(self, key: str, enum: type[Word]) -> Word | None:
        value = self.value(key)
        return None if value is None else self._read(key, value, lambda text: word(text, enum))

    def gpus(self, key: str, otherwise: int) -> int:
        """What one pod asks for: 0.5, 1, 2."""
        return self._amount(key, parse_gpus, otherwise)

    def amount(self, key: str, otherwise: int) -> int:
        """In thousandths: GPUs of several, CPUs."""
        return self._amount(key, thousandths, otherwise)

    def bound(self, key: str, otherwise: int) -> int:
        """A quota or limit: an amount, or `unlimited`."""
        return self._amount(key, or_unlimited(thousandths), otherwise)

    def memory(self, key: str, otherwise: int) -> int:
        return self._amount(key, bytes_amount, otherwise)

    def seconds(self, key: str, otherwise: Read) -> float | Read:
        """A length of time: seconds, or `10m`."""
        value = self.value(key)
        return otherwise if value is None else self.as_seconds(key, value, otherwise)

    def as_seconds(self, key: str, value: Any, otherwise: Read) -> float | Read:
        if isinstance(value, str):
            read = self._read(key, value, duration_s)
            return otherwise if read is None else float(read)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LONGEST_S:
            self._not(key, value, "a length of time", "write seconds as a number, or 90s, 10m, 2h or 1d in quotes")
            return otherwise
        return float(value)

    def span(self, key: str) -> tuple[float, float] | None:
        """A length of time, or two between which each job has its own."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, list) and len(value) == 2:
            low, high = (self.as_seconds(key, each, math.nan) for each in value)
            if low > high:
                self._not(key, value, "a span", "write the shorter one first")
            return (low, high) if low <= high else None
        only = self.as_seconds(key, value, math.nan)
        return None if math.isnan(only) else (only, only)

    def pairs(self, key: str) -> dict[str, str]:
        table = self.table(key)
        values = table.values if table is not None else {}
        for name, value in values.items():
            if not isinstance(value, str):
                self._not(key, value, f"a text for {name}", "write it in quotes")
        return {name: value for name, value in values.items() if isinstance(value, str)}

    # --- tables in it ---

    def table(self, key: str) -> Table | None:
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._not(key, value, "a table", f"write [{key}] with a field a line, or {key} = {{ ... }}")
            return None
        where = f"{self.where}, {key}" if self.where else key
        return Table(self.findings, value, where, (*self.place, key))

    def tables(self, key: str, noun: str) -> list[Table]:
        """A list of tables, each called after its name if it has one."""
        value = self.value(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self._not(key, value, "a list of tables", f"write [[{key}]] before the fields of each")
            return []
        return [
            Table(self.findings, each, self._called(noun, number, each), (*self.place, key, number - 1))
            for number, each in enumerate(value, start=1)
        ]

    def _called(self, noun: str, number: int, value: Mapping[str, Any]) -> str:
        name = value.get("name")
        here = f"{noun} {name!r}" if isinstance(name, str) else f"{noun} {number}"
        return f"{self.where}, {here}" if self.where else here

    # --- how a value is read ---

    def _amount(self, key: str, read: Callable[[str], int | Problem], otherwise: int) -> int:
        value = self.value(key)
        if value is None:
            return otherwise
        amount = self._read(key, value, read)
        return otherwise if amount is None else amount

    def _read(self, key: str, value: Any, read: Callable[[str], Read | Problem]) -> Read | None:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._not(key, value, "a value", "write a number or a text")
            return None
        answer = read(str(value))
        if isinstance(answer, Problem):
            self.complain(key, "value", f"{key}: {answer.what}", answer.fix)
            return None
        return answer

    def _not(self, key: str, value: object, expected: str, fix: str) -> None:
        self.complain(key, "value", f"{key} = {_shown(value)} is not {expected}", fix)


def called(table: Table, where: str) -> Table:
    """The same table under another name."""
    return replace(table, where=where)


def twice(names: Iterable[str]) -> Iterator[str]:
    """Names that came before."""
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            yield name
        seen.add(name)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- lines ----------------------------------------------------------------------------------------------------------


def line_of(text: str, place: PoolView) -> int | None:
    """The line that a place in the file is in, counted from 1, as far as it can be found."""
    lines = text.splitlines()
    first, last = 0, len(lines)
    found: int | None = None
    steps = list(place)
    while steps:
        key = str(steps.pop(0))
        number = steps.pop(0) if steps and isinstance(steps[0], int) else None
        here = _entry(lines, first, last, key, number) if isinstance(number, int) else _key(lines, first, last, key)
        if here is None:
            break
        found, first, last = here[0], here[0], here[1]
    return None if found is None else found + 1


def _entry(lines: Sequence[str], first: int, last: int, key: str, number: int) -> tuple[int, int] | None:
    """The nth table of a list: below its header, or on a line of its own."""
    header = re.compile(rf"\s*\[\[\s*{re.escape(key)}\s*\]\]")
    starts = [at for at in range(first, last) if header.match(lines[at])]
    if starts:
        return (starts[number], _end(lines, starts[number], last, key)) if number < len(starts) else None
    named = _key(lines, first, last, key)
    if named is None:
        return None
    entries = [at for at in range(named[0], last) if re.match(rf"\s*(?:{re.escape(key)}\s*=\s*\[\s*)?\{{", lines[at])]
    return (entries[number], entries[number] + 1) if number < len(entries) else named


def _end(lines: Sequence[str], start: int, last: int, key: str) -> int:
    """Where the next table begins that is not part of this one."""
    mine = re.compile(rf"\s*\[+\s*{re.escape(key)}\.")
    return next(
        (at for at in range(start + 1, last) if re.match(r"\s*\[", lines[at]) and not mine.match(lines[at])), last
    )


def _key(lines: Sequence[str], first: int, last: int, key: str) -> tuple[int, int] | None:
    name = rf"[\"']?{re.escape(key)}[\"']?"
    pattern = re.compile(rf"\s*{name}\s*[.=]|\s*\[+\s*(?:[\w.-]+\.)?{name}\s*\]|.*[{{,]\s*{name}\s*=")
    return next(((at, last) for at in range(first, last) if pattern.match(lines[at])), None)
