"""Health and readiness endpoints of a cluster: answers, and clients that send nonsense or nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket

import pytest

from fairpool.platform import health_server
from fairpool.platform.health_server import HEAD_BYTES


async def metrics(packs: bool) -> bytes:
    if packs:
        return gzip.compress(b"up 1\n")
    raise RuntimeError("a bug")


async def answers(reason: str, *requests: bytes) -> list[bytes]:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    async with health_server.health_server(listener, lambda: reason, metrics):
        said = []
        for request in requests:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request)
            said.append(await reader.read())
            writer.close()
        return said


def status(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["status"]


@pytest.mark.parametrize(
    ("reason", "request_line", "expected"),
    [
        pytest.param("", "GET /healthz", (200, "ok"), id="healthy"),
        pytest.param("", "GET /readyz", (200, "ready"), id="ready"),
        pytest.param("starting", "GET /healthz", (200, "ok"), id="healthy before it is ready"),
        pytest.param("starting", "GET /readyz?verbose", (503, "not ready"), id="not ready"),
        pytest.param("", "POST /readyz", (405, "only GET is allowed"), id="another method"),
        pytest.param("", "POST /metrics", (405, "only GET is allowed"), id="another method for metrics"),
        pytest.param("", "GET /metrics", (503, "see the log of the server"), id="a scrape that fails"),
        pytest.param("", "GET /", (404, "there are only /healthz, /readyz and /metrics here"), id="another path"),
    ],
)
def test_answers(reason: str, request_line: str, expected: tuple[int, str]) -> None:
    (said,) = asyncio.run(answers(reason, f"{request_line} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))
    assert status(said) == expected


def test_nonsense_is_given_up_and_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_server, "HEAD_S", 0.2)
    nonsense = [b"GET /readyz HTTP/1.1\r\n", b"x" * (2 * HEAD_BYTES), b"\x00\r\n\r\n"]
    *_, last = asyncio.run(answers("", *nonsense, b"GET /readyz HTTP/1.1\r\n\r\n"))
    assert status(last) == (200, "ready")


def test_a_scrape_is_compressed_for_those_who_ask() -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: deflate, gzip\r\n\r\n"
    (said,) = asyncio.run(answers("starting", request))
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert b"text/plain; version=0.0.4" in head
    assert gzip.decompress(body) == b"up 1\n"
