"""Problems on the terminal: what is wrong, what to do, and the exit code that goes with it."""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

NOT_FOUND = 1
"""Exit code of a question with an unwelcome answer: no such group, or a file with problems in it."""
UNUSABLE = 2
"""Exit code of a file that cannot be read and of flags that make no sense."""


def fail(problems: Iterable[Problem], exit_code: int) -> NoReturn:
    """Say what is wrong on standard error, and end."""
    colour = False if os.environ.get("NO_COLOR") else None  # None: as the terminal can
    for problem in problems:
        click.echo(f"{click.style('error:', fg='red')} {printable(problem.what)}", err=True, color=colour)
        if problem.fix:
            click.echo(f"  fix: {printable(problem.fix)}", err=True)
    raise click.exceptions.Exit(exit_code)


def unexpected(error: BaseException, *, with_stack: bool = False) -> str:
    """What to say about a bug: its kind and its place, and never its words or values, which may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    lines = [f"unexpected error: {type(error).__name__}{place}. This is a bug in Fairpool: please report it."]
    if with_stack:
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join(lines)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean big-1 or big-2?`, or something else to say if nothing is near."""
    near = nearest(name, known)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that this one may be a slip of."""
    known = sorted(set(known))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return close or [each for each in known if name and (each.startswith(name) or name.lower() == each.lower())][:3]


def unknown_name(noun: str, name: str, known: Iterable[str]) -> Problem:
    """A name that is not in the snapshot, and which ones are."""
    known = sorted(set(known))
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    there = f"there are: {', '.join(known[:8])}{more}" if known else f"there is no {noun} in this snapshot at all"
    what = f"there is no {noun} {name!r} in the snapshot"
    return Problem(f"{noun}.unknown", what, did_you_mean(name, known, there))
