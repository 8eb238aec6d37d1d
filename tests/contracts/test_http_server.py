"""What an unauthenticated client may send, hold and wait for. Raw sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import uvloop

from fairpool.api.loopback import LoopbackHttp
from fairpool.control.guard import PEER_UID
from fairpool.control.settings import BODY_MAX_BYTES
from fairpool.control.trusted_proxies import NO_PROXIES, TrustedProxies, read_proxies
from fairpool.platform import http_server
from fairpool.platform.admin_socket import private_socket
from fairpool.platform.http_server import ConnectionLimiter, Limits, Server

PATIENCE_S = 60.0
GET = b"GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\n"
POST = b"POST /x HTTP/1.1\r\nhost: 127.0.0.1\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, if the path says so, and says whose process called."""
    if scope["path"] != "/refuse":
        while (await receive()).get("more_body"):
            pass
    text = f"uid={scope.get(PEER_UID)}".encode()
    head = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": text})


class Running:
    """The server, in a thread."""

    def __init__(
        self,
        limits: Limits,
        factory: Callable[[], asyncio.AbstractEventLoop] | None,
        place: Path,
        keep_alive_s: int = 600,
    ) -> None:
        self.place = place
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self.server = Server(app, limits, timeout_keep_alive=keep_alive_s)
        self._thread = threading.Thread(target=lambda: self._run(factory), daemon=True)
        self._thread.start()
        until(lambda: self.server.started)

    def _run(self, factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        async def serve() -> None:
            control = asyncio.get_running_loop()
            own = await control.create_unix_server(self.server.own_connection, sock=private_socket(self.place))
            sweeping = asyncio.create_task(self.server.sweep())
            await self.server.serve([self._listener])
            sweeping.cancel()
            own.close()

        with asyncio.Runner(loop_factory=factory) as event_loop:
            event_loop.run(serve())

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        line = socket.socket()
        line.bind((address, 0))
        line.settimeout(PATIENCE_S)
        line.connect(("127.0.0.1", self.port))
        return line

    def ask(self, *parts: bytes) -> bytes:
        with self.connect() as line:
            for part in parts:
                line.sendall(part)
            return answer(line)

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE_S)


def answer(line: socket.socket) -> bytes:
    """Until they hang up, or have said all of one answer."""
    said = b""
    try:
        while not said.endswith(b"uid=None") and (more := line.recv(65536)):
            said += more
    except ConnectionError:
        pass
    return said


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def serving(place: Path, keep_alive_s: int = 600, **limits: Any) -> Iterator[Running]:
    running = Running(Limits(**limits), uvloop.new_event_loop, place / "api.sock", keep_alive_s)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else None
    running = Running(Limits(), factory, tmp_path_factory.mktemp("own") / "api.sock")
    yield running
    running.close()


# --- the head ---


ENDLESS = {
    "many headers": (GET, b"a: b\r\n" * 1000),
    "one header": (GET + b"a: ", b"b" * 65536),
    "the name of a header": (GET, b"b" * 65536),
    "the path": (b"GET /", b"b" * 65536),
    "trailers": (CHUNKED + b"0\r\n", b"a: b\r\n" * 1000),
    "one trailer": (CHUNKED + b"0\r\na: ", b"b" * 65536),
    "the extension of a chunk": (CHUNKED + b"1;", b"b" * 65536),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_head_without_end_is_refused(running: Running, name: str) -> None:
    """A5: 360 MB of headers took 7.4 GB."""
    first, more = ENDLESS[name]
    sent = 0
    with running.connect() as line:
        try:
            line.sendall(first)
            for _ in range(1000):
                line.sendall(more)
                sent += len(more)
        except ConnectionError:
            pass
        assert sent < 16 * 1024 * 1024, "they hang up while we send"
        said = answer(line)  # nothing, if what we still sent crossed it
        assert not said or said.startswith(b"HTTP/1.1 431 ")
    assert b"uid=None" in running.ask(GET + b"\r\n"), "and answer all others"


def test_what_is_too_large_is_said_in_our_words(running: Running) -> None:
    said = running.ask(GET + b"".join(b"a%d: b\r\n" % number for number in range(200)) + b"\r\n")
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b"request.head_too_large" in said
    assert b"128 fields and 64 KiB" in said
    said = running.ask(GET + b"a: " + b"b" * 70_000 + b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b"uid=None" in running.ask(GET + b"a: " + b"b" * 60_000 + b"\r\n\r\n")


def test_requests_in_one_piece_are_answered_and_not_without_end(running: Running) -> None:
    with running.connect() as line:
        line.sendall((GET + b"\r\n") * 8)
        said = b""
        while said.count(b"uid=None") < 8:
            said += line.recv(65536)
    with running.connect() as line:
        line.sendall((GET + b"\r\n") * 1000)
        said = b""
        try:
            while more := line.recv(65536):
                said += more
        except ConnectionError:
            pass
        assert said.count(b"uid=None") < 1000


def test_a_large_body_in_small_chunks_is_none_of_this(running: Running) -> None:
    assert b"uid=None" in running.ask(CHUNKED, b"1\r\na\r\n" * 50_000, b"0\r\nx: y\r\n\r\n")


def test_a_body_that_was_refused_is_not_read_to_its_end(tmp_path: Path) -> None:
    with serving(tmp_path, discarded_bytes=256 * 1024) as running, running.connect() as line:
        sent = 0
        with pytest.raises(ConnectionError):  # noqa: PT012
            line.sendall(b"POST /refuse HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000000\r\n\r\n")
            for _ in range(1000):
                line.sendall(b"x" * 65536)
                sent += 65536
        assert sent < 32 * 1024 * 1024


def test_a_body_refused_before_it_arrived_leaves_the_connection_usable(running: Running) -> None:
    """Answered at its head, as when the client sends head and body apart: all of the body counts as discarded."""
    size = BODY_MAX_BYTES + 1
    with running.connect() as line:
        line.sendall(b"POST /refuse HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % size)
        assert b"uid=None" in answer(line)
        line.sendall(b"x" * size)
        line.sendall(GET + b"\r\n")
        assert b"uid=None" in answer(line)


# --- time ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "words"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(GET, b"HTTP/1.1 408 ", id="half a head"),
        pytest.param(POST + b"content-length: 10\r\n\r\nabc", b"HTTP/1.1 408 ", id="half a body"),
        pytest.param(GET + b"\r\n\r\n\r\n", b"uid=None", id="one request and blank lines"),
    ],
)
def test_a_client_that_stops_sending_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, words: bytes
) -> None:
    """A11: half-open connections never timed out."""
    monkeypatch.setattr(http_server, "SWEEP_S", 0.05)
    with serving(tmp_path, keep_alive_s=1, head_s=0.2, body_idle_s=0.2) as running, running.connect() as line:
        line.sendall(sent)
        said = b""
        while more := line.recv(65536):  # until they hang up
            said += more
        assert words in said


@pytest.mark.slow
@pytest.mark.parametrize("first", [GET, POST + b"content-length: 1000000\r\n\r\n"], ids=["head", "body"])
def test_a_drop_now_and_then_is_not_going_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr(http_server, "SWEEP_S", 0.05)
    limits: dict[str, Any] = {"head_s": 0.5, "body_idle_s": 30.0, "body_slow_s": 0.5, "body_bytes_per_s": 1000}
    with serving(tmp_path, **limits) as running, running.connect() as line:
        line.sendall(first)
        end = time.monotonic() + PATIENCE_S
        with pytest.raises(ConnectionError):  # noqa: PT012
            while time.monotonic() < end:
                line.sendall(b"x")
                time.sleep(0.05)


@pytest.mark.slow
def test_a_connection_may_rest_between_two_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SWEEP_S", 0.05)
    with serving(tmp_path, head_s=0.2) as running, running.connect() as line:
        for _ in range(2):
            line.sendall(GET + b"\r\n")
            assert b"uid=None" in answer(line)
            time.sleep(1)


# --- connections ---


@pytest.mark.slow
@pytest.mark.parametrize("own_address", [True, False], ids=["one address", "many addresses"])
def test_connections_that_are_only_held_make_room_for_one_that_asks(tmp_path: Path, own_address: bool) -> None:
    with serving(tmp_path, connections=32, connections_per_address=24) as running:
        held = [running.connect(f"127.0.0.{1 if own_address else 2 + number}") for number in range(60)]
        assert b"uid=None" in running.ask(GET + b"\r\n")
        until(lambda: len(running.server.server_state.connections) <= 32)
        for line in held:
            line.close()
        until(lambda: not running.server.server_state.connections)
        assert not running.server.limiter._count, "every place is given back"


@pytest.mark.slow
def test_who_is_being_served_is_not_put_out(tmp_path: Path) -> None:
    with serving(tmp_path, connections=8, connections_per_address=8) as running:
        busy = [running.connect() for _ in range(8)]
        for line in busy:
            line.sendall(POST + b"content-length: 10\r\n\r\nabc")
        until(lambda: len(running.server.server_state.tasks) == 8)
        with running.connect() as line:
            said = answer(line)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"server.busy" in said
        owner = LoopbackHttp(f"http://127.0.0.1:{running.port}", PATIENCE_S, running.place)
        assert owner.request("GET", "/x", headers={}).content == f"uid={os.geteuid()}".encode(), "the owner has room"
        owner.close()
        for line in busy:
            line.sendall(b"0123456")
            assert b"uid=None" in answer(line)
            line.close()


def test_a_trusted_proxy_may_have_all_connections() -> None:
    def is_refused(proxies: TrustedProxies, number: int) -> bool:
        limiter = ConnectionLimiter(Limits(connections=4, connections_per_address=2), proxies)
        connections = [Mock(uid=None, client=("10.0.0.7", each), idle_since=None) for each in range(number)]
        return not all(limiter.enter(each, "10.0.0.7") for each in connections)

    trusted = read_proxies(["10.0.0.7"])
    assert isinstance(trusted, TrustedProxies)
    assert is_refused(NO_PROXIES, 3)
    assert not is_refused(trusted, 4)
    assert is_refused(trusted, 5)


# --- over the Unix socket ---


def test_the_socket_is_the_owners_and_says_whose_process_calls(running: Running) -> None:
    assert running.place.stat().st_mode & 0o777 == 0o600
    http = LoopbackHttp(f"http://127.0.0.1:{running.port}", PATIENCE_S, running.place)
    for _ in range(2):
        assert http.request("GET", "/x", headers={}).content == f"uid={os.geteuid()}".encode()
    http.close()
    elsewhere = LoopbackHttp(f"http://127.0.0.1:{running.port}", PATIENCE_S, running.place.with_name("none"))
    assert elsewhere.request("GET", "/x", headers={}).content == b"uid=None", "without it, as ever"
    elsewhere.close()


def test_another_users_process_is_not_answered(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "peer_uid", lambda _: os.geteuid() + 4711)
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        line.connect(str(running.place))
        try:
            line.sendall(GET + b"\r\n")
            said = line.recv(100)
        except ConnectionError:
            said = b""
        assert said == b""
