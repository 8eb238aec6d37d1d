"""What a job sends with `runai cp` is written below the target and nowhere else, whatever it sends."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from fairpool.cli.runai.archive_stream import HEADER_MAX, Unsafe, unpack
from fairpool.cli.runai.copying import Place, place


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    stream.seek(0)
    return stream


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").write_text("untouched")
    return tmp_path / "target"


def take(stream: io.BytesIO, target: Path, asked: str | None = None, called: str | None = None) -> list[str]:
    return unpack(stream, str(target), asked=asked, called=called, done=lambda _: None)


def test_files_and_folders_arrive_with_their_mode(target: Path) -> None:
    stream = tar(
        (member("run", tarfile.DIRTYPE), b""), (member("run/a.sh", mode=0o755), b"one"), (member("run/b/c"), b"two")
    )
    assert take(stream, target) == []
    assert (target / "run/a.sh").read_bytes() == b"one"
    assert (target / "run/a.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "run/b/c").read_bytes() == b"two"


def test_the_first_part_of_a_name_can_be_replaced(target: Path) -> None:
    take(tar((member("./model"), b"x")), target, "model", "mine")
    assert os.listdir(target) == ["mine"]


@pytest.mark.parametrize("name", [".bashrc", ".ssh/authorized_keys", "model2", ".", "./other/model"])
def test_what_was_not_asked_for_is_refused(target: Path, name: str) -> None:
    """Who copies one file into their home must not find others there."""
    for called in ("mine", None):
        with pytest.raises(Unsafe, match="not asked for"):
            take(tar((member("model"), b"x"), (member(name), b"evil")), target, "model", called)
    assert set(os.listdir(target)) <= {"mine", "model"}


def test_a_sparse_file_in_an_extended_header_is_refused(target: Path) -> None:
    info = member("huge")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
    stream = io.BytesIO()
    data = b"1\n0\n0\n".ljust(512, b"\0")
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    stream.seek(0)
    with pytest.raises(Unsafe, match="sparse"):
        take(stream, target)
    assert os.listdir(target) == []


@pytest.mark.parametrize("name", ["/etc/evil", "../outside", "a/../../outside", "a/" * 200 + "deep"])
def test_names_that_lead_out_are_refused(target: Path, name: str) -> None:
    with pytest.raises(Unsafe):
        take(tar((member(name), b"evil")), target)
    assert (target.parent / "outside").read_text() == "untouched"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_what_is_neither_file_nor_folder_is_left_out_and_named(target: Path, kind: bytes) -> None:
    link = "../outside" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    assert take(tar((member("odd", kind, link), b""), (member("good"), b"x")), target) == ["odd"]
    assert os.listdir(target) == ["good"]


def test_a_link_that_was_there_before_is_not_followed(target: Path) -> None:
    (target / "folder").symlink_to(target.parent)
    (target / "file").symlink_to(target.parent / "outside")
    take(tar((member("file"), b"new")), target)
    assert (target / "file").read_text() == "new"
    assert not (target / "file").is_symlink()
    with pytest.raises(Unsafe, match="is not a folder on this machine"):
        take(tar((member("folder/outside"), b"evil")), target)
    assert (target.parent / "outside").read_text() == "untouched"


def test_set_user_id_is_not_taken_over(target: Path) -> None:
    take(tar((member("suid", mode=0o6755), b"x")), target)
    assert (target / "suid").stat().st_mode & 0o7777 == 0o755


def test_a_header_that_would_fill_the_memory_is_refused_before_it_is_read(target: Path) -> None:
    info = member("x", tarfile.XHDTYPE)
    info.size = HEADER_MAX * 1000
    with pytest.raises(Unsafe, match="extended header"):
        take(io.BytesIO(info.tobuf(tarfile.USTAR_FORMAT)), target)


def test_bytes_that_are_no_archive_are_refused_and_leave_nothing(target: Path) -> None:
    with pytest.raises(Unsafe, match="not a tar stream"):
        take(io.BytesIO(b"#!/bin/sh\n" * 200), target)
    whole = tar((member("cut"), b"x" * 5000)).getvalue()
    with pytest.raises(Unsafe):
        take(io.BytesIO(whole[:2000]), target)
    assert os.listdir(target) == []


@pytest.mark.parametrize(
    ("text", "means"),
    [
        pytest.param("train:/tmp/x", Place("train", "/tmp/x"), id="in a job"),
        pytest.param("train:", Place("train", "."), id="its working directory"),
        pytest.param("./a:b", Place(None, "./a:b"), id="a colon in a file here"),
        pytest.param("/a:b/c", Place(None, "/a:b/c"), id="an absolute path here"),
        pytest.param("plain", Place(None, "plain"), id="a file here"),
    ],
)
def test_where_a_path_is(text: str, means: Place) -> None:
    assert place(text) == means
