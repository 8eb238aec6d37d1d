"""Whether a workload could run in an empty cluster: simple arithmetic, so that the scheduler is not its own judge.

It errs on the side of no: first fit may miss a packing that exists, and then nothing is asked of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.cluster.pod_slots import counted_pods
from fairpool.model.ids import PoolName, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Node, nodes_by_pool
from fairpool.model.organization import Queue
from fairpool.model.pod_record import Outcome
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, memory_portion_milli
from fairpool.model.spec import Arrangement, WorkloadSpec
from fairpool.model.workload import GpuKind, PodShape
from fairpool.scheduler.policy import Policy
from tests.fault_injection.faultable_engine import FaultableEngine


class FreeCapacity:
    """What is free on one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.devices = [WHOLE_GPU_MILLI] * node.gpus
        self.cpu_milli, self.memory_bytes = node.cpu_milli, node.memory_bytes

    def take(self, shape: PodShape) -> bool:
        """PoolView a pod here, if it fits."""
        if any(not any(each.covers(taint) for each in shape.tolerations) for taint in self.node.taints):
            return False
        if shape.cpu_milli > self.cpu_milli or shape.memory_bytes > self.memory_bytes:
            return False
        part = part_of_device(shape, self.node)
        free = sorted((each, number) for number, each in enumerate(self.devices) if each >= part)
        if part > WHOLE_GPU_MILLI or len(free) < shape.gpu.devices:
            return False
        for _, number in free[: shape.gpu.devices]:
            self.devices[number] -= part
        self.cpu_milli -= shape.cpu_milli
        self.memory_bytes -= shape.memory_bytes
        return True


def part_of_device(shape: PodShape, node: Node) -> int:
    """Of each device it asks for, in thousandths."""
    if shape.gpu.kind is GpuKind.MEMORY:
        return memory_portion_milli(shape.gpu.memory_mib, node.gpu_memory_mib)
    return shape.gpu.portion_milli


def could_run(cache: LedgerCache, workload: WorkloadId, engine: FaultableEngine) -> bool:
    """Whether the pods it needs fit into the empty nodes, and its project may have so much."""
    spec = cache.specs[workload]
    done = {index for index, pod in counted_pods(spec, cache.pods[workload]).items() if pod.outcome is Outcome.OK}
    needed = max(spec.needed - len(done), 1)
    first = [0] if spec.leader is not None and 0 not in done else []
    most = spec.runs_needed if spec.arrangement is Arrangement.SWEEP else spec.pods
    indices = first + [index for index in range(most) if index not in done and index not in first]
    shapes = [spec.template_of(index).shape for index in indices[:needed]]
    return any(_fits_in(cache, pool, spec, shapes, engine) for pool in spec.pools or (DEFAULT_POOL,))


def _fits_in(
    cache: LedgerCache, pool: PoolName, spec: WorkloadSpec, shapes: list[PodShape], engine: FaultableEngine
) -> bool:
    organization = cache.organization
    nodes = [engine.host(name).node for name in engine.nodes]
    overrides = organization.node_overrides
    nodes = [overrides[node.name].applied_to(node) if node.name in overrides else node for node in nodes]
    members = nodes_by_pool(nodes, organization.pools).get(pool, ())
    capacities = [FreeCapacity(node) for node in members if node.is_healthy]
    if not all(any(capacity.take(shape) for capacity in capacities) for shape in shapes):
        return False
    milli = max((part_of_device(shape, nodes[0]) * shape.gpu.devices for shape in shapes), default=0) * len(shapes)
    non_preemptible = not Policy.product().rule_for(spec.kind, spec.priority, spec.preemptible).preemptible
    path = _path(organization.queues_of(pool), spec.project)
    return bool(path) and all(_allows(queue, milli, non_preemptible) for queue in path)


def _path(row: Iterable[Queue], name: QueueId) -> list[Queue]:
    queues = {queue.id: queue for queue in row}
    path = []
    current = queues.get(name)
    while current is not None:
        path.append(current)
        current = queues.get(current.parent) if current.parent is not None else None
    return path


def _allows(queue: Queue, milli: int, non_preemptible: bool) -> bool:
    bounds = [queue.gpu.limit, queue.gpu.quota if non_preemptible else UNLIMITED]
    return all(bound in (UNLIMITED,) or milli <= bound for bound in bounds)
