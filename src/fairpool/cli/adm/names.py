"""Names of projects, departments and node pools, checked before anything is sent."""

from __future__ import annotations

from fairpool.cli.failure import failure
from fairpool.cli.runai.session import NAME


def check_name(name: str, longest: int) -> None:
    """Raises a failure with the rule for names."""
    if not NAME.fullmatch(name) or len(name) > longest:
        fix = f"use up to {longest} characters: a-z, 0-9 and -, starting with a letter, such as team-a"
        raise failure("flag.name", f"{name!r} is not a valid name", fix)
