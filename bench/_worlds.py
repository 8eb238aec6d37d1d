"""Generated clusters: nodes, the organization, jobs running and waiting, and the two mixes of jobs.

Everything follows from the arguments and one seed. Pods of equal shape share one `PodShape` object, as they do when a
real cluster is surveyed. Nothing here is ever inside a clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node, Topology
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import (
    Pod,
    PodGroup,
    PodSet,
    PodShape,
    SubGroup,
    TopologyConstraint,
    gpu_portion,
    whole_gpus,
)
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

SEED = 1
GPUS_PER_NODE = 8
DEVICE_MIB = 81_920
NODE_CPU_MILLI = 128_000
NODE_MEMORY_BYTES = 1 << 40
START = Instant(1_700_000_000_000)

QUEUES = (QueueId("a-0"), QueueId("a-1"), QueueId("b-0"), QueueId("b-1"))
"""Two departments, a and b, of two queues each."""


# ---- shapes


@cache
def gpus(count: int, cpu_milli: int = 4000) -> PodShape:
    """A pod with whole GPUs; CPU and memory are asked for each GPU, and never the bottleneck."""
    return PodShape(gpu=whole_gpus(count), cpu_milli=cpu_milli * count, memory_bytes=count << 34)


@cache
def portion(milli: int) -> PodShape:
    """A pod with a part of one GPU."""
    return PodShape(gpu=gpu_portion(milli), cpu_milli=4 * milli, memory_bytes=milli << 24)


def gpu_milli(shape: PodShape) -> int:
    """Thousandths of a GPU that a pod of the benchmark asks for."""
    return shape.gpu.devices * shape.gpu.portion_milli


# ---- mixes


@dataclass(frozen=True, slots=True)
class Ask:
    """What one job asks for: so many equal pods, all or none of them."""

    shape: PodShape
    pods: int = 1

    @property
    def milli(self) -> int:
        return self.pods * gpu_milli(self.shape)


def mixed(dice: random.Random) -> Iterator[Ask]:
    """40 % one GPU, 25 % a fraction in tenths, 15 % two to eight GPUs, 20 % gangs of 2 to 32 pods x 8 GPUs."""
    while True:
        kind = dice.random()
        if kind < 0.40:
            yield Ask(gpus(1))
        elif kind < 0.65:
            yield Ask(portion(100 * dice.randint(1, 9)))
        elif kind < 0.80:
            yield Ask(gpus(dice.randint(2, 8)))
        else:
            yield Ask(gpus(GPUS_PER_NODE), dice.randint(2, 32))


def up_to(asks: Iterable[Ask], milli: int) -> list[Ask]:
    """Jobs of a mix until they ask for so many GPUs together.

    The gang that would go beyond is cut to what is left, a smaller job that would gives way to the next one: so the
    shares of the mix hold but for the last few jobs. Less than a tenth of a GPU may stay unasked.
    """
    chosen: list[Ask] = []
    left = milli
    for ask in asks:
        if left < 100:
            break
        fitting = Ask(ask.shape, min(ask.pods, left // gpu_milli(ask.shape)))
        if fitting.pods >= min(ask.pods, 2):
            chosen.append(fitting)
            left -= fitting.milli
    return chosen


# ---- the rows


def nodes(count: int, labels: Sequence[Mapping[str, str]] = ()) -> tuple[Node, ...]:
    """So many equal nodes of eight GPUs."""
    return tuple(
        Node(
            name=NodeName(f"node-{number:05d}"),
            cpu_milli=NODE_CPU_MILLI,
            memory_bytes=NODE_MEMORY_BYTES,
            gpus=GPUS_PER_NODE,
            gpu_memory_mib=DEVICE_MIB,
            labels=labels[number] if labels else {},
        )
        for number in range(count)
    )


def organization(quotas: Mapping[QueueId, int]) -> tuple[Queue, ...]:
    """Queues with their GPU quotas (whole GPUs) and the departments above them, each owed the sum of its queues."""
    departments: dict[str, int] = {}
    for name, quota in quotas.items():
        department = name.partition("-")[0]
        departments[department] = departments.get(department, 0) + quota
    above = [Queue(id=QueueId(name), gpu=_owed(quota)) for name, quota in departments.items()]
    below = [Queue(id=name, parent=QueueId(name.partition("-")[0]), gpu=_owed(quota)) for name, quota in quotas.items()]
    return (*above, *below)


def queue_tree(parents: Mapping[QueueId, QueueId | None], quotas: Mapping[QueueId, int]) -> tuple[Queue, ...]:
    """Queues of any depth with their GPU quotas."""
    return tuple(Queue(id=name, parent=parent, gpu=_owed(quotas[name])) for name, parent in sorted(parents.items()))


def _owed(quota: int) -> Entitlement:
    return Entitlement(quota=quota * WHOLE_GPU_MILLI, weight=1.0)


def quarters(count: int) -> dict[QueueId, int]:
    """A quarter of the GPUs of so many nodes for every queue."""
    return dict.fromkeys(QUEUES, count * GPUS_PER_NODE // len(QUEUES))


Place = tuple[NodeName, tuple[int, ...]]


class World:
    """A cluster in the making: jobs are added one by one, each a second younger than the last."""

    def __init__(self, rows: Sequence[Node], queues: Sequence[Queue]) -> None:
        self.nodes = tuple(rows)
        self.queues = tuple(queues)
        self.groups: list[PodGroup] = []
        self.pods: list[Pod] = []

    def add(
        self,
        queue: QueueId,
        ask: Ask,
        places: Sequence[Place] = (),
        *,
        priority: int | None = None,
        constraint: TopologyConstraint | None = None,
    ) -> None:
        """Add a job: running where `places` says, waiting without."""
        number = len(self.groups)
        group = job(number, queue, ask, Instant(START + 1000 * number), priority=priority, constraint=constraint)
        self.groups.append(group)
        self.pods += pods_of(group, ask, places)

    def snapshot(self, policy: Policy | None = None, topologies: tuple[Topology, ...] = ()) -> Snapshot:
        """The cluster as the scheduler sees it, an hour after the last job came."""
        return Snapshot(
            now=Instant(START + 1000 * len(self.groups) + 3_600_000),
            nodes=self.nodes,
            queues=self.queues,
            groups=tuple(self.groups),
            pods=tuple(self.pods),
            topologies=topologies,
            policy=policy or Policy.product(),
        )


def job(
    number: int,
    queue: QueueId,
    ask: Ask,
    created_at: Instant,
    *,
    priority: int | None = None,
    constraint: TopologyConstraint | None = None,
) -> PodGroup:
    """The pod group of a job: all of its pods or none."""
    return PodGroup(
        id=GroupId(f"job-{number:06d}"),
        queue=queue,
        created_at=created_at,
        priority=priority,
        tree=_tree(ask.pods, constraint),
    )


@cache
def _tree(pods: int, constraint: TopologyConstraint | None) -> SubGroup:
    return SubGroup(constraint=constraint, pod_sets=(PodSet(minimum=pods),))


def pods_of(group: PodGroup, ask: Ask, places: Sequence[Place] = ()) -> list[Pod]:
    """The pods of a job, running on their places or waiting."""
    rows = []
    for number in range(ask.pods):
        node, devices = places[number] if places else (None, ())
        rows.append(
            Pod(
                id=PodId(f"{group.id}-{number:04d}"),
                group=group.id,
                shape=ask.shape,
                phase=PodPhase.RUNNING if places else PodPhase.WAITING,
                node=node,
                devices=devices,
                created_at=group.created_at,
            )
        )
    return rows


# ---- a first placement, so that a full cluster needs no scheduler


def packed(rows: Sequence[Node], asks: Sequence[Ask]) -> list[list[Place]]:
    """Places for all pods of all jobs, largest first onto the first node with room; fails if they do not fit."""
    free = [[WHOLE_GPU_MILLI] * node.gpus for node in rows]
    first: dict[PodShape, int] = {}
    places: list[list[Place]] = [[] for _ in asks]
    for number in sorted(range(len(asks)), key=lambda each: (-gpu_milli(asks[each].shape), each)):
        shape = asks[number].shape
        for _ in range(asks[number].pods):
            # Space only shrinks, so nodes that were too full for a shape stay so.
            node = first.get(shape, 0)
            while not (devices := _seats(free[node], shape)):
                node += 1
            first[shape] = node
            for device in devices:
                free[node][device] -= shape.gpu.portion_milli
            places[number].append((rows[node].name, devices))
    return places


def _seats(free: Sequence[int], shape: PodShape) -> tuple[int, ...]:
    """Devices of one node for a pod, fullest first for a portion; none if there are too few."""
    fitting = [device for device, milli in enumerate(free) if milli >= shape.gpu.portion_milli]
    fitting.sort(key=lambda device: (free[device], device))
    return tuple(fitting[: shape.gpu.devices]) if len(fitting) >= shape.gpu.devices else ()
