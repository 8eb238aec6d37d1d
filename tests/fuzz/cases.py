"""Requests to try: generated from the OpenAPI document, its examples, and mutations of both."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.core import NotSet
from schemathesis.core.result import Ok

from fairpool.control.routes import IN_PATH, Document

NASTY: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1,
        2**31,
        2**53,
        2**63,
        2**64,
        -(2**63) - 1,
        0.1,
        1e308,
        -0.0,
        "",
        " ",
        "a" * 300,
        "a" * 10_000,
    ),
    *(
        "\u0000",
        "\ud800",
        "\u202e",
        "💥",
        "é" * 70,
        "..",
        "../../etc/passwd",
        "%00",
        "';--",
        "{}",
        "a\nb",
        "\x7f",
        "NaN",
    ),
    *(
        "1e9",
        "-1",
        "0.5",
        "1Gi",
        "9" * 40,
        "2026-11-15T12:00:00Z",
        "9999-99-99T99:99:99Z",
        "tenant",
        "project",
        "default",
    ),
    *([], {}, [[]], [None], {"": ""}, [{}] * 50, {"a": {"b": {"c": [1, {"d": None}]}}}),
)
WORDS = (
    "*",
    "nothing",
    "0",
    "1",
    "-1",
    "a" * 300,
    "é",
    "%",
    "a b",
    "..",
    "\u0000",
    "name==x",
    "name=@",
    "desc",
    "true",
)
RAW = (
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"a":',
    b"\xff\xfe",
    b'{"a":1,"a":2}',
    b"[" * 500,
    b'"x"',
    b"1e999",
    b"\xef\xbb\xbf{}",
)
TYPES = (
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "",
    "application/yaml",
)
FIXED = settings(
    deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), print_blob=False
)


@dataclass(frozen=True, slots=True)
class FuzzCase:
    """One request, but for who sends it."""

    method: str
    path: str
    """With parameters in braces."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""

    @property
    def target(self) -> str:
        filled = self.path
        for name in IN_PATH.findall(self.path):
            filled = filled.replace(f"{{{name}}}", quote(self.parameters.get(name, "nothing") or "-", safe=""))
        return f"{filled}?{urlencode(self.query, errors='replace')}" if self.query else filled

    def as_sent(self) -> dict[str, str]:
        """The headers that can be sent."""
        sent = {name: value for name, value in self.headers.items() if _is_plain(name) and _is_plain(value)}
        return {**sent, "content-type": self.content_type} if self.content_type else sent


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and bool(text)


def generated(document: Document, number: int, each: int) -> dict[tuple[str, str], list[FuzzCase]]:
    """For each operation so many requests from its description; another `number`, others."""
    found: dict[tuple[str, str], list[FuzzCase]] = {}
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(result, Ok), result
        operation: Any = result.ok()
        found[(operation.method.upper(), operation.path)] = _of_operation(operation, number, each)
    return found


def _of_operation(operation: Any, number: int, each: int) -> list[FuzzCase]:
    cases: list[FuzzCase] = []

    @seed(number)
    @settings(FIXED, max_examples=each)
    @given(case=operation.as_strategy())
    def keep(case: Any) -> None:
        cases.append(_taken(case))

    keep()
    return cases


def _taken(case: Any) -> FuzzCase:
    body, kind = b"", case.media_type or ""
    if not isinstance(case.body, NotSet) and case.body is not None:
        if kind == "application/json":
            body = json.dumps(case.body).encode()
        elif isinstance(case.body, dict):
            body = urlencode(case.body, doseq=True, errors="replace").encode()
        else:
            body = case.body if isinstance(case.body, bytes) else str(case.body).encode("utf-8", "replace")
    query = [(str(name), str(value)) for name, value in (case.query or {}).items()]
    headers = {str(name).lower(): str(value) for name, value in (case.headers or {}).items()}
    headers.pop("authorization", None)
    parameters = {str(name): str(value) for name, value in (case.path_parameters or {}).items()}
    return FuzzCase(case.method.upper(), case.path, parameters, tuple(query), headers, body, kind if body else "")


class Mutator:
    """Changes requests a little: values, names, bytes, and the objects that they are about."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def mutated(self, case: FuzzCase, places: list[Mapping[str, str]], others: list[bytes]) -> FuzzCase:
        """`places`: what parameters of the path can be; `others`: bodies of other requests."""
        random = self._random
        if case.parameters and random.random() < 0.8:
            case = replace(case, parameters={**case.parameters, **random.choice(places)})
        if random.random() < 0.2:
            word = random.choice(WORDS)
            case = replace(case, query=(*case.query, (random.choice(self._names(case)), word)))
        if random.random() < 0.1:
            name = random.choice(("if-match", "idempotency-key", "last-event-id", "x-request-id", "accept", "origin"))
            case = replace(case, headers={**case.headers, name: random.choice(("", '"1"', "*", "a" * 300, "x", "-1"))})
        if case.body or random.random() < 0.05:
            case = replace(case, body=self._body(case.body, others))
        if random.random() < 0.05:
            case = replace(case, content_type=random.choice(TYPES))
        elif case.body and not case.content_type:
            case = replace(case, content_type=TYPES[0])
        return case

    def _names(self, case: FuzzCase) -> list[str]:
        usual = [
            "limit",
            "offset",
            "filterBy",
            "search",
            "sortBy",
            "sortOrder",
            "projectId",
            "scope",
            "dryRun",
            "after",
        ]
        return [*usual, *(name for name, _ in case.query)]

    def _body(self, body: bytes, others: list[bytes]) -> bytes:
        random = self._random
        chance = random.random()
        if chance < 0.25 and body:
            return body
        if chance < 0.3:
            return random.choice(RAW)
        if chance < 0.35 and others:
            return random.choice(others)
        if chance < 0.4 and body:
            place = random.randrange(len(body))
            return body[:place] + random.choice(string.printable).encode() + body[place + 1 :]
        try:
            value = json.loads(body)
        except ValueError:
            return body
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            value = self._changed(value)
        return json.dumps(value).encode()

    def _changed(self, value: Any) -> Any:
        """One place in a JSON value is another."""
        random = self._random
        if isinstance(value, dict) and value and random.random() < 0.9:
            name = random.choice(list(value))
            chance = random.random()
            if chance < 0.1:
                return {key: each for key, each in value.items() if key != name}
            if chance < 0.15:
                return {**value, random.choice((name.upper(), f"{name}Id", "unknown", "")): value[name]}
            return {**value, name: self._changed(value[name])}
        if isinstance(value, list) and value and random.random() < 0.8:
            place = random.randrange(len(value))
            return [*value[:place], self._changed(value[place]), *value[place + 1 :]]
        return random.choice(NASTY)
