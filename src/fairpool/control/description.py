"""API reference: the OpenAPI document for programs, and a page for people as HTML or Markdown."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api.access import ScopeType
from fairpool.api.roles import RESEARCHER
from fairpool.api.wire import compact
from fairpool.control import rbac
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.openapi import openapi_document
from fairpool.control.page_layout import layout
from fairpool.control.rbac import Action
from fairpool.control.routes import Route, Routes

Document = dict[str, Any]

routes = Routes(in_document=False)


@routes.get("/api/openapi.json", action=Action.OPEN)
async def openapi(request: Request) -> Response:
    return Response((await _texts(request)).document, media_type="application/json")


@dataclass(frozen=True, slots=True)
class Texts:
    """The description of the API, as it is sent."""

    document: str
    reference: str
    page: str

    @classmethod
    def of(cls, routes: tuple[Route, ...]) -> Texts:
        document = openapi_document(routes)
        return cls(compact(document), reference(document), reference_page(document))


async def _texts(request: Request) -> Texts:
    """Made when first asked for, in another thread: it takes half a second."""
    state = request.app.state
    if state.description is None:
        state.description = await asyncio.to_thread(Texts.of, state.routes)
    texts: Texts = state.description
    return texts


@routes.get(
    "/docs",
    action=Action.OPEN,
)
@routes.get(
    "/api/docs",
    action=Action.OPEN,
)
@routes.get(
    "/researcher/api/docs",
    action=Action.OPEN,
)
async def page(request: Request) -> Response:
    texts = await _texts(request)
    if "text/markdown" in request.headers.get("accept", ""):
        return Response(texts.reference, media_type="text/markdown; charset=utf-8")
    return layout("Fairpool API", texts.page, is_wide=True)


def reference(document: Document) -> str:
    """Markdown: every route with its summary and permission."""
    groups: dict[str, list[tuple[str, str, str, str]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            line = (path, method.upper(), operation["summary"], _who(operation["x-permission"]))
            groups.setdefault(operation["tags"][0], []).append(line)
    for path, words in document["x-websockets"].items():
        groups["streams"].append((path, "WebSocket", words, _who(rbac.Action.WORKLOAD_UPDATE)))
    parts = [PREFACE]
    for name in sorted(groups):
        head = f"## {name[:1].upper()}{name[1:]}\n\n| method | path | description | permission |\n|---|---|---|---|"
        rows = [f"| {method} | `{path}` | {what} | {who} |" for path, method, what, who in sorted(groups[name])]
        parts.append("\n".join([head, *rows]))
    return "\n\n".join(parts) + "\n"


def reference_page(document: Document) -> str:
    """HTML: every operation with its parameters and examples of body and answer."""
    groups: dict[str, list[str]] = {}
    for path, item in sorted(document["paths"].items()):
        for method, operation in item.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    for path, words in document["x-websockets"].items():
        head = _head("WebSocket", path, words, _who(rbac.Action.WORKLOAD_UPDATE))
        groups["streams"].append(f"<details><summary>{head}</summary></details>")
    parts = [INTRODUCTION]
    for name in sorted(groups):
        parts.append(f"<h2>{escape(name[:1].upper() + name[1:])}</h2>{''.join(groups[name])}")
    return "".join(parts)


INTRODUCTION = """<nav><a href="/api/openapi.json">OpenAPI document</a></nav>
<h1>REST API</h1>
<p>Send <code>Authorization: Bearer TOKEN</code> with every call; <code>POST /api/v1/token</code> returns a token.
Each operation shows the permission that the caller needs in the project it applies to. Researchers have the
permissions marked with *, administrators have all of them.</p>"""


def _operation(method: str, path: str, operation: Document) -> str:
    parts = [_parameters(operation.get("parameters", []))]
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(_example(f"Request body, {kind}", media))
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            media = next(iter(answer.get("content", {}).values()), {})
            parts.append(_example(f"Response {status}", media) or f"<p>Response {escape(status)}, no body</p>")
    head = _head(method, path, operation["summary"], _who(operation["x-permission"]))
    return f"<details><summary>{head}</summary><div>{''.join(parts)}</div></details>"


def _head(method: str, path: str, words: str, who: str) -> str:
    said = f"{escape(words)} · {escape(who.replace(chr(92), ''))}"
    return f'<span class="verb">{method}</span> <code>{escape(path)}</code><br><span class="soft">{said}</span>'


def _parameters(parameters: list[Document]) -> str:
    rows = [
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{escape(str(each.get('description', '')))}</td></tr>"
        for each in parameters
    ]
    head = "<tr><th>Parameter</th><th>In</th><th></th></tr>"
    return f"<table>{head}{''.join(rows)}</table>" if rows else ""


def _example(title: str, media: Document) -> str:
    if "example" not in media:
        return ""
    text = json.dumps(media["example"], indent=2, ensure_ascii=False)
    return f"<p>{escape(title)}</p><pre><code>{escape(text)}</code></pre>"


PREFACE = """# REST API reference

All routes, generated from the code by `python -m tools.api_reference`. A running server shows the same list at
`GET /api/docs`, and every field with examples at `GET /api/openapi.json`. To get started, read the
[guide](../guides/api.md).

*Permission* is what the caller needs in the project that the request applies to. Researchers have the permissions
marked with an asterisk; administrators have all of them."""


def _who(permission: str) -> str:
    match permission:
        case rbac.Action.OPEN:
            return "none (no token needed)"
        case rbac.Action.SELF:
            return "any signed-in user"
        case rbac.Action.LINK:
            return "cluster token"
        case _:
            member = BUILT_IN[RESEARCHER].grant(ScopeType.PROJECT)
            mark = "\\*" if permission in rbac.permissions([member]) else ""
            return f"{permission}{mark}"
