"""What every built-in role may do, found by calling every route as each of them.

Each call is about something in the caller's own department, then about the same thing in another department. Writes
are carried out and rolled back, so that all calls meet the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, TypeVar

from fairpool.control.app import ROUTES
from fairpool.control.openapi import openapi_document
from fairpool.control.rbac import Action
from fairpool.control.routes import Document, Route
from fairpool.control.store.database import Connection, Database
from tests.control.asgi import AsgiAnswer, ask
from tests.control.two_scopes import Place, TwoScopes

T = TypeVar("T")

LEFT_OUT: Mapping[str, str] = {
    "POST /api/v1/security/token-keys/rotate": "changes a file, which no rollback restores",
    "POST /api/v1/me/password": "counts wrong passwords, and refuses after some",
}
ENDLESS = "/api/v1/changes"
COUNTED = "/count"


class Cell(StrEnum):
    """What a role may do with a route."""

    ANYWHERE = "yes"
    OWN = "own"
    TENANT = "all"
    NEVER = "-"
    NOT_MEASURED = "not measured"
    """The request was wrong in itself, in both departments: what it says about permissions is not known."""


@dataclass
class Outcome:
    """What one role was answered about its own department and about another one."""

    own: AsgiAnswer
    foreign: AsgiAnswer
    everywhere: AsgiAnswer | None = None
    """The same role for the whole tenant, about its own department; None: not asked."""
    is_same_request: bool = False
    """Nothing in the request says which department it is about."""
    revealed: list[str] = field(default_factory=list)
    """Names and ids of the other department in the answers to a caller who may not know them."""
    tenant_sees_more: bool = False
    """A caller for the whole tenant is shown more than one for a department."""

    @property
    def cell(self) -> Cell:
        if status_of(self.own) == status_of(self.foreign) == HTTPStatus.UNPROCESSABLE_ENTITY:
            return Cell.NOT_MEASURED
        if is_allowed(self.own):
            return Cell.ANYWHERE if self.is_same_request and not self.tenant_sees_more else Cell.OWN
        return Cell.TENANT if self.everywhere is not None and is_allowed(self.everywhere) else Cell.NEVER

    @property
    def elsewhere(self) -> str:
        """What became of the request about the other department, where the one about its own was allowed."""
        if self.cell is Cell.NOT_MEASURED or not is_allowed(self.own):
            return ""
        if self.is_same_request:
            return "not listed" if self.tenant_sees_more else ""
        return {403: "refused", 404: "hidden", 422: "hidden"}.get(status_of(self.foreign), "allowed")


def status_of(answer: AsgiAnswer) -> int:
    """The status; of an action on several things, that of the first one which was refused."""
    if answer.status != 200 or not answer.body:
        return answer.status
    said = answer.json() if "json" in answer.headers.get("content-type", "") else None
    if isinstance(said, dict) and said.get("failed"):
        return int(said["failed"][0]["code"])
    if isinstance(said, list) and said and isinstance(said[0], dict) and said[0].get("ok") is False:
        return int(said[0]["error"]["status"])
    return 200


def is_allowed(answer: AsgiAnswer) -> bool:
    """Neither refused nor hidden. What is wrong with the request besides (409, 422) is said after that."""
    return status_of(answer) not in (401, 403, 404)


class _Undone(Exception):
    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


@contextmanager
def rolled_back(database: Database) -> Iterator[None]:
    """Within this, what is written is answered as if it were kept, and is not."""
    write = database.write

    async def write_and_undo(unit: Callable[[Connection], T]) -> T:
        def undone(connection: Connection) -> Any:
            raise _Undone(unit(connection))

        try:
            await write(undone)
        except _Undone as done:
            result: T = done.result
            return result
        raise AssertionError("a unit was not undone")

    database.write = write_and_undo  # type: ignore[method-assign]
    try:
        yield
    finally:
        del database.write


def called_routes() -> list[Route]:
    """Every documented route for people and programs."""
    return sorted(
        (
            each
            for each in ROUTES
            if each.in_document
            and each.action not in (Action.OPEN, Action.LINK)
            and f"{each.method} {each.path}" not in LEFT_OUT
        ),
        key=lambda each: (each.path, each.method),
    )


async def measured(world: TwoScopes, every: int = 1) -> dict[str, dict[str, Outcome]]:
    """The outcome of every route for every role; `every`: for each route one role of so many, another for the next."""
    document = openapi_document(ROUTES)
    callers = list(zip(world.scoped, world.tenant, strict=True))
    found: dict[str, dict[str, Outcome]] = {}
    with rolled_back(world.control.app.state.plane.database):
        for number, route in enumerate(called_routes()):
            operation = document["paths"].get(route.path, {}).get(route.method.lower(), {})
            calls = Calls(world, route, operation)
            found[f"{route.method} {route.path}"] = {
                caller.removeprefix("near-"): await calls.outcome(caller, everywhere)
                for caller, everywhere in callers[number % every :: every]
            }
    return found


class Calls:
    """The calls of one route."""

    def __init__(self, world: TwoScopes, route: Route, operation: Document) -> None:
        self._world, self._route, self._operation = world, route, operation
        self._hidden = world.hidden()

    async def outcome(self, caller: str, everywhere: str) -> Outcome:
        near, far = (self._request(caller, place) for place in (self._world.near, self._world.far))
        own, foreign = await self._answer(caller, near), await self._answer(caller, far)
        revealed = [*self._revealed(own, near), *self._revealed(foreign, far)]
        outcome = Outcome(own, foreign, is_same_request=near == far, revealed=revealed)
        if near == far or not is_allowed(own):
            answer = await self._answer(everywhere, self._request(everywhere, self._world.near))
            outcome.everywhere = answer
            is_more = self._route.path.endswith(COUNTED) and answer.body != own.body
            outcome.tenant_sees_more = is_more or bool(self._revealed(answer, near))
        return outcome

    def _request(self, caller: str, place: Place) -> tuple[str, bytes]:
        path = self._route.path
        target = self._world.target(path, self._operation, place, caller)
        return target, self._world.body(path, self._operation, place)

    async def _answer(self, caller: str, request: tuple[str, bytes]) -> AsgiAnswer:
        target, body = request
        control = self._world.control
        headers = {"authorization": f"Bearer {control.tokens[caller]}"}
        if body:
            headers["content-type"] = "application/json" if body[:1] in b"{[" else "application/octet-stream"
        leaves = self._route.path == ENDLESS
        return await ask(control.app, self._route.method, target, headers=headers, body=body, leaves=leaves)

    def _revealed(self, answer: AsgiAnswer, request: tuple[str, bytes]) -> list[str]:
        """What the answer reveals; what the request said may be repeated."""
        said = f"{request[0]} {request[1].decode()}"
        return [word for word in self._hidden if word in answer.text and word not in said]
