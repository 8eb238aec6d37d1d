"""Errors of the commands: one line a problem on standard error, and an exit code.

A command raises a `Failure` with everything that is wrong; `root_command.RootCommand` prints it and ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import click

from fairpool.cli.screen import printable
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean

ERROR = 1
"""Every error of `runai`. Only what runs in a pod has other codes, and they are passed on."""
UNUSABLE = 2
"""`fairpool`: a file cannot be read, or the flags make no sense."""
INTERRUPTED = 130
DAMAGED, READ_ONLY, FOREIGN, NEWER, FULL, BUSY = 4, 5, 6, 7, 8, 9
"""`fairpool`: what is wrong with its data; docs/reference/fairpool.md explains each. 3: not up."""

_EXIT_CODES = {
    "database.damaged": DAMAGED,
    "database.moved": DAMAGED,
    "ledger.damaged": DAMAGED,
    "ledger.content": DAMAGED,
    "restore.damaged": DAMAGED,
    "restore.unreadable": DAMAGED,
    "database.read_only": READ_ONLY,
    "ledger.not_writable": READ_ONLY,
    "data.read_only": READ_ONLY,
    "database.foreign": FOREIGN,
    "database.not_a_file": FOREIGN,
    "ledger.foreign": FOREIGN,
    "ledger.not_a_file": FOREIGN,
    "data.foreign": FOREIGN,
    "restore.foreign": FOREIGN,
    "database.newer": NEWER,
    "ledger.newer": NEWER,
    "restore.newer": NEWER,
    "data.full": FULL,
    "disk.full": FULL,
    "ledger.disk_full": FULL,
    "ledger.no_backup": FULL,
    "restore.full": FULL,
    "database.busy": BUSY,
    "database.used": BUSY,
    "database.older_in_use": BUSY,
    "database.address": UNUSABLE,
    "ledger.busy": BUSY,
}


class Failure(Exception):
    """A command cannot do what was asked for: everything that is wrong, at once."""

    def __init__(self, problems: Sequence[Problem], *, hint: str = "", exit_code: int = ERROR) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.hint = hint
        self.exit_code = exit_code


def failure(code: str, what: str, fix: str = "", *, hint: str = "") -> Failure:
    """One problem."""
    return Failure([Problem(code, what, fix)], hint=hint)


def fail(problems: Iterable[Problem], exit_code: int) -> NoReturn:
    """End the command."""
    raise Failure(list(problems), exit_code=exit_code)


def exit_code_of(problem: Problem) -> int:
    """The exit code of `fairpool` for a problem with its data."""
    return _EXIT_CODES.get(problem.code, ERROR)


def not_yet(what: str, fix: str = "") -> Problem:
    """Something that is documented and not supported so far: refused, never ignored."""
    return Problem("flag.not_supported_yet", f"{what} is not supported yet", fix or "leave it out")


def meant(name: str, known: Iterable[str]) -> str:
    """`Did you mean hyper1?`, or nothing."""
    said = did_you_mean(name, known)
    return said[:1].upper() + said[1:]


def print_failure(failed: Failure, complete: frozenset[str] = frozenset()) -> None:
    """Print it; problems with a code in `complete` without their fix."""
    for problem in failed.problems:
        print_problem(problem, complete)
    if failed.hint:
        click.echo(on_terminal(printable(failed.hint)), err=True)


def print_problem(problem: Problem, complete: frozenset[str] = frozenset()) -> None:
    """Print one problem, in one line."""
    text = problem.what if problem.code in complete else str(problem)
    click.echo(on_terminal(printable(text)), err=True)


def on_terminal(text: str) -> str:
    """A message in lines that fit the terminal; in a pipe it stays one line."""
    if sys.stderr is None or not sys.stderr.isatty():
        return text
    import shutil  # only for errors
    import textwrap

    width = max(40, shutil.get_terminal_size().columns)
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def unexpected(error: BaseException, *, with_stack: bool = False) -> str:
    """What is printed of a bug: its type and place, and never its message or values, which may hold a secret."""
    import traceback  # only for bugs

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    lines = [f"unexpected error: {type(error).__name__}{place}. This is a bug in Fairpool: please report it."]
    if with_stack:
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join(lines)
