"""What the gateway passes on, what it refuses, and what it never lets through."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import time

import pytest

from fairpool.gateway import proxy
from tests.gateway_harness import (
    GOOD,
    NO_DATABASE,
    OTHER,
    TOKEN,
    TOOL,
    Answer,
    gateway_to,
    read_all,
    read_head,
    says,
    until,
)

BOTH = pytest.mark.parametrize("through_tunnel", [False, True], ids=["one machine", "through a tunnel"])


@BOTH
def test_a_request_reaches_the_pod_as_it_was_sent(through_tunnel: bool) -> None:
    with gateway_to(says("hello", "Content-Type: text/x", "X-A: 1", "X-A: 2"), through_tunnel=through_tunnel) as it:
        door, pod = it
        answer = door.get("/a/../b%2F..//c?x=%20&y", "X-B: one", "X-B: two", "Accept-Encoding: br")
        assert (answer.status, answer.body) == (200, b"hello")
        assert (answer.one("content-type"), answer.all("x-a")) == ("text/x", ["1", "2"])
        assert "server" not in dict(answer.fields), "the names of our libraries are not shown"
        assert pod.heads[0].startswith(b"GET /a/../b%2F..//c?x=%20&y HTTP/1.1\r\n")
        fields = pod.fields()
        assert [value for name, value in fields if name == "x-b"] == ["one", "two"]
        assert dict(fields)["host"] == door.host()
        assert dict(fields)["x-forwarded-host"] == door.host()
        assert dict(fields)["accept-encoding"] == "br"
        assert "user-agent" not in dict(fields)


@BOTH
def test_bodies_of_any_size_are_streamed_both_ways(through_tunnel: bool) -> None:
    size = 20 * 1024 * 1024

    def echo(connection: socket.socket, head: bytes) -> None:
        seen, digest = len(head.partition(b"\r\n\r\n")[2]), hashlib.sha256(head.partition(b"\r\n\r\n")[2])
        while seen < size:
            piece = connection.recv(1 << 20)
            seen += len(piece)
            digest.update(piece)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        connection.sendall(digest.hexdigest().encode() + b"x" * size)
        connection.close()

    with gateway_to(echo, through_tunnel=through_tunnel) as (door, _):
        body = bytes(range(256)) * (size // 256)
        answer = Answer(door.raw(door.head("POST /u HTTP/1.1", f"Content-Length: {size}", "Connection: close") + body))
        assert answer.one("transfer-encoding") == "chunked"
        assert hashlib.sha256(body).hexdigest().encode() in answer.body[:80]
        assert answer.body.count(b"x") == size


def test_an_answer_arrives_piece_by_piece() -> None:
    def slowly(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        time.sleep(0.2)
        connection.sendall(b"data: 1\n\n")
        connection.recv(1)  # until the test closes

    with gateway_to(slowly) as (door, _), door.connect() as connection:
        connection.sendall(door.head())
        head = read_head(connection)
        assert b"text/event-stream" in head
        while b"data: 1" not in head:
            head += connection.recv(65536)


def test_what_was_cut_off_is_not_taken_for_the_whole() -> None:
    def breaks_off(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        connection.close()

    with gateway_to(breaks_off) as (door, _):
        assert not door.raw(door.head()).endswith(b"0\r\n\r\n")


def test_one_connection_to_the_pod_carries_many_requests() -> None:
    with gateway_to(says()) as (door, pod), door.connect() as connection:
        for _ in range(5):
            connection.sendall(door.head())
            assert b"hello" in read_head(connection)
        assert len(pod.heads) == 5
        assert door.access.connections == 1


def test_a_connection_that_the_pod_has_closed_is_replaced() -> None:
    def once(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        connection.close()

    with gateway_to(once) as (door, _):
        assert [door.get().status for _ in range(4)] == [200] * 4


# --- WebSockets ----------------------------------------------------------------------------------------------


def websocket_echo(connection: socket.socket, head: bytes) -> None:
    key = re.search(rb"Sec-WebSocket-Key: (\S+)", head, re.I)
    assert key is not None
    accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Accept: {accept}", "Sec-WebSocket-Protocol: v1.kernel", "Set-Cookie: a=b", "", ""]
    connection.sendall("\r\n".join(lines).encode() + b"early")
    while data := connection.recv(65536):
        connection.sendall(data)


UPGRADE = ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


@BOTH
def test_a_websocket_is_copied_byte_by_byte(through_tunnel: bool) -> None:
    with gateway_to(websocket_echo, through_tunnel=through_tunnel) as (door, pod), door.connect() as connection:
        connection.sendall(door.head("GET /ws HTTP/1.1", *UPGRADE, KEY, f"Origin: http://{door.host()}") + b"first")
        data = read_head(connection)
        while not data.endswith(b"earlyfirst"):
            data += connection.recv(65536)
        answer = Answer(data)
        assert answer.status == 101
        assert answer.one("sec-websocket-accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert answer.one("sec-websocket-protocol") == "v1.kernel"
        assert dict(pod.fields())["upgrade"] == "websocket"
        big = bytes(range(256)) * 40_000
        sender = socket.socket.dup(connection)
        received = b""
        with sender:
            view = memoryview(big)
            while len(received) < len(big):
                if view:
                    view = view[sender.send(view[:65536]) :]
                received += connection.recv(65536)
        assert received == big
        connection.shutdown(socket.SHUT_WR)


def test_a_websocket_of_a_foreign_page_is_refused() -> None:
    with gateway_to(websocket_echo) as (door, pod):
        for origin in (f"http://{door.host(OTHER)}", "https://evil.example", "null", f"https://{door.host()}"):
            answer = Answer(door.raw(door.head("GET /ws HTTP/1.1", *UPGRADE, KEY, f"Origin: {origin}")))
            assert answer.status == 403, origin
        assert pod.heads == []


def test_after_a_refused_upgrade_the_connection_is_not_used_again() -> None:
    smuggled = b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n"
    with gateway_to(says("no", status="400 Bad Request")) as (door, pod):
        answer = door.raw(door.head("GET /ws HTTP/1.1", *UPGRADE, KEY) + smuggled)
        assert answer.count(b"HTTP/1.") == 1
        assert len(pod.heads) == 1
        assert b"second" not in pod.heads[0].partition(b"\r\n\r\n")[0]


def test_other_protocols_are_not_upgraded_to() -> None:
    with gateway_to(says()) as (door, pod):
        assert door.get("/", "Upgrade: h2c", "HTTP2-Settings: AAA").status == 200
        assert "upgrade" not in dict(pod.fields())


@BOTH
@pytest.mark.parametrize("lines", [(), ("Connection: Upgrade", "Upgrade: h2c")], ids=["none", "another"])
def test_an_upgrade_that_was_not_asked_for_is_an_error_of_the_pod(through_tunnel: bool, lines: tuple[str, ...]) -> None:
    later: list[bytes] = []

    def upgrades(connection: socket.socket, _: bytes) -> None:
        head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        connection.sendall(head + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        later.append(connection.recv(65536))

    with gateway_to(upgrades, through_tunnel=through_tunnel) as (door, pod):
        data = door.raw(door.head("GET / HTTP/1.1", *lines) + door.head("GET /second HTTP/1.1"))
        assert Answer(data).status == 502
        assert json.loads(Answer(data).body)["problems"][0]["code"] == "gateway.answer"
        assert data.count(b"HTTP/1.") == 1, "the connection is closed"
        until(lambda: later, "the pod's connection ends")
        assert later == [b""]
        assert len(pod.heads) == 1


# --- what is not passed on -----------------------------------------------------------------------------------


def test_cookies_and_tokens_of_the_platform_do_not_reach_the_pod() -> None:
    with gateway_to(says()) as (door, pod):
        assert (
            door.get("/", "Cookie: fairpool_session=fpa_x; mine=1; __Host-fairpool_tool=fpg_y", cookie="").status == 401
        )
        assert (
            door.get("/", "Cookie: mine=1; fairpool_session=x; theirs=a=b", "Cookie: fairpool_browser=z").status == 200
        )
        assert [value for name, value in pod.fields() if name == "cookie"] == ["mine=1; theirs=a=b"]
        assert door.get("/", f"Authorization: Bearer {TOKEN}", cookie="").status == 200
        assert "authorization" not in dict(pod.fields())
        assert door.get("/", "Authorization: token of-the-tool").status == 200
        assert dict(pod.fields())["authorization"] == "token of-the-tool"
        sent = b"".join(pod.heads)
        assert not re.search(rb"fp[a-z]_|fairpool_", sent)


def test_a_pod_sets_no_cookies_of_the_platform_and_none_for_other_hosts() -> None:
    cookies = (
        "Set-Cookie: fairpool_tool=fpg_theirs; Path=/",
        "Set-Cookie: __Host-fairpool_browser=x; Secure",
        "Set-Cookie: mine=1; Domain=localhost; Path=/; HttpOnly",
        "Alt-Svc: h3=evil.example",
    )
    with gateway_to(says("", *cookies)) as (door, _):
        answer = door.get()
        assert answer.all("set-cookie") == ["mine=1; Path=/; HttpOnly"]
        assert answer.all("alt-svc") == []


def test_fields_about_one_connection_are_not_passed_on() -> None:
    with gateway_to(says("hello", "Connection: X-Gone", "X-Gone: 1", "Keep-Alive: timeout=5", "X-Kept: 1")) as (
        door,
        pod,
    ):
        lines = (
            "Connection: close, X-Mine, Host",
            "X-Mine: 1",
            "TE: trailers",
            "Proxy-Authorization: x",
            "Keep-Alive: 9",
        )
        head = door.head("GET / HTTP/1.1", *lines, "X-Forwarded-For: 9.9.9.9", "Forwarded: for=9.9.9.9")
        answer = Answer(door.raw(head))
        assert answer.status == 200
        assert (answer.all("x-gone"), answer.all("keep-alive"), answer.all("x-kept")) == ([], [], ["1"])
        fields = dict(pod.fields())
        assert not {"x-mine", "te", "proxy-authorization", "keep-alive", "forwarded"} & set(fields)
        assert fields["host"] == door.host()
        assert fields["x-forwarded-for"] == "127.0.0.1"


# --- hostile requests ------------------------------------------------------------------------------------------

SMUGGLING = {
    "two lengths": ("Content-Length: 5", "Content-Length: 6"),
    "length and chunks": ("Content-Length: 5", "Transfer-Encoding: chunked"),
    "chunks, not last": ("Transfer-Encoding: chunked, identity",),
    "another name for chunks": ("Transfer-Encoding: xchunked",),
    "a space before the colon": ("Transfer-Encoding : chunked",),
    "a negative length": ("Content-Length: -1",),
    "a length with a sign": ("Content-Length: +5",),
    "a folded field": ("X: a", " Transfer-Encoding: chunked"),
    "a bare line feed": ("X: a\nTransfer-Encoding: chunked",),
    "a null": ("X: a\0b",),
    "two hosts": ("Host: other-8888.localhost",),
}


@pytest.mark.parametrize("lines", SMUGGLING.values(), ids=SMUGGLING)
def test_a_request_with_two_readings_is_refused(lines: tuple[str, ...]) -> None:
    with gateway_to(says()) as (door, pod):
        tail = b"0\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = door.raw(door.head("POST / HTTP/1.1", *lines) + tail)
        assert Answer(answer).status == 400, answer
        assert answer.count(b"HTTP/1.") == 1
        assert b"aiohttp" not in answer
        assert pod.heads == []


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:1/", "*", "//\x80", "/a#b", "/a b", "tool", "/\u00e9"], ids=lambda each: ascii(each)
)
def test_a_target_that_is_not_a_plain_path_is_refused(target: str) -> None:
    with gateway_to(says()) as (door, pod):
        answer = door.raw(door.head(f"GET {target} HTTP/1.1", "Connection: close"))
        assert Answer(answer).status == 400
        assert pod.heads == []


def test_huge_heads_are_refused() -> None:
    with gateway_to(says()) as (door, pod):
        assert door.get("/" + "a" * 70_000).status == 400
        assert door.get("/", f"X: {'a' * 70_000}").status == 400
        assert door.get("/", *(f"X-{number}: 1" for number in range(300))).status == 400
        assert pod.heads == []
        assert door.get("/", f"X: {'a' * 20_000}").status == 200


def test_a_huge_or_invalid_answer_of_a_pod_is_an_error_of_the_pod() -> None:
    for answer in (f"HTTP/1.1 200 OK\r\nX: {'a' * 70_000}\r\n\r\n", "what?\r\n\r\n", "HTTP/1.1 200 OK\r\nA B\r\n\r\n"):
        with gateway_to(lambda connection, _, text=answer: connection.sendall(text.encode())) as (door, _):  # type: ignore[misc]
            assert door.get().status == 502


def test_names_that_are_not_the_gateways_are_refused() -> None:
    with gateway_to(says()) as (door, pod):
        for host in ("evil.example", "a.b.localhost", "tool-8888.localhost.evil.example", ".localhost", ""):
            answer = door.raw(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            assert Answer(answer).status in (400, 421), host
        assert pod.heads == []


def test_a_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "SLOW_S", 0.2)
    with gateway_to(lambda *_: None) as (door, _), door.connect() as connection:
        connection.sendall(door.head("POST / HTTP/1.1", "Content-Length: 10") + b"abc")
        assert Answer(read_all(connection)).status in (408, 502)


def test_a_slow_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairpool.gateway import aio

    monkeypatch.setattr(aio, "KEEP_ALIVE_S", 0.3)
    with gateway_to(says()) as (door, pod), door.connect() as connection:
        connection.sendall(door.head()[:-3])
        assert read_all(connection) == b""
        assert pod.heads == []


def test_grpc_is_refused_by_name() -> None:
    with gateway_to(says()) as (door, pod):
        answer = door.get("/", "Content-Type: application/grpc+proto", method="POST")
        assert (answer.status, json.loads(answer.body)["problems"][0]["code"]) == (501, "gateway.grpc")
        assert pod.heads == []


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    def reads(connection: socket.socket, head: bytes) -> None:
        body = head.partition(b"\r\n\r\n")[2]
        while len(body) < 5:
            body += connection.recv(100)
        says(body.decode())(connection, b"")

    with gateway_to(reads) as (door, pod), door.connect() as connection:
        connection.sendall(
            door.head("PUT /x HTTP/1.1", "Content-Length: 5", "Expect: 100-continue", "Connection: close")
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"12345")
        assert Answer(read_all(connection)).body == b"12345"
        assert "expect" not in dict(pod.fields())


# --- who gets in ---------------------------------------------------------------------------------------------


def test_a_program_without_a_token_is_refused_and_a_browser_is_sent_to_sign_in() -> None:
    with gateway_to(says()) as (door, pod):
        answer = door.get("/", cookie="")
        assert (answer.status, answer.one("www-authenticate")) == (401, "Bearer")
        assert json.loads(answer.body)["problems"][0]["code"] == "access.not_signed_in"
        page = door.get("/lab?x=1", "Accept: text/html,*/*", "Sec-Fetch-Mode: navigate", cookie="")
        secret = re.fullmatch(
            r"fairpool_browser=([\w-]{43}); HttpOnly; Max-Age=600; Path=/; SameSite=Lax", page.one("set-cookie")
        )
        assert secret is not None
        hashed = hashlib.sha256(secret[1].encode()).hexdigest()
        assert page.one("location") == f"http://control/open?origin={TOOL}&browser={hashed}&path=/lab?x=1"
        assert page.one("referrer-policy") == "no-referrer"
        assert pod.heads == []


def test_a_ticket_becomes_a_cookie_of_this_origin_and_browser() -> None:
    with gateway_to(says()) as (door, pod):
        cookie = "Cookie: fairpool_browser=secret"
        answer = door.get("/.fairpool/enter?ticket=ticket&path=/lab", cookie, cookie="")
        assert (answer.status, answer.one("location")) == (303, "/lab")
        assert answer.one("set-cookie") == f"fairpool_tool={GOOD}; HttpOnly; Path=/; SameSite=Lax"
        assert door.access.entered == [(TOOL, "ticket", (hashlib.sha256(b"secret").hexdigest(),))]
        assert door.get("/.fairpool/enter?ticket=used", cookie, cookie="").status == 403
        assert door.get("/.fairpool/enter?ticket=ticket", cookie="").status == 403, "no browser, no session"
        for path in ("//evil.example", "/\\evil.example", "https://evil.example", "/%0d%0aX:1"):
            assert door.get(f"/.fairpool/enter?ticket=ticket&path={path}", cookie, cookie="").one("location") == "/"
        assert door.get("/.fairpool/other").status == 404
        assert pod.heads == []


def test_a_browser_with_several_cookies_shows_its_ticket_once() -> None:
    with gateway_to(says()) as (door, _):
        cookies = "; ".join(f"fairpool_browser=secret-{number}" for number in range(6))
        assert door.get("/.fairpool/enter?ticket=ticket", f"Cookie: {cookies}", cookie="").status == 303
        hashes = tuple(hashlib.sha256(f"secret-{number}".encode()).hexdigest() for number in range(4))
        assert door.access.entered == [(TOOL, "ticket", hashes)]


def test_with_tls_the_browser_guards_the_cookies() -> None:
    with gateway_to(says(), secure=True) as (door, _):
        cookie = "Cookie: __Host-fairpool_browser=secret"
        answer = door.get("/.fairpool/enter?ticket=ticket", cookie, cookie="")
        assert answer.one("set-cookie") == f"__Host-fairpool_tool={GOOD}; HttpOnly; Path=/; SameSite=Lax; Secure"
        assert door.get("/", cookie=GOOD).status == 401, "the name without the prefix could be set by any host below"


FOREIGN = {
    "a form elsewhere": ("POST", "Origin: https://evil.example"),
    "another tool under the same domain": ("POST", "Origin: http://other-8888.localhost"),
    "a script of another tool": (
        "GET",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Mode: no-cors",
        "Sec-Fetch-Dest: empty",
    ),
    "a frame": ("GET", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
    "a form without a referrer": ("POST", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"),
    "an image": ("GET", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"),
}


@pytest.mark.parametrize("lines", FOREIGN.values(), ids=FOREIGN)
def test_a_page_of_another_origin_cannot_drive_the_tool(lines: tuple[str, ...]) -> None:
    method, *headers = lines
    with gateway_to(says()) as (door, pod):
        assert door.get("/", *headers, method=method).status == 403
        assert pod.heads == []


def test_links_and_the_tools_own_pages_work() -> None:
    with gateway_to(says()) as (door, _):
        navigation = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
        assert door.get("/", *navigation).status == 200
        assert (
            door.get("/", f"Origin: http://{door.host()}", "Sec-Fetch-Site: same-origin", method="POST").status == 200
        )
        assert door.get("/", "Origin: null", "Sec-Fetch-Site: same-origin", method="POST").status == 200


def test_documented_paths_lead_elsewhere_and_show_nothing() -> None:
    with gateway_to(says()) as (door, pod):
        answer = Answer(
            door.raw(f"GET /job-8888/lab HTTP/1.1\r\nHost: localhost:{door.port}\r\nConnection: close\r\n\r\n".encode())
        )
        assert (answer.status, answer.one("location")) == (302, "http://control/open?tool=/job-8888/lab")
        head = (
            f"GET /job-8888 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        )
        answer = Answer(door.raw(head.encode()))
        assert (answer.status, answer.one("location")) == (307, "http://tool-8888.localhost/")
        assert pod.heads == []


def test_a_tool_that_does_not_listen_is_said() -> None:
    with gateway_to(says()) as (door, pod):
        pod.close()
        door.access.ports[TOOL] = 1
        answer = door.get()
        assert (answer.status, json.loads(answer.body)["problems"][0]["code"]) == (503, "pod.port_closed")
        assert door.get("/", "Accept: text/html").body.startswith(b"<!doctype html>")


# --- permissions that end ------------------------------------------------------------------------------------


def test_open_sockets_and_streams_end_with_the_permission() -> None:
    def answers(connection: socket.socket, head: bytes) -> None:
        if b"Upgrade: websocket" in head:
            websocket_echo(connection, head)
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\ndata")
            connection.recv(1)

    with (
        gateway_to(answers) as (door, _),
        door.connect() as stream,
        door.connect() as websocket,
        door.connect() as kept,
    ):
        websocket.sendall(door.head("GET /ws HTTP/1.1", *UPGRADE, KEY))
        stream.sendall(door.head())
        kept.sendall(door.head(cookie=TOKEN))
        for each in (websocket, stream, kept):
            assert read_head(each)
        door.access.good.discard(GOOD)
        read_all(websocket)
        read_all(stream)
        assert door.get().status == 401
        kept.settimeout(0.3)
        with pytest.raises(TimeoutError):
            read_all(kept)


@pytest.mark.parametrize("failure", [NO_DATABASE, ValueError("a bug")], ids=["database", "bug"])
def test_after_an_error_of_the_control_plane_permissions_still_end(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(proxy, "RETRY_S", 0.05)
    with gateway_to(websocket_echo) as (door, _), door.connect() as websocket:
        websocket.sendall(door.head("GET /ws HTTP/1.1", *UPGRADE, KEY))
        assert read_head(websocket)
        door.access.failure = failure
        until(lambda: door.access.failures >= 3, "the watcher has failed several times")
        assert caplog.text.count("cannot end revoked connections now") == 1, "said once, not at each attempt"
        door.access.good.discard(GOOD)
        door.access.failure = None
        read_all(websocket)


def test_while_the_database_fails_requests_are_answered_with_its_problem() -> None:
    with gateway_to(says()) as (door, pod):
        door.access.failure = NO_DATABASE
        answer = door.get()
        assert (answer.status, json.loads(answer.body)["problems"][0]["code"]) == (503, "database.busy")
        assert pod.heads == []
        door.access.failure = None
        assert door.get().status == 200


def test_a_pod_is_told_when_the_client_leaves() -> None:
    ended: list[bytes] = []

    def waits(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\ndata")
        ended.append(connection.recv(1))

    with gateway_to(waits) as (door, _):
        with door.connect() as connection:
            connection.sendall(door.head())
            read_head(connection)
        until(lambda: ended == [b""], "the pod sees the end")
