"""Why something waits: the kind of reason is data, the sentence is for a researcher."""

from __future__ import annotations

from dataclasses import replace

from fairpool.scheduler.decision import NotItsTurn
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
        then    wait a: no node matches "outside Fairpool (1 node), too few GPUs (1 node); starts when they"
        then    wait b: no node matches "too few GPUs (2 nodes); change the request"
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


# --- whose quota is in the way ---


def test_an_unlimited_department_is_named_when_it_keeps_what_a_project_is_owed() -> None:
    check("""
        node    n1: 8 gpus
        node    n2: 8 gpus
        queue   standard: quota unlimited
        queue   research: quota 8
        queue   team-a: quota 4, in standard
        queue   speech: quota 4, in research
        running a of team-a: 8 gpus on n1
        running b of team-a: 8 gpus on n2
        pending c of speech: 4 gpus
        then    wait c: not its turn "department standard has an unlimited quota, so its GPUs never count"
    """)


def test_an_unlimited_project_is_named_too() -> None:
    check("""
        node    n1: 8 gpus
        queue   team-a: quota unlimited
        queue   speech: quota 4
        running a of team-a: 8 gpus on n1
        pending c of speech: 4 gpus
        then    wait c: not its turn "team-a has an unlimited quota, so its GPUs never count as over quota"
    """)


def test_an_unlimited_project_is_named_behind_the_department_that_follows_it() -> None:
    check("""
        node    n1: 8 gpus
        queue   standard: quota unlimited
        queue   research: quota 8
        queue   team-a: quota 4, in standard
        queue   team-b: quota unlimited, in standard
        queue   speech: quota 4, in research
        running a of team-a: 8 gpus on n1
        pending c of speech: 4 gpus
        then    wait c: not its turn "set on it or on one of its projects"
    """)


def test_the_askers_own_department_is_named_when_its_quota_is_smaller_than_the_projects() -> None:
    check("""
        node    n1: 8 gpus
        queue   standard: quota 6
        queue   research: quota 2
        queue   team-a: quota 6, in standard
        queue   speech: quota 4, in research
        running a of team-a: 6 gpus on n1
        running b of speech: 2 gpus on n1
        pending c of speech: 2 gpus
        then    wait c: not its turn "department research holds 2 of its quota of 2 GPUs"
    """)


def test_a_department_within_its_quota_is_named_when_its_projects_lend_to_each_other() -> None:
    check("""
        node    n1: 8 gpus
        queue   standard: quota 8
        queue   research: quota 8
        queue   team-a: quota 4, in standard
        queue   speech: quota 4, in research
        running a of team-a: 8 gpus on n1
        pending c of speech: 4 gpus
        then    wait c: not its turn "department standard holds 8 of its quota of 8 GPUs"
    """)


def test_no_quota_is_blamed_where_the_group_is_over_its_own() -> None:
    world = World("""
        node    n1: 4 gpus
        queue   vision: quota unlimited
        queue   speech: quota 1
        running a of vision: 4 gpus on n1
        pending b of speech: 2 gpus
    """)
    (verdict,) = world.plan().verdicts.values()
    assert isinstance(verdict.why, NotItsTurn)
    assert verdict.why.obstacle is None


# --- what can never start ---


def test_a_gang_larger_than_all_nodes_together_is_told_that_it_cannot_start() -> None:
    check("""
        node    n1: 8 gpus
        node    n2: 8 gpus
        queue   vision: quota 4
        pending g of vision: gang of 20, 1 gpu
        then    wait g: never fits "needs 20 GPUs at once, and the 2 nodes that can run it have 16 in total"
    """)


def test_a_gang_whose_pods_do_not_add_up_on_any_node_is_told_for_how_many_there_is_room() -> None:
    check("""
        node    n1: 8 gpus
        node    n2: 8 gpus
        queue   vision: quota 16
        pending g of vision: gang of 3, 5 gpus
        then    wait g: never fits "its 3 pods must start together"
    """)


def test_a_gang_that_fits_when_everything_is_empty_waits_for_that() -> None:
    check("""
        node    n1: 8 gpus
        node    n2: 8 gpus
        queue   vision: quota 16
        running a of vision: 8 gpus on n1, build
        pending g of vision: gang of 2, 8 gpus
        then    wait g: not its turn "8 free"
    """)


# --- nodes out of service ---


def test_a_rack_of_nodes_that_would_not_take_the_pods_is_not_one_with_room() -> None:
    check("""
        topology net: rack
        node    n1: 2 gpus, label rack=a
        node    n2: 4 gpus, label rack=b, role system
        queue   vision: quota 8
        running a of vision: 1 gpu on n1
        pending b of vision: gang of 2, 1 gpu, within rack of net
        then    wait b: no domain fits "the one with the most room, a, fits 1: starts when another job ends there"
    """)


def test_a_drained_node_with_room_is_named() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus, taint runai=drain:NoExecute
        queue   vision: quota 8
        running a of vision: 4 gpus on n1
        pending b of vision: 4 gpus
        then    wait b: not its turn "node n2 is drained but has room for it: run `runai-adm node undrain n2`"
    """)


def test_a_cordoned_node_with_room_is_named_where_no_other_node_would_do() -> None:
    check("""
        node    n1: 2 gpus
        node    n2: 4 gpus, cordoned
        queue   vision: quota 8
        pending b of vision: 4 gpus
        then    wait b: no node matches "node n2 is cordoned but has room for it: run `runai-adm node uncordon n2`"
    """)


def test_a_drained_node_without_room_is_not_named() -> None:
    world = World("""
        node    n1: 4 gpus
        node    n2: 2 gpus, cordoned
        queue   vision: quota 8
        running a of vision: 4 gpus on n1, build
        pending b of vision: 4 gpus, build
    """)
    (verdict,) = world.plan().verdicts.values()
    assert verdict.closed == ()
    assert "runai-adm" not in verdict_sentence(verdict)


def test_what_asks_for_more_than_the_limit_is_told_that_it_cannot_start() -> None:
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2, limit 4
        pending b of vision: 6 gpus
        then    wait b: over limit "cannot start unless the limit is raised to 6"
    """)


def test_what_may_not_be_preempted_and_asks_for_more_than_the_quota_is_told_so_too() -> None:
    check("""
        node    n1: 8 gpus
        queue   vision: quota 2
        pending b of vision: 6 gpus, build
        then    wait b: over quota "cannot start unless the quota is raised to 6, or the job is submitted as"
    """)
