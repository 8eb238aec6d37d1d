"""From what was measured on the nodes to samples of everything that people ask about.

Measured are devices, pods and nodes. Workloads, projects, departments, node pools and the cluster are added up from
them once, when the samples come, so that a chart of any of them is one read. The utilization of a node, node pool or
cluster is the average over its GPUs; that of a workload, project or department is the average over the GPUs that it
holds, each weighted with the part that is held. What was not measured is left out of averages; where nothing was, and
where a quota is unlimited, there is no value.
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
    DeviceColumn,
    NodeColumn,
    PlaceColumn,
    PodDeviceColumn,
    QueueColumn,
    SampleColumn,
    WorkColumn,
)
from fairpool.model.ids import Instant, NodeName, PodId, QueueId
from fairpool.model.lending import QueueHolding, lending
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.sample import DeviceSample, NodeSample, PodSample, Sample
from fairpool.model.workload import WorkloadKind

UNKNOWN = math.nan
BANDS = (PlaceColumn.BAND_0_25, PlaceColumn.BAND_25_50, PlaceColumn.BAND_50_75, PlaceColumn.BAND_75_100)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHolding:
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
    is_running: bool = True
    """Not starting or stopping."""
    since: Instant = Instant(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a node has."""

    name: NodeName
    pool: str
    is_ready: bool = True
    gpus: int = 0
    gpus_withheld: int = 0
    """Of these: faulty, or used by other processes."""
    gpu_memory_mib: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0

    def free_gpus(self, held: int) -> int:
        """Of which nothing is held, when so many are held at least in part. One may be held and withheld."""
        return max(0, self.gpus - self.gpus_withheld - held) if self.is_ready else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """Quota and fair share of a project or department in one node pool."""

    pool: str
    project: str = ""
    """Empty: they are a department's."""
    department: str = ""
    """That of the project, or the one itself."""
    gpu_quota_milli: int = 0
    """Negative: unlimited, as are the others."""
    fair_share_milli: int | None = None
    """None: its cluster has not reported it."""
    gpu_limit_milli: int = -1
    cpu_quota_milli: int = -1
    memory_quota_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A workload that waits."""

    project: str
    department: str
    pool: str
    """Empty: not known, it may be one of several."""
    gpus_milli: int
    since_s: float
    is_held_back: bool = False
    """Not by the scheduler: it waits for another workload, or before it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the control plane knows of a cluster at the moment of a sample."""

    cluster: str
    holdings: Sequence[PodHolding] = ()
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
        self.sums: dict[SampleColumn, float] = {}
        self.weights: dict[SampleColumn, float] = {}
        """Of averages."""

    def add(self, column: SampleColumn, value: float | None) -> None:
        if value is not None:
            self.sums[column] = self.sums.get(column, 0.0) + value

    def most(self, column: SampleColumn, value: float) -> None:
        self.sums[column] = max(value, self.sums.get(column, value))

    def average(self, column: SampleColumn, value: float | None, weight: float = 1.0) -> None:
        """Zero weight: it is part of nothing."""
        if value is not None and weight > 0:
            self.add(column, value * weight)
            self.weights[column] = self.weights.get(column, 0.0) + weight

    def values(self, columns: type[SampleColumn]) -> list[float]:
        return [
            self.sums[column] / self.weights.get(column, 1.0) if column in self.sums else UNKNOWN for column in columns
        ]


class _Rows(dict[str, _Row]):
    """Rows by subject, all with the same columns."""

    def __init__(self, columns: type[SampleColumn]) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, subject: str) -> _Row:
        row = self[subject] = _Row()
        return row


class _Groups(dict[str, list[_Rows]]):
    """Rows by group."""

    def rows(self, group: str, columns: type[SampleColumn]) -> _Rows:
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
    _simulated: frozenset[NodeName] = frozenset()
    """Nodes whose devices do not exist."""

    def samples(self) -> list[GroupSample]:
        measured = {each.node: each for each in self.sample.nodes}
        pods = {pod.pod: pod for node in self.sample.nodes for pod in node.pods}
        self._simulated = frozenset(each.node for each in self.sample.nodes if each.is_simulated)
        held = _held_by_device(self.facts.holdings)
        known = {each.name: each for each in self.facts.nodes}
        for node in self.facts.nodes:
            self._node(node, measured.get(node.name), held)
        for holding in self.facts.holdings:
            self._work(holding, pods.get(holding.pod), known.get(holding.node))
        self._queues()
        self._lending({name: node.pool for name, node in known.items()})
        self._counts({name: node.pool for name, node in known.items()})
        return self.groups.samples()

    # --- nodes ---

    def _node(self, facts: NodeFacts, sample: NodeSample | None, held: Mapping[tuple[str, int], int]) -> None:
        group = catalogue.node_group(self.facts.cluster, facts.name)
        row = self.groups.rows(group, NodeColumn)[catalogue.NODE_ITSELF]
        row.add(NodeColumn.GPUS, facts.gpus)
        row.add(NodeColumn.IS_READY, float(facts.is_ready))
        for column in (
            NodeColumn.PODS,
            NodeColumn.GPUS_ALLOCATED,
            NodeColumn.CPU_CORES_ALLOCATED,
            NodeColumn.MEMORY_BYTES_ALLOCATED,
        ):
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
                row.average(NodeColumn.GPU_MEMORY_UTILIZATION, _share(each.memory_bytes, facts.gpu_memory_mib << 20))
        free = facts.free_gpus(sum((facts.name, index) in held for index in range(facts.gpus)))
        for place in self._places(facts.pool):
            _add_node(place, facts, sample)
            place.add(PlaceColumn.FREE_GPUS, free)
            place.most(PlaceColumn.LARGEST_FREE_GPUS, free)

    def _places(self, pool: str) -> tuple[_Row, ...]:
        return (self._place(""), self._place(pool)) if pool else (self._place(""),)

    def _place(self, pool: str) -> _Row:
        """A node pool; empty: the cluster."""
        rows = self.groups.rows(catalogue.organization_group(self.facts.cluster), PlaceColumn)
        return rows[catalogue.pool(pool) if pool else catalogue.CLUSTER_ITSELF]

    # --- pods, workloads, projects, departments ---

    def _work(self, holding: PodHolding, sample: PodSample | None, there: NodeFacts | None) -> None:
        pool = there.pool if there is not None else ""
        gpus = holding.gpus_milli / WHOLE_GPU_MILLI
        gpu_memory = gpus * (there.gpu_memory_mib << 20) if there is not None else 0.0
        group = catalogue.workload_group(self.facts.cluster, holding.workload)
        work = self.groups.rows(group, WorkColumn)
        utilization = None if sample is None else _pod_utilization(sample)
        for row in (work[holding.workload], work[catalogue.pod(holding.workload, holding.pod)]):
            _add_pod(row, holding, sample, utilization)
            row.add(WorkColumn.GPU_MEMORY_BYTES_ALLOCATED, gpu_memory if gpu_memory or not gpus else None)
            if sample is not None and holding.node in self._simulated:
                row.average(WorkColumn.IS_SIMULATED, 1.0)
        if gpus:
            known = [] if sample is None else [each.utilization for each in sample.devices]
            measured, used = _gpu_time(gpus, known)
            work[holding.workload].add(WorkColumn.GPUS_MEASURED, measured)
            work[holding.workload].add(WorkColumn.GPUS_USED, used)
        for use in () if sample is None else sample.devices:
            subject = catalogue.pod_device(holding.workload, holding.pod, use.index)
            row = self.groups.rows(group, PodDeviceColumn)[subject]
            row.add(PodDeviceColumn.UTILIZATION, use.utilization)
            row.add(PodDeviceColumn.MEMORY_BYTES, use.memory_bytes)
        node = self.groups.rows(catalogue.node_group(self.facts.cluster, holding.node), NodeColumn)
        _add_held(node[catalogue.NODE_ITSELF], NodeColumn, holding)
        node[catalogue.NODE_ITSELF].add(NodeColumn.PODS, 1)
        memory_share = _share(None if sample is None else _gpu_memory(sample), gpu_memory)
        for queue in self._queue_rows(holding.project, holding.department, pool):
            _add_held(queue, QueueColumn, holding)
            queue.average(QueueColumn.GPU_UTILIZATION, utilization, gpus)
            queue.average(QueueColumn.GPU_MEMORY_UTILIZATION, memory_share, gpu_memory)
            if holding.kind in _BY_KIND:
                queue.average(_BY_KIND[holding.kind][0], utilization, gpus)
        for place in self._places(pool):
            _add_held(place, PlaceColumn, holding)
            if holding.kind in _BY_KIND:
                place.average(_BY_KIND[holding.kind][1], utilization, gpus)

    def _queue_rows(self, project: str, department: str, pool: str) -> Iterable[_Row]:
        """In all node pools, and in this one."""
        return [row for each in dict.fromkeys(("", pool)) for row in self._rows_within(project, department, each)]

    def _rows_within(self, project: str, department: str, pool: str) -> Iterable[_Row]:
        names = ((catalogue.project, project), (catalogue.department, department))
        return [
            self.groups.rows(catalogue.owner_group(self.facts.cluster, name), QueueColumn)[subject(name, pool)]
            for subject, name in names
            if name
        ]

    def _queues(self) -> None:
        for each in self.facts.queues:
            quotas = (
                _amount(each.gpu_quota_milli, WHOLE_GPU_MILLI),
                _amount(each.cpu_quota_milli, 1000),
                _amount(each.memory_quota_bytes, 1),
            )
            for row in self._queue_rows(each.project, "" if each.project else each.department, each.pool):
                _add_quotas(row, QueueColumn, quotas)
                row.add(QueueColumn.GPU_LIMIT, _amount(each.gpu_limit_milli, WHOLE_GPU_MILLI))
                if each.fair_share_milli is not None:
                    row.add(QueueColumn.GPU_FAIR_SHARE, each.fair_share_milli / WHOLE_GPU_MILLI)
            if each.project:
                for place in self._places(each.pool):
                    _add_quotas(place, PlaceColumn, quotas)

    # --- over quota, lent and borrowed ---

    def _lending(self, pool_of: Mapping[str, str]) -> None:
        capacity: dict[str, int] = {}
        for node in self.facts.nodes:
            gpus_milli = (node.gpus - node.gpus_withheld) * WHOLE_GPU_MILLI
            capacity[node.pool] = capacity.get(node.pool, 0) + gpus_milli
        projects, departments = queue_holdings(self.facts, pool_of)
        for pool, gpus_milli in capacity.items():
            for name, amounts in _lent_and_over(gpus_milli, projects.get(pool, {})):
                self._add_lending(self._queue_rows(name, "", pool), amounts)
                for place in self._places(pool):
                    place.add(PlaceColumn.GPUS_OVER_QUOTA, amounts[0])
            for name, amounts in _lent_and_over(gpus_milli, departments.get(pool, {})):
                self._add_lending(self._queue_rows("", name, pool), amounts)

    @staticmethod
    def _add_lending(rows: Iterable[_Row], amounts: tuple[float, float, float]) -> None:
        over, lent, unassigned = amounts
        for row in rows:
            row.add(QueueColumn.GPUS_OVER_QUOTA, over)
            row.add(QueueColumn.GPUS_LENT, lent)
            row.add(QueueColumn.GPUS_FROM_UNASSIGNED, unassigned)

    # --- counts ---

    def _counts(self, pool_of: Mapping[str, str]) -> None:
        """Where nothing is held or waits, that is measured too."""
        for table in [each for tables in self.groups.values() for each in tables]:
            for columns in (QueueColumn, PlaceColumn):
                for row in table.values() if table.columns is columns else ():
                    _add_nothing(row, columns)
        self._running(pool_of)
        self._waiting()

    def _running(self, pool_of: Mapping[str, str]) -> None:
        """A workload counts once in each node pool where it has pods, and once in all."""
        pools: dict[str, set[str]] = {}
        owners: dict[str, PodHolding] = {}
        for each in self.facts.holdings:
            pools.setdefault(each.workload, {""}).add(pool_of.get(each.node, ""))
            owners[each.workload] = each
        for workload, owner in owners.items():
            for pool in sorted(pools[workload]):
                for row in self._rows_within(owner.project, owner.department, pool):
                    row.add(QueueColumn.RUNNING, 1)
                self._place(pool).add(PlaceColumn.RUNNING, 1)

    def _waiting(self) -> None:
        for each in self.facts.waiting:
            gpus = each.gpus_milli / WHOLE_GPU_MILLI
            for row in self._queue_rows(each.project, each.department, each.pool):
                row.add(QueueColumn.PENDING, 1)
                row.add(QueueColumn.PENDING_GPUS, gpus)
            for place in self._places(each.pool):
                place.add(PlaceColumn.PENDING, 1)
                place.add(PlaceColumn.PENDING_GPUS, gpus)
                place.average(PlaceColumn.WAIT_S, each.since_s)


QueueHoldings = dict[str, dict[QueueId, QueueHolding]]
"""By node pool and name."""


def queue_holdings(facts: ClusterFacts, pool_of: Mapping[str, str]) -> tuple[QueueHoldings, QueueHoldings]:
    """What projects and departments are owed and hold. A department without a quota of its own has its projects'."""
    quotas: tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]] = ({}, {})
    held: tuple[dict[tuple[str, str], int], dict[tuple[str, str], int]] = ({}, {})
    summed: dict[tuple[str, str], int] = {}
    for each in facts.queues:
        level, name = (0, each.project) if each.project else (1, each.department)
        quotas[level][each.pool, name] = each.gpu_quota_milli
        if each.project and each.department:
            before, key = summed.get((each.pool, each.department), 0), (each.pool, each.department)
            summed[key] = UNLIMITED if UNLIMITED in (before, each.gpu_quota_milli) else before + each.gpu_quota_milli
    for key, quota in summed.items():
        quotas[1].setdefault(key, quota)
    for holding in facts.holdings:
        pool = pool_of.get(holding.node, "")
        for level, name in enumerate((holding.project, holding.department)):
            if name:
                held[level][pool, name] = held[level].get((pool, name), 0) + holding.gpus_milli
    found: tuple[QueueHoldings, QueueHoldings] = ({}, {})
    for level in (0, 1):
        for pool, name in {**quotas[level], **held[level]}:
            amounts = QueueHolding(quotas[level].get((pool, name), 0), held[level].get((pool, name), 0))
            found[level].setdefault(pool, {})[QueueId(name)] = amounts
    return found


def _lent_and_over(
    capacity_milli: int, holdings: Mapping[QueueId, QueueHolding]
) -> Iterable[tuple[str, tuple[float, float, float]]]:
    """Of each queue, in GPUs: over quota, lent, and over quota from GPUs in no quota."""
    loans = lending(capacity_milli, holdings)
    lent: dict[QueueId, int] = {}
    for (lender, _), amount in loans.loans.items():
        lent[lender] = lent.get(lender, 0) + amount
    for name, each in holdings.items():
        amounts = each.over_milli, lent.get(name, 0), loans.unassigned.get(name, 0)
        over, given, unassigned = (amount / WHOLE_GPU_MILLI for amount in amounts)
        yield name, (over, given, unassigned)


_BY_KIND = {
    WorkloadKind.BUILD: (QueueColumn.GPU_UTILIZATION_BUILD, PlaceColumn.GPU_UTILIZATION_BUILD),
    WorkloadKind.TRAIN: (QueueColumn.GPU_UTILIZATION_TRAIN, PlaceColumn.GPU_UTILIZATION_TRAIN),
}


def _held_by_device(holdings: Iterable[PodHolding]) -> dict[tuple[str, int], int]:
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
    place.add(PlaceColumn.READY_GPU_NODES, 1 if facts.gpus and facts.is_ready else 0)
    place.add(PlaceColumn.READY_GPUS, facts.gpus if facts.is_ready else 0)
    if sample is None:
        return
    place.average(PlaceColumn.CPU_UTILIZATION, _share(sample.cpu_cores, facts.cpu_milli / 1000), facts.cpu_milli)
    place.average(PlaceColumn.MEMORY_UTILIZATION, _share(sample.memory_bytes, facts.memory_bytes), facts.memory_bytes)
    for band in BANDS if sample.devices else ():
        place.add(band, 0)
    for each in sample.devices:
        place.average(PlaceColumn.GPU_UTILIZATION, each.utilization)
        if each.utilization is not None:
            place.add(BANDS[min(3, int(each.utilization // 25))], 1)
        place.average(PlaceColumn.GPU_MEMORY_UTILIZATION, _share(each.memory_bytes, facts.gpu_memory_mib << 20))


def _gpu_time(gpus: float, utilizations: Sequence[float | None]) -> tuple[float, float]:
    """How many of the GPUs that a pod holds were measured and used, from the utilization of its devices.

    That of a device is of the whole device: who holds half of one, and computes half of the time, has used all it has.
    """
    known = [each for each in utilizations if each is not None]
    measured = gpus * len(known) / max(1, len(utilizations))
    return measured, min(measured, sum(known) / 100)


def _pod_utilization(sample: PodSample) -> float | None:
    known = [each.utilization for each in sample.devices if each.utilization is not None]
    return sum(known) / len(known) if known else None


def _gpu_memory(sample: PodSample) -> int | None:
    known = [each.memory_bytes for each in sample.devices if each.memory_bytes is not None]
    return sum(known) if known else None


def _share(used: float | None, capacity: float) -> float | None:
    """In percent; None: not known."""
    return 100 * used / capacity if used is not None and capacity else None


def _add_pod(row: _Row, holding: PodHolding, sample: PodSample | None, utilization: float | None) -> None:
    row.add(WorkColumn.PODS, 1)
    row.add(WorkColumn.RUNNING_PODS, float(holding.is_running))
    row.add(WorkColumn.GPUS_ALLOCATED, holding.gpus_milli / WHOLE_GPU_MILLI)
    row.add(WorkColumn.CPU_CORES_ALLOCATED, holding.cpu_milli / 1000)
    row.add(WorkColumn.MEMORY_BYTES_ALLOCATED, holding.memory_bytes)
    if sample is None:
        return
    row.average(WorkColumn.GPU_UTILIZATION, utilization, holding.gpus_milli)
    row.add(WorkColumn.GPU_MEMORY_BYTES, _gpu_memory(sample))
    row.add(WorkColumn.CPU_CORES, sample.cpu_cores)
    row.add(WorkColumn.MEMORY_BYTES, sample.memory_bytes)
    row.add(WorkColumn.RECEIVED_BYTES_S, sample.received_bytes_s)
    row.add(WorkColumn.SENT_BYTES_S, sample.sent_bytes_s)
    row.add(WorkColumn.READ_BYTES_S, sample.read_bytes_s)
    row.add(WorkColumn.WRITTEN_BYTES_S, sample.written_bytes_s)
    row.average(WorkColumn.PROGRESS_PERCENT, sample.progress_percent)


_Holder = type[NodeColumn] | type[QueueColumn] | type[PlaceColumn]
_Owner = type[QueueColumn] | type[PlaceColumn]


def _add_held(row: _Row, columns: _Holder, holding: PodHolding) -> None:
    row.add(columns.GPUS_ALLOCATED, holding.gpus_milli / WHOLE_GPU_MILLI)
    row.add(columns.CPU_CORES_ALLOCATED, holding.cpu_milli / 1000)
    row.add(columns.MEMORY_BYTES_ALLOCATED, holding.memory_bytes)


def _add_quotas(row: _Row, columns: _Owner, quotas: tuple[float, float, float]) -> None:
    gpus, cores, memory = quotas
    row.add(columns.GPU_QUOTA, gpus)
    row.add(columns.CPU_CORES_QUOTA, cores)
    row.add(columns.MEMORY_BYTES_QUOTA, memory)


def _add_nothing(row: _Row, columns: _Owner) -> None:
    for column in (
        columns.GPUS_ALLOCATED,
        columns.CPU_CORES_ALLOCATED,
        columns.MEMORY_BYTES_ALLOCATED,
        columns.RUNNING,
        columns.PENDING,
        columns.PENDING_GPUS,
    ):
        row.add(column, 0)


def _amount(value: int, unit: int) -> float:
    """Unlimited has no value, and neither has a sum with it."""
    return value / unit if value >= 0 else UNKNOWN
