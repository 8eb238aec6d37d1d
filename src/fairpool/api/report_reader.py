"""Reads reports of clusters from their text, large ones a few rows at a time.

Parsing holds the interpreter's lock, so that a report of thousands of rows, parsed at once, would stop all other
threads as well. Its lists are read in slices of some rows, between which the caller does something else. Clusters of
the present version send pieces of some hundred rows, which are small; those of the previous version send everything at
once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator
from functools import cache
from typing import Any, get_origin

from pydantic import TypeAdapter, ValidationError

from fairpool.api.message import Message, MessageT, read_message, wire_problems
from fairpool.model.problem import Problem

SMALL_BYTES = 128 * 1024
"""Parsed at once: 1 to 3 ms."""
SLICE_CHARACTERS = 64 * 1024
SLICE_ROWS = 200

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODE = json.JSONDecoder().raw_decode


class Malformed(ValueError):
    """The text is not an object in JSON."""


def read_report(kind: type[MessageT], body: bytes) -> Generator[None, None, MessageT | list[Problem]]:
    """A report, or what is wrong with it; it pauses after every slice."""
    if len(body) <= SMALL_BYTES:
        return read_message(kind, body)
    rest: list[str] = []
    lists: dict[str, tuple[Any, ...]] = {}
    try:
        for name, first, text in _parts(kind, body.decode()):
            if first is None:
                rest.append(text)
                continue
            try:
                rows = _rows_of(kind, name).validate_json(text)
            except ValidationError as error:
                return wire_problems(f"{kind.__name__}.{name}", error, first)
            lists[name] = lists.get(name, ()) + rows
            if len(lists[name]) > (most := _most_rows(kind, name)):
                what = f"{kind.__name__}.{name} has more than {most} rows"
                return [Problem("wire.wrong_value", what, "correct it at the sender; the message was ignored")]
            yield
    except (ValueError, RecursionError) as error:
        return [Problem("wire.not_json", f"this report is not valid JSON: {error}", "correct it at the sender")]
    report = read_message(kind, f"{{{','.join(rest)}}}")
    return report if isinstance(report, list) else report.model_copy(update=lists)


@cache
def _rows_of(kind: type[Message], name: str) -> TypeAdapter[tuple[Any, ...]]:
    rows: Any = kind.model_fields[name].annotation
    return TypeAdapter(rows)


@cache
def _most_rows(kind: type[Message], name: str) -> float:
    bounds = (getattr(each, "max_length", math.inf) for each in kind.model_fields[name].metadata)
    return min(bounds, default=math.inf)


Part = tuple[str, int | None, str]
"""A field as `"name":value`; or some rows of a list, as a list, with the number of the first."""


def _parts(kind: type[Message], text: str) -> Generator[Part, None, None]:
    at = _past(text, 0, "{")
    while not text.startswith("}", at):
        begin = at
        name, at = _DECODE(text, at)
        at = _past(text, at, ":")
        if _is_list(kind, name) and text.startswith("[", at):
            at = yield from _rows(text, _past(text, at, "["), name)
        else:
            _, at = _DECODE(text, at)
            yield str(name), None, text[begin:at]
        at = _following(text, at, "}")
    if _past(text, at, "}") != len(text):
        raise Malformed(f"more than an object, at character {at}")


def _is_list(kind: type[Message], name: object) -> bool:
    field = kind.model_fields.get(name) if isinstance(name, str) else None
    return field is not None and get_origin(field.annotation) is tuple


def _rows(text: str, at: int, name: str) -> Generator[Part, None, int]:
    """The rows of a list from here on; returns the position behind it."""
    number = 0
    while not text.startswith("]", at):
        first, begin, end = number, at, at
        while not text.startswith("]", at) and at - begin < SLICE_CHARACTERS and number - first < SLICE_ROWS:
            _, end = _DECODE(text, at)
            at = _following(text, end, "]")
            number += 1
        yield name, first, f"[{text[begin:end]}]"
    return at + 1


def _past(text: str, at: int, sign: str) -> int:
    """The position behind a sign and the space around it."""
    at = _past_space(text, at)
    if not text.startswith(sign, at):
        raise Malformed(f"no {sign} at character {at}")
    return _past_space(text, at + 1)


def _following(text: str, at: int, end: str) -> int:
    """The position of the next value after a comma, or of the end of the list or object."""
    at = _past_space(text, at)
    if text.startswith(end, at):
        return at
    behind = _past(text, at, ",")
    if text.startswith(end, behind):
        raise Malformed(f"a comma before {end} at character {at}")
    return behind


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it matches also where there is no space"
    return found.end()
