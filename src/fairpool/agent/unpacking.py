"""Unpacks an uploaded archive, a gzipped tar, into a directory. The archive is hostile: everything is bounded, and only
plain files and directories with relative paths come out.

The standard library's reader is not used: it holds headers of any size in memory and knows links, devices and sparse
files, none of which belong in an upload.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent.durable import write_all
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds

BLOCK = 512
HEADER_MAX = 64 * 1024
"""Bytes of a header that only holds a long name."""
HEADERS_PER_FILE = 4
"""Of a directory with as many files as it may have: one for the file, the rest for its long name."""
HEADER_BYTES_PER_FILE = 4096
PIECE = 1 << 20
DEPTH_MAX = 64
NAME_MAX = 255
FILE, DIRECTORY = frozenset({b"0", b"\0", b"7"}), b"5"
OTHERS = {
    b"1": "hard link",
    b"2": "symbolic link",
    b"3": "device",
    b"4": "device",
    b"6": "named pipe",
    b"S": "sparse file",
}
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Contents:
    """The number and size of the unpacked files."""

    files: int
    size_bytes: int


class Bad(Exception):
    """The archive cannot be used, and why."""

    def __init__(self, code: str, what: str, fix: str) -> None:
        super().__init__(what)
        self.problem = Problem(f"upload.{code}", what, fix)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or directory of an archive."""

    path: str
    is_directory: bool
    size_bytes: int
    is_program: bool
    modified_s: int


def unpack(archive: Path, target: Path, bounds: Bounds) -> Contents | Problem:
    """Unpack into a directory that does not exist yet. Of an archive that is refused nothing is promised to be left."""
    files = size_bytes = 0
    try:
        target.mkdir(mode=0o700)
        with gzip.open(archive, "rb") as content:
            stream = _Bounded(content, bounds)
            for entry in _entries(stream):
                size_bytes += entry.size_bytes
                if size_bytes > bounds.size_bytes:
                    raise _too_large(bounds)
                files += _make_directories(target, entry) + (not entry.is_directory)
                if files > bounds.files:
                    raise Bad(
                        "too_many_files", f"the directory has more than {bounds.files} files", "remove some of them"
                    )
                if not entry.is_directory:
                    _put(target, entry, stream)
    except Bad as bad:
        return bad.problem
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return Problem(
            "upload.damaged", f"the archive cannot be read ({error})", "send a tar file compressed with gzip"
        )
    return Contents(files, size_bytes)


class _Bounded:
    """What the archive unpacks to: not more headers, nor more bytes, than a directory within the bounds can need."""

    def __init__(self, content: gzip.GzipFile, bounds: Bounds) -> None:
        self._content, self._bounds = content, bounds
        self._headers_left = HEADERS_PER_FILE * (bounds.files + 1)
        self._bytes_left = bounds.size_bytes + HEADER_BYTES_PER_FILE * (bounds.files + 1) + HEADER_MAX

    def header(self) -> bytes:
        self._headers_left -= 1
        if self._headers_left < 0:
            what = f"the archive has more headers than {self._bounds.files} files need"
            raise Bad("too_many_files", what, "pack it again, without files that the job does not need")
        return self.exactly(BLOCK)

    def exactly(self, size: int) -> bytes:
        pieces, left = [], size
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise _too_large(self._bounds)
        while left:
            piece = self._content.read(left)
            if not piece:
                raise Bad("damaged", "the archive ends too early", "send all of it")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _too_large(bounds: Bounds) -> Bad:
    size = f"{bounds.size_bytes / (1 << 20):g} MiB"
    return Bad("too_large", f"the directory is larger than {size}", "leave out what the job does not need")


def _entries(stream: _Bounded) -> Iterator[Entry]:
    """The caller reads the content of each entry before the next."""
    long_name: str | None = None
    while True:
        header = stream.header()
        if not any(header):
            return
        _check_sum(header)
        size, kind = _number(header[124:136]), header[156:157]
        if kind in (b"x", b"g", b"L"):
            content = _header_content(stream, size)
            if kind != b"g":
                long_name = _text(content.rstrip(b"\0")) if kind == b"L" else (_pax_path(content) or long_name)
            continue
        if kind not in FILE and kind != DIRECTORY:
            name = _name(header) if long_name is None else long_name
            word = OTHERS.get(kind, f"entry of type {kind!r}")
            raise Bad("not_a_file", f"{name[:200]!r} is a {word}", "send regular files and directories only")
        path = _safe(_name(header) if long_name is None else long_name)
        long_name = None
        if kind == DIRECTORY and size:
            raise Bad("damaged", "a directory entry in the archive has content", "create the archive again")
        if path:
            is_program = bool(_number(header[100:108]) & 0o100)
            yield Entry(path, kind == DIRECTORY, size, is_program, _number(header[136:148]))
        elif size:
            raise Bad("path", "a file in the archive has no name", "create the archive again")
        stream.exactly(-size % BLOCK)


def _make_directories(target: Path, entry: Entry) -> int:
    """Create the missing directories of an entry; returns how many those were."""
    parts = entry.path.split("/")[: None if entry.is_directory else -1]
    place, made = target.joinpath(*parts), 0
    try:
        if place.is_dir():
            return 0
        for depth in range(1, len(parts) + 1):
            with suppress(FileExistsError):
                target.joinpath(*parts[:depth]).mkdir()
                made += 1
        if not place.is_dir():
            raise _twice(entry)
    except OSError as error:
        raise _not_placed(entry, error) from error
    return made


def _put(target: Path, entry: Entry, stream: _Bounded) -> None:
    place = target / entry.path
    try:
        mode = 0o755 if entry.is_program else 0o644
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        raise _not_placed(entry, error) from error
    with os.fdopen(handle, "wb", buffering=0) as file:
        left = entry.size_bytes
        while left:
            piece = stream.exactly(min(left, PIECE))
            write_all(file.fileno(), piece)
            left -= len(piece)
        with suppress(OSError, OverflowError):
            os.utime(file.fileno(), (entry.modified_s, entry.modified_s))


def _twice(entry: Entry) -> Bad:
    return Bad("twice", f"{entry.path[:200]!r} is in the archive twice", "create the archive again")


def _not_placed(entry: Entry, error: OSError) -> Exception:
    """What is wrong with the archive; what is wrong with the disk stays as it is."""
    if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
        return _twice(entry)
    if error.errno == errno.ENAMETOOLONG:
        return Bad("path", f"the path {entry.path[:200]!r}... is too long", "use shorter names, or fewer directories")
    return error


def _header_content(stream: _Bounded, size: int) -> bytes:
    if size > HEADER_MAX:
        raise Bad("damaged", f"a header of the archive is larger than {HEADER_MAX} bytes", "create the archive again")
    content = stream.exactly(size)
    stream.exactly(-size % BLOCK)
    return content


def _check_sum(header: bytes) -> None:
    expected = sum(header[:148]) + 8 * 32 + sum(header[156:])
    if _number(header[148:156]) != expected:
        raise Bad("damaged", "the archive is not a tar file", "send a tar file compressed with gzip")


def _number(field: bytes) -> int:
    text = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]*", text):
        raise Bad(
            "damaged", "a number in the archive cannot be read", "create the archive again, with files below 8 GiB"
        )
    return int(text or b"0", 8)


def _name(header: bytes) -> str:
    name, prefix = header[:100].partition(b"\0")[0], header[345:500].partition(b"\0")[0]
    is_posix = header[257:263] == b"ustar\0"
    return _text(prefix + b"/" + name if prefix and is_posix else name)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Bad("path", f"{raw[:200]!r} is not a UTF-8 file name", "rename the file") from error


def _pax_path(content: bytes) -> str | None:
    """The path in an extended header. What would change what the entry is, is refused; the rest does not matter."""
    path, rest = None, content
    while rest:
        length, _, _ = rest.partition(b" ")
        if not re.fullmatch(rb"[1-9][0-9]{0,5}", length) or not len(length) + 3 < int(length) <= len(rest):
            raise Bad("damaged", "an extended header of the archive cannot be read", "create the archive again")
        record, rest = rest[len(length) + 1 : int(length)], rest[int(length) :]
        key, _, value = record.removesuffix(b"\n").partition(b"=")
        if key.startswith(b"GNU.sparse") or key == b"size":
            raise Bad(
                "not_a_file", "the archive holds a sparse or very large file", "send regular files and directories only"
            )
        if key == b"path":
            path = _text(value)
    return path


def _safe(path: str) -> str:
    """The path below the directory; empty for the directory itself."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    is_bad = (
        path.startswith("/")
        or ".." in parts
        or CONTROL.search(path)
        or len(parts) > DEPTH_MAX
        or any(len(part.encode()) > NAME_MAX for part in parts)
    )
    if is_bad:
        what = f"{path[:200]!r} is not a path inside the directory"
        raise Bad("path", what, f"use relative paths without .., at most {DEPTH_MAX} directories deep")
    return "/".join(parts)
