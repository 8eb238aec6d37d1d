"""The command as a package that pip installs: a wheel of this program, made from the files it is installed from.

A user of the web UI gets the very version of `runai` that fits the server, also where the server was installed from
a checkout or has no way to a package index. The wheel contains the program and nothing of this installation: only kinds
of files that the program consists of, no links, not the web UI, and of the metadata not the path it was installed from.
The same files make the same wheel, byte for byte, so that two control planes offer one checksum.

The routes are in `downloads.py`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

NAME = "fairpool"
FOLDER = Path(__file__).parents[1]
"""Of the package: also right where it is installed in editable form."""
KINDS = frozenset({".py", ".toml", ".sh", ".typed", ".yaml"})
"""What the program consists of. Anything else beside it is not ours to hand out."""
LEFT_OUT = frozenset({"__pycache__", "control/static"})
"""The web UI is for servers: it is most of the package, and this is for the command."""
SOURCE_MAX_BYTES = 32 * 1024 * 1024
"""Of all files together. Ours have a quarter of it."""
MADE_AT = (2020, 2, 2, 0, 0, 0)
"""A wheel has times of files; the same for all, so that it depends on their contents only."""
DESCRIPTION = "Wheel-Version: 1.0\nGenerator: fairpool\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
FILE, EXECUTABLE = 0o100644, 0o100755


class NoPackage(Exception):
    """There is nothing to make a package from."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel."""

    name: str
    version: str
    content: bytes
    sha256: str


def installed_package() -> Wheel:
    """The wheel of the running program. Reads about a thousand small files. Raises `NoPackage`."""
    try:
        found = distribution(NAME)
    except PackageNotFoundError as error:
        raise NoPackage("this program runs without having been installed") from error
    return wheel(_package_files(FOLDER), found.version, _metadata_files(found))


def wheel(files: Mapping[str, tuple[bytes, int]], version: str, metadata: Mapping[str, bytes]) -> Wheel:
    """A wheel of these files of the package, by their path in it, with their mode; and of its metadata."""
    info = f"{NAME}-{version}.dist-info"
    parts = {f"{NAME}/{path}": each for path, each in files.items()}
    parts |= {f"{info}/{path}": (content, FILE) for path, content in metadata.items()}
    parts[f"{info}/WHEEL"] = (DESCRIPTION.encode(), FILE)
    record = [f"{path},{_digest(content)},{len(content)}" for path, (content, _) in sorted(parts.items())]
    record.append(f"{info}/RECORD,,")
    ordered = [*sorted(parts.items()), (f"{info}/RECORD", ("\n".join([*record, ""]).encode(), FILE))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (content, mode) in ordered:
            member = zipfile.ZipInfo(path, MADE_AT)
            member.create_system, member.external_attr = 3, mode << 16  # Unix, whatever this machine is
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content)
    content = packed.getvalue()
    name = f"{NAME}-{version}-py3-none-any.whl"
    return Wheel(name, version, content, hashlib.sha256(content).hexdigest())


def _digest(content: bytes) -> str:
    """As RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _package_files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The program's files below a folder. Links are not followed."""
    found: dict[str, tuple[bytes, int]] = {}
    size = 0
    for where, below, names in os.walk(folder, followlinks=False):
        here = Path(where).relative_to(folder)
        below[:] = [name for name in below if not {name, (here / name).as_posix()} & LEFT_OUT]
        for name in names:
            file = Path(where, name)
            if name.startswith(".") or file.suffix not in KINDS or file.is_symlink() or not file.is_file():
                continue
            status = file.stat()
            size += status.st_size
            if size > SOURCE_MAX_BYTES:
                raise NoPackage(f"the program has more than {SOURCE_MAX_BYTES >> 20} MiB")
            found[(here / name).as_posix()] = file.read_bytes(), EXECUTABLE if status.st_mode & 0o100 else FILE
    return found


def _metadata_files(found: Distribution) -> dict[str, bytes]:
    """What a wheel says about itself, without what an installation adds: who installed it, and from which path."""
    described, points = found.read_text("METADATA"), found.read_text("entry_points.txt")
    if described is None or points is None:
        raise NoPackage("this program was installed without its metadata")
    files = {"METADATA": described.encode(), "entry_points.txt": points.encode()}
    for name in found.metadata.get_all("License-File") or []:
        text = found.read_text(f"licenses/{name}") if "/" not in name else None
        if text is not None:
            files[f"licenses/{name}"] = text.encode()
    return files
