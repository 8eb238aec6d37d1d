"""A folder that was uploaded for a workload, as control plane and agent speak of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One uploaded folder. It has the id of the workload that it is for."""

    id: str
    owner: str
    """The id of the person who uploads it."""
    project: str
    size_bytes: int
    """Of the archive as it was announced; once it is unpacked, of the files."""
    files: int = 0
    is_complete: bool = False
    age_s: float = 0.0
    """Since somebody last used it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one folder may hold."""

    size_bytes: int
    files: int
    total_bytes: int
    """Of all folders together."""
