"""Pull and push of clusters: what is desired is pulled from here, what is observed is pushed to here.

A pull is held until something that was declared changes, at most 20 s; a push is taken in once, whole or not at all.
A cluster is known by its token, and neither reads nor writes rows of another. The loop of the same process calls
`pulled` and `pushed` directly; simulations, which have no event loop, call `pull_now` and `push_now`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import clusters as link
from fairpool.api.message import read
from fairpool.api.problems import item as problem_item
from fairpool.control import declarations
from fairpool.control.closed_pods import close_ended, is_better_known
from fairpool.control.clusters import known_cluster
from fairpool.control.organization import organization_wire
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.removal import remove_project
from fairpool.control.routes import Routes
from fairpool.control.store import changes
from fairpool.control.store import clusters as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_in, report_of
from fairpool.model.ids import SECOND_MS, Instant, Revision, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase

routes = Routes("clusters")

NOTED_WITH_NEWS, NOTED_WITHOUT = 1 / 2, 1 / 6
"""A pull is noted if the cluster was last heard so long ago, as a part of the time after which it counts as away."""


# --- pull ----------------------------------------------------------------------------------------------------


@routes.post(
    "/api/v1/cluster/pull",
    action=Action.LINK,
    summary="Get declarations that changed since a revision (called by clusters)",
    answer=link.PullAnswer,
    body_max_bytes=64 * 1024,
)
async def pull(plane: Plane, caller: Caller, body: link.PullRequest) -> Response:
    answer = await pulled(plane, caller.id, Revision(body.after), body.wait_s)
    return Response(answer.to_json(), media_type="application/json")


async def pulled(plane: Plane, cluster: str, after: Revision, wait_s: float) -> link.PullAnswer:
    """What changed after a revision, waiting a while for something to change."""
    deadline = plane.now() + int(min(wait_s, plane.settings.pull_wait_s) * SECOND_MS)
    while True:
        listening = plane.notifier.listen()
        current = await plane.read(changes.current_declared)
        left_s = (deadline - plane.now()) / SECOND_MS
        if current != after or left_s <= 0:
            listening.cancel()
            break
        await plane.notifier.wait(listening, left_s)
    answer, is_noted = await plane.read(lambda connection: _pull(plane, connection, cluster, after))
    if is_noted:
        await plane.write(lambda connection: store.heard_at(connection, cluster, plane.now()))
    return answer


def pull_now(plane: Plane, cluster: str, after: Revision) -> link.PullAnswer:
    """The same without an event loop, and without waiting."""
    answer, is_noted = plane.database.read_now(lambda connection: _pull(plane, connection, cluster, after))
    if is_noted:
        plane.database.write_now(lambda connection: store.heard_at(connection, cluster, plane.now()))
    return answer


def _pull(plane: Plane, connection: Connection, cluster: str, after: Revision) -> tuple[link.PullAnswer, bool]:
    """The answer, and whether the call is to be noted: an answer with news is followed by a report, which is."""
    known = known_cluster(connection, cluster)
    answer = pull_answer(plane, connection, known, after)
    if known.heard_at is None:
        return answer, True
    patience = NOTED_WITH_NEWS if answer.says_something else NOTED_WITHOUT
    return answer, plane.now() - known.heard_at > plane.settings.cluster_away_s * SECOND_MS * patience


def pull_answer(plane: Plane, connection: Connection, heard: Any, after: Revision) -> link.PullAnswer:
    """What changed after a revision. Everything, if none was read yet, or one that is not or no longer known here."""
    cluster = heard.id
    oldest, revision = changes.declared_span(connection)
    whole = not max(1, oldest) <= after <= revision
    if whole:
        rows = workload_store.declared(connection, cluster)
        removed: list[str] = []
        organization_is_news = True
    else:
        news = changes.declared_after(connection, after) if after < revision else []
        ids = [name for noun, name in news if noun == "workload"]
        found = workload_store.some(connection, ids)
        rows = [found[name] for name in ids if name in found and _is_for(found[name], cluster)]
        removed = [name for name in ids if name not in found or not _is_for(found[name], cluster)]
        organization_is_news = any(noun in changes.ORGANIZATION for noun, _ in news)
    return link.PullAnswer(
        after=after,
        revision=revision,
        whole=whole,
        workloads=tuple(_desired(connection, rows)),
        removed=tuple(WorkloadId(each) for each in removed),
        organization=organization_wire(plane, connection, cluster) if organization_is_news else None,
        heard_token=None if heard.report_token is None else Token(heard.report_token),
        heard_events=heard.events_through,
    )


def _is_for(row: Any, cluster: str) -> bool:
    return row.deleted_at is None and row.cluster == cluster


def _desired(connection: Connection, rows: list[Any]) -> list[link.DesiredWorkload]:
    incarnations = store.incarnations(connection, [row.id for row in rows])
    desired = []
    for row in rows:
        report = report_of(row)
        over = link.Over.of_report(report) if report is not None and report.run == row.run else None
        done = report.done if report is not None else ()
        desired.append(_desired_in(row.declaration).heard(over, incarnations.get(row.id, {}), done))
    return desired


# The same text is the same value, which cannot be changed; and a cluster that starts asks for all of them.
@lru_cache(maxsize=1024)
def _desired_in(declaration: str) -> link.DesiredWorkload:
    return link.DesiredWorkload.of_declared(declaration_in(declaration).workload)


# --- push ----------------------------------------------------------------------------------------------------


@routes.post(
    "/api/v1/cluster/push",
    action=Action.LINK,
    summary="Report the state of a cluster (called by clusters)",
    request_body=link.PushReport,
    answer=link.PushAnswer,
    body_max_bytes=256 * 1024 * 1024,  # a report grows with the cluster
)
async def push(request: Request, plane: Plane, caller: Caller) -> Response:
    report = read(link.PushReport, await request.body())
    if isinstance(report, list):
        raise Refused(422, [problem_item(each) for each in report])
    answer = await pushed(plane, caller.id, report)
    return Response(answer.to_json(), media_type="application/json")


async def pushed(plane: Plane, cluster: str, report: link.PushReport) -> link.PushAnswer:
    """Take in a report; when this returns, it survives a power cut."""
    return await plane.write(lambda connection: take_in(plane, connection, cluster, report))


def push_now(plane: Plane, cluster: str, report: link.PushReport) -> link.PushAnswer:
    """The same without an event loop."""
    return plane.database.write_now(lambda connection: take_in(plane, connection, cluster, report))


def take_in(plane: Plane, connection: Connection, cluster: str, report: link.PushReport) -> link.PushAnswer:
    """Take in a report, unless a later one has come before it."""
    known = known_cluster(connection, cluster)
    now = plane.now()
    if known.report_token is not None and (report.token, report.number) <= (known.report_token, known.report_number):
        store.heard_at(connection, cluster, now)
        return _answer(known.report_token, known.report_number, known.events_through, known.unsure, taken=False)
    _take_workloads(plane, connection, cluster, report)
    _take_nodes(plane, connection, cluster, report)
    if report.whole:
        store.drop_queues(connection, cluster)
    for queue in report.queues:
        store.set_queue(connection, cluster, queue)
    for pool, name in report.queues_gone:
        store.drop_queue(connection, cluster, pool, name)
    close_ended(connection, cluster, store.add_events(connection, cluster, report.events))
    _drop_gone(plane, connection, cluster, report)
    through = max([known.events_through, *(event.number for event in report.events)])
    unsure = not report.whole and (
        known.report_token is None
        or known.unsure
        or known.report_token != report.token
        or known.report_number < report.after
    )
    store.change_cluster(
        connection,
        cluster,
        report_token=report.token,
        report_number=report.number,
        events_through=through,
        unsure=unsure,
        heard_at=now,
    )
    return _answer(report.token, report.number, through, unsure, taken=True)


def _answer(token: int, number: int, through: int, unsure: bool, *, taken: bool) -> link.PushAnswer:
    return link.PushAnswer(token=Token(token), number=number, taken=taken, events_through=through, want_whole=unsure)


def _take_workloads(plane: Plane, connection: Connection, cluster: str, report: link.PushReport) -> None:
    found = workload_store.some(connection, [each.id for each in report.workloads])
    for each in report.workloads:
        row = found.get(each.id)
        # What is gone here stays gone, until the cluster has heard of it; and no cluster reports another's work.
        if row is None or not _is_for(row, cluster):
            continue
        document = each.to_json()
        if document != row.report:  # else it is repeated, as in a whole report
            _take_workload(plane, connection, row, each, document, report.at)
    if report.whole:
        for row in workload_store.unheard(connection, cluster, {each.id for each in report.workloads}):
            declarations.observe(plane, connection, row, None, None)


def _take_workload(
    plane: Plane, connection: Connection, row: Any, each: link.WorkloadReport, document: str, at: Instant
) -> None:
    known = workload_store.known_pods(connection, row.id)
    for pod in each.pods:
        before = known.get(pod.id)
        same_phase = before is not None and before.phase == pod.phase.value
        if same_phase and pod.phase is PodPhase.ENDED and is_better_known(connection, pod.id, pod.node):
            continue
        pod_document = pod.to_json()
        if before is not None and before.document == pod_document:
            continue
        values: dict[str, Any] = {
            "id": pod.id,
            "workload": row.id,
            "pod_index": pod.index,
            "incarnation": pod.incarnation,
            "phase": pod.phase.value,
            "document": pod_document,
            "since": before.since if before is not None and same_phase else at,
        }
        if before is None:
            values["created_at"] = at
        workload_store.set_pod(connection, before is not None, values)
    if each.run == row.run or row.run < each.run:
        declarations.observe(plane, connection, row, each, document)


def _take_nodes(plane: Plane, connection: Connection, cluster: str, report: link.PushReport) -> None:
    left: set[str] = set(report.nodes_gone)
    known: dict[str, str] = {}
    if report.whole:
        known = store.node_documents(connection, cluster)
        left |= known.keys()
    for node in report.nodes:
        document = node.to_json()
        if known.get(node.name) != document:
            revision = _node_changed(plane, connection, node.name, "observed")
            store.set_node(connection, cluster, node.name, document, revision)
    for name in sorted(left - {node.name for node in report.nodes}):
        store.drop_node(connection, cluster, name)
        _node_changed(plane, connection, name, "gone")


def _node_changed(plane: Plane, connection: Connection, name: str, verb: str) -> int:
    kept = plane.settings.changes_kept
    return changes.record(connection, "node", name, verb, plane.now(), declared=False, kept=kept)


def _drop_gone(plane: Plane, connection: Connection, cluster: str, report: link.PushReport) -> None:
    """Nothing is left of these; one that was resumed meanwhile is wanted again and stays."""
    now = plane.now()
    found = workload_store.some(connection, [each.id for each in report.gone])
    for each in report.gone:
        row = found.get(each.id)
        if row is None or not _is_for(row, cluster) or row.run != each.run:
            continue
        declarations.forget(plane, connection, row)
        _finish_project(plane, connection, row.project, now)


def _finish_project(plane: Plane, connection: Connection, name: str, now: Instant) -> None:
    """A project that was deleted while work was in it goes with the last of it."""
    project = organization_store.project(connection, name)
    if project is None or project.phase != "Deleting" or workload_store.projects_with_work(connection, name):
        return
    kept = plane.settings.changes_kept
    revision = changes.record(connection, "project", name, "deleted", now, project=name, kept=kept)
    remove_project(plane, connection, name, revision)
    plane.forget_callers_when_committed()
