"""An export of the audit log is checked without a server, whichever entry comes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairpool.api.audit_chain import BEGINNING, FIELDS, Head, hash_of
from fairpool.api.audit_export import ExportCheck, exported_entries
from fairpool.cli.adm.main import main

Log = list[dict[str, Any]]


def log_of(count: int, *, unhashed: int = 0) -> Log:
    """Entries as they are exported, the oldest first; the first ones are from before the chain."""
    entries: Log = []
    for number in range(1, count + 1):
        row: dict[str, Any] = {
            **dict.fromkeys(FIELDS, ""),
            "id": number,
            "at": 1_763_000_000_001 + number,
            "http_status": 200,
        }
        row |= {"subject": "ann", "changes": '[{"kind":"projects","id":"a"}]'}
        before = entries[-1]["hash"] if entries else ""
        entry = {
            **row,
            "id": str(number),
            "http_status_code": 200,
            "metadata": {},
            "changes": json.loads(row["changes"]),
        }
        entry["timestamp"] = f"2025-11-13T02:13:20.{1 + number:03d}Z"
        entry["hash"] = hash_of(row, before or BEGINNING) if number > unhashed else ""
        entries.append(entry)
    return entries


def checked(entries: Log, known: Head | None = None, *, newest_first: bool = True) -> ExportCheck:
    check = ExportCheck(known)
    ordered = list(reversed(entries)) if newest_first else entries
    check.run(exported_entries([json.dumps(each) + "\n" for each in ordered]))
    return check


def head(entries: Log) -> Head:
    return Head(int(entries[-1]["id"]), entries[-1]["hash"])


@pytest.fixture(params=[True, False], ids=["newest first", "oldest first"])
def newest_first(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_an_untouched_export_is_intact(newest_first: bool) -> None:
    entries = log_of(6)
    check = checked(entries, head(entries[:3]), newest_first=newest_first)
    assert (check.broken, check.count, check.last, check.is_first_proved) == (None, 6, head(entries), True)
    assert checked(entries[:1], newest_first=newest_first).broken is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subject", "eve"),
        ("timestamp", "2025-11-13T02:13:21.000Z"),
        ("http_status_code", None),
        ("metadata", {"problem": "access.denied"}),
        ("changes", []),
        ("hash", "0" * 64),
        ("hash", ""),
    ],
)
def test_the_first_entry_that_was_changed_is_named(field: str, value: Any, newest_first: bool) -> None:
    for number in (1, 3, 6):
        entries = log_of(6)
        entries[number - 1][field] = value
        # Without a hash the first one is from before the chain, which cannot have begun after it.
        expected = 2 if (field, value, number) == ("hash", "", 1) else number
        assert checked(entries, newest_first=newest_first).broken == expected
    entries = log_of(6)
    entries[2][field] = entries[5][field] = value
    assert checked(entries, newest_first=newest_first).broken == 3, "of several the oldest"


def test_entries_that_are_missing_or_twice_are_named(newest_first: bool) -> None:
    entries = log_of(6)
    assert checked([*entries[:2], *entries[3:]], newest_first=newest_first).broken == 3
    assert checked([*entries[:3], *entries[2:]], newest_first=newest_first).broken == 4
    assert checked(entries[:4], head(entries), newest_first=newest_first).broken == 5, "removed at the end"
    rewritten = checked(entries, Head(4, "1" * 64), newest_first=newest_first)
    assert (rewritten.broken, "rewritten" in rewritten.why) == (4, True)


def test_a_part_is_proved_with_the_entry_before_it(newest_first: bool) -> None:
    entries = log_of(6)
    part = checked(entries[2:], newest_first=newest_first)
    assert (part.broken, part.is_first_proved, part.first) == (None, False, head(entries[:3]))
    assert checked(entries[2:], head(entries[:2]), newest_first=newest_first).is_first_proved
    entries[2]["subject"] = "eve"
    assert checked(entries[2:], newest_first=newest_first).broken is None, "nothing in the file tells"
    assert checked(entries[2:], head(entries[:2]), newest_first=newest_first).broken == 3
    assert checked(entries[2:], head(entries[:1]), newest_first=newest_first).broken == 1, "cannot be found in it"


def test_entries_from_before_the_chain_are_not_covered(newest_first: bool) -> None:
    entries = log_of(6, unhashed=2)
    check = checked(entries, newest_first=newest_first)
    assert (check.broken, check.count, check.is_first_proved) == (None, 4, True)
    assert checked(entries[2:], newest_first=newest_first).is_first_proved
    entries[4]["hash"] = ""
    assert checked(entries, newest_first=newest_first).broken == 5


def test_the_command_says_so_and_needs_no_server(tmp_path: Path) -> None:
    file, entries = tmp_path / "audit.json", log_of(4)

    def said(*flags: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["audit", "verify", str(file), *flags])
        return done.exit_code, done.output

    file.write_text(json.dumps(entries))
    assert said() == (0, f"The audit log is intact: 4 entries checked.\nLast entry: {head(entries)}\n")
    assert said("--known", str(head(entries[:2])))[0] == 0
    assert said("--known", "nonsense")[0] == 2
    file.write_text(json.dumps(entries[1:]))
    assert "entry 2, the oldest in the file" in said()[1]
    entries[2]["subject"] = "eve"
    file.write_text(json.dumps(entries))
    code, words = said()
    assert (code, "entry 3 was changed after it was written" in words) == (1, True)
    for text in ("", "[]", "[1]", "[{}]", "{", '{"id": 1}', "hello", "a,b\n1,2\n", "[" * 100_000, "id,hash\n"):
        file.write_text(text)
        code, words = said()
        assert (code, "is no export of the audit log" in words) == (2, True), text[:20]
    file.write_bytes(b"\xff\xfe")
    assert said()[0] == 2
    file.unlink()
    assert said()[0] == 2
