"""Job arrays: how the runs of one sweep differ, by number, by named values or by arguments.

A run has a position (0, 1, 2 ...: the index of its pod) and a number that the user gave it (`--array 10-20:5` numbers
three runs 10, 15 and 20).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import prod

from fairpool.model.problem import Problem

INDEX = "index"
"""The placeholder for the number of a run."""
NUMBER_MAX = 2**31 - 1
RUNS_MAX = 5_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
RANGE = re.compile(r"(?P<first>[0-9]{1,10})(-(?P<last>[0-9]{1,10})(:(?P<step>[0-9]{1,10}))?)?")

Range = tuple[int, int, int]
"""First, last, step: `0-20:5`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """The runs of a sweep. With parameters, every combination of their values is one run; the last varies fastest."""

    ranges: tuple[Range, ...] = ()
    """The numbers of the runs; none: counted from 0."""
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    arguments: tuple[tuple[str, ...], ...] = ()
    """Words that follow the arguments, for each run."""

    @property
    def count(self) -> int:
        """How many runs there are."""
        if self.arguments:
            return len(self.arguments)
        if self.parameters:
            return prod(len(values) for _, values in self.parameters)
        return _count(self.ranges)

    def number(self, position: int) -> int:
        """The number of the run at a position."""
        for first, last, step in self.ranges:
            here = (last - first) // step + 1
            if position < here:
                return first + position * step
            position -= here
        return position

    def values_of(self, position: int) -> dict[str, str]:
        """The value of each placeholder in the run at a position."""
        found = {INDEX: str(self.number(position))}
        for name, values in reversed(self.parameters):
            position, place = divmod(position, len(values))
            found[name] = values[place]
        return found

    def arguments_of(self, position: int) -> tuple[str, ...]:
        return self.arguments[position] if position < len(self.arguments) else ()

    def filled(self, text: str, position: int) -> str:
        """A text with its placeholders filled in. What is no placeholder of this array stays: JSON has braces too."""
        if "{" not in text:
            return text
        values = self.values_of(position)
        return _placeholders(tuple(sorted(values))).sub(lambda found: values[found[1]], text)


@cache
def _placeholders(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(r"\{(" + "|".join(map(re.escape, names)) + r")\}")


def parse_numbers(text: str) -> tuple[Range, ...] | Problem:
    """`0-9`, `1,3,5-9`, `0-20:5`: the numbers of an array, in the order they were written."""
    ranges = []
    for piece in text.split(","):
        match = RANGE.fullmatch(piece.strip())
        if match is None:
            what = f"{text!r} is not a list of array indices"
            return Problem("array.indices", what, "write 0-9, 1,3,5-9 or 0-20:5")
        first = int(match["first"])
        last = int(match["last"]) if match["last"] is not None else first
        step = int(match["step"]) if match["step"] is not None else 1
        if last < first or step < 1 or last > NUMBER_MAX:
            what = f"{piece.strip()!r} is not a range of array indices"
            return Problem("array.indices", what, f"write FIRST-LAST or FIRST-LAST:STEP, up to {NUMBER_MAX}")
        ranges.append((first, last, step))
    if _count(tuple(ranges)) > RUNS_MAX:
        what = f"an array of {_count(tuple(ranges))} runs is too large"
        return Problem("array.too_many", what, f"split it into arrays of at most {RUNS_MAX}")
    numbers = [number for first, last, step in ranges for number in range(first, last + 1, step)]
    if len(set(numbers)) != len(numbers):
        return Problem("array.twice", f"{text!r} names an index twice", "name each index once")
    return tuple(ranges)


def array_problems(array: Array) -> list[Problem]:
    """Everything that is wrong with an array whose numbers could be read."""
    found = []
    names = [name for name, _ in array.parameters]
    found += [
        Problem("array.parameter", f"{name[:64]!r} is not a parameter name", "use letters, digits and _")
        for name in names
        if not NAME.fullmatch(name)
    ]
    if INDEX in names:
        found.append(Problem("array.parameter", "a parameter cannot be called 'index'", "choose another name"))
    found += [
        Problem("array.parameter", f"parameter {name!r} is given twice", "list all its values in one parameter")
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    found += [
        Problem("array.no_values", f"parameter {name!r} has no values", f"give at least one, as in {name}=1,2")
        for name, values in array.parameters
        if not values
    ]
    if array.parameters and array.arguments:
        what = "an array has either parameters or a list of arguments, not both"
        found.append(Problem("array.two_ways", what, "use one of the two"))
    if found:
        return found
    if not array.count:
        return [Problem("array.empty", "the array has no runs", "give indices, parameters or arguments")]
    if array.count > RUNS_MAX:
        what = f"an array of {array.count} runs is too large"
        return [Problem("array.too_many", what, f"split it into arrays of at most {RUNS_MAX}")]
    if array.ranges and _count(array.ranges) != array.count:
        what = f"the array has {_count(array.ranges)} indices for {array.count} runs"
        return [Problem("array.count", what, "omit the indices, or give one for each run")]
    return []


def _count(ranges: tuple[Range, ...]) -> int:
    return sum((last - first) // step + 1 for first, last, step in ranges)
