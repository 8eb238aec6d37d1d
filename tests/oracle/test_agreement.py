"""The real scheduler and the oracle on the same random worlds: the same happens to every pod on the same node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from fairpool.model.ids import PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.outcome import Outcome, PodChange, PodResult, applied, decide, outcome_of
from tests.oracle.read import priority_and_preemptibility
from tests.oracle.world import SOON, World
from tests.oracle.worlds import FEATURES, PROFILES, world

POLICIES = {"product": Policy.product, "reference": Policy.reference}
QUICK_SEEDS = 4
SEEDS = 60
"""For every profile, feature and policy."""

FOUND = [(27, "reclaim", "unlike"), (30, "nothing", "unlike"), (52, "consolidate", "unlike"), (12, "mixed", "unlike")]
"""Victims that were lost from the line, claims under a topology, devices promised before, devices in another order."""

KINDS = [(profile, feature) for profile in PROFILES for feature in FEATURES]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("profile", "feature"), KINDS)
def test_the_oracle_agrees(profile: str, feature: str, policy: str) -> None:
    check(range(QUICK_SEEDS), profile, feature, policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("seed", "profile", "feature"), FOUND)
def test_the_oracle_agrees_where_it_once_did_not(seed: int, profile: str, feature: str, policy: str) -> None:
    check(range(seed, seed + 1), profile, feature, policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_the_oracle_agrees_where_unlike_pods_have_a_topology(profile: str, policy: str) -> None:
    """In world 13 of reclaim, claims are given back with a place that is taken back in the same plan."""
    check(range(12, 14), profile, "unlike", policy, frozenset({"topology", "unlike pods"}))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("profile", "feature"), KINDS)
def test_the_oracle_agrees_where_nodes_have_roles_and_pods_prefer_nodes(
    profile: str, feature: str, policy: str
) -> None:
    check(range(20, 22), profile, feature, policy, frozenset({"roles"}))
    check(range(22, 25), profile, feature, policy, frozenset({"preferences"}))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("profile", "feature"), KINDS)
def test_the_oracle_agrees_on_thousands_of_worlds(profile: str, feature: str, policy: str) -> None:
    check(range(QUICK_SEEDS, QUICK_SEEDS + SEEDS), profile, feature, policy)


def check(seeds: range, profile: str, feature: str, policy: str, extras: frozenset[str] = frozenset()) -> None:
    differences = []
    for seed in seeds:
        snapshot = world(seed, profile, feature, POLICIES[policy](), extras)
        after = applied(snapshot, plan(snapshot))
        real, oracle = outcome_of(after), decide(snapshot)
        excess = overcommitted(after) if policy == "product" else []
        if real != oracle or excess:
            title = ", ".join([f"world({seed}, {profile!r}, {feature!r})", policy, *sorted(extras)])
            differences.append("\n".join([title, *excess, difference(snapshot, real, oracle)]))
    assert not differences, f"{len(differences)} of {len(seeds)} differ\n\n" + "\n\n".join(differences)


def overcommitted(after: World) -> list[str]:
    """Devices and nodes that a plan gives or promises beyond what they have, once all pods that leave have left."""
    found = []
    for name in after.nodes:
        soon, memory = after.free(name, SOON), after.device_memory(name)
        found += [
            f"device {device} of {name} is given beyond its memory"
            for device, used in soon.used.items()
            if used > memory
        ]
        found += [f"{name} has too little {each} for what is on it" for each, left in soon.amounts.items() if left < 0]
    return found


# Describing a difference


def difference(snapshot: Snapshot, real: Outcome, oracle: Outcome) -> str:
    return "\n".join(
        [*_scene(snapshot), "outcome (real | oracle):", *_ends(snapshot, real, oracle), *_sums(real, oracle)]
    )


def _scene(snapshot: Snapshot) -> Iterator[str]:
    for node in snapshot.nodes:
        odd = [f"{len(node.gpus_withheld)} withheld"] * bool(node.gpus_withheld) + ["unhealthy"] * (not node.is_healthy)
        odd += [str(taint) for taint in node.taints]
        yield f"  node {node.name}: {node.gpus} gpus of {node.gpu_memory_mib} MiB, {node.cpu_milli} cpu {' '.join(odd)}"
    for queue in snapshot.queues:
        gpu = queue.gpu
        yield (
            f"  queue {queue.id} of {queue.parent}: quota {gpu.quota} limit {gpu.limit} weight {gpu.weight:g} "
            f"usage {gpu.usage:g} cpu limit {queue.cpu.limit} priority {queue.priority} created {queue.created_at}"
        )
    for group in snapshot.groups:
        pods = [pod for pod in snapshot.pods if pod.group == group.id]
        sets = ", ".join(f"{pod_set.name} at least {pod_set.minimum}" for pod_set in group.tree.all_pod_sets())
        age_s = (snapshot.now - group.created_at) // 1000
        priority, preemptible = priority_and_preemptibility(group, snapshot.policy)
        yield (
            f"  group {group.id} of {group.queue}: priority {priority} "
            f"{'' if preemptible else 'not '}preemptible, age {age_s} s, {sets}"
            f"{'' if group.movable else ', not movable'}{f', avoids {group.avoid}' if group.avoid else ''}"
        )
        for shape in dict.fromkeys(pod.shape for pod in pods):
            yield f"      pods of {_shape(shape)}"


def _shape(shape: object) -> str:
    text = repr(shape)
    return text.replace("GpuRequest", "").replace("PodShape", "")


def _ends(snapshot: Snapshot, real: Outcome, oracle: Outcome) -> Iterator[str]:
    for pod in sorted(snapshot.pods, key=lambda each: each.id):
        mine, theirs = (
            real.pods.get(pod.id, PodResult(PodChange.WAITING)),
            oracle.pods.get(pod.id, PodResult(PodChange.WAITING)),
        )
        where = f" {pod.node} {pod.devices}" if pod.phase is not PodPhase.WAITING else ""
        sign = "  " if mine == theirs else "* " if mine.change != theirs.change else ". "
        yield f"  {sign}{pod.id}: {pod.phase}{where} -> {mine} | {theirs}"


def _sums(real: Outcome, oracle: Outcome) -> Iterator[str]:
    if real.held_milli != oracle.held_milli:
        yield f"  GPUs held: {dict(real.held_milli)} | {dict(oracle.held_milli)}"
    if real.evictions != oracle.evictions:
        yield f"  evictions: {dict(real.evictions)} | {dict(oracle.evictions)}"
    for what, mine, theirs in (("whole", real.whole, oracle.whole), ("absent", real.absent, oracle.absent)):
        if mine != theirs:
            yield f"  {what}: {sorted(mine - theirs)} | {sorted(theirs - mine)}"


def test_every_fate_occurs_in_the_worlds() -> None:
    """Worlds in which nothing happens would prove nothing."""
    changes: Counter[PodChange] = Counter()
    for profile, feature in KINDS:
        ends: dict[PodId, PodResult] = dict(decide(world(1, profile, feature, Policy.product())).pods)
        changes.update(end.change for end in ends.values())
    assert all(changes[change] > 0 for change in PodChange), changes
