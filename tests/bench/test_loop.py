"""The benchmark of the loop, at a small size: what it measures happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.loop import Cluster, measured


def test_every_gpu_is_taken_and_a_pod_that_ends_is_replaced(tmp_path: Path) -> None:
    cluster = Cluster(3, tmp_path)
    assert cluster.running() == 24
    waiting = len(cluster.loop.cache.verdicts)
    cluster.one_change()
    assert cluster.running() == 24 or len(cluster.loop.cache.verdicts) < waiting
    assert not cluster.engine.violations


@pytest.mark.slow
def test_each_case_is_measured() -> None:
    lines = measured(8, turns=5)
    assert [line.case for line in lines] == ["idle", "one-change", "restart"]
    assert not any(line.faults for line in lines)
