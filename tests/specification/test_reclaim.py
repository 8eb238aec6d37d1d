"""Taking back: who may take, from whom, how far; and what minimum runtimes protect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.scheduler.decision import Evict, EvictionReason, QueueFigures
from fairpool.scheduler.explain import explain_eviction
from fairpool.scheduler.policy import Pass, Policy, RuntimeScope
from tests.scenario import World, check


def test_a_queue_at_its_fair_share_takes_nothing() -> None:
    """R1."""
    check("""
        node    n1: 8 gpus
        queue   a: quota 2
        queue   b: quota 2
        running a1 of a: 4 gpus on n1
        running b1 of b: 4 gpus on n1
        pending a2 of a: 1 gpu
        pending b2 of b: 1 gpu
        then    wait a2: not its turn
        then    wait b2: not its turn
    """)


def test_reclaim_stops_at_the_fair_share() -> None:
    """R2: A wants six, exactly four are taken."""
    world = World("""
        node  n1: 8 gpus
        queue a: quota 2
        queue b: quota 2
    """)
    for number in range(1, 9):
        world.add_line(f"running b{number} of b: 1 gpu on n1")
    for number in range(1, 7):
        world.add_line(f"pending a{number} of a: 1 gpu")
    first = world.cycle()
    assert sorted(each.group for each in first.evictions) == ["b5", "b6", "b7", "b8"]
    assert sorted(each.group for each in first.promises) == ["a1", "a2", "a3", "a4"]
    world.settle()
    assert (world.held("a"), world.held("b")) == (4, 4)


def test_within_quota_one_may_take_what_is_above_quota_though_within_fair_share() -> None:
    """R3: d1 is owed 3 and holds 1; d2 is owed 2, may fairly have 4 and holds 3."""
    check("""
        node    n1: 4 gpus, label zone=east
        node    n2: 3 gpus
        queue   d1: quota 3
        queue   d2: quota 2
        running x of d1: 1 gpu on n1, on nodes zone=east
        running y1 of d2: 1 gpu on n1, on nodes zone=east
        running y2 of d2: 1 gpu on n1, on nodes zone=east
        running y3 of d2: 1 gpu on n1, on nodes zone=east
        pending y4 of d2: 1 gpu on nodes zone=east
        pending j1 of d1: 1 gpu on nodes zone=east
        pending j2 of d1: 1 gpu on nodes zone=east
        then    evict y3: "for j1: d2 is 1 GPU over its quota of 2"
        then    promise j1 on n1
        then    wait j2: not its turn
    """)


def test_nothing_is_taken_from_a_queue_at_its_quota() -> None:
    """R4."""
    check("""
        node    n1: 4 gpus
        queue   d1: quota 3
        queue   d2: quota 2
        running x of d1: 2 gpus on n1
        running y of d2: 2 gpus on n1
        pending j of d1: 1 gpu
        then    wait j: not its turn
    """)


ABOVE_ITS_SHARE_BUT_LESS_SATURATED = """
        node    n1: 7 gpus
        node    n2: 4 gpus
        queue   d1: quota 4
        queue   p1: quota 3, in d1
        queue   p2: quota 4, in d1
        queue   d2: quota 3
        queue   p3: quota 3, in d2
        running x of p2: 4 gpus on n1
        running y1 of p3: 4 gpus on n2
        running y2 of p3: 1 gpu on n1
        running y3 of p3: 1 gpu on n1
        running y4 of p3: 1 gpu on n1
        node    n2: 4 gpus, cordoned
        pending j of p1: 1 gpu
"""


def test_a_department_may_rise_above_its_share_while_it_is_less_saturated() -> None:
    """R5: 5 of 4 is less than 6 of 3."""
    check(
        ABOVE_ITS_SHARE_BUT_LESS_SATURATED
        + """
        then    evict y4
        then    promise j on n1
    """
    )


def test_the_saturation_multiplier_demands_a_wider_gap() -> None:
    """R5 with a multiplier: 1.25 times 1.7 is more than 2."""
    check(
        ABOVE_ITS_SHARE_BUT_LESS_SATURATED + "then wait j",
        policy=replace(Policy.product(), saturation_multiplier=1.7),
    )


def test_a_gang_that_would_overshoot_is_refused() -> None:
    """R6: after it d1 would stand at 6 of 5 and d2 at 4 of 5."""
    check("""
        node    n1: 10 gpus
        queue   d1: quota 4
        queue   old: quota 4, in d1
        queue   new: quota 4, in d1
        queue   d2: quota 4
        queue   big: quota 4, in d2
        running x of old: 3 gpus on n1
        running y of big: 4 gpus on n1, build
        running v of big: 3 gpus on n1
        pending g of new: gang of 3, 1 gpu
        then    wait g
    """)


def test_a_gang_that_ends_at_its_share_is_not() -> None:
    """R6 with one GPU less in use: 5 of 5, although d2 drops to 4 of 5."""
    check("""
        node    n1: 9 gpus
        node    n2: 1 gpu
        queue   d1: quota 4
        queue   old: quota 4, in d1
        queue   new: quota 4, in d1
        queue   d2: quota 4
        queue   big: quota 4, in d2
        running x of old: 2 gpus on n1
        running y of big: 4 gpus on n1, build
        running v of big: 3 gpus on n1
        pending g of new: 3 gpus
        then    evict v
        then    promise g on n1
    """)


def test_build_beyond_its_quota_takes_nothing_though_its_share_is_larger() -> None:
    """R7."""
    check("""
        node    n1: 5 gpus
        queue   vision: quota 1, weight 9
        queue   speech: quota 1, weight 1
        running a of vision: 1 gpu on n1, build
        running b of speech: 4 gpus on n1
        pending c of vision: 1 gpu, build
        pending d of vision: 3 gpus
        then    wait c: over quota
        then    evict b
        then    promise d on n1
    """)


def test_two_projects_of_one_department_are_compared_as_projects() -> None:
    """R8: that their department is above its share changes nothing."""
    check("""
        node    n1: 8 gpus
        node    n2: 4 gpus
        queue   d1: quota 2
        queue   p1: quota 2, in d1
        queue   p2: quota 2, in d1
        queue   d2: quota 4
        queue   p3: quota 4, in d2
        running x1 of p2: 4 gpus on n1
        running x2 of p2: 3 gpus on n1
        running x3 of p2: 1 gpu on n1
        running y of p3: 4 gpus on n2
        node    n2: 4 gpus, cordoned
        pending j of p1: 1 gpu
        then    evict x3: "p2"
        then    promise j on n1
    """)


def test_nothing_is_taken_from_an_unlimited_quota() -> None:
    """R9."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota unlimited
        queue   speech: quota 4
        running a of vision: 4 gpus on n1
        pending b of speech: 1 gpu
        then    wait b
    """)


def test_with_over_subscribed_quotas_reclaim_stops_at_the_victims_quota() -> None:
    world = World("""
        node  n1: 8 gpus
        queue a: quota 6
        queue b: quota 6
    """)
    for number in range(8):
        world.add_line(f"running b{number} of b: 1 gpu on n1")
    for number in range(8):
        world.add_line(f"pending a{number} of a: 1 gpu")
    world.settle()
    assert (world.held("a"), world.held("b")) == (2, 6)


def test_the_last_unit_may_be_larger_than_the_surplus() -> None:
    """The victim's side was above its quota before the unit was taken; after it, it is below."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 3
        queue   speech: quota 1
        running a of vision: 4 gpus on n1
        pending b of speech: 1 gpu
        then    evict a: "for b: vision is 1 GPU over its quota of 3, speech needs 1 within its quota"
        then    promise b on n1
    """)


def test_what_still_fits_somewhere_is_moved_rather_than_ended() -> None:
    """Victims are offered a place; here one exists, on a node where the winner may not go."""
    check("""
        node    n1: 2 gpus, label zone=east
        node    n2: 2 gpus
        queue   vision: quota 0
        queue   speech: quota 2
        running a of vision: 2 gpus on n1
        pending b of speech: 2 gpus, build, on nodes zone=east
        then    move a to n2
        then    promise b on n1
    """)


@pytest.mark.parametrize(
    ("whole", "says"),
    [
        pytest.param(False, "moves to n2, for b: ", id="moves"),
        pytest.param(True, "restarts on n2 because all pods of its gang restart together, for b: ", id="restarts"),
    ],
)
def test_who_is_moved_is_told_for_whom(whole: bool, says: str) -> None:
    reason = EvictionReason(
        Pass.RECLAIM,
        GroupId("b"),
        taken=QueueFigures(QueueId("vision"), 0, 0, 2000),
        gaining=QueueFigures(QueueId("speech"), 2000, 2000, 0),
        wanted_milli=2000,
        moved_to=NodeName("n2"),
        restarts_with_group=whole,
    )
    sentence = explain_eviction(Evict(PodId("a-0"), GroupId("a"), NodeName("n1"), reason))
    assert sentence == says + "vision is 2 GPUs over its quota of 0, speech needs 2 within its quota"


def test_training_within_quota_is_not_taken_though_the_queue_is_over_it() -> None:
    """Two of vision's three GPUs are its own: only one goes, however much speech is owed."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 3
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1
        running c of vision: 1 gpu on n1
        running x of speech: 1 gpu on n1
        pending y of speech: 1 gpu
        pending z of speech: 1 gpu
        then    evict c
        then    promise y on n1
        then    wait z: not its turn
    """)


# --- minimum runtimes ------------------------------------------------------------------------------------------


def test_minimum_runtime_protects_from_reclaim_until_it_has_passed() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 0, reclaim min runtime 60s
        queue   speech: quota 2
        running a of vision: 2 gpus on n1, started 30s ago
        pending b of speech: 2 gpus
        then    wait b: protected victims
        cycle after 29s
        then    wait b: protected victims
        cycle
        then    evict a
        then    promise b on n1
    """)


def test_the_minimum_runtime_begins_with_the_bind() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 0, min runtime 60s
        queue   speech: quota 2
        pending a of vision: 2 gpus
        then    bind a on n1
        cycle   after 30s
        pending b of speech: 2 gpus
        then    wait b: protected victims
        cycle   after 30s
        then    evict a
        then    promise b on n1
    """)


def test_between_departments_the_department_decides_about_protection() -> None:
    """Different top-level queues: the value of the victim's top-level queue, and no other."""
    check("""
        node    n1: 2 gpus
        queue   d1: quota 0
        queue   p1: quota 0, in d1, reclaim min runtime 600s
        queue   d2: quota 2
        queue   p2: quota 2, in d2
        running a of p1: 2 gpus on n1, started 30s ago
        pending b of p2: 2 gpus
        then    evict a
        then    promise b on n1
    """)


def test_between_departments_the_value_of_the_department_protects() -> None:
    check("""
        node    n1: 2 gpus
        queue   d1: quota 0, reclaim min runtime 600s
        queue   p1: quota 0, in d1
        queue   d2: quota 2
        queue   p2: quota 2, in d2
        running a of p1: 2 gpus on n1, started 30s ago
        pending b of p2: 2 gpus
        then    wait b: protected victims
    """)


def test_under_a_common_ancestor_the_nearest_value_from_there_up_protects() -> None:
    """The example of the rules: A/B/C/leaf1 against A/B/D/leaf3, only B has a value."""
    check("""
        node    n1: 2 gpus
        queue   a: quota 2
        queue   b: quota 2, in a, reclaim min runtime 600s
        queue   c: quota 0, in b
        queue   d: quota 2, in b
        queue   leaf1: quota 0, in c, reclaim min runtime 1s
        queue   leaf3: quota 2, in d
        running x of leaf1: 2 gpus on n1, started 30s ago
        pending y of leaf3: 2 gpus
        then    wait y: protected victims
    """)


def test_protection_by_the_victims_own_queue_is_a_choice_of_policy() -> None:
    check(
        """
        node    n1: 2 gpus
        queue   d1: quota 0
        queue   p1: quota 0, in d1, reclaim min runtime 600s
        queue   d2: quota 2
        queue   p2: quota 2, in d2
        running a of p1: 2 gpus on n1, started 30s ago
        pending b of p2: 2 gpus
        then    wait b: protected victims
        """,
        policy=replace(Policy.product(), reclaim_runtime_scope=RuntimeScope.QUEUE),
    )


def test_a_protected_elastic_group_shrinks_to_its_minimum_and_no_further() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 0, reclaim min runtime 600s
        queue   speech: quota 4
        running e of vision: 2 to 4 pods, 1 gpu on n1, started 30s ago
        pending a of speech: 1 gpu
        pending b of speech: 1 gpu
        pending c of speech: 1 gpu
        then    evict 2 pods of e
        then    promise a on n1
        then    promise b on n1
        then    wait c: protected victims
    """)


def test_what_the_same_plan_gave_justifies_no_loss_of_what_ran_before() -> None:
    """Vision grows to 4 GPUs, above its quota of 3; without the pod that would be taken back it is within it."""
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 3
        queue   speech: quota 2
        running e of vision: 2 to 4 pods, 3 placed, 1 gpu on n2 n2 n1
        pending a of speech: 2 gpus
        then    bind e on n1
        then    wait a: not its turn
    """)


def test_protection_from_reclaim_is_no_protection_from_preemption() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2, reclaim min runtime 600s
        running a of vision: 2 gpus on n1, started 30s ago
        pending b of vision: 1 gpu, build
        then    evict a
        then    promise b on n1
    """)


def test_minimum_runtime_protects_from_preemption() -> None:
    """The nearest value from the victim's queue to the root."""
    check("""
        node    n1: 2 gpus
        queue   d1: quota 2, preempt min runtime 600s
        queue   vision: quota 2, in d1, preempt min runtime 60s
        running a of vision: 2 gpus on n1, started 30s ago
        pending b of vision: 1 gpu, build
        then    wait b: protected victims
        cycle after 31s
        then    evict a
        then    promise b on n1
    """)


def test_the_department_protects_from_preemption_where_the_project_says_nothing() -> None:
    check("""
        node    n1: 2 gpus
        queue   d1: quota 2, preempt min runtime 600s
        queue   vision: quota 2, in d1
        running a of vision: 2 gpus on n1, started 30s ago
        pending b of vision: 1 gpu, build
        then    wait b: protected victims
    """)


def test_what_was_reclaimed_goes_to_whom_it_was_reclaimed_for() -> None:
    """t may take, i would put speech beyond its fair share: it does not get a's GPUs by the way of t's promise."""
    check("""
        node    n1: 4 gpus
        node    n2: 1 gpu
        queue   vision: quota 3
        queue   speech: quota 4
        running a of vision: 4 gpus on n1
        running s of speech: 0.25 gpu on n2, priority 130, preemptible
        pending t of speech: 1 gpu
        pending i of speech: 4 gpus, inference
        then    evict a: "speech needs 1 within its quota"
        then    promise t on n1
        then    wait i
    """)
