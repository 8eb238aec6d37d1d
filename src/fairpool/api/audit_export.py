"""An exported audit log: its entries as they were written, and whether they form an unbroken chain. Needs no server.

The export has entries in the form of the API; the hash of an entry covers the row that it was made from, which is
restored here. An export begins anywhere and has the newest or the oldest entry first. JSON lines and CSV are read one
entry at a time; a JSON list is read whole.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from typing import Any, Final

from fairpool.api.audit_chain import BEGINNING, ChainCheck, Head

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that starts with one of these for a formula, and names in the log are user input. In CSV
such a cell begins with an apostrophe."""
TEXTS: Final = (
    *("subject", "subject_type", "source_ip", "action", "http_method", "url"),
    *("entity_type", "entity_name", "entity_id", "result", "request_id"),
)
"""Columns that are the same in a row and in its entry."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class NoAuditExport(Exception):
    """This is no export of the audit log."""


@dataclass(frozen=True, slots=True)
class ExportedEntry:
    """An entry, and the rows that it can have been made from: with CSV more than one where a text begins with an
    apostrophe."""

    head: Head
    rows: tuple[Mapping[str, Any], ...]


class ExportCheck:
    """Checks the entries of an export, each with its neighbour."""

    def __init__(self, known: Head | None = None) -> None:
        """`known`: an entry that was written down elsewhere."""
        self.known = known
        self.count = 0
        self.first: Head | None = None
        """The oldest entry."""
        self.last: Head | None = None
        """The newest."""
        self.is_first_proved = False
        """Whether the hash of the oldest entry could be computed again: it covers the one before it."""
        self.broken: int | None = None
        """The number of the first entry that is not as it was written."""
        self.why = ""

    def run(self, entries: Iterable[ExportedEntry]) -> None:
        """Check them all. Raises `NoAuditExport`, also if there are none."""
        start = before = None
        is_ascending = True
        for each in entries:
            if before is None:
                start = each
            else:
                if before is start:
                    is_ascending = each.head.id > before.head.id
                    if is_ascending:
                        self._check_oldest(before)
                if not (is_ascending and self.broken is not None):  # in the other direction older ones may follow
                    self._link(*((before, each) if is_ascending else (each, before)))
            self.count += bool(each.head.hash)
            before = each
        if start is None or before is None:
            raise NoAuditExport("it has no entries")
        if before is start or not is_ascending:
            self._check_oldest(before)
        self.last = before.head if is_ascending else start.head
        if self.broken is None:
            self._take(_ended(self.last, self.known))

    def _link(self, older: ExportedEntry, newer: ExportedEntry) -> None:
        """Entries without a hash are from before the chain, which begins after the last of them."""
        if not older.head.hash and not newer.head.hash:
            return
        if not newer.head.hash:
            self.broken, self.why = newer.head.id, "has no hash, and entries before it have one"
            return
        self._take(_linked(Head(older.head.id, older.head.hash or BEGINNING), newer, self.known))

    def _check_oldest(self, oldest: ExportedEntry) -> None:
        self.first = oldest.head
        if self.known is not None and self.known.id < oldest.head.id - 1:
            self.broken, self.why = self.known.id, f"is not in the file, which begins with {oldest.head.id}"
            return
        if not oldest.head.hash:
            self.is_first_proved = True
            return
        is_known = self.known is not None and self.known.id == oldest.head.id - 1
        anchor = self.known if is_known and self.known is not None else Head(oldest.head.id - 1, BEGINNING)
        check = _linked(anchor, oldest, self.known)
        self.is_first_proved = check.broken is None
        if is_known or oldest.head.id == 1 or check.count:
            self._take(check)
        else:
            self._take(ChainCheck(oldest.head, self.known))

    def _take(self, check: ChainCheck) -> None:
        if check.broken is not None:
            self.broken, self.why = check.broken, check.why


def _linked(older: Head, newer: ExportedEntry, known: Head | None) -> ChainCheck:
    """The check of one entry after another: the first that succeeds, or one that does not."""
    check = ChainCheck(older, known)
    for row in newer.rows:
        check = ChainCheck(older, known)
        if check.broken is not None or check.take(row):
            break
    return check


def _ended(last: Head, known: Head | None) -> ChainCheck:
    check = ChainCheck(last, known)
    if check.broken is None:
        check.end(last)
    return check


# --- the forms of an export ---


def exported_entries(lines: Iterable[str]) -> Iterator[ExportedEntry]:
    """The entries of a file, which may be CSV, JSON lines or a JSON list. Raises `NoAuditExport`."""
    rest = iter(lines)
    begin = next((line for line in rest if line.strip()), "")
    whole = chain([begin], rest)
    form = begin.lstrip()[:1]
    found = _json_list(whole) if form == "[" else _json_lines(whole) if form == "{" else _csv_rows(whole)
    count = 0
    try:
        for document in found:
            entry = _entry(document, is_csv=form not in ("[", "{"))
            count += 1
            yield entry
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError, csv.Error) as error:
        raise NoAuditExport(f"entry number {count + 1} in it cannot be read") from error


def _json_list(lines: Iterable[str]) -> Iterator[Any]:
    found = json.loads("".join(lines))
    yield from found


def _json_lines(lines: Iterable[str]) -> Iterator[Any]:
    return (json.loads(line) for line in lines if line.strip())


def _csv_rows(lines: Iterable[str]) -> Iterator[Any]:
    for cells in csv.DictReader(lines, strict=True):
        document: dict[str, Any] = dict(cells)
        for name, empty in (("metadata", {}), ("changes", [])):
            document[name] = json.loads(cells[name]) if cells[name] else empty
        yield document


def _entry(document: Mapping[str, Any], *, is_csv: bool) -> ExportedEntry:
    changes = [{name: value for name, value in each.items() if value is not None} for each in document["changes"]]
    row = {
        "id": int(document["id"]),
        "at": (datetime.fromisoformat(document["timestamp"]) - EPOCH) // timedelta(milliseconds=1),
        "http_status": int(document.get("http_status_code") or 0),
        "problem": document["metadata"].get("problem", ""),
        "changes": json.dumps(changes, separators=(",", ":")) if changes else "",
        "hash": str(document["hash"]),
    }
    texts = [_readings(str(document[name]), is_csv=is_csv) for name in TEXTS]
    rows = tuple({**row, **dict(zip(TEXTS, each, strict=True))} for each in product(*texts))
    return ExportedEntry(Head(row["id"], row["hash"]), rows)


def _readings(text: str, *, is_csv: bool) -> tuple[str, ...]:
    """What a cell can stand for."""
    return (text[1:], text) if is_csv and text.startswith("'") and text[1:].startswith(FORMULA) else (text,)
