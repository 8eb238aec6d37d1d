"""Suggestions for misspelled names, and plurals of nouns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fairpool.model.problem import Problem


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean big-1 or big-2?`, or something else to say if nothing is near."""
    near = nearest(name, known)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that this one may be a slip of."""
    known = sorted(set(known))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return close or [each for each in known if name and (each.startswith(name) or name.lower() == each.lower())][:3]


def plural(noun: str) -> str:
    """`categories`, `node pools`."""
    is_vowel_before = noun[-2:-1] in "aeiou"
    return f"{noun[:-1]}ies" if noun.endswith("y") and not is_vowel_before else f"{noun}s"


def unknown_name(noun: str, name: str, known: Iterable[str]) -> Problem:
    """A name that is not in the snapshot, and which ones are."""
    known = sorted(set(known))
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    there = f"there are: {', '.join(known[:8])}{more}" if known else f"this snapshot has no {noun}"
    what = f"there is no {noun} {name!r} in the snapshot"
    return Problem(f"{noun}.unknown", what, did_you_mean(name, known, there))
