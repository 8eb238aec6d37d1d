"""The benchmark of scrapes: it finds the series of everything that it made."""

from __future__ import annotations

import pytest

from bench import scrape

pytestmark = pytest.mark.slow


def test_a_small_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert scrape.main(["--nodes", "8", "--runs", "1"]) == 0
    assert "8 nodes " in capsys.readouterr().out
