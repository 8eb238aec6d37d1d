"""Why something waits: the kind of reason is data, the sentence is for a researcher."""

from __future__ import annotations

from dataclasses import replace

from tests.scenario import World, check, verdict_sentence


def test_over_the_limit_of_a_project() -> None:
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2, limit 4
        running a of vision: 3 gpus on n1
        pending b of vision: 2 gpus
        then    wait b: over limit "limit of 4"
    """)


def test_over_the_quota_of_a_project_names_project_and_figures() -> None:
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2
        running a of vision: 1.0 gpus on n1, build
        pending b of vision: 2 gpus, build
        then    wait b: over quota "quota of 2"
    """)


def test_over_the_quota_of_a_department_names_the_department() -> None:
    check("""
        node    n1: 8 gpus
        queue   research: quota 1
        queue   vision: quota 2, in research
        pending b of vision: 2 gpus, build
        then    wait b: over quota "research"
    """)


def test_no_node_matches_says_which_requirement_excludes_how_many() -> None:
    check("""
        node    n1: 8 gpus, label gpu=v100
        node    n2: 8 gpus, label gpu=v100
        queue   vision: quota 8
        pending a of vision: 1 gpu on nodes gpu=a100
        then    wait a: no node matches "gpu=a100"
    """)


def test_devices_that_are_withheld_are_not_called_too_few() -> None:
    check("""
        node    n1: 2 gpus, withheld 0 1
        node    n2: 1 gpu
        queue   vision: quota 8
        pending a of vision: 2 gpus
        pending b of vision: 3 gpus
        then    wait a: no node matches "somebody else computes on (1 node), too few GPUs (1 node); starts when these"
        then    wait b: no node matches "too few GPUs (2 nodes); change what it asks for"
    """)


def test_fragmentation_says_what_is_free_and_what_is_free_together() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 2 gpus on n1, build
        running b of vision: 1 gpu on n2, build
        pending c of vision: 4 gpus, build
        then    wait c: fragmented "3"
    """)


def test_a_gang_of_which_some_would_fit_says_how_many() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 16
        running a of vision: 3 gpus on n1, build
        running b of vision: 3 gpus on n2, build
        pending g of vision: gang of 2, 2 gpus, build
        then    wait g
    """)


def test_waiting_for_victims_says_so() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 0
        queue   speech: quota 2
        running a of vision: 2 gpus on n1
        pending b of speech: 2 gpus
        then    evict a
        then    promise b on n1
        then    wait b: waits for victims "n1"
    """)


def test_not_its_turn_names_the_shares() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 2
        queue   speech: quota 2
        running a of vision: 2 gpus on n1
        running b of speech: 2 gpus on n1
        pending c of vision: 1 gpu
        then    wait c: not its turn "vision"
    """)


def test_no_room_for_work_without_gpus() -> None:
    check("""
        node    n1: 0 gpus, 8 cpus
        queue   vision: quota 0
        running a of vision: no gpu, 6 cpus on n1, build
        pending b of vision: no gpu, 4 cpus
        then    wait b: no room
    """)


def test_a_gang_that_is_not_complete_says_how_many_are_missing() -> None:
    world = World("""
        node    n1: 4 gpus
        queue   vision: quota 4
        pending g of vision: gang of 3, 1 gpu
    """)
    world.snapshot = replace(world.snapshot, pods=world.snapshot.pods[:2])
    (verdict,) = world.plan().verdicts.values()
    assert type(verdict.why).__name__ == "NotReady"
    assert "3" in verdict_sentence(verdict)
    assert "2" in verdict_sentence(verdict)


def test_an_elastic_group_that_waits_to_grow_says_what_runs() -> None:
    world = World("""
        node    n1: 2 gpus
        queue   vision: quota 4
        pending e of vision: 1 to 4 pods, 1 gpu
    """)
    (verdict,) = world.plan().verdicts.values()
    assert (verdict.running, verdict.waiting) == (2, 2)


def test_sentences_are_sentences() -> None:
    """Every kind of verdict gives one line of plain words, without names of classes or fields."""
    world = World("""
        node    n1: 4 gpus, label gpu=v100
        queue   vision: quota 2, limit 3
        queue   speech: quota 2
        running a of vision: 2 gpus on n1, build
        running b of speech: 2 gpus on n1
        pending c of vision: 1 gpu, build
        pending d of vision: 2 gpus
        pending e of speech: 1 gpu, on nodes gpu=a100
        pending f of speech: 1 gpu
        pending g of nowhere: 1 gpu
        pending h of speech: 5 gpus
    """)
    verdicts = world.plan().verdicts
    assert sorted(verdicts) == ["c", "d", "e", "f", "g", "h"]
    for verdict in verdicts.values():
        sentence = verdict_sentence(verdict)
        assert "\n" not in sentence
        assert "_" not in sentence
        assert "None" not in sentence
        assert len(sentence) > 20
        assert type(verdict.why).__name__ not in sentence


def test_gpus_of_a_node_that_refused_the_group_do_not_count_as_free() -> None:
    check("""
        node    n1: 2 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 2 gpus on n1, build
        pending b of vision: 1 gpu, avoiding n2
        then    wait b: not its turn "0 free"
    """)
