"""Titles and tables as text: within the width of a terminal, or one row a line in a pipe.

Nothing is ever cut off: what is too wide for its column goes on in the next line.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import click

GAP = "  "
NARROWEST = 8
ROWS_ON_A_TERMINAL = 50


@dataclass
class Screen:
    """Collects lines, and knows where they will be shown."""

    width: int | None = None
    """None: as wide as it takes."""
    colour: bool = False
    rows_max: int | None = None
    lines: list[str] = field(default_factory=list)

    @classmethod
    def here(cls, *, every_row: bool = False) -> Screen:
        """What standard output is: a terminal, or a pipe."""
        is_terminal = sys.stdout.isatty()
        told = os.environ.get("COLUMNS", "")
        width = int(told) if told.isdecimal() and int(told) >= 20 else None
        if width is None and is_terminal:
            width = shutil.get_terminal_size().columns
        colour = is_terminal and not os.environ.get("NO_COLOR")
        return cls(width, colour, ROWS_ON_A_TERMINAL if is_terminal and not every_row else None)

    def text(self, text: str = "", indent: str = "") -> None:
        """A paragraph."""
        self.lines += _wrapped(printable(text), self.width, indent)

    def title(self, text: str) -> None:
        """A heading, with an empty line before it."""
        if self.lines:
            self.lines.append("")
        for line in _wrapped(printable(text), self.width, ""):
            self.lines.append(click.style(line, bold=True) if self.colour else line)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns with two spaces between them, headings first."""
        rows = [tuple(printable(cell) or "-" for cell in row) for row in rows]
        shown = rows if self.rows_max is None else rows[: self.rows_max]
        widths = _widths([tuple(headings), *shown], self.width)
        for number, row in enumerate([tuple(headings), *shown]):
            for line in _row_lines(row, widths):
                self.lines.append(click.style(line, dim=True) if self.colour and number == 0 else line)
        if len(shown) < len(rows):
            self.text(f"... and {len(rows) - len(shown)} more (show all with --all)")

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Names and values below each other."""
        pairs = list(pairs)
        widest = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            self.lines += _wrapped(
                f"{name:<{widest}}{GAP}{printable(value)}", self.width, "", " " * (widest + len(GAP))
            )

    def show(self) -> None:
        """Print what was collected."""
        click.echo(_for_encoding("\n".join(self.lines), sys.stdout.encoding or "utf-8"), color=self.colour)


def printable(text: str) -> str:
    """Names come from elsewhere: a line break in one must not break a table, nor an escape a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def _for_encoding(text: str, encoding: str) -> str:
    """What an older terminal can show of a text."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.replace("→", "->").encode(encoding, "backslashreplace").decode(encoding)
    return text


def _wrapped(text: str, width: int | None, indent: str, further: str | None = None) -> list[str]:
    if width is None or len(indent + text) <= width:
        return [indent + text]
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent if further is None else further
    ) or [indent]


def _widths(rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """Widths of columns: what they need, or, if that is too much together, less for the widest."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = None if width is None else width - len(GAP) * (len(widths) - 1)
    while room is not None and sum(widths) > room and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cell_lines(cell: str, width: int) -> list[str]:
    """A cell too wide for its column; all its lines keep its indentation, as far as that leaves room for words."""
    text = cell.lstrip(" ")
    indent = " " * min(len(cell) - len(text), width // 2)
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [
        [cell] if len(cell) <= width else _cell_lines(cell, width) for cell, width in zip(row, widths, strict=True)
    ]
    height = max(map(len, cells))
    padded = [cell + [""] * (height - len(cell)) for cell in cells]
    return [
        GAP.join(f"{part:<{width}}" for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip(*padded, strict=True)
    ]
