"""Requests to the control plane: JSON both ways, pages, streams, and refusals as exceptions.

`client.Client` has a method for each call; this is what they are made of. A client is for one thread. Nothing here
imports the models of `api/`: commands are started often and are over soon.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fairpool.api.limits import PAGE_MAX
from fairpool.api.loopback import LoopbackHttp, Reply, is_here
from fairpool.api.record import Record, parse_answer, parse_object
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.network import NetworkHttp
    from fairpool.api.wire import Request

    Body = Request | Mapping[str, Any]

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """A problem, and the field of the request that it is about, where there is one."""

    problem: Problem
    field: str | None = None


class Refused(Exception):
    """The control plane refused the request, and why."""

    def __init__(self, status: int, items: Sequence[RefusedItem], choices: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.items = tuple(items)
        self.problems = tuple(each.problem for each in items)
        self.choices = dict(choices or {})
        super().__init__("; ".join(str(problem) for problem in self.problems))


class Calls:
    """Calls to one control plane, as one caller."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        socket: Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`socket` is a Unix socket of the same server; used if it is on this machine and can be opened."""
        self.address = address
        self._http = _transport(address, timeout_s, socket)
        self.token = token

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return self._read(self._call("GET", path, params=params))

    def _post(self, path: str, body: Body | None = None, key: str | None = None) -> Any:
        return self._read(self._call("POST", path, body, headers={"Idempotency-Key": key or new_key()}))

    def _change(self, method: str, path: str, body: Body, revision: int | None) -> Any:
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        return self._read(self._call(method, path, body, headers=headers))

    def _all(self, path: str, name: str, params: Mapping[str, Any] | None = None) -> list[Any]:
        """Every page of a list: an object that has it under this name, or the bare list."""
        found: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = self._get(path, {**(params or {}), "offset": offset, "limit": PAGE_MAX})
            if isinstance(page, list):
                found += page
                offset = len(found) if len(page) == PAGE_MAX else None
            else:
                found += page.get(name, [])
                offset = page.get("next")
        return found

    def _read(self, answer: Reply) -> Any:
        try:
            return parse_answer(answer.content)
        except ValueError as error:
            fix = "run the same release of Fairpool on both sides"
            problem = Problem("wire.unreadable", f"the server's answer cannot be read: {error}", fix)
            raise Refused(answer.status_code, [RefusedItem(problem)]) from error

    def _call(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = {**self._headers(), **(headers or {})}
        if body is None:
            return self._sent(method, path, content=None, params=params, headers=sent)
        content = json.dumps(plain_body(body), allow_nan=False).encode()
        sent["Content-Type"] = "application/json"
        return self._sent(method, path, content=content, params=params, headers=sent)

    def _sent(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> Reply:
        answer = self._http.request(method, path, content=content, params=params, headers=headers)
        if answer.is_error:
            raise refused_answer(answer)
        return answer

    @contextmanager
    def _stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = TIMEOUT_S,
    ) -> Iterator[Iterator[bytes]]:
        """The body of an answer, piece by piece; `silence_s`: how long the next piece may take, None: for ever."""
        sent = {**self._headers(), **(headers or {})}
        with self._http.stream(method, path, params=params, headers=sent, silence_s=silence_s) as answer:
            if answer.is_error:
                raise refused_answer(answer.whole())
            yield answer.pieces

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def plain_body(body: Body) -> Any:
    """A request as it travels: one that is a model without what was not set."""
    return body if isinstance(body, Mapping) else body.model_dump(mode="json", by_alias=True, exclude_unset=True)


def new_key() -> str:
    """An `Idempotency-Key` that no other call has."""
    return os.urandom(16).hex()


def event_data(pieces: Iterator[bytes]) -> Iterator[str]:
    """The data of each server-sent event."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n\n")
        for event in whole:
            data = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
            if any(data):
                yield b"\n".join(data).decode()


def refused_answer(answer: Reply) -> Refused:
    try:
        said = parse_object(answer.content)
        items = [_item(each) for each in said.get("problems", [])]
        return Refused(
            answer.status_code,
            items or [RefusedItem(Problem("request.refused", str(said["message"]), ""))],
            said.get("choices"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        what = f"the server answered {answer.status_code} {answer.reason_phrase}"
        problem = Problem("wire.not_fairpool", what, "check that the URL is that of a Fairpool server")
        return Refused(answer.status_code, [RefusedItem(problem)])


def _item(said: Record) -> RefusedItem:
    return RefusedItem(Problem(str(said["code"]), str(said["what"]), str(said.get("fix", ""))), said.get("field"))


def _transport(address: str, timeout_s: float, socket: Path | None) -> LoopbackHttp | NetworkHttp:
    if is_here(address):
        return LoopbackHttp(address, timeout_s, socket)
    from fairpool.api.network import NetworkHttp  # takes 100 ms, and only for a server on another machine

    return NetworkHttp(address, timeout_s)
