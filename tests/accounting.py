"""Accounting for tests: what queues hold, what is fair, what is on which device, computed the slow and plain way.

Scenarios and properties judge plans by it, so it shares no code with the scheduler. The fair shares are those of
the product: remainders stay in their tier of queue priority.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from fairpool.model.ids import GroupId, NodeName, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Queue
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, Amounts
from fairpool.model.workload import GpuKind, Pod, PodGroup, PodShape
from fairpool.scheduler.snapshot import Snapshot

COUNTED = frozenset({PodPhase.BOUND, PodPhase.RUNNING})
"""Phases that count as held by a queue: what is told to stop no longer does."""


class Accounting:
    """Sums over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes: dict[NodeName, Node] = {node.name: node for node in snapshot.nodes}
        self.groups: dict[GroupId, PodGroup] = {group.id: group for group in snapshot.groups}
        self.queues: dict[QueueId, Queue] = {queue.id: queue for queue in snapshot.queues}
        known = [node for node in snapshot.nodes if node.gpus and node.gpu_memory_mib]
        working = [node for node in known if node.is_healthy] or known
        self.smallest_device_mib = min((node.gpu_memory_mib for node in working), default=0)

    # Who is who

    def path(self, queue: QueueId) -> list[QueueId]:
        """From the root to the queue."""
        path = [queue]
        while (parent := self.queues[path[0]].parent) is not None:
            path.insert(0, parent)
        return path

    def children(self, queue: QueueId | None) -> list[Queue]:
        return sorted((each for each in self.queues.values() if each.parent == queue), key=lambda each: each.id)

    def is_preemptible(self, group: GroupId) -> bool:
        row = self.groups[group]
        return self.snapshot.policy.rule_for(row.kind, row.priority, row.preemptible).preemptible

    def priority(self, group: GroupId) -> int:
        row = self.groups[group]
        return self.snapshot.policy.rule_for(row.kind, row.priority, row.preemptible).priority

    def diverging_ancestors(self, one: QueueId, other: QueueId) -> tuple[QueueId, QueueId]:
        """The two ancestors at the level where the paths of two queues part."""
        pairs = zip(self.path(one), self.path(other), strict=False)
        return next(pair for pair in pairs if pair[0] != pair[1])

    # Amounts

    def charge(self, pod: Pod) -> Amounts:
        """What a pod counts for, on its node or, before it has one, on the smallest device there is."""
        node = self.nodes.get(pod.node) if pod.node is not None else None
        device_mib = node.gpu_memory_mib if node is not None else self.smallest_device_mib
        claims = [claim for claim in self.snapshot.claims if claim.id in pod.claims and claim.counts_as_gpu]
        milli = gpu_milli(pod.shape, device_mib) + WHOLE_GPU_MILLI * sum(claim.devices for claim in claims)
        return Amounts(milli, pod.shape.cpu_milli, pod.shape.memory_bytes)

    def held(self, queue: QueueId, *, non_preemptible_only: bool = False) -> Amounts:
        """What a queue and those below it hold; with `non_preemptible_only`, the part that may not be preempted."""
        return total(
            self.charge(pod) for pod in self.pods_of(queue, COUNTED, non_preemptible_only=non_preemptible_only)
        )

    def pods_of(self, queue: QueueId, phases: Collection[PodPhase], *, non_preemptible_only: bool = False) -> list[Pod]:
        return [
            pod
            for pod in self.snapshot.pods
            if pod.phase in phases
            and pod.group in self.groups
            and self.groups[pod.group].queue in self.queues
            and queue in self.path(self.groups[pod.group].queue)
            and not (non_preemptible_only and self.is_preemptible(pod.group))
        ]

    # Fair shares of GPUs

    def fair_shares_milli(self) -> dict[QueueId, Fraction]:
        """Fair share of GPUs of every queue, in thousandths."""
        capacity = sum(
            (node.gpus - len(node.gpus_withheld) + len(node.claim_devices)) * WHOLE_GPU_MILLI
            + _mig_milli(node.mig_instances.items())
            for node in self.nodes.values()
            if node.is_healthy and node.role.takes_gpu_pods
        )
        shares: dict[QueueId, Fraction] = {}
        self._share(None, Fraction(capacity), shares)
        return shares

    def _share(self, parent: QueueId | None, amount: Fraction, shares: dict[QueueId, Fraction]) -> None:
        siblings = self.children(parent)
        wanted = {queue.id: self._request_milli(queue) for queue in siblings}
        claimants = [Claimant(queue, wanted[queue.id], amount) for queue in siblings]
        divide(amount, claimants, self.snapshot.policy.usage_factor)
        for claimant in claimants:
            shares[claimant.queue.id] = claimant.fair
            self._share(claimant.queue.id, claimant.fair, shares)

    def _request_milli(self, queue: Queue) -> int:
        waiting = [pod for pod in self.pods_of(queue.id, {PodPhase.WAITING, PodPhase.PROMISED}) if not pod.gated]
        return self.held(queue.id).gpu_milli + sum(self.charge(replace(pod, node=None)).gpu_milli for pod in waiting)


class Claimant:
    """One of several siblings that divide GPUs."""

    def __init__(self, queue: Queue, request: int, amount: Fraction) -> None:
        self.queue = queue
        self.request = request
        self.most = request if queue.gpu.limit == UNLIMITED else min(request, queue.gpu.limit)
        owed = amount if queue.gpu.quota == UNLIMITED else Fraction(queue.gpu.quota)
        self.fair: Fraction = min(owed, Fraction(self.most))
        self.withheld = Fraction(0)

    @property
    def wants(self) -> Fraction:
        return Fraction(self.most) - self.fair


def divide(amount: Fraction, claimants: list[Claimant], usage_factor: float) -> Fraction:
    """What is owed, then what is left by weight: highest priority first, whole GPUs, remainders to the largest rest."""
    left = amount - sum(each.fair for each in claimants)
    for priority in sorted({each.queue.priority for each in claimants}, reverse=True):
        tier = [each for each in claimants if each.queue.priority == priority]
        while left > 0 and (lent := _one_round(left, tier, usage_factor)) is not None:
            left -= lent.given
            if not lent.again:
                break
        rests = [each for each in tier if each.withheld > 0]
        for claimant in sorted(rests, key=lambda each: (-each.withheld, each.queue.created_at, each.queue.id)):
            given = min(Fraction(WHOLE_GPU_MILLI), max(left, Fraction(0)))
            claimant.fair += given
            left -= given
    return left


@dataclass(frozen=True)
class Lent:
    given: Fraction
    again: bool


def _one_round(pool: Fraction, tier: list[Claimant], usage_factor: float) -> Lent | None:
    needy = [each for each in tier if each.wants > 0]
    weights = sum(exact(each.queue.gpu.weight) for each in needy)
    if not weights:
        return None
    k = exact(max(usage_factor, 0.0))
    parts = {
        each: max(Fraction(0), weight + k * (weight - exact(each.queue.gpu.usage)))
        for each in needy
        for weight in [exact(each.queue.gpu.weight) / weights]
    }
    whole = sum(parts.values())
    if not whole:
        return None
    given, again = Fraction(0), False
    for claimant in needy:
        if claimant.queue.gpu.weight == 0 or given == pool:
            continue
        slice_ = pool * parts[claimant] / whole
        if claimant.wants <= slice_:
            again = again or claimant.wants < slice_
            claimant.withheld = Fraction(0)
            give = claimant.wants
        else:
            give = Fraction(math.floor(slice_ / WHOLE_GPU_MILLI) * WHOLE_GPU_MILLI)
            claimant.withheld = slice_ - give or claimant.withheld
        claimant.fair += give
        given += give
    return Lent(given, again)


def exact(written: float) -> Fraction:
    """0.4 as it was written, not as the machine keeps it: ties must be ties."""
    return Fraction(str(written))


def total(amounts: Iterable[Amounts]) -> Amounts:
    return sum(amounts, start=Amounts())


def gpu_milli(shape: PodShape, device_mib: int) -> int:
    """One conversion for devices, portions, memory and MIG."""
    gpu = shape.gpu
    match gpu.kind:
        case GpuKind.NONE:
            return 0
        case GpuKind.MIG:
            return _mig_milli(gpu.mig)
        case GpuKind.MEMORY if device_mib:
            return gpu.devices * math.ceil(Fraction(gpu.memory_mib * WHOLE_GPU_MILLI, device_mib))
        case GpuKind.MEMORY:
            return gpu.devices * WHOLE_GPU_MILLI
        case _:
            return gpu.devices * gpu.portion_milli


def _mig_milli(instances: Iterable[tuple[str, int]]) -> int:
    slices = sum(int(profile.rpartition("mig-")[2].split("g")[0]) * count for profile, count in instances)
    return slices * WHOLE_GPU_MILLI // 7
