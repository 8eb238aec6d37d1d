"""Output formats of lists and single objects: table, wide table, JSON, YAML, names.

A table in a terminal that is too narrow leaves out what matters least and says so. In a pipe nothing is left out, and
nothing is coloured. What comes from elsewhere never reaches a terminal as an escape.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from fairpool.api.record import document
from fairpool.cli.runai.flags import flag
from fairpool.cli.screen import Column, Screen, printable

RowT = TypeVar("RowT")
FORMATS = ("json", "yaml", "wide", "name")
TABLE = "table"
"""What is printed where no format is asked for."""
NUMBERS = re.compile(r"(\d+)")

output_flag = flag(
    "-o", "--output", type=click.Choice(FORMATS), help="Output format: json, yaml, wide (all columns) or name."
)


one_output_flag = flag(
    "-o", "--output", type=click.Choice((*FORMATS, TABLE)), help="Output format: json, yaml, wide, name or table."
)


def output_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """`-o`, its values as flags of their own, and `--no-headers`; the command gets `output` and `no_headers`."""
    decorators = (
        one_output_flag,
        *(flag(f"--{each}", "output", flag_value=each, hidden=True) for each in ("json", "yaml", "table")),
        flag("--no-headers", is_flag=True, help="Print the rows of the table only."),
    )
    for each in reversed(decorators):
        command = each(command)
    return command


PROSE = 30
"""How narrow a column of sentences may become."""


def show(
    output: str | None,
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    *,
    documents: Any,
    title: str = "",
    headings: bool = True,
) -> None:
    """A list in the requested format. `documents` is printed as JSON or YAML; the first column is the name."""
    if output == "name":
        for row in rows:
            click.echo(printable(columns[0].cell(row)))
    elif output in ("json", "yaml"):
        show_document(output, documents)
    else:
        screen = screen_here()
        screen.headings = headings
        if title and headings:
            screen.text(title)
        chosen = [each for each in columns if output == "wide" or not each.wide]
        screen.draw(chosen, rows, whole=output == "wide")
        screen.show()


def show_one(
    output: str | None,
    found: Any,
    pairs: Sequence[tuple[str, str]],
    draw_more: Callable[[Screen], None] | None = None,
) -> None:
    """One object in the requested format; `pairs` is its text form, with what `draw_more` draws below."""
    if output in ("json", "yaml"):
        show_document(output, document(found))
    elif output == "name":
        click.echo(printable(found.name))
    else:
        screen = screen_here()
        screen.facts(pairs, aligned=False)
        if draw_more:
            draw_more(screen)
        screen.show()


def screen_here() -> Screen:
    """Standard output. A pipe has no width, whatever COLUMNS is: nothing may be left out there."""
    screen = Screen.here(every_row=True)
    if not sys.stdout.isatty():
        screen.width = None
    return screen


def show_document(output: str, document: Any) -> None:
    """As JSON or YAML."""
    if output == "yaml":
        click.echo(yaml_text(document), nl=False)
        return
    text = json.dumps(document, indent=2, ensure_ascii=False)
    click.echo("".join(each if each == "\n" or each.isprintable() else _escaped(each) for each in text))


def yaml_text(document: Any) -> str:
    """As YAML, with keys in their order."""
    import yaml

    text: str = yaml.dump(document, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True, width=110)
    if all(each == "\n" or each.isprintable() for each in text):
        return text
    # A direction override or a zero-width character would disguise a name: then everything beyond ASCII is escaped.
    escaped: str = yaml.dump(document, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=False, width=110)
    return escaped


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A key for natural sorting: v1, v2, v10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in NUMBERS.split(text) if part)


def _escaped(each: str) -> str:
    code = ord(each)
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{code:04x}"
