"""The benchmark of the gateway measures what it says, at a small size, and leaves nothing running."""

from __future__ import annotations

import re

import pytest

from bench.gateway import main


@pytest.mark.slow
def test_requests_are_counted_and_a_stream_arrives_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.5", "--connections", "2", "--mebibytes", "4"]) == 0
    *_, row, stream = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r" +2 +\d+ +\d+ +\d+   -?[\d.]+ \([\d.]+ instead of [\d.]+\)", row)
    assert re.fullmatch(r"stream of 4 MiB: \d+ MiB/s, \d+ MiB/s a core", stream)
