"""The hash chain of the audit log: what breaks it, and which entry is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from fairpool.api.audit_chain import BEGINNING, FIELDS, ChainCheck, Head, hash_of, head_of
from fairpool.control.audit_changes import CHANGES_MAX, as_text, of_each
from fairpool.control.store.recording import RowChange

Log = list[dict[str, Any]]


def log_of(count: int) -> Log:
    entries: Log = []
    for number in range(1, count + 1):
        entry = {**dict.fromkeys(FIELDS, ""), "id": number, "at": 1000 + number, "http_status": 200, "subject": "ann"}
        entry["hash"] = hash_of(entry, entries[-1]["hash"] if entries else BEGINNING)
        entries.append(entry)
    return entries


START = Head(0, BEGINNING)


def checked(entries: Log, head: Head, *, anchor: Head = START, known: Head | None = None) -> ChainCheck:
    check = ChainCheck(anchor, known)
    for entry in entries:
        if not check.take(entry):
            return check
    check.end(head)
    return check


def head(entries: Log) -> Head:
    return Head(entries[-1]["id"], entries[-1]["hash"])


def test_an_untouched_log_is_intact() -> None:
    entries = log_of(5)
    check = checked(entries, head(entries), known=head(entries[:3]))
    assert (check.broken, check.count, check.last) == (None, 5, head(entries))


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "id"])
def test_every_field_is_covered(field: str) -> None:
    entries = log_of(4)
    last = head(entries)
    entries[1][field] = 7 if isinstance(entries[1][field], int) else "changed"
    assert checked(entries, last).broken == 2


def removed(entries: Log) -> None:
    del entries[2]


def inserted(entries: Log) -> None:
    entries.insert(2, {**entries[1], "id": 3})


def repeated(entries: Log) -> None:
    entries.insert(2, dict(entries[1]))


def swapped(entries: Log) -> None:
    entries[2], entries[3] = entries[3], entries[2]


def hash_replaced(entries: Log) -> None:
    entries[2]["subject"] = "eve"
    entries[2]["hash"] = hash_of(entries[2], entries[1]["hash"])


def all_hashes_replaced(entries: Log) -> None:
    entries[2]["subject"] = "eve"
    for before, entry in pairwise(entries[1:]):
        entry["hash"] = hash_of(entry, before["hash"])


def cut_off(entries: Log) -> None:
    del entries[3:]


@pytest.mark.parametrize(
    ("tamper", "broken"),
    [(removed, 3), (inserted, 3), (repeated, 3), (swapped, 3), (hash_replaced, 4), (cut_off, 4)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_first_broken_entry_is_named(tamper: Callable[[Log], None], broken: int) -> None:
    entries = log_of(5)
    last = head(entries)
    tamper(entries)
    assert checked(entries, last).broken == broken


def test_a_log_that_was_rewritten_whole_is_betrayed_by_an_entry_that_was_recorded_elsewhere() -> None:
    entries = log_of(5)
    elsewhere = head(entries[:4])
    all_hashes_replaced(entries)
    assert checked(entries, head(entries)).broken is None, "nothing inside tells"
    check = checked(entries, head(entries), known=elsewhere)
    assert (check.broken, "rewritten" in check.why) == (4, True)


def test_entries_that_were_removed_with_the_remembered_head_are_betrayed_too() -> None:
    entries = log_of(5)
    elsewhere = head(entries)
    cut_off(entries)
    assert checked(entries, head(entries)).broken is None
    check = checked(entries, head(entries), known=elsewhere)
    assert (check.broken, "removed" in check.why) == (4, True)


def test_what_retention_left_is_still_proved() -> None:
    entries = log_of(6)
    anchor = head(entries[:3])
    assert checked(entries[3:], head(entries), anchor=anchor).broken is None
    assert checked(entries[3:], head(entries), anchor=anchor, known=anchor).broken is None
    assert checked(entries[3:], head(entries), anchor=Head(3, "1" * 64)).broken == 4
    assert checked(entries[3:], head(entries), anchor=anchor, known=Head(3, "1" * 64)).broken == 3


@pytest.mark.parametrize("text", ["", "7", "7:", ":" + "a" * 64, "-1:" + "a" * 64, "7:" + "g" * 64, "7:" + "a" * 63])
def test_what_is_not_an_entry(text: str) -> None:
    assert head_of(text) is None
    assert head_of("7:" + "a" * 64) == Head(7, "a" * 64)


def test_changes_of_many_objects_go_to_the_entries_they_belong_to() -> None:
    changes = [RowChange("workloads", ("w1",), {"a": 1}, {"a": 2}), RowChange("claims", ("team-a", "c"), None, {})]
    changes.append(RowChange("workloads", ("w2",), {"a": 1}, {"a": 2}))
    found = of_each(changes, [("w2", "team-a/two"), ("w1", "team-a/one"), ("c", "team-a/c")])
    assert [[each.key for each in its] for its in found] == [[("w2",)], [("w1",)], [("team-a", "c")]]


def test_an_entry_is_bounded_whatever_was_changed() -> None:
    long = RowChange("config_maps", ("team-a", "c"), None, {"document": {"data": {"f": "x" * 100_000}}})
    many = [RowChange("t", (str(number),), {"x": "y" * 300}, {"x": "z" * 300}) for number in range(10_000)]
    assert "100000 characters" in as_text([long])
    for each in ([long], many, many[:150]):
        assert len(as_text(each)) <= CHANGES_MAX
    assert as_text([]) == ""
