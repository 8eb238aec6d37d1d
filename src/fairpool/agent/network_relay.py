"""The relay of one pod's network: connections that begin in the pod's network namespace go on from the machine's.

A small process in the network of the machine. Its listening sockets are in the pod's namespace, where the kernel
redirects every connection to them (`pod_network.py`); it opens the same connection on the machine and copies bytes both
ways. Names are asked of the machine's own name servers. Addresses of the machine itself that only it should reach
(loopback) are refused, so that a pod reaches no more than another computer beside this one would. Whatever comes from
the pod is copied or dropped, never interpreted. Runs next to shims, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import struct
import time

from fairpool.agent.traffic_file import TrafficFile

CHUNK = 1 << 17
CONNECTIONS_MAX = 1000
"""Of one pod at a time; more are closed at once."""
QUESTIONS_MAX = 500
QUESTION_MAX_BYTES = 4096
"""Longer ones are dropped: programs ask for that much at most over UDP."""
QUESTION_S = 10.0
"""How long an answer to a question about a name is awaited, and how long a repeated question counts as the same."""
PAUSE_S = 1.0
"""Between two looks for old questions, and for room for connections that wait."""
DESCRIPTORS = 2 * CONNECTIONS_MAX + QUESTIONS_MAX + 64
DNS_PORT = 53
RESOLV_CONF = "/etc/resolv.conf"
ORIGINAL_DESTINATION = 80
"""The socket option of both IPv4 and IPv6 that tells where a redirected connection was meant to go."""

Place = tuple[str, int]


class Relay:
    """Copies the connections and questions of one pod."""

    def __init__(
        self, listeners: list[socket.socket], questions: list[socket.socket], traffic: TrafficFile | None = None
    ) -> None:
        self._poll, self._traffic = select.epoll(), traffic
        self._listeners = {each.fileno(): each for each in listeners}
        self._questions = {each.fileno(): each for each in questions}
        self._ends: dict[int, End] = {}
        self._asked: dict[int, Question] = {}
        self._repeated: dict[bytes, tuple[int, float]] = {}
        """How often each question was asked, and when last; the one that was repeated longest ago comes first."""
        self._tidy_at = 0.0
        self._is_full = False
        """No connection can be accepted, so that none are waited for."""
        for each in (*listeners, *questions):
            each.setblocking(False)
            self._poll.register(each, select.EPOLLIN)

    def run(self) -> None:
        while True:
            for fd, events in self._poll.poll(PAUSE_S if self._is_full or self._is_uncounted else QUESTION_S):
                try:
                    self._handle(fd, events)
                except OSError:  # of this connection alone
                    self._close(fd)
            if time.monotonic() >= self._tidy_at:  # not after each event: there may be many
                self._tidy_at = time.monotonic() + PAUSE_S
                self._forget_questions()
                self._listen_again()
                if self._traffic is not None:
                    self._traffic.write()

    @property
    def _is_uncounted(self) -> bool:
        return self._traffic is not None and not self._traffic.is_written

    def _count(self, received: int, sent: int) -> None:
        if self._traffic is not None:
            self._traffic.received += received
            self._traffic.sent += sent

    def _handle(self, fd: int, events: int) -> None:
        if fd in self._listeners:
            self._accept(self._listeners[fd])
        elif fd in self._questions:
            self._ask(self._questions[fd])
        elif fd in self._asked:
            self._answer(fd)
        elif fd in self._ends:
            self._copy(self._ends[fd], events)

    # --- connections

    def _accept(self, listener: socket.socket) -> None:
        try:
            inner, _ = listener.accept()
        except OSError as failure:
            if failure.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._stop_listening()  # epoll would report the same connection again at once
            return
        try:
            if len(self._ends) >= 2 * CONNECTIONS_MAX:
                raise OSError("too many connections")
            place = _meant(inner)
            outer = socket.socket(inner.family, socket.SOCK_STREAM)
        except OSError:
            _reset(inner)
            return
        for each in (inner, outer):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        outer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        here, there = End(inner, is_in_pod=True), End(outer)
        here.peer, there.peer = there, here
        there.is_connecting = True
        for end in (here, there):
            self._ends[end.socket.fileno()] = end
            end.interest = end.events()
            self._poll.register(end.socket, end.interest)
        error = outer.connect_ex(place)
        if error not in (0, 115):  # EINPROGRESS
            self._close(inner.fileno(), is_reset=True)

    def _copy(self, end: End, events: int) -> None:
        if end.is_connecting:
            if end.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._close(end.socket.fileno(), is_reset=True)
                return
            end.is_connecting = False
        if events & select.EPOLLERR:
            self._close(end.socket.fileno(), is_reset=True)
            return
        if events & select.EPOLLOUT and end.pending:
            _send(end)
        if events & (select.EPOLLIN | select.EPOLLHUP) and not end.peer.pending and not end.has_ended:
            self._read(end)
        if end.is_done and end.peer.is_done:
            self._close(end.socket.fileno())
            return
        for each in (end, end.peer):
            wanted = each.events()
            if wanted != each.interest:
                each.interest = wanted
                self._poll.modify(each.socket, wanted)

    def _read(self, end: End) -> None:
        try:
            data = end.socket.recv(CHUNK)
        except BlockingIOError:
            return
        if data:
            self._count(*((0, len(data)) if end.is_in_pod else (len(data), 0)))
            end.peer.pending = memoryview(data)
        else:
            end.has_ended = True
        _send(end.peer)

    def _close(self, fd: int, *, is_reset: bool = False) -> None:
        end = self._ends.get(fd)
        if end is None:
            return
        for each in (end, end.peer):
            del self._ends[each.socket.fileno()]
            self._poll.unregister(each.socket)
            if is_reset:
                _reset(each.socket)
            else:
                each.socket.close()
        self._listen_again()

    def _stop_listening(self) -> None:
        self._is_full = True
        for fd in self._listeners:
            self._poll.modify(fd, 0)

    def _listen_again(self) -> None:
        if self._is_full:
            self._is_full = False
            for fd in self._listeners:
                self._poll.modify(fd, select.EPOLLIN)

    # --- names

    def _ask(self, from_pod: socket.socket) -> None:
        """Pass a question on. One that is repeated goes to the next name server, as the machine itself would ask it."""
        try:
            data, client = from_pod.recvfrom(QUESTION_MAX_BYTES + 1)
        except OSError:
            return
        servers = name_servers()
        if not servers or len(self._asked) >= QUESTIONS_MAX or len(data) > QUESTION_MAX_BYTES:
            return
        times, _ = self._repeated.pop(data, (0, 0.0))
        if len(self._repeated) >= QUESTIONS_MAX:
            del self._repeated[next(iter(self._repeated))]
        self._repeated[data] = times + 1, time.monotonic()
        server = servers[times % len(servers)]
        outer = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            outer.setblocking(False)
            outer.connect((server, DNS_PORT))
            outer.send(data)
        except OSError:
            outer.close()
            return
        self._count(0, len(data))
        self._asked[outer.fileno()] = Question(outer, from_pod, client)
        self._poll.register(outer, select.EPOLLIN)

    def _answer(self, fd: int) -> None:
        question = self._asked.pop(fd)
        self._poll.unregister(fd)
        try:
            answer = question.outer.recv(CHUNK)
            self._count(len(answer), 0)
            question.from_pod.sendto(answer, question.client)
        except OSError:  # the name server refused it; the pod asks again
            pass
        finally:
            question.outer.close()

    def _forget_questions(self) -> None:
        before = time.monotonic() - QUESTION_S
        for fd in [fd for fd, question in self._asked.items() if question.at < before]:
            self._poll.unregister(fd)
            self._asked.pop(fd).outer.close()
        for data in [data for data, (_, at) in self._repeated.items() if at < before]:
            del self._repeated[data]


class End:
    """One side of a connection that is copied."""

    __slots__ = ("has_ended", "interest", "is_connecting", "is_in_pod", "is_shut", "peer", "pending", "socket")
    peer: End

    def __init__(self, connection: socket.socket, *, is_in_pod: bool = False) -> None:
        self.socket, self.is_in_pod = connection, is_in_pod
        self.pending: memoryview | bytes = b""
        """Read from the other side, and not yet written to this one."""
        self.has_ended = False
        """Nothing more comes from this side."""
        self.is_connecting = self.is_shut = False
        self.interest = 0
        """The events that are waited for."""

    @property
    def is_done(self) -> bool:
        return self.has_ended and not self.pending

    def events(self) -> int:
        reads = not self.has_ended and not self.peer.pending and not self.peer.is_connecting and not self.is_connecting
        wanted = (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if self.pending or self.is_connecting else 0)
        return wanted or select.EPOLLONESHOT  # the kernel reports a hang-up always, and so only once


class Question:
    """A question about a name that is not answered yet."""

    __slots__ = ("at", "client", "from_pod", "outer")

    def __init__(self, outer: socket.socket, from_pod: socket.socket, client: Place) -> None:
        self.outer, self.from_pod, self.client, self.at = outer, from_pod, client, time.monotonic()


def _send(end: End) -> None:
    """Write what is pending; the end of the other side's output follows the last of it."""
    if end.pending:
        try:
            end.pending = end.pending[end.socket.send(end.pending) :]
        except BlockingIOError:
            return
    if not end.pending and end.peer.has_ended and not end.is_shut:
        end.is_shut = True
        end.socket.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket) -> None:
    """Close it so that the other side sees an error, not an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _meant(inner: socket.socket) -> Place:
    """Where a redirected connection was meant to go. Raises OSError for places that pods may not reach."""
    if inner.family == socket.AF_INET:
        found = inner.getsockopt(socket.SOL_IP, ORIGINAL_DESTINATION, 16)
        host = socket.inet_ntop(socket.AF_INET, found[4:8])
    else:
        found = inner.getsockopt(socket.IPPROTO_IPV6, ORIGINAL_DESTINATION, 28)
        host = socket.inet_ntop(socket.AF_INET6, found[8:24])
    port = int.from_bytes(found[2:4], "big")
    if is_of_machine_alone(host) and not (port == DNS_PORT and host in name_servers()):
        raise OSError("a loopback address")
    return host, port


def is_of_machine_alone(host: str) -> bool:
    """Whether an address means the machine itself to whichever program connects to it: loopback, or unspecified."""
    if ":" not in host:
        return host.startswith(("127.", "0."))
    packed = socket.inet_pton(socket.AF_INET6, host)
    if packed[:12] == b"\0" * 10 + b"\xff\xff":
        return packed[12] in (0, 127)
    return packed[:15] == b"\0" * 15 and packed[15] in (0, 1)


def name_servers() -> list[str]:
    """The machine's name servers, as they are now."""
    try:
        with open(RESOLV_CONF, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError:
        return []
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver" and _is_address(words[1])][:3]


def _is_address(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except OSError:
        return False
    return True


def has_ipv6() -> bool:
    """Whether this machine has a route to IPv6 addresses elsewhere."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("2000::1", DNS_PORT))
        except OSError:
            return False
    return True


def allow_descriptors() -> None:
    """Let this process have as many as a relay needs, or as many as it may: the usual limit is for programs that use
    `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def close_other_descriptors(*kept: int) -> None:
    """All but these and the standard streams, which become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = max(first, fd + 1)
    os.closerange(first, 1 << 16)
