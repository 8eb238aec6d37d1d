"""Parser for `filterBy` and `sortBy`: conditions, or everything that is wrong with them. Pure.

`phase==Running,allocatedGPU>=2` is a list of conditions that must all hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpool.model.problem import Problem

CONDITIONS_MAX = 32
TEXT_MAX = 4096

CONDITION = re.compile(
    r"(?P<field>[A-Za-z_]+(\.[^=!<>\"'\\]{1,317})?)(?P<operator>==|!=|<=|>=|=@|!@|=\^|=\$)(?P<value>.*)", re.DOTALL
)


class Operator(StrEnum):
    """How a field is compared."""

    EQUALS = "=="
    DIFFERS = "!="
    AT_MOST = "<="
    AT_LEAST = ">="
    CONTAINS = "=@"
    LACKS = "!@"
    BEGINS = "=^"
    ENDS = "=$"


ORDERING = frozenset({Operator.EQUALS, Operator.DIFFERS, Operator.AT_MOST, Operator.AT_LEAST})


class Sort(StrEnum):
    """What kind of value a field has."""

    TEXT = "text"
    NUMBER = "number"
    MOMENT = "moment"
    GPUS = "gpus"
    LABELS = "labels"
    """Strings by name: `labels.team==vision`. A missing label is empty. Not sortable."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition."""

    field: str
    operator: Operator
    value: str | int


def parse(
    text: str, fields: Mapping[str, Sort], moments: Mapping[str, int | None], words: Mapping[str, Mapping[str, str]]
) -> tuple[list[Filter], list[Problem]]:
    """Conditions, and what is wrong. `moments` are the dates in the text as milliseconds, read by a caller that has a
    calendar; `words` are fields whose values are called otherwise inside."""
    filters: list[Filter] = []
    problems: list[Problem] = []
    pieces = split(text)
    if len(pieces) > CONDITIONS_MAX or len(text) > TEXT_MAX:
        return [], [Problem("filter.too_long", "the filter has too many conditions", f"use at most {CONDITIONS_MAX}")]
    if "\0" in text:
        return [], [Problem("filter.not_text", "the filter contains a zero character", "leave it out")]
    for piece in pieces:
        found = _one(piece, fields, moments, words)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            filters.append(found)
    return filters, problems


def holds(condition: Filter, value: str | int | None) -> bool:
    """Whether a value satisfies the condition; None satisfies only the negated operators."""
    wanted = condition.value
    if value is None:
        return condition.operator in (Operator.DIFFERS, Operator.LACKS)
    match condition.operator:
        case Operator.EQUALS:
            return value == wanted
        case Operator.DIFFERS:
            return value != wanted
        case Operator.AT_MOST | Operator.AT_LEAST:
            first, second = (value, wanted) if condition.operator is Operator.AT_MOST else (wanted, value)
            if isinstance(first, int) and isinstance(second, int):
                return first <= second
            return str(first) <= str(second)
        case Operator.CONTAINS:
            return str(wanted) in str(value)
        case Operator.LACKS:
            return str(wanted) not in str(value)
        case Operator.BEGINS:
            return str(value).startswith(str(wanted))
        case Operator.ENDS:
            return str(value).endswith(str(wanted))


def split(text: str) -> list[str]:
    """The conditions of a filter, as texts."""
    return [piece for each in text.split(",") if (piece := each.strip())]


def moments_in(text: str, fields: Mapping[str, Sort]) -> list[str]:
    """The dates in a filter; the caller parses them, since this module has no calendar."""
    found = [CONDITION.fullmatch(piece) for piece in split(text)]
    return [each["value"] for each in found if each and fields.get(each["field"]) is Sort.MOMENT]


def sort_problem(field: str, fields: Collection[str]) -> Problem | None:
    if field in fields:
        return None
    return Problem("filter.unknown_field", f"there is no field {field[:64]!r} to sort by", _one_of(fields))


def _one(
    piece: str, fields: Mapping[str, Sort], moments: Mapping[str, int | None], words: Mapping[str, Mapping[str, str]]
) -> Filter | Problem:
    match = CONDITION.fullmatch(piece)
    if match is None:
        fix = "use field, operator and value, e.g. phase==Running; operators: == != <= >= =@ !@ =^ =$"
        return Problem("filter.not_a_condition", f"{piece[:64]!r} is not a valid condition", fix)
    field, operator, text = match["field"], Operator(match["operator"]), match["value"]
    kind = fields.get(field)
    if kind is None and fields.get(field.partition(".")[0]) is Sort.LABELS:
        return Filter(field, operator, text)
    if kind is Sort.LABELS:
        fix = f"use {field}.KEY{operator}{text[:64]}"
        return Problem("filter.no_key", f"{field} needs a key", fix)
    if kind is None:
        return Problem("filter.unknown_field", f"there is no field {field[:64]!r} to filter by", _one_of(fields))
    if kind is Sort.TEXT:
        return Filter(field, operator, words.get(field, {}).get(text, text))
    if operator not in ORDERING:
        fix = "use ==, !=, <= or >="
        return Problem("filter.wrong_operator", f"{field} is not text, so {operator} cannot be used", fix)
    value = moments.get(text) if kind is Sort.MOMENT else _number(text, kind)
    if value is None:
        fix = "use a date such as 2026-11-15T12:00:00Z" if kind is Sort.MOMENT else "use a number"
        return Problem("filter.wrong_value", f"{text[:64]!r} is not a valid value for {field}", fix)
    return Filter(field, operator, value)


def _number(text: str, kind: Sort) -> int | None:
    if not re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,3})?", text):
        return None
    whole, _, rest = text.partition(".")
    if kind is Sort.NUMBER:
        return int(whole) if not rest else None
    milli = abs(int(whole)) * 1000 + int(rest.ljust(3, "0") or 0)
    return -milli if text.startswith("-") else milli


def _one_of(fields: Collection[str]) -> str:
    return "use one of " + ", ".join(sorted(fields))
