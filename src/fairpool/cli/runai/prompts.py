"""Questions that are answered in a terminal, or on standard input."""

from __future__ import annotations

import sys

import click

from fairpool.cli.failure import failure


def prompted(word: str, fix: str) -> str:
    """A line of text. If standard input ends without one and is no terminal, a failure that says what to do instead."""
    try:
        return str(click.prompt(word, err=True))
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise  # Ctrl-C or Ctrl-D
    click.echo(err=True)  # ends the line of the question
    raise failure("command.no_terminal", f"the {word.lower()} is missing, and there is no terminal to ask for it", fix)
