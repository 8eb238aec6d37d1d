"""Small worlds with everything in them: portions, memory, gangs, parts, elastic groups, departments, limits, promises.

Every world is one that could be: no device is over-committed, promises are on room that is free or becoming free. What
an administrator may do to a running cluster may have been done: quotas and limits below use, cordoned nodes, taints
on nodes with pods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

from fairpool.model.ids import SECOND_MS, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node, Taint, Topology
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED
from fairpool.model.workload import (
    NO_GPU,
    GpuRequest,
    LabelOperator,
    LabelRule,
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


def mostly(usual: T, *rare: T) -> st.SearchStrategy[T]:
    """The usual value three times in four."""
    return st.sampled_from([usual] * 3 * max(len(rare), 1) + list(rare))


# --- nodes and queues ------------------------------------------------------------------------------------------


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    count = draw(st.integers(1, 4))
    return tuple(draw(_node(NodeName(f"n{number}"))) for number in range(count))


@st.composite
def _node(draw: st.DrawFn, name: NodeName) -> Node:
    gpus = draw(st.sampled_from([4, 2, 1, 0]))
    zone = draw(st.sampled_from(["a", "b"]))
    return Node(
        name=name,
        cpu_milli=draw(mostly(64_000, 8_000)),
        memory_bytes=256 * GIB,
        pods_max=draw(mostly(110, 3)),
        gpus=gpus,
        gpu_memory_mib=draw(st.sampled_from([16_000, 32_510, 0])),
        gpus_withheld=(0,) if gpus and draw(mostly(False, True)) else (),
        labels={"zone": zone, "rack": zone + draw(st.sampled_from("12"))},
        taints=draw(mostly((), (Taint("reserved", "yes"),))),
        ready=draw(mostly(True, True, False)),
        cordoned=draw(mostly(False, False, True)),
    )


@st.composite
def queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    """One to three levels; the leaves are the projects."""
    found: list[Queue] = []
    for top in range(draw(st.integers(1, 3))):
        _grow(draw, found, f"q{top}", None, draw(st.integers(0, 2)))
    return tuple(found)


def _grow(draw: st.DrawFn, found: list[Queue], name: str, parent: QueueId | None, depth: int) -> None:
    found.append(draw(_queue(QueueId(name), parent, len(found))))
    if depth:
        for child in range(draw(st.integers(1, 2))):
            _grow(draw, found, f"{name}.{child}", QueueId(name), depth - 1)


@st.composite
def _queue(draw: st.DrawFn, name: QueueId, parent: QueueId | None, age: int) -> Queue:
    quota = draw(st.sampled_from([0, 1000, 2000, 3000, 4000, 500, UNLIMITED]))
    limit = draw(mostly(UNLIMITED, 1000, 2000, 4000))
    return Queue(
        id=name,
        parent=parent,
        priority=draw(mostly(100, 200)),
        created_at=Instant(NOW - 10**6 + age),
        gpu=Entitlement(quota, limit, draw(st.sampled_from([1.0, 2.0, 3.0, 0.0])), draw(mostly(0.0, 0.4))),
        cpu=Entitlement(limit=draw(mostly(UNLIMITED, UNLIMITED, 4_000))),
        preempt_min_runtime_s=draw(mostly(None, 60)),
        reclaim_min_runtime_s=draw(mostly(None, 60)),
    )


def leaves(rows: tuple[Queue, ...]) -> list[QueueId]:
    parents = {row.parent for row in rows}
    return [row.id for row in rows if row.id not in parents]


# --- groups ----------------------------------------------------------------------------------------------------

REQUESTS: list[GpuRequest] = [
    whole_gpus(1),
    whole_gpus(2),
    whole_gpus(4),
    gpu_portion(500),
    gpu_portion(250),
    gpu_portion(600),
    gpu_portion(500, devices=2),
    gpu_memory(8_000),
    gpu_memory(4_000, devices=2),
    gpu_memory(20_000),
    NO_GPU,
]


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    gpu = draw(st.sampled_from(REQUESTS))
    zone = draw(mostly("", "", "a", "b"))
    return PodShape(
        gpu=gpu,
        cpu_milli=draw(st.sampled_from([0, 500, 3_000])) if gpu is not NO_GPU else draw(st.sampled_from([500, 3_000])),
        memory_bytes=draw(st.sampled_from([0, 8 * GIB])),
        node_rules=((LabelRule("zone", LabelOperator.IN, (zone,)),),) if zone else (),
        tolerations=draw(mostly((), (Toleration("reserved"),))),
    )


@dataclass(frozen=True)
class Drawn:
    """A group with its pods, before anything has a place."""

    group: PodGroup
    pods: list[Pod]


@st.composite
def groups(draw: st.DrawFn, name: GroupId, projects: list[QueueId]) -> Drawn:
    sets = draw(
        st.sampled_from(
            [[(1, 1)], [(1, 1)], [(2, 2)], [(3, 3)], [(1, 3)], [(2, 4)], [(1, 1), (2, 2)], [(1, 2), (1, 1)]]
        )
    )
    constraint = draw(mostly(None, None, *_CONSTRAINTS))
    set_constraint = draw(mostly(None, None, TopologyConstraint(topology="net", required="rack")))
    created = Instant(NOW - 3600 * SECOND_MS + draw(st.integers(0, 5)) * SECOND_MS)
    group = PodGroup(
        id=name,
        queue=draw(st.sampled_from(projects)),
        created_at=created,
        kind=draw(mostly(WorkloadKind.TRAIN, WorkloadKind.BUILD, WorkloadKind.INFERENCE)),
        priority=draw(mostly(None, None, 40, 60, 110)),
        preemptible=draw(mostly(None, None, True, False)),
        tree=SubGroup(
            constraint=constraint,
            pod_sets=tuple(
                PodSet(name=f"s{number}", minimum=minimum, constraint=set_constraint)
                for number, (minimum, _) in enumerate(sets)
            ),
        ),
        movable=draw(mostly(True, False)),
        avoid=draw(mostly((), (NodeName("n0"),))),
        succeeded=draw(mostly(False, False, True)),
    )
    shape = draw(shapes())
    pods = [
        Pod(
            id=PodId(f"{name}-{number}-{index}"),
            group=name,
            shape=shape,
            pod_set=f"s{number}",
            created_at=Instant(created + index),
            gated=draw(mostly(False, False, False, True)),
            leader=index == 0,
        )
        for number, (_, count) in enumerate(sets)
        for index in range(count)
    ]
    return Drawn(group, pods)


_CONSTRAINTS = [
    TopologyConstraint(topology="net", required="zone"),
    TopologyConstraint(topology="net", required="zone", preferred="rack"),
    TopologyConstraint(topology="net", preferred="zone"),
]

FATES = ["waiting", "running", "running", "partly", "leaving", "promised", "broken"]


@st.composite
def snapshots(draw: st.DrawFn, most_groups: int = 8) -> Snapshot:
    """A world at some moment of its life."""
    machines, owners = draw(nodes()), draw(queues())
    ground = Ground(machines)
    all_groups: list[PodGroup] = []
    all_pods: list[Pod] = []
    for number in range(draw(st.integers(1, most_groups))):
        drawn = draw(groups(GroupId(f"g{number}"), leaves(owners)))
        group, pods = _settle(draw, drawn, ground)
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


def _settle(draw: st.DrawFn, drawn: Drawn, ground: Ground) -> tuple[PodGroup, list[Pod]]:
    """Give a group its past: where its pods are, since when."""
    fate = draw(st.sampled_from(FATES))
    if fate == "waiting":
        return drawn.group, drawn.pods
    group = replace(drawn.group, started_at=Instant(NOW - draw(st.sampled_from([10, 59, 60, 1000])) * SECOND_MS))
    pods = [replace(pod, gated=False) for pod in drawn.pods]
    order = draw(st.permutations(range(len(ground.now))))
    kept = _kept(fate, group, pods)
    phase = {"leaving": PodPhase.RELEASING, "promised": PodPhase.PROMISED}.get(fate, PodPhase.RUNNING)
    placed = ground.place([pod for pod in pods if pod.id in kept], phase, order)
    if placed is None:
        return drawn.group, drawn.pods
    if fate == "broken":
        group = replace(group, stale_since=Instant(NOW - draw(st.sampled_from([0, 30, 60, 90])) * SECOND_MS))
    by_id = {pod.id: pod for pod in placed}
    return group, [by_id.get(pod.id, pod) for pod in pods]


def _kept(fate: str, group: PodGroup, pods: list[Pod]) -> set[PodId]:
    """Pods that have a place: all, as many as must be, or fewer than that."""
    minimum = {each.name: each.minimum for each in group.tree.all_pod_sets()}
    index = {pod.id: int(pod.id.rsplit("-", 1)[1]) for pod in pods}
    if fate == "partly":
        return {pod.id for pod in pods if index[pod.id] < minimum[pod.pod_set]}
    if fate == "broken":
        return {pod.id for pod in pods if index[pod.id] < max(minimum[pod.pod_set] - 1, 1)}
    return {pod.id for pod in pods}


class Ground:
    """Room on nodes as it is now, and as it will be when whoever leaves has left."""

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
        trial.device, trial.mig = view.device.copy(), view.mig.copy()
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
