"""Groups that start together or not at all, groups with parts, and groups that grow and shrink."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.model.workload import NodeSelectorOperator, NodeSelectorRequirement, PodAffinityTerm
from tests.scenario import World, check


def test_a_gang_waits_as_a_whole_while_one_place_is_missing() -> None:
    """F-47."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running a of vision: 1 gpu on n1, build
        pending g of vision: gang of 4, 1 gpu
        then    wait g
    """)


def test_a_gang_starts_on_several_nodes_at_once() -> None:
    """S1, F-48."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        pending g of vision: gang of 2, 4 gpus
        then    bind g on n1 n2
    """)


def test_a_gang_is_promised_as_a_whole() -> None:
    """S2: four GPUs are idle, four are being released."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        leaving x of vision: 4 gpus on n2
        pending g of vision: gang of 2, 4 gpus
        then    promise g on n1 n2
        then    wait g: waits for victims
        cycle
        then    bind g on n1 n2
    """)


def test_a_gang_without_enough_pods_waits_for_them() -> None:
    world = World("""
        node    n1: 4 gpus
        queue   vision: quota 4
        pending g of vision: gang of 3, 1 gpu, gated
    """)
    decided = world.plan()
    assert decided.is_empty
    verdict = decided.verdicts[world.snapshot.groups[0].id]
    assert type(verdict.why).__name__ == "NotReady"


def test_two_gangs_do_not_starve_each_other_by_halves() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 2
        pending a of vision: gang of 3, 1 gpu
        pending b of speech: gang of 3, 1 gpu
        then    bind a on n1
        then    wait b
    """)


def test_all_parts_of_a_group_start_together() -> None:
    check("""
        node    n1: 1 gpu
        node    n2: 2 gpus
        queue   vision: quota 4
        pending g of vision: set leader of 1, set worker of 2, 1 gpu
        then    bind g on n1 n2
    """)


def test_a_group_with_a_part_that_does_not_fit_waits_as_a_whole() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 4
        pending g of vision: set leader of 1, set worker of 2, 1 gpu
        then    wait g
    """)


def test_an_elastic_group_starts_small_and_grows() -> None:
    """F-50."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running a of vision: 2 gpus on n1
        pending e of vision: 2 to 4 pods, 1 gpu
        then    bind 2 pods of e on n1
        then    wait e
        cycle
        delete  a
        settle
        then    vision holds 4 gpus
        then    e runs on n1
    """)


def test_an_elastic_group_below_its_minimum_waits() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running a of vision: 3 gpus on n1, build
        pending e of vision: 2 to 4 pods, 1 gpu
        then    wait e
    """)


def test_an_elastic_group_gives_its_newest_surplus_pod_first() -> None:
    """S3."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 2
        running e of vision: 2 to 4 pods, 1 gpu on n1, first leads
        pending p of speech: 1 gpu
        then    evict e-3
        then    promise p on n1
    """)


def test_an_elastic_group_gives_surplus_pods_and_then_the_rest_at_once() -> None:
    """S4: a pod of three GPUs takes two surplus pods and then the gang of two, which finds no room again."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 0
        queue   speech: quota 4
        running e of vision: 2 to 4 pods, 1 gpu on n1
        pending p of speech: 3 gpus
        then    evict 4 pods of e
        then    promise p on n1
    """)


def test_a_gang_is_taken_as_a_whole() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 0
        queue   speech: quota 4
        running g of vision: gang of 4, 1 gpu on n1
        pending p of speech: 1 gpu
        then    evict g
        then    promise p on n1
    """)


@pytest.mark.parametrize("kind", ["train", "build"])
def test_a_gang_that_lost_a_part_is_ended_after_its_grace_period(kind: str) -> None:
    """S7; the only eviction that work which may not be preempted can suffer."""
    check(f"""
        node    n1: 1 gpu
        queue   vision: quota 2
        running g of vision: gang of 2, 1 placed, 1 gpu on n1, {kind}, stale for 59s
        then    wait g
        cycle
        then    evict 1 pod of g
    """)


def test_a_gang_that_lost_a_part_and_gets_it_back_goes_on() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        running g of vision: gang of 2, 1 placed, 1 gpu on n1, stale for 70s
        then    bind 1 pod of g on n1
    """)


def test_the_grace_period_begins_when_a_part_is_first_seen_missing() -> None:
    world = World("""
        node    n1: 1 gpu
        queue   vision: quota 2
        running g of vision: gang of 2, 1 placed, 1 gpu on n1
    """)
    evicted_after = 0
    while not world.cycle().evictions:
        evicted_after += 1
    assert evicted_after == 60


def test_a_gang_of_which_some_pods_have_ended_well_is_not_broken() -> None:
    check("""
        node    n1: 1 gpu
        queue   vision: quota 2
        running g of vision: gang of 2, 1 placed, 1 gpu on n1, stale for 100s, succeeded in part
        then    wait g
    """)


def test_trials_of_a_sweep_start_one_by_one() -> None:
    """F-67: pods that need not run together."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 4
        pending h of vision: 4 pods, 1 gpu
        then    bind 2 pods of h on n1
        then    wait h
    """)


def test_a_gang_that_lost_a_part_is_not_moved_in_part() -> None:
    """g runs with one of its two pods; it may be left, ended or made whole elsewhere, but not restarted by halves."""
    world = World("""
        node    n1: 2 gpus
        node    n2: 1 gpu
        queue   vision: quota 1, limit 0.5
        queue   speech: quota 3
        running x of speech: 0.5 gpu on n2, build
        running g of vision: gang of 2, 1 placed, 0.5 gpu on n1, stale for 1s
        pending h of speech: 2 gpus, not preemptible, created earlier
    """)
    decided = world.cycle()
    assert not [each.pod for each in decided.promises if each.group == "g"]


@pytest.mark.parametrize("hosts", [("n1", "n2"), ("n2", "n1")])
def test_a_gang_gets_victims_on_the_nodes_that_its_pods_are_tied_to(hosts: tuple[str, str]) -> None:
    """A launcher here, a worker there: what made no room for the first pod may make room for the second."""
    world = World("""
        node    n1: 1 gpu, label host=n1
        node    n2: 1 gpu, label host=n2
        queue   vision: quota 2
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n2
        pending g of vision: gang of 2, 1 gpu, priority 80
    """)
    tied = dict(zip(("g-0", "g-1"), hosts, strict=True))
    world.snapshot = replace(
        world.snapshot,
        pods=tuple(
            replace(pod, shape=replace(pod.shape, node_rules=on_host(tied[pod.id]))) if pod.id in tied else pod
            for pod in world.snapshot.pods
        ),
    )
    decided = world.cycle()
    assert {each.group for each in decided.evictions} == {"a", "b"}
    assert {each.pod: each.node for each in decided.promises} == tied


def on_host(name: str) -> tuple[tuple[NodeSelectorRequirement, ...], ...]:
    return ((NodeSelectorRequirement("host", NodeSelectorOperator.IN, (name,)),),)


def test_a_pod_does_not_take_the_place_of_the_neighbour_that_it_must_be_near_to() -> None:
    """It would lose its promise once the neighbour has left, who would come back: for ever."""
    world = World("""
        node    n1: 1 gpu, label host=n1
        queue   vision: quota 0
        queue   speech: quota 1
        running v of vision: 1 gpu on n1
        pending p of speech: 1 gpu
    """)
    near = (PodAffinityTerm("host", (("app", "v"),)),)
    running, waiting = world.snapshot.pods
    world.snapshot = replace(
        world.snapshot,
        pods=(
            replace(running, shape=replace(running.shape, labels=(("app", "v"),))),
            replace(waiting, shape=replace(waiting.shape, near=near)),
        ),
    )
    assert world.cycle().is_empty
