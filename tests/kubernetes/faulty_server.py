"""An API server that misbehaves as a test says: errors, delays, half answers, expired and repeated events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer, Credentials, Identification

REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """What the client has sent."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


class FaultyAnswer:
    """Writes the answer to one request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def says(self, content: Any, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        await self.part(self._head(status, {**headers, "Content-Length": str(len(body))}) + body)

    async def refuses(self, status: int, message: str = "", **headers: str) -> None:
        reason = REASONS.get(status, "")
        content = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
        await self.says(content, status, **headers)

    async def streams(self, *events: tuple[str, Mapping[str, Any]]) -> None:
        """Begin a watch, with these events."""
        await self.part(self._head(200, {"Transfer-Encoding": "chunked"}))
        for kind, content in events:
            await self.event(kind, content)

    async def event(self, kind: str, content: Mapping[str, Any]) -> None:
        await self.chunk(json.dumps({"type": kind, "object": content}).encode() + b"\n")

    async def chunk(self, data: bytes) -> None:
        await self.part(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def ends(self) -> None:
        """The regular end of a watch."""
        await self.part(b"0\r\n\r\n")

    async def part(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def is_cut_off(self) -> None:
        self._writer.transport.abort()

    @staticmethod
    def _head(status: int, headers: Mapping[str, str]) -> bytes:
        fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{fields}\r\n".encode()


Answers = Callable[[SeenRequest, FaultyAnswer], Awaitable[None]]


@dataclass(slots=True)
class FaultyServer:
    """A server whose answers are one function of the test."""

    answers: Answers
    requests: list[SeenRequest] = field(default_factory=list)
    address: str = ""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while request := await _read(reader):
                self.requests.append(request)
                await self.answers(request, FaultyAnswer(writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _read(reader: asyncio.StreamReader) -> SeenRequest | None:
    line = (await reader.readline()).decode()
    if not line:
        return None
    method, target, _ = line.split()
    headers: dict[str, str] = {}
    while field_line := (await reader.readline()).decode().strip():
        name, _, value = field_line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return SeenRequest(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


@asynccontextmanager
async def faulty_server(answers: Answers) -> AsyncIterator[FaultyServer]:
    made = FaultyServer(answers)
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        made.close()


@asynccontextmanager
async def client_of(
    answers: Answers, *, timeout_s: float = 5.0, attempts: int = 6, calls_at_once: int = 32
) -> AsyncIterator[tuple[KubernetesClient, FaultyServer]]:
    """A client, and the server it talks to."""
    async with faulty_server(answers) as server:
        at = ApiServer(server.address, with_token("secret"))
        async with KubernetesClient(at, timeout_s=timeout_s, attempts=attempts, calls_at_once=calls_at_once) as client:
            yield client, server


def with_token(token: str) -> Credentials:
    return Credentials(lambda _rejected: Identification(token=token))


def thing(name: str, version: int, uid: str = "", **more: Any) -> dict[str, Any]:
    """An object of the API, with little in it."""
    identity = {"name": name, "namespace": "test", "resourceVersion": str(version), "uid": uid or f"uid-of-{name}"}
    return {"metadata": identity, **more}


def listing(version: int, *items: Mapping[str, Any], following: str = "") -> dict[str, Any]:
    """An answer to a list."""
    return {"metadata": {"resourceVersion": str(version), "continue": following}, "items": list(items)}
