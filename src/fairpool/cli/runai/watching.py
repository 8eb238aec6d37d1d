"""`--watch`: tables that are refreshed, on the alternate screen of a terminal or one after the other in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import flag
from fairpool.cli.screen import Screen

Draw = Callable[[Screen], None]


def watch_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--watch` and `--interval`; the command gets `watch`, `interval` and `rounds`."""
    decorators = (
        flag("-w", "--watch", is_flag=True, help="Refresh until Ctrl-C."),
        flag(
            "--interval",
            type=click.FloatRange(0.2, 3600),
            default=2.0,
            metavar="SECONDS",
            help="Refresh interval of --watch (2).",
        ),
        flag("--rounds", type=click.IntRange(1), default=None, hidden=True, help="Stop after this many refreshes."),
    )
    for each in reversed(decorators):
        command = each(command)
    return command


def redraw(draw: Draw, interval: float, rounds: int | None) -> None:
    """Draw now and after each interval, until Ctrl-C or for so many rounds."""
    if sys.stdout.isatty():
        _on_terminal(draw, interval, rounds)
    else:
        _in_pipe(draw, interval, rounds)


def _on_terminal(draw: Draw, interval: float, rounds: int | None) -> None:
    """On the alternate screen, so that the terminal looks as before afterwards."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for _ in _turns(interval, rounds):
            screen = Screen(width=console.width)
            draw(screen)
            footer = f"Refreshed every {interval:g} s. Ctrl-C to quit."
            hidden = len(screen.lines) - max(1, console.height - 2)
            if hidden > 0:
                footer = f"{hidden} more {'line does' if hidden == 1 else 'lines do'} not fit. {footer}"
            lines = [*screen.lines[: max(1, console.height - 2)], "", footer]
            live.update(Text.from_ansi("\n".join(lines[: console.height])), refresh=True)


def _in_pipe(draw: Draw, interval: float, rounds: int | None) -> None:
    """Whole tables, one after the other, each with its time."""
    for _ in _turns(interval, rounds):
        screen = Screen()
        draw(screen)
        screen.lines.insert(0, f"--- {ages.now().astimezone().strftime('%Y-%m-%d %H:%M:%S')}")
        screen.show()
        sys.stdout.flush()


def _turns(interval: float, rounds: int | None) -> Iterator[int]:
    number = 0
    while rounds is None or number < rounds:
        if number:
            time.sleep(interval)
        yield number
        number += 1
