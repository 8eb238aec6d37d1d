"""Users of projects, where Fairpool runs as root: each project's pods run with a uid of their own, assigned once.

The numbers are kept in the data directory, because files in claims and checkpoints belong to them. They begin where
neither accounts, containers nor systemd take any from; an administrator may choose another beginning in the file before
the first project has run something.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from fairpool.agent.durable import write_durably
from fairpool.agent.isolation import PodUser
from fairpool.model.ids import PROJECT_UIDS, QueueId

FILE = "users.json"
FIRST_UID, LAST_UID = PROJECT_UIDS[0], PROJECT_UIDS[-1]
USERS_MAX = len(PROJECT_UIDS)
HIGHEST_UID = 2**32 - 2
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Numbers(msgspec.Struct):
    """The content of the file."""

    first: int = FIRST_UID
    projects: dict[str, int] = {}


class ProjectUsers:
    """The uid of each project."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._numbers: Numbers | None = None
        self._lock = threading.Lock()

    def user_of(self, project: QueueId) -> PodUser:
        """Its user, always the same. Raises OSError if the file cannot be written or read."""
        with self._lock:
            numbers = self._numbers or self._read()
            uid = numbers.projects.get(project)
            if uid is None:
                uid = max([numbers.first - 1, *numbers.projects.values()]) + 1
                if uid > min(numbers.first + USERS_MAX - 1, HIGHEST_UID):
                    raise OSError(0, f"{self._path} has no user left for project {project}")
                given = Numbers(numbers.first, {**numbers.projects, project: uid})
                write_durably(self._path, msgspec.json.encode(given))
                numbers = given
            self._numbers = numbers
            return PodUser(uid, uid)

    def _read(self) -> Numbers:
        try:
            return _checked(self._path)
        except FileNotFoundError:
            return self._found()

    def _found(self) -> Numbers:
        """Without the file: from the owners of claims and checkpoints, so that no project gets another's files."""
        numbers, taken = Numbers(projects={}), [FIRST_UID - 1]
        for place, is_project in (("claims", True), ("checkpoints", False)):
            for directory in _directories(self._path.parent / place):
                owners = [
                    uid
                    for each in (directory, *_directories(directory))
                    if FIRST_UID <= (uid := _owner(each)) <= LAST_UID
                ]
                taken += owners
                if is_project and owners and owners[-1] not in numbers.projects.values():
                    numbers.projects[directory.name] = owners[-1]
        numbers.first = max(taken) + 1
        return numbers


def _directories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _owner(directory: Path) -> int:
    return directory.lstat().st_uid


def problem_with_users(file: Path) -> str:
    """Why a table of users cannot be used; empty: it can."""
    try:
        _checked(file)
    except OSError as error:
        return str(error.strerror)
    return ""


def _checked(file: Path) -> Numbers:
    try:
        numbers = msgspec.json.decode(file.read_bytes(), type=Numbers)
    except msgspec.DecodeError as error:
        raise OSError(0, f"{file} cannot be read ({error}): restore it from a backup") from error
    given = list(numbers.projects.values())
    if min([numbers.first, *given]) <= 0 or max([numbers.first, *given]) > HIGHEST_UID:
        raise OSError(0, f"{file} gives a project a user that cannot be: restore it from a backup")
    if len(set(given)) < len(given):
        raise OSError(0, f"{file} gives two projects one user: restore it from a backup")
    return numbers


def chown_tree(directory: str, user: PodUser) -> None:
    """Change the owner of a tree, unless it is the user's already: what earlier versions made belongs to root.

    Of links the link itself, never its target. It goes from directory to directory by descriptor, however deep they
    are: a pod may move them meanwhile, and no path is followed.
    """
    top = here = os.open(directory, DIRECTORY)
    try:
        about = os.fstat(top)
        if (about.st_uid, about.st_gid) == (user.uid, user.gid):
            return
        way = [(_identity(about), _chown_entries(here, user))]
        while way:
            below = way[-1][1]
            if below:
                down = _opened_below(here, below.pop())
                if down is not None:
                    here = _instead(down, here, top)
                    way.append((_identity(os.fstat(here)), _chown_entries(here, user)))
                continue
            way.pop()
            if way:
                here = _instead(os.open("..", DIRECTORY, dir_fd=here), here, top)
                if _identity(os.fstat(here)) != way[-1][0]:
                    raise OSError(errno.ESTALE, f"{directory} was changed while its owner was changed")
        # Last, so that an interrupted change is begun anew.
        os.fchown(top, user.uid, user.gid)
    finally:
        if here != top:
            os.close(here)
        os.close(top)


def _chown_entries(here: int, user: PodUser) -> list[str]:
    """Change the owner of the entries of a directory; returns which of them are directories."""
    directories = []
    with os.scandir(here) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            with suppress(FileNotFoundError):
                os.chown(entry.name, user.uid, user.gid, dir_fd=here, follow_symlinks=False)
    return directories


def _opened_below(here: int, name: str) -> int | None:
    """None: it is gone, or a link by now."""
    try:
        return os.open(name, DIRECTORY, dir_fd=here)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _instead(new: int, old: int, top: int) -> int:
    if old != top:
        os.close(old)
    return new


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino
