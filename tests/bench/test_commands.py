"""The benchmark of commands measures what it says, at a small size; how long anything takes is not judged."""

from __future__ import annotations

import re

import pytest

from bench.commands import MEASURED, main


@pytest.mark.slow
def test_each_command_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeat", "1"]) == 0
    rows = capsys.readouterr().out.splitlines()[-len(MEASURED) :]
    assert [row[:19].strip() for row in rows] == list(MEASURED)
    assert all(re.match(r"( +[\d.]+ m?s){3}", row[26:]) for row in rows), rows
