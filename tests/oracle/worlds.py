"""Small random worlds, one for every seed: snapshots to compare two schedulers on.

A profile says what there should be to do (something to allocate, to reclaim, to preempt, to consolidate, nothing at
all, anything, or gangs that wait beside many small victims), a feature what the pods are like. Rarer things (taints,
limits, promises, ...) occur with all of them. Everything that runs fits where it runs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fairpool.model.ids import SECOND_MS, ClaimId, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import MigStrategy, Node, NodePool, Placement, Taint, TaintEffect, Topology
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, portion_memory_mib
from fairpool.model.workload import (
    NO_GPU,
    Claim,
    GpuKind,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodAffinityTerm,
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
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.preferences import add_preferences, add_roles
from tests.oracle.unlike import NEEDED, Unlike, may_start_on, ways_to_differ

PROFILES = ("allocate", "reclaim", "preempt", "consolidate", "nothing", "mixed", "crowded")
FEATURES = ("plain", "fractions", "gangs", "elastic", "departments", "unlike")

NOW = Instant(1_800_000_000_000)
GIB = 2**30
TRAIN, INTERACTIVE, BUILD, INFERENCE = 50, 75, 100, 125
LICENCE = "example.com/licence"
ZONE, GENERATION = "zone", "generation"
GPU_TAINT = Taint("maintenance", "soon", TaintEffect.NO_SCHEDULE)
SOFT_TAINT = Taint("slow", "", TaintEffect.PREFER_NO_SCHEDULE)
SMALL_MIG, LARGE_MIG = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"

Choice = TypeVar("Choice")


def world(seed: int, profile: str, feature: str, policy: Policy, extras: frozenset[str] = frozenset()) -> Snapshot:
    """The world of a seed, with more extras than it happens to have, if wanted.

    With the same seed both policies see the same rows, promises aside.
    """
    name = f"{seed}/{profile}/{feature}"
    dice, variation = random.Random(name), random.Random(f"variations of {name}")
    made = _Maker(dice, variation, profile, feature, policy, extras).snapshot()
    later = random.Random(f"roles and preferences of {name}")
    for addition, (change, chance) in ADDITIONS.items():
        if later.random() < chance or addition in extras:
            made = change(made, later)
    return made


@dataclass
class _NodeUse:
    """What is left on a node while it is being filled."""

    node: Node
    cpu_milli: int
    memory_bytes: int
    licences: int
    pods: int
    idle: list[int]
    mig: dict[str, int]
    shared: dict[int, int] = field(default_factory=dict)
    """Device to GPU memory left on it."""


@dataclass
class _Job:
    """What a group asks for."""

    shape: PodShape
    sets: tuple[tuple[str, int, int], ...]
    """Name, pods, minimum."""


class _Maker:
    def __init__(
        self,
        rng: random.Random,
        variation: random.Random,
        profile: str,
        feature: str,
        policy: Policy,
        extras: frozenset[str],
    ) -> None:
        self.rng = rng
        self.variation = variation
        """Draws what was added later, so that worlds without it stay as they were."""
        self.feature = feature
        self.policy = policy
        self.profile = rng.choice(PROFILES[:4]) if profile == "mixed" else profile
        self.has = {name for name in EXTRAS if rng.random() < EXTRAS[name]}
        self.has |= {name for name in VARIATIONS if variation.random() < VARIATIONS[name]}
        ways = ways_to_differ(variation) if feature == "unlike" else frozenset()
        self.has |= {NEEDED[way] for way in ways if way in NEEDED} | extras
        self.nodes = self._nodes()
        self.unlike = Unlike(variation, self.nodes, ways)
        self.use = {node.name: self._use(node) for node in self.nodes}
        self.queues = self._queues()
        parents = {queue.parent for queue in self.queues}
        self.leaves = [queue for queue in self.queues if queue.id not in parents]
        self.owner = self.leaves[variation.randrange(len(self.leaves)) if profile == "crowded" else 0].id
        """In a crowded world, the queue of all gangs that wait."""
        self.victims = 1
        """The GPUs of most pods that run in a crowded world."""
        if self.profile == "crowded":
            self.victims = variation.choice([1, 1, 2])
            if rng.random() < 0.8:
                self._entitle(self.owner)
        self.groups: list[PodGroup] = []
        self.pods: list[Pod] = []
        self.claims: list[Claim] = []

    def snapshot(self) -> Snapshot:
        self._run_groups()
        for _ in range(self.rng.randint(1, {"consolidate": 3, "crowded": 2}.get(self.profile, 6))):
            self._add(self._group(self._job(pending=True), pending=True), None)
        self._add_leaving()
        if self.policy.durable_promises and "promises" in self.has:
            self._add_promises()
        placement = Placement.SPREAD if "spread" in self.has else Placement.BINPACK
        policy = replace(self.policy, stale_grace_s=30)
        return Snapshot(
            now=NOW,
            nodes=tuple(self.nodes),
            queues=tuple(self.queues),
            groups=tuple(self.groups),
            pods=tuple(self.pods),
            claims=tuple(self.claims),
            topologies=(Topology(name="site", levels=(ZONE, "rack")),),
            pool=NodePool(gpu_placement=placement, cpu_placement=placement),
            policy=policy,
        )

    def pick(self, *weighted: tuple[Choice, float]) -> Choice:
        values, weights = zip(*weighted, strict=True)
        chosen: Choice = self.rng.choices(values, weights)[0]
        return chosen

    def maybe(self, probability: float, *, extra: str | None = None) -> bool:
        """True with this probability; for an extra, only in worlds that have it."""
        thrown = self.rng.random() < probability
        return thrown and (extra is None or extra in self.has)

    def varies(self, probability: float, variation: str) -> bool:
        """The same for a variation."""
        return self.variation.random() < probability and variation in self.has

    # Nodes and queues

    def _nodes(self) -> list[Node]:
        rng = self.rng
        count = rng.choice([2, 3, 3, 4]) if self.profile == "consolidate" else rng.choice([1, 2, 2, 3, 3, 4, 5])
        usual, memory = rng.choice([1, 2, 2, 4, 4, 8]), rng.choice([100, 16_000, 81_900])
        if self.profile == "crowded":
            count, usual = count + 2, min(usual, 4)
        nodes = [
            Node(
                name=NodeName(f"n{index}"),
                cpu_milli=rng.choice([2000, 4000, 8000]) if self.maybe(0.7, extra="little cpu") else 10**6,
                memory_bytes=512 * GIB,
                pods_max=rng.choice([3, 5]) if self.maybe(0.5, extra="few pods") else 110,
                gpus=usual if self.maybe(0.8) else rng.choice([0, 1, 2, 3, 8]),
                gpu_memory_mib=memory,
                extended={LICENCE: 2} if self.maybe(0.7, extra="licences") else {},
                claim_devices=tuple(f"card-{card}" for card in range(2)) if self.maybe(0.6, extra="claims") else (),
                labels={
                    ZONE: rng.choice("ab"),
                    "rack": rng.choice("xyz"),
                    GENERATION: rng.choice("123"),
                    "host": f"n{index}",
                },
                taints=(GPU_TAINT,) if self.maybe(0.4, extra="taints") else (),
                cordoned=self.maybe(0.3, extra="cordoned"),
                ready=not self.maybe(0.2, extra="cordoned"),
            )
            for index in range(count)
        ]
        broken = [node.gpus > 0 and self.maybe(0.4, extra="withheld") for node in nodes]
        nodes = [replace(node, gpus_withheld=(0,) * bad) for node, bad in zip(nodes, broken, strict=True)]
        return [self._varied(node) for node in nodes]

    def _varied(self, node: Node) -> Node:
        if self.varies(0.4, "soft taints"):
            node = replace(node, taints=(*node.taints, SOFT_TAINT))
        if not self.varies(0.6, "mig") or node.claim_devices:
            return node
        if self.variation.random() < 0.2:
            return replace(node, mig_strategy=MigStrategy.SINGLE)
        return replace(
            node, gpus=0, gpus_withheld=(), mig_strategy=MigStrategy.MIXED, mig_instances={SMALL_MIG: 4, LARGE_MIG: 2}
        )

    def _use(self, node: Node) -> _NodeUse:
        idle = [] if node.claim_devices else [each for each in range(node.gpus) if each not in node.gpus_withheld]
        licences, mig = node.extended.get(LICENCE, 0), dict(node.mig_instances)
        if node.mig_strategy is MigStrategy.SINGLE:
            idle = []
        return _NodeUse(node, node.cpu_milli, node.memory_bytes, licences, node.pods_max, idle, mig)

    def _queues(self) -> list[Queue]:
        rng = self.rng
        gpus = sum(len(use.idle) for use in self.use.values())
        count = rng.choice([2, 2, 3, 3, 4])
        departments = rng.choice([2, 2, 3]) if self.feature == "departments" else rng.choice([0, 0, 1])
        quotas = [0] * count
        for _ in range(round(gpus * rng.choice([0.5, 0.8, 1, 1, 1.2]))):
            quotas[rng.randrange(count)] += WHOLE_GPU_MILLI
        if self.feature == "fractions":
            quotas = [quota + rng.choice([0, 0, 500]) for quota in quotas]
        parents = [QueueId(f"d{rng.randrange(departments)}") if departments else None for _ in range(count)]
        queues = [
            self._queue(
                QueueId(f"d{index}"),
                None,
                sum(quota for quota, parent in zip(quotas, parents, strict=True) if parent == f"d{index}"),
            )
            for index in range(departments)
            if f"d{index}" in parents
        ]
        queues += [self._queue(QueueId(f"q{i}"), parents[i], quotas[i]) for i in range(count)]
        if "deep queues" not in self.has:
            return queues
        moved = [queue.id for queue in queues if queue.parent is None and self.variation.random() < 0.7]
        root = self._queue(QueueId("o0"), None, sum(queue.gpu.quota for queue in queues if queue.id in moved))
        inside = [replace(queue, parent=root.id) if queue.id in moved else queue for queue in queues]
        return [root, *inside] if moved else queues

    def _queue(self, name: QueueId, parent: QueueId | None, quota: int) -> Queue:
        rng = self.rng
        limit = quota + rng.randint(0, 3) * WHOLE_GPU_MILLI if self.maybe(0.5, extra="limits") else UNLIMITED
        weight = self.pick((quota / WHOLE_GPU_MILLI, 3), (1.0, 3), (float(rng.randint(0, 3)), 2))
        usage = rng.choice([0.0, 0.25, 0.5]) if "usage" in self.has else 0.0
        cpu_limit = rng.randint(2, 8) * 1000 if self.maybe(0.5, extra="cpu limits") else UNLIMITED
        return Queue(
            id=name,
            parent=parent,
            priority=rng.choice([50, 100, 200]) if "queue priorities" in self.has else 100,
            created_at=Instant(rng.randint(0, 3)),
            gpu=Entitlement(quota, limit, weight, usage),
            cpu=Entitlement(limit=cpu_limit),
            preempt_min_runtime_s=rng.choice([None, 60, 600]) if "min runtime" in self.has else None,
            reclaim_min_runtime_s=rng.choice([None, 60, 600]) if "min runtime" in self.has else None,
        )

    def _entitle(self, leaf: QueueId) -> None:
        """Give a leaf queue, and those above it, quota for all GPUs."""
        gpus = sum(len(use.idle) for use in self.use.values()) * WHOLE_GPU_MILLI
        above: dict[QueueId, QueueId | None] = {queue.id: queue.parent for queue in self.queues}
        entitled: set[QueueId | None] = set()
        each: QueueId | None = leaf
        while each is not None:
            entitled.add(each)
            each = above[each]
        self.queues = [
            replace(queue, gpu=replace(queue.gpu, quota=gpus, limit=UNLIMITED)) if queue.id in entitled else queue
            for queue in self.queues
        ]

    # Groups

    def _job(self, *, pending: bool = False) -> _Job:
        """A shape and how many of it."""
        rng = self.rng
        gang_sizes = [2, 2, 3, 4]
        singles, gangs, elastics, trees = {
            "gangs": (3, 6, 1, 1),
            "elastic": (3, 1, 6, 1),
            "fractions": (8, 1, 1, 0),
            "unlike": (2, 6, 2, 3),
        }.get(self.feature, (7, 2, 1, 1))
        if self.profile == "crowded":
            singles, gangs, elastics, trees = (0, 5, 0, 1) if pending else (12, 1, elastics, 0)
            gang_sizes = [2, 3, 4, 5, 6]
        style = self.pick(("single", singles), ("gang", gangs), ("elastic", elastics), ("tree", trees))
        gpu = self._gpu(is_single=style == "single")
        if self.profile == "crowded" and self.maybe(0.8):
            gpu = whole_gpus(self.variation.choice([1, 1, 2]) if pending else self.victims)
        if style == "single":
            sets: tuple[tuple[str, int, int], ...] = (("default", 1, 1),)
        elif style == "gang":
            size = rng.choice(gang_sizes)
            sets = (("default", size, size),)
        elif style == "elastic":
            size = rng.choice([2, 3, 4])
            sets = (("default", size, rng.randint(1, size - 1)),)
        else:
            sizes = [rng.randint(1, 2) for _ in "ab"]
            sets = tuple((name, size, rng.randint(1, size)) for name, size in zip("ab", sizes, strict=True))
        return _Job(self._shape(gpu), sets)

    def _gpu(self, *, is_single: bool) -> GpuRequest:
        rng = self.rng
        shared = 6 if self.feature == "fractions" else 1
        kind = self.pick(("whole", 8), ("portion", shared), ("memory", shared / 2), ("none", 0.7))
        largest = max([node.gpus for node in self.nodes] + [1])
        memory = self.nodes[0].gpu_memory_mib
        match kind:
            case "whole":
                count = self.pick((1, 6), (2, 3), (3, 0.5), (4, 1.5), (8, 0.5))
                return whole_gpus(min(count, largest) if self.maybe(0.95) else count)
            case "portion":
                devices = 2 if is_single and self.maybe(0.1) else 1
                return gpu_portion(rng.choice([100, 250, 300, 500, 700, 750, 900]), devices)
            case "memory":
                return gpu_memory(memory * rng.choice([2, 5, 7, 8]) // 10)
        return NO_GPU

    def _shape(self, gpu: GpuRequest) -> PodShape:
        rng = self.rng
        if self.varies(0.5, "mig"):
            profiles = self.variation.choice([(SMALL_MIG,), (LARGE_MIG,), (SMALL_MIG, LARGE_MIG)])
            gpu = GpuRequest(mig=tuple((profile, self.variation.choice([1, 1, 2])) for profile in profiles))
        rules: tuple[tuple[NodeSelectorRequirement, ...], ...] = ()
        if self.maybe(0.3, extra="selectors"):
            rule = rng.choice(
                [
                    NodeSelectorRequirement(ZONE, NodeSelectorOperator.IN, ("a",)),
                    NodeSelectorRequirement(ZONE, NodeSelectorOperator.NOT_IN, ("a",)),
                    NodeSelectorRequirement("rack", NodeSelectorOperator.EXISTS),
                    NodeSelectorRequirement("attic", NodeSelectorOperator.DOES_NOT_EXIST),
                    NodeSelectorRequirement(GENERATION, NodeSelectorOperator.GT, ("1",)),
                    NodeSelectorRequirement(GENERATION, NodeSelectorOperator.LT, ("3",)),
                ]
            )
            rules = (
                ((rule,), (NodeSelectorRequirement("rack", NodeSelectorOperator.IN, ("z",)),))
                if self.maybe(0.3)
                else ((rule,),)
            )
        labels = (("app", rng.choice("uv")),) if "neighbours" in self.has else ()
        near = (PodAffinityTerm(ZONE, labels),) if self.maybe(0.2, extra="neighbours") else ()
        apart = (PodAffinityTerm("host", labels),) if not near and self.maybe(0.2, extra="neighbours") else ()
        return PodShape(
            gpu=gpu,
            cpu_milli=rng.choice([0, 1000, 1000, 1000, 2000]),
            memory_bytes=GIB,
            extended=((LICENCE, 1),) if self.maybe(0.4, extra="licences") else (),
            node_rules=rules,
            tolerations=(Toleration("slow"),)
            if self.varies(0.3, "soft taints")
            else (Toleration("maintenance"),)
            if self.maybe(0.5, extra="taints")
            else (),
            labels=labels,
            near=near,
            apart=apart,
        )

    def _group(self, job: _Job, *, pending: bool) -> tuple[PodGroup, list[Pod]]:
        rng = self.rng
        number = len(self.groups)
        name = GroupId(f"{'p' if pending else 'r'}{number:02}")
        preempting = self.profile in ("preempt", "crowded")
        low, high = (1, 3) if preempting and pending else (6, 1)
        priority = self.pick((TRAIN, low), (INTERACTIVE, 1), (BUILD, high), (INFERENCE, high / 3))
        constraint = None
        if self.maybe(0.3, extra="topology"):
            required = rng.choice([ZONE, None])
            constraint = TopologyConstraint(topology="site", required=required, preferred=rng.choice(["rack", ZONE]))
        created_at = Instant(NOW - rng.randint(1, 40) * 60 * SECOND_MS)
        group = PodGroup(
            id=name,
            queue=self.owner if pending and self.profile == "crowded" else rng.choice(self.leaves).id,
            created_at=created_at,
            priority=priority,
            preemptible=self.maybe(0.5) if self.maybe(0.05) else None,
            tree=SubGroup(
                constraint=constraint,
                pod_sets=tuple(PodSet(name=pod_set, minimum=least) for pod_set, _, least in job.sets),
            ),
            started_at=None if pending else Instant(NOW - rng.choice([30, 300, 3000]) * SECOND_MS),
            movable=not self.maybe(0.3, extra="not movable"),
            avoid=(rng.choice(self.nodes).name,) if self.maybe(0.4, extra="avoid") else (),
        )
        pods = [
            Pod(
                id=PodId(f"{name}-{pod_set}{index}" if len(job.sets) > 1 else f"{name}-{index}"),
                group=name,
                shape=job.shape,
                pod_set=pod_set,
                created_at=Instant(created_at + index),
                leader=index == size - 1 and self.maybe(0.5, extra="leaders"),
                order=rng.choice([None, 1, 2]) if "leaders" in self.has else None,
            )
            for pod_set, size, _ in job.sets
            for index in range(size)
        ]
        if self.varies(0.5, "kinds"):
            kind, preemptible = self.variation.choice(list(WorkloadKind)), self.variation.choice([None, None, True])
            group = replace(group, kind=kind, priority=None, preemptible=preemptible)
        if len(pods) > 1 and self.varies(0.7, "unlike pods"):
            largest = max([node.gpus for node in self.nodes] + [1])
            gpu = self.variation.choice([NO_GPU, whole_gpus(min(2, largest)), gpu_portion(300)])
            unlike = replace(job.shape, gpu=gpu)
            pods = [replace(pod, shape=unlike) if self.variation.random() < 0.4 else pod for pod in pods]
        return self.unlike.group(group), self.unlike.pods(pods)

    def _add(self, made: tuple[PodGroup, list[Pod]], running: Sequence[Pod] | None) -> None:
        group, pods = made
        if self.maybe(0.5, extra="claims") and len(pods) == 1 and pods[0].shape.gpu.kind is GpuKind.NONE:
            claim = Claim(
                id=ClaimId(f"claim-{group.id}"),
                devices=self.rng.choice([1, 1, 2]),
                queue=self.variation.choice([group.queue, group.queue, group.queue, self.leaves[0].id]),
                from_template=self.variation.random() < 0.2,
                counts_as_gpu=self.variation.random() < 0.8,
            )
            if running is None:
                self.claims.append(claim)
                pods = [replace(pods[0], claims=(claim.id,))]
        elif running is None:
            pods, claims = self.unlike.claims(group, pods)
            self.claims += claims
        self.groups.append(group)
        self.pods += running if running is not None else pods

    # What runs

    def _run_groups(self) -> None:
        rng = self.rng
        gpus = sum(len(use.idle) for use in self.use.values())
        part = {"allocate": 0.5, "consolidate": 0.7}.get(self.profile, 1.0)
        keep_idle = gpus * (1 - rng.uniform(part / 2, part) if part < 1 else 0)
        starved = rng.choice(self.leaves).id if self.profile == "reclaim" else None
        if self.profile == "crowded" and rng.random() < 0.5:
            starved = self.owner
        for _ in range(40 if self.profile == "crowded" else 12):
            if sum(len(use.idle) for use in self.use.values()) <= keep_idle:
                break
            job = self._job()
            if self.profile == "consolidate" and job.shape.gpu.kind is GpuKind.WHOLE:
                job.shape = replace(job.shape, gpu=whole_gpus(1))
            group, pods = self._group(job, pending=False)
            if group.queue == starved and self.maybe(0.8):
                continue
            self._start(group, pods, job)

    def _start(self, group: PodGroup, pods: list[Pod], job: _Job) -> None:
        """Place a group, an elastic one with any number of pods from its minimum up."""
        least = {name: minimum for name, _, minimum in job.sets}
        want = {name: self.rng.randint(minimum, size) for name, size, minimum in job.sets}
        seated: list[Pod] = []
        for pod in pods:
            mine = sum(1 for each in seated if each.pod_set == pod.pod_set and each.node is not None)
            place = self._seat(pod.shape) if mine < want[pod.pod_set] else None
            if place is None:
                seated.append(pod)
            else:
                seated.append(replace(pod, phase=PodPhase.RUNNING, node=place[0], devices=place[1]))
        running = {name: sum(1 for pod in seated if pod.pod_set == name and pod.node is not None) for name in least}
        if all(running[name] >= least[name] for name in least) or self.maybe(0.7, extra="stale"):
            stale_since = Instant(NOW - self.rng.choice([10, 100]) * SECOND_MS)
            is_stale = any(running[name] < least[name] for name in least)
            self._add((replace(group, stale_since=stale_since if is_stale else None), pods), seated)
        else:
            for pod in seated:
                self._unseat(pod)

    def _seat(self, shape: PodShape) -> tuple[NodeName, tuple[int, ...]] | None:
        uses = list(self.use.values())
        if self.profile == "consolidate":
            uses.sort(key=lambda use: -len(use.idle))
        else:
            self.rng.shuffle(uses)
        for use in uses:
            devices = self._devices(shape, use) if may_start_on(shape, use.node) else None
            licences = dict(shape.extended).get(LICENCE, 0)
            room = use.cpu_milli >= shape.cpu_milli and use.licences >= licences and use.pods > 0
            if devices is not None and room:
                use.cpu_milli -= shape.cpu_milli
                use.licences -= licences
                use.pods -= 1
                self._hold(shape, use, devices, 1)
                return use.node.name, devices
        return None

    def _devices(self, shape: PodShape, use: _NodeUse) -> tuple[int, ...] | None:
        gpu = shape.gpu
        if gpu.kind is GpuKind.MIG:
            return () if all(use.mig.get(profile, 0) >= count for profile, count in gpu.mig) else None
        if gpu.kind in (GpuKind.NONE, GpuKind.WHOLE):
            return tuple(use.idle[: gpu.devices]) if len(use.idle) >= gpu.devices else None
        need = self._need(shape, use)
        room = [device for device, left in sorted(use.shared.items()) if left >= need]
        self.rng.shuffle(room)
        choices = (room + use.idle)[: gpu.devices] if self.maybe(0.7) else (use.idle + room)[: gpu.devices]
        return tuple(choices) if len(choices) == gpu.devices else None

    def _need(self, shape: PodShape, use: _NodeUse) -> int:
        gpu = shape.gpu
        return gpu.memory_mib or portion_memory_mib(gpu.portion_milli, use.node.gpu_memory_mib)

    def _hold(self, shape: PodShape, use: _NodeUse, devices: Sequence[int], sign: int) -> None:
        for profile, count in shape.gpu.mig:
            use.mig[profile] -= sign * count
        for device in devices:
            if shape.gpu.kind is GpuKind.WHOLE:
                use.idle = [each for each in use.idle if each != device] + [device] * (sign < 0)
                continue
            whole = use.node.gpu_memory_mib
            left = use.shared.pop(device, whole) - sign * self._need(shape, use)
            use.idle = [each for each in use.idle if each != device]
            if left == whole:
                use.idle.append(device)
            else:
                use.shared[device] = left

    def _unseat(self, pod: Pod) -> None:
        if pod.node is not None:
            use = self.use[pod.node]
            use.cpu_milli += pod.shape.cpu_milli
            use.licences += dict(pod.shape.extended).get(LICENCE, 0)
            use.pods += 1
            self._hold(pod.shape, use, pod.devices, -1)

    # Pods that leave, and promises

    def _add_leaving(self) -> None:
        for group in self.groups:
            if self.maybe(0.3, extra="leaving"):
                self.pods = [
                    replace(pod, phase=PodPhase.RELEASING)
                    if pod.group == group.id and pod.phase is PodPhase.RUNNING
                    else pod
                    for pod in self.pods
                ]

    def _add_promises(self) -> None:
        """Promises of an earlier cycle: some still good, some on nodes that have filled up or gone."""
        for group in self.groups:
            waiting = [pod for pod in self.pods if pod.group == group.id and pod.phase is PodPhase.WAITING]
            if len(waiting) < sum(1 for pod in self.pods if pod.group == group.id) or not self.maybe(0.5):
                continue
            age_s = self.rng.choice([1, 60, 300, 5000])
            promised = {
                pod.id: replace(
                    pod,
                    phase=PodPhase.PROMISED,
                    node=self.rng.choice(self.nodes).name if self.maybe(0.95) else NodeName("gone"),
                    devices=tuple(range(pod.shape.gpu.devices)),
                    promised_at=Instant(NOW - age_s * SECOND_MS),
                )
                for pod in waiting
            }
            self.pods = [promised.get(pod.id, pod) for pod in self.pods]


EXTRAS = {
    "avoid": 0.05,
    "claims": 0.04,
    "cordoned": 0.06,
    "cpu limits": 0.06,
    "few pods": 0.04,
    "leaders": 0.1,
    "leaving": 0.15,
    "licences": 0.06,
    "limits": 0.2,
    "little cpu": 0.06,
    "min runtime": 0.1,
    "neighbours": 0.06,
    "not movable": 0.1,
    "promises": 0.25,
    "queue priorities": 0.15,
    "selectors": 0.1,
    "spread": 0.06,
    "stale": 0.1,
    "taints": 0.1,
    "topology": 0.08,
    "usage": 0.06,
    "withheld": 0.06,
}
"""Rarer things and how often a world has them."""

ADDITIONS = {"roles": (add_roles, 0.06), "preferences": (add_preferences, 0.08)}
"""Changes of a finished world, and how often one has them: what ran before does not fit them."""

VARIATIONS = {"deep queues": 0.1, "kinds": 0.15, "mig": 0.08, "soft taints": 0.06, "unlike pods": 0.15}
