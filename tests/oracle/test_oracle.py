"""The oracle itself against what is known: vectors of the specification (Appendix C) and the conformance cases."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fairpool.model.ids import ClaimId, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED
from fairpool.model.workload import Claim, Pod, PodGroup, PodSet, PodShape, SubGroup, whole_gpus
from fairpool.scheduler.plan import plan as real_plan
from fairpool.scheduler.policy import Pass, Policy
from fairpool.scheduler.snapshot import Snapshot
from tests.conformance.case import Case, read_folder
from tests.conformance.judge import judge
from tests.oracle.mutations import MUTATIONS, ROOT, SCHEDULER, Mutation, mutated
from tests.oracle.order import comes_first, group_key, next_victim, unit
from tests.oracle.outcome import PodChange, applied, decide, outcome_of, plan
from tests.oracle.read import read
from tests.oracle.shares import Share, divide, with_fair_shares
from tests.oracle.take import is_fair_reclaim, may_reclaim
from tests.oracle.world import NOTHING, Vector

CASES = Path(__file__).parent.parent / "conformance"
GPU = 1000

# Fair share


def share(
    quota: float, request: float, *, w: float = 1, limit: float = UNLIMITED, prio: int = 100, usage: float = 0
) -> Share:
    bounds = [math.inf if amount == UNLIMITED else amount * GPU for amount in (quota, limit)]
    return Share(QueueId(""), bounds[0], bounds[1], request * GPU, w, usage, prio)


FAIR_SHARES = [
    pytest.param(
        20, [share(4, 12), share(4, 12, w=3), share(4, 2)], [7, 11, 2], 0, id="F1 weights divide what is left"
    ),
    pytest.param(12, [share(2, 10, limit=4), share(2, 10)], [4, 8], 0, id="F2 a limit leaves more to others"),
    pytest.param(20, [share(4, 20, prio=200), share(4, 6), share(0, 20)], [16, 4, 0], 0, id="F3 priority first"),
    pytest.param(10, [share(2, 10, w=0), share(2, 5)], [2, 5], 3, id="F4 weight 0 gets no surplus"),
    pytest.param(10, [share(8, 8), share(8, 8)], [8, 8], 0, id="F5 quotas are owed though there is not enough"),
    pytest.param(11, [share(2, 10), share(2, 10, w=4)], [3, 8], 0, id="F6 the largest rest gets the last unit"),
    pytest.param(11, [share(2, 6, w=2), share(2, 6, w=2)], [6, 5], 0, id="F8 the older gets the last unit"),
    pytest.param(30, [share(0, 3), share(0, 30), share(0, 30, w=2)], [3, 9, 18], 0, id="F9 a second round"),
    pytest.param(4, [share(0, 1.5), share(0, 10)], [1.5, 2.5], 0, id="F10 parts of a GPU"),
    pytest.param(10, [share(-1, 6), share(4, 8)], [6, 4], 0, id="F11 unlimited quota"),
    pytest.param(10, [share(-1, 10), share(-1, 10)], [10, 10], 0, id="F12 two unlimited quotas"),
    pytest.param(4, [share(6, 6), share(2, 6)], [6, 2], 0, id="F13 children owed more than their parent has"),
    pytest.param(16, [share(0, 16, usage=0.75), share(0, 16)], [3, 13], 0, id="F14 past use"),
    pytest.param(16, [share(0, 16, usage=0.97), share(0, 16)], [0, 16], 0, id="F15 past use of nearly all"),
    pytest.param(16, [share(0, 16, usage=0.96), share(0, 16)], [1, 15], 0, id="F16 past use of a little less"),
    pytest.param(16, [share(4, 16, usage=0.9), share(4, 16, usage=0.1)], [5, 11], 0, id="F17 quota counts first"),
    pytest.param(
        100,
        [share(10, 100, w=2, usage=0.4), share(10, 100, usage=0.1), share(10, 100)],
        [38, 29, 33],
        0,
        id="F18 weight and past use",
    ),
    pytest.param(
        5, [share(2, 5, prio=2), share(2, 5, prio=2), share(1, 0, prio=1)], [3, 2, 0], 0, id="F19 rests in a tier"
    ),
]


@pytest.mark.parametrize("tiers_apart", [True, False], ids=["product", "reference"])
@pytest.mark.parametrize(("total", "shares", "fair", "left"), FAIR_SHARES)
def test_fair_shares(total: int, shares: list[Share], fair: list[float], left: int, tiers_apart: bool) -> None:
    assert divided(total, shares, tiers_apart=tiers_apart) == (fair, left)


@pytest.mark.parametrize(("k", "fair"), [pytest.param(0.5, [5, 11], id="F14"), pytest.param(0, [8, 8], id="F17")])
def test_the_usage_factor_bends_the_division(k: float, fair: list[float]) -> None:
    shares = {
        0.5: [share(0, 16, usage=0.75), share(0, 16)],
        0: [share(4, 16, usage=0.9), share(4, 16, usage=0.1)],
    }[k]
    assert divided(16, shares, k=k) == (fair, 0)


@pytest.mark.parametrize(("tiers_apart", "fair"), [(False, [4, 4, 1]), (True, [5, 4, 0])], ids=["reference", "product"])
def test_rests_of_a_tier_f7(tiers_apart: bool, fair: list[float]) -> None:
    shares = [share(2, 10, prio=200), share(2, 10, prio=200), share(0, 10)]
    assert divided(9, shares, tiers_apart=tiers_apart) == (fair, 0)


def divided(total: int, shares: list[Share], k: float = 1.0, tiers_apart: bool = True) -> tuple[list[float], float]:
    named = [replace(each, queue=QueueId(f"q{i}"), created_at=Instant(i)) for i, each in enumerate(shares)]
    left = divide(total * GPU, named, unit=GPU, k=k, tiers_apart=tiers_apart)
    return [each.fair / GPU for each in named], left / GPU


# Reclaim


def is_allowed(
    figures: dict[str, tuple[str | None, float, float, int]],
    asked: float,
    losses: Iterable[tuple[str, float]],
    m: float = 1,
) -> bool:
    """Queues by name as (parent, quota, fair share, held): may a group of the first leaf queue take this?"""
    queues = [
        Queue(
            id=QueueId(name),
            parent=None if parent is None else QueueId(parent),
            gpu=Entitlement(quota=UNLIMITED if quota == UNLIMITED else round(quota * GPU)),
        )
        for name, (parent, quota, _, _) in figures.items()
    ]
    leaves = [queue.id for queue in queues if queue.id not in {each.parent for each in queues}]
    rows = [running(f"in-{leaf}", leaf, figures[leaf][3], 1) for leaf in leaves]
    policy = replace(Policy.product(), saturation_multiplier=m)
    world = read(snapshot(queues, [*rows, waiting("job", leaves[0], 1)], [node("a", 8)], policy))
    world = replace(world, fair={QueueId(name): (fair * GPU, 0, 0) for name, (_, _, fair, _) in figures.items()})
    taken: list[tuple[QueueId, Vector]] = [(QueueId(queue), (amount * GPU, 0, 0)) for queue, amount in losses]
    return is_fair_reclaim(world, GroupId("job"), (asked * GPU, 0, 0), taken)


@pytest.mark.parametrize(("held", "asked", "allowed"), [(0, 4, True), (0, 5, False), (4, 1, False)])
def test_a_queue_at_its_fair_share_may_not_reclaim_r1(held: int, asked: int, allowed: bool) -> None:
    groups = [running("old", "a", held, 1)] if held else []
    rows = [*groups, waiting("job", "a", 1)]
    world = read(snapshot([Queue(id=QueueId("a"), gpu=Entitlement(2 * GPU))], rows, [node("a", 8)]))
    world = replace(world, fair={QueueId("a"): (4 * GPU, 10**9, 10**15)})
    assert may_reclaim(world, GroupId("job"), (asked * GPU, 0, 0)) is allowed


def test_reclaim_stops_at_the_fair_share_r2() -> None:
    queues = [Queue(id=QueueId(name), gpu=Entitlement(2 * GPU)) for name in "ab"]
    held = [running(f"b{index}", "b", 1, 1) for index in range(8)]
    wanted = [waiting(f"a{index}", "a", 1) for index in range(6)]
    changes = [end.change for end in decide(snapshot(queues, held + wanted, [node("a", 8)])).pods.values()]
    assert (changes.count(PodChange.EVICTED), changes.count(PodChange.PROMISED)) == (4, 4)


@pytest.mark.parametrize("preemptible", [True, False])
def test_what_may_not_be_preempted_may_not_reclaim_beyond_quota_r7(preemptible: bool) -> None:
    queue = Queue(id=QueueId("q"), gpu=Entitlement(1 * GPU))
    old, pods = running("old", "q", 1, 1)
    job, waits = waiting("job", "q", 1)
    rows = [(replace(old, preemptible=False), pods), (replace(job, preemptible=preemptible), waits)]
    world = read(snapshot([queue], rows, [node("a", 4)]))
    world = replace(world, fair={QueueId("q"): (4 * GPU, 10**9, 10**15)})
    assert may_reclaim(world, GroupId("job"), (GPU, 0, 0)) is preemptible


def test_a_queue_within_its_quota_may_take_from_one_beyond_r3() -> None:
    assert is_allowed({"d1": (None, 3, 3, 1), "d2": (None, 2, 4, 3)}, 1, [("d2", 1)])


def test_nothing_is_taken_from_a_queue_at_its_quota_r4() -> None:
    assert not is_allowed({"d1": (None, 3, 3, 2), "d2": (None, 2, 2, 2)}, 1, [("d2", 1)])


@pytest.mark.parametrize(("m", "allowed"), [(1, True), (1.5, True), (1.6, False), (1.7, False)])
def test_a_department_may_exceed_its_share_while_less_saturated_r5(m: float, allowed: bool) -> None:
    figures: dict[str, tuple[str | None, float, float, int]] = {
        "d1": (None, 4, 4, 4),
        "p1": ("d1", 3, 1, 0),
        "p2": ("d1", 1, 3, 4),
        "d2": (None, 3, 3, 7),
        "p3": ("d2", 3, 3, 7),
    }
    assert is_allowed(figures, 1, [("p3", 1)], m) is allowed


@pytest.mark.parametrize(("held", "allowed"), [(3, False), (2, True)])
def test_a_gang_may_not_overshoot_r6(held: int, allowed: bool) -> None:
    assert is_allowed({"d1": (None, 4, 5, held), "d2": (None, 4, 5, 7)}, 3, [("d2", 3)]) is allowed


def test_leaves_of_one_parent_are_compared_with_each_other_r8() -> None:
    figures: dict[str, tuple[str | None, float, float, int]] = {
        "d": (None, 1, 1, 4),
        "p1": ("d", 2, 2, 0),
        "p2": ("d", 2, 2, 4),
    }
    assert is_allowed(figures, 1, [("p2", 1)])


def test_nothing_is_taken_from_an_unlimited_queue_r9() -> None:
    assert not is_allowed({"a": (None, 2, 2, 0), "b": (None, UNLIMITED, 4, 8)}, 1, [("b", 1)])


# Order


def test_quota_comes_before_queue_priority_o1() -> None:
    assert first(left=(4, 100, 2), right=(4, 200, 4), adds=1) == "left"


def test_priority_comes_before_dominant_share_o2() -> None:
    assert first(left=(2, 100, 2), right=(2, 200, 6), adds=1) == "right"


def test_the_smaller_dominant_share_is_served_first_o3() -> None:
    assert first(left=(4, 100, 2), right=(5, 100, 3), adds=1) == "left"


def first(left: tuple[int, int, int], right: tuple[int, int, int], adds: int) -> str:
    """Which of two queues, given as (quota, priority, held), is served first."""
    rows = {"left": left, "right": right}
    groups = [running(name, name, held, 1) for name, (_, _, held) in rows.items() if held]
    queues = [
        Queue(id=QueueId(name), priority=priority, gpu=Entitlement(quota * GPU))
        for name, (quota, priority, _) in rows.items()
    ]
    nodes = [Node(name=NodeName("n"), cpu_milli=0, memory_bytes=0, gpus=16)]
    world = with_fair_shares(read(snapshot(queues, groups, nodes)))
    asked = {queue.id: (adds * GPU, 0, 0) for queue in queues}
    lost = dict.fromkeys(asked, NOTHING)
    is_left = comes_first(world, QueueId("left"), QueueId("right"), asked, lost)
    assert is_left != comes_first(world, QueueId("right"), QueueId("left"), asked, lost)
    return "left" if is_left else "right"


def test_a_group_below_its_minimum_goes_before_one_that_grows_o4() -> None:
    queue = Queue(id=QueueId("q"))
    grows = waiting("x", "q", 1, least=2)
    rows = (grows[0], (*running("x", "q", 3, 1)[1], *grows[1]))
    world = read(snapshot([queue], [rows, waiting("y", "q", 1, least=1)], nodes=[node("n", 8)]))
    assert group_key(world, GroupId("y")) < group_key(world, GroupId("x"))


def test_victims_are_the_lowest_then_the_newest_o5() -> None:
    groups = [running(name, "q", 1, 1) for name in ("new", "old", "high")]
    ages = {"new": 30, "old": 10, "high": 20}
    rows = [
        (replace(group, created_at=Instant(ages[group.id]), priority=75 if group.id == "high" else 50), pods)
        for group, pods in groups
    ]
    world = with_fair_shares(read(snapshot([free_queue("q")], rows, [node("a", 4)])))
    taken: set[PodId] = set()
    order = []
    while (victim := next_victim(world, world.groups, taken)) is not None:
        taken |= {pod.row.id for pod in unit(world, victim, taken)}
        order.append(victim)
    assert order == ["new", "old", "high"]


# Whole cycles


def test_a_gang_starts_whole_s1() -> None:
    ends = decide(
        snapshot([free_queue("q")], [waiting("gang", "q", 2, least=2, gpus=4)], [node("a", 4), node("b", 4)])
    ).pods
    assert [end.change for end in ends.values()] == [PodChange.BOUND, PodChange.BOUND]


def test_a_gang_is_not_split_between_idle_and_leaving_s2() -> None:
    group, pods = running("old", "q", 1, 4, node_name="b")
    leaving = (group, tuple(replace(pod, phase=PodPhase.RELEASING) for pod in pods))
    ends = decide(
        snapshot([free_queue("q")], [leaving, waiting("gang", "q", 2, least=2, gpus=4)], [node("a", 4), node("b", 4)])
    ).pods
    assert [ends[PodId(f"gang-{index}")].change for index in range(2)] == [PodChange.PROMISED, PodChange.PROMISED]


def test_an_elastic_group_gives_one_pod_s3() -> None:
    groups = [running("elastic", "q", 4, 1, least=2), waiting("urgent", "q", 1, gpus=1, priority=75)]
    ends = decide(snapshot([free_queue("q")], groups, [node("a", 4)])).pods
    assert [ends[PodId(f"elastic-{index}")].change for index in range(4)] == [PodChange.HELD] * 3 + [PodChange.EVICTED]


def test_an_elastic_group_goes_as_a_whole_when_its_surplus_is_not_enough_s4() -> None:
    groups = [running("elastic", "q", 4, 1, least=2), waiting("urgent", "q", 1, gpus=3, priority=75)]
    ends = decide(snapshot([free_queue("q")], groups, [node("a", 4)])).pods
    assert [ends[PodId(f"elastic-{index}")].change for index in range(4)] == [PodChange.EVICTED] * 4


@pytest.mark.parametrize("preemptible", [True, False], ids=["S5", "S6"])
def test_pods_are_moved_together_for_a_preemptible_group(preemptible: bool) -> None:
    groups = [running(f"{name}{index}", "q", 1, 1, node_name=name) for name in "ab" for index in range(2)]
    big, pods = waiting("big", "q", 1, gpus=4)
    policy = replace(Policy.reference(), passes=(Pass.ALLOCATE, Pass.CONSOLIDATE))
    queue = replace(free_queue("q"), gpu=Entitlement())
    rows = [*groups, (replace(big, preemptible=preemptible), pods)]
    changes = [
        end.change for end in decide(snapshot([queue], rows, [node("a", 4), node("b", 4)], policy)).pods.values()
    ]
    assert changes.count(PodChange.MOVED) == (2 if preemptible else 0)
    assert changes.count(PodChange.PROMISED) == (1 if preemptible else 0)


def test_a_broken_gang_is_evicted_s7() -> None:
    group, pods = running("gang", "q", 1, 1, least=2)
    for age_s, change in ((59, PodChange.HELD), (60, PodChange.EVICTED)):
        stale = replace(group, stale_since=Instant(NOW - age_s * 1000))
        ends = decide(snapshot([free_queue("q")], [(stale, pods)], [node("a", 4)])).pods
        assert ends[PodId("gang-0")].change is change


def test_equal_priority_is_no_victim_s8() -> None:
    groups = [running("a", "q", 1, 1), waiting("b", "q", 1, gpus=1)]
    ends = decide(snapshot([free_queue("q")], groups, [node("a", 1)])).pods
    assert ends[PodId("a-0")].change is PodChange.HELD


@pytest.mark.parametrize(("mine", "theirs", "evicted"), [(3, 5, 0), (2, 6, 1)])
def test_nothing_is_reclaimed_if_both_sides_end_up_equally_saturated(mine: int, theirs: int, evicted: int) -> None:
    """Random worlds hardly ever have such a tie, so the real scheduler is compared here."""
    queues = [
        Queue(id=QueueId(name), parent=QueueId(parent) if parent else None, gpu=Entitlement(quota * GPU, weight=0))
        for name, parent, quota in (("d1", "", 2), ("d2", "", 2), ("p1", "d1", 1), ("p2", "d1", 1), ("p3", "d2", 2))
    ]
    rows = [running(f"a{index}", "p2", 1, 1) for index in range(mine)]
    rows += [running(f"b{index}", "p3", 1, 1) for index in range(theirs)]
    made = snapshot(queues, [*rows, waiting("job", "p1", 1)], [node("a", 8)])
    ends = decide(made).pods
    assert sum(end.change is PodChange.EVICTED for end in ends.values()) == evicted
    assert outcome_of(applied(made, real_plan(made))).pods == ends


@pytest.mark.parametrize(("queue", "change"), [("q", PodChange.BOUND), ("other", PodChange.WAITING)])
def test_a_claim_serves_only_its_own_queue(queue: str, change: PodChange) -> None:
    group, (pod,) = waiting("job", "q", 1)
    claim = Claim(id=ClaimId("claim"), queue=QueueId(queue))
    pods = (replace(pod, shape=PodShape(), claims=(claim.id,)),)
    nodes = [replace(node("a", 0), claim_devices=("card",))]
    made = replace(snapshot([free_queue("q"), free_queue("other")], [(group, pods)], nodes), claims=(claim,))
    ends = decide(made).pods
    assert [end.change for end in ends.values()] == [change]
    assert outcome_of(applied(made, real_plan(made))).pods == ends


NOW = Instant(10**9)
Rows = tuple[PodGroup, tuple[Pod, ...]]


def snapshot(
    queues: Iterable[Queue], rows: Iterable[Rows], nodes: Iterable[Node], policy: Policy | None = None
) -> Snapshot:
    rows = list(rows)
    return Snapshot(
        now=NOW,
        nodes=tuple(nodes),
        queues=tuple(queues),
        groups=tuple(group for group, _ in rows),
        pods=tuple(pod for _, pods in rows for pod in pods),
        policy=Policy.product() if policy is None else policy,
    )


def node(name: str, gpus: int) -> Node:
    return Node(name=NodeName(name), cpu_milli=64_000, memory_bytes=2**40, gpus=gpus, gpu_memory_mib=40_000)


def free_queue(name: str) -> Queue:
    return Queue(id=QueueId(name), gpu=Entitlement())


def waiting(name: str, queue: str, count: int, *, least: int = 1, gpus: int = 1, priority: int = 50) -> Rows:
    group = PodGroup(
        id=GroupId(name),
        queue=QueueId(queue),
        created_at=Instant(1),
        priority=priority,
        tree=SubGroup(pod_sets=(PodSet(minimum=least),)),
    )
    shape = PodShape(gpu=whole_gpus(gpus))
    ids = [PodId(f"{name}-{index}") for index in range(count)]
    return group, tuple(Pod(id=each, group=group.id, shape=shape, created_at=Instant(1)) for each in ids)


def running(name: str, queue: str, count: int, gpus: int, *, least: int = 1, node_name: str | None = None) -> Rows:
    group, pods = waiting(name, queue, count, least=least, gpus=gpus)
    where = NodeName(node_name or ("n" if name in ("left", "right", "x") else "a"))
    return group, tuple(replace(pod, phase=PodPhase.RUNNING, node=where) for pod in pods)


# Conformance


@cache
def action_cases(folder: str) -> list[Case]:
    return [case for case in read_folder(CASES / folder) if not case.is_unit]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["cases", "random"])
def test_the_oracle_passes_every_action_case(folder: str) -> None:
    outcomes = [judge(case, plan) for case in action_cases(folder)]
    failed = [f"{each.case.id}: {', '.join(each.differences)}" for each in outcomes if not each.passed]
    assert not failed, "\n".join(failed)


# Independence


def test_the_oracle_asks_the_scheduler_for_nothing_that_decides() -> None:
    """Rows, the policy as data and the types of a plan; each rule is stated again."""
    data = {"fairpool.scheduler.decision", "fairpool.scheduler.policy", "fairpool.scheduler.snapshot"}
    for path in Path(__file__).parent.glob("*.py"):
        if path.name.startswith("test_"):
            continue
        tree = ast.parse(path.read_text())
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name for name in modules if name.startswith("fairpool.scheduler")} <= data, path.name
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "rule_for"]


# --- mutations of the scheduler, see `mutations.py`


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.rule)
def test_a_mutation_fits_the_code_that_it_changes(mutation: Mutation) -> None:
    text = (ROOT / SCHEDULER / f"{mutation.module}.py").read_text(encoding="utf-8")
    compile(mutated(text, mutation), mutation.module, "exec")
