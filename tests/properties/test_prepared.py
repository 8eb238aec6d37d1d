"""Prepared columns are a value: taking over what did not change gives the same as starting anew."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import pytest

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Queue, gpu_entitlement
from fairpool.model.workload import Pod, PodGroup, PodSet, PodShape, SubGroup
from fairpool.scheduler.charge import Charges, ShapeFacts
from fairpool.scheduler.columns import Columns, NodeColumns, SetColumns
from fairpool.scheduler.plan import decide, plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.prepared import Prepared, prepare
from fairpool.scheduler.queues import LeafAmounts, QueueTable
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.worlds import FEATURES, PROFILES, world
from tests.properties.snapshots import seeded

POLICIES = {"product": Policy.product, "reference": Policy.reference}
STEPS = 12
WORLDS = int(os.environ.get("FAIRPOOL_WORLDS", "8"))
"""Of each profile, feature and policy; `make soak` asks for more."""
ROWS = ("policy", "nodes", "queues", "groups", "orphans", "given", "unusual", "on_node", "claims", "topologies")
FOUND = ("problems", "node_problems", "group_problems", "lost_groups", "crowded", "has_doubles")

Row = TypeVar("Row")
Change = Callable[[Snapshot, random.Random], Snapshot]


# ---- what is compared


def value(of: Any) -> Any:
    """Everything that is kept, as something that can be compared."""
    match of:
        case Columns() | SetColumns() | LeafAmounts():
            return {each.name: value(getattr(of, each.name)) for each in fields(of)}
        case NodeColumns() | QueueTable():
            return {name: value(each) for name, each in vars(of).items()}
        case ShapeFacts():
            return of.shape
        case Charges():
            return of.policy, of.smallest_device_mib
        case list() | tuple():
            return [value(each) for each in of]
    return of


def kept(prepared: Prepared) -> dict[str, Any]:
    rows = {name: getattr(prepared.rows, name) for name in (*ROWS, *FOUND)}
    return {**value(prepared.columns), **{f"rows.{name}": each for name, each in rows.items()}}


def differences(one: Prepared, other: Prepared) -> list[str]:
    mine, theirs = kept(one), kept(other)
    return [name for name in mine if mine[name] != theirs[name]]


# ---- what may happen between two cycles


def swap(rows: Sequence[Row], dice: random.Random, change: Callable[[Row], Row]) -> tuple[Row, ...]:
    """One of the rows becomes another."""
    if not rows:
        return tuple(rows)
    at = dice.randrange(len(rows))
    return (*rows[:at], change(rows[at]), *rows[at + 1 :])


def without_one(rows: Sequence[Row], dice: random.Random) -> tuple[Row, ...]:
    at = dice.randrange(len(rows)) if rows else 0
    return (*rows[:at], *rows[at + 1 :])


def carry_out(rows: Snapshot, _: random.Random) -> Snapshot:
    """The plan is carried out at once."""
    planned = plan(rows)
    places: dict[PodId, tuple[PodPhase, NodeName, tuple[int, ...], Instant | None]] = {
        each.pod: (PodPhase.RUNNING, each.node, each.devices, None) for each in planned.binds
    }
    places |= {each.pod: (PodPhase.PROMISED, each.node, each.devices, each.since) for each in planned.promises}
    leaving = {each.pod for each in planned.evictions}

    def after(pod: Pod) -> Pod:
        if pod.id in leaving:
            return replace(pod, phase=PodPhase.RELEASING)
        if pod.id not in places:
            return pod
        phase, node, devices, since = places[pod.id]
        return replace(pod, phase=phase, node=node, devices=devices, promised_at=since)

    started = set(planned.started)
    return replace(
        rows,
        pods=tuple(map(after, rows.pods)),
        groups=tuple(replace(each, started_at=rows.now) if each.id in started else each for each in rows.groups),
    )


def end_some(rows: Snapshot, dice: random.Random) -> Snapshot:
    """Some groups end; their rows are gone, or those of their pods say so."""
    ending = {group.id for group in rows.groups if dice.random() < 0.2}
    if dice.random() < 0.3:
        phases = tuple(replace(pod, phase=PodPhase.ENDED) if pod.group in ending else pod for pod in rows.pods)
        return replace(rows, pods=phases)
    return replace(
        rows,
        groups=tuple(group for group in rows.groups if group.id not in ending),
        pods=tuple(pod for pod in rows.pods if pod.group not in ending),
    )


def submit(rows: Snapshot, dice: random.Random) -> Snapshot:
    """A group of another world arrives, waiting, under a name anywhere among the others."""
    other = seeded(dice.randrange(1000))
    if not other.groups:
        return rows
    chosen = dice.choice(other.groups)
    name = f"{dice.choice('abcmnxyz')}{dice.randrange(10_000)}"
    queue = dice.choice(rows.queues).id if rows.queues else chosen.queue
    group = replace(chosen, id=GroupId(name), queue=queue, started_at=None, stale_since=None)
    pods = tuple(
        replace(
            pod,
            id=PodId(f"{name}-{pod.id}"),
            group=group.id,
            phase=PodPhase.WAITING,
            node=None,
            devices=(),
            claims=(),
            promised_at=None,
        )
        for pod in other.pods
        if pod.group == chosen.id
    )
    return replace(rows, groups=(*rows.groups, group), pods=(*pods, *rows.pods))


def change_pod(rows: Snapshot, dice: random.Random) -> Snapshot:
    """A pod is other than it was, in a way that may be impossible."""
    nodes = [None, NodeName("missing"), *(node.name for node in rows.nodes)]
    shapes = [pod.shape for pod in rows.pods] or [PodShape()]
    changes: list[dict[str, Any]] = [
        {"phase": dice.choice(list(PodPhase))},
        {"node": dice.choice(nodes)},
        {"devices": dice.choice([(), (0,), (1, 0), (0, 1), (7, 99), (2, 2)])},
        {"gated": dice.random() < 0.5},
        {"shape": dice.choice(shapes)},
        {"pod_set": dice.choice(["default", "other"])},
        {"group": dice.choice([group.id for group in rows.groups] or [GroupId("none")])},
        {"order": dice.randrange(3), "leader": dice.random() < 0.5},
    ]
    return replace(rows, pods=swap(rows.pods, dice, lambda pod: replace(pod, **dice.choice(changes))))


def spoil_shape(rows: Snapshot, dice: random.Random) -> Snapshot:
    return replace(rows, pods=swap(rows.pods, dice, lambda pod: replace(pod, shape=replace(pod.shape, cpu_milli=-1))))


def change_group(rows: Snapshot, dice: random.Random) -> Snapshot:
    trees = [group.tree for group in rows.groups] or [SubGroup(pod_sets=(PodSet(),))]
    changes: list[dict[str, Any]] = [
        {"priority": dice.choice([None, 10, 75, 125])},
        {"queue": dice.choice([QueueId("nowhere"), *(queue.id for queue in rows.queues)])},
        {"tree": dice.choice([*trees, SubGroup(), SubGroup(pod_sets=(PodSet(), PodSet()))])},
        {"created_at": Instant(dice.randrange(1000))},
        {"avoid": tuple(node.name for node in rows.nodes[:1])},
        {"stale_since": rows.now, "succeeded": dice.random() < 0.5},
    ]
    return replace(rows, groups=swap(rows.groups, dice, lambda group: replace(group, **dice.choice(changes))))


def change_node(rows: Snapshot, dice: random.Random) -> Snapshot:
    changes: list[dict[str, Any]] = [
        {"cordoned": dice.random() < 0.5},
        {"gpus": dice.choice([0, 1, 4, 8, -1])},
        {"gpus_withheld": dice.choice([(), (0,), (1, 0), (99,)])},
        {"gpu_memory_mib": dice.choice([0, 16_000, 32_510])},
        {"labels": {"zone": dice.choice("ab")}},
        {"extended": {"example.com/licence": dice.randrange(3)}},
    ]
    return replace(rows, nodes=swap(rows.nodes, dice, lambda node: replace(node, **dice.choice(changes))))


def add_node(rows: Snapshot, dice: random.Random) -> Snapshot:
    name = NodeName(f"{dice.choice('amz')}{dice.randrange(100)}")
    if any(node.name == name for node in rows.nodes):
        return rows
    return replace(rows, nodes=(*rows.nodes, Node(name=name, cpu_milli=64_000, memory_bytes=1 << 36, gpus=4)))


def change_queue(rows: Snapshot, dice: random.Random) -> Snapshot:
    quota = gpu_entitlement(dice.randrange(9) * 1000)
    if dice.random() < 0.6:
        return replace(rows, queues=swap(rows.queues, dice, lambda queue: replace(queue, gpu=quota)))
    parent = dice.choice([None, *(queue.id for queue in rows.queues)])
    return replace(rows, queues=(*rows.queues, Queue(id=QueueId(f"q{dice.randrange(99)}"), parent=parent, gpu=quota)))


def lose_rows(rows: Snapshot, dice: random.Random) -> Snapshot:
    """A row is missing: of a node with pods, of a group with pods, of a queue with groups."""
    changes: list[dict[str, Any]] = [
        {name: without_one(getattr(rows, name), dice)} for name in ("nodes", "groups", "pods", "queues", "claims")
    ]
    return replace(rows, **dice.choice(changes))


def double_rows(rows: Snapshot, dice: random.Random) -> Snapshot:
    changes: list[dict[str, Any]] = [
        {name: (*getattr(rows, name), *getattr(rows, name)[:1])} for name in ("nodes", "groups", "pods")
    ]
    return replace(rows, **dice.choice(changes))


def shuffle(rows: Snapshot, dice: random.Random) -> Snapshot:
    """The same rows come in another order."""
    groups, pods = list(rows.groups), list(rows.pods)
    dice.shuffle(groups)
    dice.shuffle(pods)
    return replace(rows, groups=tuple(groups), pods=tuple(pods))


def rewrite(rows: Snapshot, dice: random.Random) -> Snapshot:
    """The rows are equal, but other objects."""
    return replace(rows, pods=tuple(map(replace, rows.pods)), groups=tuple(map(replace, rows.groups)))


def change_policy(rows: Snapshot, dice: random.Random) -> Snapshot:
    return replace(rows, policy=replace(rows.policy, stale_grace_s=dice.randrange(100)))


USUAL: tuple[Change, ...] = (carry_out, end_some, submit, submit, change_pod, change_group, change_queue, shuffle)
ODD: tuple[Change, ...] = (spoil_shape, change_node, add_node, lose_rows, double_rows, rewrite, change_policy)


def next_snapshot(rows: Snapshot, dice: random.Random) -> Snapshot:
    """Time passes, and usually not much else happens."""
    now = Instant(rows.now + 1000)
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        rows = dice.choice(USUAL if dice.random() < 0.7 else ODD)(rows, dice)
    return replace(rows, now=now)


# ---- the law


def follow(snapshot: Snapshot, seed: str) -> None:
    dice = random.Random(seed)
    previous, untouched = prepare(snapshot), prepare(snapshot)
    for step in range(STEPS):
        snapshot = next_snapshot(snapshot, dice)
        prepared, anew = prepare(snapshot, previous), prepare(snapshot)
        assert differences(prepared, anew) == [], (seed, step)
        assert decide(prepared) == plan(snapshot), (seed, step)
        assert differences(prepared, anew) == [], f"{seed}, step {step}: deciding changed what was prepared"
        assert differences(previous, untouched) == [], f"{seed}, step {step}: preparing changed what was before"
        previous, untouched = prepared, anew


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_taken_over_is_what_would_be_prepared_anew(profile: str, policy: str) -> None:
    for feature in FEATURES:
        for seed in range(2):
            follow(world(seed, profile, feature, POLICIES[policy]()), f"{seed}/{profile}/{feature}/{policy}")


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_taken_over_is_what_would_be_prepared_anew_in_many_worlds(profile: str, policy: str) -> None:
    for feature in FEATURES:
        for seed in range(100, 100 + WORLDS):
            follow(world(seed, profile, feature, POLICIES[policy]()), f"{seed}/{profile}/{feature}/{policy}")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_over_is_what_would_be_prepared_anew_with_everything_in_it(seed: int) -> None:
    follow(seeded(seed), str(seed))


def test_rows_that_stay_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nothing would be gained."""
    rows = world(1, "mixed", "plain", Policy.product())
    previous = prepare(rows)
    following = prepare(replace(rows, now=Instant(rows.now + 1)), previous)
    assert following.columns.pods is previous.columns.pods
    assert following.columns.sets.pods == previous.columns.sets.pods
    assert not following.rows.fresh_pods
    assert not following.rows.touched_nodes


def test_a_pod_is_given_to_a_group_that_arrives_after_it() -> None:
    rows = world(1, "mixed", "plain", Policy.product())
    waiting = next(pod for pod in rows.pods if pod.phase is PodPhase.WAITING)
    others: tuple[PodGroup, ...] = tuple(group for group in rows.groups if group.id != waiting.group)
    before = prepare(replace(rows, groups=others))
    assert "pod.unknown_group" in [problem.code for problem in before.problems]
    after = prepare(rows, before)
    assert waiting.id in after.columns.pod_ids
    assert "pod.unknown_group" not in [problem.code for problem in after.problems]
