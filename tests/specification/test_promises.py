"""Promises last from cycle to cycle: kept first, kept for as long as it takes, given up when they cannot be kept."""

from __future__ import annotations

from tests.scenario import World, check


def test_a_promise_is_honoured_before_any_other_group_is_served() -> None:
    """The newcomer is older, more important and of a needier queue; the place is not its."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 0
        queue   speech: quota 2
        queue   robots: quota 2
        running a of vision: 4 gpus on n1
        pending b of speech: 2 gpus
        then    evict a
        then    promise b on n1
        cycle
        pending c of robots: 4 gpus, priority 90, created earlier
        cycle
        then    bind b on n1
        cycle
        then    b runs on n1
        then    c waits
    """)


def test_a_promise_is_kept_while_its_victims_take_their_time() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 0
        queue   speech: quota 4
        running a of vision: 2 gpus on n1
        running x of vision: 2 gpus on n1
        slow    x
        pending b of speech: 2 gpus
        then    evict x
        then    promise b on n1
        cycle
        then    nothing
        then    wait b: waits for victims
        cycle   after 30s
        then    nothing
        cycle   after 30s
        then    nothing
    """)


def test_what_is_promised_is_not_given_to_others() -> None:
    """One GPU of the promised two is idle already; a small job behind does not get it."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 0
        queue   speech: quota 2
        running a of vision: 1 gpu on n1
        slow    a
        pending b of speech: 2 gpus
        pending c of vision: 1 gpu
        then    evict a
        then    promise b on n1
        then    wait c
        cycle
        then    wait c
        cycle   after 60s
        then    wait c
    """)


def test_a_promise_on_a_lost_node_is_given_up() -> None:
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        leaving a of vision: 2 gpus on n1
        slow    a
        promised b of vision: 2 gpus on n1, promised 1s ago
        running c of vision: 2 gpus on n2, build
        then    nothing
        lose    n1
        then    withdraw b
        then    wait b
    """)


def test_a_promise_on_a_lost_node_moves_where_there_is_room() -> None:
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        leaving a of vision: 2 gpus on n1
        slow    a
        promised b of vision: 2 gpus on n1
        lose    n1
        settle
        then    b runs on n2
    """)


def test_a_promise_expires() -> None:
    """For ten minutes it goes before an older group; then it is in line like all others."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        leaving a of vision: 2 gpus on n1
        slow    a
        promised b of vision: 2 gpus on n1, promised 599s ago
        pending c of vision: 2 gpus, created earlier
        then    wait c
        cycle
        then    withdraw b
        then    promise c on n1
    """)


def test_after_an_expired_promise_another_place_will_do() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 4
        leaving a of vision: 2 gpus on n1
        slow    a
        promised b of vision: 2 gpus on n1, promised 599s ago
        cycle
        node    n2: 2 gpus
        settle
        then    b runs on n2
    """)


def test_the_age_of_a_promise_is_that_of_its_first_cycle() -> None:
    world = World("""
        node    n1: 2 gpus
        queue   vision: quota 2
        leaving a of vision: 2 gpus on n1
        slow    a
        pending b of vision: 2 gpus
    """)
    (made,) = world.cycle().promises
    for _ in range(5):
        assert [each.since for each in world.cycle().promises] in ([], [made.since])
    (pod,) = world.pods("b")
    assert pod.promised_at == made.since


def test_a_promise_to_work_that_was_deleted_is_forgotten() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        leaving a of vision: 2 gpus on n1
        promised b of vision: 2 gpus on n1
        pending c of vision: 2 gpus
        delete  b
        cycle
        cycle
        then    c runs on n1
    """)


def test_a_promise_that_a_lowered_limit_forbids_is_given_up() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 2
        promised b of vision: 2 gpus on n1
        queue   vision: quota 1, limit 1
        then    withdraw b
        then    wait b: over limit
    """)


def test_a_promised_gang_is_bound_as_a_whole() -> None:
    """One of its nodes is free a cycle before the other."""
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        leaving a of vision: 2 gpus on n1
        leaving x of vision: 2 gpus on n2
        slow    x
        pending g of vision: gang of 2, 2 gpus
        then    promise g on n1 n2
        cycle
        then    nothing
        cycle
        then    nothing
    """)


def test_promises_never_add_up_to_more_than_a_node_has() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 0
        queue   speech: quota 2
        queue   robots: quota 2
        running a of vision: 2 gpus on n1
        pending b of speech: 2 gpus
        pending c of robots: 2 gpus
        then    evict a
        then    promise b on n1
        then    wait c
    """)


def test_shared_devices_are_promised_once() -> None:
    world = World("""
        node    n1: 1 gpu
        queue   vision: quota 0
        queue   speech: quota 1
        running a of vision: 0.5 gpu on n1
        running b of vision: 0.5 gpu on n1
        pending c of speech: 0.5 gpu
        pending d of speech: 0.5 gpu
        pending e of speech: 0.5 gpu
    """)
    world.cycle()
    world.settle()
    assert world.held("speech") == 1
    assert world.held("vision") == 0


def test_what_is_promised_can_be_kept() -> None:
    """m counts for half a GPU before its node is known and for a quarter on n2, and the limit lies in between."""
    world = World("""
        node    n1: 2 gpus, of 16000 MiB
        node    n2: 2 gpus, of 32000 MiB
        queue   vision: quota 3, limit 2
        running a of vision: 1 gpu on n1
        running b of vision: 2 x 12000 MiB on n2
        pending m of vision: 8000 MiB, created earlier
    """)
    world.settle()


def test_a_lone_promise_that_expires_is_given_up_and_not_made_again_in_the_same_plan() -> None:
    check("""
        node    n1: 1 gpu
        queue   vision: quota 1
        leaving a of vision: 1 gpu on n1
        promised b of vision: 1 gpu on n1, promised 700s ago
        then    withdraw b
        then    wait b
    """)


def test_promises_are_kept_on_the_devices_that_were_promised() -> None:
    """Packed together on one device, the two halves would take the second device from the pod that was promised it."""
    world = World("""
        node    n1: 2 gpus, of 16000 MiB
        queue   vision: quota 2
        queue   speech: quota 2
        promised a of vision: 0.5 gpu on n1, device 0
        promised b of vision: 0.5 gpu on n1, device 1
        promised c of speech: 2 x 0.25 gpus on n1, devices 0 1
    """)
    decided = world.plan()
    assert {each.pod: each.devices for each in decided.binds} == {"a-0": (0,), "b-0": (1,), "c-0": (0, 1)}
