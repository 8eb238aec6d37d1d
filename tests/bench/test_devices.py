"""The benchmark of all devices in one answer, at a small size: every device is there with its holder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.devices import GPUS, jobs_of, measured


@pytest.mark.slow
def test_every_device_is_answered_with_what_it_holds(tmp_path: Path) -> None:
    faults = measured("ordinary", 16, 1, tmp_path)
    assert [each for each in faults if "devices" in each] == []


def test_the_worst_case_holds_every_device_by_another_job() -> None:
    assert [job.devices for job in jobs_of("single", 0)] == [(device,) for device in range(GPUS)]
