"""A log in pieces: read whole whatever the network does to it, and known to be cut off when it is."""

from __future__ import annotations

import itertools

import pytest

from fairpool.api.log_pieces import PIECES_END, CutOff, piece_head, read_pieces

PIECES = [(4, b"abc\n"), (4, b""), (20, b"end\n"), (31, b"9 9\nno line end")]
STREAM = b"".join(piece_head(offset, len(data)) + data for offset, data in PIECES) + PIECES_END


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_are_the_same_however_they_arrive(size: int) -> None:
    arriving = (STREAM[at : at + size] for at in range(0, len(STREAM), size))
    assert list(read_pieces(arriving)) == PIECES


def until_cut_off(stream: bytes) -> list[tuple[int, bytes]]:
    """The pieces of a stream that is cut off."""
    given: list[tuple[int, bytes]] = []
    try:
        for piece in read_pieces(iter([stream])):
            given.append(piece)
    except CutOff:
        return given
    raise AssertionError("it was taken for complete")


@pytest.mark.parametrize("length", range(len(STREAM)))
def test_a_stream_that_was_cut_off_gives_whole_pieces_only(length: int) -> None:
    given = until_cut_off(STREAM[:length])
    assert given == PIECES[: len(given)]
    assert len(b"".join(data for _, data in given)) <= length


@pytest.mark.parametrize("wrong", [b"hello\n", b"1 2 3\n", b"-1 4\nabcd", b"x" * 100, b"\n", b"1 \n"])
def test_anything_else_is_not_taken_for_a_log(wrong: bytes) -> None:
    with pytest.raises(CutOff):
        list(read_pieces(itertools.chain([wrong], [PIECES_END])))
