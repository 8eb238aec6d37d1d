"""Sixteen GPUs and four teams, as NetApp ran it: fill the cluster, give quota back, share what is left.

Each submit waits until the previous job runs, as a person would; then the states are exact. F-32 to F-38.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairpool.scheduler.decision import Fragmented, Plan
from fairpool.scheduler.policy import Pass
from tests.scenario import SETTLES_WITHIN, World, picture

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "netapp.json").read_text())
PHASES: dict[str, Any] = {phase["id"]: phase for phase in FACTS["phases"]}
INTERACTIVE = {
    action["submit"] for phase in FACTS["phases"] for action in phase["actions"] if action.get("type") == "interactive"
}
FRACTIONAL = ["b-1-g06", "b-2-g04", "c-1-g05", "c-2-g03", "c-3-g02"]


def empty_cluster() -> World:
    world = World()
    for node in FACTS["nodes"]:
        world.add_line(
            f"node {node['name']}: {node['gpus']} gpus, of {node['gpu_memory_mib']} MiB,"
            f" {node['cpus']} cpus, {node['memory_gb']} GB"
        )
    for project in FACTS["projects"]:
        world.add_line(f"queue {project['name']}: quota {project['gpu_quota']}")
    return world


def submit(world: World, action: dict[str, Any]) -> None:
    kind = "build" if action["type"] == "interactive" else "train"
    gpus = action["gpus"]
    world.submit(f"{action['submit']} of {action['project']}: {gpus} gpu, {gpus} cpus, {kind}")


def submit_and_wait(world: World, action: dict[str, Any]) -> list[Plan]:
    """Submit, and let cycles pass until the job runs."""
    submit(world, action)
    plans: list[Plan] = []
    while action["submit"] not in world.running():
        assert len(plans) < SETTLES_WITHIN, f"{action['submit']} does not start\n{picture(world)}"
        plans.append(world.cycle())
    assert world.held(action["project"]) == action["project_holds"], picture(world)
    return plans


def after(phase: str) -> World:
    """The world at the end of a phase, everything before it included."""
    world = empty_cluster()
    for action in PHASES["4.8"]["actions"]:
        submit_and_wait(world, action)
    if phase == "4.8":
        return world
    for action in PHASES["4.9"]["actions"]:
        submit_and_wait(world, action)
        world.settle()
    if phase == "4.9":
        return world
    for action in PHASES["4.10a"]["actions"]:
        submit(world, action)
        world.settle()
    if phase == "4.10a":
        return world
    for action in PHASES["4.10b"]["actions"]:
        world.delete(*action["delete"])
    world.settle()
    return world


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_ends_exactly_as_recorded(phase: str) -> None:
    """F-32, F-33, F-34, F-37: who holds how much, and who waits."""
    world = after(phase)
    for project, expected in PHASES[phase]["projects"].items():
        assert world.held(project) == expected["holds"], picture(world)
    queued = sorted(job for expected in PHASES[phase]["projects"].values() for job in expected["queued"])
    assert world.waiting() == queued
    assert sum(world.held(project["name"]) for project in FACTS["projects"]) == 16


def test_thirteen_jobs_fill_sixteen_gpus_without_an_eviction() -> None:
    """F-32, F-38: each of them starts in the cycle after its submit."""
    world = empty_cluster()
    for action in PHASES["4.8"]["actions"]:
        (decided,) = submit_and_wait(world, action)
        assert not decided.evictions
    assert len(world.running()) == 13


def test_five_fractional_jobs_share_exactly_two_devices() -> None:
    world = after("4.8")
    devices = {(pod.node, device) for name in FRACTIONAL for pod in world.pods(name) for device in pod.devices}
    assert len(devices) == 2


def test_quota_is_given_back_by_one_job_of_each_borrowing_team() -> None:
    """F-33, F-36: two evictions in all, each submit served within three cycles, and no other job is touched."""
    world = after("4.8")
    evicted: list[str] = []
    for action in PHASES["4.9"]["actions"]:
        plans = submit_and_wait(world, action)
        assert len(plans) <= 3
        taken = [eviction for decided in plans for eviction in decided.evictions]
        assert all(eviction.reason.by is Pass.RECLAIM for eviction in taken)
        evicted += [eviction.group for eviction in taken]
    assert sorted(evicted) == ["b-4-gg", "c-4-gg"]
    assert not INTERACTIVE & set(evicted)
    assert set(world.running()) >= INTERACTIVE | {"b-3-g", "c-5-g", "a-1-g", "a-2-gg"}


def test_the_victim_is_told_for_whom_it_leaves() -> None:
    world = after("4.8")
    submit(world, PHASES["4.9"]["actions"][0])
    (eviction,) = world.cycle().evictions
    assert eviction.reason.winner == "d-2-gg"
    assert eviction.reason.taken is not None
    assert eviction.reason.gaining is not None
    assert (eviction.reason.taken.held_milli, eviction.reason.taken.quota_milli) == (4000, 2000)
    assert (eviction.reason.gaining.held_milli, eviction.reason.gaining.quota_milli) == (4000, 8000)


def test_with_every_team_at_its_quota_no_job_is_touched() -> None:
    """4.10, first part: six jobs queue up, nothing moves, and each is told why it waits."""
    world = after("4.9")
    for action in PHASES["4.10a"]["actions"]:
        submit(world, action)
        decided = world.cycle()
        assert decided.is_empty, picture(world)
        assert action["submit"] in decided.verdicts


def test_spare_gpus_are_shared_in_the_ratio_of_quotas() -> None:
    """F-34, F-35: eight freed GPUs go 4 : 2 : 2, the older job of each team first, without an eviction."""
    world = after("4.10a")
    before = set(world.running())
    world.delete("d-1-gggg", "d-2-gg", "d-3-gg")
    plans = world.settle()
    assert not [eviction for decided in plans for eviction in decided.evictions]
    started = set(world.running()) - before
    assert started == {"a-3-gg", "a-4-gg", "b-4-gg", "c-4-gg"}
    assert world.waiting() == ["b-5-gg", "c-6-gg"]


def test_all_thirteen_at_once_fill_all_but_a_fragment() -> None:
    """15 of 16 for want of a whole free device is allowed, and then the verdict says so."""
    world = empty_cluster()
    for action in PHASES["4.8"]["actions"]:
        submit(world, action)
    world.settle()
    held = sum(world.held(project["name"]) for project in FACTS["projects"])
    assert held >= 15, picture(world)
    if held < 16:
        verdicts = world.plan().verdicts
        assert sorted(verdicts) == world.waiting()
        assert any(isinstance(verdict.why, Fragmented) for verdict in verdicts.values()), picture(world)
    assert set(world.running()) >= INTERACTIVE
