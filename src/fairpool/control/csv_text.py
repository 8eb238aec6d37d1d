"""Rows as CSV text. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

from fairpool.api.audit_export import FORMULA


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """These rows as lines."""
    text = io.StringIO()
    plain, quoted = csv.writer(text, lineterminator="\n"), csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        # Up to Python 3.12 a carriage return is not a reason to quote a cell, and ends the row for its reader.
        (quoted if any("\r" in cell for cell in row) else plain).writerow(row)
    return text.getvalue()


def csv_cell(value: object) -> str:
    """A value as a cell. Text that a spreadsheet would take for a formula is marked as text."""
    if isinstance(value, list | dict):
        text = json.dumps(value) if value else ""
    else:
        text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
