"""HTTP requests of the server to URLs that users and administrators gave.

A name is resolved once, all its addresses are judged (`control/outbound_rules.py`), and the connection is made to one
of those addresses: a name server that changes its answer between check and connection changes nothing. Proxies named
in the environment are not used. Time and size are bounded for the request as a whole, so that a server that sends one
byte a second ends like one that sends none. Requests run in threads of their own: names are resolved by the C library,
which blocks.

    answer = await outbound.send(OutboundRequest("GET", url), rules)
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urljoin

from fairpool.control.outbound_rules import (
    Address,
    OutboundRules,
    Target,
    address_problem,
    is_allowed_redirect,
    target_of,
)
from fairpool.model.problem import Problem

THREADS: Final = 32
"""Half of them are left by webhooks, which may be slow, for identity providers and others."""
ADDRESSES_MAX: Final = 8
"""Of one name: more are not tried."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
PRIVATE_HEADERS: Final = frozenset({"authorization", "cookie"})
"""Not sent on to another origin."""


class OutboundFailed(Exception):
    """The request was not made, or not answered."""

    def __init__(self, problem: Problem, *, may_succeed_later: bool = False) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.may_succeed_later = may_succeed_later
        """Not for a URL that is refused."""


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """What to send."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            assert f"{name}{value}".isascii(), "a header is ASCII"
            assert value.isprintable(), "a header is one line"


@dataclass(frozen=True, slots=True)
class OutboundAnswer:
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    url: str
    """The last one, after redirects."""


@dataclass(frozen=True, slots=True)
class Network:
    """How names are resolved and addresses connected to; tests put a world of their own in its place."""

    resolve: Callable[[str, int], Sequence[Address]]
    connect: Callable[[Address, int, float], socket.socket]


def _resolve(host: str, port: int) -> Sequence[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


def _connect(address: Address, port: int, timeout_s: float) -> socket.socket:
    return socket.create_connection((str(address), port), timeout_s)


INTERNET: Final = Network(_resolve, _connect)


async def send(
    request: OutboundRequest, rules: OutboundRules, *, network: Network = INTERNET, ca_file: str = ""
) -> OutboundAnswer:
    """Make a request and return its answer; raises `OutboundFailed`. `ca_file`: certificates to trust besides those of
    the system."""
    deadline = _Deadline(rules.total_s)
    work = asyncio.get_running_loop().run_in_executor(_threads(), _send, request, rules, network, ca_file, deadline)
    try:
        return await asyncio.wait_for(asyncio.shield(work), deadline.left_s)
    except TimeoutError:
        deadline.expire()
        work.add_done_callback(lambda done: done.exception())  # its thread ends when the name server answers
        raise _timeout(request.url, rules) from None


def send_now(
    request: OutboundRequest, rules: OutboundRules, *, network: Network = INTERNET, ca_file: str = ""
) -> OutboundAnswer:
    """The same in the calling thread."""
    return _send(request, rules, network, ca_file, _Deadline(rules.total_s))


def check_url(url: str, rules: OutboundRules) -> Problem | None:
    """What is wrong with a URL that is to be stored. Its host is not resolved: it will be, each time it is used."""
    target = target_of(url, rules)
    return target if isinstance(target, Problem) else None


def _send(
    request: OutboundRequest, rules: OutboundRules, network: Network, ca_file: str, deadline: _Deadline
) -> OutboundAnswer:
    target = _checked(request.url, rules)
    for left in range(rules.redirects, -1, -1):
        answer = _exchange(request, target, rules, network, ca_file, deadline)
        location = answer.headers.get("location")
        if answer.status not in REDIRECTS or request.method != "GET" or location is None:
            return answer
        if left == 0:
            break
        there = _checked(urljoin(target.url, location), rules)
        if not is_allowed_redirect(target, there):
            raise _failed("outbound.redirect", f"{target.host} redirects from https to http", "use another URL")
        if there.origin != target.origin:
            kept = {name: each for name, each in request.headers.items() if name.lower() not in PRIVATE_HEADERS}
            request = replace(request, headers=kept)
        target = there
    if rules.redirects == 0:
        raise _failed("outbound.redirect", f"{target.host} answered with a redirect", "use the URL it redirects to")
    raise _failed("outbound.redirect", f"{target.host} redirects more than {rules.redirects} times", "use another URL")


def _checked(url: str, rules: OutboundRules) -> Target:
    target = target_of(url, rules)
    if isinstance(target, Problem):
        raise OutboundFailed(target)
    return target


def _exchange(
    request: OutboundRequest, target: Target, rules: OutboundRules, network: Network, ca_file: str, deadline: _Deadline
) -> OutboundAnswer:
    addresses = _addresses(target, rules, network)
    connection = _Connection(target, addresses, network, _context(ca_file), deadline)
    try:
        headers = {"Host": target.host_header, "User-Agent": "Fairpool", "Connection": "close", **request.headers}
        connection.request(request.method, target.path, request.body, {**headers, "Accept-Encoding": "identity"})
        response = connection.getresponse()
        body = response.read(rules.body_max_bytes + 1)
    except (OSError, http.client.HTTPException) as error:
        raise _broken(target, rules, error, deadline) from error
    finally:
        connection.close()
    if deadline.is_over:
        raise _timeout(target.url, rules)
    if len(body) > rules.body_max_bytes:
        raise _failed("outbound.too_large", f"{target.host} answered with too many bytes", "use another URL")
    found = {name.lower(): value for name, value in response.getheaders()}
    if found.get("content-encoding", "identity").lower() != "identity":
        raise _failed("outbound.encoded", f"{target.host} sent a compressed answer that was not asked for", "")
    return OutboundAnswer(response.status, found, body, target.url)


def _addresses(target: Target, rules: OutboundRules, network: Network) -> Sequence[Address]:
    """All addresses of a host, judged: if one is not allowed, the name is not to be trusted with the others."""
    if target.address is not None:
        return [target.address]
    try:
        found = list(dict.fromkeys(network.resolve(target.host, target.port)))
    except (OSError, UnicodeError) as error:
        raise _unknown(target) from error
    if not found:
        raise _unknown(target)
    for each in found:
        problem = address_problem(target.host, each, rules)
        if problem is not None:
            raise OutboundFailed(problem)
    return found[:ADDRESSES_MAX]


class _Deadline:
    """The end of a request's time. Its socket is shut down then, in whatever call it is."""

    def __init__(self, total_s: float) -> None:
        self._until = time.monotonic() + total_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_over = False

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self._is_over or self.left_s == 0.0

    def expire(self) -> None:
        with self._lock:
            self._is_over = True
            _shut_down(self._socket)

    def watch(self, connected: socket.socket) -> threading.Timer:
        with self._lock:
            self._socket = connected
            if self._is_over:
                _shut_down(connected)
        timer = threading.Timer(self.left_s, self.expire)
        timer.daemon = True
        timer.start()
        return timer


class _Connection(http.client.HTTPConnection):
    """A connection to one of the addresses that were judged, whatever the name means by now."""

    def __init__(
        self,
        target: Target,
        addresses: Sequence[Address],
        network: Network,
        context: ssl.SSLContext,
        deadline: _Deadline,
    ) -> None:
        super().__init__(target.host, target.port)
        self._target, self._addresses, self._network = target, addresses, network
        self._context, self._deadline = context, deadline
        self._timer: threading.Timer | None = None

    def connect(self) -> None:
        self.sock = self._connected()
        self.sock.settimeout(max(0.001, self._deadline.left_s))
        if self._target.scheme == "http":
            self._timer = self._deadline.watch(self.sock)
            return
        host = self._target.host
        secured = self._context.wrap_socket(self.sock, server_hostname=host, do_handshake_on_connect=False)
        self.sock = secured
        self._timer = self._deadline.watch(secured)
        secured.do_handshake()

    def _connected(self) -> socket.socket:
        latest: OSError = TimeoutError("no time left")
        for number, address in enumerate(self._addresses):
            share_s = self._deadline.left_s / (len(self._addresses) - number)
            if share_s <= 0.0:
                break
            try:
                return self._network.connect(address, self._target.port, share_s)
            except OSError as error:
                latest = error
        raise latest

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().close()


def _shut_down(connected: socket.socket | None) -> None:
    if connected is not None:
        with suppress(OSError):  # it is closed already
            socket.socket.shutdown(connected, socket.SHUT_RDWR)  # not TLS's, which its reader would trip over


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="outbound")


@lru_cache(maxsize=8)
def _context(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context


def _broken(target: Target, rules: OutboundRules, error: Exception, deadline: _Deadline) -> OutboundFailed:
    if deadline.is_over or isinstance(error, TimeoutError):
        return _timeout(target.url, rules)
    if isinstance(error, ssl.SSLCertVerificationError):
        what = f"the TLS certificate of {target.host} is not valid: {error.verify_message}"
        return _later("outbound.certificate", what, "use a certificate that the server's system trusts")
    if isinstance(error, http.client.HTTPException):
        return _later("outbound.not_http", f"{target.host} did not answer with HTTP", "check the URL and its port")
    return _later("outbound.unreachable", f"{target.host} cannot be reached", "check that it is running")


def _timeout(url: str, rules: OutboundRules) -> OutboundFailed:
    target = target_of(url, rules)
    host = target.host if isinstance(target, Target) else "the host"
    what = f"{host} did not answer within {rules.total_s:g} s"
    return _later("outbound.timeout", what, "check that it is running and answers in time")


def _unknown(target: Target) -> OutboundFailed:
    return _later("outbound.unknown_host", f"the host name {target.host} cannot be resolved", "check its spelling")


def _failed(code: str, what: str, fix: str) -> OutboundFailed:
    return OutboundFailed(Problem(code, what, fix))


def _later(code: str, what: str, fix: str) -> OutboundFailed:
    return OutboundFailed(Problem(code, what, fix), may_succeed_later=True)
