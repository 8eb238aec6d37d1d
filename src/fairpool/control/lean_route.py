"""A route that is handed what it asks for directly, where the framework works out anew at every call what that is.

What a handler asks for stands in its signature, and the description of the API is made from that as ever. Most of ours
ask for the same few things: the request, the plane, the caller, parts of the path, plain parameters, a body. Those are
gathered here in a fraction of the time. Who asks for anything else, and every request with which something is wrong,
goes the framework's way, so that there is one list of all that is wrong with it, in one wording.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from fairpool.api import wire
from fairpool.control.discretion import MARK, answer_told_to
from fairpool.control.plane import plane_of, the_caller, the_plane
from fairpool.control.refusal import refused

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

PLAIN = (str, int, bool, str | None, int | None)
"""Parameters of these types are given once; others, such as lists, several times."""
JSON = frozenset({b"application/json", b"application/json; charset=utf-8"})


class LeanRoute(APIRoute):
    """What is not known is left out of an answer: `next` is absent on the last page, and not null.

    Before its handler comes what the application demands of all routes, the guard, and what the route itself demands.
    Demands made where a router is included would not be heard of here.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **{**options, "response_model_exclude_none": True})

    def get_route_handler(self) -> Handler:
        """Ours, which leaves to the framework's what it does not understand."""
        general = super().get_route_handler()
        asked = asked_by(self)
        return _discreet(_guarded(general) if asked is None else _lean(self, asked, general))


# --- once for each route -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """One that may be given behind the `?`."""

    name: str
    alias: str
    default: Any
    validate: Callable[[Any], tuple[Any, Any]]
    """The value, and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a handler asks for: mostly the name of its argument for that, or none."""

    request: str | None
    plane: str | None
    caller: str | None
    in_path: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    body: str | None
    model: type[wire.Request] | None
    """Of the body."""


def asked_by(route: APIRoute) -> Asked | None:
    """What its handler asks for; None: something that is not understood here."""
    needs = route.dependant
    given = {each.call: each.name for each in needs.dependencies}
    body = needs.body_params[0] if needs.body_params else None
    model: Any = body.field_info.annotation if body is not None else None
    understood = (
        given.keys() <= {the_plane, the_caller}
        and not _asks_for_something_rare(needs)
        and all(each.field_info.annotation is str and not each.field_info.metadata for each in needs.path_params)
        and all(each.field_info.annotation in PLAIN for each in needs.query_params)
        and not any(each.field_info.is_required() for each in needs.query_params)
        and (body is None or _is_the_whole_body(route, model))
        and get_type_hints(route.endpoint).get("return") in (Response, route.response_model)
        and (route.response_model is None or _is_kind_of(route.response_model, wire.Answer))
    )
    if not understood:
        return None
    return Asked(
        request=needs.request_param_name,
        plane=given.get(the_plane),
        caller=given.get(the_caller),
        in_path=tuple(each.name for each in needs.path_params),
        parameters=tuple(Parameter(each.name, each.alias, each.default, each.validate) for each in needs.query_params),
        body=None if body is None else body.name,
        model=cast(type[wire.Request] | None, model),
    )


def _asks_for_something_rare(needs: Dependant) -> bool:
    return any(
        (
            needs.header_params,
            needs.cookie_params,
            needs.websocket_param_name,
            needs.http_connection_param_name,
            needs.response_param_name,
            needs.background_tasks_param_name,
            needs.security_scopes_param_name,
        )
    )


def _is_the_whole_body(route: APIRoute, model: Any) -> bool:
    """Whether the body is one of our messages, and not an object in which there is one."""
    is_whole = route.body_field is not None and route.body_field.field_info.annotation is model
    return is_whole and _is_kind_of(model, wire.Request)


def _is_kind_of(model: Any, kind: type) -> bool:
    return isinstance(model, type) and issubclass(model, kind)


CLUSTERS = "/api/v1/cluster/"
"""What clusters report may mention projects, with marks around the names; what people write may not look like that."""
MARKS = re.compile(rb"\xee\x80[\x80-\x82]|\\ue00[0-2]", re.IGNORECASE)


# --- at every call -------------------------------------------------------------------------------------------


def _lean(route: APIRoute, asked: Asked, general: Handler) -> Handler:
    endpoint, status = route.endpoint, route.status_code or 200
    is_from_people = not route.path.startswith(CLUSTERS)

    async def handler(request: Request) -> Response:
        await _demanded(request)
        body = b""
        if asked.model is not None:
            body = await _body(request)
            await _demanded(request)  # again: while the body came, what was permitted may have been taken away
            if is_from_people and MARKS.search(body):
                fix = "leave out the private-use characters U+E000 to U+E002"
                raise refused(422, "request.reserved_characters", "the request contains reserved characters", fix)
        arguments = _arguments(asked, request, body)
        if arguments is None:
            return await general(request)
        answer = await endpoint(**arguments)
        if isinstance(answer, Response):
            return answer
        assert type(answer) is route.response_model, "an answer is what the description says"
        text = answer.model_dump_json(by_alias=True, exclude_none=True)
        return Response(text, status, media_type="application/json")

    return handler


def _discreet(handler: Handler) -> Handler:
    """What the caller may not see is not named, whichever handler answers."""

    async def discreet(request: Request) -> Response:
        response = await handler(request)
        if MARK not in getattr(response, "body", b""):
            return response
        return await answer_told_to(plane_of(request), getattr(request.state, "caller", None), response)

    return discreet


def _guarded(general: Handler) -> Handler:
    """The framework reads a body before it asks who sends it. Who may not costs nothing but the refusal."""

    async def handler(request: Request) -> Response:
        await _demanded(request)
        return await general(request)

    return handler


async def _demanded(request: Request) -> None:
    """What the application demands of all routes: the guard."""
    for demanded in request.app.router.dependencies:
        await demanded.dependency(request)


async def _body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect as gone:
        raise HTTPException(400, "the request body is incomplete") from gone  # nobody is there to read it


def _arguments(asked: Asked, request: Request, body: bytes) -> dict[str, Any] | None:
    """What the handler is called with; None: the framework shall say what is wrong."""
    scope = request.scope
    arguments = {name: scope["path_params"][name] for name in asked.in_path}
    if asked.request is not None:
        arguments[asked.request] = request
    if asked.plane is not None:
        arguments[asked.plane] = plane_of(request)
    if asked.caller is not None:
        arguments[asked.caller] = request.state.caller
    if asked.parameters and not _add_parameters(arguments, asked.parameters, request):
        return None
    if asked.body is not None and asked.model is not None:
        if _content_type(scope) not in JSON:
            return None
        try:
            # Not straight from the text: then a field that is given under two names would be ignored, and not told.
            arguments[asked.body] = asked.model.model_validate(wire.plain(body))
        except ValueError:
            return None
    return arguments


def _add_parameters(arguments: dict[str, Any], parameters: tuple[Parameter, ...], request: Request) -> bool:
    given: Mapping[str, str] = request.query_params if request.scope["query_string"] else {}
    for each in parameters:
        text = given.get(each.alias)
        if text is None:
            arguments[each.name] = each.default
            continue
        arguments[each.name], wrong = each.validate(text)
        if wrong:
            return False
    return True


def _content_type(scope: Mapping[str, Any]) -> bytes:
    value: bytes = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return value.lower()
