"""Names of projects, departments and node pools, checked before anything is sent."""

from __future__ import annotations

import re

from fairpool.api.limits import NAME_PATTERN
from fairpool.cli.failure import failure

NAME = re.compile(NAME_PATTERN)


def check_name(name: str, longest: int) -> None:
    """Raises a failure that says what a name looks like."""
    if not NAME.fullmatch(name) or len(name) > longest:
        fix = f"use up to {longest} characters: a-z, 0-9 and -, starting with a letter, such as team-a"
        raise failure("flag.name", f"{name!r} is not a valid name", fix)
