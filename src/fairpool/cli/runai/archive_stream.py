"""Safe unpacking of a tar stream that comes from a pod.

Whatever runs in a pod can answer in place of its `tar`, so the stream is hostile: it is unpacked below one folder, only
regular files and folders are taken, no link is ever followed (also none that was there before), and headers are bounded
before they are read.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

HEADER_MAX = 1 << 20
"""Bytes of an extended header; a path takes a few hundred."""
DEPTH_MAX = 128
CHUNK = 1 << 18
EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class Unsafe(Exception):
    """The stream holds something that must not be written."""


class BoundedHeader(tarfile.TarInfo):
    """Refuses extended headers that would be read into memory whole, whatever their size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> BoundedHeader:
        found = super().frombuf(buf, encoding, errors)
        if found.type in EXTENDED and found.size > HEADER_MAX:
            raise Unsafe(f"an extended header of {found.size} bytes")
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise Unsafe("a sparse file")
        return found


def unpack(
    stream: IO[bytes], folder: str, *, asked: str | None, called: str | None = None, done: Callable[[int], None]
) -> list[str]:
    """Unpack below `folder`; what was left out because it is neither file nor folder.

    Only `asked` is taken (everything where it is None), under the name `called` if there is one: who asked for one file
    must not get others beside it. `done` hears of bytes as they are written. Raises `Unsafe`.
    """
    left_out: list[str] = []
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=BoundedHeader) as archive:
            for member in archive:
                parts = _parts(member.name, asked, called)
                if member.issparse():
                    raise Unsafe("a sparse file")
                if member.isdir():
                    with _folder_at(top, parts):
                        pass
                elif member.isreg() and parts:
                    _write(top, parts, archive.extractfile(member), member.mode, done)
                else:
                    left_out.append(member.name)
    except tarfile.TarError as error:
        raise Unsafe(f"data that is not a tar stream ({error})") from error
    finally:
        os.close(top)
    return left_out


def _parts(name: str, asked: str | None, called: str | None) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise Unsafe(f"the path {name!r}, which is outside the target")
    if len(parts) > DEPTH_MAX:
        raise Unsafe(f"a path with {len(parts)} components")
    if asked is None:
        return parts
    if not parts or parts[0] != asked:
        raise Unsafe(f"{name!r}, which was not asked for")
    return [called or asked, *parts[1:]]


@contextmanager
def _folder_at(top: int, parts: list[str]) -> Iterator[int]:
    """The folder of these names below `top`, created where missing, without following links."""
    at = os.dup(top)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=at)
            try:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except OSError as error:
                raise Unsafe(
                    f"{'/'.join(parts)!r}, where {part} is not a folder on this machine ({error.strerror})"
                ) from error
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _write(top: int, parts: list[str], data: IO[bytes] | None, mode: int, done: Callable[[int], None]) -> None:
    assert data is not None  # of a regular file there always is some
    with _folder_at(top, parts[:-1]) as folder:
        # A new file beside the old one, so that a link or a FIFO of that name is replaced and not opened.
        unfinished = f".{parts[-1][:200]}.fairpool-{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(unfinished, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(target, "wb") as file:
                while part := data.read(CHUNK):
                    file.write(part)
                    done(len(part))
                os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777 | 0o600)
            _refuse_folder(parts, folder)
            os.replace(unfinished, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(unfinished, dir_fd=folder)
            raise


def _refuse_folder(parts: list[str], folder: int) -> None:
    try:
        there: Any = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(there.st_mode):
        raise Unsafe(f"the file {'/'.join(parts)!r}, which is a folder on this machine")
