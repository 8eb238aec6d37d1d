"""Streams of a pod: logs, exec, attach and port-forward, through the API server.

exec and attach speak the channel protocol of WebSockets: the first byte of a message says which stream it belongs to.
Version 5 can close the input of a program, version 4 cannot. Port-forward has one connection to a port per WebSocket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import urlencode

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient, Query
from fairpool.engines.kubernetes.failures import KubernetesError, StreamFailed
from fairpool.engines.kubernetes.http import Socket
from fairpool.engines.kubernetes.resources import PODS

WITH_CLOSE = "v5.channel.k8s.io"
WITHOUT_CLOSE = "v4.channel.k8s.io"
PART_BYTES = 1 << 15
"""Of one message; the kubelet reads messages whole."""
CLOSE = 255
"""The channel that closes another one, in version 5."""
PORT_BYTES = 2
"""The first message of each channel of a port-forward is the port."""


class StreamChannel(IntEnum):
    """Streams of a program."""

    INPUT = 0
    OUTPUT = 1
    ERRORS = 2
    STATUS = 3
    RESIZE = 4


# --- logs -------------------------------------------------------------------------------------------------------------


async def read_logs(
    client: KubernetesClient,
    pod: str,
    *,
    namespace: str,
    container: str = "",
    follow: bool = False,
    tail_lines: int | None = None,
    since_s: int | None = None,
    since: str = "",
    previous: bool = False,
    timestamps: bool = False,
    limit_bytes: int | None = None,
) -> AsyncIterator[bytes]:
    """The log of a container in parts; with `follow` until the container has ended.

    `since` is a time in RFC 3339. Raises `Refused` with status 400 while the container has not been started.
    """
    query: Query = {
        "container": container,
        "follow": follow,
        "tailLines": None if tail_lines is None else str(tail_lines),
        "sinceSeconds": None if since_s is None else str(max(1, since_s)),
        "sinceTime": since,
        "previous": previous,
        "timestamps": timestamps,
        "limitBytes": limit_bytes,
    }
    call = f"read the log of pod {namespace}/{pod}"
    async with client.stream(call, PODS.path(namespace, pod, "log"), query) as parts:
        async for part in parts:
            yield part


# --- programs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended."""

    exit_code: int | None
    """None: it could not be run, or the connection was lost first."""
    message: str = ""


async def open_exec(
    client: KubernetesClient,
    pod: str,
    command: Sequence[str],
    *,
    namespace: str,
    container: str = "",
    has_input: bool = False,
    has_terminal: bool = False,
) -> ProgramStream:
    """Run a program in a container. With a terminal, errors come with the output."""
    query = [("command", each) for each in command]
    return await _opened(client, "exec", pod, namespace, query, container, has_input, has_terminal)


async def open_attach(
    client: KubernetesClient,
    pod: str,
    *,
    namespace: str,
    container: str = "",
    has_input: bool = False,
    has_terminal: bool = False,
) -> ProgramStream:
    """The streams of a container's main program; input only if the container was created with one."""
    return await _opened(client, "attach", pod, namespace, [], container, has_input, has_terminal)


async def _opened(
    client: KubernetesClient,
    subresource: str,
    pod: str,
    namespace: str,
    query: list[tuple[str, str]],
    container: str,
    has_input: bool,
    has_terminal: bool,
) -> ProgramStream:
    query += [("container", container)] if container else []
    streams = {"stdin": has_input, "stdout": True, "stderr": not has_terminal, "tty": has_terminal}
    query += [(name, str(value).lower()) for name, value in streams.items()]
    call = f"{subresource} in pod {namespace}/{pod}"
    target = f"{PODS.path(namespace, pod, subresource)}?{urlencode(query)}"
    return ProgramStream(call, await client.websocket(call, target, (WITH_CLOSE, WITHOUT_CLOSE)))


class ProgramStream:
    """The streams of a program that runs in a container."""

    def __init__(self, call: str, socket: Socket) -> None:
        self._call, self._socket = call, socket
        self.end: ProgramEnd | None = None
        """Known once `receive` has returned None."""

    async def send(self, data: bytes) -> None:
        """Write to its input."""
        for part in _parts(data):
            await self._socket.send(bytes((StreamChannel.INPUT,)) + part)

    async def close_input(self) -> None:
        """End its input. Where the API server speaks version 4 only, the program is not told."""
        if self._socket.protocol == WITH_CLOSE:
            await self._socket.send(bytes((CLOSE, StreamChannel.INPUT)))

    async def resize(self, columns: int, rows: int) -> None:
        """The size of its terminal."""
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        await self._socket.send(bytes((StreamChannel.RESIZE,)) + size)

    async def receive(self) -> tuple[StreamChannel, bytes] | None:
        """What it wrote next, and whether as output or as errors; None when it has ended."""
        while self.end is None:
            message = await self._socket.receive()
            if message is None:
                self.end = ProgramEnd(None, f"{self._call}: the connection was closed before the program ended")
            elif message[:1] == b"\x03":
                self.end = read_end(message[1:])
            elif len(message) > 1 and message[0] in (StreamChannel.OUTPUT, StreamChannel.ERRORS):
                return StreamChannel(message[0]), message[1:]
        return None

    async def close(self) -> None:
        """Close the connection. The program is not ended by this, unless it reads its input or has a terminal."""
        await self._socket.close()


class EndCause(msgspec.Struct):
    """One of the causes in a status."""

    reason: str = ""
    message: str = ""


class EndDetails(msgspec.Struct):
    """Details of a status."""

    causes: list[EndCause] | None = None


class EndStatus(msgspec.Struct):
    """What is sent when a program has ended."""

    status: str = ""
    reason: str = ""
    message: str = ""
    details: EndDetails | None = None


def read_end(content: bytes) -> ProgramEnd:
    """The end of a program, from the status that the kubelet sends."""
    try:
        status = msgspec.json.decode(content, type=EndStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ProgramEnd(None, content.decode("utf-8", "replace"))
    if status.status == "Success":
        return ProgramEnd(0)
    causes = (status.details.causes if status.details else None) or []
    for cause in causes:
        if cause.reason == "ExitCode" and cause.message.isdecimal():
            return ProgramEnd(int(cause.message), status.message)
    return ProgramEnd(None, status.message or status.reason)


# --- ports ------------------------------------------------------------------------------------------------------------


async def open_port(client: KubernetesClient, pod: str, port: int, *, namespace: str) -> ForwardedPort:
    """Connect to a port of a pod. That nothing listens there shows when the first bytes are awaited: `StreamFailed`."""
    call = f"connect to port {port} of pod {namespace}/{pod}"
    target = f"{PODS.path(namespace, pod, 'portforward')}?ports={port}"
    return ForwardedPort(call, await client.websocket(call, target, (WITHOUT_CLOSE,)))


class ForwardedPort:
    """A connection to a port of a pod; a `PodStream` of the gateway."""

    def __init__(self, call: str, socket: Socket) -> None:
        self._call, self._socket = call, socket
        self._begun = {0: False, 1: False}

    async def send(self, data: bytes) -> None:
        for part in _parts(data):
            await self._socket.send(b"\x00" + part)

    async def receive(self) -> bytes | None:
        """The next bytes; None when the program has closed the connection. Raises `StreamFailed`."""
        while (message := await self._socket.receive()) is not None:
            channel, content = message[0] if message else 2, message[1:]
            if channel not in self._begun:
                continue
            if not self._begun[channel]:
                self._begun[channel] = True
                content = content[PORT_BYTES:]
            if content and channel == 1:
                raise StreamFailed(self._call, content.decode("utf-8", "replace").strip())
            if content:
                return content
        return None

    async def close(self) -> None:
        with suppress(KubernetesError):
            await self._socket.close()


def _parts(data: bytes) -> Iterable[bytes]:
    return (data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES))
