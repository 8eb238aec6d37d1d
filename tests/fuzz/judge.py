"""Whether an answer may be given: no bug, a documented status, the documented form, every error a problem document."""

from __future__ import annotations

import json
import re
from functools import cache
from http import HTTPStatus
from typing import Any

import jsonschema_rs

from fairpool.api.problems import MEDIA_TYPE
from fairpool.control.app import ROUTES
from fairpool.control.openapi import openapi_document
from fairpool.control.routes import Document
from tests.control.asgi import AsgiAnswer
from tests.control.two_scopes import SECRET

REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
FOR_CLUSTERS = "/api/v1/cluster/"
"""Answers to clusters also have fields under the names that earlier releases know."""
AWAY = (502, 503)
"""A cluster, a registry or an identity provider is not there, which is so in these tests."""
OAUTH = ("/api/v2/token", "/auth/realms/{realm}/protocol/openid-connect/token")
"""Answer errors in the form of RFC 6749, section 5.2."""


@cache
def document() -> Document:
    return openapi_document(ROUTES)


def fault(method: str, path: str, answer: AsgiAnswer, *, may_know: bool) -> str:
    """What is wrong with an answer; empty: nothing. `may_know`: the caller may be told of everything."""
    if answer.status >= 500 and answer.status not in AWAY:
        return f"answered {answer.status}"
    if not may_know and SECRET in answer.text:
        return "tells of another department"
    described = document()["paths"].get(path, {}).get(method.lower(), {}).get("responses", {})
    if str(answer.status) not in described:
        return f"{answer.status} is not documented"
    kind = answer.headers.get("content-type", "").partition(";")[0]
    content = described[str(answer.status)].get("content", {})
    is_error = answer.status >= HTTPStatus.BAD_REQUEST
    if not answer.body:
        return f"{answer.status} without a body" if is_error else ""
    lacks = _not_a_problem(kind, answer) if is_error and (path not in OAUTH or kind == MEDIA_TYPE) else ""
    if lacks:
        return lacks
    if kind not in content:
        return f"the content type {kind or 'none'} is not documented for {answer.status}: {', '.join(content)}"
    if path.startswith(FOR_CLUSTERS):
        return ""
    if "json" in kind and "ndjson" not in kind and content[kind].get("schema"):
        return _mismatch(method, path, answer.status, kind, answer)
    return ""


def _not_a_problem(kind: str, answer: AsgiAnswer) -> str:
    """What an error lacks of what every other one says; its schema is judged after that."""
    if kind != MEDIA_TYPE:
        return f"{answer.status} has the content type {kind or 'none'} instead of {MEDIA_TYPE}"
    try:
        said = answer.json()
    except ValueError as error:
        return f"is not JSON: {error}"
    if not isinstance(said, dict) or (said.get("status"), said.get("code")) != (answer.status, answer.status):
        return f"does not repeat its status {answer.status}"
    if said.get("title") != HTTPStatus(answer.status).phrase:
        return f"has another title than {answer.status}"
    missing = [name for name in ("detail", "message", "problems") if not said.get(name)]
    return f"does not say what is wrong: no {', '.join(missing)}" if missing else ""


def _mismatch(method: str, path: str, status: int, kind: str, answer: AsgiAnswer) -> str:
    try:
        value = answer.json()
    except ValueError as error:
        return f"is not JSON: {error}"
    schema = document()["paths"][path][method.lower()]["responses"][str(status)]["content"][kind]["schema"]
    found = next(iter(_validator(json.dumps(schema)).iter_errors(value)), None)
    return f"does not satisfy its schema: {found.message[:500]}" if found is not None else ""


@cache
def _validator(schema: str) -> Any:
    """Of a schema as text, with the parts of the document that it refers to: compiling all of them takes long."""
    all_parts: Document = document()["components"]["schemas"]
    needed: set[str] = set()
    wanted = set(REFERENCE.findall(schema))
    while wanted:
        needed |= wanted
        wanted = {name for each in wanted for name in REFERENCE.findall(json.dumps(all_parts[each]))} - needed
    parts = {name: all_parts[name] for name in needed}
    return jsonschema_rs.Draft202012Validator({**json.loads(schema), "components": {"schemas": parts}})
