"""Names of projects, departments, node pools and clusters: checked before anything is sent, and looked up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from fairpool.cli.failure import failure, meant
from fairpool.cli.runai.session import NAME

T = TypeVar("T", bound=Any)


def check_name(name: str, longest: int) -> None:
    """Raises a failure with the rule for names."""
    if not NAME.fullmatch(name) or len(name) > longest:
        fix = f"use up to {longest} characters: a-z, 0-9 and -, starting with a letter, such as team-a"
        raise failure("flag.name", f"{name!r} is not a valid name", fix)


def find_named(noun: str, name: str, found: Iterable[T]) -> T:
    """The one of this name; raises a failure with names that may be meant."""
    by_name = {each.name: each for each in found}
    if name not in by_name:
        code = noun.rpartition(" ")[2]
        raise failure(f"{code}.unknown", f"there is no {noun} {name}", hint=meant(name, by_name))
    return by_name[name]
