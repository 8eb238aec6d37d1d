"""Problems on the terminal: what is wrong, what to do, and the exit code that goes with it."""

from __future__ import annotations

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
FAILED = 1
DAMAGED, READ_ONLY, FOREIGN, NEWER, FULL, BUSY = 4, 5, 6, 7, 8, 9
"""Exit codes of `fairpool` for what is wrong with its data; docs/reference/fairpool.md explains each. 3: not up."""

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
    "ledger.busy": BUSY,
}


def exit_code_of(problem: Problem) -> int:
    """What `fairpool` ends with because of this."""
    return _EXIT_CODES.get(problem.code, FAILED)


def fail(problems: Iterable[Problem], exit_code: int) -> NoReturn:
    """Say what is wrong on standard error, and end."""
    for problem in problems:
        complain(str(problem))
    raise click.exceptions.Exit(exit_code)


def complain(text: str) -> None:
    """One thing that is wrong, in one line on standard error: every command of ours says it in this way."""
    click.echo(printable(text), err=True)


def unexpected(error: BaseException, *, with_stack: bool = False) -> str:
    """What to say about a bug: its kind and its place, and never its words or values, which may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    lines = [f"unexpected error: {type(error).__name__}{place}. This is a bug in Fairpool: please report it."]
    if with_stack:
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join(lines)
