"""HTTP route for the figures of the overview: one read of the database and the latest samples, so that they agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from fairpool.api import overview as wire
from fairpool.api.workloads import Phase
from fairpool.control.departments import known_department
from fairpool.control.latest_figures import NodeUse, missing_samples, node_uses
from fairpool.control.metric_query import PARTLY, PoolName
from fairpool.control.moments import iso
from fairpool.control.nodes import known_pool
from fairpool.control.plane import ActionResult, Caller, Plane, answered
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.telemetry import (
    HeldNode,
    InCluster,
    InDepartment,
    WorkloadRows,
    cluster_names,
    held_nodes,
    idle_allocated,
)
from fairpool.metrics.catalogue import DeviceColumn, NodeColumn
from fairpool.model.ids import SECOND_MS
from fairpool.model.quantity import WHOLE_GPU_MILLI

routes = Routes("nodes")

Uses = Mapping[tuple[str, str], NodeUse]


@routes.get(
    "/api/v1/overview/figures",
    action=Action.NODE_READ,
    answer=wire.OverviewFigures,
    responses=PARTLY,
    summary="Get the figures of the overview: nodes, GPUs, utilization, running and pending workloads",
)
async def figures(
    plane: Plane, caller: Caller, cluster: InCluster = "", pool: PoolName = "", department: InDepartment = ""
) -> Response:
    """With a node pool, workloads are those that have pods there. A department narrows the workloads only."""
    now = plane.now()

    def unit(connection: Connection) -> tuple[list[HeldNode], list[Any]]:
        clusters = cluster_names(connection, cluster)
        within = str(known_pool(connection, pool).name) if pool else ""
        above = str(known_department(connection, caller, department).name) if department else ""
        nodes = [node for each in clusters for node in held_nodes(connection, each)]
        places = caller.places(Action.WORKLOAD_READ)
        workloads = WorkloadRows(connection, now, (), within, False)
        rows = [
            row
            for row in workloads.rows
            if row.cluster in clusters
            and above in ("", row.department)
            and (places is None or places.covers(row.project, row.department, row.cluster))
            and workloads.is_within(row)
        ]
        return [each for each in nodes if within in ("", each.facts.pool)], rows

    nodes, rows = await plane.read_apart(unit)
    found = {"as_of": iso(now), **_of_nodes(nodes), **_of_workloads(rows)}
    try:
        uses: dict[tuple[str, str], NodeUse] = {}
        for each in dict.fromkeys(node.cluster for node in nodes):
            mine = await node_uses(plane, each, [node.facts for node in nodes if node.cluster == each])
            uses |= {(each, name): use for name, use in mine.items()}
    except Unavailable as error:
        body = wire.OverviewFigures(**found, measured_gpus=0, problems=missing_samples(error))
        return answered(ActionResult(body=body, status=207))
    return answered(ActionResult(body=wire.OverviewFigures(**found, **_of_samples(nodes, uses))))


def _of_nodes(nodes: Sequence[HeldNode]) -> dict[str, Any]:
    free = [each.facts.free_gpus(len(each.devices)) for each in nodes]
    return {
        "nodes": len(nodes),
        "ready_nodes": sum(each.facts.is_ready for each in nodes),
        "gpu_nodes": sum(each.facts.gpus > 0 for each in nodes),
        "gpus": sum(each.facts.gpus for each in nodes),
        "ready_gpus": sum(each.facts.gpus for each in nodes if each.facts.is_ready),
        "allocated_gpus": sum(each.gpus_milli for each in nodes) / WHOLE_GPU_MILLI,
        "free_gpus": sum(free),
        "largest_free_block": max(free, default=0),
        "cpu_cores": sum(each.facts.cpu_milli for each in nodes) / 1000,
        "allocated_cpu_cores": sum(each.cpu_milli for each in nodes) / 1000,
        "memory_bytes": sum(each.facts.memory_bytes for each in nodes),
        "allocated_memory_bytes": sum(each.memory_bytes for each in nodes),
    }


def _of_workloads(rows: Sequence[Any]) -> dict[str, Any]:
    phases: dict[str, int] = {}
    for row in rows:
        phases[row.phase] = phases.get(row.phase, 0) + row.number
    waiting = [row for row in rows if row.phase in workload_store.WAITS]
    return {
        "workloads": dict(sorted(phases.items())),
        "running": phases.get(Phase.RUNNING.value, 0),
        "pending": sum(row.number for row in waiting),
        "pending_gpus": sum(row.requested_milli for row in waiting) / WHOLE_GPU_MILLI,
    }


def _of_samples(nodes: Sequence[HeldNode], uses: Uses) -> dict[str, Any]:
    """What was measured; a node without a sample is left out of averages and sums."""
    there = [(each, use) for each in nodes if (use := uses.get((each.cluster, each.facts.name))) is not None]
    devices = [(each, use, index) for each, use in there for index in range(each.facts.gpus)]
    used = _known(use.of_device(index, DeviceColumn.UTILIZATION) for _, use, index in devices)
    memory = [
        (bytes_, each.facts.gpu_memory_mib << 20)
        for each, use, index in devices
        if (bytes_ := use.of_device(index, DeviceColumn.MEMORY_BYTES)) is not None and each.facts.gpu_memory_mib
    ]
    cores = _known(use.of_node(NodeColumn.CPU_CORES) for _, use in there)
    memory_bytes = _known(use.of_node(NodeColumn.MEMORY_BYTES) for _, use in there)
    moments = [use.sample.at_s for _, use in there if use.sample is not None]
    return {
        "measured_gpus": len(used),
        "measured_at": iso(max(moments) * SECOND_MS) if moments else None,
        "gpu_utilization": round(sum(used) / len(used), 3) if used else None,
        "gpu_memory_utilization": (
            round(100 * sum(part for part, _ in memory) / sum(whole for _, whole in memory), 3) if memory else None
        ),
        "idle_allocated_gpus": sum(idle_allocated(each, use) for each, use in there) if used else None,
        "used_cpu_cores": round(sum(cores), 3) if cores else None,
        "used_memory_bytes": round(sum(memory_bytes)) if memory_bytes else None,
    }


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
