"""Uploaded directories of workloads, as control plane and agent exchange them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One uploaded directory. It has the id of the workload that it is for."""

    id: str
    owner: str
    """The id of the user who uploads it."""
    project: str
    size_bytes: int
    """Of the archive as it was announced; once it is unpacked, of the files."""
    files: int = 0
    is_complete: bool = False
    age_s: float = 0.0
    """Since it was last used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one directory may hold."""

    size_bytes: int
    files: int
    total_bytes: int
    """Of all directories together."""
