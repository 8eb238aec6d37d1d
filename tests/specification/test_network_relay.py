"""The relay of a pod's network: what it keeps of questions and connections is bounded."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from fairpool.agent import network_relay
from fairpool.agent.network_relay import QUESTION_MAX_BYTES, QUESTIONS_MAX, Relay

DEADLINE_S = 60.0
RELAY = """
import os, resource, socket, sys
from fairpool.agent import network_relay
network_relay._meant = lambda inner: ("127.0.0.1", int(sys.argv[2]))
listening = socket.socket(fileno=os.dup(int(sys.argv[1])))
os.close(int(sys.argv[1]))
relay = network_relay.Relay([listening], [])
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free + 20, free + 20))
relay.run()
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Relay, socket.socket]]:
    """A relay in a thread, and a socket by which a pod asks it. The name server repeats each question."""
    server, listening = _datagrams(), _datagrams()
    server.settimeout(DEADLINE_S)
    monkeypatch.setattr(network_relay, "DNS_PORT", server.getsockname()[1])
    monkeypatch.setattr(network_relay, "name_servers", lambda: ["127.0.0.1"])

    def answer() -> None:
        with suppress(TimeoutError):
            while True:
                server.sendto(*server.recvfrom(1 << 16))

    relay = Relay([], [listening])
    for each in (answer, relay.run):
        threading.Thread(target=each, daemon=True).start()
    with _datagrams() as pod:
        pod.settimeout(DEADLINE_S)
        pod.connect(listening.getsockname())
        yield relay, pod


def _datagrams() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind(("127.0.0.1", 0))
    return found


def test_the_number_of_questions_that_are_remembered_is_bounded(asked: tuple[Relay, socket.socket]) -> None:
    relay, pod = asked
    for number in range(QUESTIONS_MAX + 50):
        question = number.to_bytes(8, "big")
        pod.send(question)
        assert pod.recv(100) == question
    assert len(relay._repeated) == QUESTIONS_MAX


def test_a_question_that_is_longer_than_any_real_one_is_dropped(asked: tuple[Relay, socket.socket]) -> None:
    relay, pod = asked
    pod.send(b"q" * (QUESTION_MAX_BYTES + 1))
    pod.send(b"q" * 60_000)
    pod.send(b"a" * QUESTION_MAX_BYTES)
    assert pod.recv(1 << 16) == b"a" * QUESTION_MAX_BYTES
    assert list(relay._repeated) == [b"a" * QUESTION_MAX_BYTES]


def test_a_relay_without_descriptors_waits_and_serves_those_that_waited_when_others_end() -> None:
    with ExitStack() as stack:
        target = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        arguments = [str(listening.fileno()), str(target.getsockname()[1])]
        relay = subprocess.Popen([sys.executable, "-c", RELAY, *arguments], pass_fds=[listening.fileno()])
        stack.callback(relay.wait)
        stack.callback(relay.kill)
        pod = [stack.enter_context(socket.create_connection(listening.getsockname())) for _ in range(40)]
        target.settimeout(DEADLINE_S)
        stack.enter_context(closing(target.accept()[0]))
        time.sleep(1)  # in which a relay that spins uses its processor
        before_s = _cpu_s(relay.pid)
        time.sleep(1)
        assert _cpu_s(relay.pid) - before_s < 0.3
        for each in pod[:-1]:
            each.close()
        pod[-1].sendall(b"?")
        pod[-1].shutdown(socket.SHUT_WR)
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            connection = target.accept()[0]
            with connection:
                connection.settimeout(DEADLINE_S)
                if connection.recv(1):
                    return
        pytest.fail("the last connection was not served")


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_relay_may_have_as_many_descriptors_as_it_has_connections() -> None:
    code = (
        "import resource; from fairpool.agent import network_relay as relay;"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE); resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard));"
        "relay.allow_descriptors(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    needed = 2 * network_relay.CONNECTIONS_MAX + QUESTIONS_MAX
    assert int(found) > needed or int(found) == hard
