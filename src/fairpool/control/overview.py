"""HTTP route for the overview: nodes, projects and jobs from one read of the database, so that figures add up."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from starlette.responses import Response

from fairpool.api import overview as wire
from fairpool.control.clusters import known_cluster
from fairpool.control.latest_figures import missing_samples, with_measured
from fairpool.control.metric_query import PARTLY
from fairpool.control.moments import iso
from fairpool.control.nodes import all_nodes
from fairpool.control.plane import Caller, Plane
from fairpool.control.projects import visible_projects
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.workloads import RENDERED_AT_ONCE, Measured, with_measured_work

routes = Routes("nodes")

InCluster = Annotated[
    str, Parameter(alias="clusterId", max_length=256, description="Id or name of a cluster; empty: all clusters")
]


@routes.get(
    "/api/v1/overview",
    action=Action.NODE_READ,
    answer=wire.Overview,
    responses=PARTLY,
    summary="Get a snapshot of nodes, projects and running jobs",
)
async def overview(plane: Plane, caller: Caller, cluster: InCluster = "", measured: Measured = False) -> Response:
    def unit(connection: Connection) -> tuple[wire.Overview, list[Any]]:
        only = known_cluster(connection, cluster).id if cluster else None
        places = caller.places(Action.WORKLOAD_READ)
        busy, hidden = [], 0
        for row in store.busy(connection, only):
            if places is None or places.covers(row.project, row.department, row.cluster):
                busy.append(store.Key._make(row[:3]))
            else:
                hidden += 1
        waiting = {
            row.project: row.number
            for row in store.waiting(connection, only)
            if places is None or places.covers(row.project, row.department, row.cluster)
        }
        rest = wire.Overview(
            as_of=iso(plane.now()),
            nodes=[each for each in all_nodes(connection) if only in (None, each.cluster_uuid)],
            projects=[each for each in visible_projects(plane, connection, caller) if only in (None, each.cluster_id)],
            waiting=waiting,
            hidden_workloads=hidden,
            workloads=[],
        )
        return rest, plane.rendered.looked_up(connection, busy)

    whole, found = await plane.read_apart(unit)
    texts: list[str] = []
    for start in range(0, len(found), RENDERED_AT_ONCE):
        await asyncio.sleep(0)
        texts += plane.rendered.texts(found[start : start + RENDERED_AT_ONCE])
    if measured:
        try:
            texts = await with_measured_work(plane, texts)
            whole = whole.model_copy(update={"nodes": await with_measured(plane, whole.nodes)})
        except Unavailable as error:
            whole = whole.model_copy(update={"problems": missing_samples(error)})
    rest = await asyncio.to_thread(whole.model_dump_json, by_alias=True, exclude_none=True, exclude={"workloads"})
    status = 207 if whole.problems else 200
    return Response(f'{rest[:-1]},"workloads":[{",".join(texts)}]}}', status, media_type="application/json")
