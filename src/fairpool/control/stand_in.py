"""A control plane without people, page or network, for simulations and tests: the same two verbs, and what people do.

It keeps the promises of a real one. What it answered is written down first and outlives the process, if it was given
a file. A report may come twice, late or never. A revision announces what it belongs to in the same transaction.

A stand-in that was put back to an older copy is noticed by a cluster whose revision it has not reached yet, or whose
last answered report it does not know. One that changes as often as it had before anybody calls is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Condition

from fairpool.api.clusters import (
    EventReport,
    NodeReport,
    Over,
    PullAnswer,
    PushAnswer,
    PushReport,
    QueueReport,
    WorkloadReport,
)
from fairpool.api.declarations import OrganizationWire
from fairpool.control.notebook import REMOVED_KEPT, Heard, LevelKind, Notebook
from fairpool.model.ids import PoolName, QueueId, Revision, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import Organization, Queue, with_quota
from fairpool.model.problem import Problem
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase


class StandIn:
    """Declares what it is told to, and remembers what clusters report."""

    def __init__(self, path: Path | None = None, *, removed_kept: int = REMOVED_KEPT) -> None:
        self._notebook = Notebook(path, removed_kept)
        self._changed = Condition()  # also the lock: people and the loop may call from different threads

    def close(self) -> None:
        self._notebook.close()

    # --- what clusters do ---

    def pull(self, after: Revision, wait_s: float = 0.0) -> PullAnswer:
        """What changed after a revision; everything to whoever has read nothing, too little or more than there is."""
        with self._changed:
            if wait_s > 0:
                self._changed.wait_for(lambda: self._notebook.mark("revision") != after, wait_s)
            notebook = self._notebook
            revision = notebook.mark("revision")
            whole = not (0 < after <= revision and after >= notebook.mark("forgotten"))
            since = Revision(0) if whole else after
            token, events = notebook.heard_of_any()
            organization_is_news = since < notebook.mark("organization")
            return PullAnswer(
                after=after,
                revision=revision,
                whole=whole,
                workloads=notebook.desired_after(since),
                removed=() if whole else notebook.removed_after(since),
                organization=OrganizationWire.of(notebook.organization()) if organization_is_news else None,
                heard_token=token,
                heard_events=events,
            )

    def push(self, report: PushReport) -> PushAnswer:
        """Take in a report, unless a later one has come before it."""
        with self._changed, self._notebook.transaction():
            known = self._notebook.heard(report.cluster)
            if known is not None and (report.token, report.number) <= (known.token, known.number):
                return _answer(known, taken=False)
            heard = self._take_in(report, known)
            self._drop_gone(report)
            return _answer(heard, taken=True)

    def _take_in(self, report: PushReport, known: Heard | None) -> Heard:
        notebook, cluster = self._notebook, report.cluster
        if report.whole:
            notebook.forget_levels(cluster)
        # What was dropped here stays dropped, until the cluster has heard of it.
        workloads = [each for each in report.workloads if not notebook.was_removed(each.id)]
        notebook.set_levels(cluster, LevelKind.WORKLOAD, {each.id: each.to_json() for each in workloads})
        for workload in workloads:
            notebook.note_incarnations(workload)
        notebook.set_levels(cluster, LevelKind.NODE, {each.name: each.to_json() for each in report.nodes})
        notebook.drop_levels(cluster, LevelKind.NODE, report.nodes_gone)
        queues = {f"{each.pool}/{each.queue}": each.to_json() for each in report.queues}
        notebook.set_levels(cluster, LevelKind.QUEUE, queues)
        notebook.drop_levels(cluster, LevelKind.QUEUE, [f"{pool}/{queue}" for pool, queue in report.queues_gone])
        notebook.add_events(cluster, report.events)
        through = max([known.events_through if known else 0, *(event.number for event in report.events)])
        heard = Heard(report.token, report.number, through, unsure=_leaves_doubt(report, known))
        notebook.note_heard(cluster, heard)
        return heard

    def _drop_gone(self, report: PushReport) -> None:
        """Forget declarations of which nothing is left; one that was resumed meanwhile is wanted again."""
        for gone in report.gone:
            spec = self._notebook.spec(gone.id)
            if spec is not None and spec.run == gone.run:
                self._notebook.remove(gone.id, self._notebook.next_revision())
                self._changed.notify_all()

    # --- what people do ---

    def submit(self, spec: WorkloadSpec) -> Revision | Problem:
        """Declare a workload. To submit the very same again changes nothing."""
        with self._changed:
            known = self._notebook.spec(spec.id)
            if known == spec:
                return self.revision
            if known is not None or self._notebook.was_removed(spec.id):
                return Problem("workload.exists", f"workload id {spec.id} is already used", "choose another id")
            return self._declare(spec)

    def suspend(self, workload: WorkloadId) -> Revision | Problem:
        return self._change(workload, lambda spec: replace(spec, want=DesiredState.STOP))

    def resume(self, workload: WorkloadId) -> Revision | Problem:
        """Run what was suspended, or came to an end before its work was done."""
        with self._changed:
            report = self._notebook.workload_level(workload)
            over = Over.of_report(report) if report is not None else None
            return self._change(workload, lambda spec: _resumed(spec, over))

    def delete(self, workload: WorkloadId, *, force: bool = False) -> Revision | Problem:
        """Its pods leave, without grace if forced; the declaration goes when a cluster says that nothing is left."""
        return self._change(
            workload, lambda spec: replace(spec, want=DesiredState.DELETE, grace_s=0 if force else spec.grace_s)
        )

    def resize(
        self, workload: WorkloadId, *, pods: int | None = None, minimum: int | None = None
    ) -> Revision | Problem:
        return self._change(workload, lambda spec: _resized(spec, pods, minimum))

    def set_organization(self, organization: Organization) -> Revision:
        with self._changed, self._notebook.transaction():
            if self._notebook.organization() == organization:
                return self.revision
            revision = self._notebook.next_revision()
            self._notebook.set_organization(organization, revision)
            self._changed.notify_all()
            return revision

    def set_quota(self, queue: QueueId, quota_milli: int, pool: PoolName = DEFAULT_POOL) -> Revision | Problem:
        """Owe a queue another number of GPUs in one pool."""
        with self._changed:
            organization = self._notebook.organization()
            queues = organization.queues.get(pool, ())
            if not any(each.id == queue for each in queues):
                return _unknown_queue(queue)
            quotas = tuple(with_quota(each, quota_milli) if each.id == queue else each for each in queues)
            return self.set_organization(replace(organization, queues={**organization.queues, pool: quotas}))

    def rename_queue(self, queue: QueueId, name: QueueId) -> Revision | Problem:
        """Give a department or project another name; what is below it and in it follows, under one revision."""
        with self._changed, self._notebook.transaction():
            notebook = self._notebook
            organization = notebook.organization()
            names = {each.id for queues in organization.queues.values() for each in queues}
            if queue not in names:
                return _unknown_queue(queue)
            if name in names:
                return Problem("queue.exists", f"queue {name} already exists", "choose another name")
            revision = notebook.next_revision()
            notebook.set_organization(_renamed(organization, queue, name), revision)
            for spec in notebook.specs():
                if spec.project == queue:
                    notebook.declare(replace(spec, project=name), revision)
            self._changed.notify_all()
            return revision

    # --- what people see ---

    @property
    def revision(self) -> Revision:
        with self._changed:
            return self._notebook.mark("revision")

    def spec(self, workload: WorkloadId) -> WorkloadSpec | None:
        with self._changed:
            return self._notebook.spec(workload)

    def specs(self) -> dict[WorkloadId, WorkloadSpec]:
        with self._changed:
            return {spec.id: spec for spec in self._notebook.specs()}

    def organization(self) -> Organization:
        with self._changed:
            return self._notebook.organization()

    def workload(self, workload: WorkloadId) -> WorkloadReport | None:
        """Where a workload stood when it was last heard of."""
        with self._changed:
            return self._notebook.workload_level(workload)

    def workloads(self) -> list[WorkloadReport]:
        with self._changed:
            return [WorkloadReport.from_json(body) for body in self._notebook.levels(LevelKind.WORKLOAD)]

    def nodes(self) -> list[NodeReport]:
        with self._changed:
            return [NodeReport.from_json(body) for body in self._notebook.levels(LevelKind.NODE)]

    def queues(self) -> list[QueueReport]:
        with self._changed:
            return [QueueReport.from_json(body) for body in self._notebook.levels(LevelKind.QUEUE)]

    def events(self, cluster: str, after: int = 0) -> list[EventReport]:
        with self._changed:
            return self._notebook.events(cluster, after)

    # --- how a declaration changes ---

    def _change(
        self, workload: WorkloadId, change: Callable[[WorkloadSpec], WorkloadSpec | Problem]
    ) -> Revision | Problem:
        with self._changed:
            spec = self._notebook.spec(workload)
            if spec is None:
                fix = "check the list of workloads; it may have been deleted"
                return Problem("workload.unknown", f"there is no workload {workload}", fix)
            changed = change(spec)
            if isinstance(changed, Problem):
                return changed
            if changed == spec:
                return self.revision
            if spec.want is DesiredState.DELETE and changed != replace(spec, grace_s=0):
                fix = "submit it again under another id"
                return Problem("workload.being_deleted", f"{workload} is being deleted", fix)
            return self._declare(changed)

    def _declare(self, spec: WorkloadSpec) -> Revision:
        with self._notebook.transaction():
            revision = self._notebook.next_revision()
            self._notebook.declare(spec, revision)
        self._changed.notify_all()
        return revision


def _answer(heard: Heard, taken: bool) -> PushAnswer:
    return PushAnswer(
        token=heard.token,
        number=heard.number,
        taken=taken,
        events_through=heard.events_through,
        want_whole=heard.unsure,
    )


def _leaves_doubt(report: PushReport, known: Heard | None) -> bool:
    """Whether there may be levels that the cluster holds to be known here and that are not."""
    if report.whole:
        return False
    return known is None or known.unsure or known.token != report.token or known.number < report.after


def _resumed(spec: WorkloadSpec, over: Over | None) -> WorkloadSpec | Problem:
    if spec.want is DesiredState.RUN and (over is None or over.run != spec.run):
        return Problem("workload.not_stopped", f"{spec.id} has not stopped", "suspend it first")
    if over is not None and over.run == spec.run and over.phase is WorkloadPhase.COMPLETED:
        return Problem("workload.completed", f"{spec.id} has completed", "submit it again under another name")
    return replace(spec, want=DesiredState.RUN, run=spec.run + 1)


def _resized(spec: WorkloadSpec, pods: int | None, minimum: int | None) -> WorkloadSpec | Problem:
    pods = spec.pods if pods is None else pods
    minimum = spec.minimum if minimum is None else minimum
    if pods < 1 or (minimum is not None and not 1 <= minimum <= pods):
        what = f"{pods} pods with a minimum of {pods if minimum is None else minimum} is not a valid size"
        return Problem("workload.size", what, "use at least one pod, and a minimum between 1 and the number of pods")
    return replace(spec, pods=pods, minimum=minimum)


def _renamed(organization: Organization, queue: QueueId, name: QueueId) -> Organization:
    def called(each: QueueId) -> QueueId:
        return name if each == queue else each

    def queues_of(queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
        return tuple(
            replace(each, id=called(each.id), parent=None if each.parent is None else called(each.parent))
            for each in queues
        )

    queues: Mapping[PoolName, tuple[Queue, ...]] = {pool: queues_of(each) for pool, each in organization.queues.items()}
    return replace(
        organization, queues=queues, rules={called(each): rules for each, rules in organization.rules.items()}
    )


def _unknown_queue(queue: QueueId) -> Problem:
    return Problem("queue.unknown", f"there is no queue {queue}", "use an existing department or project")
