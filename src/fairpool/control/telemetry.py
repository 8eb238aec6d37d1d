"""HTTP routes for telemetry: figures of nodes, projects, departments and workloads now, from one read.

Counts are those of the lists: from the same tables, and only what the caller may see. What is in use comes from the
latest samples; a node without one is left out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fairpool.api import metrics as wire
from fairpool.api.limits import PROJECTS
from fairpool.api.workload_spec import Kind
from fairpool.api.workloads import Phase
from fairpool.control.cluster_facts import facts_of, nodes_of
from fairpool.control.clusters import known_cluster
from fairpool.control.departments import known_department, visible_departments
from fairpool.control.items import CATEGORIES
from fairpool.control.latest_figures import NodeUse, node_uses
from fairpool.control.metric_query import PoolName, each_once, number, refuse_unknown, unreadable
from fairpool.control.metrics import DEPARTMENTS, grouping_of
from fairpool.control.moments import iso
from fairpool.control.nodes import known_pool
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import telemetry as store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.cluster_facts import holdings_of, reported_wait
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.workload_documents import declaration_of
from fairpool.metrics.catalogue import NodeColumn
from fairpool.metrics.totals import ClusterFacts, NodeFacts, PodHolding, QueueFacts
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.precedence import precedence
from fairpool.model.quantity import WHOLE_GPU_MILLI

routes = Routes("metrics")

GROUPS_MAX = 2
MB = 1000**2
CLUSTER, DEPARTMENT, PROJECT, POOL, NODE = "ClusterId", "DepartmentId", "ProjectId", "Nodepool", "Node"
TYPE, CURRENT_POOLS, PHASE, CATEGORY, WAITED = "Type", "CurrentNodepools", "Phase", "Category", "PendingTime"

TelemetryType = Annotated[str, Parameter(alias="telemetryType", max_length=64)]
InCluster = Annotated[
    str, Parameter(alias="clusterId", max_length=256, description="Id or name of a cluster; empty: all clusters")
]
InDepartment = Annotated[str, Parameter(alias="departmentId", max_length=256, description="Empty: all departments")]
GroupBy = Annotated[
    list[Annotated[str, Parameter(max_length=256)]],
    Parameter(
        alias="groupBy", max_length=8, description=f"At most {GROUPS_MAX} fields, repeated or separated by commas"
    ),
]

Key = tuple[str, ...]
"""One value for each field that is grouped by."""


def _groupings(said: Sequence[str], there: Sequence[str], most: int = GROUPS_MAX) -> list[str]:
    found = list(dict.fromkeys(grouping_of(each, there) for each in each_once(said)))
    if len(found) > most:
        what = f"these figures can be grouped by at most {most} fields, not {len(found)}"
        raise refused(422, "metric.unknown_group", what, "leave some out", "groupBy")
    return found


def _telemetry(
    now: Instant, kind: str, fields: Sequence[str], values: Mapping[Key, float], names: Mapping[tuple[str, str], str]
) -> wire.Telemetry:
    return wire.Telemetry(
        type=kind,
        timestamp=iso(now),
        values=[
            wire.TelemetryValue(
                value=number(value),
                groups=[
                    wire.TelemetryGroup(key=field, value=part, name=names.get((field, part), part))
                    for field, part in zip(fields, key, strict=True)
                ]
                or None,
            )
            for key, value in sorted(values.items())
        ],
    )


def cluster_names(connection: Connection, said: str) -> dict[str, str]:
    """Names by id, of one cluster or of all."""
    rows = [known_cluster(connection, said)] if said else cluster_store.all_clusters(connection)
    return {str(row.id): str(row.name) for row in rows}


# --- nodes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldNode:
    """A node with what is held and used of it."""

    cluster: str
    facts: NodeFacts
    gpus_milli: int
    cpu_milli: int
    memory_bytes: int
    held_since: Mapping[int, Instant]
    """Devices of which a part is held, and since when the first of their present holders has it."""

    @property
    def devices(self) -> frozenset[int]:
        return frozenset(self.held_since)

    def part(self, field: str) -> str:
        return {CLUSTER: self.cluster, POOL: self.facts.pool, NODE: self.facts.name}[field]

    @property
    def is_usable(self) -> bool:
        return self.facts.is_ready and self.facts.gpus > 0


def idle_allocated(node: HeldNode, use: NodeUse) -> int:
    """Devices that are held, and have done nothing for a while since then."""
    return len(node.devices & use.idle_devices(node.held_since))


NODE_COUNTS: Mapping[str, Callable[[HeldNode], float]] = {
    "READY_GPU_NODES": lambda each: each.is_usable,
    "READY_GPUS": lambda each: each.facts.gpus if each.facts.is_ready else 0,
    "TOTAL_GPU_NODES": lambda each: each.facts.gpus > 0,
    "TOTAL_GPUS": lambda each: each.facts.gpus,
    "FREE_GPUS": lambda each: each.facts.free_gpus(len(each.devices)),
    "FULLY_FREE_GPU_NODES": lambda each: each.is_usable and not each.devices,
    "ALLOCATED_GPUS": lambda each: each.gpus_milli / WHOLE_GPU_MILLI,
    "TOTAL_CPU_CORES": lambda each: each.facts.cpu_milli / 1000,
    "ALLOCATED_CPU_CORES": lambda each: each.cpu_milli / 1000,
    "TOTAL_GPU_MEMORY_BYTES": lambda each: each.facts.gpus * (each.facts.gpu_memory_mib << 20),
    "TOTAL_CPU_MEMORY_BYTES": lambda each: each.facts.memory_bytes,
    "ALLOCATED_CPU_MEMORY_BYTES": lambda each: each.memory_bytes,
}
NODE_USES: Mapping[str, Callable[[HeldNode, NodeUse], float | None]] = {
    "USED_CPU_CORES": lambda each, use: use.of_node(NodeColumn.CPU_CORES),
    "USED_CPU_MEMORY_BYTES": lambda each, use: use.of_node(NodeColumn.MEMORY_BYTES),
    "USED_GPU_MEMORY_BYTES": lambda each, use: use.of_node(NodeColumn.GPU_MEMORY_BYTES),
    "IDLE_ALLOCATED_GPUS": idle_allocated,
}


@routes.get(
    "/api/v1/nodes/telemetry", action=Action.NODE_READ, answer=wire.Telemetry, summary="Get figures of nodes now"
)
async def node_telemetry(
    plane: Plane,
    caller: Caller,
    telemetry_type: TelemetryType,
    cluster: InCluster = "",
    pool: PoolName = "",
    group_by: GroupBy = [],  # noqa: B006 (read only)
) -> wire.Telemetry:
    refuse_unknown([telemetry_type], {**NODE_COUNTS, **NODE_USES}, "nodes", "telemetryType")
    fields = _groupings(group_by, (CLUSTER, POOL, NODE))

    def unit(connection: Connection) -> tuple[dict[str, str], list[HeldNode]]:
        clusters = cluster_names(connection, cluster)
        within = str(known_pool(connection, pool).name) if pool else ""
        found = [node for each in clusters for node in held_nodes(connection, each)]
        return clusters, [each for each in found if within in ("", each.facts.pool)]

    now = plane.now()
    clusters, nodes = await plane.read_apart(unit)
    values: dict[Key, float] = {}
    amounts = await _amounts(plane, telemetry_type, nodes)
    for each, amount in zip(nodes, amounts, strict=True):
        key = tuple(each.part(field) for field in fields)
        if amount is not None:
            values[key] = values.get(key, 0.0) + amount
    return _telemetry(now, telemetry_type, fields, values, {(CLUSTER, key): name for key, name in clusters.items()})


def held_nodes(connection: Connection, cluster: str) -> list[HeldNode]:
    there: dict[str, list[PodHolding]] = {}
    for each in holdings_of(connection, cluster):
        there.setdefault(each.node, []).append(each)
    return [_node(cluster, facts, there.get(facts.name, [])) for facts in nodes_of(connection, cluster)]


def _node(cluster: str, facts: NodeFacts, held: Sequence[PodHolding]) -> HeldNode:
    return HeldNode(
        cluster,
        facts,
        sum(each.gpus_milli for each in held),
        sum(each.cpu_milli for each in held),
        sum(each.memory_bytes for each in held),
        first_held(held),
    )


def first_held(held: Iterable[PodHolding]) -> dict[int, Instant]:
    """By device: since when the first of its holders has it."""
    found: dict[int, Instant] = {}
    for each in held:
        for index in each.devices:
            found[index] = min(each.since, found.get(index, each.since))
    return found


async def _amounts(plane: Plane, kind: str, nodes: Sequence[HeldNode]) -> list[float | None]:
    """Of each node; None: not measured."""
    count = NODE_COUNTS.get(kind)
    if count is not None:
        return [float(count(each)) for each in nodes]
    uses: dict[tuple[str, str], NodeUse] = {}
    for cluster in dict.fromkeys(each.cluster for each in nodes):
        uses |= await _uses(plane, cluster, [each.facts for each in nodes if each.cluster == cluster])
    found = []
    for each in nodes:
        use = uses.get((each.cluster, each.facts.name))
        found.append(None if use is None else NODE_USES[kind](each, use))
    return found


async def _uses(plane: Plane, cluster: str, nodes: Iterable[NodeFacts]) -> dict[tuple[str, str], NodeUse]:
    try:
        found = await node_uses(plane, cluster, nodes)
    except Unavailable as error:
        raise unreadable(error) from error
    return {(cluster, name): use for name, use in found.items()}


# --- projects and departments --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Owned:
    """What a project or department is owed or holds in one node pool."""

    cluster: str
    department: str
    project: str
    pool: str
    amount: float
    """Negative: unlimited."""

    def part(self, field: str) -> str:
        return {CLUSTER: self.cluster, DEPARTMENT: self.department, PROJECT: self.project, POOL: self.pool}[field]


QUOTAS: Mapping[str, Callable[[QueueFacts], float]] = {
    "GPU_QUOTA": lambda each: each.gpu_quota_milli / WHOLE_GPU_MILLI,
    "CPU_QUOTA": lambda each: each.cpu_quota_milli,
    "MEMORY_QUOTA": lambda each: each.memory_quota_bytes / MB,
}
ALLOCATIONS: Mapping[str, Callable[[PodHolding], float]] = {
    "GPU_ALLOCATION": lambda each: each.gpus_milli / WHOLE_GPU_MILLI,
    "CPU_ALLOCATION": lambda each: each.cpu_milli,
    "MEMORY_ALLOCATION": lambda each: each.memory_bytes / MB,
}
NON_PREEMPTIBLE = "_NON_PREEMPTIBLE"
OWNER_TYPES = {**QUOTAS, **ALLOCATIONS, **{f"{name}{NON_PREEMPTIBLE}": each for name, each in ALLOCATIONS.items()}}
UNLIMITED_AMOUNT = -1.0


@routes.get(
    f"{PROJECTS}/telemetry",
    action=Action.PROJECT_READ,
    answer=wire.Telemetry,
    summary="Get figures of the projects you can see: GPUs, thousandths of cores, MB",
)
async def project_telemetry(
    plane: Plane,
    caller: Caller,
    telemetry_type: TelemetryType,
    cluster: InCluster = "",
    pool: PoolName = "",
    pool_id: Annotated[str, Parameter(alias="nodepoolId", max_length=256, description="As nodepoolName")] = "",
    department: InDepartment = "",
    group_by: GroupBy = [],  # noqa: B006 (read only)
) -> wire.Telemetry:
    fields = _groupings(group_by, (CLUSTER, DEPARTMENT, PROJECT, POOL))
    places = caller.places(Action.PROJECT_READ)

    def is_seen(each: _Owned) -> bool:
        return bool(each.project) and (places is None or places.covers(each.project, each.department, each.cluster))

    asked = _Asked(telemetry_type, cluster, pool or pool_id, department, fields)
    return await _owner_telemetry(plane, caller, asked, lambda connection: is_seen)


@routes.get(
    f"{DEPARTMENTS}/telemetry",
    action=Action.DEPARTMENT_READ,
    answer=wire.Telemetry,
    summary="Get figures of the departments you can see: GPUs, thousandths of cores, MB",
)
async def department_telemetry(
    plane: Plane,
    caller: Caller,
    telemetry_type: TelemetryType,
    cluster: InCluster = "",
    pool: PoolName = "",
    department: InDepartment = "",
    group_by: GroupBy = [],  # noqa: B006 (read only)
) -> wire.Telemetry:
    fields = _groupings(group_by, (CLUSTER, DEPARTMENT, POOL))

    def unit(connection: Connection) -> Callable[[_Owned], bool]:
        seen = visible_departments(connection, caller)
        return lambda each: not each.project and (seen is None or each.department in seen)

    return await _owner_telemetry(plane, caller, _Asked(telemetry_type, cluster, pool, department, fields), unit)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which figures of which projects or departments."""

    kind: str
    cluster: str
    pool: str
    department: str
    fields: Sequence[str]


async def _owner_telemetry(
    plane: Plane, caller: Caller, asked: _Asked, seen: Callable[[Connection], Callable[[_Owned], bool]]
) -> wire.Telemetry:
    refuse_unknown([asked.kind], OWNER_TYPES, "projects and departments", "telemetryType")
    now = plane.now()

    def unit(connection: Connection) -> wire.Telemetry:
        clusters = cluster_names(connection, asked.cluster)
        pool = str(known_pool(connection, asked.pool).name) if asked.pool else ""
        department = str(known_department(connection, caller, asked.department).name) if asked.department else ""
        is_seen = seen(connection)
        values: dict[Key, float] = {}
        for cluster in clusters:
            facts = facts_of(plane, connection, cluster, now)
            for each in _owned(connection, facts, asked.kind):
                if pool in ("", each.pool) and department in ("", each.department) and is_seen(each):
                    _add(values, tuple(each.part(field) for field in asked.fields), each.amount)
        names = {(CLUSTER, key): name for key, name in clusters.items()}
        return _telemetry(now, asked.kind, asked.fields, values, names)

    return await plane.read_apart(unit)


def _add(values: dict[Key, float], key: Key, amount: float) -> None:
    """With one that is unlimited, the sum is."""
    before = values.get(key, 0.0)
    values[key] = UNLIMITED_AMOUNT if amount < 0 or before < 0 else before + amount


def _owned(connection: Connection, facts: ClusterFacts, kind: str) -> list[_Owned]:
    """Of projects, and of departments, which have no project here."""
    quota = QUOTAS.get(kind)
    found = [
        _Owned(facts.cluster, each.department, each.project, each.pool, quota(each) if quota is not None else 0.0)
        for each in facts.queues
    ]
    if quota is not None:
        return found
    amount, pools = ALLOCATIONS[kind.removesuffix(NON_PREEMPTIBLE)], {each.name: each.pool for each in facts.nodes}
    held = _not_preemptible(connection, facts.holdings) if kind.endswith(NON_PREEMPTIBLE) else facts.holdings
    for each in held:
        for project in (each.project, ""):
            found.append(_Owned(facts.cluster, each.department, project, pools.get(each.node, ""), amount(each)))
    return found


def _not_preemptible(connection: Connection, held: Sequence[PodHolding]) -> list[PodHolding]:
    rows = workload_store.some(connection, list(dict.fromkeys(each.workload for each in held)))
    return [each for each in held if each.workload in rows and not _is_preemptible(rows[each.workload])]


def _is_preemptible(row: Any) -> bool:
    declared = declaration_of(row).workload
    return precedence(declared.kind, declared.priority, declared.preemptible).preemptible


# --- workloads ---------------------------------------------------------------------------------------------------


WAITS_S = {"0-1m": 60, "1m-10m": 600, "10m-1h": 3600, "1h-6h": 6 * 3600, "6h-24h": 24 * 3600, "over 24h": None}
"""How long workloads wait: up to so many seconds."""
WORKLOAD_TYPES = {name: name for name in ("WORKLOADS_COUNT", "GPU_ALLOCATION", "PENDING_TIME_DISTRIBUTION")}
WORKLOAD_FIELDS = (CLUSTER, DEPARTMENT, PROJECT, TYPE, CURRENT_POOLS, PHASE, CATEGORY)

Phases = Annotated[
    list[Annotated[str, Parameter(max_length=256)]],
    Parameter(
        alias="filterByPhases", max_length=32, description="Only workloads in these phases", examples=[["Running"]]
    ),
]


@routes.get(
    "/api/v1/workloads/telemetry",
    action=Action.WORKLOAD_READ,
    answer=wire.Telemetry,
    summary="Get figures of the workloads you can see",
)
async def workload_telemetry(
    plane: Plane,
    caller: Caller,
    telemetry_type: TelemetryType,
    cluster: InCluster = "",
    pool: PoolName = "",
    department: InDepartment = "",
    group_by: GroupBy = [],  # noqa: B006 (read only)
    phases: Phases = [],  # noqa: B006 (read only)
) -> wire.Telemetry:
    refuse_unknown([telemetry_type], WORKLOAD_TYPES, "workloads", "telemetryType")
    is_waiting = telemetry_type == "PENDING_TIME_DISTRIBUTION"
    fields = _groupings(group_by, WORKLOAD_FIELDS, GROUPS_MAX - is_waiting)
    wanted, now = [_phase(each) for each in each_once(phases)], plane.now()

    def unit(connection: Connection) -> wire.Telemetry:
        clusters = cluster_names(connection, cluster)
        within = str(known_pool(connection, pool).name) if pool else ""
        above = str(known_department(connection, caller, department).name) if department else ""
        workloads = WorkloadRows(connection, now, fields, within, is_waiting)
        values: dict[Key, float] = {(band,): 0.0 for band in WAITS_S} if is_waiting and not fields else {}
        if not is_waiting and not fields:
            values[()] = 0.0
        places = caller.places(Action.WORKLOAD_READ)
        for row in workloads.rows:
            if (
                row.cluster in clusters
                and above in ("", row.department)
                and (not wanted or row.phase in wanted)
                and (places is None or places.covers(row.project, row.department, row.cluster))
                and workloads.is_within(row)
            ):
                amount = row.gpus_milli / WHOLE_GPU_MILLI if telemetry_type == "GPU_ALLOCATION" else row.number
                _add(values, workloads.key(row), amount)
        names = {(CLUSTER, key): name for key, name in clusters.items()}
        return _telemetry(now, telemetry_type, [*fields, *([WAITED] if is_waiting else [])], values, names)

    return await plane.read_apart(unit)


def _phase(said: str) -> str:
    known = {each.value.lower(): each.value for each in Phase}
    if said.lower() not in known:
        what = f"there is no phase {said[:64]!r}"
        raise refused(422, "metric.unknown_phase", what, f"use one of {', '.join(known.values())}", "filterByPhases")
    return known[said.lower()]


class WorkloadRows:
    """Workloads as rows: one for many, where no single one matters."""

    def __init__(
        self, connection: Connection, now: Instant, fields: Sequence[str], pool: str, is_waiting: bool
    ) -> None:
        self._now, self._fields, self._pool, self._is_waiting = now, fields, pool, is_waiting
        self._pools: dict[str, str] = {}
        self.rows: list[Any]
        if not (is_waiting or pool or CURRENT_POOLS in fields):
            self.rows = store.workload_totals(connection)
            return
        self.rows = store.waiting_rows(connection) if is_waiting else store.workload_rows(connection)
        if pool or CURRENT_POOLS in fields:
            self._pools = _pools_of_workloads(connection)

    def is_within(self, row: Any) -> bool:
        return not self._pool or self._pool in self._pools.get(row.id, "").split(",")

    def key(self, row: Any) -> Key:
        parts = tuple(self._part(row, field) for field in self._fields)
        return (*parts, self._band(row)) if self._is_waiting else parts

    def _part(self, row: Any, field: str) -> str:
        if field == CURRENT_POOLS:
            return self._pools.get(row.id, "")
        if field == CATEGORY:
            return CATEGORIES[Kind(row.kind)]
        column = {CLUSTER: "cluster", DEPARTMENT: "department", PROJECT: "project", TYPE: "kind", PHASE: "phase"}[field]
        return str(getattr(row, column))

    def _band(self, row: Any) -> str:
        waited_s = (self._now - reported_wait(row).since) / SECOND_MS
        return next(band for band, most_s in WAITS_S.items() if most_s is None or waited_s <= most_s)


def _pools_of_workloads(connection: Connection) -> dict[str, str]:
    """Where their pods are, separated by commas."""
    pool_of = {
        (str(row.id), str(each.name)): each.pool
        for row in cluster_store.all_clusters(connection)
        for each in nodes_of(connection, row.id)
    }
    return {
        workload: ",".join(sorted({pool_of.get(each, "") for each in nodes} - {""}))
        for workload, nodes in store.nodes_by_workload(connection).items()
    }
