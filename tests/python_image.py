"""An image with the Python of this process, to build our own images from where no registry can be reached."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pydantic_core

WITHOUT = {"test", "tests", "site-packages", "dist-packages", "__pycache__", "idlelib", "tkinter", "ensurepip"}
SERVER_PACKAGES = ("aiohttp", "asyncpg", "cryptography", "lxml", "msgspec", "numpy", "sqlalchemy", "uvloop")
"""Those with extensions that need libraries of the machine."""


def python_archive(folder: Path, packages: Sequence[str] = ()) -> Path:
    """The interpreter of this process, its library and what both need of the machine, as the files of an image; also
    what the extensions of these installed packages need."""
    library = Path(sysconfig.get_path("stdlib"))
    program = Path(sys.executable).resolve()
    installed = Path(sysconfig.get_path("platlib"))
    extensions = [Path(pydantic_core._pydantic_core.__file__), *(library / "lib-dynload").glob("*.so")]
    for name in packages:
        extensions += (installed / name).rglob("*.so")
    needed = {Path("/usr/bin/env"), *(each for each in libraries_of(program, *extensions))}
    with tarfile.open(folder / "python.tar", "w", dereference=True) as archive:
        for path in (program, library, *sorted(each for each in needed if not each.is_relative_to(installed))):
            archive.add(path, filter=lambda entry: None if WITHOUT & set(Path(entry.name).parts) else entry)
        for place in ("usr/local/bin/python3", "tmp"):
            entry = tarfile.TarInfo(place)
            entry.type, entry.mode = (tarfile.DIRTYPE, 0o1777) if place == "tmp" else (tarfile.SYMTYPE, 0o777)
            entry.linkname = str(program) if place != "tmp" else ""
            archive.addfile(entry)
    return folder / "python.tar"


def libraries_of(*programs: Path) -> list[Path]:
    """The shared libraries that they load."""
    listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    return [Path(word) for word in listed.split() if word.startswith("/") and not word.endswith(":")]
