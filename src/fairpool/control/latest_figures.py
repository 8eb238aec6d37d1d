"""What was last measured of workloads, pods and nodes: for lists and descriptions, in one read of the samples.

What was not measured within the last minute is left out, and never 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairpool.api import measured as wire
from fairpool.api.nodes import NodeAnswer
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import compact
from fairpool.api.workloads import PodItem
from fairpool.control.moments import iso
from fairpool.control.plane import Plane
from fairpool.control.store.series_reader import LatestSample
from fairpool.control.store.unavailable import Unavailable
from fairpool.metrics import catalogue
from fairpool.metrics.catalogue import DeviceColumn, NodeColumn, PodDeviceColumn, SampleColumn, WorkColumn
from fairpool.metrics.recent_use import IDLE_S, NOW_S, amount, is_node_measured, is_work_measured
from fairpool.metrics.time_range import SeriesSubject
from fairpool.metrics.totals import NodeFacts
from fairpool.model.ids import SECOND_MS, Instant, NodeName

Latest = Mapping[SeriesSubject, LatestSample]

WORK: Final[Mapping[str, WorkColumn]] = {
    "gpu_utilization": WorkColumn.GPU_UTILIZATION,
    "gpu_memory_bytes": WorkColumn.GPU_MEMORY_BYTES,
    "gpu_memory_allocated_bytes": WorkColumn.GPU_MEMORY_BYTES_ALLOCATED,
    "cpu_cores": WorkColumn.CPU_CORES,
    "memory_bytes": WorkColumn.MEMORY_BYTES,
    "received_bytes_s": WorkColumn.RECEIVED_BYTES_S,
    "sent_bytes_s": WorkColumn.SENT_BYTES_S,
    "read_bytes_s": WorkColumn.READ_BYTES_S,
    "written_bytes_s": WorkColumn.WRITTEN_BYTES_S,
    "progress_percent": WorkColumn.PROGRESS_PERCENT,
}
NODE: Final[Mapping[str, NodeColumn]] = {
    "gpu_utilization": NodeColumn.GPU_UTILIZATION,
    "gpu_memory_bytes": NodeColumn.GPU_MEMORY_BYTES,
    "cpu_cores": NodeColumn.CPU_CORES,
    "memory_bytes": NodeColumn.MEMORY_BYTES,
    "received_bytes_s": NodeColumn.RECEIVED_BYTES_S,
    "sent_bytes_s": NodeColumn.SENT_BYTES_S,
    "read_bytes_s": NodeColumn.READ_BYTES_S,
    "written_bytes_s": NodeColumn.WRITTEN_BYTES_S,
}
DEVICE: Final[Mapping[str, DeviceColumn]] = {
    "utilization": DeviceColumn.UTILIZATION,
    "memory_bytes": DeviceColumn.MEMORY_BYTES,
    "power_watts": DeviceColumn.POWER_WATTS,
    "temperature_celsius": DeviceColumn.TEMPERATURE_CELSIUS,
    "clock_mhz": DeviceColumn.CLOCK_MHZ,
    "errors": DeviceColumn.ERRORS,
    "idle_seconds": DeviceColumn.IDLE_S,
}
SHARE: Final[Mapping[str, PodDeviceColumn]] = {
    "utilization": PodDeviceColumn.UTILIZATION,
    "memory_bytes": PodDeviceColumn.MEMORY_BYTES,
}
ALIASES: Final = {name: str(field.alias or name) for name, field in wire.MeasuredWork.model_fields.items()}
WHOLE: Final = frozenset({"gpu_memory_bytes", "gpu_memory_allocated_bytes", "memory_bytes", "errors", "idle_seconds"})


def missing_samples(error: Unavailable) -> list[ProblemItem]:
    """Why an answer is without figures that were measured."""
    what = f"samples cannot be read now ({error.code}); what was measured is missing"
    return [ProblemItem(code="metrics.unavailable", what=what, fix="check `fairpool logs` on the server")]


def missing_samples_text(error: Unavailable) -> str:
    """The same as JSON."""
    return compact([each.model_dump(by_alias=True, exclude_none=True) for each in missing_samples(error)])


# --- workloads and pods ------------------------------------------------------------------------------------------


async def measured_texts(plane: Plane, holders: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Of workloads by cluster: each as JSON, by id. Raises `Unavailable`."""
    found: dict[str, str] = {}
    for cluster, ids in holders.items():
        wanted: dict[str, list[str]] = {}
        for each in ids:
            wanted.setdefault(catalogue.workload_group(cluster, each), []).append(each)
        found |= await asyncio.to_thread(_texts, await _work(plane, cluster, wanted))
    return found


def _texts(latest: Latest) -> dict[str, str]:
    """Without models: a cluster may have many workloads. A test reads them back with those of `api/measured.py`."""
    return {subject.name: compact(_camel(_work_values(each))) for subject, each in latest.items()}


def _camel(values: Mapping[str, object]) -> dict[str, object]:
    return {ALIASES[name]: value for name, value in values.items()}


async def measured_workload(
    plane: Plane, cluster: str, workload: str, pods: Iterable[PodItem]
) -> wire.MeasuredWorkload:
    """One workload with its pods and their devices. Raises `Unavailable`."""
    group, there = catalogue.workload_group(cluster, workload), list(pods)
    names = [workload, *(catalogue.pod(workload, each.id) for each in there)]
    names += [catalogue.pod_device(workload, each.id, index) for each in there for index in each.devices]
    latest = await _work(plane, cluster, {group: names})
    rows = {subject.name: each for subject, each in latest.items()}
    total = rows.get(workload)
    return wire.MeasuredWorkload(
        as_of=iso(plane.now()),
        workload_id=workload,
        total=None if total is None else wire.MeasuredWork(**_work_values(total)),
        pods=[
            wire.MeasuredPod(
                **_work_values(row),
                id=each.id,
                name=each.name,
                node=each.node,
                devices=[
                    wire.MeasuredShare(
                        index=index, **_values(rows.get(catalogue.pod_device(workload, each.id, index)), SHARE)
                    )
                    for index in each.devices
                ],
            )
            for each in there
            if (row := rows.get(catalogue.pod(workload, each.id))) is not None
        ],
    )


async def _work(plane: Plane, cluster: str, wanted: Mapping[str, Collection[str]]) -> Latest:
    return await plane.samples.latest(catalogue.workloads_prefix(cluster), wanted, is_work_measured, NOW_S)


def _work_values(sample: LatestSample) -> dict[str, Any]:
    simulated = amount(sample.row, WorkColumn.IS_SIMULATED) is not None
    return {"at": iso(sample.at_s * SECOND_MS), "simulated": simulated, **_values(sample, WORK)}


def _values(sample: LatestSample | None, columns: Mapping[str, SampleColumn]) -> dict[str, Any]:
    if sample is None:
        return {}
    found = {name: amount(sample.row, column) for name, column in columns.items()}
    return {name: _shown(name, value) for name, value in found.items() if value is not None}


def _shown(name: str, value: float) -> float | int:
    return round(value) if name in WHOLE else round(value, 3)


# --- nodes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What a node uses now. None: not measured within the last minute."""

    sample: LatestSample | None
    devices: Sequence[LatestSample | None]
    """By index."""

    def of_node(self, column: NodeColumn) -> float | None:
        return None if self.sample is None else amount(self.sample.row, column)

    def of_device(self, index: int, column: DeviceColumn) -> float | None:
        sample = self.devices[index]
        return None if sample is None else amount(sample.row, column)

    def idle_devices(self, held_since: Mapping[int, Instant]) -> frozenset[int]:
        """`held_since`: of those that are held. What one did before that says nothing about its holder."""
        return frozenset(index for index in range(len(self.devices)) if self._idle_s(index, held_since) > IDLE_S)

    def _idle_s(self, index: int, held_since: Mapping[int, Instant]) -> float:
        sample, idle_s = self.devices[index], self.of_device(index, DeviceColumn.IDLE_S)
        if sample is None or idle_s is None:
            return 0.0  # a missing sample is not idleness
        since = held_since.get(index)
        return idle_s if since is None else min(idle_s, sample.at_s - since / SECOND_MS)


async def node_uses(plane: Plane, cluster: str, nodes: Iterable[NodeFacts]) -> dict[str, NodeUse]:
    """By name, of those nodes of a cluster that were measured within the last minute. Raises `Unavailable`."""
    groups = {catalogue.node_group(cluster, each.name): each for each in nodes}
    wanted = {
        group: [catalogue.NODE_ITSELF, *(catalogue.device(index) for index in range(each.gpus))]
        for group, each in groups.items()
    }
    latest = await plane.samples.latest(catalogue.nodes_prefix(cluster), wanted, is_node_measured, NOW_S)
    there = {subject.group for subject in latest}
    return {
        str(each.name): NodeUse(
            latest.get(SeriesSubject(group, catalogue.NODE_ITSELF)),
            [latest.get(SeriesSubject(group, catalogue.device(index))) for index in range(each.gpus)],
        )
        for group, each in groups.items()
        if group in there
    }


async def with_measured(plane: Plane, nodes: Collection[NodeAnswer], *, devices: bool = False) -> list[NodeAnswer]:
    """Nodes with what was last measured of them, and of each of their devices. Raises `Unavailable`."""
    uses: dict[tuple[str, str], NodeUse] = {}
    for cluster in dict.fromkeys(each.cluster_uuid for each in nodes):
        mine = [
            NodeFacts(name=NodeName(each.name), pool=each.node_pool, gpus=each.gpu_info.gpu_count if devices else 0)
            for each in nodes
            if each.cluster_uuid == cluster
        ]
        uses |= {(cluster, name): use for name, use in (await node_uses(plane, cluster, mine)).items()}
    return [
        each.model_copy(update={"measured": _node(uses.get((each.cluster_uuid, each.name)), devices=devices)})
        for each in nodes
    ]


def _node(use: NodeUse | None, *, devices: bool) -> wire.MeasuredNode | None:
    if use is None or use.sample is None:
        return None
    shown = {"at": iso(use.sample.at_s * SECOND_MS), **_values(use.sample, NODE)}
    if devices:
        shown["devices"] = [
            wire.MeasuredDevice(index=index, **_values(each, DEVICE)) for index, each in enumerate(use.devices)
        ]
    return wire.MeasuredNode.model_validate(shown)
