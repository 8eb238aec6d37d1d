"""From a request to its route at once: by the words of its path, where the framework tries one route after the other.

It knows the same routes in the same order and leads to the one that the framework would find. Where it knows none, for
a path that does not exist, another method or a socket, the framework is asked, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute, RouteContext, iter_route_contexts
from starlette.convertors import StringConvertor
from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Way:
    """A route, and which words of its path are parameters."""

    number: int
    """In the order in which the framework tries."""
    route: APIRoute
    app: ASGIApp
    parameters: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Crossing:
    """Where a path may go on: with this word, or with any."""

    words: dict[str, _Crossing] = field(default_factory=dict)
    any_word: _Crossing | None = None
    ways: dict[str, Way] = field(default_factory=dict)
    """What ends here, by method."""


class Signpost:
    """Stands before the framework's own search. It learns the routes at the first request, when all are there."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._search = app.router.middleware_stack
        self._start: _Crossing | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope.get("root_path"):
            words = scope["path"].split("/")
            way = self.way(scope["method"], words)
            if way is not None:
                scope["router"] = self._app.router
                scope["route"] = way.route
                scope["endpoint"] = way.route.endpoint
                scope["path_params"] = {name: words[place] for place, name in way.parameters}
                await way.app(scope, receive, send)
                return
        await self._search(scope, receive, send)

    def way(self, method: str, words: Sequence[str]) -> Way | None:
        """The route that is meant; None: the framework must be asked."""
        if self._start is None:
            self._start = _learned(self._app)
        if words[-1].endswith("\n"):
            return None  # to a pattern's `$` it is as if it were not there
        crossings = [self._start]
        for word in words:
            reached = [found for each in crossings if (found := each.words.get(word)) is not None]
            if word:
                reached += [each.any_word for each in crossings if each.any_word is not None]
            crossings = reached
        ways = [way for each in crossings if (way := each.ways.get(method)) is not None]
        return min(ways, key=_number) if ways else None


def _number(way: Way) -> int:
    return way.number


def _learned(app: FastAPI) -> _Crossing:
    start = _Crossing()
    for number, context in enumerate(iter_route_contexts(app.routes)):
        if isinstance(context.original_route, APIWebSocketRoute):
            continue
        if not _is_of_words(context):
            break  # what comes after it might be its business
        _learn(start, number, context)
    return start


def _is_of_words(context: RouteContext) -> bool:
    """Whether each word of its path is either itself or a parameter, which may be any word."""
    if not isinstance(context.original_route, APIRoute) or context.path is None:
        return False
    convertors: dict[str, Any] = context.param_convertors
    plain = context.path.split("/")
    in_words = {word[1:-1] for word in plain if word.startswith("{") and word.endswith("}")}
    return set(convertors) == in_words and all(type(each) is StringConvertor for each in convertors.values())


def _learn(start: _Crossing, number: int, context: RouteContext) -> None:
    assert isinstance(context.original_route, APIRoute)
    assert context.path is not None
    here, parameters = start, []
    for place, word in enumerate(context.path.split("/")):
        if word.startswith("{"):
            parameters.append((place, word[1:-1]))
            here.any_word = here.any_word or _Crossing()
            here = here.any_word
        else:
            here = here.words.setdefault(word, _Crossing())
    way = Way(number, context.original_route, context.app, tuple(parameters))
    for method in context.methods or ():
        here.ways.setdefault(method, way)  # of two for the same, the first counts
