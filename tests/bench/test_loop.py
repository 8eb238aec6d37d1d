"""The benchmark of the loop, at a small size: what it measures happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import loop as bench_loop
from bench.loop import Cluster, Size, measured


def test_every_gpu_is_taken_and_a_pod_that_ends_is_replaced(tmp_path: Path) -> None:
    cluster = Cluster(Size(nodes=3, running=24, waiting=3), tmp_path)
    assert cluster.running() == 24
    waiting = len(cluster.loop.cache.verdicts)
    cluster.one_change()()
    assert cluster.running() == 24 or len(cluster.loop.cache.verdicts) < waiting
    assert not cluster.engine.violations


@pytest.mark.slow
@pytest.mark.parametrize("queues", [1, 25])
def test_each_case_is_measured(queues: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_loop, "BURST", 50)
    lines = measured(Size(nodes=8, running=40, waiting=8, queues=queues), cycles=5, changes=2)
    assert [line.case for line in lines] == ["idle", "one-change", "restart", "burst"]
    assert not any(line.faults for line in lines)
