"""The benchmark of starts measures what it says, at a small size, and leaves nothing running."""

from __future__ import annotations

import re

import pytest

from bench.starts import main


@pytest.mark.slow
def test_starts_are_counted_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pods", "4", "--batch", "2", "--repeat", "1"]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r" +\d+ +\d+ +[\d.]+   [\d.]+, [\d.]+, [\d.]+, [\d.]+ = [\d.]+", row)
