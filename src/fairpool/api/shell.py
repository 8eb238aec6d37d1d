"""Shells in pods: the messages on the WebSocket.

Each message is one byte that names the channel, then bytes: 0 input, 1 output, 2 errors, 3 how it ended (JSON),
4 the size of the terminal (JSON), 255 the end of the channel whose number follows. The numbers are those of
Kubernetes' `v5.channel.k8s.io`, so that both kinds of engine speak alike. A command that is too long for an address
comes as the first message, on channel 128 of our own (JSON, a list of words).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from fairpool.model.problem import Problem


class Channel(IntEnum):
    """Which of the streams a message belongs to."""

    INPUT = 0
    OUTPUT = 1
    ERRORS = 2
    ENDED = 3
    SIZE = 4
    COMMAND = 128
    CLOSE = 255


_NUMBERS = frozenset(channel.value for channel in Channel)


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    channel: Channel
    data: bytes = b""

    def encode(self) -> bytes:
        return bytes([self.channel]) + self.data


def decode_shell_frame(message: bytes) -> Frame | Problem:
    """A message from the other side."""
    if not message or message[0] not in _NUMBERS:
        return Problem(
            "shell.channel", "the message has an unknown channel", "start each message with its channel number"
        )
    return Frame(Channel(message[0]), message[1:])


def size(columns: int, rows: int) -> Frame:
    """The terminal has this size now."""
    return Frame(Channel.SIZE, json.dumps({"columns": columns, "rows": rows}).encode())


def command_frame(words: Sequence[str]) -> Frame:
    """What to run, where it did not fit into the address."""
    return Frame(Channel.COMMAND, json.dumps(list(words)).encode())


def command_in(message: bytes) -> tuple[str, ...] | Problem:
    """The command that the first message holds."""
    frame = decode_shell_frame(message)
    if isinstance(frame, Problem):
        return frame
    try:
        words = json.loads(frame.data) if frame.channel is Channel.COMMAND else None
    except ValueError:
        words = None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        fix = "send the command first: the byte 128, then a JSON list of words"
        return Problem("shell.no_command", "the first message is not a command", fix)
    return tuple(words)


def read_end(frame: Frame) -> tuple[object, str] | None:
    """Exit code and message of an ENDED frame, as the server says; None: it cannot be read."""
    try:
        said = json.loads(frame.data)
        return said.get("exitCode"), str(said.get("words") or "")
    except (ValueError, AttributeError):
        return None


def ended(exit_code: int | None, words: str = "") -> Frame:
    """The process is over; nothing comes after this."""
    return Frame(Channel.ENDED, json.dumps({"exitCode": exit_code, "words": words}).encode())
