"""From what was measured on the nodes to samples of everything that people ask about.

Measured are devices, pods and nodes. Workloads, projects, departments, node pools and the cluster are added up from
them once, when the samples come, so that a chart of any of them is one read. Utilization of several GPUs is an average
over the GPUs that are held, each weighted with the part that is held. What was not measured is left out of averages;
where nothing was, there is no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fairpool.metrics import catalogue
from fairpool.metrics.block import Values
from fairpool.metrics.catalogue import (
    Column,
    DeviceColumn,
    NodeColumn,
    PlaceColumn,
    PodDeviceColumn,
    QueueColumn,
    WorkColumn,
)
from fairpool.model.ids import NodeName, PodId
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.sample import DeviceSample, NodeSample, PodSample, Sample
from fairpool.model.workload import WorkloadKind

UNKNOWN = math.nan
BANDS = (PlaceColumn.BAND_0_25, PlaceColumn.BAND_25_50, PlaceColumn.BAND_50_75, PlaceColumn.BAND_75_100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a pod holds, and whose it is."""

    pod: PodId
    workload: str
    project: str
    department: str
    kind: WorkloadKind
    node: NodeName
    devices: tuple[int, ...] = ()
    gpus_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node has."""

    name: NodeName
    pool: str
    is_ready: bool = True
    gpus: int = 0
    gpu_memory_mib: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """Quota and fair share of a project or department in one node pool."""

    pool: str
    project: str = ""
    """Empty: it is a department's."""
    department: str = ""
    gpu_quota_milli: int = 0
    """Negative: unlimited."""
    fair_share_milli: int = 0
    cpu_quota_milli: int = -1
    memory_quota_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A workload that waits."""

    project: str
    department: str
    pool: str
    gpus_milli: int
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the control plane knows of a cluster at the moment of a sample."""

    cluster: str
    holdings: Sequence[Holding] = ()
    nodes: Sequence[NodeFacts] = ()
    queues: Sequence[QueueFacts] = ()
    waiting: Sequence[Waiting] = ()


class GroupSample(NamedTuple):
    """Samples of the subjects of one group: a row for each."""

    group: str
    subjects: Sequence[str]
    values: Values


class _Row:
    """The values of one subject, added up."""

    __slots__ = ("sums", "weights")

    def __init__(self) -> None:
        self.sums: dict[Column, float] = {}
        self.weights: dict[Column, float] = {}
        """Of averages."""

    def add(self, column: Column, value: float | None) -> None:
        if value is not None:
            self.sums[column] = self.sums.get(column, 0.0) + value

    def average(self, column: Column, value: float | None, weight: float = 1.0) -> None:
        """Zero weight: it is part of nothing."""
        if value is not None and weight > 0:
            self.add(column, value * weight)
            self.weights[column] = self.weights.get(column, 0.0) + weight

    def values(self, columns: type[Column]) -> list[float]:
        return [
            self.sums[column] / self.weights.get(column, 1.0) if column in self.sums else UNKNOWN for column in columns
        ]


class _Rows(dict[str, _Row]):
    """Rows by subject, all with the same columns."""

    def __init__(self, columns: type[Column]) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, subject: str) -> _Row:
        row = self[subject] = _Row()
        return row


class _Groups(dict[str, list[_Rows]]):
    """Rows by group."""

    def rows(self, group: str, columns: type[Column]) -> _Rows:
        tables = self.setdefault(group, [])
        for each in tables:
            if each.columns is columns:
                return each
        tables.append(_Rows(columns))
        return tables[-1]

    def samples(self) -> list[GroupSample]:
        return [_group_sample(group, tables) for group, tables in self.items()]


def _group_sample(group: str, tables: Sequence[_Rows]) -> GroupSample:
    width = max(len(table.columns) for table in tables)
    subjects = [subject for table in tables for subject in table]
    values = np.full((len(subjects), width), np.nan, np.float32)
    at = 0
    for table in tables:
        for row in table.values():
            values[at, : len(table.columns)] = row.values(table.columns)
            at += 1
    return GroupSample(group, subjects, values)


def group_samples(sample: Sample, facts: ClusterFacts) -> list[GroupSample]:
    """Samples of everything, by the group they are kept in."""
    return _Totals(sample, facts).samples()


@dataclass(slots=True)
class _Totals:
    """Adds up one sample of a cluster."""

    sample: Sample
    facts: ClusterFacts
    groups: _Groups = field(default_factory=_Groups)

    def samples(self) -> list[GroupSample]:
        measured = {each.node: each for each in self.sample.nodes}
        pods = {pod.pod: pod for node in self.sample.nodes for pod in node.pods}
        held = _held_by_device(self.facts.holdings)
        pool_of = {each.name: each.pool for each in self.facts.nodes}
        for node in self.facts.nodes:
            self._node(node, measured.get(node.name), held)
        for holding in self.facts.holdings:
            self._work(holding, pods.get(holding.pod), pool_of.get(holding.node, ""))
        self._queues()
        self._waiting()
        return self.groups.samples()

    # --- nodes ---

    def _node(self, facts: NodeFacts, sample: NodeSample | None, held: Mapping[tuple[str, int], int]) -> None:
        group = catalogue.node_group(self.facts.cluster, facts.name)
        row = self.groups.rows(group, NodeColumn)[catalogue.NODE_ITSELF]
        row.add(NodeColumn.GPUS, facts.gpus)
        row.add(NodeColumn.IS_READY, float(facts.is_ready))
        for column in (NodeColumn.PODS, NodeColumn.GPUS_ALLOCATED):
            row.add(column, 0)
        if sample is not None:
            row.add(NodeColumn.CPU_CORES, sample.cpu_cores)
            row.add(NodeColumn.MEMORY_BYTES, sample.memory_bytes)
            row.add(NodeColumn.RECEIVED_BYTES_S, sample.received_bytes_s)
            row.add(NodeColumn.SENT_BYTES_S, sample.sent_bytes_s)
            row.add(NodeColumn.READ_BYTES_S, sample.read_bytes_s)
            row.add(NodeColumn.WRITTEN_BYTES_S, sample.written_bytes_s)
            devices = self.groups.rows(group, DeviceColumn)
            for each in sample.devices:
                _device(devices[catalogue.device(each.index)], each, held.get((facts.name, each.index), 0))
                row.average(NodeColumn.GPU_UTILIZATION, each.utilization)
                row.add(NodeColumn.GPU_MEMORY_BYTES, each.memory_bytes)
        for place in self._places(facts.pool):
            _add_node(place, facts, sample)

    def _places(self, pool: str) -> tuple[_Row, ...]:
        rows = self.groups.rows(catalogue.organization_group(self.facts.cluster), PlaceColumn)
        itself = rows[catalogue.CLUSTER_ITSELF]
        return (itself, rows[catalogue.pool(pool)]) if pool else (itself,)

    # --- pods, workloads, projects, departments ---

    def _work(self, holding: Holding, sample: PodSample | None, pool: str) -> None:
        group = catalogue.workload_group(self.facts.cluster, holding.workload)
        work = self.groups.rows(group, WorkColumn)
        utilization = None if sample is None else _pod_utilization(sample)
        for row in (work[holding.workload], work[catalogue.pod(holding.workload, holding.pod)]):
            _add_pod(row, holding, sample, utilization)
        for use in () if sample is None else sample.devices:
            subject = catalogue.pod_device(holding.workload, holding.pod, use.index)
            row = self.groups.rows(group, PodDeviceColumn)[subject]
            row.add(PodDeviceColumn.UTILIZATION, use.utilization)
            row.add(PodDeviceColumn.MEMORY_BYTES, use.memory_bytes)
        node = self.groups.rows(catalogue.node_group(self.facts.cluster, holding.node), NodeColumn)
        _add_held(node[catalogue.NODE_ITSELF], NodeColumn, holding)
        node[catalogue.NODE_ITSELF].add(NodeColumn.PODS, 1)
        gpus = holding.gpus_milli / WHOLE_GPU_MILLI
        for queue in self._queue_rows(holding.project, holding.department, pool):
            _add_held(queue, QueueColumn, holding)
            queue.average(QueueColumn.GPU_UTILIZATION, utilization, gpus)
            if holding.kind in _BY_KIND:
                queue.average(_BY_KIND[holding.kind][0], utilization, gpus)
        for place in self._places(pool):
            place.add(PlaceColumn.GPUS_ALLOCATED, gpus)
            if holding.kind in _BY_KIND:
                place.average(_BY_KIND[holding.kind][1], utilization, gpus)

    def _queue_rows(self, project: str, department: str, pool: str) -> Iterable[_Row]:
        rows = self.groups.rows(catalogue.organization_group(self.facts.cluster), QueueColumn)
        names = ((catalogue.project, project), (catalogue.department, department))
        return [rows[subject(name, within)] for subject, name in names if name for within in {"", pool}]

    def _queues(self) -> None:
        for each in self.facts.queues:
            for row in self._queue_rows(each.project, "" if each.project else each.department, each.pool):
                row.add(QueueColumn.GPU_QUOTA, _amount(each.gpu_quota_milli, WHOLE_GPU_MILLI))
                row.add(QueueColumn.GPU_FAIR_SHARE, each.fair_share_milli / WHOLE_GPU_MILLI)
                row.add(QueueColumn.CPU_CORES_QUOTA, _amount(each.cpu_quota_milli, 1000))
                row.add(QueueColumn.MEMORY_BYTES_QUOTA, _amount(each.memory_quota_bytes, 1))
                row.add(QueueColumn.GPUS_ALLOCATED, 0)
            if each.project:
                for place in self._places(each.pool):
                    place.add(PlaceColumn.GPU_QUOTA, _amount(each.gpu_quota_milli, WHOLE_GPU_MILLI))

    # --- counts ---

    def _waiting(self) -> None:
        organization = self.groups.rows(catalogue.organization_group(self.facts.cluster), QueueColumn)
        for row in organization.values():
            for column in (QueueColumn.RUNNING, QueueColumn.PENDING, QueueColumn.PENDING_GPUS):
                row.add(column, 0)
        for place in self.groups.rows(catalogue.organization_group(self.facts.cluster), PlaceColumn).values():
            for counted in (PlaceColumn.RUNNING, PlaceColumn.PENDING, PlaceColumn.PENDING_GPUS):
                place.add(counted, 0)
        pool_of = {each.name: each.pool for each in self.facts.nodes}
        running = {each.workload: each for each in self.facts.holdings}
        for holding in running.values():
            pool = pool_of.get(holding.node, "")
            for row in self._queue_rows(holding.project, holding.department, pool):
                row.add(QueueColumn.RUNNING, 1)
            for place in self._places(pool):
                place.add(PlaceColumn.RUNNING, 1)
        for each in self.facts.waiting:
            gpus = each.gpus_milli / WHOLE_GPU_MILLI
            for row in self._queue_rows(each.project, each.department, each.pool):
                row.add(QueueColumn.PENDING, 1)
                row.add(QueueColumn.PENDING_GPUS, gpus)
            for place in self._places(each.pool):
                place.add(PlaceColumn.PENDING, 1)
                place.add(PlaceColumn.PENDING_GPUS, gpus)
                place.average(PlaceColumn.WAIT_S, each.since_s)


_BY_KIND = {
    WorkloadKind.BUILD: (QueueColumn.GPU_UTILIZATION_BUILD, PlaceColumn.GPU_UTILIZATION_BUILD),
    WorkloadKind.TRAIN: (QueueColumn.GPU_UTILIZATION_TRAIN, PlaceColumn.GPU_UTILIZATION_TRAIN),
}


def _held_by_device(holdings: Iterable[Holding]) -> dict[tuple[str, int], int]:
    held: dict[tuple[str, int], int] = {}
    for each in holdings:
        for index in each.devices:
            part = each.gpus_milli // len(each.devices)
            held[each.node, index] = held.get((each.node, index), 0) + part
    return held


def _device(row: _Row, sample: DeviceSample, held_milli: int) -> None:
    row.add(DeviceColumn.UTILIZATION, sample.utilization)
    row.add(DeviceColumn.MEMORY_BYTES, sample.memory_bytes)
    row.add(DeviceColumn.POWER_WATTS, sample.power_watts)
    row.add(DeviceColumn.TEMPERATURE_CELSIUS, sample.temperature_celsius)
    row.add(DeviceColumn.CLOCK_MHZ, sample.clock_mhz)
    row.add(DeviceColumn.ERRORS, sample.errors)
    row.add(DeviceColumn.ALLOCATED, held_milli / WHOLE_GPU_MILLI)


def _add_node(place: _Row, facts: NodeFacts, sample: NodeSample | None) -> None:
    place.add(PlaceColumn.GPU_NODES, 1 if facts.gpus else 0)
    place.add(PlaceColumn.GPUS, facts.gpus)
    place.add(PlaceColumn.GPUS_ALLOCATED, 0)
    if sample is None:
        return
    if sample.cpu_cores is not None and facts.cpu_milli:
        place.average(PlaceColumn.CPU_UTILIZATION, 100_000 * sample.cpu_cores / facts.cpu_milli, facts.cpu_milli)
    if sample.memory_bytes is not None and facts.memory_bytes:
        share = 100 * sample.memory_bytes / facts.memory_bytes
        place.average(PlaceColumn.MEMORY_UTILIZATION, share, facts.memory_bytes)
    for each in sample.devices:
        place.average(PlaceColumn.GPU_UTILIZATION, each.utilization)
        if each.utilization is not None:
            place.add(BANDS[min(3, int(each.utilization // 25))], 1)
        if each.memory_bytes is not None and facts.gpu_memory_mib:
            share = 100 * each.memory_bytes / (facts.gpu_memory_mib << 20)
            place.average(PlaceColumn.GPU_MEMORY_UTILIZATION, share)


def _pod_utilization(sample: PodSample) -> float | None:
    known = [each.utilization for each in sample.devices if each.utilization is not None]
    return sum(known) / len(known) if known else None


def _add_pod(row: _Row, holding: Holding, sample: PodSample | None, utilization: float | None) -> None:
    row.add(WorkColumn.PODS, 1)
    row.add(WorkColumn.GPUS_ALLOCATED, holding.gpus_milli / WHOLE_GPU_MILLI)
    row.add(WorkColumn.CPU_CORES_ALLOCATED, holding.cpu_milli / 1000)
    row.add(WorkColumn.MEMORY_BYTES_ALLOCATED, holding.memory_bytes)
    if sample is None:
        return
    row.average(WorkColumn.GPU_UTILIZATION, utilization, holding.gpus_milli)
    known = [each.memory_bytes for each in sample.devices if each.memory_bytes is not None]
    row.add(WorkColumn.GPU_MEMORY_BYTES, sum(known) if known else None)
    row.add(WorkColumn.CPU_CORES, sample.cpu_cores)
    row.add(WorkColumn.MEMORY_BYTES, sample.memory_bytes)
    row.add(WorkColumn.RECEIVED_BYTES_S, sample.received_bytes_s)
    row.add(WorkColumn.SENT_BYTES_S, sample.sent_bytes_s)
    row.add(WorkColumn.READ_BYTES_S, sample.read_bytes_s)
    row.add(WorkColumn.WRITTEN_BYTES_S, sample.written_bytes_s)


def _add_held(row: _Row, columns: type[NodeColumn] | type[QueueColumn], holding: Holding) -> None:
    row.add(columns.GPUS_ALLOCATED, holding.gpus_milli / WHOLE_GPU_MILLI)
    row.add(columns.CPU_CORES_ALLOCATED, holding.cpu_milli / 1000)
    row.add(columns.MEMORY_BYTES_ALLOCATED, holding.memory_bytes)


def _amount(value: int, unit: int) -> float | None:
    """Unlimited has no value."""
    return value / unit if value >= 0 else None
