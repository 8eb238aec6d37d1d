"""HTTP route for waits over time: how long workloads waited before they started, and for what.

A wait begins when a workload is submitted, resumed or preempted, and ends when it gets its places. It counts in the
part of the time in which it ended. Work that still waits is in the list of waiting workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

from starlette.responses import Response

from fairpool.api import wait_times as wire
from fairpool.api.clusters import WorkloadReport
from fairpool.api.metrics import SAMPLES_DEFAULT
from fairpool.control import filters
from fairpool.control.metric_query import End, Samples, Start, period_of
from fairpool.control.moments import iso
from fairpool.control.paging import FilterBy, Search, parsed
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import ended_waits as store
from fairpool.control.store.database import Connection
from fairpool.control.store.decisions import HistoryListing
from fairpool.control.workload_documents import former_name, report_of
from fairpool.model.ids import SECOND_MS
from fairpool.model.status import WorkloadPhase

routes = Routes("workloads")

WAITS_MAX: Final = 100_000
"""In one answer: as many are read and sorted in half a second, in another thread."""
PARTS_MAX: Final = 100_000
"""Of all series of one answer together: as many are made and written in a second."""
FIELDS = dict.fromkeys(store.COLUMNS, filters.Sort.TEXT)
GROUPS: Final = {
    wire.WaitGroup.CAUSE: "cause",
    wire.WaitGroup.PROJECT: "projectId",
    wire.WaitGroup.DEPARTMENT: "departmentId",
    wire.WaitGroup.CLUSTER: "clusterId",
    wire.WaitGroup.TYPE: "type",
    wire.WaitGroup.USER: "submittedBy",
}
STARTED: Final = frozenset({WorkloadPhase.INITIALIZING, WorkloadPhase.RUNNING, WorkloadPhase.DEGRADED})
WAITED: Final = frozenset({WorkloadPhase.PENDING.value, WorkloadPhase.CREATING.value})


def note_start(connection: Connection, row: Any, report: WorkloadReport) -> None:
    """Called with a new report about a workload, before it is stored: if a wait has ended, it is noted."""
    if report.phase not in STARTED or row.phase not in WAITED or report.run < row.run:
        return
    before = report_of(row)
    if before is not None and before.run == report.run:
        began = before.waiting_since
        cause = before.wait.cause if before.wait is not None else before.reason.value if before.reason else ""
    else:
        # It started before it was reported as waiting. When a later run was asked for is not known here.
        began, cause = (row.created_at if report.run == 0 else None), ""
    if began is not None:
        store.add(connection, row.id, began, report.since, cause)


@routes.get(
    "/api/v1/workloads/wait-times",
    action=Action.WORKLOAD_READ,
    answer=wire.WaitTimes,
    summary="Get how long workloads waited before they started, over a time",
)
async def wait_times(
    plane: Plane,
    caller: Caller,
    start: Start,
    end: End,
    samples: Samples = SAMPLES_DEFAULT,
    group_by: Annotated[
        wire.WaitGroup, Parameter(alias="groupBy", description="What each series is of")
    ] = wire.WaitGroup.CAUSE,
    filter_by: FilterBy = "",
    search: Search = "",
) -> Response:
    """Filters: cause, clusterId, workloadId, workloadName, projectId, departmentId, type, submittedBy. The cause is
    what it last waited for, and empty if it started in the first cycle. Only what you can see is counted."""
    now, places = plane.now(), caller.places(Action.WORKLOAD_READ)
    since, until = period_of(start, end)
    step_ms = -(-(until - since) // samples)
    listing = HistoryListing(
        filters=tuple(parsed(filter_by, "cause", FIELDS, {})),
        search=search,
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        clusters=() if places is None else places.clusters,
        limit=WAITS_MAX,
    )

    def unit(connection: Connection) -> wire.WaitTimes:
        rows = store.within(connection, listing, since, until, GROUPS[group_by])
        counted = rows[:WAITS_MAX]
        starts = [since + part * step_ms for part in range(-(-(until - since) // step_ms))]
        by_key: dict[str, list[Any]] = {}
        for row in counted:
            by_key.setdefault(former_name(row.key), []).append(row)
        if len(by_key) * len(starts) > PARTS_MAX:
            what = f"{len(by_key)} series of {len(starts)} samples are more than one answer has ({PARTS_MAX} in all)"
            fix = f"ask for at most {PARTS_MAX // len(by_key)} samples, or filter"
            raise refused(400, "metrics.too_many_values", what, fix, "numberOfSamples")
        return wire.WaitTimes(
            as_of=iso(now),
            seconds=step_ms / SECOND_MS,
            is_complete=len(rows) == len(counted),
            all=_series("", counted, starts, step_ms),
            series=[_series(key, by_key[key], starts, step_ms) for key in sorted(by_key)],
        )

    return await plane.answer_apart(unit)


def _series(key: str, rows: Iterable[Any], starts: Sequence[int], step_ms: int) -> wire.WaitSeries:
    lengths: list[list[int]] = [[] for _ in starts]
    for row in rows:
        lengths[(row.ended_at - starts[0]) // step_ms].append(row.length)
    parts = [_part(start, sorted(each)) for start, each in zip(starts, lengths, strict=True)]
    whole = _part(starts[0], sorted(length for each in lengths for length in each))
    return wire.WaitSeries(key=key, waits=whole.waits, median_s=whole.median_s, p95_s=whole.p95_s, parts=parts)


def _part(start: int, lengths: Sequence[int]) -> wire.WaitPart:
    return wire.WaitPart(
        start=iso(start), waits=len(lengths), median_s=_percentile(lengths, 50), p95_s=_percentile(lengths, 95)
    )


def _percentile(lengths: Sequence[int], percent: int) -> float | None:
    """The nearest rank: the shortest wait that so many percent of the waits did not exceed. None: there were none."""
    if not lengths:
        return None
    return lengths[max(0, -(-len(lengths) * percent // 100) - 1)] / SECOND_MS
