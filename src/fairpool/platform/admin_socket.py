"""The admin socket: requests of commands on the same machine to the running server, one line of JSON each way.

It is in the data directory, which only the user who started the server can open, and the kernel reports the user of the
client: no other user is answered. It needs no password, because a user who can read the database needs none either.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.admin_socket")

LINE_MAX = 1 << 20
ANSWER_S = 10.0

Reply = Mapping[str, Any]
Handler = Callable[[Mapping[str, Any]], Awaitable[Reply | Problem]]


class NoAnswer(Exception):
    """No server answers on the admin socket."""


async def open_admin_socket(place: Path, handlers: Mapping[str, Handler]) -> asyncio.Server:
    """Begin to answer; a request names its handler as `ask`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_uid(writer.transport) not in (os.geteuid(), 0):
            writer.close()
            return
        try:
            question = json.loads(await asyncio.wait_for(reader.readline(), ANSWER_S))
            answer = await _answer(handlers, question)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError, TimeoutError, LookupError):
            log.debug("admin socket: the client disconnected or sent invalid JSON")
        finally:
            writer.close()

    return await asyncio.start_unix_server(serve, sock=private_socket(place), limit=LINE_MAX)


def private_socket(place: Path) -> socket.socket:
    """A Unix socket that only our own user can open."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place.unlink(missing_ok=True)
    with _short(place) as short:
        listener.bind(short)
    place.chmod(0o600)
    return listener


def peer_uid(transport: asyncio.BaseTransport) -> int:
    """The user of the process at the other end of a Unix socket, as the kernel reports it."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux: the mode of the directory has to be enough
        return os.geteuid()
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as line:
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return int(uid)


_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


async def _answer(handlers: Mapping[str, Handler], question: Mapping[str, Any]) -> Reply:
    handler = handlers.get(question["ask"])
    if handler is None:
        what = f"the server does not know the request {question['ask']!r}"
        answer: Reply | Problem = Problem(
            "admin_socket.unknown", what, "use the `fairpool` version that started the server"
        )
    else:
        answer = await handler(question)
    if isinstance(answer, Problem):
        return {"problem": {"code": answer.code, "what": answer.what, "fix": answer.fix}}
    return answer


def ask(place: Path, what: str, timeout_s: float = ANSWER_S, **details: Any) -> dict[str, Any] | Problem:
    """One request to the running server. Raises `NoAnswer`."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(timeout_s)
    with line:
        try:
            with _short(place) as short:
                line.connect(short)
            line.sendall(json.dumps({"ask": what, **details}).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = json.loads(answers.readline(LINE_MAX))
        except (OSError, ValueError) as error:
            raise NoAnswer(str(error)) from error
    problem = answer.get("problem")
    return Problem(**problem) if problem else answer


@contextmanager
def _short(place: Path) -> Iterator[str]:
    """Through a descriptor of its directory, because the address of a socket may have 107 bytes at most."""
    handle = os.open(place.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{place.name}"
    finally:
        with suppress(OSError):
            os.close(handle)
