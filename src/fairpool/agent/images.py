"""Images without containers: a table, edited by the administrator, that maps image names to programs of the machine.

The shipped table is copied into the state directory once and read from there whenever it has changed. A name that is
not in it is treated like a failed pull: the pod waits with ErrImagePull.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairpool.agent.durable import write_durably
from fairpool.model.image_name import fits
from fairpool.model.problem import Problem

SHIPPED = Path(__file__).with_name("images.toml")
FILE = "images.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image name starts, where, and with which files."""

    name: str
    entrypoint: tuple[str, ...] = ()
    """What always starts; arguments are appended to it."""
    command: tuple[str, ...] = ()
    """What follows, or starts where there is no entrypoint; arguments replace all of it."""
    working_dir: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """Path in the pod, and the file or directory on the machine that is mounted there."""


@dataclass(slots=True)
class ImageTable:
    """The table in the state directory."""

    path: Path
    support: Path
    _read_ns: int = 0
    _images: tuple[Image, ...] = ()
    _error: str = ""
    _answers: dict[str, Image | Problem] = field(default_factory=dict)

    def install(self) -> None:
        """Copy the shipped table to where the administrator can edit it, unless one is there."""
        if not self.path.exists():
            write_durably(self.path, SHIPPED.read_bytes())

    def refresh(self) -> bool:
        """Read the table again if it was edited; returns whether it was."""
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
            self._error = ""
        except Exception as error:  # a mistake in the table must not stop the server
            # Images of the table as it was stay usable; only new ones wait until it is repaired.
            self._error = f"{self.path} cannot be read: {error}"
        return True

    @property
    def patterns(self) -> tuple[str, ...]:
        """The images there are."""
        return tuple(image.name for image in self._images)

    def find(self, name: str) -> Image | Problem:
        """The entry of an image name."""
        if name not in self._answers:
            self._answers[name] = self._look_up(name)
        return self._answers[name]

    def _look_up(self, name: str) -> Image | Problem:
        for image in self._images:
            if fits(name, image.name):
                return image
        what = self._error or f'no alias for the image "{name}" on a machine without containers'
        return Problem("image.unknown", what, f"add one to {self.path}, or use an image listed there")


def machine_python() -> str:
    """The interpreter that the server's virtual environment was created with: pods use that one."""
    return os.path.realpath(sys.executable)


def read_images(text: str, support: Path) -> tuple[Image, ...]:
    """The entries of a table, with placeholders filled in. Raises ValueError with a message for the administrator."""

    def filled(word: str) -> str:
        return word.replace("{python}", machine_python()).replace("{support}", str(support))

    rows = tomllib.loads(text).get("image", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("each entry begins with a line [[image]], in double brackets")
    return tuple(_image(row, number, filled) for number, row in enumerate(rows, 1))


def _image(row: Mapping[str, Any], number: int, filled: Callable[[str], str]) -> Image:
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f'entry {number} has no name: write one, as in name = "python"')
    where = f'in the entry "{name}"'
    working_dir = row.get("working_dir", "")
    if not isinstance(working_dir, str):
        raise ValueError(f"{where}, working_dir must be a string")
    return Image(
        name=name,
        entrypoint=tuple(filled(word) for word in _texts(row, "entrypoint", where)),
        command=tuple(filled(word) for word in _texts(row, "command", where)),
        working_dir=working_dir,
        environment=tuple((key, filled(value)) for key, value in _pairs(row, "environment", where)),
        files=tuple((place, filled(source)) for place, source in _pairs(row, "files", where)),
    )


def _texts(row: Mapping[str, Any], key: str, where: str) -> list[str]:
    words = row.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f'{where}, {key} must be a list of strings, as in {key} = ["python3", "train.py"]')
    return words


def _pairs(row: Mapping[str, Any], key: str, where: str) -> list[tuple[str, str]]:
    pairs = row.get(key, {})
    if not isinstance(pairs, dict) or not all(isinstance(value, str | int | float) for value in pairs.values()):
        raise ValueError(f'{where}, {key} must be a table of strings, as in {key} = {{ "NAME" = "value" }}')
    if wrong := next((name for name in pairs if not name or "=" in name or "\0" in name), None):
        raise ValueError(f"{where}, {key} has {wrong!r}, which is not a valid name")
    return [(name, str(value)) for name, value in pairs.items()]
