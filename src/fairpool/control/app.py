"""The ASGI application: routes, middleware, exception handlers, start-up. `create_app` is the entry point.

app = create_app(Settings(data=Path("data")))
uvicorn.run(app, host="127.0.0.1", port=8080)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairpool.api.nodes import ClusterRequest
from fairpool.control import (
    access_keys,
    access_rules,
    accounting,
    applications,
    assets,
    audit,
    audit_forwarding,
    change_stream,
    claims,
    classic,
    cluster_equipment,
    cluster_secrets,
    cluster_sync,
    clusters,
    command_pages,
    command_sign_in,
    config_maps,
    consumption_reports,
    credentials,
    decisions,
    departments,
    description,
    devices,
    downloads,
    housekeeping,
    identity_providers,
    limit_warnings,
    logs,
    lost_clusters,
    mail_settings,
    metrics,
    nodes,
    notification_channels,
    notification_delivery,
    notifications,
    older_access,
    older_metrics,
    older_organization,
    older_paths,
    organization,
    overview,
    overview_figures,
    page_preferences,
    pages,
    password_pages,
    password_reset,
    pods,
    policies,
    port_forward,
    preferences,
    projects,
    provider_sign_in,
    questions,
    registries,
    roles,
    saml_sign_in,
    sample_intake,
    scrape,
    sessions,
    shares,
    shells,
    sign_in,
    storage_classes,
    submit,
    telemetry,
    templates,
    token_issuer,
    tool_pages,
    topologies,
    tunnel_route,
    typed_templates,
    updates,
    uploads,
    users,
    wait_times,
    waiting,
    workload_properties,
    workloads,
)
from fairpool.control.cluster_pods import ClusterPods
from fairpool.control.endpoint import Endpoint
from fairpool.control.host_check import HostCheck
from fairpool.control.passwords import Passwords
from fairpool.control.plane import Plane, on_denied
from fairpool.control.pod_access import PodAccess
from fairpool.control.provider_client import ProviderClient
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, on_bug, on_http_error, on_unavailable, on_unfit, refused
from fairpool.control.router import Router
from fairpool.control.routes import Route
from fairpool.control.sealing import KeyUnusable
from fairpool.control.settings import Settings
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import processes, shared_keys
from fairpool.control.store.database import Connection
from fairpool.control.store.location import database_at
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.store.unfit import Unfit
from fairpool.control.token_keys import KeysUnusable
from fairpool.control.tunnel_holders import ALIVE_S
from fairpool.control.web_ui import WebUi
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

MODULES = (
    *(change_stream, logs, shells, port_forward, uploads, cluster_sync, cluster_equipment, sample_intake),
    *(tunnel_route, questions),
    *(clusters, projects, metrics, telemetry, older_metrics, scrape, waiting, wait_times, shares, devices, decisions),
    *(
        departments,
        nodes,
        topologies,
        overview,
        overview_figures,
        claims,
        config_maps,
        sign_in,
        users,
        applications,
        access_rules,
    ),
    *(roles, audit, sessions, token_issuer, mail_settings, access_keys, password_reset, password_pages),
    *(
        preferences,
        page_preferences,
        templates,
        assets,
        policies,
        credentials,
        cluster_secrets,
        registries,
        storage_classes,
        workload_properties,
        pods,
        typed_templates,
        workloads,
        submit,
        updates,
        classic,
        older_access,
        older_organization,
        older_paths,
    ),
    *(notifications, notification_channels, accounting, consumption_reports),
    *(
        identity_providers,
        description,
        pages,
        provider_sign_in,
        saml_sign_in,
        command_sign_in,
        command_pages,
        tool_pages,
        downloads,
    ),
)
ROUTES: tuple[Route, ...] = tuple(route for module in MODULES for route in module.routes)


def create_app(
    settings: Settings,
    *,
    pod_access: PodAccess | None = None,
    hasher: PasswordHasher | None = None,
    web_ui: WebUi | None = None,
) -> Starlette:
    """The control plane. Opens its database when it starts and closes it when it stops.

    `pod_access` is for the cluster in this process; clusters elsewhere are reached through their tunnels. `web_ui`: by
    default, the one that was built into this package.
    """
    database = database_at(settings.database, settings.data)
    plane = Plane(settings=settings, database=database, pod_access=ClusterPods(pod_access))
    web_ui = web_ui or WebUi()
    router = Router(ROUTES, Endpoint, _lifespan, web_ui.is_page)
    app = Starlette(
        middleware=[
            Middleware(HostCheck, plane=plane, router=router),
            Middleware(BodyLimit, router=router, most=settings.body_max_bytes),
        ],
        exception_handlers={
            Refused: on_denied,
            Unavailable: on_unavailable,
            Unfit: on_unfit,
            HTTPException: on_http_error,
            Exception: on_bug,
        },
    )
    app.router = router
    app.state.plane = plane
    app.state.passwords = Passwords(hasher)
    app.state.mails = set()
    app.state.provider_client = ProviderClient()
    app.state.is_ready = lambda: True
    app.state.routes = ROUTES
    app.state.description = None
    app.state.web_ui = web_ui
    app.state.command_download = downloads.CommandDownload()
    return app


NEW_KEYS_S = ALIVE_S + 1.0
"""Until each process has noted that it signs with another key."""
MAILS_S = 5.0
"""How long mails that are being sent may still take when the server stops."""


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    plane: Plane = app.state.plane
    await asyncio.to_thread(app.state.web_ui.load)
    await plane.database.open(upgrade)
    try:
        if plane.database.is_shared:
            await _check_keys(plane)
        app.state.first_password_ignored = await create_defaults(plane, app.state.passwords)
        problem = await users.listening_problem(plane, plane.settings.is_local)
        if problem is not None:
            raise StartupFailed(problem)
        tidying = {
            asyncio.create_task(plane.database.in_one_process(partial(_tidy, plane)), name="housekeeping"),
            asyncio.create_task(sessions.save_session_use(plane), name="sessions"),
        }
        try:
            yield
        finally:
            for each in tidying:
                each.cancel()
            await asyncio.wait(tidying)
            await sessions.save_once(plane, is_closing=True)
            if app.state.mails:
                await asyncio.wait(app.state.mails, timeout=MAILS_S)
    finally:
        app.state.passwords.close()
        plane.pod_access.close()
        await asyncio.to_thread(plane.samples.close)
        await plane.database.close()


async def _check_keys(plane: Plane) -> None:
    """Refuse to start with other keys than the other processes of this database have. Raises `StartupFailed`."""
    try:
        key = plane.key_file.key()
    except KeyUnusable as error:
        raise StartupFailed(error.problem) from error
    used = await plane.write(lambda connection: shared_keys.agreed(connection, "credentials", key.id, plane.now()))
    if used != key.id:
        where = plane.settings.keys or plane.settings.data
        what = f"the key of credentials in {where} is {key.id}, and other control planes of this database use {used}"
        fix = "share one directory of keys between them with --keys, or copy their files there"
        raise StartupFailed(Problem("keys.differ", what, fix))
    await _check_token_keys(plane)


async def _check_token_keys(plane: Plane) -> None:
    """The same for the keys of tokens. They may have been replaced just now, so it is looked for a while."""
    for is_last in (False, True):
        since = plane.now() - int(3 * ALIVE_S * SECOND_MS)
        others = await plane.read(partial(processes.others, process=plane.process, since=since))
        try:
            ours = {each.id for each in plane.token_keys.published(plane.now())}
        except KeysUnusable as error:
            raise StartupFailed(error.problem) from error
        theirs = {each.token_key for each in others if each.token_key} - ours
        if not theirs:
            return
        if is_last:
            where, used = plane.settings.keys or plane.settings.data, ", ".join(sorted(theirs))
            what = f"the token keys in {where} differ from those of a running control plane of this database"
            fix = "share one directory of keys between them with --keys"
            raise StartupFailed(Problem("keys.differ", f"{what} ({used})", fix))
        await asyncio.sleep(NEW_KEYS_S)


async def _tidy(plane: Plane) -> None:
    """What one of several processes does for all of them, until it is cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(housekeeping.delete_old_rows(plane), name="old rows")
        tasks.create_task(audit_forwarding.forward_entries(plane), name="audit forwarding")
        tasks.create_task(notification_delivery.send_notifications(plane), name="notifications")
        tasks.create_task(lost_clusters.announce_lost_clusters(plane), name="lost clusters")
        tasks.create_task(limit_warnings.warn_of_limits(plane), name="limit warnings")
        tasks.create_task(uploads.delete_unused_uploads(plane), name="uploads")
        tasks.create_task(claims.delete_marked_claims(plane), name="claims")
        tasks.create_task(accounting.keep_sums(plane), name="accounting")


class StartupFailed(Exception):
    """The control plane refuses to start."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


async def create_defaults(plane: Plane, passwords: Passwords) -> bool:
    """Create what every installation has: an administrator, a department, a pool, perhaps a cluster and a project.

    True: a first password was configured but is ignored, because the account has one already.
    """
    is_ignored = await users.make_first_user(plane, passwords)

    def unit(connection: Connection) -> None:
        organization.make_first_organization(plane, connection)
        for row in organization_store.all_projects(connection):
            organization.note_quotas(plane, connection, row)
        if plane.settings.cluster_name and not cluster_store.all_clusters(connection):
            clusters.add_cluster(plane, connection, ClusterRequest(name=plane.settings.cluster_name))
            if plane.settings.first_project:
                projects.make_first_project(plane, connection)

    await plane.write(unit)
    return is_ignored


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Name and credentials of a cluster."""

    id: str
    name: str
    token: str


async def cluster_identity(app: Starlette, name: str | None = None) -> ClusterIdentity:
    """New credentials for a cluster that connects over HTTP, as in tests and benchmarks; earlier tokens are revoked."""
    plane: Plane = app.state.plane

    def unit(connection: Connection) -> ClusterIdentity:
        row = cluster_store.cluster_by_name(connection, name or plane.settings.cluster_name)
        if row is None:
            raise refused(404, "cluster.unknown", f"there is no cluster {name}", "add it first")
        return ClusterIdentity(row.id, row.name, clusters.new_cluster_token(plane, connection, row.id))

    return await plane.write(unit)


OPEN_BODY_MAX_BYTES = 16 * 1024
"""Before a caller is authenticated: a name and a password, or a token."""


class BodyLimit:
    """Middleware: refuses a body that is declared, or turns out to be, larger than its route takes."""

    def __init__(self, app: ASGIApp, router: Router, most: int) -> None:
        self._app = app
        self._router = router
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
                raise _too_large(most)
            return message

        await self._app(scope, counted, send)

    def _limit(self, scope: Scope) -> int:
        match = self._router.match(scope)
        if match is None:
            return self._most
        if match.route.action is Action.OPEN:
            return OPEN_BODY_MAX_BYTES
        return match.route.body_max_bytes or self._most


def _too_large(most: int) -> Refused:
    size = f"{most // (1024 * 1024)} MiB" if most >= 1024 * 1024 else f"{most // 1024} KiB"
    return refused(413, "request.too_large", f"the request body is larger than {size}", "send a smaller request")
