"""HTTP route for the overview: nodes, projects and jobs from one read of the database, so that figures add up."""

from __future__ import annotations

from starlette.responses import Response

from fairpool.api import overview as wire
from fairpool.control.nodes import all_nodes
from fairpool.control.plane import Caller, Plane
from fairpool.control.projects import visible_projects
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.workloads import rendered_items

routes = Routes("nodes")


@routes.get(
    "/api/v1/overview",
    action=Action.NODE_READ,
    answer=wire.Overview,
    summary="Get a snapshot of nodes, projects and running jobs",
)
async def overview(plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> tuple[str, list[store.Key]]:
        places = caller.places(Action.WORKLOAD_READ)
        busy, hidden = [], 0
        for row in store.busy(connection):
            if places is None or places.covers(row.project, row.department):
                busy.append(store.Key._make(row[:3]))
            else:
                hidden += 1
        waiting = {
            row.project: row.number
            for row in store.waiting(connection)
            if places is None or places.covers(row.project, row.department)
        }
        rest = wire.Overview(
            nodes=all_nodes(connection),
            projects=visible_projects(connection, caller),
            waiting=waiting,
            hidden_workloads=hidden,
            workloads=[],
        ).model_dump_json(by_alias=True, exclude_none=True, exclude={"workloads"})
        return rest, busy

    rest, busy = await plane.read(unit)
    texts = await rendered_items(plane, busy)
    return Response(f'{rest[:-1]},"workloads":[{",".join(texts)}]}}', media_type="application/json")
