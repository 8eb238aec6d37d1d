"""A gateway in a thread: pods are sockets of the test, and a fake control plane decides about callers."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fairpool.api.gateway import AccessUnavailable, Admission, Credential, NotAdmitted, PodStream, StreamRefused
from fairpool.api.gateway_address import GatewayAddress
from fairpool.gateway import aio
from fairpool.gateway.proxy import Gateway
from fairpool.model.problem import Problem
from fairpool.platform.local_pod_access import READ_BYTES, LocalPort

PATIENCE_S = 20.0
TOOL, OTHER = "tool-8888", "other-8888"
GOOD = "fpg_good"
TOKEN = "fpa_token"
NOT_SIGNED_IN = NotAdmitted(401, Problem("access.not_signed_in", "you are not signed in", "sign in"))
NO_DATABASE = AccessUnavailable(503, Problem("database.busy", "the database is locked", "retry"))
UNKNOWN = NotAdmitted(404, Problem("gateway.unknown", "there is no such tool", "see `runai list`"))


@dataclass
class FakeAccess:
    """A control plane: who gets in, and which port is behind an origin."""

    ports: dict[str, int] = field(default_factory=dict)
    good: set[str] = field(default_factory=lambda: {GOOD, TOKEN})
    through_tunnel: bool = False
    connections: int = 0
    failure: Exception | None = None
    """Raised instead of every answer."""
    failures: int = 0
    entered: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    def known(self, origin: str, credential: Credential) -> Admission | None:
        return None

    async def admit(self, origin: str, credential: Credential) -> Admission | NotAdmitted:
        if self.failure is not None:
            self.failures += 1
            raise self.failure
        if not self.good.intersection({credential.token, *credential.sessions}):
            return NOT_SIGNED_IN
        if origin not in self.ports:
            return UNKNOWN
        return Admission(origin=origin, credential=credential, upstream=f"{origin}:{self.ports[origin]}")

    async def ended(self, admissions: Collection[Admission]) -> Sequence[Admission]:
        found = [(each, await self.admit(each.origin, each.credential)) for each in admissions]
        return [each for each, now in found if isinstance(now, NotAdmitted)]

    async def changed(self, timeout_s: float) -> None:
        await asyncio.sleep(0.01)

    async def connect(self, admission: Admission) -> PodStream:
        self.connections += 1
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[admission.origin], limit=READ_BYTES)
        except OSError as error:
            raise StreamRefused(Problem("pod.port_closed", "no process of the pod listens", "start it")) from error
        port = LocalPort(reader, writer)
        return OnlyStream(port) if self.through_tunnel else port

    async def enter(self, origin: str, ticket: str, browsers: tuple[str, ...]) -> str | None:
        self.entered.append((origin, ticket, browsers))
        return GOOD if ticket == "ticket" and browsers else None

    def sign_in_url(self, origin: str, browser: str, path: str) -> str:
        return f"http://control/open?origin={origin}&browser={browser}&path={path}"

    def path_url(self, path: str) -> str:
        return f"http://control/open?tool={path}"

    async def origin_of(self, path: str, credential: Credential) -> str | NotAdmitted:
        return "http://tool-8888.localhost/" if credential.token in self.good else NOT_SIGNED_IN


class OnlyStream:
    """A connection that cannot be handed over, as that of a cluster elsewhere."""

    def __init__(self, port: LocalPort) -> None:
        self.send, self.receive, self.close = port.send, port.receive, port.close


class Door:
    """A gateway that listens."""

    def __init__(self, access: FakeAccess, *, secure: bool = False) -> None:
        self.access = access
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.address = GatewayAddress("https" if secure else "http", "localhost", self.port)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    async def _run(self) -> None:
        gateway = Gateway(self.access, self.address)
        server = aio.make_server(gateway.handle)
        listening = await aio.listen(server, self._listener, None)
        watching = asyncio.create_task(gateway.watch())
        self._ready.set()
        await self._stop.wait()
        listening.close()
        watching.cancel()
        await server.shutdown(1.0)
        await gateway.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def host(self, origin: str = TOOL) -> str:
        return f"{origin}.localhost:{self.port}"

    def head(self, start: str = "GET / HTTP/1.1", *lines: str, origin: str = TOOL, cookie: str = GOOD) -> bytes:
        """The head of a request, with a session."""
        session = [f"Cookie: fairpool_tool={cookie}"] if cookie else []
        return "\r\n".join([start, f"Host: {self.host(origin)}", *session, *lines, "", ""]).encode()

    def raw(self, request: bytes) -> bytes:
        """The whole answer, until the connection is closed."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_all(connection)

    def get(self, path: str = "/", *lines: str, origin: str = TOOL, cookie: str = GOOD, method: str = "GET") -> Answer:
        start = f"{method} {path} HTTP/1.1"
        return Answer(self.raw(self.head(start, *lines, "Connection: close", origin=origin, cookie=cookie)))


class Answer:
    """An answer, taken apart."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        head, _, self.body = data.partition(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(start.split()[1]) if start else 0
        self.fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.fields if each == name]

    def one(self, name: str) -> str:
        found = self.all(name)
        assert len(found) == 1, (name, self.fields)
        return found[0]


def read_all(connection: socket.socket) -> bytes:
    parts = []
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            parts.append(piece)
    return b"".join(parts)


def read_head(connection: socket.socket) -> bytes:
    """Up to the end of the head, and what came with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    return data


class Pod:
    """A server in a pod: each connection is answered by a function of the test."""

    def __init__(self, answer: Callable[[socket.socket, bytes], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.heads: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while head := read_head(connection):
                self.heads.append(head)
                self._answer(connection, head)

    def close(self) -> None:
        self._listener.close()

    def fields(self, number: int = -1) -> list[tuple[str, str]]:
        """Of a request that came."""
        lines = self.heads[number].partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]


def says(text: str = "hello", *lines: str, status: str = "200 OK") -> Callable[[socket.socket, bytes], None]:
    """A pod that answers the same to everything."""
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(text)}", *lines, "", ""])
    return lambda connection, _: connection.sendall((head + text).encode())


@contextmanager
def gateway_to(
    answer: Callable[[socket.socket, bytes], None], *, through_tunnel: bool = False, secure: bool = False
) -> Iterator[tuple[Door, Pod]]:
    """A gateway with one tool."""
    pod = Pod(answer)
    door = Door(FakeAccess({TOOL: pod.port, OTHER: pod.port}, through_tunnel=through_tunnel), secure=secure)
    try:
        yield door, pod
    finally:
        door.close()
        pod.close()


def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.01)
