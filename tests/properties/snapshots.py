"""Small worlds with everything in them: portions, memory, gangs, parts, elastic groups, departments, limits, promises.

Every world is one that could be: no device is over-committed, promises are on room that is free or becoming free. What
an administrator may do to a running cluster may have been done: quotas and limits below use, cordoned nodes, taints
on nodes with pods.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node, Taint, Topology
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodGroup,
    PodSet,
    PodShape,
    SubGroup,
    Toleration,
    TopologyConstraint,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from fairpool.scheduler.snapshot import Snapshot
from tests.properties.occupancy import Occupancy

NOW = Instant(1_700_000_000_000)
GIB = 2**30
TOPOLOGY = Topology(name="net", levels=("zone", "rack"))

T = TypeVar("T")


class Pick(Protocol):
    """Chooses one of several values: Hypothesis does it so that failures shrink, a seed so that worlds are many."""

    def __call__(self, values: Sequence[T], /) -> T: ...


@st.composite
def snapshots(draw: st.DrawFn, most_groups: int = 8) -> Snapshot:
    """Worlds chosen by Hypothesis."""

    def pick(values: Sequence[T], /) -> T:
        return draw(st.sampled_from(values))

    return world(pick, most_groups)


def seeded(seed: int, most_groups: int = 8) -> Snapshot:
    """The world of a seed: faster, and more evenly odd."""
    return world(random.Random(seed).choice, most_groups)


def mostly(usual: T, *rare: T) -> list[T]:
    """The usual value six times in seven: with a dozen oddities in every row, nothing would ever fit."""
    return [usual] * 6 * len(rare) + list(rare)


GPUS = [4, 4, 4, 2, 2, 8, 8, 1, 0]
DEVICE_MIB = [32_510, 32_510, 16_000, 0]
CPU_MILLI = mostly(64_000, 8_000)
PODS_MAX = mostly(110, 3)
SELDOM = mostly(False, True)
NEVER_MIND = mostly(False, False, True)
ZONES = ["a", "b"]
RACKS = ["1", "2"]
TAINTS = mostly((), (Taint("reserved", "yes"),))

QUOTAS = [0, 1000, 2000, 3000, 4000, 500, 8000, UNLIMITED]
LIMITS = mostly(UNLIMITED, 2000, 4000)
WEIGHTS = [1.0, 2.0, 3.0, 0.0]
USAGES = mostly(0.0, 0.4)
QUEUE_PRIORITIES = mostly(100, 200)
CPU_LIMITS = mostly(UNLIMITED, 4_000)
MIN_RUNTIMES = mostly(None, 60)


# --- nodes and queues ------------------------------------------------------------------------------------------


def nodes(pick: Pick) -> tuple[Node, ...]:
    count = pick([1, 2, 2, 3, 3, 4])
    return tuple(_node(pick, NodeName(f"n{number}")) for number in range(count))


def _node(pick: Pick, name: NodeName) -> Node:
    gpus = pick(GPUS)
    zone = pick(ZONES)
    return Node(
        name=name,
        cpu_milli=pick(CPU_MILLI),
        memory_bytes=256 * GIB,
        pods_max=pick(PODS_MAX),
        gpus=gpus,
        gpu_memory_mib=pick(DEVICE_MIB),
        gpus_withheld=(0,) if gpus and pick(SELDOM) else (),
        labels={"zone": zone, "rack": zone + pick(RACKS)},
        taints=pick(TAINTS),
        ready=not pick(NEVER_MIND),
        cordoned=pick(NEVER_MIND),
    )


def queues(pick: Pick) -> tuple[Queue, ...]:
    """One to three levels; the leaves are the projects."""
    found: list[Queue] = []
    for top in range(pick(range(1, 4))):
        _grow(pick, found, f"q{top}", None, pick(range(3)))
    return tuple(found)


def _grow(pick: Pick, found: list[Queue], name: str, parent: QueueId | None, depth: int) -> None:
    found.append(_queue(pick, QueueId(name), parent, len(found)))
    if depth:
        for child in range(pick(range(1, 3))):
            _grow(pick, found, f"{name}.{child}", QueueId(name), depth - 1)


def _queue(pick: Pick, name: QueueId, parent: QueueId | None, age: int) -> Queue:
    quota = pick(QUOTAS)
    limit = pick(LIMITS)
    return Queue(
        id=name,
        parent=parent,
        priority=pick(QUEUE_PRIORITIES),
        created_at=Instant(NOW - 10**6 + age),
        gpu=Entitlement(quota, limit, pick(WEIGHTS), pick(USAGES)),
        cpu=Entitlement(limit=pick(CPU_LIMITS)),
        preempt_min_runtime_s=pick(MIN_RUNTIMES),
        reclaim_min_runtime_s=pick(MIN_RUNTIMES),
    )


def leaves(rows: tuple[Queue, ...]) -> list[QueueId]:
    parents = {row.parent for row in rows}
    return [row.id for row in rows if row.id not in parents]


# --- groups ----------------------------------------------------------------------------------------------------

REQUESTS: list[GpuRequest] = [
    whole_gpus(1),
    whole_gpus(1),
    whole_gpus(1),
    whole_gpus(2),
    whole_gpus(2),
    whole_gpus(4),
    gpu_portion(500),
    gpu_portion(500),
    gpu_portion(250),
    gpu_portion(600),
    gpu_portion(500, devices=2),
    gpu_memory(8_000),
    gpu_memory(4_000, devices=2),
    gpu_memory(20_000),
    NO_GPU,
]


POD_CPU_MILLI = [500, 0, 3_000]
POD_MEMORY = [0, 8 * GIB]
POD_ZONES = mostly("", "a", "b")
TOLERATIONS = mostly((), (Toleration("reserved"),))


def shape(pick: Pick) -> PodShape:
    gpu = pick(REQUESTS)
    zone = pick(POD_ZONES)
    return PodShape(
        gpu=gpu,
        cpu_milli=pick(POD_CPU_MILLI) or (500 if gpu is NO_GPU else 0),
        memory_bytes=pick(POD_MEMORY),
        node_rules=((NodeSelectorRequirement("zone", NodeSelectorOperator.IN, (zone,)),),) if zone else (),
        tolerations=pick(TOLERATIONS),
    )


SETS = [[(1, 1)], [(1, 1)], [(1, 1)], [(2, 2)], [(3, 3)], [(1, 3)], [(2, 4)], [(1, 1), (2, 2)], [(1, 2), (1, 1)]]
"""Minimum and number of pods of each pod set."""
CONSTRAINTS = mostly(
    None,
    TopologyConstraint(topology="net", required="zone"),
    TopologyConstraint(topology="net", required="zone", preferred="rack"),
    TopologyConstraint(topology="net", preferred="zone"),
)
SET_CONSTRAINTS = mostly(None, TopologyConstraint(topology="net", required="rack"))
AGES = range(6)
KINDS = [*[WorkloadKind.TRAIN] * 6, WorkloadKind.BUILD, WorkloadKind.INFERENCE]
PRIORITIES = mostly(None, 40, 60, 110)
PREEMPTIBLE = mostly(None, True, False)
AVOID = mostly((), (NodeName("n0"),))
GATED = mostly(False, False, True)
STARTED_S = [1000, 60, 59, 10]
STALE_S = [0, 30, 60, 90]


@dataclass(frozen=True)
class Drawn:
    """A group with its pods, before anything has a place."""

    group: PodGroup
    pods: list[Pod]


def group_with_pods(pick: Pick, name: GroupId, projects: list[QueueId]) -> Drawn:
    sets = pick(SETS)
    constraint = pick(CONSTRAINTS)
    set_constraint = pick(SET_CONSTRAINTS)
    created = Instant(NOW - 3600 * SECOND_MS + pick(AGES) * SECOND_MS)
    group = PodGroup(
        id=name,
        queue=pick(projects),
        created_at=created,
        kind=pick(KINDS),
        priority=pick(PRIORITIES),
        preemptible=pick(PREEMPTIBLE),
        tree=SubGroup(
            constraint=constraint,
            pod_sets=tuple(
                PodSet(name=f"s{number}", minimum=minimum, constraint=set_constraint)
                for number, (minimum, _) in enumerate(sets)
            ),
        ),
        movable=not pick(SELDOM),
        avoid=pick(AVOID),
        succeeded=pick(NEVER_MIND),
    )
    same = shape(pick)
    pods = [
        Pod(
            id=PodId(f"{name}-{number}-{index}"),
            group=name,
            shape=same,
            pod_set=f"s{number}",
            created_at=Instant(created + index),
            gated=pick(GATED),
            leader=index == 0,
        )
        for number, (_, count) in enumerate(sets)
        for index in range(count)
    ]
    return Drawn(group, pods)


STATES = [*["waiting"] * 3, *["running"] * 5, "partly", "leaving", "promised", "broken"]


def world(pick: Pick, most_groups: int) -> Snapshot:
    """A world at some moment of its life."""
    machines, owners = nodes(pick), queues(pick)
    ground = Ground(machines)
    all_groups: list[PodGroup] = []
    all_pods: list[Pod] = []
    for number in range(pick(range(1, most_groups + 1))):
        drawn = group_with_pods(pick, GroupId(f"g{number}"), leaves(owners))
        group, pods = _settle(pick, drawn, ground)
        all_groups.append(group)
        all_pods += pods
    return Snapshot(
        now=NOW,
        nodes=machines,
        queues=owners,
        groups=tuple(all_groups),
        pods=tuple(all_pods),
        topologies=(TOPOLOGY,),
    )


def _settle(pick: Pick, drawn: Drawn, ground: Ground) -> tuple[PodGroup, list[Pod]]:
    """Give a group its past: where its pods are, since when."""
    state = pick(STATES)
    if state == "waiting":
        return drawn.group, drawn.pods
    group = replace(drawn.group, started_at=Instant(NOW - pick(STARTED_S) * SECOND_MS))
    pods = [replace(pod, gated=False) for pod in drawn.pods]
    first = pick(range(len(ground.now)))
    order = [*range(first, len(ground.now)), *range(first)]
    kept = _kept(state, group, pods)
    phase = {"leaving": PodPhase.RELEASING, "promised": PodPhase.PROMISED}.get(state, PodPhase.RUNNING)
    placed = ground.place([pod for pod in pods if pod.id in kept], phase, order)
    if placed is None:
        return drawn.group, drawn.pods
    if state == "broken":
        group = replace(group, stale_since=Instant(NOW - pick(STALE_S) * SECOND_MS))
    by_id = {pod.id: pod for pod in placed}
    return group, [by_id.get(pod.id, pod) for pod in pods]


def _kept(state: str, group: PodGroup, pods: list[Pod]) -> set[PodId]:
    """Pods that have a place: all, as many as must be, or fewer than that."""
    minimum = {each.name: each.minimum for each in group.tree.all_pod_sets()}
    index = {pod.id: int(pod.id.rsplit("-", 1)[1]) for pod in pods}
    if state == "partly":
        return {pod.id for pod in pods if index[pod.id] < minimum[pod.pod_set]}
    if state == "broken":
        return {pod.id for pod in pods if index[pod.id] < max(minimum[pod.pod_set] - 1, 1)}
    return {pod.id for pod in pods}


class Ground:
    """Room on nodes as it is now, and as it will be when the pods that leave have left."""

    def __init__(self, machines: tuple[Node, ...]) -> None:
        self.now = [Occupancy(node) for node in machines]
        self.soon = [Occupancy(node) for node in machines]

    def place(self, pods: list[Pod], phase: PodPhase, order: list[int]) -> list[Pod] | None:
        """Places for all of the pods, or None and nothing has changed."""
        placed: list[Pod] = []
        taken: list[int] = []
        for pod in pods:
            found = next((number for number in order if self._fits(pod, phase, number, placed, taken)), None)
            if found is None:
                return None
            placed.append(self._seated(pod, phase, found, placed, taken))
            taken.append(found)
        for pod, number in zip(placed, taken, strict=True):
            for view in self._views(phase, number):
                view.add(pod)
        return placed

    def _views(self, phase: PodPhase, number: int) -> list[Occupancy]:
        """Which of the two pictures a pod in this phase is part of."""
        if phase is PodPhase.RELEASING:
            return [self.now[number]]
        if phase is PodPhase.PROMISED:
            return [self.soon[number]]
        return [self.now[number], self.soon[number]]

    def _with(self, view: Occupancy, number: int, placed: list[Pod], taken: list[int]) -> Occupancy:
        trial = Occupancy(view.node)
        trial.cpu_milli, trial.memory_bytes, trial.pods = view.cpu_milli, view.memory_bytes, view.pods
        trial.device, trial.counted = view.device.copy(), view.counted.copy()
        for pod, where in zip(placed, taken, strict=True):
            if where == number:
                trial.add(pod)
        return trial

    def _fits(self, pod: Pod, phase: PodPhase, number: int, placed: list[Pod], taken: list[int]) -> bool:
        views = [self._with(view, number, placed, taken) for view in self._views(phase, number)]
        return all(view.has_room(pod) for view in views) and self._devices(pod, views) is not None

    @staticmethod
    def _devices(pod: Pod, views: list[Occupancy]) -> tuple[int, ...] | None:
        """Devices with room in every picture."""
        node, gpu = views[0].node, pod.shape.gpu
        room = [
            device
            for device in range(node.gpus)
            if device not in node.gpus_withheld
            and all(view.device[device] + view.part(pod) <= view.device_size for view in views)
        ]
        return tuple(room[: gpu.devices]) if len(room) >= gpu.devices else None

    def _seated(self, pod: Pod, phase: PodPhase, number: int, placed: list[Pod], taken: list[int]) -> Pod:
        views = [self._with(view, number, placed, taken) for view in self._views(phase, number)]
        promised_at = Instant(NOW - 5 * SECOND_MS) if phase is PodPhase.PROMISED else None
        return replace(
            pod,
            phase=phase,
            node=self.now[number].node.name,
            devices=self._devices(pod, views) or (),
            promised_at=promised_at,
        )
