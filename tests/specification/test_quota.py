"""Quota, lending and taking back; what each kind of workload may do; limits; departments above projects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.model.ids import QueueId
from fairpool.model.organization import Entitlement, OverQuotaChoice, Queue, gpu_entitlement, with_quota
from fairpool.model.quantity import UNLIMITED
from tests.scenario import World, check


def test_quota_is_taken_back_from_the_borrower() -> None:
    """F-27, F-29."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 4
        queue   speech: quota 4
        running a of vision: 4 gpus on n1
        running b of vision: 4 gpus on n1, created later
        pending c of speech: 4 gpus
        then    evict b: "for c: vision is 4 GPUs over its quota of 4, speech needs 4 within its quota"
        then    promise c on n1
        cycle
        then    nothing
        cycle
        then    bind c on n1
        cycle
        then    c a run
        then    b waits
        then    wait b: not its turn
    """)


def test_idle_quota_is_lent() -> None:
    """F-28."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 4
        queue   speech: quota 4
        pending a of vision: 8 gpus
        then    bind a on n1
    """)


def test_a_project_below_its_quota_gets_exactly_what_it_asks_for() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 1
        queue   speech: quota 3
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1
        running c of vision: 1 gpu on n1
        running d of vision: 1 gpu on n1
        pending e of speech: 1 gpu
        then    evict d
        then    promise e on n1
    """)


@pytest.mark.parametrize("first", ["three", "one"])
def test_quotas_of_three_and_one_share_eight_gpus_six_and_two(first: str) -> None:
    """F-30 and F-35: the ratio of the quotas decides, not who came first."""
    world = World("""
        node  n1: 8 gpus
        queue three: quota 3
        queue one: quota 1
    """)
    for queue in sorted(["three", "one"], key=lambda name: name != first):
        for number in range(8):
            world.submit(f"{queue}-{number} of {queue}: 1 gpu")
    world.settle()
    assert (world.held("three"), world.held("one")) == (6, 2)


def test_the_late_comer_still_gets_its_ratio() -> None:
    """F-30, F-31: shares are worked out anew at each submit, and enforced on what runs."""
    world = World("""
        node  n1: 8 gpus
        queue three: quota 3
        queue one: quota 1
    """)
    for number in range(8):
        world.submit(f"one-{number} of one: 1 gpu")
    world.settle()
    assert world.held("one") == 8
    for number in range(8):
        world.submit(f"three-{number} of three: 1 gpu")
    world.settle()
    assert (world.held("three"), world.held("one")) == (6, 2)


def test_quotas_of_three_and_one_share_eight_more_gpus_six_and_two() -> None:
    """F-30 as the features list has it: with the quotas in use, 8 idle GPUs give 6 and 2 extra."""
    world = World("""
        node    n1: 12 gpus
        queue   three: quota 3
        queue   one: quota 1
        running a of three: 3 gpus on n1
        running b of one: 1 gpu on n1
    """)
    for number in range(8):
        world.submit(f"one-{number} of one: 1 gpu")
        world.submit(f"three-{number} of three: 1 gpu")
    world.settle()
    assert (world.held("three"), world.held("one")) == (9, 3)


@pytest.mark.parametrize(
    ("settings", "held"),
    [
        pytest.param(["low", "medium", "high"], [1, 2, 3], id="low, medium and high are 1, 2 and 3"),
        pytest.param(["lowest", "low", "low"], [0, 3, 3], id="lowest only gets what no other project wants"),
        pytest.param(["off", "low", "high"], [0, 2, 4], id="off gets nothing beyond its quota"),
        pytest.param(["lowest", "off", "off"], [6, 0, 0], id="lowest gets it all when no other project wants it"),
    ],
)
def test_the_over_quota_setting_decides_who_is_lent_what(settings: list[str], held: list[int]) -> None:
    """F-19, F-44."""
    world = World("node n1: 6 gpus")
    for project, setting in zip("abc", settings, strict=True):
        world.add_line(f"queue {project}: quota 0, over quota {setting}")
        for number in range(6):
            world.submit(f"{project}{number} of {project}: 1 gpu")
    world.settle()
    assert [world.held(project) for project in "abc"] == held


@pytest.mark.parametrize(
    ("setting", "limit", "raised", "lowered"),
    [
        # After the quota of 2 became 6, and after it became 1: limit and weight.
        pytest.param(None, UNLIMITED, (UNLIMITED, 6.0), (UNLIMITED, 1.0), id="not set: the weight follows"),
        pytest.param(None, 4000, (4000, 6.0), (4000, 1.0), id="not set, with a limit"),
        pytest.param(OverQuotaChoice.OFF, UNLIMITED, (6000, 0.0), (1000, 0.0), id="off: the limit follows"),
        pytest.param(OverQuotaChoice.OFF, 4000, (4000, 0.0), (1000, 0.0), id="off, with a limit between the quotas"),
        pytest.param(OverQuotaChoice.LOWEST, UNLIMITED, (UNLIMITED, 0.0), (UNLIMITED, 0.0), id="lowest"),
        pytest.param(
            OverQuotaChoice.LOWEST, 2000, (2000, 0.0), (2000, 0.0), id="lowest, with a limit as off would set it"
        ),
        pytest.param(OverQuotaChoice.LOW, UNLIMITED, (UNLIMITED, 1.0), (UNLIMITED, 1.0), id="low"),
        pytest.param(
            OverQuotaChoice.MEDIUM, UNLIMITED, (UNLIMITED, 2.0), (UNLIMITED, 2.0), id="medium, the weight of quota 2"
        ),
        pytest.param(OverQuotaChoice.HIGH, 4000, (4000, 3.0), (4000, 3.0), id="high, with a limit"),
    ],
)
def test_the_over_quota_setting_outlives_a_change_of_quota(
    setting: OverQuotaChoice | None, limit: int, raised: tuple[int, float], lowered: tuple[int, float]
) -> None:
    """Whichever way it came about: raised, lowered, or lowered after it was raised."""
    owed = gpu_entitlement(2000, setting, limit_milli=limit, usage=0.25)
    queue = Queue(id=QueueId("q"), gpu=owed, over_quota=setting, gpu_limit_milli=limit)
    more, less = with_quota(queue, 6000), with_quota(queue, 1000)
    assert more == replace(queue, gpu=Entitlement(6000, *raised, usage=0.25))
    assert less == replace(queue, gpu=Entitlement(1000, *lowered, usage=0.25))
    assert with_quota(more, 1000) == less
    assert with_quota(less, 2000) == queue


@pytest.mark.parametrize(
    ("before", "quota", "weight"),
    [
        pytest.param(Entitlement(2000, weight=5.0), 6000, 5.0, id="a chosen weight stays"),
        pytest.param(gpu_entitlement(2000), 0, 1.0, id="no quota is weight 1"),
        pytest.param(gpu_entitlement(0), 3000, 3.0, id="and follows from there"),
        pytest.param(gpu_entitlement(2000), UNLIMITED, 1.0, id="unlimited is weight 1"),
    ],
)
def test_without_a_setting_only_a_weight_that_was_not_chosen_follows(
    before: Entitlement, quota: int, weight: float
) -> None:
    assert with_quota(Queue(id=QueueId("q"), gpu=before), quota).gpu == Entitlement(quota, UNLIMITED, weight)


def test_a_project_without_quota_has_weight_one() -> None:
    world = World("""
        node  n1: 9 gpus
        queue none: quota 0
        queue two: quota 2
    """)
    for number in range(9):
        world.submit(f"none-{number} of none: 1 gpu")
        world.submit(f"two-{number} of two: 1 gpu")
    world.settle()
    # 2 are owed to one, the other 7 are lent 1 : 2, and the remainder goes to the larger rest.
    assert (world.held("none"), world.held("two")) == (2, 7)


def test_with_over_quota_off_a_second_training_waits_although_gpus_are_idle() -> None:
    """F-19."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2, over quota off
        running a of vision: 2 gpus on n1
        pending b of vision: 1 gpu
        then    wait b: over limit "vision"
    """)


def test_build_stays_within_quota_although_gpus_are_idle() -> None:
    """F-54."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2
        running a of vision: 2 gpus on n1, build
        pending b of vision: 1 gpu, build
        then    wait b: over quota "quota of 2"
    """)


def test_inference_stays_within_quota_although_gpus_are_idle() -> None:
    """F-65."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2
        running a of vision: 2 gpus on n1, inference
        pending b of vision: 0.5 gpu, inference
        then    wait b: over quota
    """)


def test_training_goes_over_quota() -> None:
    """F-60."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2
        running a of vision: 2 gpus on n1
        pending b of vision: 1 gpu
        then    bind b on n1
    """)


def test_preemptible_build_goes_over_quota_at_its_own_risk() -> None:
    """F-58."""
    check("""
        node    n1: 3 gpus
        queue   vision: quota 2
        queue   speech: quota 1
        running a of vision: 2 gpus on n1, build
        pending b of vision: 1 gpu, build, preemptible
        then    bind b on n1
        cycle
        pending c of speech: 1 gpu
        then    evict b
        then    promise c on n1
    """)


def test_only_what_may_not_be_preempted_counts_against_quota_for_a_build() -> None:
    """Training holds the whole quota; a build of the same project starts on idle GPUs all the same."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 4
        running t of vision: 4 gpus on n1
        pending b of vision: 1 gpu, build
        then    bind b on n1
    """)


def test_build_within_quota_evicts_training_of_its_own_project() -> None:
    """F-39."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running t of vision: 4 gpus on n1
        pending b of vision: 1 gpu, build
        then    evict t: "b"
        then    promise b on n1
        settle
        then    b runs on n1
        then    t waits
    """)


def test_inference_within_quota_evicts_training_of_its_own_project() -> None:
    """F-63."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running s of vision: 2 gpus on n1
        running t of vision: 2 gpus on n1
        pending i of vision: 1 gpu, inference
        then    evict t
        then    promise i on n1
    """)


def test_inference_comes_before_build_and_build_before_training() -> None:
    """F-40, F-63."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 3
        pending t of vision: 1 gpu
        pending b of vision: 1 gpu, build
        pending i of vision: 1 gpu, inference
        then    bind i on n1
        then    bind b on n1
        then    wait t
    """)


@pytest.mark.parametrize("kind", ["build", "inference"])
def test_interactive_work_and_inference_are_never_reclaimed(kind: str) -> None:
    """F-56, F-64: not even when the quota was lowered below what they hold."""
    check(f"""
        node    n1: 4 gpus
        queue   vision: quota 1
        queue   speech: quota 3
        running a of vision: 4 gpus on n1, {kind}
        pending c of speech: 1 gpu
        then    wait c
    """)


def test_build_is_not_preempted_by_inference_of_the_same_project() -> None:
    """F-56."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 4
        running b of vision: 2 gpus on n1, build
        pending i of vision: 1 gpu, inference
        then    wait i
    """)


def test_a_lowered_quota_stops_no_pod_by_itself() -> None:
    """What runs keeps running; only a project that is owed the GPUs may take the training."""
    check("""
        node    n1: 8 gpus
        queue   vision: quota 4
        queue   speech: quota 4
        running b of vision: 4 gpus on n1, build
        running t of vision: 4 gpus on n1
        queue   vision: quota 2, limit 3
        then    nothing
        cycle
        pending s of speech: 1 gpu
        then    evict t
        then    promise s on n1
    """)


def test_nothing_is_added_beyond_a_limit() -> None:
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2, limit 4
        running a of vision: 3 gpus on n1
        pending b of vision: 2 gpus
        pending c of vision: 1 gpu
        then    wait b: over limit "limit of 4"
        then    bind c on n1
    """)


def test_the_limit_of_a_department_holds_for_its_projects_together() -> None:
    check("""
        node    n1: 8 gpus
        queue   research: quota 4, limit 4
        queue   vision: quota 3, in research
        queue   speech: quota 2, in research
        running a of vision: 3 gpus on n1
        pending b of speech: 2 gpus
        then    wait b: over limit "research"
    """)


def test_a_cpu_limit_holds_work_without_gpus() -> None:
    """F-17."""
    check("""
        node    n1: 0 gpus, 64 cpus
        queue   vision: quota 0, cpu quota 8, cpu limit 8
        running a of vision: no gpu, 6 cpus on n1
        pending b of vision: no gpu, 4 cpus
        then    wait b: over limit "vision"
    """)


def test_the_quota_of_a_department_supersedes_those_of_its_projects() -> None:
    """F-26: 4 + 4 in a department of 6; the seventh and eighth GPU can be taken back, the sixth cannot."""
    world = World("""
        node    n1: 8 gpus
        queue   research: quota 6
        queue   vision: quota 4, in research
        queue   speech: quota 4, in research
        queue   sales: quota 2
        queue   crm: quota 4, in sales
    """)
    for number in range(4):
        world.add_line(f"running v{number} of vision: 1 gpu on n1")
        world.add_line(f"running s{number} of speech: 1 gpu on n1")
    for number in range(4):
        world.submit(f"c{number} of crm: 1 gpu")
    world.settle()
    assert (world.held("research"), world.held("sales")) == (6, 2)


def test_build_beyond_the_quota_of_the_department_waits() -> None:
    """F-25, F-26."""
    check("""
        node    n1: 8 gpus
        queue   research: quota 2
        queue   vision: quota 4, in research
        running a of vision: 2 gpus on n1, build
        pending b of vision: 1 gpu, build
        then    wait b: over quota "research"
    """)


def test_three_levels_of_queues() -> None:
    check("""
        node    n1: 8 gpus
        queue   company: quota 8
        queue   research: quota 4, in company
        queue   sales: quota 4, in company
        queue   vision: quota 4, in research
        queue   crm: quota 4, in sales
        running a of vision: 4 gpus on n1
        running b of vision: 4 gpus on n1
        pending c of crm: 4 gpus
        then    evict b: "for c: research is 4 GPUs over its quota of 4, sales needs 4 within its quota"
        then    promise c on n1
    """)


def test_work_of_a_queue_that_does_not_exist_waits() -> None:
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2
        pending a of vission: 1 gpu
        pending b of vision: 1 gpu
        then    wait a: no queue "vission"
        then    bind b on n1
    """)


def test_a_queue_with_queues_below_it_holds_no_work() -> None:
    check("""
        node    n1: 8 gpus
        queue   research: quota 2
        queue   vision: quota 2, in research
        pending a of research: 1 gpu
        then    wait a: no queue "research"
    """)


def test_a_full_node_sends_work_to_the_next() -> None:
    """F-02."""
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        running a of vision: 2 gpus on n1
        pending b of vision: 2 gpus
        then    bind b on n2
    """)
