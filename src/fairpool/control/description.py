"""The description of the API: an OpenAPI document for programs, and a page for people, as HTML or Markdown.

Both are made from the routes themselves and from the table of permissions, so that they cannot say something else.
Where nobody wrote an example, one is made of the examples of the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response

from fairpool.api.access import RoleName
from fairpool.api.clusters import PullAnswer, PushAnswer, PushReport
from fairpool.api.problems import MEDIA_TYPE, ProblemDocument
from fairpool.control import rbac
from fairpool.control.pages import layout

Document = dict[str, Any]

router = APIRouter()

REFUSALS: dict[int | str, Document] = {
    status: {
        "description": words,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    for status, words in {
        400: "The request could not be parsed",
        401: "The token is missing, invalid or expired",
        403: "Permission denied",
        404: "Not found, or not visible to the caller",
        409: "Conflict with the current state",
        412: "Changed since it was read, or still in use",
        413: "The request body is too large",
        415: "The request body is not JSON",
        421: "The host name is not one of the server's",
        422: "The request is not valid",
        429: "Too many attempts",
        503: "Temporarily unavailable",
    }.items()
}
REFUSAL_EXAMPLE = {
    "type": "about:blank",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "2.5 GPUs is neither a fraction of one GPU nor a whole number: ask for 2 or 3",
    "code": 422,
    "message": "2.5 GPUs is neither a fraction of one GPU nor a whole number: ask for 2 or 3",
    "problems": [
        {
            "code": "gpu.fraction_of_many",
            "what": "2.5 GPUs is neither a fraction of one GPU nor a whole number",
            "fix": "ask for 2 or 3",
            "field": "spec.compute.gpu",
        }
    ],
}
FORM = "application/x-www-form-urlencoded"
FORM_EXAMPLE = {"grant_type": "password", "username": "ann@example.com", "password": "correct horse battery"}
EDITED = ("{project_id}", "{department_id}", "{pool_id}", "{node}", "{cluster_id}", "{key}", "{workload_id}")
"""What two people may edit at once: the last of these in a path has a revision."""
TOKENS = ("/api/v1/token", "/api/v2/token", "/auth/realms/{realm}/protocol/openid-connect/token")
WITHOUT_KEY = (*TOKENS, "/api/v1/cluster/pull", "/api/v1/cluster/push", "/api/v1/authorization/permitted-scopes")
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "example": '"42"',
    "description": "The ETag from the last read; refused with 412 if the object has changed since",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 256},
    "example": "6f1c2a1e-0d5b-4f6a-9c2e-3b7a5d9e8f01",
    "description": "Requests with the same key within a day are carried out only once",
}
ETAG = {"ETag": {"description": "The revision, for If-Match", "schema": {"type": "string"}, "example": '"42"'}}
SHELLS = {
    "/api/v1/workloads/{workload_id}/exec": "Run a command in a pod: ?command=WORD (repeated), pod, tty",
    "/api/v1/workloads/{workload_id}/attach": "Attach to a pod's main process: ?pod, tty",
}
"""WebSockets, which OpenAPI cannot describe."""
NAMED = {
    "id": "0190c1f0-7000-7000-8000-000000000000",
    "name": "team-a",
    "createdBy": "ann@example.com",
    "updatedBy": "ann@example.com",
    "submittedBy": "ann@example.com",
    "username": "ann@example.com",
    "user": "ann@example.com",
    "subject": "ann@example.com",
    "projectId": "team-a",
    "projectName": "team-a",
    "project": "team-a",
    "departmentId": "default",
    "departmentName": "default",
    "parentId": "default",
    "nodePool": "default",
    "clusterId": "7a0d4b9e-5c1f-4f0e-9d63-0f8d2f1a7c11",
    "message": "there is no workload 'x': look at the list of workloads",
}
"""Examples for fields that are called the same everywhere."""


# --- for programs --------------------------------------------------------------------------------------------


@router.get("/api/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    return JSONResponse(openapi_document(request.app))


def openapi_document(app: FastAPI) -> Document:
    """The description of the API, with the one shape that all refusals have."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in (ProblemDocument, PullAnswer, PushReport, PushAnswer):
            schema = model.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
            schemas.update({name: each for name, each in schema.pop("$defs", {}).items() if name not in schemas})
            schemas[model.__name__] = schema
        schemas["ProblemDocument"]["examples"] = [REFUSAL_EXAMPLE]
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
        document["x-websockets"] = SHELLS
        for path, item in document["paths"].items():
            for method, operation in item.items():
                _complete(method.upper(), path, operation, schemas)
        app.openapi_schema = document
    return app.openapi_schema


def _complete(method: str, path: str, operation: Document, schemas: Document) -> None:
    """What the framework does not know of an operation: headers, permissions, examples."""
    parameters = operation.setdefault("parameters", [])
    if takes_if_match(method, path):
        parameters.append(IF_MATCH)
    if method == "POST" and path not in WITHOUT_KEY:
        parameters.append(IDEMPOTENCY_KEY)
    if not parameters:
        del operation["parameters"]
    if path in TOKENS:
        operation["security"] = []
    operation["x-permission"] = rbac.ROUTES[(method, path)].value
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for each in (operation.get("requestBody", {}), *answers):
        for kind, media in each.get("content", {}).items():
            if kind == FORM:
                media["example"] = FORM_EXAMPLE
            elif "example" not in media and media.get("schema"):
                media["example"] = example(media["schema"], schemas)
    if method == "GET" and path.endswith(EDITED):
        operation["responses"]["200"]["headers"] = ETAG


def takes_if_match(method: str, path: str) -> bool:
    """Whether an operation changes something that two people may edit at once."""
    if method == "POST":
        return path.endswith(("/suspend", "/resume")) and "{workload_id}" in path
    changed = path.removesuffix("/resources").removesuffix("/marks")
    return method in ("PUT", "PATCH", "DELETE") and changed.endswith(EDITED)


def example(schema: Document, schemas: Mapping[str, Document], name: str = "") -> Any:
    """A value as this schema describes it, made of the examples in it."""
    if "$ref" in schema:
        return example(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if "const" in schema:
        return schema["const"]
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if choices:
        return example(choices[0], schemas, name)
    if schema.get("default") is not None and schema["default"] not in ("", [], {}):
        return schema["default"]
    return _made_up(schema, schemas, name)


def _made_up(schema: Document, schemas: Mapping[str, Document], name: str) -> Any:
    match schema.get("type"):
        case "object":
            fields: Mapping[str, Document] = schema.get("properties", {})
            return {each: example(one, schemas, each) for each, one in fields.items()}
        case "array":
            return [example(schema["items"], schemas, name)] if schema.get("items") else []
        case "integer":
            return max(1, int(schema.get("minimum", 1)))
        case "number":
            return 1.0
        case "boolean":
            return False
        case _:
            return NAMED.get(name, name)


# --- for people ----------------------------------------------------------------------------------------------


@router.get("/docs", include_in_schema=False)
@router.get("/api/docs", include_in_schema=False)
@router.get("/researcher/api/docs", include_in_schema=False)
async def page(request: Request) -> Response:
    document = openapi_document(request.app)
    if "text/markdown" in request.headers.get("accept", ""):
        return Response(reference(document), media_type="text/markdown; charset=utf-8")
    if request.app.state.reference is None:
        request.app.state.reference = reference_page(document)
    return layout("Fairpool API", request.app.state.reference)


def reference(document: Document) -> str:
    """Every route: what it does, and who may."""
    groups: dict[str, list[tuple[str, str, str, str]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            line = (path, method.upper(), operation["summary"], _who(operation["x-permission"]))
            groups.setdefault(operation["tags"][0], []).append(line)
    for path, words in document["x-websockets"].items():
        groups["streams"].append((path, "WebSocket", words, _who(rbac.Action.WORKLOAD_OPERATE)))
    parts = [PREFACE]
    for name in sorted(groups):
        head = f"## {name[:1].upper()}{name[1:]}\n\n| method | path | description | permission |\n|---|---|---|---|"
        rows = [f"| {method} | `{path}` | {what} | {who} |" for path, method, what, who in sorted(groups[name])]
        parts.append("\n".join([head, *rows]))
    return "\n\n".join(parts) + "\n"


def reference_page(document: Document) -> str:
    """The same for a browser: every operation, with its parameters, an example of what is sent and of the answer."""
    groups: dict[str, list[str]] = {}
    for path, item in sorted(document["paths"].items()):
        for method, operation in item.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    for path, words in document["x-websockets"].items():
        head = _head("WebSocket", path, words, _who(rbac.Action.WORKLOAD_OPERATE))
        groups["streams"].append(f"<details><summary>{head}</summary></details>")
    parts = [INTRODUCTION]
    for name in sorted(groups):
        parts.append(f"<h2>{escape(name[:1].upper() + name[1:])}</h2>{''.join(groups[name])}")
    return "".join(parts)


INTRODUCTION = """<nav><a href="/">Fairpool</a><a href="/api/openapi.json">OpenAPI document</a></nav>
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
            mark = "\\*" if permission in rbac.ROLES[RoleName.RESEARCHER] else ""
            return f"{permission}{mark}"
