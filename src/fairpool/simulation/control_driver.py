"""The control plane in process, without HTTP, event loop or users: for simulations, tests and benchmarks.

Declarations, pull and push are the functions that the handlers call, on a SQLite file or in memory. What was answered
is committed first, and survives the process where there is a file. Time is the caller's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from fairpool.api import organization as wire
from fairpool.api.clusters import (
    EventReport,
    NodeReport,
    PullAnswer,
    PushAnswer,
    PushReport,
    QueueReport,
    WorkloadReport,
)
from fairpool.api.declarations import WorkloadWire
from fairpool.api.nodes import ClusterRequest
from fairpool.api.workload_spec import Kind, Source
from fairpool.control import cluster_sync, clusters, declarations, organization, preferences, removal
from fairpool.control.plane import Plane
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.settings import Settings
from fairpool.control.store import changes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection, Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import create_in_memory, upgrade
from fairpool.control.store.sqlite import Sqlite, Synchronous
from fairpool.control.store.unavailable import Unavailable as Unavailable
from fairpool.control.workload_documents import WorkloadDeclaration, declaration_in, declaration_of, report_of
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, Revision, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import GraceRules, NodeOverrides, Organization, ProjectRules, name_of_queue
from fairpool.model.problem import Problem
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.workload import WorkloadKind
from fairpool.simulation.quota_requests import (
    Followers,
    gpus_of,
    is_department,
    overrides_request,
    requests_of,
    rules_request,
)

CHANGES_KEPT: Final = 100_000
USER = "simulation"
KINDS = {
    WorkloadKind.BUILD: Kind.WORKSPACE,
    WorkloadKind.TRAIN: Kind.TRAINING,
    WorkloadKind.INFERENCE: Kind.INFERENCE,
}

OwedT = TypeVar("OwedT", bound=wire.PoolTerms)
Unit = Callable[[Connection], object]


class ControlDriver:
    """A control plane with one cluster. For one thread."""

    def __init__(
        self,
        now: Callable[[], Instant],
        path: Path | None = None,
        *,
        cluster: str = "local",
        changes_kept: int = CHANGES_KEPT,
        database: Database | None = None,
    ) -> None:
        """`database`: one that is not open yet, in place of the file."""
        self._database = database or LocalDatabase(Sqlite(path, Synchronous.NORMAL))
        settings = Settings(data=Path(), cluster_name=cluster, changes_kept=changes_kept, now=now)
        self._plane = Plane(settings=settings, database=self._database)
        self._database.open_now(create_in_memory if path is None and database is None else upgrade)
        self._cluster = self._database.write_now(self._prepare)

    def _prepare(self, connection: Connection) -> str:
        """What is there from the start, as in `control.app.prepare`; the id of the cluster."""
        organization.make_first_organization(self._plane, connection)
        known = cluster_store.all_clusters(connection)
        if known:
            return str(known[0].id)
        cluster, _ = clusters.add_cluster(
            self._plane, connection, ClusterRequest(name=self._plane.settings.cluster_name)
        )
        return cluster

    def close(self) -> None:
        self._database.close_now()

    # --- calls of the cluster ---

    def pull(self, after: Revision, wait_s: float = 0.0) -> PullAnswer:
        """What changed after a revision. It never waits: nothing changes while the caller does."""
        return cluster_sync.pull_now(self._plane, self._cluster, after)

    def push(self, report: PushReport) -> PushAnswer:
        return cluster_sync.push_now(self._plane, self._cluster, report)

    # --- workloads ---

    def submit(self, spec: WorkloadSpec) -> Problem | None:
        """Declare a workload. To submit the very same again changes nothing."""

        def unit(connection: Connection) -> None:
            known = workload_store.one(connection, spec.id)
            if known is not None:
                if known.deleted_at is None and declaration_of(known).workload == WorkloadWire.of(spec):
                    return
                raise refused(409, "workload.exists", f"workload id {spec.id} is already used", "choose another id")
            project = organization_store.project(connection, spec.project)
            if project is None:
                raise unknown("project", spec.project)
            if project.phase != "Ready":
                raise refused(409, "project.deleting", f"project {project.name} is being deleted", "use another one")
            if workload_store.is_taken(connection, f"{spec.project}/{spec.name}"):
                raise declarations.name_taken(spec.name)
            kind = Kind.DISTRIBUTED if spec.leader is not None else KINDS[spec.kind]
            values = {"kind": kind.value, "department": project.department, "cluster": project.cluster}
            declaration = _declaration(WorkloadWire.of(spec))
            declarations.declare(self._plane, connection, spec, declaration, **values, submitted_by=USER)

        return self._write(unit)

    def suspend(self, workload: WorkloadId) -> Problem | None:
        return self._set_desired_state(workload, DesiredState.STOP)

    def resume(self, workload: WorkloadId) -> Problem | None:
        """Run what was suspended, or came to an end before its work was done."""
        return self._set_desired_state(workload, DesiredState.RUN)

    def delete(self, workload: WorkloadId, *, force: bool = False) -> Problem | None:
        """Its pods leave, without grace if forced; the declaration goes once the cluster reports that none is left."""
        return self._set_desired_state(workload, DesiredState.DELETE, force=force)

    def _set_desired_state(self, workload: WorkloadId, desired: DesiredState, *, force: bool = False) -> Problem | None:
        return self._write(
            lambda connection: declarations.set_desired_state(
                self._plane, connection, self._known(connection, workload), desired, USER, force=force
            )
        )

    def resize(self, workload: WorkloadId, *, pods: int | None = None, minimum: int | None = None) -> Problem | None:
        """Declare another number of pods."""

        def unit(connection: Connection) -> None:
            row = self._known(connection, workload)
            declaration = declaration_of(row)
            spec = declaration.workload
            if spec.desired_state is DesiredState.DELETE:
                raise refused(409, "workload.being_deleted", f"{row.name} is being deleted", "submit it again")
            changed = _resized(spec, pods, minimum)
            if changed != spec:
                new = declaration.changed(changed)
                declarations.redeclare(self._plane, connection, row, new, changed.to_spec())

        return self._write(unit)

    # --- the organization ---

    def declare(self, declared: Organization, followers: Followers = ()) -> Problem | None:
        """Declare pools, departments, projects, node overrides and grace periods; what is there already is changed.

        Projects and departments that are not in it stay.
        """
        requests = requests_of(declared, followers)

        def unit(connection: Connection) -> None:
            for pool in requests.pools:
                if organization_store.node_pool(connection, pool.name) is None:
                    organization.add_pool(self._plane, connection, pool, by="")
            for department in requests.departments:
                self._declare_department(connection, department)
            for project in requests.projects:
                self._declare_project(connection, project)
            for node, overrides in declared.node_overrides.items():
                self._override(connection, node, overrides)
            self._set_graces(connection, declared.graces)

        return self._write(unit)

    def set_quota(self, queue: QueueId, quota_milli: int, pool: PoolName = DEFAULT_POOL) -> Problem | None:
        """Declare another quota of GPUs for a project or department in one pool."""

        def unit(connection: Connection) -> None:
            deserved = {"deserved": gpus_of(quota_milli)}
            if is_department(queue):
                body = self._department(connection, name_of_queue(queue))
                owed = _owed(body.resources, wire.DepartmentResources(node_pool=wire.PoolReference(id=pool)))
                gpu = owed.gpu.model_copy(update=deserved)
                update = wire.DepartmentResourcesUpdate(resources=[owed.model_copy(update={"gpu": gpu})])
                changed = body.model_copy(update={"resources": update.merged_into(body.resources)})
                self._declare_department(connection, changed)
                return
            project = self._project(connection, queue)
            own = _owed(project.resources, wire.PoolResources(node_pool=wire.PoolReference(id=pool)))
            quota = own.model_copy(update={"gpu": own.gpu.model_copy(update=deserved)})
            merged = wire.ResourcesUpdate(resources=[quota]).merged_into(project.resources)
            self._declare_project(connection, project.model_copy(update={"resources": merged}))

        return self._write(unit)

    def set_rules(self, project: QueueId, rules: ProjectRules) -> Problem | None:
        def unit(connection: Connection) -> None:
            body = self._project(connection, project)
            self._declare_project(connection, body.model_copy(update={"scheduling_rules": rules_request(rules)}))

        return self._write(unit)

    def add_project(self, body: wire.ProjectRequest) -> Problem | None:
        return self._write(lambda connection: organization.add_project(self._plane, connection, body, USER))

    def set_department(self, project: QueueId, department: str) -> Problem | None:
        """Move a project, with its work, to another department."""

        def unit(connection: Connection) -> None:
            body = self._project(connection, project)
            self._declare_project(connection, body.model_copy(update={"parent_id": department}))

        return self._write(unit)

    def delete_project(self, project: QueueId, move_to: QueueId | None = None) -> Problem | None:
        """Delete a project, and its work with it unless that moves to another project."""

        def unit(connection: Connection) -> None:
            row = organization_store.project(connection, project)
            if row is None:
                raise unknown("project", project)
            remaining = removal.RemainingWorkloads.DELETE if move_to is None else removal.RemainingWorkloads.MOVE
            removal.delete_project_with_work(self._plane, connection, row, remaining, move_to)

        return self._write(unit)

    def override_node(self, node: NodeName, overrides: NodeOverrides) -> Problem | None:
        """Declare the cordon, taints and labels of a node."""
        return self._write(lambda connection: self._override(connection, node, overrides))

    def _declare_department(self, connection: Connection, body: wire.DepartmentRequest) -> None:
        row = organization_store.department(connection, body.name)
        if row is None:
            organization.add_department(self._plane, connection, body)
        elif wire.DepartmentRequest.model_validate_json(row.document) != body:
            organization.change_department(self._plane, connection, body)

    def _declare_project(self, connection: Connection, body: wire.ProjectRequest) -> None:
        row = organization_store.project(connection, body.name)
        if row is None:
            organization.add_project(self._plane, connection, body, USER)
        elif wire.ProjectRequest.model_validate_json(row.document) != body:
            organization.change_project(self._plane, connection, row, body)

    def _override(self, connection: Connection, node: NodeName, overrides: NodeOverrides) -> None:
        known = organization.organization_of(self._plane, connection, self._cluster).node_overrides.get(
            node, NodeOverrides()
        )
        if known != overrides:
            body = overrides_request(overrides)
            organization.declare_overrides(self._plane, connection, self._cluster, node, body)

    def _set_graces(self, connection: Connection, graces: GraceRules) -> None:
        chosen = {preferences.GRACE: graces.most_s, preferences.EVICTION_GRACE: graces.eviction_s}
        for key, seconds in chosen.items():
            if preferences.current_value(self._plane.settings, connection, key) != seconds:
                preferences.choose_value(self._plane, connection, key, seconds, USER)

    def _department(self, connection: Connection, name: str) -> wire.DepartmentRequest:
        row = organization_store.department(connection, name)
        if row is None:
            raise unknown("department", name)
        return wire.DepartmentRequest.model_validate_json(row.document)

    def _project(self, connection: Connection, name: str) -> wire.ProjectRequest:
        row = organization_store.project(connection, name)
        if row is None:
            raise unknown("project", name)
        return wire.ProjectRequest.model_validate_json(row.document)

    # --- what is declared and reported ---

    @property
    def revision(self) -> Revision:
        """Of the last change that the cluster can pull."""
        return self._database.read_now(changes.current_declared)

    def organization(self) -> Organization:
        return self._database.read_now(
            lambda connection: organization.organization_of(self._plane, connection, self._cluster)
        )

    def projects(self) -> list[QueueId]:
        """Those that take new work."""
        rows = self._database.read_now(organization_store.all_projects)
        return [QueueId(row.name) for row in rows if row.phase == "Ready"]

    def departments(self) -> list[str]:
        rows = self._database.read_now(organization_store.all_departments)
        return [str(row.name) for row in rows]

    def project(self, name: QueueId) -> wire.ProjectRequest:
        return self._database.read_now(lambda connection: self._project(connection, name))

    def spec(self, workload: WorkloadId) -> WorkloadSpec | None:
        row = self._row(workload)
        return None if row is None else _spec(row.declaration)

    def specs(self) -> dict[WorkloadId, WorkloadSpec]:
        specs = (_spec(row.declaration) for row in self._rows())
        return {spec.id: spec for spec in sorted(specs, key=lambda spec: spec.id)}

    def workload(self, workload: WorkloadId) -> WorkloadReport | None:
        """Its last report."""
        row = self._row(workload)
        return None if row is None else report_of(row)

    def workloads(self) -> list[WorkloadReport]:
        reports = (report_of(row) for row in self._rows())
        return sorted((report for report in reports if report is not None), key=lambda report: report.id)

    def nodes(self) -> list[NodeReport]:
        rows = self._database.read_now(cluster_store.all_nodes)
        return [NodeReport.from_json(row.document) for row in rows]

    def queues(self) -> list[QueueReport]:
        return self._database.read_now(cluster_store.queues)

    def events(self, after: int = 0) -> list[EventReport]:
        """The history that the cluster reported, after the event of this number."""
        return self._database.read_now(lambda connection: cluster_store.events_in(connection, self._cluster, after))

    def _rows(self) -> Iterable[Any]:
        return self._database.read_now(lambda connection: workload_store.declared(connection, self._cluster))

    def _row(self, workload: WorkloadId) -> Any:
        row = self._database.read_now(lambda connection: workload_store.one(connection, workload))
        return None if row is None or row.deleted_at is not None else row

    def _known(self, connection: Connection, workload: WorkloadId) -> Any:
        row = workload_store.one(connection, workload)
        if row is None or row.deleted_at is not None:
            raise unknown("workload", workload)
        return row

    def _write(self, unit: Unit) -> Problem | None:
        """Why it was refused; None: it was done."""
        try:
            self._database.write_now(unit)
        except Refused as refusal:
            first = refusal.problems[0]
            return Problem(first.code, first.what, first.fix)
        return None


# A text is a value that does not change, and is asked for again and again.
@lru_cache(maxsize=4096)
def _spec(declaration: str) -> WorkloadSpec:
    return declaration_in(declaration).workload.to_spec()


def _declaration(workload: WorkloadWire) -> WorkloadDeclaration:
    return WorkloadDeclaration(
        workload=workload, request={}, command_line="", source=Source.OTHER, labels={}, framework=None, addresses=()
    )


def _resized(spec: WorkloadWire, pods: int | None, minimum: int | None) -> WorkloadWire:
    pods = spec.pods if pods is None else pods
    minimum = spec.minimum if minimum is None else minimum
    if pods < 1 or (minimum is not None and not 1 <= minimum <= pods):
        what = f"{pods} pods with a minimum of {pods if minimum is None else minimum} is not a valid size"
        fix = "use at least one pod, and a minimum between 1 and the number of pods"
        raise refused(422, "workload.size", what, fix)
    return spec.model_copy(update={"pods": pods, "minimum": minimum})


def _owed(resources: list[OwedT], otherwise: OwedT) -> OwedT:
    return next((each for each in resources if each.pool == otherwise.pool), otherwise)
