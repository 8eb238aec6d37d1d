"""Usage of a pod follows the lines of its history, in whatever order they come and whatever was assumed before."""

from __future__ import annotations

from typing import Any

from fairpool.api.clusters import EventReport, UsageReport
from fairpool.control.usage_intake import UNSEEN, PodParts
from fairpool.model.ids import Instant, PodId, PoolName, QueueId, WorkloadId


def row(part: int = 0, **values: Any) -> dict[str, Any]:
    held = {"gpus_milli": 1000, "cpu_milli": 0, "memory_bytes": 0, "node": "n1", "gpu_type": ""}
    given = {"part": part, "pool": "default", "created_at": 10, "bound_at": 20, "ended_at": None, "cause": ""}
    return {**held, **given, "is_lost": False, **values}


def line(kind: str, at: int) -> EventReport:
    usage = UsageReport(
        project=QueueId("team-a"),
        pool=PoolName("default"),
        gpus_milli=1000,
        created_at=Instant(10),
        bound_at=Instant(20),
    )
    return EventReport(number=1, at=Instant(at), kind=kind, workload=WorkloadId("w"), pod=PodId("w-0-0"), usage=usage)


def test_a_pod_that_was_out_of_sight_goes_on_when_it_is_adopted() -> None:
    pod = PodParts([row(ended_at=100, cause=UNSEEN)])
    pod.bind(line("adopted", 150))
    assert (pod.rows[0]["bound_at"], pod.rows[0]["ended_at"], pod.rows[0]["cause"]) == (20, None, "")
    assert pod.first_change() == 100, "up to then it is as it was"


def test_the_end_of_a_pod_counts_also_if_only_its_later_part_is_kept() -> None:
    pod = PodParts([row(part=1, created_at=500, bound_at=500)])
    pod.end(line("ended", 400))
    assert [(each["part"], each["ended_at"]) for each in pod.rows] == [(1, 500)]


def test_a_part_that_begins_after_the_end_is_dropped() -> None:
    pod = PodParts([row(ended_at=500), row(part=1, created_at=500, bound_at=500)])
    pod.end(line("ended", 400))
    assert [(each["part"], each["ended_at"]) for each in pod.rows] == [(0, 400)]
    assert pod.first_change() == 400
