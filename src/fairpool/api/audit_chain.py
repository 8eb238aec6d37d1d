"""The hash chain of the audit log: what the hash of an entry covers, and whether a log is intact. Pure.

The hash of an entry covers all its fields and the hash of the entry before it. So an entry cannot be changed, inserted
or removed without changing every hash after it. A reader who knows one hash, from the server's log or from a receiver
that entries are forwarded to, can tell whether everything up to there is as it was. Old entries that retention deleted
are represented by the hash of the last of them, the anchor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

FIELDS: Final = (
    *("id", "at", "subject", "subject_type", "source_ip", "action", "http_method", "url"),
    *("entity_type", "entity_name", "entity_id", "result", "http_status", "request_id", "problem", "changes"),
)
"""Covered by the hash, in this order. To add one, append it and begin a new chain."""
BEGINNING: Final = "0" * 64
"""The hash before the first entry."""


@dataclass(frozen=True, slots=True)
class Head:
    """An entry of the chain, by its number and hash."""

    id: int
    hash: str

    def __str__(self) -> str:
        return f"{self.id}:{self.hash}"


def hash_of(entry: Mapping[str, Any], previous: str) -> str:
    """The hash of an entry after one with the hash `previous`."""
    covered = json.dumps([previous, *(entry[name] for name in FIELDS)], separators=(",", ":"))
    return hashlib.sha256(covered.encode()).hexdigest()


def head_of(text: str) -> Head | None:
    """Parse `ID:HASH`; None: it is not one."""
    number, _, digest = text.strip().partition(":")
    is_valid = (
        number.isdecimal() and len(number) < 16 and len(digest) == 64 and not set(digest) - set("0123456789abcdef")
    )
    return Head(int(number), digest) if is_valid else None


class ChainCheck:
    """Checks entries one by one, the oldest first."""

    def __init__(self, anchor: Head, known: Head | None = None) -> None:
        """`anchor`: the last entry that is not there any more; `known`: one that was written down elsewhere."""
        self.last = anchor
        self.count = 0
        self.broken: int | None = None
        """The number of the first entry that is not as it was written."""
        self.why = ""
        self._known = known
        if known is not None and known.id == anchor.id:
            self._compare(anchor)

    def take(self, entry: Mapping[str, Any]) -> bool:
        """The next entry; False: the chain is broken there, and what follows says nothing."""
        number = int(entry["id"])
        if number != self.last.id + 1:
            missing = self.last.id + 1
            return self._break(missing, "is missing" if number > missing else "has a number that is used twice")
        if hash_of(entry, self.last.hash) != entry["hash"]:
            return self._break(number, "was changed after it was written")
        self.last = Head(number, entry["hash"])
        self.count += 1
        return self._compare(self.last)

    def end(self, head: Head) -> bool:
        """No more entries; `head` is the last one that was written, as the database remembers it."""
        if self.broken is not None:
            return False
        if head != self.last:
            return self._break(self.last.id + 1, "is missing: entries at the end were removed")
        if self._known is not None and self._known.id > self.last.id:
            return self._break(self.last.id + 1, "is missing: entries at the end were removed")
        return True

    def _compare(self, head: Head) -> bool:
        if self._known is None or self._known.id != head.id or self._known.hash == head.hash:
            return True
        return self._break(head.id, "is not the entry that was recorded elsewhere: the log was rewritten")

    def _break(self, number: int, why: str) -> bool:
        self.broken, self.why = number, why
        return False
