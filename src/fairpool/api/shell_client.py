"""The client's side of a shell in a pod. Apart from the messages, because servers do without an HTTP client."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2
from httpx2.websockets import WebSocketDisconnect, WebSocketSession

from fairpool.api.shell import Channel, Frame, command_frame, decode_shell_frame, size

LOOK_UP_S = 0.2
MESSAGE_MAX = 1 << 18
"""Bytes of one message that the client takes; the server sends at most half of that."""


class Shell:
    """A process in a pod, from the client's side."""

    def __init__(self, socket: WebSocketSession) -> None:
        self._socket = socket
        self._is_closed = False

    def send(self, data: bytes) -> None:
        """Input for the process."""
        self._socket.send_bytes(Frame(Channel.INPUT, data).encode())

    def send_command(self, words: Sequence[str]) -> None:
        """What to run, before anything else."""
        self._socket.send_bytes(command_frame(words).encode())

    def send_end(self) -> None:
        """No more input comes."""
        self._socket.send_bytes(Frame(Channel.CLOSE, bytes([Channel.INPUT])).encode())

    def resize(self, columns: int, rows: int) -> None:
        self._socket.send_bytes(size(columns, rows).encode())

    def close(self) -> None:
        """Let `receive` report the end, so that the thread which waits there closes the connection."""
        self._is_closed = True

    def receive(self, timeout_s: float | None = None) -> Frame | None:
        """The next message; None when the connection is over. Raises `TimeoutError`."""
        while not self._is_closed:
            try:
                frame = decode_shell_frame(
                    self._socket.receive_bytes(timeout=LOOK_UP_S if timeout_s is None else timeout_s)
                )
            except TimeoutError:
                if timeout_s is not None:
                    raise
                # Ctrl-C may reach another thread, and would not interrupt a wait without end in this one.
                continue
            except (WebSocketDisconnect, httpx2.TransportError):
                return None
            return frame if isinstance(frame, Frame) else None
        return None
