"""What an image name stands for where there are no containers: an alias table that the administrator edits.

The table that ships is copied into the data folder once and read from there whenever it has changed. A name that is
not in it is what a failed pull is elsewhere: the pod waits, and says so in the words people know.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from fairpool.model.problem import Problem

SHIPPED = Path(__file__).with_name("images.toml")
FILE = "images.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What starts, where, and with which files, when an image is asked for."""

    name: str
    entrypoint: tuple[str, ...] = ()
    """What always starts; arguments are appended to it."""
    command: tuple[str, ...] = ()
    """What follows, or starts where there is no entrypoint; arguments replace all of it."""
    working_dir: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """Path in the pod, and the file or folder on the machine that is seen there."""


@dataclass(slots=True)
class ImageTable:
    """The aliases in the data folder, as they are now."""

    path: Path
    support: Path
    _read_ns: int = 0
    _images: tuple[Image, ...] = ()
    _trouble: str = ""
    _answers: dict[str, Image | Problem] = field(default_factory=dict)

    def install(self) -> None:
        """Put the table that ships where the administrator can edit it, unless one is there."""
        if not self.path.exists():
            new = self.path.with_suffix(".new")
            shutil.copyfile(SHIPPED, new)
            new.rename(self.path)

    def refresh(self) -> bool:
        """Read the table again if it was edited; says whether it was."""
        try:
            changed_ns = self.path.stat().st_mtime_ns
        except FileNotFoundError:
            changed_ns = -1
        if changed_ns == self._read_ns:
            return False
        self._read_ns = changed_ns
        self._answers.clear()
        try:
            self._images = read_images(self.path.read_text(encoding="utf-8"), self.support)
            self._trouble = ""
        except (OSError, ValueError, TypeError, KeyError) as error:
            # What ran with the table as it was goes on; only new names are in trouble until it is mended.
            self._trouble = f"{self.path} cannot be read: {error}"
        return True

    def find(self, name: str) -> Image | Problem:
        """What an image name stands for."""
        if name not in self._answers:
            self._answers[name] = self._look_up(name)
        return self._answers[name]

    def _look_up(self, name: str) -> Image | Problem:
        wanted = without_registry(name)
        for image in self._images:
            if fnmatchcase(wanted, image.name) or fnmatchcase(without_tag(wanted), image.name):
                return image
        what = self._trouble or f'no alias for the image "{name}" on a machine without containers'
        return Problem("image.unknown", what, f"add one to {self.path}, or use an image that is in it")


def read_images(text: str, support: Path) -> tuple[Image, ...]:
    """The entries of a table, with its placeholders filled in."""

    def filled(word: str) -> str:
        return word.replace("{python}", sys.executable).replace("{support}", str(support))

    return tuple(
        Image(
            name=str(row["name"]),
            entrypoint=tuple(filled(word) for word in row.get("entrypoint", ())),
            command=tuple(filled(word) for word in row.get("command", ())),
            working_dir=str(row.get("working_dir", "")),
            environment=tuple((key, filled(str(value))) for key, value in row.get("environment", {}).items()),
            files=tuple((place, filled(source)) for place, source in row.get("files", {}).items()),
        )
        for row in tomllib.loads(text).get("image", ())
    )


def without_registry(name: str) -> str:
    """The name without the host it is pulled from: the first part, if it can only be a host."""
    host, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return (rest if is_host else name).removeprefix("library/")


def without_tag(name: str) -> str:
    """The name without tag and digest."""
    plain = name.partition("@")[0]
    head, colon, tag = plain.rpartition(":")
    return head if colon and "/" not in tag else plain
