"""Endpoint of a route: guard, body, validation, handler, answer.

The guard is asked before the body is read, so that a caller who is refused costs nothing else, and again after it,
because permissions may have been revoked while it was on its way. All that is wrong with a request is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from fairpool.api import wire
from fairpool.control.discretion import MARK, redacted_response
from fairpool.control.guard import guard
from fairpool.control.plane import plane_of
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, validation_problems
from fairpool.control.routes import WEBSOCKET, Parameters, Route

JSON = re.compile(r"application/([\w.-]+\+)?json", re.IGNORECASE)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MARKS = re.compile(rb"\xee\x80[\x80-\x82]|\\ue00[0-2]", re.IGNORECASE)
"""Only clusters may mention projects with marks around their names, see `model/mentions.py`."""
MISSING = {"type": "missing", "loc": ("body",), "msg": "Field required"}


class Endpoint:
    """The ASGI application of one route."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._route.method == WEBSOCKET:
            socket = WebSocket(scope, receive, send)
            await guard(socket, self._route)
            await self._route.handler(**self._arguments(socket, b""))
            return
        request = Request(scope, receive, send)
        response = await self._response(request)
        if MARK in getattr(response, "body", b""):
            response = await redacted_response(plane_of(request), getattr(request.state, "caller", None), response)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        route, body = self._route, b""
        await guard(request, route)
        if route.before is not None:
            await route.before(request)
        if route.takes.body is not None:
            body = await _read(request)
            await guard(request, route)
            if route.action is not Action.LINK and MARKS.search(body):
                fix = "leave out the private-use characters U+E000 to U+E002"
                raise refused(422, "request.reserved_characters", "the request contains reserved characters", fix)
        answer = await route.handler(**self._arguments(request, body))
        if isinstance(answer, Response):
            return answer
        assert isinstance(answer, list) or type(answer) is route.answer, "an answer is of the declared model"
        return Response(_json(answer), route.status, media_type="application/json")

    def _arguments(self, connection: HTTPConnection, body: bytes) -> dict[str, Any]:
        """What the handler is called with, or everything that is wrong with the request."""
        takes, path = self._route.takes, connection.scope["path_params"]
        arguments: dict[str, Any] = {name: path[name] for name in takes.in_path}
        if takes.connection is not None:
            arguments[takes.connection] = connection
        if takes.plane is not None:
            arguments[takes.plane] = plane_of(connection)
        if takes.caller is not None:
            arguments[takes.caller] = connection.state.caller
        errors: list[Mapping[str, Any]] = []
        for each in takes.parameters:
            _take_parameters(each, connection, arguments, errors)
        if takes.body is not None:
            _check_is_json(connection, body)
            try:
                if body:
                    arguments["body"] = takes.body.validate_python(_parsed(body))
                else:
                    errors.append(MISSING)
            except ValidationError as error:
                errors += _located("body", error)
        if errors:
            raise Refused(422, validation_problems(errors))
        return arguments


def _take_parameters(
    wanted: Parameters, connection: HTTPConnection, arguments: dict[str, Any], errors: list[Mapping[str, Any]]
) -> None:
    given = _given(wanted, connection)
    if not given and wanted.defaults is not None:
        arguments.update(wanted.defaults)
        return
    try:
        values = wanted.model.model_validate(given, by_alias=True, by_name=False)
    except ValidationError as error:
        errors += _located(wanted.where, error)
        return
    if wanted.argument is not None:
        arguments[wanted.argument] = values
    else:
        arguments.update((name, getattr(values, name)) for name in wanted.model.model_fields)


def _given(wanted: Parameters, connection: HTTPConnection) -> dict[str, Any]:
    if wanted.where == "header":
        return {name: connection.headers[name] for name, _ in wanted.names if name in connection.headers}
    if not connection.scope["query_string"]:
        return {}
    query = connection.query_params
    return {name: query.getlist(name) if is_list else query[name] for name, is_list in wanted.names if name in query}


def _located(where: str, error: ValidationError) -> list[Mapping[str, Any]]:
    return [{**each, "loc": (where, *each["loc"])} for each in error.errors(include_url=False)]


# --- bodies --------------------------------------------------------------------------------------------------


async def _read(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect as gone:
        raise refused(400, "request.not_json", "the request body is incomplete", "send it again") from gone


def _check_is_json(connection: HTTPConnection, body: bytes) -> None:
    kind = connection.headers.get("content-type", "").partition(";")[0].strip()
    if JSON.fullmatch(kind) is None and (body or kind):
        what = f"the Content-Type is {kind[:64].lower() or 'missing'}, but the body must be JSON"
        raise refused(415, "request.not_json", what, "send the header Content-Type: application/json")


def _parsed(body: bytes) -> Any:
    """The JSON value. Validated after that: straight from the text, a field given under two names goes unnoticed."""
    try:
        return wire.parse_json(body.removeprefix(BYTE_ORDER_MARK))
    except ValueError as error:
        raise refused(400, "request.not_json", "the request body is not valid JSON", "send a JSON object") from error


def _json(answer: BaseModel | list[BaseModel]) -> str:
    if isinstance(answer, list):
        return f"[{','.join(_json(each) for each in answer)}]"
    return answer.model_dump_json(by_alias=True, exclude_none=True)
