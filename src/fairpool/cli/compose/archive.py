"""Backup and restore: what people declared, in one file.

In it are the control plane's database, as of one moment, and the table of images. Not in it are what pods wrote and
saved, which is theirs to keep, and the cluster's ledger: a copy of that knows of pods that are over and not of those
that run. After a restore it is built anew, from what runs and what is declared.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tarfile
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fairpool import __version__
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.cli.compose.premises import Premises, Unusable
from fairpool.control.store import condition
from fairpool.model.problem import Problem

FORMAT = 1
ABOUT, CONTROL = "about.json", "control.sqlite"
ABOUT_MAX_BYTES = 65536


def make_backup(premises: Premises, file: Path) -> int:
    """Write a backup, whole or not at all; says how large it is. Raises `Unusable`."""
    if not premises.control.is_file():
        what = f"there is nothing to keep in {premises.root}: no Fairpool was ever started on it"
        raise Unusable(Problem("backup.nothing", what, "name the right folder with --data"))
    partial = file.with_name(f".{file.name}.partial")
    try:
        with tempfile.TemporaryDirectory(dir=premises.root, prefix=".backup-") as folder:
            copy = Path(folder) / CONTROL
            condition.copy_database(premises.control, copy)
            handle = os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as raw:
                with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
                    _add_about(archive, copy)
                    archive.add(copy, CONTROL)
                    if (images := premises.machine / IMAGES_FILE).is_file():
                        archive.add(images, IMAGES_FILE)
                raw.flush()
                os.fsync(raw.fileno())
        partial.replace(file)
        return file.stat().st_size
    except (OSError, sqlite3.Error) as error:
        what = f"no backup can be written to {file}: {_words(error)}"
        raise Unusable(
            Problem("backup.not_written", what, "name a file in a folder with room that you may write")
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _add_about(archive: tarfile.TarFile, copy: Path) -> None:
    said = {"format": FORMAT, "fairpool": __version__, "at": time.time(), "database": condition.version_of(copy)}
    text = json.dumps(said).encode()
    about = tarfile.TarInfo(ABOUT)
    about.size, about.mode, about.mtime = len(text), 0o600, int(time.time())
    archive.addfile(about, io.BytesIO(text))


def restore_backup(premises: Premises, file: Path) -> tuple[datetime, list[Path]]:
    """Put a backup in the place of what is there; says from when it is, and where what was there went.

    Whoever calls holds the folder: nothing may run on it. Raises `Unusable`, and then nothing has changed.
    """
    try:
        with (
            tarfile.open(file, "r:gz") as archive,
            tempfile.TemporaryDirectory(dir=premises.root, prefix=".restore-") as folder,
        ):
            made_at = _made_at(archive, file)
            new = Path(folder) / CONTROL
            _extract(archive, CONTROL, new)
            _check(new, file)
            images = Path(folder) / IMAGES_FILE
            has_images = IMAGES_FILE in archive.getnames()
            if has_images:
                _extract(archive, IMAGES_FILE, images)
            kept = _put_aside(premises)
            new.replace(premises.control)
            if has_images:
                premises.machine.mkdir(exist_ok=True, mode=0o700)
                images.replace(premises.machine / IMAGES_FILE)
            return made_at, kept
    except (OSError, tarfile.TarError, sqlite3.Error, EOFError) as error:
        what = f"{file} cannot be put back: {_words(error)}"
        raise Unusable(Problem("restore.unreadable", what, "name a file that `fairpool backup` wrote")) from error


def _made_at(archive: tarfile.TarFile, file: Path) -> datetime:
    try:
        member = archive.extractfile(ABOUT)
        about = json.loads(member.read(ABOUT_MAX_BYTES)) if member is not None else {}
        if about.get("format") == FORMAT:
            return datetime.fromtimestamp(float(about["at"]), UTC)
        version = about.get("fairpool", "?")
    except (KeyError, ValueError, TypeError) as error:
        what = f"{file} is no backup of Fairpool"
        raise Unusable(Problem("restore.foreign", what, "name a file that `fairpool backup` wrote")) from error
    what = f"{file} was written by Fairpool {version}, in a form that this one ({__version__}) does not know"
    raise Unusable(Problem("restore.newer", what, "restore it with that Fairpool"))


def _extract(archive: tarfile.TarFile, name: str, target: Path) -> None:
    """One member, by its content only: neither its path nor its rights are believed."""
    member = archive.extractfile(name)
    if member is None:
        raise tarfile.ReadError(f"{name} in it is no file")
    with member, os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        while piece := member.read(1 << 20):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _check(new: Path, file: Path) -> None:
    problem = condition.problem_with(new)
    if problem is not None and problem.code == "database.newer":
        what = f"{file} was written by a newer Fairpool"
        raise Unusable(Problem("restore.newer", what, "restore it with that Fairpool"))
    if problem is not None or not condition.is_sound(new):
        raise Unusable(Problem("restore.damaged", f"the database in {file} is damaged", "use an older backup"))


def _put_aside(premises: Premises) -> list[Path]:
    """Nothing is thrown away: a restore may have been a mistake."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = []
    if premises.control.exists():
        aside = premises.control.with_name(f"{premises.control.name}.before-restore-{stamp}")
        with suppress(sqlite3.DatabaseError):  # a damaged one may be why somebody restores
            condition.copy_database(premises.control, aside)
        if not aside.exists():
            premises.control.replace(aside)
        kept.append(aside)
    for suffix in ("-wal", "-shm"):
        Path(f"{premises.control}{suffix}").unlink(missing_ok=True)
    for suffix in ("", "-wal", "-shm"):
        file = Path(f"{premises.ledger}{suffix}")
        if file.exists():
            aside = Path(f"{premises.ledger}.before-restore-{stamp}{suffix}")
            file.replace(aside)
            kept += [aside] if not suffix else []
    return kept


def _words(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said.lower() or type(error).__name__
