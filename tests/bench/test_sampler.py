"""The benchmark of samples measures what it says, at a small size."""

from __future__ import annotations

import re

import pytest

from bench.sampler import main


@pytest.mark.slow
def test_samples_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pods", "3", "--processes", "2", "--samples", "2", "--limit-ms", "10000"]) == 0
    _, cost, beside = capsys.readouterr().out.splitlines()
    figure = r"[\d.]+ ms"
    assert re.fullmatch(f"3 pods of 2 processes: {figure} of CPU time a sample, the first {figure}", cost)
    assert re.fullmatch(f"beside a loop that observes: {figure}; observe took {figure} at most", beside)
