"""Would it start: where a workload would run, which others would lose pods, and what stands in its way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairpool.cluster.forecast import Forecast, sentence, would_start
from fairpool.model.ids import Instant, PoolName, QueueId, WorkloadId
from fairpool.model.mentions import anonymous, in_full
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.problem import Problem
from fairpool.model.spec import Arrangement, PodTemplate, WorkloadSpec
from fairpool.model.workload import PodShape, gpu_portion, whole_gpus
from fairpool.replay.example import NOW, example_snapshot
from fairpool.scheduler.snapshot import Snapshot
from tests.pod_records import spec

POOLS = {DEFAULT_POOL: example_snapshot()}


def job(project: str, gpus: float, name: str = "new", **more: Any) -> WorkloadSpec:
    gpu = whole_gpus(int(gpus)) if gpus >= 1 else gpu_portion(int(gpus * 1000))
    template = PodTemplate(shape=PodShape(gpu=gpu, cpu_milli=1000))
    return replace(
        spec(name=name), id=WorkloadId(name), project=QueueId(project), template=template, created_at=NOW, **more
    )


def asked(of: WorkloadSpec, pools: dict[PoolName, Snapshot] = POOLS) -> Forecast:
    found = would_start(of, pools, Instant(NOW + 1000))
    assert isinstance(found, Forecast)
    return found


def quiet() -> Snapshot:
    """The example without the jobs that wait: nothing competes with what is asked about."""
    snapshot = example_snapshot()
    running = {pod.group for pod in snapshot.pods if pod.node is not None}
    return replace(
        snapshot,
        groups=tuple(each for each in snapshot.groups if each.id in running),
        pods=tuple(each for each in snapshot.pods if each.group in running),
    )


def test_it_starts_where_there_is_room() -> None:
    found = asked(job("speech", 0.25))
    assert found.starting.total() == 1
    assert not found.victims
    assert sentence(found, job("speech", 0.25)).startswith("starts now on gpu-")


def test_it_takes_quota_back_and_says_from_which_jobs() -> None:
    of = job("language", 4)
    found = asked(of, {DEFAULT_POOL: quiet()})
    assert found.promised.total() == 1
    assert not found.starting
    assert set(found.victims) <= {"detector", "tracker", "sweep-1", "sweep-2"}
    assert found.victims.total() >= 1
    assert "when" in sentence(found, of)


def test_what_never_fits_waits_with_the_reason() -> None:
    found = asked(job("speech", 8))
    assert not found.starting
    assert not found.promised
    assert found.verdict is not None
    assert "nodes can run it" in sentence(found, job("speech", 8))


def test_other_projects_are_named_only_to_readers_who_may_see_them() -> None:
    of = job("speech", 4, arrangement=Arrangement.TOGETHER, pods=2, minimum=2)
    words = sentence(asked(of, {DEFAULT_POOL: quiet()}), of)
    assert "vision" in in_full(words)
    assert "vision" not in anonymous(words)


def test_a_changed_job_may_use_what_it_holds_itself() -> None:
    """detector runs on two GPUs of gpu-1 and asks for one: it would stay where there is room, and evict nothing."""
    found = asked(job("vision", 2, name="detector"), {DEFAULT_POOL: quiet()})
    assert found.starting.total() == 1
    assert not found.victims


def test_all_pods_of_a_gang_have_a_place_or_none() -> None:
    gang = job("speech", 1, arrangement=Arrangement.TOGETHER, pods=2, minimum=2)
    found = asked(gang, {DEFAULT_POOL: quiet()})
    assert found.starting.total() in (0, 2)
    huge = replace(gang, pods=50, minimum=50)
    assert asked(huge).starting.total() == 0


def test_the_pool_in_which_it_starts_is_found() -> None:
    full = replace(example_snapshot(), nodes=())
    pools = {PoolName("a"): full, PoolName("b"): quiet()}
    found = asked(job("speech", 1, pools=(PoolName("a"), PoolName("b"))), pools)
    assert (found.pool, found.starting.total()) == ("b", 1)
    assert isinstance(would_start(job("speech", 1, pools=(PoolName("x"),)), pools, NOW), Problem)


def test_asking_changes_nothing_and_gives_the_same_answer() -> None:
    before = example_snapshot()
    first = asked(job("language", 4), {DEFAULT_POOL: before})
    assert before == example_snapshot()
    assert asked(job("language", 4), {DEFAULT_POOL: before}) == first
