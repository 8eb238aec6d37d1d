"""A log as pieces with their places, so that a reader can go on after a broken connection.

Each piece is a line `OFFSET LENGTH` and that many bytes; OFFSET is where reading goes on after it. `end` follows the
last piece: a stream without it was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator

PIECES_END = b"end\n"
HEAD_MAX = 64


class CutOff(Exception):
    """The stream ended before its end, or is not one of pieces."""


def piece_head(next_offset: int, length: int) -> bytes:
    """The line before a piece."""
    return b"%d %d\n" % (next_offset, length)


def read_pieces(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Where reading goes on after each piece, and the piece; raises `CutOff`. A piece that is cut off is not given:
    it is read again."""
    buffer = b""
    while True:
        head, newline, rest = buffer.partition(b"\n")
        if newline and head + newline == PIECES_END:
            return
        numbers = head.split(b" ")
        if newline and (len(numbers) != 2 or not all(each.isdigit() for each in numbers)):
            raise CutOff("the server does not send a log in pieces")
        if newline and len(rest) >= int(numbers[1]):
            length = int(numbers[1])
            yield int(numbers[0]), rest[:length]
            buffer = rest[length:]
            continue
        if not newline and len(buffer) > HEAD_MAX:
            raise CutOff("the server does not send a log in pieces")
        more = next(chunks, None)
        if more is None:
            raise CutOff("the answer ended too early")
        buffer += more
