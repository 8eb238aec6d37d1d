"""Snapshots that cannot be true: every one is answered with Problems, and the healthy rest is planned safely."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.workload import GpuRequest, Pod, PodSet, SubGroup, TopologyConstraint, gpu_portion, whole_gpus
from fairpool.scheduler.decision import NoQueue, NotReady, Plan
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.validation import check
from tests.properties.occupancy import Occupancy
from tests.properties.snapshots import seeded
from tests.scenario import World

Spoil = Callable[[Snapshot], Snapshot]


def healthy() -> Snapshot:
    """`ok` fits beside `a` and `b`; `odd` is there to be spoilt."""
    return World("""
        node    n1: 6 gpus, of 10000 MiB, 64 cpus, 256 GB
        node    n2: 2 gpus, 64 cpus, 256 GB, cordoned
        queue   research: quota 4
        queue   vision: quota 4, in research
        queue   speech: quota 2
        running a of vision: 1 gpu, 1 cpu on n1, device 0
        running b of vision: 0.5 gpu, 1 cpu on n1, device 1
        pending odd of speech: 1 gpu, 1 cpu
        pending ok of vision: 1 gpu, 1 cpu
    """).snapshot


def pod(name: str, **changes: Any) -> Spoil:
    return lambda rows: replace(
        rows, pods=tuple(replace(each, **changes) if each.id == name else each for each in rows.pods)
    )


def shape(name: str, **changes: Any) -> Spoil:
    def spoil(rows: Snapshot) -> Snapshot:
        (found,) = (each for each in rows.pods if each.id == name)
        return pod(name, shape=replace(found.shape, **changes))(rows)

    return spoil


def node(name: str, **changes: Any) -> Spoil:
    return lambda rows: replace(
        rows, nodes=tuple(replace(each, **changes) if each.name == name else each for each in rows.nodes)
    )


def queue(name: str, **changes: Any) -> Spoil:
    return lambda rows: replace(
        rows, queues=tuple(replace(each, **changes) if each.id == name else each for each in rows.queues)
    )


def group(name: str, **changes: Any) -> Spoil:
    return lambda rows: replace(
        rows, groups=tuple(replace(each, **changes) if each.id == name else each for each in rows.groups)
    )


def also(**rows_of: Any) -> Spoil:
    """More rows at the end of a column."""

    def spoil(rows: Snapshot) -> Snapshot:
        for column, more in rows_of.items():
            rows = _with_column(rows, column, (*getattr(rows, column), *more))
        return rows

    return spoil


def _running(name: str, owner: str, **changes: Any) -> Pod:
    (like,) = (each for each in healthy().pods if each.id == "a-0")
    return replace(like, id=PodId(name), group=GroupId(owner), **changes)


ALREADY: dict[str, Pod] = {each.id: each for each in healthy().pods}

SPOILT: list[Any] = [
    pytest.param(pod("a-0", node=NodeName("n9")), "pod.unknown_node", id="a pod runs on an unknown node"),
    pytest.param(pod("a-0", node=None), "pod.unknown_node", id="a pod runs nowhere"),
    pytest.param(pod("a-0", devices=(7,)), "pod.devices", id="a pod holds a device that its node does not have"),
    pytest.param(pod("a-0", devices=(-1,)), "pod.devices", id="a pod holds a device below 0"),
    pytest.param(pod("a-0", devices=(0, 0)), "pod.devices", id="a pod holds a device twice"),
    pytest.param(pod("a-0", group=GroupId("x")), "pod.unknown_group", id="a running pod of no group"),
    pytest.param(pod("odd-0", group=GroupId("x")), "pod.unknown_group", id="a waiting pod of no group"),
    pytest.param(pod("a-0", pod_set="x"), "pod.unknown_set", id="a pod of no pod set"),
    pytest.param(shape("odd-0", cpu_milli=-1), "pod.amounts", id="a pod asks for less than no CPU"),
    pytest.param(shape("odd-0", memory_bytes=-1), "pod.amounts", id="a pod asks for less than no memory"),
    pytest.param(shape("odd-0", gpu=whole_gpus(-1)), "pod.amounts", id="a pod asks for less than no GPU"),
    pytest.param(shape("odd-0", gpu=whole_gpus(10**9)), "pod.amounts", id="a pod asks for a billion GPUs"),
    pytest.param(shape("odd-0", gpu=gpu_portion(0)), "pod.amounts", id="a pod asks for a portion of nothing"),
    pytest.param(shape("odd-0", gpu=gpu_portion(1500)), "pod.amounts", id="a pod asks for more than all of a device"),
    pytest.param(shape("odd-0", gpu=gpu_portion(-500)), "pod.amounts", id="a pod asks for a negative portion"),
    pytest.param(
        shape("odd-0", gpu=GpuRequest(devices=1, memory_mib=-5)), "pod.amounts", id="a pod asks for negative memory"
    ),
    pytest.param(
        shape("odd-0", gpu=GpuRequest(mig=(("nvidia.com/mig-1g.5gb", -1),))), "pod.amounts", id="a negative MIG count"
    ),
    pytest.param(shape("odd-0", extended=(("rdma", -1),)), "pod.amounts", id="less than no extended resource"),
    pytest.param(shape("a-0", cpu_milli=-5000), "pod.amounts", id="a running pod holds less than nothing"),
    pytest.param(node("n2", gpus=-1), "node.amounts", id="a node has less than no GPU"),
    pytest.param(node("n2", gpus=10**9), "node.amounts", id="a node has a billion GPUs"),
    pytest.param(node("n2", cpu_milli=-1), "node.amounts", id="a node has less than no CPU"),
    pytest.param(node("n2", gpu_memory_mib=-1), "node.amounts", id="a node has devices of negative memory"),
    pytest.param(node("n2", mig_instances={"x": -1}), "node.amounts", id="a node has a negative number of slices"),
    pytest.param(queue("speech", parent=QueueId("x")), "queue.not_rooted", id="a queue below an unknown one"),
    pytest.param(queue("research", parent=QueueId("vision")), "queue.not_rooted", id="queues in a circle"),
    pytest.param(queue("speech", parent=QueueId("speech")), "queue.not_rooted", id="a queue below itself"),
    pytest.param(queue("speech", gpu=Entitlement(-5)), "queue.amounts", id="a quota below unlimited"),
    pytest.param(queue("speech", gpu=Entitlement(0, -5)), "queue.amounts", id="a limit below unlimited"),
    pytest.param(queue("speech", gpu=Entitlement(0, -1, math.nan)), "queue.amounts", id="a weight that is no number"),
    pytest.param(queue("speech", gpu=Entitlement(0, -1, math.inf)), "queue.amounts", id="an infinite weight"),
    pytest.param(queue("speech", gpu=Entitlement(0, -1, -1.0)), "queue.amounts", id="a negative weight"),
    pytest.param(
        queue("speech", gpu=Entitlement(0, -1, 1.0, math.nan)), "queue.amounts", id="a usage that is no number"
    ),
    pytest.param(group("odd", queue=QueueId("x")), "group.queue", id="a group in no queue"),
    pytest.param(group("odd", queue=QueueId("research")), "group.queue", id="a group in a department"),
    pytest.param(group("odd", tree=SubGroup()), "group.pod_sets", id="a group without pod sets"),
    pytest.param(
        group("odd", tree=SubGroup(pod_sets=(PodSet(), PodSet()))), "group.pod_sets", id="two pod sets of one name"
    ),
    pytest.param(
        also(pods=[_running("c-0", "a")]), "device.overcommitted", id="two pods hold the same device as a whole"
    ),
    pytest.param(
        also(
            pods=[replace(ALREADY["b-0"], id=PodId("b-1"), shape=replace(ALREADY["b-0"].shape, gpu=gpu_portion(700)))]
        ),
        "device.overcommitted",
        id="two pods share more of a device than there is",
    ),
    pytest.param(
        also(pods=[replace(ALREADY["b-0"], id=PodId("b-1"), devices=(0,))]),
        "device.overcommitted",
        id="a pod shares a device that another holds as a whole",
    ),
    pytest.param(also(pods=[ALREADY["a-0"]]), "pod.duplicate", id="a pod twice"),
    pytest.param(
        also(pods=[replace(ALREADY["ok-0"], shape=replace(ALREADY["ok-0"].shape, cpu_milli=2000))]),
        "pod.duplicate",
        id="two pods of one name",
    ),
    pytest.param(
        also(nodes=[Node(name=NodeName("n1"), cpu_milli=1, memory_bytes=1)]),
        "node.duplicate",
        id="two nodes of one name",
    ),
    pytest.param(also(queues=[Queue(id=QueueId("speech"))]), "queue.duplicate", id="two queues of one name"),
    pytest.param(
        lambda rows: also(groups=[rows.groups[0], replace(rows.groups[2], priority=7)])(rows),
        "group.duplicate",
        id="two groups of one name",
    ),
]


@pytest.mark.parametrize(("spoil", "code"), SPOILT)
def test_what_is_wrong_is_named_and_planned_around(spoil: Spoil, code: str) -> None:
    rows = spoil(healthy())
    problems = check(rows)
    assert code in {problem.code for problem in problems}, problems
    for problem in problems:
        assert problem.what
        assert problem.fix
    decided = plan(rows)
    assert code in {problem.code for problem in decided.problems}
    assert_safe(rows, decided)


KEEPS_OK = [
    each for each in SPOILT if each.id not in {"queues in a circle", "two nodes of one name", "two pods of one name"}
]


@pytest.mark.parametrize(("spoil", "code"), KEEPS_OK)
def test_one_bad_row_does_not_stop_the_others(spoil: Spoil, code: str) -> None:
    decided = plan(spoil(healthy()))
    assert "ok-0" in {each.pod for each in decided.binds}


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(shape("odd-0", cpu_milli=2**70), id="more CPU than a column can hold"),
        pytest.param(shape("odd-0", memory_bytes=10**30), id="more memory than a column can hold"),
        pytest.param(shape("odd-0", gpu=GpuRequest(devices=1, memory_mib=10**30)), id="more GPU memory than that"),
        pytest.param(shape("odd-0", extended=(("rdma", 2**80),)), id="more of an extended resource"),
        pytest.param(group("odd", tree=SubGroup(pod_sets=(PodSet(minimum=9),))), id="a gang larger than its pods"),
        pytest.param(group("odd", tree=SubGroup(pod_sets=(PodSet(minimum=0),))), id="a gang of no pods"),
        pytest.param(group("odd", tree=SubGroup(pod_sets=(PodSet(minimum=-3),))), id="a gang of fewer than no pods"),
        pytest.param(
            group(
                "odd",
                tree=SubGroup(constraint=TopologyConstraint(topology="x", required="rack"), pod_sets=(PodSet(),)),
            ),
            id="a topology that does not exist",
        ),
        pytest.param(node("n1", gpus_withheld=(99, -1)), id="withheld devices that do not exist"),
        pytest.param(node("n1", memory_bytes=2**80, cpu_milli=2**80), id="a node of astronomic size"),
        pytest.param(queue("speech", gpu=Entitlement(2**80, 2**80, 1e300)), id="an astronomic quota"),
        pytest.param(queue("speech", priority=2**80), id="an astronomic priority"),
        pytest.param(group("odd", created_at=Instant(-(2**70))), id="created before time"),
        pytest.param(group("odd", created_at=Instant(2**70)), id="created after time"),
        pytest.param(group("odd", priority=-(2**70)), id="of no importance"),
        pytest.param(pod("odd-0", phase=PodPhase.PROMISED), id="promised nothing"),
        pytest.param(pod("odd-0", phase=PodPhase.PROMISED, node=NodeName("n9")), id="promised an unknown node"),
        pytest.param(
            pod("odd-0", phase=PodPhase.PROMISED, node=NodeName("n1"), devices=(0,), promised_at=Instant(2**60)),
            id="promised a taken device, in the future",
        ),
        pytest.param(pod("odd-0", node=NodeName("n1"), devices=(0,)), id="waiting and already somewhere"),
        pytest.param(pod("odd-0", claims=("nowhere",)), id="a claim that does not exist"),
        pytest.param(pod("a-0", devices=()), id="a GPU, but on no device in particular"),
        pytest.param(group("odd", avoid=(NodeName("n9"),)), id="avoiding an unknown node"),
        pytest.param(pod("odd-0", nominated=NodeName("n9")), id="nominated for an unknown node"),
        pytest.param(shape("a-0", cpu_milli=10**9), id="a node over-committed by the outside world"),
    ],
)
def test_what_cannot_be_is_never_a_traceback(spoil: Spoil) -> None:
    rows = spoil(healthy())
    check(rows)
    assert_safe(rows, plan(rows))


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(Snapshot(now=Instant(0)), id="nothing at all"),
        pytest.param(replace(healthy(), nodes=()), id="no nodes"),
        pytest.param(replace(healthy(), queues=()), id="no queues"),
        pytest.param(replace(healthy(), groups=()), id="no groups"),
        pytest.param(replace(healthy(), pods=()), id="no pods"),
    ],
)
def test_empty_columns_are_planned(rows: Snapshot) -> None:
    decided = plan(rows)
    assert not decided.binds
    assert not decided.evictions


@pytest.mark.parametrize("device", [7, -1])
def test_a_pod_whose_device_is_gone_takes_nothing_of_those_that_are_left(device: int) -> None:
    """`ok` and `odd` ask for all that is left beside `b`, which is five devices."""
    rows = pod("a-0", devices=(device,))(shape("ok-0", gpu=whole_gpus(4))(healthy()))
    assert {each.pod for each in plan(rows).binds} == {"ok-0", "odd-0"}


def test_a_full_device_of_the_outside_world_gets_no_other_pod() -> None:
    """Two pods hold 1.2 of device 1, `half` would fit on it if one looked at the newer one only."""
    rows = World("""
        node    n1: 2 gpus
        queue   vision: quota 4
        running a of vision: 0.5 gpu on n1, device 1
        running x of vision: 1 gpu on n1, device 0
        pending half of vision: 0.3 gpu
    """).snapshot
    crowd = replace(rows.pods[0], id=PodId("b-0"), shape=replace(rows.pods[0].shape, gpu=gpu_portion(700)))
    decided = plan(replace(rows, pods=(*rows.pods, crowd)))
    assert not decided.binds
    assert "half" in decided.verdicts


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("request_", ["1 gpu", "0.5 gpu", "2 x 0.5 gpus", "4000 MiB"])
def test_a_node_that_lost_devices_in_use_is_planned_around(gpus: int, request_: str) -> None:
    """The devices fell off the bus, the pods on them are still reported; no other pod goes there for a GPU."""
    rows = World(f"""
        node    n1: 3 gpus, of 10000 MiB
        node    n2: 3 gpus, of 10000 MiB
        queue   vision: quota 8
        running x of vision: 1 gpu on n1, device 0
        running a of vision: {request_} on n1, devices 1 2
        pending b of vision: {request_}
        pending c of vision: 0.25 gpu
        pending d of vision: no gpu, 1 cpu
    """).snapshot
    rows = node("n1", gpus=gpus)(rows)
    decided = plan(rows)
    assert {each.group for each in decided.binds} == {"b", "c", "d"}
    assert {each.node for each in decided.binds if each.devices} == {"n2"}
    assert_safe(rows, decided)


def test_a_device_that_a_pod_holds_unasked_is_not_given_out() -> None:
    rows = World("""
        node    n1: 2 gpus
        queue   vision: quota 8
        running a of vision: 0.6 gpu on n1, device 0
        pending b of vision: 0.6 gpu
    """).snapshot
    rows = pod("a-0", devices=(0, 1))(rows)
    decided = plan(rows)
    assert not decided.binds
    assert_safe(rows, decided)


def test_groups_of_queues_in_a_circle_are_told_so() -> None:
    rows = queue("research", parent=QueueId("vision"))(healthy())
    verdict = plan(rows).verdicts[GroupId("ok")]
    assert isinstance(verdict.why, NoQueue)


def test_a_gang_larger_than_its_pods_is_told_so() -> None:
    rows = group("odd", tree=SubGroup(pod_sets=(PodSet(minimum=9),)))(healthy())
    verdict = plan(rows).verdicts[GroupId("odd")]
    assert isinstance(verdict.why, NotReady)
    assert (verdict.why.needs, verdict.why.exist) == (9, 1)


# --- anything at all ------------------------------------------------------------------------------------------

NASTY: dict[type, list[Any]] = {
    bool: [True, False],
    int: [-1, 0, 1, 10**6, 2**63, -(2**70)],
    float: [math.nan, math.inf, -math.inf, -1.0, 1e300],
    str: ["", "unknown", "n0", "g0", "q0"],
    tuple: [()],
}
NASTY_FIELDS: dict[str, list[Any]] = {
    "phase": list(PodPhase),
    "devices": [(99,), (-1,), (0, 0), (0, 1, 2), ()],
    "gpus_withheld": [(99,), (-1,), (0, 0)],
    "node": ["unknown", "n0", None],
    "nominated": ["unknown", "n0"],
    "parent": ["unknown", "q0", None],
    "promised_at": [2**62, -1, None],
    "started_at": [2**62, -1, None],
    "stale_since": [2**62, -1, None],
    "priority": [2**70, -(2**70)],
    "preempt_min_runtime_s": [-5, 2**70],
    "reclaim_min_runtime_s": [-5, 2**70],
    "order": [-5, 2**70],
}
"""Values of the right type that make no sense."""


def spoilt_at_random(seed: int) -> Snapshot:
    """A world of which a few fields, of rows or of what they hold, have become something else."""
    dice = random.Random(seed)
    rows = seeded(dice.randrange(10**6))
    for _ in range(dice.randint(1, 4)):
        column = dice.choice(["nodes", "queues", "groups", "pods", "pods"])
        found = list(getattr(rows, column))
        if found:
            index = dice.randrange(len(found))
            found[index] = _spoilt(found[index], dice)
            rows = _with_column(rows, column, tuple(found))
    return rows


def _with_column(rows: Snapshot, column: str, found: tuple[Any, ...]) -> Snapshot:
    changes: dict[str, Any] = {column: found}
    return replace(rows, **changes)


def _spoilt(row: Any, dice: random.Random) -> Any:
    name = dice.choice([each.name for each in dataclasses.fields(row)])
    value = getattr(row, name)
    if dataclasses.is_dataclass(value):
        return replace(row, **{name: _spoilt(value, dice)})
    if name in NASTY_FIELDS and type(row) is not GpuRequest:
        return replace(row, **{name: dice.choice(NASTY_FIELDS[name])})
    if type(value) in NASTY:
        return replace(row, **{name: dice.choice(NASTY[type(value)])})
    return row


@pytest.mark.parametrize("seed", range(40))
def test_no_world_is_too_odd_to_plan(seed: int) -> None:
    rows = spoilt_at_random(seed)
    assert_safe(rows, plan(rows))
    check(rows)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_no_world_of_many_is_too_odd_to_plan(block: int) -> None:
    for seed in range(1000 + block * 250, 1250 + block * 250):
        rows = spoilt_at_random(seed)
        try:
            assert_safe(rows, plan(rows))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def assert_safe(rows: Snapshot, decided: Plan) -> None:
    """Whatever was wrong before, no pod is sent to where there is no room, and no pod is both bound and evicted."""
    nodes = {each.name: each for each in rows.nodes}
    pods = {each.id: each for each in rows.pods}
    for bind in decided.binds:
        assert bind.node in nodes
        assert nodes[bind.node].is_healthy
        there = Occupancy(nodes[bind.node], [each for each in rows.pods if _is_there(each, bind.node)])
        for other in decided.binds:
            if other.node == bind.node:
                there.add(replace(pods[other.pod], devices=other.devices))
        for device in bind.devices:
            assert 0 <= device < nodes[bind.node].gpus
            assert there.device[device] <= there.device_size, f"{bind} on a device with {there.device[device]}"
    assert not {each.pod for each in decided.binds} & {each.pod for each in decided.evictions}


def _is_there(each: Pod, name: NodeName) -> bool:
    return each.node == name and each.phase in HOLDS_DEVICES
