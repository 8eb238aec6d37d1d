"""Requests of the server to URLs that users gave, to real servers: a hostile name server, redirects, slow answers."""

import asyncio
import http.server
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest

from fairpool.control.outbound import INTERNET, Network, OutboundFailed, OutboundRequest, send, send_now
from fairpool.control.outbound_rules import Address, OutboundRules

PUBLIC = ip_address("93.184.215.14")
LOCAL = ip_address("127.0.0.1")
RULES = OutboundRules(schemes=frozenset({"http", "https"}), ports=None, redirects=3, total_s=20.0)

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Receiver(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.seen.append((self.command, self.path, headers, body))
                answer(self)

            do_POST = do_GET

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@contextmanager
def receiving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    server = Receiver(answer)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def text(status: int, body: bytes = b"", **headers: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


class Names:
    """A name server that gives the next answer each time, and the addresses that were connected to."""

    def __init__(self, *answers: list[Address]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.connected: list[Address] = []

    def resolve(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def connect(self, address: Address, port: int, timeout_s: float) -> socket.socket:
        """The public address is played by this machine."""
        self.connected.append(address)
        return socket.create_connection(("127.0.0.1", port), timeout_s)

    @property
    def network(self) -> Network:
        return Network(self.resolve, self.connect)


def refusal(request: OutboundRequest, rules: OutboundRules, network: Network = INTERNET) -> OutboundFailed:
    with pytest.raises(OutboundFailed) as caught:
        send_now(request, rules, network=network)
    return caught.value


def test_a_request_arrives_as_it_was_made_and_its_answer_comes_back() -> None:
    with receiving(text(201, b"thanks", X_Id="7")) as server:
        names = Names([PUBLIC])
        request = OutboundRequest(
            "POST", f"http://hooks.example.com:{server.port}/a?b=c", {"Content-Type": "text/plain"}, b"hello"
        )
        answer = asyncio.run(send(request, RULES, network=names.network))
        assert (answer.status, answer.body, answer.headers["x-id"]) == (201, b"thanks", "7")
        ((method, path, headers, body),) = server.seen
        assert (method, path, body) == ("POST", "/a?b=c", b"hello")
        assert headers["host"] == f"hooks.example.com:{server.port}"
        assert names.connected == [PUBLIC]


def test_a_name_that_means_another_address_the_second_time_is_not_asked_a_second_time() -> None:
    with receiving(text(200)) as server:
        names = Names([PUBLIC], [LOCAL])
        send_now(OutboundRequest("GET", f"http://rebinding.example:{server.port}/"), RULES, network=names.network)
        assert names.asked == ["rebinding.example"]
        assert names.connected == [PUBLIC]
        # The next request asks again, gets the other answer, and goes nowhere.
        problem = refusal(
            OutboundRequest("GET", f"http://rebinding.example:{server.port}/"), RULES, names.network
        ).problem
        assert problem.code == "outbound.address"
        assert (names.connected, len(server.seen)) == ([PUBLIC], 1)


@pytest.mark.parametrize("order", [[PUBLIC, LOCAL], [LOCAL, PUBLIC]], ids=["public first", "loopback first"])
def test_a_name_with_one_forbidden_address_is_not_connected_to(order: list[Address]) -> None:
    names = Names(order)
    assert refusal(OutboundRequest("GET", "http://mixed.example/"), RULES, names.network).problem.code == (
        "outbound.address"
    )
    assert names.connected == []


def test_the_real_resolver_and_a_real_loopback_name() -> None:
    with receiving(text(200)) as server:
        failed = refusal(OutboundRequest("GET", f"http://localhost:{server.port}/"), RULES)
        assert failed.problem.code == "outbound.address"
        assert not failed.may_succeed_later
        assert server.seen == []
        inside = OutboundRules(schemes=RULES.schemes, ports=None, loopback=True)
        assert send_now(OutboundRequest("GET", f"http://localhost:{server.port}/"), inside).status == 200


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "//[::1]/",
        "http://user:secret@hooks.example.com/",
        "http://2130706433/",
    ],
)
def test_a_redirect_is_checked_like_the_first_url(location: str) -> None:
    with receiving(text(302, Location=location)) as server:
        names = Names([PUBLIC])
        url = f"http://hooks.example.com:{server.port}/"
        failed = refusal(OutboundRequest("GET", url), RULES, names.network)
        assert failed.problem.code in ("outbound.url", "outbound.address")
        assert names.connected == [PUBLIC]


def test_a_redirect_to_a_name_inside_is_not_followed() -> None:
    with receiving(text(307, Location="http://inside.example/")) as server:
        names = Names([PUBLIC], [ip_address("10.0.0.1")])
        failed = refusal(OutboundRequest("GET", f"http://out.example:{server.port}/"), RULES, names.network)
        assert (failed.problem.code, names.asked) == ("outbound.address", ["out.example", "inside.example"])


def test_redirects_are_followed_a_few_times_and_keep_no_authorization_for_another_host() -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        assert isinstance(handler.server, Receiver)
        port = handler.server.port
        if handler.path == "/first":
            text(302, Location=f"http://other.example:{port}/second")(handler)
        else:
            text(200, b"there")(handler)

    with receiving(answer) as server:
        request = OutboundRequest("GET", f"http://one.example:{server.port}/first", {"Authorization": "Bearer x"})
        found = send_now(request, RULES, network=Names([PUBLIC]).network)
        assert (found.body, found.url) == (b"there", f"http://other.example:{server.port}/second")
        assert ["authorization" in headers for _, _, headers, _ in server.seen] == [True, False]


def test_redirects_are_bounded_and_a_post_follows_none() -> None:
    with receiving(text(302, Location="/again")) as server:
        url, network = f"http://one.example:{server.port}/", Names([PUBLIC]).network
        assert refusal(OutboundRequest("GET", url), RULES, network).problem.code == "outbound.redirect"
        assert len(server.seen) == 4
        assert send_now(OutboundRequest("POST", url, body=b"x"), RULES, network=network).status == 302
        assert len(server.seen) == 5


def test_an_answer_without_end_is_cut_off() -> None:
    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            return

    with receiving(endless) as server:
        rules = OutboundRules(schemes=RULES.schemes, ports=None, body_max_bytes=100_000)
        failed = refusal(OutboundRequest("GET", f"http://big.example:{server.port}/"), rules, Names([PUBLIC]).network)
        assert failed.problem.code == "outbound.too_large"


def test_a_compressed_answer_is_not_taken() -> None:
    with receiving(text(200, b"\x1f\x8b", Content_Encoding="gzip")) as server:
        failed = refusal(OutboundRequest("GET", f"http://z.example:{server.port}/"), RULES, Names([PUBLIC]).network)
        assert failed.problem.code == "outbound.encoded"


@pytest.mark.slow
def test_a_server_that_drips_is_given_up_after_the_whole_time() -> None:
    stop = threading.Event()

    def dripping(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
        try:
            while not stop.wait(0.05):
                handler.wfile.write(b"x")
        except OSError:
            return

    rules = OutboundRules(schemes=RULES.schemes, ports=None, total_s=0.5)
    with receiving(dripping) as server:
        url, network = f"http://slow.example:{server.port}/", Names([PUBLIC]).network
        failed = refusal(OutboundRequest("GET", url), rules, network)
        assert (failed.problem.code, failed.may_succeed_later) == ("outbound.timeout", True)
        with pytest.raises(OutboundFailed, match="did not answer within"):
            asyncio.run(send(OutboundRequest("GET", url), rules, network=network))
        stop.set()


@pytest.mark.slow
def test_a_name_server_that_does_not_answer_is_given_up() -> None:
    release = threading.Event()

    def resolve(host: str, port: int) -> list[Address]:
        release.wait(30)
        return [PUBLIC]

    async def attempt() -> None:
        rules = OutboundRules(total_s=0.3)
        await send(OutboundRequest("GET", "https://slow.example/"), rules, network=Network(resolve, INTERNET.connect))

    with pytest.raises(OutboundFailed, match=r"slow\.example did not answer within 0\.3 s"):
        asyncio.run(attempt())
    release.set()


def test_what_is_not_reachable_may_be_later() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://down.example:{unused.getsockname()[1]}/"
        failed = refusal(OutboundRequest("GET", url), RULES, Names([PUBLIC]).network)
    assert (failed.problem.code, failed.may_succeed_later) == ("outbound.unreachable", True)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with receiving(text(200)) as server:
        url = f"http://direct.example:{server.port}/"
        assert send_now(OutboundRequest("GET", url), RULES, network=Names([PUBLIC]).network).status == 200


@pytest.mark.slow
def test_tls_checks_the_name_although_the_connection_goes_to_an_address(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    name = ["-subj", "/CN=hooks.example.com", "-addext", "subjectAltName=DNS:hooks.example.com"]
    command = [*new, *name, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with receiving(text(200, b"secured"), context) as server:
        network, trusted = Names([PUBLIC]).network, str(certificate)
        request = OutboundRequest("GET", f"https://hooks.example.com:{server.port}/")
        assert send_now(request, RULES, network=network, ca_file=trusted).body == b"secured"
        assert refusal(request, RULES, network).problem.code == "outbound.certificate"
        other = OutboundRequest("GET", f"https://other.example:{server.port}/")
        with pytest.raises(OutboundFailed, match=r"certificate of other\.example is not valid"):
            send_now(other, RULES, network=network, ca_file=trusted)
