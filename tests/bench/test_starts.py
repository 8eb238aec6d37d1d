"""The benchmark of starts measures what it says, at a small size, and leaves nothing running."""

from __future__ import annotations

import re

import pytest

from bench.starts import main


@pytest.mark.slow
def test_starts_are_counted_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pods", "4", "--batch", "2", "--repeat", "1", "--alone", "2", "--whole", "4"]) == 0
    *_, row, alone, whole = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"whole pods: .* = [\d.]+", whole)
    assert re.fullmatch(r"alone, from the order until it is seen running: [\d.]+ ms, p95 [\d.]+ ms", alone)
    assert re.fullmatch(r" +\d+ +\d+ +[\d.]+   [\d.]+, [\d.]+, [\d.]+, [\d.]+ = [\d.]+", row)
