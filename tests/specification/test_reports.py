"""What a job says about itself, as people are shown it: nothing of it is trusted."""

from __future__ import annotations

from typing import Any

import pytest

from fairpool.api.workloads import PodItem
from fairpool.control.items import with_reports

MOMENT = "2026-01-01T00:00:00Z"


def shown(reports: dict[str, Any]) -> PodItem:
    pod = PodItem(
        id="a-0-0",
        workload_id="a",
        workload_name="a",
        project_id="p",
        project_name="p",
        cluster_id="c",
        priority_class_name="train",
        containers=[],
        k8s_phase="Running",
        k8s_phase_updated_at=MOMENT,
        updated_at=MOMENT,
        name="a-0-0",
        index=0,
        incarnation=0,
        phase="running",
        created_at=MOMENT,
        since=MOMENT,
    )
    return with_reports(pod, reports)


@pytest.mark.parametrize(
    ("metrics", "percent"),
    [
        pytest.param({"epoch": 3, "overall_epochs": 10}, 30.0, id="a part"),
        pytest.param({"epoch": 1, "overall_epochs": 3}, 33.3, id="rounded"),
        pytest.param({"epoch": 12, "overall_epochs": 10}, 100.0, id="never more than all"),
        pytest.param({"epoch": -1, "overall_epochs": 10}, 0.0, id="never less than nothing"),
        pytest.param({"epoch": 3}, None, id="of an unknown metric"),
        pytest.param({"epoch": 3, "overall_epochs": 0}, None, id="of nothing"),
        pytest.param({"epoch": "3", "overall_epochs": 10}, None, id="a text"),
        pytest.param({"epoch": float("nan"), "overall_epochs": 10}, None, id="no number"),
        pytest.param({"epoch": 10**400, "overall_epochs": 10}, None, id="too large for a number"),
    ],
)
def test_progress_is_the_epoch_among_all(metrics: dict[str, Any], percent: float | None) -> None:
    assert shown({"metrics": metrics}).progress_percent == percent


@pytest.mark.parametrize(
    "reports", [{}, {"metrics": 3}, {"metrics": [1]}, {"parameters": None}, {"metrics": {"a": {}}}]
)
def test_what_makes_no_sense_is_left_out(reports: dict[str, Any]) -> None:
    pod = shown(reports)
    assert (pod.metrics, pod.parameters, pod.progress_percent) == ({}, {}, None)


def test_a_job_that_reports_without_end_is_cut_short() -> None:
    pod = shown({"parameters": {f"{number}" * 500: "x" * 5000 for number in range(100)}})
    assert 0 < len(pod.parameters) <= 64
    assert all(len(name) <= 200 and len(value) <= 200 for name, value in pod.parameters.items())
