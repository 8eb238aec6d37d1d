"""Pull and push of clusters: what is desired is pulled from here, what is observed is pushed to here.

A pull is held until something that was declared changes, at most 20 s. A push is a report or a piece of one; it is
taken in by `report_intake.py`, in slices, because nothing may keep the event loop busy for long.
A cluster is known by its token, and neither reads nor writes rows of another. The loop of the same process calls
`pulled` and `pushed` directly; simulations, which have no event loop, call `pull_now` and `push_now`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Set
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairpool.api import clusters as link
from fairpool.api.declarations import OrganizationWire
from fairpool.api.message import PREVIOUS, VERSION
from fairpool.api.problems import problem_item
from fairpool.api.report_reader import read_report
from fairpool.control import declarations
from fairpool.control.clusters import known_cluster, note_contact
from fairpool.control.exclusive import LOOK_AGAIN_S, lease_ends
from fairpool.control.organization import organization_wire
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.report_intake import SLICE_S, ReportIntake
from fairpool.control.routes import Routes
from fairpool.control.store import changes, leases
from fairpool.control.store import clusters as store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.version_skew import is_withheld, withheld, withheld_report
from fairpool.control.workload_documents import declaration_in, report_of
from fairpool.model.ids import SECOND_MS, Revision, Token, WorkloadId
from fairpool.model.problem import Problem

routes = Routes("clusters")

PULL_ROWS = 32
"""Workloads of an answer that are read or written at a time."""
CLOSING_WAIT_S = 0.2
"""How long a pull waits for changes while the server stops: it must end before its connection is cut, and a cluster
that asks again at once must not keep the server busy."""
NOTED_WITH_NEWS, NOTED_WITHOUT = 1 / 2, 1 / 6
"""A pull is noted if the cluster was last seen so long ago, as a part of the time after which it counts as away."""


# --- pull ----------------------------------------------------------------------------------------------------


@routes.post(
    "/api/v1/cluster/pull",
    action=Action.LINK,
    summary="Get declarations that changed since a revision (called by clusters)",
    answer=link.PullAnswer,
    body_max_bytes=64 * 1024,
)
async def pull(plane: Plane, caller: Caller, body: link.PullRequest) -> Response:
    if body.version < PREVIOUS:
        raise refused(
            422,
            "wire.version",
            f"this cluster speaks protocol version {body.version}, the control plane {PREVIOUS} and {VERSION}",
            "upgrade the cluster to the release of its control plane",
        )
    version = min(body.version, VERSION)
    answer = await pulled(plane, caller.id, Revision(body.after), body.wait_s, version)
    parts = pull_parts(answer, version)
    if len(answer.workloads) <= PULL_ROWS:
        return Response("".join(parts), media_type="application/json")
    return StreamingResponse(_sent(parts), media_type="application/json")


async def pulled(plane: Plane, cluster: str, after: Revision, wait_s: float, version: int = VERSION) -> link.PullAnswer:
    """What changed after a revision, waiting a while for something to change."""
    deadline = plane.now() + int(min(wait_s, plane.settings.pull_wait_s) * SECOND_MS)
    while True:
        listening = plane.notifier.listen()
        span = await plane.read(changes.declared_span)
        left_s = (deadline - plane.now()) / SECOND_MS
        if span.revision != after or left_s <= 0:
            listening.cancel()
            break
        await plane.notifier.wait(listening, min(left_s, CLOSING_WAIT_S) if plane.notifier.is_closing else left_s)
        if plane.notifier.is_closing:
            break  # with an empty answer, before the connection is cut
    # To list all workloads, or to put the organization together, takes longer than users should wait.
    read = plane.read_apart if span.is_whole(after) or span.organization > after else plane.read
    news = await read(lambda connection: _news(plane, connection, cluster, after))
    workloads: list[link.DesiredWorkload] = []
    for ids in news.slices():
        await asyncio.sleep(0)  # users are answered in between
        workloads += await plane.read(partial(_desired, cluster=cluster, ids=ids))
    if news.is_noted:
        await plane.write(lambda connection: note_call(plane, connection, cluster))
    not_sent = withheld(workloads, version)
    if not_sent:
        await plane.write(lambda connection: _show_withheld(plane, connection, not_sent, version))
    return news.answer(workloads, {each.id for each, _ in not_sent})


def note_call(plane: Plane, connection: Connection, cluster: str) -> None:
    """It has called."""
    note_contact(plane, connection, known_cluster(connection, cluster))
    store.set_last_seen(connection, cluster, plane.now())


def _show_withheld(
    plane: Plane, connection: Connection, not_sent: list[tuple[link.DesiredWorkload, list[str]]], version: int
) -> None:
    for workload, fields in not_sent:
        row = workload_store.one(connection, workload.id)
        # One that was changed since its cluster got it runs there as it was.
        if row is not None and (row.report is None or is_withheld(report_of(row))):
            report = withheld_report(workload, fields, version, plane.now())
            declarations.observe(plane, connection, row, report, report.to_json())


def pull_now(plane: Plane, cluster: str, after: Revision) -> link.PullAnswer:
    """The same without an event loop, and without waiting."""

    def read_all(connection: Connection) -> tuple[News, list[link.DesiredWorkload]]:
        news = _news(plane, connection, cluster, after)
        return news, [each for ids in news.slices() for each in _desired(connection, cluster, ids)]

    news, workloads = plane.database.read_now(read_all)
    if news.is_noted:
        plane.database.write_now(lambda connection: note_call(plane, connection, cluster))
    return news.answer(workloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What changed after a revision; the workloads only by their ids.

    They are read afterwards, a few at a time. Each is then as it is by that time, or gone; if it changed meanwhile, it
    is news again after the revision of this answer.
    """

    after: Revision
    revision: Revision
    whole: bool
    ids: list[str]
    organization: OrganizationWire | None
    reported_token: Token | None
    reported_events: int
    is_noted: bool
    """Whether the call is to be noted: an answer with news is followed by a report, which is."""

    def slices(self) -> Iterator[list[str]]:
        return (self.ids[first : first + PULL_ROWS] for first in range(0, len(self.ids), PULL_ROWS))

    def answer(self, workloads: list[link.DesiredWorkload], not_sent: Set[WorkloadId] = frozenset()) -> link.PullAnswer:
        found = {each.id for each in workloads}
        return link.PullAnswer(
            after=self.after,
            revision=self.revision,
            whole=self.whole,
            workloads=tuple(each for each in workloads if each.id not in not_sent),
            removed=() if self.whole else tuple(WorkloadId(each) for each in self.ids if each not in found),
            organization=self.organization,
            reported_token=self.reported_token,
            reported_events=self.reported_events,
        )


def _news(plane: Plane, connection: Connection, cluster: str, after: Revision) -> News:
    """What changed after a revision. Everything, if none was read yet, or one that is not or no longer known here."""
    known = known_cluster(connection, cluster)
    span = changes.declared_span(connection)
    revision, whole = span.revision, span.is_whole(after)
    changed = changes.declared_after(connection, after) if not whole and after < revision else []
    organization_is_news = whole or any(noun in changes.ORGANIZATION for noun, _ in changed)
    if whole:
        ids = workload_store.declared_ids(connection, cluster)
    else:
        ids = [name for noun, name in changed if noun == "workload"]
        elsewhere = workload_store.of_other_clusters(connection, ids, cluster)
        ids = [each for each in ids if each not in elsewhere]
    patience = NOTED_WITH_NEWS if whole or revision != after else NOTED_WITHOUT
    away_ms = plane.settings.cluster_away_s * SECOND_MS
    return News(
        after=after,
        revision=revision,
        whole=whole,
        ids=ids,
        organization=organization_wire(plane, connection, cluster) if organization_is_news else None,
        reported_token=None if known.report_token is None else Token(known.report_token),
        reported_events=known.events_through,
        is_noted=known.last_seen_at is None or plane.now() - known.last_seen_at > away_ms * patience,
    )


def _is_for(row: Any, cluster: str) -> bool:
    return row.deleted_at is None and row.cluster == cluster


def _desired(connection: Connection, cluster: str, ids: list[str]) -> list[link.DesiredWorkload]:
    """Those of these that are there and belong to this cluster."""
    found = workload_store.some(connection, ids)
    incarnations = store.incarnations(connection, ids)
    desired = []
    for row in (found[each] for each in ids if each in found and _is_for(found[each], cluster)):
        report = report_of(row)
        over = link.Over.of_report(report) if report is not None and report.run == row.run else None
        done = report.done if report is not None else ()
        desired.append(_desired_in(row.declaration).with_reported(over, incarnations.get(row.id, {}), done))
    return desired


# The same text is the same value, which cannot be changed; and a cluster that starts asks for all of them.
@lru_cache(maxsize=1024)
def _desired_in(declaration: str) -> link.DesiredWorkload:
    return link.DesiredWorkload.of_declared(declaration_in(declaration).workload)


def pull_parts(answer: link.PullAnswer, version: int) -> Iterator[str]:
    """An answer as text, a few workloads at a time."""
    rest = answer.to_json(version, without="workloads")
    yield f'{rest[:-1]},"workloads":['  # an object with at least a version, of which the end is still to come
    for first in range(0, len(answer.workloads), PULL_ROWS):
        written = [each.to_json(version) for each in answer.workloads[first : first + PULL_ROWS]]
        yield f"{',' if first else ''}{','.join(written)}"
    yield "]}"


async def _sent(parts: Iterator[str]) -> AsyncIterator[str]:
    """The parts, between which users are answered."""
    for each in parts:
        yield each
        await asyncio.sleep(0)


# --- push ----------------------------------------------------------------------------------------------------


@routes.post(
    "/api/v1/cluster/push",
    action=Action.LINK,
    summary="Report the state of a cluster (called by clusters)",
    request_body=link.PushReport,
    answer=link.PushAnswer,
    body_max_bytes=64 * 1024 * 1024,  # clusters of the previous version do not report in pieces
)
async def push(request: Request, plane: Plane, caller: Caller) -> Response:
    report = await _read_in_slices(await request.body())
    if isinstance(report, list):
        raise Refused(422, [problem_item(each) for each in report])
    answer = await pushed(plane, caller.id, report)
    return Response(answer.to_json(report.version), media_type="application/json")


async def _read_in_slices(body: bytes) -> link.PushReport | list[Problem]:
    """A report, or all that is wrong with it; users are answered in between."""
    reading = read_report(link.PushReport, body)
    while True:
        try:
            next(reading)
        except StopIteration as done:
            found: link.PushReport | list[Problem] = done.value
            return found
        finally:
            await asyncio.sleep(0)


async def pushed(plane: Plane, cluster: str, report: link.PushReport) -> link.PushAnswer:
    """Take in a report; when this returns, it survives a power cut. One after the other of each cluster."""
    name = f"report {cluster}"
    async with plane.lock(name):
        while True:
            intake = ReportIntake(plane, cluster, report, slice_s=SLICE_S)
            unit = partial(_slice, intake=intake, plane=plane, lease=name) if plane.database.is_shared else intake.go_on
            while (answer := await plane.write(unit)) is None:
                pass
            if not isinstance(answer, Elsewhere):
                return answer
            await plane.notifier.wait(plane.notifier.listen(), LOOK_AGAIN_S)


class Elsewhere(Enum):
    """In place of an answer."""

    TAKEN_IN = "another process takes in a report of this cluster"


def _slice(
    connection: Connection, intake: ReportIntake, plane: Plane, lease: str
) -> link.PushAnswer | Elsewhere | None:
    """Another slice, unless another process has begun with a report of this cluster. Most reports are one slice, in one
    transaction: those need no lease."""
    if not leases.is_free(connection, lease, plane.process, plane.now()):
        return Elsewhere.TAKEN_IN
    is_first = not intake.has_begun
    answer = intake.go_on(connection)
    if answer is None:
        leases.take(connection, lease, plane.process, plane.now(), lease_ends(plane))
    elif not is_first:
        leases.release(connection, lease, plane.process)
    return answer


def push_now(plane: Plane, cluster: str, report: link.PushReport) -> link.PushAnswer:
    """The same without an event loop."""
    answer = plane.database.write_now(ReportIntake(plane, cluster, report).go_on)
    assert answer is not None
    return answer
