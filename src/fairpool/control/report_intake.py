"""Takes in the reports of clusters: what they say becomes what users are shown.

Rows are levels, so a report may be taken in row by row: in slices of a few milliseconds, each a transaction of its own.
Its number is stored with the last slice. If anything fails before that, the cluster sends it again, and what is stored
already does not change. Reports of one cluster are taken in one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairpool.api import clusters as link
from fairpool.control import declarations
from fairpool.control.change_feed import DECISION
from fairpool.control.closed_pods import close_ended, is_better_known
from fairpool.control.clusters import known_cluster, note_contact
from fairpool.control.limit_warnings import note_warnings
from fairpool.control.plane import Plane
from fairpool.control.removal import remove_project
from fairpool.control.store import changes, estimates
from fairpool.control.store import clusters as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.usage_intake import end_unseen, take_usage
from fairpool.control.version_skew import is_withheld
from fairpool.control.wait_times import note_start
from fairpool.control.workload_documents import report_of
from fairpool.model.ids import Instant, PoolName, QueueId, Token, place_of
from fairpool.model.lifecycle import PodPhase

SLICE_S: Final = 0.003
"""How long one slice may keep the event loop busy; the row that is begun is finished."""
ROWS: Final = 16
"""Workloads that are read with one statement."""
STARTED: Final = "started"
"""The kind of the event when a pod begins to run."""
EVENTS: Final = 25
"""Events that are stored with one statement."""


class ReportIntake:
    """One report, or a piece of one, on its way into the database."""

    def __init__(self, plane: Plane, cluster: str, report: link.PushReport, *, slice_s: float = float("inf")) -> None:
        self._plane, self._cluster, self._report, self._slice_s = plane, cluster, report, slice_s
        self._complete = report.complete_ranges
        self._steps: Iterator[None] | None = None
        self._lacks_events = False
        """Whether there are events here no more that the cluster had acknowledged: it has to send them again first."""
        self._slices = 0

    @property
    def has_begun(self) -> bool:
        return self._steps is not None

    def go_on(self, connection: Connection) -> link.PushAnswer | None:
        """Take in another slice, in a transaction of the caller's. The answer, once all of it is taken in."""
        known = known_cluster(connection, self._cluster)
        if self._is_late(known) or self._is_out_of_order(known):
            note_contact(self._plane, connection, known)
            store.set_last_seen(connection, self._cluster, self._plane.now())
            resync = known.needs_resync if self._is_late(known) else True
            return _answer(known.report_token or 0, known.report_number, known.events_through, resync, taken=False)
        if self._steps is None:
            self._lacks_events = known.events_through < self._report.events_after
            self._steps = self._rows(connection)
        self._slices += 1
        until = time.perf_counter() + self._slice_s
        for _ in self._steps:
            if time.perf_counter() >= until:
                return None
        return self._finish(connection, known)

    def _is_late(self, known: Any) -> bool:
        """Whether a later report has come before it."""
        report = self._report
        return known.report_token is not None and (report.token, report.number) <= (
            known.report_token,
            known.report_number,
        )

    def _is_out_of_order(self, known: Any) -> bool:
        """Whether it is a piece of a report of everything whose earlier pieces are not known here (any more)."""
        report = self._report
        if report.piece is None or report.piece.first:
            return False
        return bool(known.report_token != report.token or known.report_number < report.after)

    def _finish(self, connection: Connection, known: Any) -> link.PushAnswer:
        report = self._report
        taken = () if self._lacks_events else report.events
        note_contact(self._plane, connection, known)
        through = max([known.events_through, *(event.number for event in taken)])
        store.note_report(
            connection,
            self._cluster,
            report_token=report.token,
            report_number=report.number,
            events_through=through,
            needs_resync=(needs_resync := self._needs_resync(known)),
            last_seen_at=self._plane.now(),
        )
        is_complete = self._complete is not None
        return _answer(report.token, report.number, through, needs_resync and not is_complete, taken=True)

    def _needs_resync(self, known: Any) -> bool:
        """Whether something may be missing here after this report."""
        report = self._report
        if self._complete is not None:
            return not self._complete.last
        return bool(
            known.report_token is None
            or known.needs_resync
            or known.report_token != report.token
            or known.report_number < report.after
        )

    # --- row by row ---

    def _rows(self, connection: Connection) -> Iterator[None]:
        """Yields after each row. The connection is the same in all slices."""
        report = self._report
        yield from self._take_workloads(connection)
        yield from self._take_nodes(connection)
        yield from self._take_queues(connection)
        for first in range(0, 0 if self._lacks_events else len(report.events), EVENTS):
            new = store.add_events(connection, self._cluster, report.events[first : first + EVENTS])
            close_ended(connection, self._cluster, new)
            take_usage(connection, self._cluster, new)
            note_warnings(connection, new)
            estimates.note_starts(connection, _first_starts(new))
            self._note_decisions(connection, new)
            yield
        for gone in report.gone:
            self._drop_gone(connection, gone)
            yield
        if self._complete is not None and self._complete.last:
            yield from end_unseen(connection, self._cluster, report.at)

    def _note_decisions(self, connection: Connection, lines: Iterable[link.EventReport]) -> None:
        """For the stream of changes."""
        decided = [line for line in lines if line.decision is not None]
        if not decided:
            return
        kept, now = self._plane.settings.changes_kept, self._plane.now()
        owners = workload_store.keys_of(connection, list(dict.fromkeys(line.workload for line in decided)))
        for line in decided:
            if line.workload in owners and line.decision is not None:
                name, kind = f"{self._cluster}/{line.number}", line.decision.kind.value
                project = owners[line.workload][1]
                changes.record(connection, DECISION, name, kind, now, project=project, declared=False, kept=kept)

    def _take_workloads(self, connection: Connection) -> Iterator[None]:
        report = self._report
        found: dict[str, Any] = {}
        read_in = 0
        for number, each in enumerate(report.workloads):
            if each.id not in found or read_in != self._slices:  # users change them between two slices
                some = [other.id for other in report.workloads[number : number + ROWS]]
                found = dict.fromkeys(some) | workload_store.some(connection, some)
                read_in = self._slices
            row = found[each.id]
            # What is gone here stays gone, until the cluster has heard of it; and no cluster reports another's work.
            if row is not None and _is_for(row, self._cluster):
                document = each.to_json()
                if document != row.report:  # else it is repeated, as in a report of everything
                    self._take_workload(connection, row, each, document)
            yield
        yield from self._drop_unreported(connection)

    def _drop_unreported(self, connection: Connection) -> Iterator[None]:
        """Workloads that were reported before, and are not in a report that would name them."""
        if self._complete is None or self._complete.workloads is None:
            return
        reported = {each.id for each in self._report.workloads}
        for workload in workload_store.not_reported(connection, self._cluster, reported, self._complete.workloads):
            row = workload_store.one(connection, workload)
            if row is not None and _is_for(row, self._cluster) and not is_withheld(report_of(row)):
                declarations.observe(self._plane, connection, row, None, None)
            yield

    def _take_workload(self, connection: Connection, row: Any, each: link.WorkloadReport, document: str) -> None:
        at = self._report.at
        known = workload_store.known_pods(connection, row.id)
        for pod in each.pods:
            if place_of(each.id, pod.id) is None:  # it would be another workload's pod
                continue
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
        if each.run >= row.run:
            note_start(connection, row, each)
            declarations.observe(self._plane, connection, row, each, document)

    def _take_nodes(self, connection: Connection) -> Iterator[None]:
        report, cluster = self._report, self._cluster
        left: set[str] = set(report.nodes_gone)
        known: dict[str, str] = {}
        if self._complete is not None and self._complete.nodes is not None:
            known = store.node_documents(connection, cluster, self._complete.nodes)
            left |= known.keys()
        for node in report.nodes:
            document = node.to_json()
            if known.get(node.name) != document:
                revision = self._node_changed(connection, node.name, "observed")
                store.set_node(connection, cluster, node.name, document, revision=revision, now=self._plane.now())
            yield
        for name in sorted(left - {node.name for node in report.nodes}):
            store.drop_node(connection, cluster, name)
            self._node_changed(connection, name, "gone")
            yield

    def _node_changed(self, connection: Connection, name: str, verb: str) -> int:
        kept = self._plane.settings.changes_kept
        return changes.record(connection, "node", name, verb, self._plane.now(), declared=False, kept=kept)

    def _take_queues(self, connection: Connection) -> Iterator[None]:
        report, cluster = self._report, self._cluster
        left = set(report.queues_gone)
        known: dict[tuple[PoolName, QueueId], str] = {}
        if self._complete is not None and self._complete.queues is not None:
            known = store.queue_documents(connection, cluster)
            left |= {name for name in known if self._complete.queues.contains(*name)}
        changed = False
        for queue in report.queues:
            document = queue.to_json()
            if known.get((queue.pool, queue.queue)) != document:
                store.set_queue(connection, cluster, queue.pool, queue.queue, document)
                changed = True
            yield
        for pool, name in sorted(left - {(each.pool, each.queue) for each in report.queues}):
            store.drop_queue(connection, cluster, pool, name)
            changed = True
            yield
        if changed:
            kept = self._plane.settings.changes_kept
            changes.record(connection, "shares", cluster, "observed", self._plane.now(), declared=False, kept=kept)

    def _drop_gone(self, connection: Connection, gone: link.GoneReport) -> None:
        """Nothing is left of this one, unless it was resumed meanwhile: then it is wanted again and stays."""
        row = workload_store.one(connection, gone.id)
        if row is None or not _is_for(row, self._cluster) or row.run != gone.run:
            return
        declarations.forget(self._plane, connection, row)
        _finish_project(self._plane, connection, row.project, self._plane.now())


def _first_starts(lines: Iterable[link.EventReport]) -> dict[str, int]:
    """Workloads of which a pod started, and when the first of them did."""
    found: dict[str, int] = {}
    for line in lines:
        if line.kind == STARTED:
            found[line.workload] = min(found.get(line.workload, line.at), line.at)
    return found


def _answer(token: int, number: int, through: int, resync: bool, *, taken: bool) -> link.PushAnswer:
    return link.PushAnswer(token=Token(token), number=number, taken=taken, events_through=through, resync=resync)


def _is_for(row: Any, cluster: str) -> bool:
    return row.deleted_at is None and row.cluster == cluster


def _finish_project(plane: Plane, connection: Connection, name: str, now: Instant) -> None:
    """A project that was deleted while work was in it goes with the last of it."""
    project = organization_store.project(connection, name)
    if project is None or project.phase != "Deleting" or workload_store.projects_with_work(connection, name):
        return
    kept = plane.settings.changes_kept
    revision = changes.record(connection, "project", name, "deleted", now, project=name, kept=kept)
    remove_project(plane, connection, name, revision)
