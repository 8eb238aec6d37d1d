"""Router: from the method and path of a request to its route.

A path is looked up word by word, whatever the number of routes: Starlette would try one pattern after the other. Where
two routes fit, a literal word wins over a parameter, so `/workloads/count` is not a workload called "count".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from starlette import routing
from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from fairpool.control.routes import IN_PATH, WEBSOCKET, Route

MATCH = "fairpool.match"
"""Where the scope of a request keeps its match."""


@dataclass(frozen=True, slots=True)
class Match:
    """A route, and where the parameters of its path are."""

    route: Route
    app: ASGIApp
    in_path: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Node:
    """All paths with the same words so far."""

    words: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    matches: dict[str, Match] = field(default_factory=dict)
    """Routes that end here, by method."""


class Router(routing.Router):
    """Starlette's router with another search. It also serves the lifespan."""

    def __init__(
        self,
        routes: Iterable[Route],
        endpoint: Callable[[Route], ASGIApp],
        lifespan: Lifespan[Starlette],
        is_page: Callable[[Scope], bool] = lambda _: False,
    ) -> None:
        """`is_page`: whether a request that no route is for is one for the web UI, which the route of `/` answers."""
        super().__init__(lifespan=lifespan)
        self._is_page = is_page
        self._root = _Node()
        for each in routes:
            self._add(each, endpoint(each))

    def match(self, scope: Scope) -> Match | None:
        """The route of a request or WebSocket; found once, and remembered in its scope."""
        if MATCH not in scope:
            found = self.find(scope.get("method", WEBSOCKET), scope["path"])
            if found is None and not self._is_ours(scope["path"]) and self._is_page(scope):
                found = self.find("GET", "/")
            scope[MATCH] = found
        match: Match | None = scope[MATCH]
        return match

    def _is_ours(self, path: str) -> bool:
        """Whether a path begins like those of routes: then the web UI has no page there."""
        word = path.removeprefix("/").partition("/")[0]
        return bool(word) and word in self._root.words[""].words

    def find(self, method: str, path: str) -> Match | None:
        return next((each.matches[method] for each in self._ends(path) if method in each.matches), None)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.lifespan(scope, receive, send)
            return
        match = self.match(scope)
        if match is not None:
            words = scope["path"].split("/")
            scope["path_params"] = {name: words[at] for at, name in match.in_path}
            await match.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._unmatched(scope)(scope, receive, send)
        else:
            await self.not_found(scope, receive, send)

    def _unmatched(self, scope: Scope) -> ASGIApp:
        path: str = scope["path"]
        methods = sorted({method for each in self._ends(path) for method in each.matches} - {WEBSOCKET})
        if methods:
            raise HTTPException(405, headers={"Allow": ", ".join(methods)})
        without_slash = path.rstrip("/")
        if path != without_slash and self._ends(without_slash):
            return RedirectResponse(str(URL(scope={**scope, "path": without_slash})))
        raise HTTPException(404)

    def _ends(self, path: str) -> list[_Node]:
        """Where routes with this path end, the most literal one first."""
        nodes = [self._root]
        for word in path.split("/"):
            following = []
            for each in nodes:
                if word in each.words:
                    following.append(each.words[word])
                if word and each.parameter is not None:
                    following.append(each.parameter)
            nodes = following
        return [each for each in nodes if each.matches]

    def _add(self, route: Route, app: ASGIApp) -> None:
        here, in_path = self._root, []
        for at, word in enumerate(route.path.split("/")):
            parameter = IN_PATH.fullmatch(word)
            if parameter is not None:
                in_path.append((at, parameter[1]))
                here.parameter = here.parameter or _Node()
                here = here.parameter
            else:
                here = here.words.setdefault(word, _Node())
        assert route.method not in here.matches, f"{route.method} {route.path} is declared twice"
        here.matches[route.method] = Match(route, app, tuple(in_path))
