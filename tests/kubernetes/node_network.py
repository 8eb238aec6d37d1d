"""Connections into and out of the network namespaces of nodes.

A socket belongs to the namespace that it was made in, whatever process uses it. So a node reaches the API server, which
listens on loopback of the machine, through a socket of its own that this process serves; and the API server and tests
reach nodes, pods and services in the same way. Nothing else of the machine's network is used or changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CLONE_NEWNET = 0x40000000
CHUNK = 65536
CONNECT_S = 30.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def socket_of(pid: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """A new socket in the network namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)

    def made() -> socket.socket:
        with open(f"/proc/{pid}/ns/net") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return socket.socket(socket.AF_INET, kind)

    with ThreadPoolExecutor(1) as thread:  # only a thread changes its namespace, and this one ends
        return thread.submit(made).result()


def connect(pid: int, address: str, port: int, timeout_s: float = CONNECT_S) -> socket.socket:
    """As a process in that namespace would."""
    made = socket_of(pid)
    made.settimeout(timeout_s)
    try:
        made.connect((address, port))
    except BaseException:
        made.close()
        raise
    return made


class Relay:
    """Serves sockets in namespaces, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    def forward(self, pid: int, address: str, port: int, target: tuple[str, int]) -> Callable[[], None]:
        """Connections to this address, in the namespace of that process, go to a port of this machine.

        What is returned ends that, for new ones.
        """
        listener = socket_of(pid)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(100)

        async def open_target(_: Streams) -> Streams:
            return await asyncio.open_connection(*target)

        server = self._run(asyncio.start_server(self._served(open_target), sock=listener))

        def close() -> None:
            self._loop.call_soon_threadsafe(server.close)

        return close

    def serve_connect(self, path: Path, namespace: Callable[[], int]) -> None:
        """An HTTP proxy for CONNECT at this socket; it connects in the namespace of the process that is named then."""

        async def open_target(client: Streams) -> Streams:
            request = (await client[0].readuntil(b"\r\n\r\n")).decode()
            host, _, port = request.split()[1].rpartition(":")
            made = await asyncio.get_running_loop().run_in_executor(None, socket_of, namespace())
            made.setblocking(False)
            try:
                await asyncio.wait_for(asyncio.get_running_loop().sock_connect(made, (host, int(port))), CONNECT_S)
            except BaseException:
                made.close()
                raise
            client[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
            return await asyncio.open_connection(sock=made)

        self._run(asyncio.start_unix_server(self._served(open_target), path=path))

    def close(self) -> None:
        self._run(self._cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _cancel(self) -> None:
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Any) -> Any:
        async def run() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(CONNECT_S)

    def _served(
        self, open_target: Callable[[Streams], Awaitable[Streams]]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ends = (OSError, asyncio.TimeoutError, EOFError, asyncio.CancelledError)  # the last: by `close`
            with contextlib.closing(writer), contextlib.suppress(*ends):
                far_reader, far_writer = await open_target((reader, writer))
                with contextlib.closing(far_writer):
                    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

        return served


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()


def pid_in_namespace(parent: int) -> int:
    """The only child of a process that has entered other namespaces for it."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    if not children:
        raise ProcessLookupError(f"process {parent} has no child")
    return int(children[0])
