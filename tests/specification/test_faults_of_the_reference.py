"""What the reference was seen to get wrong on random clusters, one example of each; the properties do the rest."""

from __future__ import annotations

from dataclasses import replace

from tests.scenario import World, check


def test_the_same_rows_in_another_order_give_the_same_plan() -> None:
    world = World("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 2
        queue   robots: quota 2
        running a of vision: 2 gpus on n1
        running b of vision: 2 gpus on n2
        running c of speech: 2 gpus on n1
        running d of speech: 2 gpus on n2
        pending e of robots: gang of 2, 1 gpu
        pending f of robots: 4 gpus
        pending g of vision: 0.5 gpu
    """)
    there = world.plan()
    rows = world.snapshot
    back = replace(
        rows, nodes=rows.nodes[::-1], queues=rows.queues[::-1], groups=rows.groups[::-1], pods=rows.pods[::-1]
    )
    world.snapshot = back
    assert world.plan() == there


def test_an_elastic_group_whose_minimum_was_just_taken_does_not_come_back_as_a_taker() -> None:
    """The reference crashes here: e loses its minimum to f, and is then tried with its waiting pods."""
    world = World("""
        node    n1: 4 gpus
        queue   vision: quota 1
        queue   speech: quota 3
        running e of vision: 2 to 6 pods, 4 placed, 1 gpu on n1, priority 60
        running l of speech: no gpu on n1
        pending f of speech: 3 gpus
        pending g of vision: 1 gpu, priority 40
    """)
    world.settle()
    assert world.held("speech") == 3
    assert world.held("vision") == 1


def test_a_pod_has_one_outcome_in_a_plan() -> None:
    """c would be moved for d and taken for e."""
    world = World("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 4
        running a of vision: 2 gpus on n1
        running c of vision: 2 gpus on n2
        pending d of vision: 4 gpus
        pending e of speech: 4 gpus
    """)
    decided = world.plan()
    evicted = [each.pod for each in decided.evictions]
    assert len(evicted) == len(set(evicted))
    assert not set(evicted) & {each.pod for each in decided.binds}


def test_a_job_that_can_never_run_does_not_keep_its_queue_and_an_elastic_one_apart() -> None:
    """Reclaim takes a surplus pod of e for x; allocate must not give it back for the sake of `never`, ahead of x."""
    world = World("""
        node    n1: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 2
        running e of vision: 1 to 4 pods, 1 gpu on n1
        pending never of speech: 1 gpu, priority 90, on nodes gpu=a100
        pending x of speech: 1 gpu
    """)
    world.settle()
    assert "x" in world.running()
    assert world.held("vision") == 3


def test_consolidation_and_allocation_do_not_undo_each_other() -> None:
    world = World("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 4
        queue   speech: quota 4
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1
        running c of vision: 1 gpu on n2
        running d of vision: 1 gpu on n2
        pending e of vision: 1 to 2 pods, 1 gpu
        pending x of speech: 4 gpus
    """)
    world.settle()
    assert "x" in world.running()
    assert world.held("speech") == 4
    assert world.held("vision") == 4


def test_promises_of_one_cycle_do_not_add_up_to_more_than_there_is() -> None:
    world = World("""
        node    n1: 2 gpus
        queue   vision: quota 0
        queue   speech: quota 2
        queue   robots: quota 1
        running a of vision: 0.5 gpu on n1, device 0
        running b of vision: 0.5 gpu on n1, device 0
        running c of vision: 1 gpu on n1, device 1
        pending d of speech: 0.6 gpu
        pending e of speech: 0.6 gpu
        pending f of robots: 0.6 gpu
        pending g of robots: 1 gpu
    """)
    decided = world.cycle()
    filled: dict[int, int] = {}
    for promise in decided.promises:
        (pod,) = world.pods(promise.pod)
        for device in promise.devices:
            filled[device] = filled.get(device, 0) + pod.shape.gpu.portion_milli
    assert all(milli <= 1000 for milli in filled.values())


def test_gpu_memory_counts_in_the_order_of_victims() -> None:
    """vision holds 3 GPUs by memory, speech 2 whole ones: vision is the one to give."""
    check("""
        node    n1: 5 gpus, of 10000 MiB
        queue   vision: quota 1
        queue   speech: quota 1
        queue   robots: quota 3
        running a of vision: 10000 MiB on n1, device 0
        running b of vision: 10000 MiB on n1, device 1
        running c of vision: 10000 MiB on n1, device 2
        running d of speech: 1 gpu on n1, device 3
        running e of speech: 1 gpu on n1, device 4
        pending f of robots: 1 gpu
        then    evict c
        then    promise f on n1
    """)


def test_nothing_is_evicted_where_a_placement_without_it_exists() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 0
        queue   speech: quota 4
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n2
        running c of vision: 2 gpus on n2
        pending d of speech: 3 gpus
        then    bind d on n1
    """)


def test_a_gang_evicted_in_this_plan_is_not_extended_by_a_surplus_pod() -> None:
    """Readiness is looked at again when a group is taken from its list."""
    world = World("""
        node    n1: 4 gpus
        queue   vision: quota 0
        queue   speech: quota 3
        running e of vision: 3 to 4 pods, 3 placed, 1 gpu on n1
        running f of vision: 1 gpu on n1
        pending x of speech: 3 gpus
    """)
    world.cycle()
    for pod in world.pods("e"):
        assert pod.phase != "running", "a part of a gang runs without the rest"
