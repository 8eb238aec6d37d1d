"""Refusals: problems as HTTP answers (problem+json), and exception handlers that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairpool.api.problems import MEDIA_TYPE, ProblemItem, problem_document, problem_item
from fairpool.control.pattern_words import pattern_words
from fairpool.control.store.unavailable import BUSY, Unavailable
from fairpool.model.problem import Problem
from fairpool.model.spelling import plural

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Refused(Exception):
    """Raised by a handler to refuse a request. Inside a transaction it rolls back."""

    def __init__(
        self,
        status: int,
        problems: Sequence[ProblemItem],
        *,
        choices: dict[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        is_denial: bool = False,
    ) -> None:
        super().__init__("; ".join(each.what for each in problems))
        self.status = status
        self.problems = tuple(problems)
        self.choices = choices
        self.headers = dict(headers or {})
        self.is_denial = is_denial
        """The caller lacks a permission, even if the answer is 404."""

    @property
    def message(self) -> str:
        return self.problems[0].what if self.problems else HTTPStatus(self.status).phrase

    def response(self) -> Response:
        """The HTTP answer."""
        body = problem_document(self.status, HTTPStatus(self.status).phrase, self.problems, self.choices)
        text = body.model_dump_json(by_alias=True, exclude_none=True)
        return Response(text, self.status, {**HEADERS, **self.headers}, media_type=MEDIA_TYPE)


def refused(status: int, code: str, what: str, fix: str = "", field: str | None = None) -> Refused:
    """One problem."""
    return Refused(status, [problem_item(Problem(code, what, fix), field)])


def unknown(noun: str, name: str, *, is_hidden: bool = False) -> Refused:
    """404: there is no such object, or the caller may not know of it."""
    code = f"{noun.replace(' ', '-')}.unknown"
    refusal = refused(404, code, f"there is no {noun} {name[:128]!r}", f"look at the list of {plural(noun)}")
    refusal.is_denial = is_hidden
    return refusal


def not_a_date(text: str, field: str) -> ProblemItem:
    what, fix = f"{text!r} is not a valid date", "use ISO 8601, e.g. 2026-11-15T12:00:00Z"
    return ProblemItem(code="request.not_a_date", what=what, fix=fix, field=field)


def denied(
    what: str = "Access denied. You are not authorized to perform this action.",
    fix: str = "ask an administrator for a role in this project",
) -> Refused:
    """403: the caller lacks a permission."""
    refusal = refused(403, "access.denied", what, fix)
    refusal.is_denial = True
    return refusal


def validation_problems(errors: Sequence[Mapping[str, Any]]) -> list[ProblemItem]:
    """Validation errors of pydantic as problems, each once."""
    return list(dict.fromkeys(_item(each) for each in errors))


CODES = {
    400: "request.not_json",
    404: "request.no_such_path",
    405: "request.no_such_method",
    413: "request.too_large",
}


async def on_http_error(request: Request, error: Exception) -> Response:
    """What Starlette and the router refuse: no such path, no such method."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    code = CODES.get(status, "request.refused")
    what, path = str(error.detail) or HTTPStatus(status).phrase, _printable(request.url.path)[:256]
    if status == HTTPStatus.NOT_FOUND:
        what = f"there is no path {path}"
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        what = f"{path} does not support {request.method}"
    refusal = refused(status, code, what, "see /api/docs for all paths and methods")
    refusal.headers.update(error.headers or {})
    return refusal.response()


def refusal_of(error: Unavailable) -> Refused:
    """The database or its disk is unavailable: not a bug, and an administrator can fix it."""
    refusal = Refused(error.status, [problem_item(error.problem)])
    if error.code == BUSY:
        refusal.headers["Retry-After"] = "1"
    return refusal


async def on_unavailable(_: Request, error: Exception) -> Response:
    """Answer a failure of the database in a handler."""
    assert isinstance(error, Unavailable)
    return refusal_of(error).response()


async def on_unfit(_: Request, error: Exception) -> Response:
    """Answer a value that the database has no room for."""
    what = f"a value of the request cannot be stored: {error}"
    return refused(422, "request.wrong_value", _printable(what), "shorten or correct it").response()


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer an unexpected exception; the traceback is in the log."""
    if isinstance(error, Unavailable):  # while another refusal was written to the audit log
        return await on_unavailable(request, error)
    what = f"internal server error ({type(error).__name__})"
    return refused(
        500,
        "server.bug",
        what,
        "try again; if it keeps failing, check the server log with `fairpool logs` and report it",
    ).response()


def _item(error: Mapping[str, Any]) -> ProblemItem:
    place = ".".join(str(part) for part in error["loc"] if part not in ("body", "query", "path"))
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        what, code = f"{place} is not a known field", "request.unknown_field"
        fix = "remove it, or check its spelling"
    elif error["type"] == "missing":
        what, code, fix = f"{place or 'the request body'} is missing", "request.missing_field", "add it"
    elif error["type"] == "model_type":
        what, code = f"{place or 'the request body'} must be an object", "request.wrong_value"
        fix = "send a JSON object"
    elif error["type"] == "string_pattern_mismatch":
        what, fix = f"{place}: {str(error['input'])[:64]!r} is not valid", pattern_words(str(error["ctx"]["pattern"]))
        code = "request.wrong_value"
    elif error["type"] == "string_too_long" and place:
        most = error["ctx"]["max_length"]
        what, fix = f"{place} has more than {most} characters", f"use at most {most} characters"
        code = "request.wrong_value"
    else:
        what = f"{place}: {message[:1].lower()}{message[1:]}" if place else message
        code, fix = "request.wrong_value", "correct it; see /api/openapi.json"
    return ProblemItem(code=code, what=_printable(what), fix=fix, field=_printable(place) or None)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:500]
