"""HTTP route for Prometheus: everything at one moment, as text. Each caller gets the series of what they may see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api.exposition import CONTENT_TYPE, encoded, registry_text
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.scrape_facts import Scraped, scraped
from fairpool.control.scrape_names import ScrapeSubject
from fairpool.control.scrape_series import Viewer, series_texts
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.metrics.recent_use import NOW_S
from fairpool.model.bulk_read import without_garbage_collection
from fairpool.model.ids import SECOND_MS

routes = Routes("metrics")

Collect = Annotated[
    list[Annotated[str, Parameter(max_length=32)]],
    Parameter(alias="collect[]", max_length=16, description="Only these: " + ", ".join(ScrapeSubject)),
]


@routes.get(
    "/metrics",
    action=Action.NODE_READ,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    summary="Get the series of everything you can see, in Prometheus's text format",
)
async def metrics(
    request: Request,
    plane: Plane,
    caller: Caller,
    collect: Collect = [],  # noqa: B006 (read only)
) -> Response:
    """Compressed for callers that accept gzip."""
    packs = "gzip" in request.headers.get("accept-encoding", "")
    body = await scrape(plane, viewer_of(caller), _subjects(collect), packs=packs)
    headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if packs else {})
    return Response(body, headers=headers | {"Content-Type": CONTENT_TYPE})


def _subjects(said: Collection[str]) -> Collection[ScrapeSubject]:
    unknown = sorted(set(said) - set(ScrapeSubject))
    if unknown:
        what = f"there are no series of {unknown[0]!r}"
        raise refused(422, "metric.unknown", what, f"use {', '.join(ScrapeSubject)}", "collect[]")
    return [ScrapeSubject(each) for each in said] or list(ScrapeSubject)


def viewer_of(caller: Caller) -> Viewer:
    def sees(action: Action) -> Any:
        places = caller.places(action)
        return lambda *where: places is None or places.covers(*where)

    return Viewer(
        nodes=caller.may(Action.NODE_READ),
        projects=sees(Action.PROJECT_READ),
        departments=sees(Action.DEPARTMENT_READ),
        workloads=sees(Action.WORKLOAD_READ),
    )


EVERYTHING = Viewer(nodes=True, projects=lambda *_: True, departments=lambda *_: True, workloads=lambda *_: True)


SAMPLES_S: Final = 3.0
"""How long a scrape waits for samples: without them it is served all the same."""


async def scrape(plane: Plane, viewer: Viewer, subjects: Collection[ScrapeSubject], *, packs: bool) -> bytes:
    """What the viewer may see of these subjects. Where the database is away, the figures of the process remain.

    One at a time: each takes as much of a core as it can get.
    """
    async with plane.lock("scrape"):
        return await _scrape(plane, viewer, subjects, packs=packs)


async def _scrape(plane: Plane, viewer: Viewer, subjects: Collection[ScrapeSubject], *, packs: bool) -> bytes:
    started = time.perf_counter()
    own = ""
    if viewer.nodes and ScrapeSubject.PROCESS in subjects:
        own = await asyncio.to_thread(registry_text, plane.measures.registry)
    rest: list[str] = []
    if set(subjects) != {ScrapeSubject.PROCESS} or plane.cluster_figures is not None:
        try:
            rest = await _organization_texts(plane, viewer, subjects)
        except Unavailable:
            if not own:
                raise
    body = await asyncio.to_thread(encoded, [own, *rest], packs=packs)
    plane.measures.scrape_s.observe(time.perf_counter() - started)
    return body


async def _organization_texts(plane: Plane, viewer: Viewer, subjects: Collection[ScrapeSubject]) -> list[str]:
    now = plane.now()

    def unit(connection: Connection) -> tuple[Scraped, dict[str, tuple[str, str]]]:
        return scraped(plane, connection, now), organization_store.homes(connection)

    found, homes = await plane.read_apart(unit)
    try:
        async with asyncio.timeout(SAMPLES_S):
            for cluster in found.clusters:
                cluster.measured.update(await plane.samples.latest_slots(f"{cluster.id}/", NOW_S))
    except (Unavailable, TimeoutError):
        pass  # what is declared and held is known all the same
    activities = {each.id: plane.activity.of(each.id, now / SECOND_MS) for each in found.clusters}
    away_s = plane.settings.cluster_away_s
    with without_garbage_collection():  # it would hold up everything else for as long as this takes
        texts = await asyncio.to_thread(series_texts, found, activities, viewer, subjects, away_s)
    if plane.cluster_figures is None:
        return texts

    def sees(project: str) -> bool:
        return viewer.workloads(project, *homes.get(project, ("", "")))

    own = viewer.nodes and ScrapeSubject.PROCESS in subjects
    jobs = sees if ScrapeSubject.JOBS in subjects else None
    return [*texts, await asyncio.to_thread(plane.cluster_figures, own, jobs)]
