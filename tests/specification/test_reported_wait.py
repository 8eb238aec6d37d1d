"""Since when work waits, from what its cluster has reported."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fairpool.api.clusters import WorkloadReport
from fairpool.control.store.cluster_facts import ReportedWait, reported_wait
from fairpool.model.ids import Instant, PoolName, WorkloadId
from fairpool.model.status import WorkloadPhase


@pytest.mark.parametrize(
    ("waiting_since", "run", "expected"),
    [
        pytest.param(900, 0, ReportedWait("a100", 900), id="preempted long after its creation"),
        pytest.param(None, 0, ReportedWait("a100", 800), id="between two tries: since it came into this phase"),
        pytest.param(900, 1, ReportedWait("", 100), id="what was said about an earlier run is no longer so"),
    ],
)
def test_work_waits_since_its_pods_do(waiting_since: int | None, run: int, expected: ReportedWait) -> None:
    report = WorkloadReport(
        id=WorkloadId("w"),
        phase=WorkloadPhase.PENDING,
        pool=PoolName("a100"),
        since=Instant(800),
        waiting_since=None if waiting_since is None else Instant(waiting_since),
    )
    assert reported_wait(SimpleNamespace(report=report.to_json(), run=run, created_at=100)) == expected


def test_work_that_was_not_reported_waits_since_its_creation() -> None:
    assert reported_wait(SimpleNamespace(report=None, run=0, created_at=100)) == ReportedWait("", 100)
