"""What must hold for every plan a benchmark measures, worked out from rows alone: a fast wrong answer is no result.

No device is used twice, no node beyond its CPU and memory, gangs are whole, limits are kept, what may not be preempted
stays within quota, every job left waiting has a verdict. What a single case expects besides is said in `_cases`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bench._worlds import gpu_milli
from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, Pod, PodShape
from fairpool.scheduler.decision import Bind, Plan, Promise
from fairpool.scheduler.snapshot import Snapshot

MOST_FAULTS = 10
"""More of them say nothing new."""


@dataclass(slots=True)
class Load:
    """What is in use on one node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    devices: Counter[int] = field(default_factory=Counter)

    def add(self, shape: PodShape, devices: Iterable[int]) -> None:
        self.cpu_milli += shape.cpu_milli
        self.memory_bytes += shape.memory_bytes
        self.pods += 1
        for device in devices:
            self.devices[device] += shape.gpu.portion_milli


class After:
    """The cluster after a plan, in totals."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.plan = plan
        self.pods: dict[PodId, Pod] = {pod.id: pod for pod in snapshot.pods}
        self.queue_of: dict[GroupId, QueueId] = {group.id: group.queue for group in snapshot.groups}
        self.evicted = Counter(self.queue_of[each.group] for each in plan.evictions)
        self.given: tuple[Bind | Promise, ...] = (*plan.binds, *plan.promises)
        self.bound = Counter(self.queue_of[each.group] for each in plan.binds)
        self.promised = Counter(self.queue_of[each.group] for each in plan.promises)
        self.in_place = self._in_place()

    def _in_place(self) -> dict[PodId, Pod]:
        """Pods that hold, get or are promised a place in the end."""
        gone = {each.pod for each in self.plan.evictions}
        kept = {pod.id: pod for pod in self.snapshot.pods if pod.phase in (PodPhase.BOUND, PodPhase.RUNNING)}
        for pod in gone:
            kept.pop(pod, None)
        for given in self.given:
            kept[given.pod] = self.pods[given.pod]
        return kept

    @property
    def moves(self) -> int:
        """Evicted pods that are promised a place, another or their own again."""
        promised = {each.pod for each in self.plan.promises}
        return sum(each.pod in promised for each in self.plan.evictions)

    def held_milli(self) -> dict[QueueId, int]:
        """GPUs by leaf queue, in thousandths."""
        held: Counter[QueueId] = Counter()
        for pod in self.in_place.values():
            held[self.queue_of[pod.group]] += gpu_milli(pod.shape)
        return dict(held)

    def groups_in_place(self) -> Counter[GroupId]:
        """Pods in place, by group."""
        return Counter(pod.group for pod in self.in_place.values())

    def loads(self) -> dict[NodeName, Load]:
        """What is in use once all evicted pods have left and all promised pods have come."""
        loads: dict[NodeName, Load] = defaultdict(Load)
        given = {each.pod: each for each in self.given}
        for pod in self.in_place.values():
            seat: Bind | Promise | Pod = given.get(pod.id, pod)
            if seat.node is not None:
                loads[seat.node].add(pod.shape, seat.devices)
        return loads


def faults(after: After) -> list[str]:
    """What is wrong with a plan, whatever the case."""
    found = [
        *(f"problem reported: {problem}" for problem in after.plan.problems),
        *_wrong_decisions(after),
        *_overfull(after, after.loads(), "in the end"),
        *_overfull(after, _loads_now(after), "now"),
        *_broken_gangs(after),
        *_beyond_limits(after),
        *_silent(after),
    ]
    return found[:MOST_FAULTS]


def _wrong_decisions(after: After) -> Iterable[str]:
    plan, pods = after.plan, after.pods
    for name, decisions in (("binds", plan.binds), ("promises", plan.promises), ("evictions", plan.evictions)):
        if len({each.pod for each in decisions}) != len(decisions):
            yield f"a pod appears twice among {name}"
    evicted = {each.pod for each in plan.evictions}
    for bind in plan.binds:
        if pods[bind.pod].phase not in (PodPhase.WAITING, PodPhase.PROMISED):
            yield f"{bind.pod} is bound while {pods[bind.pod].phase}"
    for each in after.given:
        shape = pods[each.pod].shape
        if shape.gpu.kind is not GpuKind.NONE and len(set(each.devices)) != shape.gpu.devices:
            yield f"{each.pod} gets devices {each.devices}, asks for {shape.gpu.devices}"
    for eviction in plan.evictions:
        if pods[eviction.pod].phase not in HOLDS_DEVICES:
            yield f"{eviction.pod} is evicted while {pods[eviction.pod].phase}"
    if evicted & {bind.pod for bind in plan.binds}:
        yield "a pod is bound and evicted"


def _loads_now(after: After) -> dict[NodeName, Load]:
    """What is in use at once: all that runs, pods that must leave included, and what is bound."""
    loads: dict[NodeName, Load] = defaultdict(Load)
    for pod in after.snapshot.pods:
        if pod.phase in HOLDS_DEVICES and pod.node is not None:
            loads[pod.node].add(pod.shape, pod.devices)
    for bind in after.plan.binds:
        loads[bind.node].add(after.pods[bind.pod].shape, bind.devices)
    return loads


def _overfull(after: After, loads: Mapping[NodeName, Load], when: str) -> Iterable[str]:
    rows = {node.name: node for node in after.snapshot.nodes}
    for name, load in loads.items():
        node = rows.get(name)
        if node is None:
            yield f"{name} does not exist"
            continue
        if load.cpu_milli > node.cpu_milli or load.memory_bytes > node.memory_bytes or load.pods > node.pods_max:
            yield f"{name} has too much CPU, memory or pods {when}"
        for device, milli in load.devices.items():
            if milli > WHOLE_GPU_MILLI or not 0 <= device < node.gpus:
                yield f"device {device} of {name} is used {milli} thousandths {when}"


def _broken_gangs(after: After) -> Iterable[str]:
    count = after.groups_in_place()
    for group in after.snapshot.groups:
        least = sum(pod_set.minimum for pod_set in group.tree.all_pod_sets())
        if 0 < count[group.id] < least:
            yield f"{group.id} has {count[group.id]} pods in place and needs {least}"


def _beyond_limits(after: After) -> Iterable[str]:
    """Limits are of all that is held, quotas of what may not be preempted; neither may be passed by adding."""
    policy, snapshot = after.snapshot.policy, after.snapshot
    non_preemptible = {
        group.id
        for group in snapshot.groups
        if not policy.rule_for(group.kind, group.priority, group.preemptible).preemptible
    }
    parents = {queue.id: queue.parent for queue in snapshot.queues}
    held: Counter[QueueId] = Counter()
    held_non_preemptible: Counter[QueueId] = Counter()
    for pod in after.in_place.values():
        queue: QueueId | None = after.queue_of[pod.group]
        while queue is not None:
            held[queue] += gpu_milli(pod.shape)
            held_non_preemptible[queue] += gpu_milli(pod.shape) * (pod.group in non_preemptible)
            queue = parents[queue]
    for row in snapshot.queues:
        if row.gpu.limit != UNLIMITED and held[row.id] > row.gpu.limit:
            yield f"{row.id} holds {held[row.id]} thousandths of a GPU, its limit is {row.gpu.limit}"
        if row.gpu.quota != UNLIMITED and held_non_preemptible[row.id] > row.gpu.quota:
            held_now = held_non_preemptible[row.id]
            yield f"{row.id} holds {held_now} that may not be preempted, its quota is {row.gpu.quota}"


def _silent(after: After) -> Iterable[str]:
    """Groups with a pod left waiting and no verdict."""
    waiting = {
        pod.group
        for pod in after.snapshot.pods
        if pod.phase in (PodPhase.WAITING, PodPhase.PROMISED) and pod.id not in after.in_place
    }
    for group in sorted(waiting - after.plan.verdicts.keys()):
        yield f"{group} waits without a verdict"


def idle_but_wanted(after: After) -> list[str]:
    """Jobs left waiting although free devices would hold them, in a plan without evictions."""
    rows = {node.name: [WHOLE_GPU_MILLI] * node.gpus for node in after.snapshot.nodes}
    for name, load in after.loads().items():
        for device, milli in load.devices.items():
            rows[name][device] -= milli
    count = after.groups_in_place()
    waiting: dict[GroupId, list[Pod]] = defaultdict(list)
    for pod in after.snapshot.pods:
        if not count[pod.group]:
            waiting[pod.group].append(pod)
    return [
        f"{group} waits, though its {len(pods)} pods of {gpu_milli(pods[0].shape)} thousandths of a GPU would fit"
        for group, pods in sorted(waiting.items())
        if _room(rows.values(), pods[0].shape) >= len(pods)
    ][:MOST_FAULTS]


def _room(rows: Iterable[list[int]], shape: PodShape) -> int:
    """How many pods of a shape free devices would hold."""
    gpu = shape.gpu
    if gpu.kind is GpuKind.PORTION:
        return sum(milli // gpu.portion_milli for free in rows for milli in free) // gpu.devices
    return sum(free.count(WHOLE_GPU_MILLI) // gpu.devices for free in rows)
