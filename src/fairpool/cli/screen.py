"""Titles, tables and facts as text: within the width of a terminal, or one row a line in a pipe.

Nothing is ever cut off: what is too wide for its column goes on in the next line, and a column that is left out is
named.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, TypeVar

import click

GAP = "  "
NARROWEST = 8
ROWS_ON_A_TERMINAL = 50
TO_BE_COPIED = ("COMMAND LINE", "SERVICE URL(S)")
"""Facts that are not broken into lines."""

RowT = TypeVar("RowT")

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


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make a `Column[Row](...)`
class Column(Generic[RowT]):
    """One column of a table."""

    heading: str
    cell: Callable[[RowT], str]
    spare: int = 0
    """Where there is no room, the column with the highest is left out first; 0: never."""
    wide: bool = False
    """Only with `-o wide`."""
    least: int = 0
    """Where there is no room, it becomes as narrow as this and its cells go on in the next line; 0: never. Other
    columns have words of status in colour."""


@dataclass
class Screen:
    """Collects lines for standard output."""

    width: int | None = None
    """None: as wide as it takes."""
    colour: bool = False
    rows_max: int | None = None
    headings: bool = True
    """Above the columns of tables."""
    called: Callable[[str], str] = str
    """How a text is shown, for instance with names in place of ids."""
    lines: list[str] = field(default_factory=list)

    @classmethod
    def here(cls, *, every_row: bool = False) -> Screen:
        """What standard output is: a terminal, or a pipe."""
        is_terminal = sys.stdout.isatty()
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) >= 20 else None
        if width is None and is_terminal:
            width = shutil.get_terminal_size().columns
        colour = is_terminal and not os.environ.get("NO_COLOR")
        return cls(width, colour, ROWS_ON_A_TERMINAL if is_terminal and not every_row else None)

    def text(self, text: str = "", indent: str = "", further: str | None = None) -> None:
        """A paragraph; `further` indents the lines after the first."""
        self.lines += _wrapped(self._shown(text), self.width, indent, further)

    def title(self, text: str) -> None:
        """A heading, with an empty line before it."""
        if self.lines:
            self.lines.append("")
        for line in _wrapped(self._shown(text), self.width, ""):
            self.lines.append(click.style(line, bold=True) if self.colour else line)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows of texts; a cell that is too wide goes on in the next line."""
        cells = [tuple(cell or "-" for cell in row) for row in rows]
        shown = cells if self.rows_max is None else cells[: self.rows_max]
        columns: list[Column[Sequence[str]]] = [
            Column(heading, itemgetter(index), least=NARROWEST) for index, heading in enumerate(headings)
        ]
        self.draw(columns, shown)
        if len(shown) < len(cells):
            self.text(f"... and {len(cells) - len(shown)} more (show all with --all)")

    def draw(self, columns: Sequence[Column[RowT]], rows: Sequence[RowT], *, whole: bool = False) -> None:
        """A table with two spaces between its columns. Where it is too wide for a terminal, headings take two lines,
        columns get narrower, and those that matter least are left out and named below; not so if it shall be `whole`.
        """
        bodies = [[self._shown(each.cell(row)) for row in rows] for each in columns]
        headings = [[each.heading] for each in columns]
        widths = _widths(headings, bodies)
        room = None if whole else self.width
        shown = list(range(len(columns)))
        if room is not None and _together(widths) > room:
            if not all(each.least for each in columns):
                headings = [_broken(each.heading) for each in columns]
            widths = _narrowed(columns, _widths(headings, bodies), room)
            shown = _shown(columns, bodies, widths, room)
        kept = [(columns[index], widths[index]) for index in shown]
        for number in range(len(headings[0]) if self.headings else 0):
            for line in _row_lines([headings[index][number] for index in shown], kept):
                if line:
                    self.lines.append(click.style(line, dim=True) if self.colour else line)
        for number in range(len(rows)):
            self.lines += _row_lines([bodies[index][number] for index in shown], kept, colour=self.colour)
        hidden = [
            each.heading for index, each in enumerate(columns) if index not in shown and not _is_empty(bodies[index])
        ]
        if hidden:
            self.text(f"Columns hidden to fit the terminal: {', '.join(hidden)} (show all with -o wide)")

    def facts(self, pairs: Iterable[tuple[str, str]], *, aligned: bool = True) -> None:
        """Names and values below each other, in two columns or as `NAME: value`."""
        pairs = list(pairs)
        if not aligned:
            for name, value in pairs:
                room = None if name in TO_BE_COPIED else self.width
                self.lines += _wrapped(f"{name}: {self._shown(value)}".rstrip(), room, "", GAP)
            return
        widest = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.lines += _wrapped(
                f"{name:<{widest}}{GAP}{self._shown(value)}", self.width, "", " " * (widest + len(GAP))
            )

    def _shown(self, text: str) -> str:
        return printable(self.called(text))

    def show(self) -> None:
        """Print what was collected."""
        click.echo(_for_encoding("\n".join(self.lines), sys.stdout.encoding or "utf-8"), color=self.colour)


def printable(text: str) -> str:
    """A text with control characters escaped: names come from users, and must break neither a table nor a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def _for_encoding(text: str, encoding: str) -> str:
    """A text in the encoding of the terminal."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("→", "->").replace("–", "-").encode(encoding, "backslashreplace").decode(encoding)
    return text


def _wrapped(text: str, width: int | None, indent: str, further: str | None = None) -> list[str]:
    if width is None or len(indent + text) <= width:
        return [indent + text]
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if further is None else further,
        break_on_hyphens=False,
    ) or [indent]


def width_of(text: str) -> int:
    """Width in terminal cells."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _widths(headings: Sequence[Sequence[str]], bodies: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width_of, [*heading, *body])) for heading, body in zip(headings, bodies, strict=True)]


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _broken(heading: str) -> list[str]:
    """In two lines, the last word below."""
    first, _, last = heading.rpartition(" ")
    return [first, last]


def _narrowed(columns: Sequence[Column[RowT]], widths: list[int], room: int) -> list[int]:
    """With less for the widest of the columns that may be narrowed."""
    while _together(widths) > room:
        may = [index for index, each in enumerate(columns) if each.least and widths[index] > each.least]
        if not may:
            break
        widths[max(may, key=lambda index: (widths[index], -index))] -= 1
    return widths


def _shown(
    columns: Sequence[Column[RowT]], bodies: Sequence[Sequence[str]], widths: Sequence[int], room: int
) -> list[int]:
    """Which columns are not left out."""
    shown = list(range(len(columns)))
    while _together([widths[each] for each in shown]) > room:
        spare = [each for each in shown if columns[each].spare]
        if not spare:
            break
        # An empty column goes before any other.
        shown.remove(max(spare, key=lambda each: (_is_empty(bodies[each]), columns[each].spare)))
    return shown


def _is_empty(body: Sequence[str]) -> bool:
    return all(cell in ("", "-", "–") for cell in body)


def _row_lines(cells: Sequence[str], columns: Sequence[tuple[Column[RowT], int]], *, colour: bool = False) -> list[str]:
    """One row, in as many lines as its highest cell; each column with its width."""
    parts = [
        _cell_lines(cell, width if column.least else None) for cell, (column, width) in zip(cells, columns, strict=True)
    ]
    lines = []
    for number in range(max(map(len, parts))):
        texts = [
            _padded(part[number] if number < len(part) else "", width)
            for part, (_, width) in zip(parts, columns, strict=True)
        ]
        if colour:
            texts = [
                text if column.least else _coloured(text) for text, (column, _) in zip(texts, columns, strict=True)
            ]
        lines.append(GAP.join(texts).rstrip())
    return lines


def _cell_lines(cell: str, width: int | None) -> list[str]:
    """A cell too wide for its column; all its lines keep its indentation, as far as that leaves room for words."""
    if width is None or width_of(cell) <= width:
        return [cell]
    text = cell.lstrip(" ")
    indent = " " * min(len(cell) - len(text), width // 2)
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return lines or [""]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def _coloured(part: str) -> str:
    colour = COLOURS.get(part.strip())
    return click.style(part, fg=colour) if colour else part
