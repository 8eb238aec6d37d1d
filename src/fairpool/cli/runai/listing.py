"""Answers in the form that was asked for: columns within the terminal or whole in a pipe, JSON, YAML, names.

A table in a terminal that is too narrow leaves out what matters least and says so. In a pipe nothing is left out, and
nothing is coloured. What comes from elsewhere never reaches a terminal as an escape.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from fairpool.api.record import document
from fairpool.cli.runai.flags import flag
from fairpool.cli.screen import Screen, printable

RowT = TypeVar("RowT")
GAP = "  "
PROSE_LEAST = 30
FORMATS = ("json", "yaml", "wide", "name")
NUMBERS = re.compile(r"(\d+)")

COLOURS = {
    "Running": "green",
    "Ready": "green",
    "Succeeded": "cyan",
    "Pending": "yellow",
    "ContainerCreating": "yellow",
    "Terminating": "yellow",
    "Suspended": "yellow",
    "Failed": "red",
    "Error": "red",
    "CrashLoopBackOff": "red",
    "ImagePullBackOff": "red",
    "ContainerCannotRun": "red",
    "NotReady": "red",
    "Unknown": "red",
}

output_flag = flag(
    "-o", "--output", type=click.Choice(FORMATS), help="Output format: json, yaml, wide (all columns) or name."
)


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make a `Column[Row](...)`
class Column(Generic[RowT]):
    """One column of a table."""

    heading: str
    cell: Callable[[RowT], str]
    spare: int = 0
    """Where there is no room, the highest goes first; 0 stays."""
    wide: bool = False
    """Only with `-o wide`."""
    prose: bool = False
    """Sentences: on a terminal they go on below rather than push other columns out. The last column only."""


def show(
    output: str | None, columns: Sequence[Column[RowT]], rows: Sequence[RowT], *, documents: Any, title: str = ""
) -> None:
    """A list, in the form that was asked for. `documents` is what programs get; the first column is the name."""
    if output == "name":
        for row in rows:
            click.echo(printable(columns[0].cell(row)))
    elif output in ("json", "yaml"):
        show_document(output, documents)
    else:
        screen = screen_here()
        if title:
            screen.text(title)
        chosen = [each for each in columns if output == "wide" or not each.wide]
        draw(screen, chosen, rows, whole=output == "wide")
        screen.show()


def show_one(output: str | None, found: Any, pairs: Sequence[tuple[str, str]]) -> None:
    """One thing that has a name, in the form that was asked for; `pairs` is what people read."""
    if output in ("json", "yaml"):
        show_document(output, document(found))
    elif output == "name":
        click.echo(printable(found.name))
    else:
        screen = screen_here()
        facts(screen, pairs)
        screen.show()


def screen_here() -> Screen:
    """Where standard output goes. A pipe has no width, whatever a variable says: there nothing may be left out."""
    screen = Screen.here(every_row=True)
    if not sys.stdout.isatty():
        screen.width = None
    return screen


def show_document(output: str, document: Any) -> None:
    """For programs."""
    if output == "yaml":
        click.echo(yaml_text(document), nl=False)
        return
    text = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo("".join(each if each == "\n" or each.isprintable() else _escaped(each) for each in text))


def yaml_text(document: Any) -> str:
    """As YAML, in the order it was made."""
    import yaml

    text: str = yaml.dump(document, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True, width=110)
    if all(each == "\n" or each.isprintable() for each in text):
        return text
    # A direction override or a zero-width character would disguise a name: then everything beyond ASCII is escaped.
    escaped: str = yaml.dump(document, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=False, width=110)
    return escaped


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """For sorting as people count: v1, v2, v10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in NUMBERS.split(text) if part)


def draw(screen: Screen, columns: Sequence[Column[RowT]], rows: Sequence[RowT], *, whole: bool = False) -> None:
    """Headings, and a line a row; what is left out is named below."""
    bodies = [[printable(each.cell(row)) for row in rows] for each in columns]
    headings = [[each.heading] for each in columns]
    widths = [max(map(width_of, [*heading, *body])) for heading, body in zip(headings, bodies, strict=True)]
    room = None if whole else screen.width
    if room is not None and _together(widths) > room:
        headings = [_broken(each.heading) for each in columns]
        widths = [max(map(width_of, [*heading, *body])) for heading, body in zip(headings, bodies, strict=True)]
    last = columns[-1]
    prose = room is not None and last.prose
    if prose and room is not None and _together(widths) > room:
        widths[-1] = max(PROSE_LEAST, room - _together(widths[:-1]) - len(GAP))
    shown = _shown(columns, bodies, widths, room)
    for number in range(len(headings[0])):
        parts = [_padded(headings[index][number], widths[index]) for index in shown]
        if any(part.strip() for part in parts):
            line = GAP.join(parts).rstrip()
            screen.lines.append(click.style(line, dim=True) if screen.colour else line)
    for number in range(len(rows)):
        parts = [_padded(bodies[index][number], widths[index]) for index in shown]
        further: list[str] = []
        if prose and len(columns) - 1 in shown:
            indent = " " * _together([*(widths[index] for index in shown[:-1]), 0])
            parts[-1], *further = textwrap.wrap(bodies[-1][number], widths[-1], break_on_hyphens=False) or [""]
            further = [indent + line for line in further]
        screen.lines.append(GAP.join(map(_coloured, parts) if screen.colour else parts).rstrip())
        screen.lines += further
    hidden = [column.heading for index, column in enumerate(columns) if index not in shown and any(bodies[index])]
    if hidden:
        screen.text(f"Columns hidden to fit the terminal: {', '.join(hidden)} (show all with -o wide)")


def width_of(text: str) -> int:
    """Places on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _broken(heading: str) -> list[str]:
    """In two lines, the last word below."""
    first, _, last = heading.rpartition(" ")
    return [first, last]


def _shown(
    columns: Sequence[Column[RowT]], bodies: Sequence[Sequence[str]], widths: Sequence[int], room: int | None
) -> list[int]:
    shown = list(range(len(columns)))
    while room is not None and _together([widths[each] for each in shown]) > room:
        spare = [each for each in shown if columns[each].spare]
        if not spare:
            break
        # An empty column goes before any other.
        shown.remove(max(spare, key=lambda each: (not any(bodies[each]), columns[each].spare)))
    return shown


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def _coloured(part: str) -> str:
    colour = COLOURS.get(part.strip())
    return click.style(part, fg=colour) if colour else part


def facts(screen: Screen, pairs: Sequence[tuple[str, str]]) -> None:
    """`KEY: value`, one a line."""
    screen.lines += [f"{name}: {printable(value)}".rstrip() for name, value in pairs]


def _escaped(each: str) -> str:
    code = ord(each)
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"
