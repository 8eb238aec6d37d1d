"""The benchmark of the loop on Kubernetes, at a small size: what it measures happens."""

from __future__ import annotations

import argparse

import pytest

from bench.kube_loop import measured


@pytest.mark.slow
def test_idle_cycles_make_no_call_and_pods_that_end_are_replaced() -> None:
    options = argparse.Namespace(nodes=4, running=16, waiting=8, cycles=5, churn=2, seconds=2.0)
    fill, idle, churn = measured(options)
    assert fill.metrics["pods"] == 16
    assert idle.metrics["calls"] == 0
    assert churn.metrics["calls"] >= 4, "pods were started and forgotten"
    assert not any(line.faults for line in (fill, idle, churn))
