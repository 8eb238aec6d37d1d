"""Route declarations: which handler serves a method and path, and what it takes from the request.

    routes = Routes("projects")

    @routes.get("/api/v1/org-unit/projects/{project_id}", action=Action.PROJECT_READ, answer=Project, summary="…")
    async def project(project_id: str, plane: Plane, caller: Caller) -> Response: ...

The handler's signature is read once, when it is declared. A parameter is

- the connection, the control plane or the caller, if its type is `Request`, `WebSocket`, `Plane` or `Caller`;
- a part of the path, if its name is in the path;
- the JSON body, if its name is `body`;
- several query parameters, if its type is a `Query`;
- otherwise one query parameter or header, with constraints and description by `Parameter`.

`action` is the permission that the guard asks for; there is no default. `router.py` finds the route of a request,
`endpoint.py` calls its handler, `openapi.py` describes it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Unpack, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic import Field as Parameter
from starlette.requests import Request
from starlette.websockets import WebSocket

from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action

__all__ = ["WEBSOCKET", "Header", "Parameter", "Query", "Route", "Routes"]

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
Document = dict[str, Any]
"""A part of the OpenAPI document."""

WEBSOCKET = "WEBSOCKET"
"""In place of a method."""
IN_PATH = re.compile(r"\{(\w+)\}")


class Query(BaseModel):
    """Query parameters that several routes have in common."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, defer_build=True)


class Header:
    """Marks a parameter that is a header."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Query parameters or headers that are validated together."""

    where: Literal["query", "header"]
    model: type[BaseModel]
    argument: str | None
    """The argument that takes the whole model; None: each field is an argument of its own."""
    names: tuple[tuple[str, bool], ...]
    """As they are called in the request, and whether several values are taken."""
    defaults: Mapping[str, Any] | None
    """The arguments if nothing is given; None if something must be given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a handler takes, each by the name of its argument."""

    connection: str | None = None
    plane: str | None = None
    caller: str | None = None
    in_path: tuple[str, ...] = ()
    parameters: tuple[Parameters, ...] = ()
    body: TypeAdapter[Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    takes: Arguments
    action: Action
    tag: str
    summary: str = ""
    answer: Any = None
    """The model of the answer, or a list of a model; None: the handler makes the response."""
    status: int = 200
    responses: Mapping[int, Document] = field(default_factory=dict)
    request_body: Document | type[BaseModel] | None = None
    """Describes a body that the handler reads by itself."""
    in_document: bool = True
    body_max_bytes: int | None = None
    """Default: `Settings.body_max_bytes`."""
    before: Callable[[Request], Awaitable[None]] | None = None
    """Called after the guard and before the request is validated."""
    with_initial_password: bool = False
    """Also for callers who must change their password first."""

    @property
    def name(self) -> str:
        """Unique, for the OpenAPI document."""
        return re.sub(r"\W", "_", f"{self.handler.__name__}{self.path}") + f"_{self.method.lower()}"


class RouteOptions(TypedDict, total=False):
    """Options of a route, see `Route`."""

    summary: str
    answer: Any
    status: int
    responses: Mapping[int, Document]
    request_body: Document | type[BaseModel]
    body_max_bytes: int
    before: Callable[[Request], Awaitable[None]] | None
    with_initial_password: bool


class Routes(list[Route]):
    """The routes of one module."""

    def __init__(self, tag: str = "", *, in_document: bool = True) -> None:
        super().__init__()
        self.tag = tag
        self._in_document = in_document

    def get(self, path: str, *, action: Action, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self._declaring("GET", path, action, options)

    def post(self, path: str, *, action: Action, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self._declaring("POST", path, action, options)

    def put(self, path: str, *, action: Action, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self._declaring("PUT", path, action, options)

    def patch(self, path: str, *, action: Action, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self._declaring("PATCH", path, action, options)

    def delete(self, path: str, *, action: Action, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        return self._declaring("DELETE", path, action, options)

    def websocket(self, path: str, *, action: Action) -> Callable[[H], H]:
        return self._declaring(WEBSOCKET, path, action, {})

    def add(self, method: str, path: str, handler: Handler, *, action: Action, **options: Unpack[RouteOptions]) -> None:
        """Declare a route without a decorator."""
        takes = arguments_of(handler, path)
        route = Route(
            method=method,
            path=path,
            handler=handler,
            takes=takes,
            action=action,
            tag=self.tag,
            in_document=self._in_document,
            **options,
        )
        self.append(route)

    def _declaring(self, method: str, path: str, action: Action, options: RouteOptions) -> Callable[[H], H]:
        def declare(handler: H) -> H:
            self.add(method, path, handler, action=action, **options)
            return handler

        return declare


# --- signatures ----------------------------------------------------------------------------------------------


BY_TYPE: Mapping[Any, str] = {Request: "connection", WebSocket: "connection", Plane: "plane", Caller: "caller"}


def arguments_of(handler: Handler, path: str) -> Arguments:
    """What a handler takes, by its signature."""
    hints = get_type_hints(handler, include_extras=True)
    in_path, body = IN_PATH.findall(path), None
    named: dict[str, Any] = {}
    single: dict[str, Any] = {}
    groups: list[Parameters] = []
    for name, parameter in inspect.signature(handler).parameters.items():
        kind = hints[name]
        if kind in BY_TYPE:
            named[BY_TYPE[kind]] = name
        elif name == "body":
            body = TypeAdapter(kind)
        elif isinstance(kind, type) and issubclass(kind, Query):
            groups.append(_parameters("query", kind, name))
        elif name not in in_path:
            single[name] = (kind, ... if parameter.default is parameter.empty else parameter.default)
    headers = {name: each for name, each in single.items() if _is_header(each[0])}
    queries = {name: each for name, each in single.items() if name not in headers}
    for where, fields in (("query", queries), ("header", headers)):
        if fields:
            model = create_model(f"{handler.__name__} {where}", __base__=Query, **fields)
            groups.append(_parameters(where, model, None))
    taken = tuple(name for name in inspect.signature(handler).parameters if name in in_path)
    return Arguments(in_path=taken, parameters=tuple(groups), body=body, **named)


def _is_header(kind: Any) -> bool:
    return any(isinstance(each, Header) for each in getattr(kind, "__metadata__", ()))


def _parameters(where: Any, model: type[BaseModel], argument: str | None) -> Parameters:
    fields = model.model_fields
    names = tuple((info.alias or name, _is_list(info.annotation)) for name, info in fields.items())
    defaults: dict[str, Any] | None = None
    if not any(info.is_required() for info in fields.values()):
        defaults = (
            {name: info.default for name, info in fields.items()}
            if argument is None
            else {argument: model.model_construct()}
        )
    return Parameters(where, model, argument, names, defaults)


def _is_list(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) is list or any(get_origin(each) is list for each in get_args(kind))
