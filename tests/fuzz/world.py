"""A control plane that is fuzzed: callers with every role, and what became of their requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from urllib.parse import parse_qsl

from tests.control.asgi import AsgiAnswer, ask
from tests.control.two_scopes import Place, TwoScopes
from tests.fuzz.cases import FuzzCase
from tests.fuzz.judge import document, fault

ENDLESS = "/api/v1/changes"
CLUSTER = "cluster"
WITHOUT_TOKEN = ""


class FuzzedWorld:
    """Sends requests, and keeps the first fault of each kind."""

    def __init__(self, scopes: TwoScopes) -> None:
        self.scopes = scopes
        self.control = scopes.control
        self.control.tokens[CLUSTER] = self.control.cluster_token
        self.callers = [*scopes.scoped, *scopes.tenant, CLUSTER, WITHOUT_TOKEN]
        self.statuses: Counter[int] = Counter()
        self.faults: dict[tuple[str, str, str], str] = {}

    @property
    def sent(self) -> int:
        return self.statuses.total()

    def places(self, path: str, caller: str) -> list[Mapping[str, str]]:
        """What the parameters of a path can be: things in the caller's department, and in another one."""
        known = caller if caller in self.scopes.private else self.scopes.scoped[0]
        return [self.scopes.values(path, place, known) for place in (self.scopes.near, self.scopes.far)]

    async def send(self, case: FuzzCase, caller: str) -> AsgiAnswer:
        """The answer; a caller whose session ended signs in again."""
        answer = await self._answer(case, caller)
        self.statuses[answer.status] += 1
        is_open = document()["paths"][case.path][case.method.lower()]["x-permission"] == "open"
        wrong = fault(case.method, case.path, answer, may_know=self._may_know(caller))
        if wrong:
            said = f"{caller or 'no token'}: {case.method} {case.target} {case.as_sent()} {case.body[:1500]!r}"
            text = answer.text[:1000]
            self.faults.setdefault((case.method, case.path, wrong[:60]), f"{said}\n  {wrong}\n  {text}")
        if answer.status == 401 and not is_open and caller in self.scopes.private:
            await self._sign_in(caller)
        return answer

    def _may_know(self, caller: str) -> bool:
        """Whether nothing is hidden from this caller: a rule for the whole tenant, or the cluster that runs it all."""
        return caller in self.scopes.tenant or caller == CLUSTER

    async def _answer(self, case: FuzzCase, caller: str) -> AsgiAnswer:
        self.control.clock.turn(0.05)
        headers = case.as_sent()
        if caller != WITHOUT_TOKEN:
            headers["authorization"] = f"Bearer {self.control.tokens[caller]}"
        try:
            return await ask(
                self.control.app, case.method, case.target, headers=headers, body=case.body, leaves=case.path == ENDLESS
            )
        except Exception as error:  # as the server would answer it
            return AsgiAnswer(500, {}, f"{type(error).__name__}: {error}".encode())

    async def _sign_in(self, caller: str) -> None:
        said = {"grantType": "password", "username": f"{caller}@example.com", "password": "correct horse"}
        headers = {"content-type": "application/json"}
        answer = await ask(self.control.app, "POST", "/api/v1/token", headers=headers, body=json.dumps(said).encode())
        if answer.status == 200:
            self.control.tokens[caller] = answer.json()["accessToken"]

    def examples(self, place: Place) -> list[FuzzCase]:
        """The documented example of every request, about something in this place."""
        found, known = [], self.scopes.scoped[0]
        for path, item in document()["paths"].items():
            for method, operation in item.items():
                _, _, query = self.scopes.target(path, operation, place, known).partition("?")
                body = self.scopes.body(path, operation, place)
                kind = "application/json" if body[:1] in (b"{", b"[") else "application/octet-stream" if body else ""
                parameters = self.scopes.values(path, place, known)
                found.append(FuzzCase(method.upper(), path, parameters, tuple(parse_qsl(query)), {}, body, kind))
        return found
