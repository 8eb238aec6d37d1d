"""HTTP routes for waiting work: the list with its causes, why one workload waits, and how far off estimates were."""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from typing import Annotated, Any

from starlette.responses import Response

from fairpool.api import waiting as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.questions import WhyWaiting
from fairpool.control.items import wait_cause
from fairpool.control.moments import instant, iso, iso_or_none, moment_or_ago
from fairpool.control.paging import FilterBy, Limit, Offset, Search, SortBy, SortOrder
from fairpool.control.plane import Caller, Plane
from fairpool.control.questions import ask
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import estimates, workload_lists
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.workload_columns import of_run
from fairpool.control.workload_documents import former_name, report_of
from fairpool.control.workloads import listing_of, readable
from fairpool.model.ids import WorkloadId
from fairpool.model.quantity import WHOLE_GPU_MILLI

routes = Routes("workloads")

CLOSE_MS = 5 * 60 * 1000
"""An estimate is good if it was not further off than this."""


@routes.get(
    "/api/v1/workloads/waiting",
    action=Action.WORKLOAD_READ,
    answer=wire.WaitingPage,
    summary="List waiting workloads with the cause, longest waiting first",
)
async def waiting(
    plane: Plane,
    caller: Caller,
    filter_by: FilterBy = "",
    search: Search = "",
    sort_by: SortBy = "createdAt",
    sort_order: SortOrder = "asc",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
) -> Response:
    """As the clusters last reported it; `/api/v1/workloads/{id}/wait` asks the cluster itself."""
    listing = listing_of(
        caller,
        filter_by,
        search,
        sort_by,
        sort_order == "desc",
        offset=offset,
        limit=limit,
        phases=store.WAITS,
    )

    def unit(connection: Connection) -> wire.WaitingPage:
        count, requested_milli = workload_lists.totals(connection, listing)
        keys = workload_lists.page(connection, listing)
        rows = store.some(connection, [key.id for key in keys[:limit]])
        return wire.WaitingPage(
            as_of=iso(plane.now()),
            count=count,
            requested_gpus=requested_milli / WHOLE_GPU_MILLI,
            workloads=[_item(rows[key.id]) for key in keys[:limit]],
            next=offset + limit if len(keys) > limit else None,
        )

    return await plane.answer_apart(unit)


def _item(row: Any) -> wire.WaitingWorkload:
    report = of_run(report_of(row), row.run)
    reason = report.reason if report is not None else None
    return wire.WaitingWorkload(
        id=row.id,
        name=row.name,
        type=row.kind,
        project_id=former_name(row.project),
        department_id=former_name(row.department),
        cluster_id=row.cluster,
        submitted_by=row.submitted_by,
        created_at=iso(row.created_at),
        waiting_since=iso_or_none(report.waiting_since if report is not None else row.created_at),
        requested_gpu=row.requested_gpus_milli / WHOLE_GPU_MILLI,
        node_pool=report.pool if report is not None else None,
        reason=reason.value if reason is not None else "",
        message=report.detail if report is not None else "the cluster has not reported it yet",
        cause=wait_cause(report.wait) if report is not None and report.wait is not None else None,
    )


@routes.get(
    "/api/v1/workloads/{workload_id}/wait",
    action=Action.WORKLOAD_READ,
    answer=wire.WorkloadWait,
    summary="Get why a workload waits, what would change it and when it is expected to start",
)
async def wait(
    workload_id: str,
    plane: Plane,
    caller: Caller,
    changes: Annotated[bool, Parameter(description="Also what would change it; each is a plan of the cluster")] = True,
) -> wire.WorkloadWait:
    """Asked of the cluster. The first estimate of each wait is kept, so that its error can be told later."""
    row = await plane.read(lambda connection: readable(connection, caller, workload_id))
    question = WhyWaiting(workload=WorkloadId(row.id), changes=changes)
    answer = await ask(plane, row.cluster, question, wire.WorkloadWait)
    report = of_run(report_of(row), row.run)
    since = report.waiting_since if report is not None else None
    if answer.expected_start is None or since is None:
        return answer
    before = await plane.read(lambda connection: estimates.first(connection, row.id, since))
    if before is None:
        with suppress(Unavailable):  # the answer is good without a record of it
            await plane.write(lambda connection: estimates.add(connection, _kept(row, since, answer)))
        return answer
    if iso(before.expected_at) == answer.expected_start.expected_at:
        return answer
    first = wire.EarlierEstimate(made_at=iso(before.made_at), expected_at=iso(before.expected_at))
    return answer.model_copy(update={"expected_start": answer.expected_start.model_copy(update={"first": first})})


def _kept(row: Any, since: int, answer: wire.WorkloadWait) -> dict[str, Any]:
    estimate = answer.expected_start
    assert estimate is not None
    return {
        "workload": row.id,
        "waiting_since": since,
        "run": row.run,
        "made_at": instant(answer.taken_at),
        "expected_at": instant(estimate.expected_at),
        "earliest_at": None if estimate.earliest_at is None else instant(estimate.earliest_at),
        "latest_at": None if estimate.latest_at is None else instant(estimate.latest_at),
        "basis": ",".join(estimate.basis),
        "started_at": None,
    }


# --- how far off estimates were ------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/workloads/start-estimates",
    action=Action.WORKLOAD_READ,
    answer=wire.EstimateAccuracy,
    summary="Get how far off estimates of starts were, of the workloads you can see",
)
async def accuracy(
    plane: Plane,
    caller: Caller,
    since: Annotated[str, Parameter(max_length=64, description="A moment, or how long ago: 7d")] = "30d",
    project: Annotated[str, Parameter(alias="projectId", max_length=64, description="Only of this project")] = "",
) -> Response:
    now = plane.now()
    begin = moment_or_ago(since, now)
    if begin is None:
        raise refused(400, "request.not_a_moment", f"{since!r} is not a moment", "use ISO 8601, or 90s, 10m, 2h, 7d")

    def unit(connection: Connection) -> wire.EstimateAccuracy:
        rows = [
            row
            for row in estimates.made_after(connection, begin)
            if (not project or former_name(row.project) == project)
            and caller.may(Action.WORKLOAD_READ, row.project, row.department, row.cluster)
        ]
        started = [row for row in rows if row.started_at is not None]
        total = _errors(started)
        bases = sorted({row.basis for row in started})
        return wire.EstimateAccuracy(
            as_of=iso(now),
            since=iso(begin),
            open=sum(row.started_at is None and row.run == row.run_now for row in rows),
            message=f"within 5 min in {total.within_5_min} of {total.estimates}" if started else "no estimates yet",
            total=total,
            by_basis=[_errors([row for row in started if row.basis == basis], basis) for basis in bases],
        )

    return await plane.answer_apart(unit)


def _errors(started: list[Any], basis: str = "") -> wire.EstimateErrors:
    errors = [row.started_at - row.expected_at for row in started]
    return wire.EstimateErrors(
        basis=basis,
        estimates=len(errors),
        within_5_min=sum(abs(error) <= CLOSE_MS for error in errors),
        within_interval=sum(_is_within(row) for row in started),
        later=sum(error > CLOSE_MS for error in errors),
        earlier=sum(error < -CLOSE_MS for error in errors),
        median_error_s=round(median(errors) / 1000) if errors else None,
    )


def _is_within(row: Any) -> bool:
    not_before = row.earliest_at is None or row.started_at >= row.earliest_at
    return not_before and (row.latest_at is None or row.started_at <= row.latest_at)
