"""What listens on a port of this machine: a client sends no token to a program of a job."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import ControlPlaneUnreachable
from fairpool.api.listener import job_user, peer_user
from fairpool.api.loopback import JobListens, LoopbackHttp, job_at
from fairpool.model.ids import PROJECT_UIDS

POD = PROJECT_UIDS[7]
HOSTS = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "::1", "::": "127.0.0.1"}
"""Where a program listens, and where it is reached."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")


@contextmanager
def listening(host: str, uid: int) -> Iterator[socket.socket]:
    """A socket that this user has opened."""
    os.seteuid(uid)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
        except OSError:
            pytest.skip(f"this machine has no {host}")
    finally:
        os.seteuid(os.getuid())
    listener.settimeout(10)
    with listener:
        yield listener


@needs_root
@pytest.mark.parametrize("host", HOSTS)
def test_the_user_that_listens_at_the_other_end_is_known(host: str) -> None:
    with (
        listening(host, POD) as listener,
        socket.create_connection((HOSTS[host], listener.getsockname()[1])) as connection,
    ):
        assert job_user(connection) == POD
        accepted, _ = listener.accept()
        with accepted:
            assert job_user(connection) == POD


@needs_root
def test_a_program_that_stops_to_listen_once_it_has_accepted_is_known_too() -> None:
    with listening("127.0.0.1", POD) as listener, socket.create_connection(listener.getsockname()) as connection:
        os.seteuid(POD)
        try:
            accepted, _ = listener.accept()
        finally:
            os.seteuid(os.getuid())
        listener.close()
        with accepted:
            assert job_user(connection) == POD


@pytest.mark.parametrize("host", HOSTS)
def test_programs_of_the_caller_may_be_sent_tokens(host: str) -> None:
    with (
        listening(host, os.getuid()) as listener,
        socket.create_connection((HOSTS[host], listener.getsockname()[1])) as connection,
    ):
        assert peer_user(connection) == os.getuid()
        assert job_user(connection) is None


@needs_root
def test_a_pod_at_the_port_of_the_server_is_sent_nothing() -> None:
    with listening("127.0.0.1", POD) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        token = {"Authorization": "Bearer secret"}
        http = LoopbackHttp(address, 10)
        with pytest.raises(JobListens, match=f"user {POD}"):
            http.request("POST", "/api/v1/token", content=b"password", headers=token)
        with pytest.raises(JobListens), http.stream("GET", "/log", headers=token, silence_s=1):
            pass
        with pytest.raises(JobListens), http.websocket("/shell", params=(), headers=token, message_max=1):
            pass
        with pytest.raises(ControlPlaneUnreachable, match=f"user {POD}"):
            ClusterClient(address, "secret").join("here")
        assert job_at(address) == POD
        for _ in range(5):
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(10)
                assert accepted.recv(100) == b""
