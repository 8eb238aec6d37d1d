"""Why work waits, as structure: checks, what would change it, and when it is expected to start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from fairpool.api import waiting as wire
from fairpool.cluster.expected_start import (
    Basis,
    Expectations,
    KnownEnd,
    Undecided,
    end_by_limit,
    end_by_progress,
    expected_start,
)
from fairpool.cluster.known_ends import KnownEnds
from fairpool.cluster.remedies import Effect, RemedyKind, remedies
from fairpool.cluster.wait_answer import PlannedPool, wait_answer
from fairpool.cluster.wait_report import wait_report
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, PoolName, QueueId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.mentions import anonymous, in_full
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.organization import ProjectRules, Queue, gpu_entitlement
from fairpool.model.progress import part_done
from fairpool.model.spec import WorkloadSpec
from fairpool.model.workload import Pod, PodGroup, PodShape, whole_gpus
from fairpool.replay.example import example_snapshot
from fairpool.scheduler.checks import FAILED_BY, CheckState, SchedulerCheck, cause_code, checks
from fairpool.scheduler.decision import NotItsTurn, Why
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot
from tests.pod_records import spec

NOW = Instant(1_000_000_000)
HOUR_MS = 3_600_000
A, B = QueueId("team-a"), QueueId("team-b")


def row(name: str, queue: QueueId, gpus: int, devices: tuple[int, ...] = (), minutes_ago: int = 0) -> tuple[Any, Any]:
    created = Instant(NOW - minutes_ago * 60_000)
    group = PodGroup(
        id=GroupId(name), queue=queue, created_at=created, started_at=created if devices else None, movable=False
    )
    pod = Pod(
        id=PodId(f"{name}-0-0"),
        group=group.id,
        shape=PodShape(gpu=whole_gpus(gpus)),
        phase=PodPhase.RUNNING if devices else PodPhase.WAITING,
        node=NodeName("n1") if devices else None,
        devices=devices,
        created_at=created,
    )
    return group, pod


def pool(*rows: tuple[Any, Any], quotas: tuple[int, int] = (4, 4), gpus: int = 8) -> Snapshot:
    return Snapshot(
        now=NOW,
        nodes=(Node(name=NodeName("n1"), gpus=gpus, cpu_milli=64_000, memory_bytes=1 << 40),),
        queues=(
            Queue(id=A, gpu=gpu_entitlement(1000 * quotas[0])),
            Queue(id=B, gpu=gpu_entitlement(1000 * quotas[1])),
        ),
        groups=tuple(group for group, _ in rows),
        pods=tuple(pod for _, pod in rows),
    )


FULL = pool(
    row("a1", A, 4, (0, 1, 2, 3), 120),
    row("b1", B, 4, (4, 5, 6, 7), 60),
    row("wants", B, 2, minutes_ago=5),
)
WANTS = GroupId("wants")


def spec_of(workload: WorkloadId) -> WorkloadSpec:
    return replace(spec(name=workload), id=workload, name=f"name-{workload}", project=B)


# --- checks ---


def test_every_reason_fails_a_check_and_its_code_is_in_the_api() -> None:
    assert set(FAILED_BY) == set(get_args(Why))
    assert set(get_args(wire.CheckName)) == {each.value for each in SchedulerCheck}
    assert set(get_args(wire.CheckOutcome)) == {each.value for each in CheckState}
    assert set(get_args(wire.ChangeKind)) == {each.value for each in RemedyKind}
    assert set(get_args(wire.Effect)) == {each.value for each in Effect}
    assert set(get_args(wire.Basis)) == {each.value for each in Basis}


def test_checks_before_the_cause_passed_and_later_ones_were_not_reached() -> None:
    verdict = plan(FULL).verdicts[WANTS]
    assert cause_code(verdict.why) == "not_its_turn"
    states = {each.check: each.state for each in checks(verdict)}
    assert list(states) == list(SchedulerCheck)
    assert states[SchedulerCheck.TOPOLOGY] is CheckState.PASSED
    assert states[SchedulerCheck.ROOM] is states[SchedulerCheck.RECLAIM] is CheckState.FAILED
    assert states[SchedulerCheck.HANDOVER] is CheckState.NOT_REACHED


def test_figures_name_other_projects_only_to_those_who_may_see_them() -> None:
    report = wait_report(plan(FULL).verdicts[WANTS], B)
    text = report.to_json()
    assert '"heldMilli":4000' in text
    assert "team-a" in in_full(text)
    assert "team-a" not in anonymous(text)
    assert "team-b" in anonymous(text), "its own project is no secret"


# --- what would change it ---


def effects(snapshot: Snapshot, group: GroupId = WANTS) -> dict[tuple[str, str], Effect]:
    verdict = plan(snapshot).verdicts[group]
    found = remedies(DEFAULT_POOL, {DEFAULT_POOL: snapshot}, group, verdict)
    assert found == sorted(found, key=lambda each: (list(Effect).index(each.effect), each.by_administrator))
    return {(each.kind.value, each.subject): each.effect for each in found}


def test_stopping_own_work_lets_it_start_and_asking_for_less_does_not() -> None:
    found = effects(FULL)
    assert found["stop-own", "b1"] is Effect.STARTS
    assert found["fewer-gpus", "wants"] is Effect.NONE, "nothing is free at all"
    assert found["raise-quota", "team-b"] is Effect.NONE, "team-a is within its quota: nothing can be taken back"


def test_a_higher_quota_lets_it_take_back_what_another_project_borrowed() -> None:
    borrowed = pool(row("a1", A, 8, tuple(range(8)), 120), row("wants", B, 2, minutes_ago=5), quotas=(4, 0))
    assert effects(borrowed)["raise-quota", "team-b"] is Effect.AFTER_PREEMPTION


def test_asking_for_less_helps_where_some_is_free() -> None:
    some_free = pool(row("a1", A, 4, (0, 1, 2, 3)), row("b1", B, 3, (4, 5, 6)), row("wants", B, 2))
    found = effects(some_free)
    assert found["fewer-gpus", "wants"] is Effect.STARTS


def test_another_pool_and_returned_nodes_are_tried() -> None:
    other = replace(FULL, groups=(), pods=())
    verdict = plan(FULL).verdicts[WANTS]
    found = remedies(DEFAULT_POOL, {DEFAULT_POOL: FULL, PoolName("spare"): other}, WANTS, verdict)
    assert {each.subject: each.effect for each in found}["spare"] is Effect.STARTS
    cordoned = replace(FULL, nodes=(*FULL.nodes, replace(FULL.nodes[0], name=NodeName("n2"), cordoned=True)))
    assert effects(cordoned)["return-nodes", "n2"] is Effect.STARTS


def test_when_time_is_short_one_change_of_each_kind_is_tried() -> None:
    many = pool(
        *(row(f"b{number}", B, 1, (number,), 60) for number in range(8)),
        row("wants", B, 2, minutes_ago=5),
        quotas=(4, 8),
    )
    assert len([kind for kind, _ in effects(many) if kind == "stop-own"]) == 3
    times = iter([True, True, False])
    verdict = plan(many).verdicts[WANTS]
    found = remedies(DEFAULT_POOL, {DEFAULT_POOL: many}, WANTS, verdict, lambda: next(times))
    assert {each.kind for each in found} == {RemedyKind.STOP_OWN, RemedyKind.FEWER_GPUS}


def test_without_time_an_estimate_is_not_computed_rather_than_said_to_have_no_basis() -> None:
    known = Expectations({GroupId("b1"): end_by_limit(Instant(NOW + HOUR_MS))})
    with pytest.raises(Undecided):
        expected_start(FULL, WANTS, known, lambda: False)
    pools = {DEFAULT_POOL: PlannedPool(FULL, plan(FULL), lambda: known)}
    found = wait_answer(spec_of(WorkloadId("wants")), pools, NOW, spec_of, with_changes=True, has_time=lambda: False)
    assert (found.estimate, found.expected_start, found.changes) == ("not-computed", None, [])


def test_many_ends_are_taken_together_after_the_first_few() -> None:
    running = [row(f"a{number}", A, 1, (number,), 60) for number in range(64)]
    many = pool(*running, row("wants", B, 64, minutes_ago=5), quotas=(64, 0), gpus=64)
    ends = {GroupId(f"a{number}"): end_by_limit(Instant(NOW + number * 60_000)) for number in range(64)}
    found = expected_start(many, WANTS, Expectations(ends))
    assert found is not None
    assert found.at == NOW + 63 * 60_000
    assert len(found.waits_for) == 64


def test_what_never_fits_has_no_basis() -> None:
    ends = Expectations({GroupId("detector"): end_by_limit(Instant(example_snapshot().now + 1))})
    assert expected_start(example_snapshot(), GroupId("huge"), ends) is None


def test_what_would_help_one_that_never_fits_is_said_too() -> None:
    found = effects(example_snapshot(), GroupId("huge"))
    assert found["fewer-gpus", "huge"] in set(Effect)


# --- expected start ---


def test_without_a_known_end_there_is_no_basis() -> None:
    assert expected_start(FULL, WANTS, Expectations()) is None


def test_a_time_limit_bounds_the_start_from_above() -> None:
    limit = Instant(NOW + HOUR_MS)
    found = expected_start(FULL, WANTS, Expectations({GroupId("b1"): end_by_limit(limit)}))
    assert found is not None
    assert (found.at, found.earliest, found.latest) == (limit, None, limit)
    assert found.bases == (Basis.TIME_LIMIT,)
    assert found.waits_for == ("b1",)


def test_an_end_that_frees_nothing_for_it_is_no_basis() -> None:
    """team-a's GPUs are its own quota: what it starts next takes them again."""
    more = pool(
        row("a1", A, 8, tuple(range(8)), 120), row("a2", A, 8, minutes_ago=50), row("wants", B, 2), quotas=(8, 0)
    )
    ends = Expectations({GroupId("a1"): end_by_limit(Instant(NOW + HOUR_MS))})
    assert expected_start(more, WANTS, ends) is None
    limited = Expectations(ends.ends, length_s=lambda group: 600 if group == "a2" else None)
    found = expected_start(more, WANTS, limited)
    assert found is not None
    assert found.at == NOW + HOUR_MS + 600_000, "after the one that is ahead of it, which has a time limit too"


def test_progress_gives_an_interval_that_a_time_limit_cuts() -> None:
    started = Instant(NOW - HOUR_MS)
    end = end_by_progress(0.5, started, NOW, None)
    assert end == KnownEnd(
        basis=Basis.PROGRESS,
        expected=Instant(NOW + HOUR_MS),
        earliest=Instant(NOW + HOUR_MS * 3 // 4),
        latest=Instant(NOW + HOUR_MS * 3 // 2),
    )
    limit = Instant(NOW + HOUR_MS * 5 // 4)
    cut = end_by_progress(0.5, started, NOW, limit)
    assert cut is not None
    assert cut.latest == limit
    assert end_by_progress(0.01, started, NOW, None) is None, "too early to tell"
    found = expected_start(FULL, WANTS, Expectations({GroupId("b1"): cut}))
    assert found is not None
    assert (found.earliest, found.at, found.latest) == (cut.earliest, cut.expected, limit)
    assert found.bases == (Basis.PROGRESS,)


def test_what_has_a_place_starts_when_the_others_have_stopped() -> None:
    leaving = pool(row("a1", A, 8, tuple(range(8)), 120), row("wants", B, 2))
    found = expected_start(leaving, WANTS, Expectations())
    assert found is not None
    assert (found.at, found.latest, found.bases) == (NOW, None, (Basis.HANDOVER,))


@pytest.mark.parametrize(
    ("metrics", "part"),
    [
        ({"epoch": 3, "overall_epochs": 12}, 0.25),
        ({"epoch": 30, "overall_epochs": 12}, 1.0),
        ({"epoch": 1, "overall_epochs": 0}, None),
        ({"epoch": "many", "overall_epochs": 12}, None),
        ({"epoch": True, "overall_epochs": 12}, None),
        ({"epoch": float("nan"), "overall_epochs": 12}, None),
        ({}, None),
    ],
)
def test_progress_is_read_from_epochs(metrics: dict[str, Any], part: float | None) -> None:
    assert part_done(metrics) == part


def test_ends_are_known_from_limits_and_from_what_jobs_report() -> None:
    reports = {PodId("a1-0-0"): {"metrics": {"epoch": 1, "overall_epochs": 2}}}
    limit = ProjectRules(training_limit_s=7200)
    ends = KnownEnds(
        spec_of,
        lambda workload: WorkloadState(workload=workload, active_since=Instant(NOW - HOUR_MS)),
        lambda _: limit,
        lambda pod: reports.get(pod, {"metrics": "garbage"}),
    )
    known = ends.of(FULL, NOW)
    assert known.ends[GroupId("b1")] == end_by_limit(Instant(NOW + HOUR_MS))
    assert known.ends[GroupId("a1")].basis is Basis.PROGRESS
    assert WANTS not in known.ends
    assert known.length_s(WANTS) == 7200


# --- the whole answer ---


def test_an_answer_has_one_instant_and_everything_about_the_wait() -> None:
    known = Expectations({GroupId("b1"): end_by_limit(Instant(NOW + HOUR_MS))})
    pools = {DEFAULT_POOL: PlannedPool(FULL, plan(FULL), lambda: known)}
    found = wait_answer(spec_of(WorkloadId("wants")), pools, NOW, spec_of, with_changes=True)
    assert found.waits
    assert found.taken_at == "1970-01-12T13:46:40.000Z"
    assert found.cause is not None
    assert found.cause.failed_checks == ["room", "reclaim"]
    assert found.cause.details["askedMilli"] == 2000
    figures = {each.check: each.figures for each in found.checks}
    assert figures["room"] == {"asked": 2, "free": 0}
    assert figures["limits"] == {"asked": 2, "held": 4}, "it has no limit"
    assert figures["reclaim"] == {"asked": 2, "held": 4, "quota": 4, "fairShare": 4}
    assert figures["pods"] == {"needed": 1, "exist": 1}
    assert found.share is not None
    assert (found.share.quota, found.share.allocated) == (4, 4)
    best = found.changes[0]
    assert (best.kind, best.subject, best.effect, best.by) == ("stop-own", "name-b1", "starts", "user")
    assert any(each.message.endswith(": no gain") for each in found.changes)
    assert found.expected_start is not None
    assert found.expected_start.waits_for == 1
    without = wait_answer(spec_of(WorkloadId("wants")), pools, NOW, spec_of, with_changes=False)
    assert without.changes == []
    nothing = wait_answer(spec_of(WorkloadId("b1")), pools, NOW, spec_of, with_changes=True)
    assert not nothing.waits
    assert isinstance(plan(FULL).verdicts[WANTS].why, NotItsTurn)
