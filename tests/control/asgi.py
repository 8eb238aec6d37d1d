"""Requests straight to the application, without a client between: many thousands of them are cheap."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

HOST = ("127.0.0.1", 8080)
QUIET_S, STAYS_S = 0.05, 0.5
"""A client that leaves does so when nothing has come for a while, and after this time in any case."""
ACCEPTED = 101
WEBSOCKET = "WEBSOCKET"
"""In place of a method: only the handshake is made."""


@dataclass(slots=True)
class AsgiAnswer:
    """What the application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.body)


async def _quiet(answer: AsgiAnswer) -> None:
    """Until something has come, and then nothing more."""
    size = 0
    for _ in range(int(STAYS_S / QUIET_S)):
        await asyncio.sleep(QUIET_S)
        if size == len(answer.body) > 0:
            return
        size = len(answer.body)


async def ask(
    app: ASGIApp,
    method: str,
    target: str,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
    leaves: bool = False,
) -> AsgiAnswer:
    """The whole answer to a request. `leaves`: the client is gone a moment later, which ends an endless answer."""
    path, _, query = target.partition("?")
    answer, is_over, is_sent = AsgiAnswer(), asyncio.Event(), False
    is_socket = method == WEBSOCKET

    async def receive() -> dict[str, Any]:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            first = {"type": "http.request", "body": body, "more_body": False}
            return {"type": "websocket.connect"} if is_socket else first
        if leaves:
            await _quiet(answer)
        elif not is_socket:
            await is_over.wait()
        return {"type": "websocket.disconnect", "code": 1000} if is_socket else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        kind = message["type"].removeprefix("websocket.")
        if kind.endswith("http.response.start"):
            answer.status = message["status"]
            answer.headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
        elif kind == "accept":
            answer.status = ACCEPTED
        elif kind.endswith("http.response.body"):
            answer.body += message.get("body", b"")
            if not message.get("more_body"):
                is_over.set()

    named = {"host": f"{HOST[0]}:{HOST[1]}", **headers}
    if not is_socket:
        named["content-length"] = str(len(body))
    special: dict[str, Any] = {"subprotocols": []} if is_socket else {"method": method}
    scope: dict[str, Any] = {
        "type": "websocket" if is_socket else "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        **special,
        "scheme": "ws" if is_socket else "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in named.items()],
        "client": ("127.0.0.1", 50000),
        "server": HOST,
        "state": {},
        "extensions": {"websocket.http.response": {}},
    }
    await app(scope, receive, send)
    return answer
