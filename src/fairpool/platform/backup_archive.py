"""The file format of backups, and a reader that trusts nothing in it.

A file that is restored may come from anywhere: it is read once, by descriptor, with bounds on everything. The archive
is parsed by blocks: the standard library would read headers of any size into memory, and follow names that are links.
It shares no code with `agent/unpacking.py`, which accepts any relative path and must understand long names: here a
member is one of seven names, or refused.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import tarfile
from pathlib import Path

from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.agent.project_users import FILE as USERS_FILE
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import PlatformError

FORMAT = 5
READABLE_FORMATS = (1, 2, 3, 4, 5)
"""The first had no nodes in it, the second no users, the third only whole platforms, the fourth never a key."""
ABOUT, CONTROL, NODES, MEMBERSHIP = "about.json", "control.sqlite", "nodes.json", "cluster.json"
KEY = "secret.key.encrypted"
"""The key of credentials, under a passphrase; only in a backup for which one was given."""
ABOUT_MAX_BYTES = 65536
SMALL_MAX_BYTES = 16 << 20
"""Of the tables of images and users, and the description of nodes."""
EXPANSION_MAX, EXPANSION_FROM_BYTES = 200, 64 << 20
"""A backup that grows by more than this when it is unpacked, beyond a size that any may have, was made to do harm:
databases of ours shrink to a fifth, and to a thirtieth when they hold little but equal jobs."""
BLOCK = tarfile.BLOCKSIZE


def unpack(file: Path, directory: Path) -> None:
    """Write the members of a backup into a directory: known names, each once and as a plain file, in one pass.

    A truncated file is found by its checksum, so it is read to its end. Raises `PlatformError`, `OSError`, `EOFError`,
    `zlib.error` or `tarfile.TarError`.
    """
    with _opened(file) as raw, gzip.GzipFile(fileobj=raw) as content:
        stream = _Bounded(content, os.fstat(raw.fileno()).st_size)
        while (member := _next_member(stream, file)) is not None:
            most = {CONTROL: None, ABOUT: ABOUT_MAX_BYTES}.get(member.name, SMALL_MAX_BYTES)
            if most is not None and member.size > most:
                raise foreign(file, f"{member.name} is larger than {most // 1024} KiB")
            target = directory / member.name
            with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as made:
                stream.copy(member.size, made)
                made.flush()
                os.fsync(made.fileno())
        while stream.some(1 << 20):
            pass
    if not (directory / ABOUT).exists():
        raise foreign(file, f"{ABOUT} is missing")


def _opened(file: Path) -> io.BufferedReader:
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(handle, "rb")


class _Bounded:
    """A decompressed stream with a bound on how much larger it is than the compressed one."""

    def __init__(self, content: gzip.GzipFile, packed_bytes: int) -> None:
        self._content, self._left = content, max(EXPANSION_FROM_BYTES, packed_bytes * EXPANSION_MAX)

    def some(self, most: int) -> bytes:
        piece = self._content.read(most)
        self._left -= len(piece)
        if self._left < 0:
            raise tarfile.ReadError(f"it unpacks to more than {EXPANSION_MAX} times its size")
        return piece

    def exactly(self, size: int) -> bytes:
        made = io.BytesIO()
        self.copy(size, made, padded=False)
        return made.getvalue()

    def copy(self, size: int, target: io.BufferedWriter | io.BytesIO, *, padded: bool = True) -> None:
        left = size
        while left:
            piece = self.some(min(left, 1 << 20))
            if not piece:
                raise EOFError("it is truncated")
            target.write(piece)
            left -= len(piece)
        if padded and size % BLOCK:
            self.exactly(BLOCK - size % BLOCK)


_KNOWN = (ABOUT, CONTROL, IMAGES_FILE, USERS_FILE, NODES, MEMBERSHIP, KEY)


def _next_member(stream: _Bounded, file: Path) -> tarfile.TarInfo | None:
    """The next file in the archive; None: that was the last."""
    for _ in range(2 * len(_KNOWN)):
        block = stream.exactly(BLOCK)
        if not any(block):
            return None
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if member.type in (tarfile.XHDTYPE, tarfile.XGLTYPE) and 0 <= member.size <= ABOUT_MAX_BYTES:
            stream.exactly(-(-member.size // BLOCK) * BLOCK)  # only fractions of modification times
        elif member.name not in _KNOWN or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.size < 0:
            kind = "a link" if member.issym() or member.islnk() else "a device or pipe" if member.isdev() else "a file"
            raise foreign(file, f"it contains {kind} {member.name[:64]!r}, which does not belong in a backup")
        else:
            return member
    raise foreign(file, "it contains headers without files")


def foreign(file: Path, why: str) -> PlatformError:
    what = f"{file} is not a Fairpool backup: {why}"
    return PlatformError(Problem("restore.foreign", what, "use a file written by `fairpool backup`"))
