"""The benchmark of the tunnel measures what it says, at a small size, and leaves nothing running."""

from __future__ import annotations

import multiprocessing
import re

import pytest

from bench.tunnel import main


@pytest.mark.slow
def test_streams_and_calls_are_measured_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mib", "2", "--calls", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for way in ("tunnel", "in process"):
        said = "\n".join(line for line in lines if line.startswith(f"{way}: "))
        assert re.search(r"one stream +\d+ MiB/s, +[\d.]+ ms of CPU a MiB", said)
        assert re.search(r"clients +\d+ calls/s, +[\d.]+ ms of CPU a call", said)
        assert len(re.findall(r"[\d.]+ ms, p99 [\d.]+ ms", said)) == 2
    assert not multiprocessing.active_children()
