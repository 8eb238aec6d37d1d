"""The user each project's pods run as where Fairpool runs as root: numbers of their own, given out once.

The numbers are kept in the data directory, because files in claims and checkpoints belong to them. They begin where
neither accounts, containers nor systemd take any from; an administrator may choose another beginning in the file before
the first project has run something.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from fairpool.agent.durable import write_durably
from fairpool.agent.isolation import User
from fairpool.model.ids import QueueId

FILE = "users.json"
FIRST_UID = 2_000_000_000
LAST_UID = FIRST_UID + 65_535


class Numbers(msgspec.Struct):
    """What lies in the file."""

    first: int = FIRST_UID
    projects: dict[str, int] = {}


class ProjectUsers:
    """Which number belongs to which project."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._numbers: Numbers | None = None

    def user_of(self, project: QueueId) -> User:
        """Its user, from the first time on the same. Raises OSError where that cannot be written down or read."""
        numbers = self._numbers or self._read()
        uid = numbers.projects.get(project)
        if uid is None:
            uid = max([numbers.first - 1, *numbers.projects.values()]) + 1
            numbers.projects[project] = uid
            write_durably(self._path, msgspec.json.encode(numbers))
        self._numbers = numbers
        return User(uid, uid)

    def _read(self) -> Numbers:
        try:
            numbers = msgspec.json.decode(self._path.read_bytes(), type=Numbers)
        except FileNotFoundError:
            return Numbers(projects={})
        except msgspec.DecodeError as error:
            raise OSError(0, f"{self._path} cannot be read ({error}): restore it from a backup") from error
        if min([numbers.first, *numbers.projects.values()]) <= 0:
            raise OSError(0, f"{self._path} assigns user 0 to a project: restore it from a backup")
        return numbers


def hand_over(folder: str, user: User) -> None:
    """Make a folder and all that is in it the user's, unless it is: what earlier versions made belongs to root.

    Links are handed over themselves, never what they point to.
    """
    about = os.lstat(folder)
    if (about.st_uid, about.st_gid) == (user.uid, user.gid):
        return
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                os.chown(entry.path, user.uid, user.gid, follow_symlinks=False)
    # Last, so that a hand-over that was cut off is begun anew.
    os.chown(folder, user.uid, user.gid)
