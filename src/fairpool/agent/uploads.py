"""Uploaded directories: received in pieces, unpacked once, mounted into the pods of a workload, removed with it.

An upload has the id of the workload that it is for, so that nothing needs to remember which belongs to which. All of
it lies in `machine/uploads`, readable by the platform's own user only. Methods may be called from several threads.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fairpool.agent.durable import write_durably
from fairpool.agent.file_tree import remove_tree
from fairpool.agent.unpacking import Contents, unpack
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds, Upload

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ABOUT, ARCHIVE, FILES, PARTIAL = "about.json", "archive", "files", "unpacking"
ABOUT_MAX_BYTES = 65536
OPEN_MAX = 8
"""Unfinished uploads of one user."""
FREE_PART = 4
FREE_BYTES, FREE_FILES = 2 << 30, 100_000
"""Of a volume that others need: a quarter stays free, and not more than this."""


class Uploads:
    """The uploads of one machine."""

    def __init__(self, root: Path, *, keeps_free: bool = False) -> None:
        """`keeps_free`: others would have to stop if the volume were full, so that some of it stays free."""
        self._root, self._keeps_free = root, keeps_free
        self._lock = threading.Lock()
        self._unpacking: set[str] = set()

    def begin(self, upload: Upload, total_bytes: int) -> Problem | None:
        """Make room for an archive of this size; `total_bytes` is what all uploads together may take up."""
        with self._lock:
            self._root.mkdir(mode=0o700, exist_ok=True)
            known = self.all()
            open_ones = [each for each in known if each.owner == upload.owner and not each.is_complete]
            if len(open_ones) >= OPEN_MAX:
                what = f"{len(open_ones)} of your uploads are not finished"
                return Problem(
                    "upload.too_many", what, "finish or delete them; unfinished uploads are removed after an hour"
                )
            if sum(each.size_bytes for each in known) + upload.size_bytes > total_bytes:
                return _no_room()
            if self._would_fill_volume(upload.size_bytes, files=1):
                return _volume_full()
            directory = self._directory(upload.id)
            directory.mkdir(mode=0o700)
            self._write_about(upload)
            return None

    def write(self, upload_id: str, offset: int, piece: bytes) -> int | Problem:
        """Write a piece of the archive; a piece may come twice. Returns the size so far."""
        upload = self.find(upload_id)
        if upload is None or upload.is_complete:
            return _unknown(upload_id)
        if offset + len(piece) > upload.size_bytes:
            what = f"the archive is larger than the announced {upload.size_bytes} bytes"
            return Problem("upload.too_large", what, "announce its actual size")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self._directory(upload_id) / ARCHIVE, flags, 0o600), "r+b") as file:
                there = os.fstat(file.fileno()).st_size
                if offset > there:
                    what = f"the part at offset {offset} arrived before the part at offset {there}"
                    return Problem("upload.gap", what, f"send the bytes from offset {there} on")
                file.seek(offset)
                file.write(piece)
                self._touch(upload_id)
                return max(there, offset + len(piece))
        except OSError as error:
            return self._not_written(upload_id, error)

    def finish(self, upload_id: str, bounds: Bounds) -> Upload | Problem:
        """Unpack it. One that was refused is removed."""
        upload = self.find(upload_id)
        if upload is None:
            return _unknown(upload_id)
        if upload.is_complete:
            return upload
        with self._lock:
            if upload_id in self._unpacking:
                return Problem("upload.busy", "this upload is being unpacked", "wait until it is done")
            self._unpacking.add(upload_id)
        try:
            return self._unpacked(upload, bounds)
        except OSError as error:
            return self._not_written(upload_id, error)
        finally:
            with self._lock:
                self._unpacking.discard(upload_id)

    def find(self, upload_id: str) -> Upload | None:
        """What is known of it; None: there is none."""
        if not ID.fullmatch(upload_id):
            return None
        about = self._directory(upload_id) / ABOUT
        try:
            with about.open("rb") as file:
                known: Any = json.loads(file.read(ABOUT_MAX_BYTES))
                age_s = time.time() - os.fstat(file.fileno()).st_mtime
            return replace(Upload(**known), age_s=age_s)
        except (OSError, ValueError, TypeError):
            return None

    def claim(self, upload_id: str) -> Upload | None:
        """The same, for a job that is submitted with it now: it is not removed within the next hour."""
        with suppress(OSError):
            self._touch(upload_id)
        return self.find(upload_id)

    def all(self) -> list[Upload]:
        """All uploads; also a directory whose metadata is unreadable, so that it can be removed."""
        try:
            names = sorted(name for name in os.listdir(self._root) if ID.fullmatch(name))
        except FileNotFoundError:
            return []
        return [self.find(name) or self._unidentified(name) for name in names]

    def remove(self, upload_id: str) -> None:
        """With everything that pods made in it. May be called twice."""
        if not ID.fullmatch(upload_id):
            return
        directory = self._directory(upload_id)
        with suppress(OSError), os.scandir(directory) as entries:
            # Each by itself, so that what is left if this is interrupted is found in the directory the next time.
            for entry in sorted(entries, key=lambda each: each.name, reverse=True):
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
        remove_tree(str(directory))

    def files_of(self, upload_id: str) -> Path:
        """Where the files of a complete one are."""
        return self._directory(upload_id) / FILES

    def _unpacked(self, upload: Upload, bounds: Bounds) -> Upload | Problem:
        directory = self._directory(upload.id)
        remove_tree(str(directory / PARTIAL))
        there = (directory / ARCHIVE).stat().st_size if (directory / ARCHIVE).exists() else 0
        if there != upload.size_bytes:
            what = f"only {there} of {upload.size_bytes} bytes were received"
            return Problem("upload.incomplete", what, f"send the bytes from offset {there} on")
        if self._would_fill_volume(bounds.size_bytes, bounds.files):
            self.remove(upload.id)
            return _volume_full()
        found = unpack(directory / ARCHIVE, directory / PARTIAL, bounds)
        if not isinstance(found, Contents):
            self.remove(upload.id)
            return found
        others = sum(each.size_bytes for each in self.all() if each.id != upload.id)
        if others + found.size_bytes > bounds.total_bytes:
            self.remove(upload.id)
            return _no_room()
        os.sync()  # one call for thousands of files: a job that was submitted survives a power cut with its directory
        if not (directory / FILES).exists():
            os.rename(directory / PARTIAL, directory / FILES)
        done = replace(upload, is_complete=True, files=found.files, size_bytes=found.size_bytes, age_s=0.0)
        self._write_about(done)
        (directory / ARCHIVE).unlink(missing_ok=True)
        return done

    def _would_fill_volume(self, size_bytes: int, files: int) -> bool:
        """Whether too little of it would be left after so much more, with what other uploads have announced."""
        if not self._keeps_free:
            return False
        found = os.statvfs(self._root)
        announced = sum(each.size_bytes for each in self.all() if not each.is_complete)
        spare = found.f_bavail * found.f_frsize - size_bytes - announced
        is_short = spare < min(found.f_blocks * found.f_frsize // FREE_PART, FREE_BYTES)
        has_few_files = found.f_favail - files < min(found.f_files // FREE_PART, FREE_FILES)
        return is_short or (found.f_files > 0 and has_few_files)  # some file systems do not count files

    def _not_written(self, upload_id: str, error: OSError) -> Problem:
        self.remove(upload_id)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return Problem("upload.disk_full", "the server's disk is full", "free some disk space, then try again")
        return Problem("upload.not_written", f"the upload cannot be stored ({error.strerror})", "try again")

    def _write_about(self, upload: Upload) -> None:
        known = {name: value for name, value in asdict(upload).items() if name != "age_s"}
        write_durably(self._directory(upload.id) / ABOUT, json.dumps(known).encode())

    def _touch(self, upload_id: str) -> None:
        if ID.fullmatch(upload_id):
            os.utime(self._directory(upload_id) / ABOUT)

    def _unidentified(self, name: str) -> Upload:
        try:
            age_s = time.time() - self._directory(name).stat().st_mtime
        except OSError:
            age_s = 0.0
        return Upload(id=name, owner="", project="", size_bytes=0, age_s=age_s)

    def _directory(self, upload_id: str) -> Path:
        return self._root / upload_id


def _no_room() -> Problem:
    what = "the space for uploaded directories is used up"
    return Problem("upload.no_room", what, "delete finished jobs, or raise uploads.totalMebibytes")


def _volume_full() -> Problem:
    what = "the volume with uploaded directories has too little free space"
    return Problem("upload.volume_full", what, "delete finished jobs, or ask the administrator for a larger volume")


def _unknown(upload_id: str) -> Problem:
    return Problem("upload.unknown", f"there is no upload {upload_id[:64]}", "start a new one")
