"""Plain HTTP to this machine: what the commands talk with, against a server that behaves badly."""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.loopback import LoopbackHttp, is_here


class Strange(BaseHTTPRequestHandler):
    """Repeats what it is asked, or hangs up."""

    protocol_version = "HTTP/1.1"

    seen = 0

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.seen += 1
        if self.path.startswith("/first-only") and self.seen > 1:
            self.close_connection = True
            return
        if self.path.startswith("/hang-up"):
            self.close_connection = True
            return
        if self.path.startswith("/nonsense"):
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
            self.close_connection = True
            return
        if self.path.startswith("/chunked"):
            self._chunks(b"one", b"two")
            return
        body = json.dumps({"path": self.path, "as": self.headers.get("Authorization")}).encode()
        self.send_response(404 if self.path.startswith("/missing") else 200)
        self.send_header("Content-Length", str(len(body) + 10 * self.path.startswith("/short")))
        self.end_headers()
        self.wfile.write(body)
        # It says that it will go on, and then does not: as a server that was silent for too long.
        self.close_connection = self.path.startswith(("/last", "/short"))

    def _chunks(self, *pieces: bytes) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x;note=1\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\nTrailer: x\r\n\r\n")

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def strange() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Strange)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_questions_are_asked_on_one_connection_and_anew_where_it_was_closed() -> None:
    with strange() as address:
        http = LoopbackHttp(address, 10)
        answer = http.request("GET", "/a", params={"filterBy": "name==a b,x"}, headers={"Authorization": "me"})
        assert answer.json() == {"path": "/a?filterBy=name%3D%3Da+b%2Cx", "as": "me"}
        for _ in range(3):
            assert http.request("GET", "/last", headers={}).status_code == 200
            assert http._line is not None
            assert select.select([http._line.socket], [], [], 30)[0], "it has hung up"
        assert http.request("GET", "/missing", headers={}).is_error
        http.close()


def test_a_question_on_a_connection_that_closes_just_now_is_asked_again_but_no_order() -> None:
    with strange() as address:
        http = LoopbackHttp(address, 10)
        assert http.request("GET", "/a", headers={}).status_code == 200
        assert http.request("GET", "/first-only", headers={}).status_code == 200, "on a new connection"
        with pytest.raises(Unreachable):
            http.request("POST", "/first-only", headers={})
        http.close()


def test_whether_a_request_may_have_been_carried_out_is_known() -> None:
    with strange() as address:
        http = LoopbackHttp(address, 10)
        with pytest.raises(Unreachable) as lost:
            http.request("GET", "/hang-up", headers={})
        assert lost.value.connected, "it may have been done"
        assert http.request("GET", "/a", headers={}).status_code == 200, "and the next question is another matter"
        http.close()
    with pytest.raises(Unreachable, match="does not answer") as lost:
        Client(address).me()
    assert not lost.value.connected


def test_an_answer_in_chunks_is_read_whole_or_piece_by_piece() -> None:
    with strange() as address:
        http = LoopbackHttp(address, 10)
        assert http.request("GET", "/chunked", headers={}).content == b"onetwo"
        with http.stream("GET", "/chunked", headers={}, silence_s=10) as answer:
            assert (answer.is_error, list(answer.pieces)) == (False, [b"one", b"two"])
        assert http.request("GET", "/a", headers={}).status_code == 200, "on the same connection"
        http.close()


@pytest.mark.parametrize(
    ("path", "headers", "reason"),
    [
        ("/short", {}, "ended too early"),
        ("/nonsense", {}, "not HTTP"),
        ("/a", {"Authorization": "Bearer a\r\nX: y"}, "control character"),
    ],
)
def test_an_answer_that_cannot_be_read_is_no_answer(path: str, headers: dict[str, str], reason: str) -> None:
    with strange() as address:
        http = LoopbackHttp(address, 10)
        with pytest.raises(Unreachable, match=reason):
            http.request("GET", path, headers=headers)
        assert http.request("GET", "/a", headers={}).status_code == 200
        http.close()


def test_an_answer_that_is_not_ours_is_told_so() -> None:
    with strange() as address, pytest.raises(Refused) as refusal:
        Client(f"{address}/missing").me()
    assert (refusal.value.status, refusal.value.problems[0].code) == (404, "wire.not_fairpool")


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("https://127.0.0.1", False),
        ("http://10.0.0.1", False),
        ("http://127.example.com", False),
    ],
)
def test_only_this_machine_is_asked_without_a_proxy(address: str, here: bool) -> None:
    assert is_here(address) is here
