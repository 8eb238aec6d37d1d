"""Whose turn it is: groups inside a queue, sibling queues, and who gives first."""

from __future__ import annotations

from tests.scenario import check


def test_the_older_group_goes_first() -> None:
    check("""
        node    n1: 1 gpu
        queue   vision: quota 1
        pending z of vision: 1 gpu
        pending a of vision: 1 gpu
        then    bind z on n1
        then    wait a
    """)


def test_priority_goes_before_age() -> None:
    check("""
        node    n1: 1 gpu
        queue   vision: quota 1
        pending a of vision: 1 gpu
        pending b of vision: 1 gpu, priority 60
        then    bind b on n1
        then    wait a
    """)


def test_a_group_that_does_not_run_yet_goes_before_one_that_wants_to_grow() -> None:
    """O4."""
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running x of vision: 2 to 4 pods, 3 placed, 1 gpu on n1
        pending y of vision: 1 gpu
        then    bind y on n1
        then    wait x
    """)


def test_what_does_not_fit_blocks_no_other_group() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 8
        queue   speech: quota 1
        pending big of vision: 8 gpus
        pending small of vision: 2 gpus
        pending other of speech: 1 gpu
        then    bind small on n1
        then    bind other on n1
        then    wait big: no node matches
    """)


def test_the_queue_within_its_quota_goes_before_one_of_higher_priority() -> None:
    """O1."""
    check("""
        node    n1: 2 gpus
        queue   left: quota 2
        queue   right: quota 1, priority 200
        running r of right: 1 gpu on n1
        pending s of right: 1 gpu
        pending l of left: 1 gpu
        then    bind l on n1
        then    wait s
    """)


def test_outside_quota_the_queue_of_higher_priority_goes_first() -> None:
    """O2: although its dominant share is the larger one."""
    check("""
        node    n1: 4 gpus
        queue   left: quota 1
        queue   right: quota 1, priority 200
        running l1 of left: 1 gpu on n1
        running r1 of right: 2 gpus on n1
        pending l2 of left: 1 gpu
        pending r2 of right: 1 gpu
        then    bind r2 on n1
        then    wait l2
    """)


def test_at_equal_priority_the_smaller_dominant_share_goes_first() -> None:
    """O3: 3 of 4 goes before 4 of 5."""
    check("""
        node    n1: 12 gpus
        queue   left: quota 0, weight 4
        queue   right: quota 0, weight 5
        queue   third: quota 3
        queue   gone: quota 0, weight 0
        running t of third: 3 gpus on n1, build
        running l of left: 2 gpus on n1
        running r of right: 3 gpus on n1
        leaving x of gone: 3 gpus on n1
        pending r1 of right: 1 gpu
        pending r2 of right: 1 gpu
        pending l1 of left: 1 gpu
        pending l2 of left: 1 gpu
        then    bind l1 on n1
        then    promise r1 on n1
        then    promise r2 on n1
        then    promise l2 on n1
    """)


def test_the_neediest_queue_is_looked_at_anew_after_each_group() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 0, weight 1
        queue   speech: quota 0, weight 1
        pending v1 of vision: 1 gpu
        pending v2 of vision: 1 gpu
        pending v3 of vision: 1 gpu
        pending s1 of speech: 1 gpu
        pending s2 of speech: 1 gpu
        pending s3 of speech: 1 gpu
        then    bind v1 on n1
        then    bind v2 on n1
        then    bind s1 on n1
        then    bind s2 on n1
        then    wait v3
        then    wait s3
    """)


def test_the_lowest_priority_gives_first_and_in_it_the_newest() -> None:
    """O5."""
    check("""
        node    n1: 3 gpus
        queue   vision: quota 0
        queue   speech: quota 3
        running old of vision: 1 gpu on n1
        running new of vision: 1 gpu on n1
        running high of vision: 1 gpu on n1, priority 75
        pending s1 of speech: 1 gpu
        then    evict new
        then    promise s1 on n1
        settle
        pending s2 of speech: 1 gpu
        then    evict old
        then    promise s2 on n1
        settle
        pending s3 of speech: 1 gpu
        then    evict high
        then    promise s3 on n1
    """)


def test_newest_is_by_creation_not_by_start() -> None:
    """A workload that was submitted long ago and has only just started is not the first to go."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 1
        queue   speech: quota 1
        running a of vision: 1 gpu on n1, started 5s ago
        running b of vision: 1 gpu on n1, started 500s ago
        pending c of speech: 1 gpu
        then    evict b
        then    promise c on n1
    """)


def test_the_most_over_quota_queue_gives_first() -> None:
    check("""
        node    n1: 8 gpus
        queue   a: quota 2
        queue   b: quota 2
        queue   c: quota 4
        running a1 of a: 1 gpu on n1
        running a2 of a: 1 gpu on n1
        running a3 of a: 1 gpu on n1
        running b1 of b: 1 gpu on n1
        running b2 of b: 1 gpu on n1
        running b3 of b: 1 gpu on n1
        running b4 of b: 1 gpu on n1
        running b5 of b: 1 gpu on n1
        pending c1 of c: 1 gpu
        then    evict b5
        then    promise c1 on n1
    """)
