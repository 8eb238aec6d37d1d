"""The application: its routes, its guard, and how problems become answers. `create_app` is where to begin.

app = create_app(Settings(data=Path("data")))
uvicorn.run(app, host="127.0.0.1", port=8080)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from argon2 import PasswordHasher
from fastapi import FastAPI
from fastapi.exceptions import HTTPException, RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import fairpool
from fairpool.api.nodes import ClusterRequest
from fairpool.control import (
    access_rules,
    applications,
    audit,
    claims,
    classic,
    cluster_sync,
    clusters,
    departments,
    description,
    housekeeping,
    nodes,
    older_paths,
    organization,
    overview,
    pages,
    preferences,
    projects,
    sign_in,
    streams,
    uploads,
    users,
    workloads,
)
from fairpool.control.attempts import Attempts
from fairpool.control.guard import GUARD
from fairpool.control.host_check import STRANGERS_BODY_MAX_BYTES, Threshold, is_open
from fairpool.control.owner import SignInLinks
from fairpool.control.passwords import Passwords
from fairpool.control.plane import Plane, on_denied
from fairpool.control.pod_access import NoPodAccess, PodAccess
from fairpool.control.refusal import Refused, on_bug, on_http_error, on_invalid, on_unavailable, refused
from fairpool.control.settings import Settings
from fairpool.control.signpost import Signpost
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store.database import Connection, Database
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.trouble import Unavailable
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

MODULES = (
    *(streams, uploads, cluster_sync, clusters, projects, departments, nodes, overview, claims),
    *(sign_in, users, applications, access_rules, audit, preferences),
    *(classic, older_paths),
)
"""Whoever has routes, beside workloads, which come first."""


def create_app(
    settings: Settings, *, pod_access: PodAccess | None = None, hasher: PasswordHasher | None = None
) -> FastAPI:
    """The control plane. Opens its database when it starts and closes it when it stops."""
    database = Database(settings.data / "control.sqlite")
    plane = Plane(settings=settings, database=database, pod_access=pod_access or NoPodAccess())
    database.after_commit = plane.notifier.ring
    app = FastAPI(
        title="Fairpool",
        version=fairpool.__version__,
        description="Share GPUs between teams: projects, quotas, access and workloads.",
        openapi_url=None,  # served by us, to callers
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # else asked about at every call, and unused
        dependencies=[GUARD],
        responses=description.REFUSALS,
    )
    app.state.plane = plane
    app.state.passwords = Passwords(hasher)
    app.state.attempts = Attempts()
    app.state.links = SignInLinks()
    app.state.is_ready = lambda: True
    app.state.reference = None
    for router in (workloads.lists, workloads.singles, workloads.router):
        app.include_router(router)
    for module in MODULES:
        app.include_router(module.router)
    app.include_router(description.router)
    app.include_router(pages.router)
    app.add_exception_handler(Refused, on_denied)
    app.add_exception_handler(Unavailable, on_unavailable)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(WebSocketRequestValidationError, on_invalid)
    app.add_exception_handler(AnyHTTPException, on_http_error)
    app.add_exception_handler(Exception, on_bug)
    app.router.middleware_stack = Signpost(app)
    app.add_middleware(BodyLimit, most=settings.body_max_bytes)
    app.add_middleware(Threshold, plane=plane)  # the last is the first that is asked
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    plane: Plane = app.state.plane
    await plane.database.open(upgrade)
    try:
        app.state.first_password_ignored = await prepare(plane, app.state.passwords)
        await sign_in.recall_addresses(plane, app.state.attempts)
        problem = await users.listening_problem(plane, plane.settings.is_local)
        if problem is not None:
            raise NotReady(problem)
        tidying = {
            asyncio.create_task(housekeeping.keep_tidy(plane), name="housekeeping"),
            asyncio.create_task(uploads.keep_tidy(plane), name="uploads"),
        }
        try:
            yield
        finally:
            for each in tidying:
                each.cancel()
            await asyncio.wait(tidying)
    finally:
        app.state.passwords.close()
        await plane.database.close()


class NotReady(Exception):
    """The control plane must not start like this."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


async def prepare(plane: Plane, passwords: Passwords) -> bool:
    """What is there from the start: one administrator, one department, one pool, one cluster; perhaps a project.

    Whether a first password that was configured is ignored.
    """
    is_ignored = await users.make_first_user(plane, passwords)

    def unit(connection: Connection) -> None:
        organization.make_first_organization(plane, connection)
        if not cluster_store.all_clusters(connection):
            clusters.add_cluster(plane, connection, ClusterRequest(name=plane.settings.cluster_name))
            if plane.settings.first_project:
                projects.make_first_project(plane, connection)

    await plane.write(unit)
    return is_ignored


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """How a cluster calls itself, and proves it."""

    id: str
    name: str
    token: str


async def cluster_identity(app: FastAPI, name: str | None = None) -> ClusterIdentity:
    """A fresh identity for a cluster that runs beside us: its earlier tokens end."""
    plane: Plane = app.state.plane

    def unit(connection: Connection) -> ClusterIdentity:
        row = cluster_store.cluster_by_name(connection, name or plane.settings.cluster_name)
        if row is None:
            raise refused(404, "cluster.unknown", f"there is no cluster {name}", "add it first")
        return ClusterIdentity(row.id, row.name, clusters.new_cluster_token(plane, connection, row.id))

    identity = await plane.write(unit)
    plane.forget_callers()
    return identity


BODY_LIMITS = {
    "/api/v1/cluster/push": 256 * 1024 * 1024,  # a cluster's report grows with the cluster
    "/api/v1/cluster/pull": 64 * 1024,
}
"""Routes with a limit of their own. The guard is asked before any byte of a body is read, whatever the limit."""


class BodyLimit:
    """Nobody fills our memory: a body beyond the limit is refused before it is read, or when it turns out to be."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._limit(scope)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > most:
            await _too_large(most).response()(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                # The framework calls every other exception here a body that is no JSON.
                raise HTTPException(413, _too_large(most).message)
            return message

        await self._app(scope, counted, send)

    def _limit(self, scope: Scope) -> int:
        if is_open(scope):
            return STRANGERS_BODY_MAX_BYTES
        return BODY_LIMITS.get(scope["path"], self._most)


def _too_large(most: int) -> Refused:
    size = f"{most // (1024 * 1024)} MiB" if most >= 1024 * 1024 else f"{most // 1024} KiB"
    return refused(413, "request.too_large", f"the request body is larger than {size}", "send a smaller request")
