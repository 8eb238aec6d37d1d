"""OpenAPI document of the API, made from the routes and their pydantic models.

Where a model has no example, one is put together from the examples of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter

import fairpool
from fairpool.api.problems import MEDIA_TYPE, ProblemDocument
from fairpool.control.rbac import Action
from fairpool.control.routes import IN_PATH, WEBSOCKET, Document, Parameters, Route

TITLE = "Fairpool"
DESCRIPTION = "Share GPUs between teams: projects, quotas, access and workloads."
REFERENCE = "#/components/schemas/{model}"

REFUSALS: Document = {
    str(status): {
        "description": words,
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="ProblemDocument")}}},
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
        502: "A cluster, registry or identity provider did not answer, or refused",
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
EDITED = ("{project_id}", "{department_id}", "{pool_id}", "{node}", "{cluster_id}", "{key}", "{workload_id}")
"""Objects with a revision: the last of these in a path."""
WITHOUT_KEY = "/api/v1/authorization/permitted-scopes"
"""It only reads, although it is a POST."""
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
WEBSOCKETS = {
    "/api/v1/workloads/{workload_id}/exec": "Run a command in a pod: ?command=WORD (repeated), pod, tty",
    "/api/v1/workloads/{workload_id}/attach": "Attach to a pod's main process: ?pod, tty",
    "/api/v1/workloads/{workload_id}/port-forward": "Connect to a port of a pod: ?port, pod",
    "/api/v1/cluster/tunnel": "Streams between the control plane and a cluster (opened by clusters)",
}
"""WebSockets, which OpenAPI cannot describe."""

Key = tuple[str, Any]
"""A model that has a schema: the operation and the place in it."""
Mode = Literal["validation", "serialization"]


def openapi_document(routes: Sequence[Route]) -> Document:
    """The description of all routes, with the one form that every refusal has."""
    described = [each for each in routes if each.in_document and each.method != WEBSOCKET]
    inputs: list[tuple[Key, Mode, TypeAdapter[Any]]] = [
        (("", "refusal"), "serialization", TypeAdapter(ProblemDocument))
    ]
    for route in described:
        inputs += _models(route)
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=REFERENCE)
    schemas: Document = dict(sorted(_without_null_defaults(definitions["$defs"]).items()))
    by_key = {key: schema for (key, _), schema in found.items()}
    parameters = {_name_of(by_key[(route.name, each.model)]) for route in described for each in route.takes.parameters}
    paths: Document = {}
    for route in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_key, schemas)
    schemas = {name: each for name, each in schemas.items() if name not in parameters}
    schemas["ProblemDocument"]["examples"] = [REFUSAL_EXAMPLE]
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "description": DESCRIPTION, "version": fairpool.__version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{"bearer": []}],
        "x-websockets": WEBSOCKETS,
    }


def _models(route: Route) -> Iterator[tuple[Key, Mode, TypeAdapter[Any]]]:
    for each in route.takes.parameters:
        yield (route.name, each.model), "validation", TypeAdapter(each.model)
    if route.takes.body is not None:
        yield (route.name, "body"), "validation", route.takes.body
    if isinstance(route.request_body, type):
        yield (route.name, "body"), "validation", TypeAdapter(route.request_body)
    if route.answer is not None:
        yield (route.name, route.status), "serialization", TypeAdapter(route.answer)
    for status, response in route.responses.items():
        if "model" in response:
            yield (route.name, status), "serialization", TypeAdapter(response["model"])


def _operation(route: Route, found: Mapping[Key, Document], schemas: Document) -> Document:
    operation: Document = {"tags": [route.tag], "summary": route.summary}
    if route.handler.__doc__:
        operation["description"] = route.handler.__doc__
    operation["operationId"] = route.name
    parameters = _parameters(route, found, schemas)
    if parameters:
        operation["parameters"] = parameters
    body = _body(route, found)
    if body is not None:
        operation["requestBody"] = body
    operation["responses"] = _responses(route, found)
    if route.action is Action.OPEN:
        operation["security"] = []
    operation["x-permission"] = route.action.value
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for each in (operation.get("requestBody", {}), *answers):
        for media in each.get("content", {}).values():
            if "example" not in media and media.get("schema"):
                media["example"] = example(media["schema"], schemas)
    return operation


def _parameters(route: Route, found: Mapping[Key, Document], schemas: Document) -> list[Document]:
    parameters: list[Document] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in IN_PATH.findall(route.path)
    ]
    for each in route.takes.parameters:
        parameters += _described(each, schemas[_name_of(found[(route.name, each.model)])])
    if takes_if_match(route.method, route.path):
        parameters.append(IF_MATCH)
    if route.method == "POST" and route.action not in (Action.OPEN, Action.LINK) and route.path != WITHOUT_KEY:
        parameters.append(IDEMPOTENCY_KEY)
    return parameters


def _described(taken: Parameters, schema: Document) -> Iterator[Document]:
    for name, _ in taken.names:
        one = dict(schema["properties"][name])
        described = {"description": one["description"]} if "description" in one else {}
        required = name in schema.get("required", ())
        yield {"name": name, "in": taken.where, "required": required, "schema": one, **described}


def _without_null_defaults(schema: Any) -> Any:
    """`"default": null` says no more than that the field is not required."""
    if isinstance(schema, dict):
        kept = {key: each for key, each in schema.items() if not (key == "default" and each is None)}
        return {key: _without_null_defaults(each) for key, each in kept.items()}
    return [_without_null_defaults(each) for each in schema] if isinstance(schema, list) else schema


def _name_of(reference: Document) -> str:
    return str(reference["$ref"].rpartition("/")[2])


def _body(route: Route, found: Mapping[Key, Document]) -> Document | None:
    if isinstance(route.request_body, dict):
        return {**route.request_body, "content": {name: {**one} for name, one in route.request_body["content"].items()}}
    schema = found.get((route.name, "body"))
    return schema and {"required": True, "content": {"application/json": {"schema": schema}}}


def _responses(route: Route, found: Mapping[Key, Document]) -> Document:
    success: Document = {"description": "Successful Response"}
    if route.status != 204:
        success["content"] = {"application/json": {"schema": found.get((route.name, route.status), {})}}
    if route.method == "GET" and route.path.endswith(EDITED):
        success["headers"] = ETAG
    responses = {str(route.status): success, **REFUSALS}
    for status, response in route.responses.items():
        if "model" in response:
            content = {"content": {"application/json": {"schema": found[(route.name, status)]}}}
        else:
            content = response
        known = responses.get(str(status), {})
        # A form that cannot be read is refused as everywhere; an answer that has a model may have another form as well.
        if status >= 400 or (status == route.status and route.answer is not None and "model" not in response):
            content = {**content, "content": {**known["content"], **content["content"]}}
        responses[str(status)] = {**known, **content}
    return responses


def takes_if_match(method: str, path: str) -> bool:
    """Whether an operation changes an object that has a revision."""
    if method == "POST":
        return path.endswith(("/suspend", "/resume")) and "{workload_id}" in path
    changed = path.removesuffix("/resources").removesuffix("/overrides")
    return method in ("PUT", "PATCH", "DELETE") and changed.endswith(EDITED)


# --- examples ------------------------------------------------------------------------------------------------

EXAMPLES = {
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
"""For fields that have the same name everywhere."""


def example(schema: Document, schemas: Mapping[str, Document], name: str = "") -> Any:
    """A value that fits a schema, made of the examples in it."""
    if "$ref" in schema:
        return example(schemas[_name_of(schema)], schemas, name)
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
            return EXAMPLES.get(name, name)
