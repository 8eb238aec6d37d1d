"""Priority inside one queue."""

from __future__ import annotations

from tests.scenario import check


def test_equal_priority_is_no_reason_to_preempt() -> None:
    """S8."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        running a of vision: 2 gpus on n1
        pending b of vision: 1 gpu, created earlier
        then    wait b
    """)


def test_higher_priority_preempts_the_newest_of_the_lowest() -> None:
    check("""
        node    n1: 3 gpus
        queue   vision: quota 3
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1
        running c of vision: 1 gpu on n1, priority 60
        pending d of vision: 1 gpu, priority 80
        then    evict b: "d"
        then    promise d on n1
    """)


def test_priority_counts_for_nothing_between_queues() -> None:
    """Both queues are at their quota: the most important work of one takes nothing from the other."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 1
        queue   speech: quota 1
        running a of vision: 1 gpu on n1, priority 1
        running b of speech: 1 gpu on n1, priority 90
        pending c of speech: 1 gpu, priority 90
        then    wait c
    """)


def test_priority_and_preemptibility_are_separate() -> None:
    """Of low priority but not to be preempted; of high priority and preemptible."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 3
        running low of vision: 1 gpu on n1, priority 10, not preemptible
        running high of vision: 1 gpu on n1, priority 110, preemptible
        pending b of vision: 1 gpu, priority 120, not preemptible
        then    evict high
        then    promise b on n1
    """)


def test_no_more_is_taken_than_is_needed() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1
        running c of vision: 1 gpu on n1
        running d of vision: 1 gpu on n1
        pending e of vision: 2 gpus, build
        then    evict c
        then    evict d
        then    promise e on n1
    """)


def test_a_limit_stops_preemption_too() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 2, limit 2
        queue   speech: quota 2
        running a of vision: 1 gpu on n1
        running b of vision: 1 gpu on n1, build
        running c of speech: 2 gpus on n1
        pending d of vision: 3 gpus, priority 90
        then    wait d: over limit
    """)
