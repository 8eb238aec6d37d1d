"""`--workdir`: mounts the user's folder where the server can verify its owner, otherwise uploads a copy.

What is uploaded follows no links, and leaves out version control, environments with secrets and keys unless
`.fairpoolignore` says otherwise. What is mounted is the folder itself.
"""

from __future__ import annotations

import os
import stat
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.limits import PIECE_MAX_BYTES
from fairpool.cli.failure import Failure, failure

IGNORE_FILE = ".fairpoolignore"
IGNORE_MAX_BYTES = 1 << 20
PATH = "/workdir"
LEFT_OUT = (
    ".git",
    ".hg",
    ".svn",
    ".env*",
    ".netrc",
    ".ssh",
    ".aws",
    ".azure",
    ".kube",
    ".gnupg",
    ".docker",
    ".config/gcloud",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    "id_*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "*.kdbx",
    "credentials.json",
)
"""What is left out by itself: version control, and what holds secrets."""
LARGE_BYTES = 8 << 20
"""From here on its progress is shown."""
SHOWN = 6
TRIES = 3
UNPACK_S = 600.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of files that are left out."""

    text: str
    is_kept: bool = False
    """It is sent after all."""
    folders_only: bool = False

    def fits(self, path: str, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if "/" in self.text.strip("/"):
            return fnmatchcase(path, self.text.strip("/"))
        return fnmatchcase(path.rpartition("/")[2], self.text.strip("/"))


@dataclass(slots=True)
class Inventory:
    """The files of a folder: what is sent, what is not, and why."""

    files: list[tuple[str, os.stat_result]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    """Sockets, pipes, devices, and names that are not text."""

    @property
    def size_bytes(self) -> int:
        return sum(about.st_size for _, about in self.files)

    def left_out(self) -> list[str]:
        """What was not sent, as text."""
        said = []
        for names, why in (
            (self.ignored, "not uploaded"),
            (self.links, "not uploaded, because links are not followed"),
            (self.odd, "not uploaded, because they are not regular files"),
        ):
            if names:
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                said.append(f"{', '.join(names[:SHOWN])}{more}: {why}")
        return said


def folder_and_path(text: str) -> tuple[str, str]:
    """`FOLDER` or `FOLDER:PATH`."""
    folder, colon, path = text.rpartition(":")
    return (folder, path) if colon and path.startswith("/") else (text, PATH)


def patterns_of(folder: str, exclude: Sequence[str]) -> list[Pattern]:
    """In order of precedence: the last match decides."""
    lines = [*LEFT_OUT, *_ignore_lines(folder), *exclude]
    return [_pattern(line) for line in lines]


def _pattern(line: str) -> Pattern:
    is_kept = line.startswith("!")
    text = line.removeprefix("!")
    return Pattern(text.removeprefix("./").rstrip("/"), is_kept, text.endswith("/"))


def _ignore_lines(folder: str) -> list[str]:
    try:
        with open(os.path.join(folder, IGNORE_FILE), encoding="utf-8") as file:
            text = file.read(IGNORE_MAX_BYTES)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise failure("workdir.ignore_file", f"{IGNORE_FILE} cannot be read: {error}", "fix or remove it") from error
    return [line for each in text.splitlines() if (line := each.strip()) and not line.startswith("#")]


def look_through(folder: str, exclude: Sequence[str] = ()) -> Inventory:
    """The files of a folder; raises a failure if it cannot be read."""
    if not os.path.isdir(folder):
        what = f"--workdir {folder} is not a folder"
        raise failure("workdir.not_a_folder", what, "name a folder, as in --workdir .")
    patterns, found = patterns_of(folder, exclude), Inventory()
    try:
        _look(folder, "", patterns, found)
    except OSError as error:
        what = f"{error.filename or folder} cannot be read ({error.strerror})"
        raise failure("workdir.unreadable", what, "leave it out with --exclude") from error
    return found


def _look(folder: str, below: str, patterns: Sequence[Pattern], found: Inventory) -> None:
    with os.scandir(os.path.join(folder, below)) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        path = f"{below}/{entry.name}" if below else entry.name
        about = entry.stat(follow_symlinks=False)
        is_folder = stat.S_ISDIR(about.st_mode)
        if _is_ignored(path, is_folder, patterns):
            found.ignored.append(path)
        elif entry.is_symlink():
            found.links.append(path)
        elif not (is_folder or stat.S_ISREG(about.st_mode)) or not path.isprintable():
            found.odd.append(path)
        else:
            found.files.append((path, about))
            if is_folder:
                _look(folder, path, patterns, found)


def _is_ignored(path: str, is_folder: bool, patterns: Sequence[Pattern]) -> bool:
    fitting = [each for each in patterns if each.fits(path, is_folder)]
    return bool(fitting) and not fitting[-1].is_kept


def pack(folder: str, found: Inventory, into: IO[bytes]) -> None:
    """A gzipped tar of what is sent, without owners; a file that became shorter is a failure."""
    with tarfile.open(fileobj=into, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=6) as tar:
        for path, about in found.files:
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = stat.S_IMODE(about.st_mode), int(about.st_mtime)
            if stat.S_ISDIR(about.st_mode):
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
                continue
            try:
                handle = os.open(os.path.join(folder, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(handle, "rb") as file:
                    info.size = os.fstat(file.fileno()).st_size
                    tar.addfile(info, file)
            except OSError as error:
                what = f"{path} cannot be read ({error.strerror or error})"
                raise failure("workdir.unreadable", what, "leave it out with --exclude") from error


def is_shared(folder: str, exclude: Sequence[str], socket: Path | None, protected: Sequence[str]) -> bool:
    """Whether the job can use the folder itself: the caller owns it, and the server knows the caller from the kernel.

    Root's folders are copied, because pods under root run as another user, who could not write to them.
    """
    if socket is None or exclude or os.geteuid() == 0 or os.path.lexists(f"{folder}/{IGNORE_FILE}"):
        return False
    try:
        owner, place = os.stat(folder).st_uid, os.stat(socket)
    except OSError:
        return False
    real = os.path.realpath(folder)
    hidden = [os.path.realpath(each) for each in (str(socket.parent), *protected)]
    return (
        owner == os.geteuid() == place.st_uid
        and stat.S_ISSOCK(place.st_mode)
        and not any(os.path.commonpath([real, each]) in (real, each) for each in hidden)
    )


def mounted(body: Mapping[str, Any], folder: str, path: str) -> dict[str, Any]:
    """The same job with the folder itself at `path`, where it starts."""
    spec = body["spec"]
    storage = spec.get("storage", {})
    own = {"path": os.path.realpath(folder), "mountPath": path}
    wanted = spec.get("workingDir") or ""
    start = wanted if wanted.startswith("/") else f"{path.rstrip('/')}/{wanted}".rstrip("/")
    storage = {**storage, "hostPath": [*storage.get("hostPath", []), own]}
    return {**body, "spec": {**spec, "storage": storage, "workingDir": start}}


def bring(client: Client, project: str, folder: str, exclude: Sequence[str], say: Callable[[str], None]) -> str:
    """Upload a folder; returns the id of the upload."""
    found = look_through(folder, exclude)
    for line in found.left_out():
        say(line)
    with tempfile.TemporaryFile() as packed:
        pack(folder, found, packed)
        size = packed.tell()
        packed.seek(0)
        upload = client.begin_upload(project, size).id
        try:
            _send(client, upload, packed, size)
            _finish(client, upload)
        except BaseException:
            _give_up(client, upload)
            raise
    return upload


def _send(client: Client, upload: str, packed: IO[bytes], size: int) -> None:
    offset = 0
    for piece in iter(lambda: packed.read(PIECE_MAX_BYTES), b""):
        _send_piece(client, upload, offset, piece)
        offset += len(piece)
        _show_progress(offset, size)


def _send_piece(client: Client, upload: str, offset: int, piece: bytes) -> None:
    """A piece may be sent again if the answer was lost."""
    for attempt in range(TRIES):
        try:
            client.write_upload(upload, offset, piece)
            return
        except Unreachable:
            if attempt == TRIES - 1:
                raise


def _finish(client: Client, upload: str) -> None:
    """Wait until it is unpacked, which may take longer than one request."""
    until = time.monotonic() + UNPACK_S
    while True:
        try:
            client.finish_upload(upload)
            return
        except Unreachable:
            if time.monotonic() > until:
                raise
        except Refused as refusal:
            is_busy = any(each.code == "upload.busy" for each in refusal.problems)
            if not is_busy or time.monotonic() > until:
                raise
        time.sleep(0.5)


def _give_up(client: Client, upload: str) -> None:
    try:
        client.remove_upload(upload)
    except (Refused, Unreachable, Failure):
        return  # it is removed after an hour


def _show_progress(done: int, size: int) -> None:
    if size < LARGE_BYTES or not sys.stderr.isatty():
        return
    end = "\n" if done >= size else ""
    sys.stderr.write(f"\rUploading: {done >> 20} of {size >> 20} MiB{end}")
    sys.stderr.flush()


def relative_scripts(words: Sequence[str], folder: str) -> Iterator[str]:
    """Words of a command that name a file in this folder by a relative path: `train.py` in `python train.py`."""
    for word in words[:8]:
        is_path = not word.startswith(("-", "/")) and ("." in word or "/" in word) and len(word) < 256
        if is_path and os.path.isfile(os.path.join(folder, word)):
            yield word
