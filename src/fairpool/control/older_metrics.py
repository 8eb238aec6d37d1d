"""HTTP routes for metrics in older words: quota, allocation and utilization now, and over a time if one is given.

What is known now comes from one read of the database. If the samples are away, it is answered without them (207).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import metrics as wire
from fairpool.api.problems import ProblemItem
from fairpool.control.cluster_facts import facts_of
from fairpool.control.clusters import known_cluster
from fairpool.control.departments import known_department, visible_departments
from fairpool.control.metric_query import (
    PARTLY,
    SAMPLES_AWAY,
    PoolName,
    Samples,
    Series,
    damage,
    read_points,
    span_of,
    unreadable,
)
from fairpool.control.moments import iso
from fairpool.control.nodes import known_pool
from fairpool.control.older_organization import CLUSTER, check_cluster
from fairpool.control.plane import Caller, Plane
from fairpool.control.projects import known_project
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Parameter, Query, Routes
from fairpool.control.sample_store import CurvePoints
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.metrics import catalogue
from fairpool.metrics.catalogue import PlaceColumn, QueueColumn, SampleColumn
from fairpool.metrics.recent_use import NOW_S, known_amounts, latest_amounts
from fairpool.metrics.time_range import Curve, SeriesSubject, TimeRange
from fairpool.metrics.totals import ClusterFacts, group_samples
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.quantity import UNLIMITED
from fairpool.model.sample import Sample

routes = Routes("administrator (legacy)")


class OlderQuery(Query):
    """A time, or none; in how many points; in which node pool."""

    start: Annotated[str, Parameter(max_length=64, description="ISO 8601; with `end`: also figures over this time")] = (
        ""
    )
    end: Annotated[str, Parameter(max_length=64)] = ""
    number_of_samples: Samples = wire.SAMPLES_DEFAULT
    pool: PoolName = ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Quota, allocation and utilization of each resource."""

    pending: SampleColumn
    gpu: tuple[SampleColumn, SampleColumn, SampleColumn | None]
    cpu: tuple[SampleColumn, SampleColumn, SampleColumn | None]
    memory: tuple[SampleColumn, SampleColumn, SampleColumn | None]

    @property
    def all(self) -> list[SampleColumn]:
        return [
            self.pending,
            *(each for some in (self.gpu, self.cpu, self.memory) for each in some if each is not None),
        ]


PLACE = _Columns(
    PlaceColumn.PENDING,
    (PlaceColumn.GPU_QUOTA, PlaceColumn.GPUS_ALLOCATED, PlaceColumn.GPU_UTILIZATION),
    (PlaceColumn.CPU_CORES_QUOTA, PlaceColumn.CPU_CORES_ALLOCATED, PlaceColumn.CPU_UTILIZATION),
    (PlaceColumn.MEMORY_BYTES_QUOTA, PlaceColumn.MEMORY_BYTES_ALLOCATED, PlaceColumn.MEMORY_UTILIZATION),
)
OWNER = _Columns(
    QueueColumn.PENDING,
    (QueueColumn.GPU_QUOTA, QueueColumn.GPUS_ALLOCATED, QueueColumn.GPU_UTILIZATION),
    (QueueColumn.CPU_CORES_QUOTA, QueueColumn.CPU_CORES_ALLOCATED, None),
    (QueueColumn.MEMORY_BYTES_QUOTA, QueueColumn.MEMORY_BYTES_ALLOCATED, None),
)
Amounts = Mapping[int, float]
"""By column; what is not known is missing."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A cluster, project or department that figures are asked of."""

    metadata: wire.OlderMetadata
    columns: _Columns
    group: str
    subject: Callable[[str], str]
    """Its name among the samples of the group, in a node pool or in all."""
    below: Sequence[tuple[str, str]] = ()
    """Projects of it that the caller may see, with their departments."""
    has_below: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """What one read of the database gave."""

    facts: ClusterFacts
    units: list[_Unit]
    pool: str
    amounts: Mapping[str, Amounts]
    """What is known without samples, by subject."""

    @property
    def pools(self) -> list[str]:
        known = {*(each.pool for each in self.facts.nodes), *(each.pool for each in self.facts.queues)}
        return sorted(each for each in known if self.pool in ("", each))


@routes.get(
    f"{CLUSTER}/metrics",
    action=Action.NODE_READ,
    before=check_cluster,
    answer=wire.OlderMetrics,
    responses=PARTLY,
    summary="Get figures of a cluster, by node pool and project",
)
async def cluster_metrics(request: Request, plane: Plane, caller: Caller, query: OlderQuery) -> Response:
    def units(connection: Connection, cluster: Any) -> list[_Unit]:
        metadata = wire.OlderMetadata(cluster_id=cluster.id, cluster_name=cluster.name)
        below = [(row.name, row.department) for row in _projects(connection, caller, cluster.id)]
        return [_Unit(metadata, PLACE, catalogue.organization_group(cluster.id), _place_name, below, has_below=True)]

    return await _one(plane, request, query, units)


@routes.get(
    f"{CLUSTER}/projects/metrics",
    action=Action.PROJECT_READ,
    before=check_cluster,
    answer=wire.OlderMetricsList,
    responses=PARTLY,
    summary="Get figures of the projects of a cluster",
)
async def projects_metrics(request: Request, plane: Plane, caller: Caller, query: OlderQuery) -> Response:
    def units(connection: Connection, cluster: Any) -> list[_Unit]:
        numbers = _department_numbers(connection)
        return [_project(row, cluster, numbers) for row in _projects(connection, caller, cluster.id)]

    return await _many(plane, request, query, units)


@routes.get(
    f"{CLUSTER}/projects/{{project_id}}/metrics",
    action=Action.PROJECT_READ,
    before=check_cluster,
    answer=wire.OlderMetrics,
    responses=PARTLY,
    summary="Get figures of a project",
)
async def project_metrics(
    project_id: str, request: Request, plane: Plane, caller: Caller, query: OlderQuery
) -> Response:
    def units(connection: Connection, cluster: Any) -> list[_Unit]:
        row = known_project(connection, caller, project_id, Action.PROJECT_READ)
        return [_project(row, cluster, _department_numbers(connection))]

    return await _one(plane, request, query, units)


@routes.get(
    f"{CLUSTER}/departments/metrics",
    action=Action.DEPARTMENT_READ,
    before=check_cluster,
    answer=wire.OlderMetricsList,
    responses=PARTLY,
    summary="Get figures of the departments of a cluster",
)
async def departments_metrics(request: Request, plane: Plane, caller: Caller, query: OlderQuery) -> Response:
    def units(connection: Connection, cluster: Any) -> list[_Unit]:
        seen = visible_departments(connection, caller)
        rows = [row for row in store.all_departments(connection) if seen is None or row.name in seen]
        return [_department(row, cluster, _projects(connection, caller, cluster.id)) for row in rows]

    return await _many(plane, request, query, units)


@routes.get(
    f"{CLUSTER}/departments/{{department_id}}/metrics",
    action=Action.DEPARTMENT_READ,
    before=check_cluster,
    answer=wire.OlderMetrics,
    responses=PARTLY,
    summary="Get figures of a department, by node pool and project",
)
async def department_metrics(
    department_id: str, request: Request, plane: Plane, caller: Caller, query: OlderQuery
) -> Response:
    def units(connection: Connection, cluster: Any) -> list[_Unit]:
        row = known_department(connection, caller, department_id)
        return [_department(row, cluster, _projects(connection, caller, cluster.id))]

    return await _one(plane, request, query, units)


def _place_name(pool: str) -> str:
    return catalogue.pool(pool) if pool else catalogue.CLUSTER_ITSELF


def _projects(connection: Connection, caller: Caller, cluster: str) -> list[Any]:
    """Those of a cluster that the caller may see."""
    places = caller.places(Action.PROJECT_READ)
    rows = store.all_projects(connection, **({} if places is None else places.of_projects))
    return [row for row in rows if row.cluster == cluster]


def _department_numbers(connection: Connection) -> dict[str, int]:
    return {row.name: row.number for row in store.all_departments(connection)}


def _project(row: Any, cluster: Any, numbers: Mapping[str, int]) -> _Unit:
    metadata = wire.OlderMetadata(
        cluster_id=cluster.id,
        cluster_name=cluster.name,
        project_id=row.number,
        project_name=row.name,
        department_id=numbers.get(row.department),
        department_name=row.department,
    )
    group = catalogue.owner_group(cluster.id, row.name)
    return _Unit(metadata, OWNER, group, lambda pool: catalogue.project(row.name, pool))


def _department(row: Any, cluster: Any, projects: Sequence[Any]) -> _Unit:
    metadata = wire.OlderMetadata(
        cluster_id=cluster.id, cluster_name=cluster.name, department_id=row.number, department_name=row.name
    )
    below = [(each.name, row.name) for each in projects if each.department == row.name]
    group = catalogue.owner_group(cluster.id, row.name)
    return _Unit(metadata, OWNER, group, lambda pool: catalogue.department(row.name, pool), below, has_below=True)


# --- answers -----------------------------------------------------------------------------------------------------

Units = Callable[[Connection, Any], list[_Unit]]


async def _one(plane: Plane, request: Request, query: OlderQuery, units: Units) -> Response:
    return await _answer(plane, request, query, units, lambda answers: answers[0])


async def _many(plane: Plane, request: Request, query: OlderQuery, units: Units) -> Response:
    return await _answer(plane, request, query, units, lambda answers: wire.OlderMetricsList(data=answers))


async def _answer(
    plane: Plane,
    request: Request,
    query: OlderQuery,
    units: Units,
    body: Callable[[list[wire.OlderMetrics]], wire.OlderMetrics | wire.OlderMetricsList],
) -> Response:
    now, cluster = plane.now(), str(request.state.cluster)
    span = _span(query, now)

    def unit(connection: Connection) -> _Found:
        pool = str(known_pool(connection, query.pool).name) if query.pool else ""
        asked = units(connection, known_cluster(connection, cluster))
        facts = facts_of(plane, connection, cluster, now)
        return _Found(facts, asked, pool, _now(facts))

    found = await plane.read_apart(unit)
    used: Mapping[str, Amounts] = {}
    points: CurvePoints | None = None
    problems: list[ProblemItem] = []
    try:
        used = await _used_now(plane, cluster)
        if span is not None:
            points = await _points(plane, span, found)
            problems += damage(points.unreadable) or ()
    except Refused as refusal:
        if refusal.status != SAMPLES_AWAY:
            raise
        problems += refusal.problems

    def text() -> str:
        ranges = {} if points is None else _ranges(found, points)
        answers = [
            wire.OlderMetrics(
                timestamp=iso(now),
                metadata=each.metadata,
                current=_current(found, each, used),
                time_range=ranges.get(each.subject(found.pool)),
                problems=problems or None,
            )
            for each in found.units
        ]
        return body(answers).model_dump_json(by_alias=True, exclude_none=True)

    # In another thread: there may be a thousand projects.
    return Response(await asyncio.to_thread(text), 207 if problems else 200, media_type="application/json")


def _span(query: OlderQuery, now: Instant) -> TimeRange | None:
    if bool(query.start) != bool(query.end):
        what = "a time has a start and an end"
        raise refused(400, "metric.range", what, "give both, or neither", "end" if query.start else "start")
    return span_of(query.start, query.end, query.number_of_samples, now) if query.start else None


def _now(facts: ClusterFacts) -> dict[str, Amounts]:
    """What is known without samples, added up as samples are."""
    prefix = catalogue.organization_group(facts.cluster)
    return {
        subject: known_amounts(values)
        for sample in group_samples(Sample(at=Instant(0)), facts)
        if sample.group.startswith(prefix)
        for subject, values in zip(sample.subjects, sample.values, strict=True)
    }


async def _used_now(plane: Plane, cluster: str) -> dict[str, Amounts]:
    """The latest samples of the cluster, its node pools, projects and departments."""
    try:
        return await plane.samples.recent(
            catalogue.organization_group(cluster),
            NOW_S,
            lambda recent: {
                name: latest_amounts(values) for group in recent.values() for name, values in group.items()
            },
        )
    except Unavailable as error:
        raise unreadable(error) from error


def _asked(found: _Found) -> list[tuple[_Unit, SampleColumn]]:
    """The series over a time, in the order in which they are read."""
    return [(each, column) for each in found.units for column in each.columns.all]


async def _points(plane: Plane, span: TimeRange, found: _Found) -> CurvePoints:
    series = [
        Series("", Curve(SeriesSubject(unit.group, unit.subject(found.pool)), {column: 1.0}), {})
        for unit, column in _asked(found)
    ]
    return await read_points(plane, span, series)


def _ranges(found: _Found, points: CurvePoints) -> dict[str, wire.OlderTimeRange]:
    """By the name of the subject."""
    amounts: dict[str, dict[int, dict[int, float]]] = {each.subject(found.pool): {} for each in found.units}
    for (unit, column), values in zip(_asked(found), points.points, strict=True):
        mine = amounts[unit.subject(found.pool)]
        for point in values:
            mine.setdefault(point.at_s, {})[column] = point.value
    return {
        each.subject(found.pool): wire.OlderTimeRange(
            resources=[
                _resources(each.columns, values, timestamp=iso(at_s * SECOND_MS))
                for at_s, values in sorted(amounts[each.subject(found.pool)].items())
            ]
        )
        for each in found.units
    }


def _current(found: _Found, unit: _Unit, used: Mapping[str, Amounts]) -> wire.OlderCurrent:
    def figures(columns: _Columns, name: str, **more: str) -> wire.OlderFigures:
        known = found.amounts.get(name, {})
        return _resources(columns, {**_utilizations(columns, used.get(name, {})), **known}, **more)

    below = [
        figures(
            OWNER, catalogue.project(project, pool), nodepool_name=pool, project_name=project, department_name=above
        )
        for project, above in unit.below
        for pool in found.pools
        if catalogue.project(project, pool) in found.amounts
    ]
    return wire.OlderCurrent(
        resources=[figures(unit.columns, unit.subject(pool), nodepool_name=pool) for pool in found.pools],
        project_resources=below if unit.has_below else None,
    )


def _utilizations(columns: _Columns, used: Amounts) -> Amounts:
    wanted = {columns.gpu[2], columns.cpu[2], columns.memory[2]}
    return {column: value for column, value in used.items() if column in wanted}


def _resources(columns: _Columns, amounts: Amounts, **more: str) -> wire.OlderFigures:
    def resource(kind: tuple[SampleColumn, SampleColumn, SampleColumn | None]) -> wire.OlderResource:
        quota, allocated, utilization = kind
        used = None if utilization is None else amounts.get(utilization)
        return wire.OlderResource(
            quota=amounts.get(quota, float(UNLIMITED)),
            allocated=amounts.get(allocated, 0.0),
            utilization=None if used is None else used / 100,
        )

    return wire.OlderFigures(
        number_of_pending_workloads=round(amounts.get(columns.pending, 0.0)),
        gpu=resource(columns.gpu),
        cpu=resource(columns.cpu),
        memory=resource(columns.memory),
        **more,
    )
