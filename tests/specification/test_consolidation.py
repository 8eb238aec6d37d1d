"""Consolidation: room is made by moving pods; none of them loses its place, and nothing moves without need."""

from __future__ import annotations

from dataclasses import replace

from fairpool.scheduler.policy import Policy
from tests.scenario import World, check


def test_scattered_training_is_moved_together() -> None:
    """S5."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1
        running c of vision: 1 gpu on n2
        running d of vision: 1 gpu on n2
        pending e of vision: 4 gpus
        then    move c to n1
        then    move d to n1
        then    promise e on n2
        settle
        then    a b c d run on n1
        then    e runs on n2
    """)


def test_nothing_is_moved_for_work_that_may_not_be_preempted() -> None:
    """S6: e is within its quota, and its queue, with t, at its fair share."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        node    n3: 4 gpus
        queue   vision: quota 4, over quota lowest
        queue   speech: quota 4
        running a of speech: 2 gpus on n1
        running b of speech: 2 gpus on n2
        running t of vision: 4 gpus on n3, priority 100, preemptible
        pending e of vision: 4 gpus, build
        then    wait e: fragmented
    """)


def test_a_queue_that_is_owed_its_share_has_training_moved_even_for_build() -> None:
    """Taking back and moving in one: a pod that can be placed elsewhere has lost nothing."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 4
        queue   speech: quota 4
        running a of speech: 2 gpus on n1
        running b of speech: 2 gpus on n2
        pending e of vision: 4 gpus, build
        then    move b to n1
        then    promise e on n2
    """)


def test_what_is_not_movable_stays() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 2 gpus on n1, not movable
        running b of vision: 2 gpus on n2, not movable
        pending c of vision: 4 gpus
        then    wait c: fragmented "n"
    """)


def test_build_and_inference_are_not_moved() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 2 gpus on n1, build
        running b of vision: 2 gpus on n2, inference
        pending c of vision: 4 gpus
        then    wait c: fragmented
    """)


def test_nothing_is_moved_while_a_place_without_moves_exists() -> None:
    """Needless moves are among the things the reference does."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        node    n3: 4 gpus
        queue   vision: quota 12
        running a of vision: 2 gpus on n1
        running b of vision: 2 gpus on n2
        pending c of vision: 4 gpus
        then    bind c on n3
    """)


def test_moving_a_part_of_a_gang_restarts_all_of_it() -> None:
    world = World("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n1, not movable
        running g of vision: gang of 2, 1 gpu on n1 n2
        pending c of vision: 4 gpus
    """)
    decided = world.cycle()
    assert [each.pod for each in decided.evictions] == ["g-0", "g-1"]
    assert [each.group for each in decided.promises if each.group == "c"] == ["c"]
    world.settle()
    assert world.waiting() == []
    assert world.nodes("g") == {"n1"}
    assert world.nodes("c") == {"n2"}


def test_no_pod_may_lose_its_place_by_a_move() -> None:
    """Three GPUs are free in all, but a pod that leaves n2 finds no room elsewhere."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 3 gpus on n1
        running b of vision: 2 gpus on n2
        pending c of vision: 3 gpus
        then    wait c: fragmented
    """)


def test_moving_can_be_switched_off() -> None:
    check(
        """
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 2 gpus on n1
        running b of vision: 2 gpus on n2
        pending c of vision: 4 gpus
        then    wait c: fragmented
        """,
        policy=replace(Policy.product(), max_moved_groups=0),
    )


def test_portions_are_moved_onto_one_device() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        running a of vision: 0.5 gpu on n1, device 0
        running b of vision: 0.5 gpu on n1, device 1
        pending c of vision: 1 gpu
        then    move b to n1
        then    promise c on n1
        settle
        then    a b c run on n1
        then    vision holds 2 gpus
    """)


def test_what_moved_has_its_new_place_kept_for_it() -> None:
    """A newcomer that would fit into the place that a moving pod is about to take does not get it."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 2 gpus on n1
        running b of vision: 2 gpus on n2
        pending c of vision: 4 gpus
        then    move b to n1
        then    promise c on n2
        cycle
        pending d of vision: 2 gpus
        settle
        then    a b c run
        then    d waits
    """)
