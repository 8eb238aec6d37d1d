"""Declarations of departments, projects, node pools and node overrides, and what clusters pull of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from fairpool.api import nodes as nodes_wire
from fairpool.api import organization as wire
from fairpool.api.declarations import OrganizationWire
from fairpool.api.problems import ProblemItem
from fairpool.control import declarations, declared, preferences
from fairpool.control.feasibility import PoolNodes, PoolView
from fairpool.control.plane import Plane
from fairpool.control.refusal import Refused, refused
from fairpool.control.reported_nodes import ReportedNodes, pools_in, reported_nodes
from fairpool.control.store import changes, project_colors
from fairpool.control.store import claims as claim_store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import config_maps as config_map_store
from fairpool.control.store import organization as store
from fairpool.control.store import usage as usage_store
from fairpool.control.store.database import Connection, Table
from fairpool.control.store.tables import departments as departments_table
from fairpool.control.store.tables import node_pools
from fairpool.control.store.tables import projects as projects_table
from fairpool.model.ids import Instant, PoolName
from fairpool.model.node import Topology
from fairpool.model.organization import Organization, Queue

DEFAULT_DEPARTMENT = "default"
KEPT_NAME_MAX = 48
"""Of a project's name in the name under which its claims are kept; the column has 64 characters."""


def declared_only_for(connection: Connection, cluster: str) -> list[str]:
    """Node pools and departments that were created for this cluster alone."""
    pools = [each.name for each in pools_in(connection, cluster) if each.cluster_id == cluster]
    bodies = [_department_body(row.document) for row in store.all_departments(connection)]
    departments = [each.name for each in bodies if each.cluster_id == cluster]
    return [*(f"node pool {name}" for name in pools), *(f"department {name}" for name in departments)]


def cluster_of(connection: Connection, asked: str | None) -> str:
    """The cluster that was named, by id or name; without a name, the only one there is."""
    if asked:
        row = cluster_store.cluster(connection, asked) or cluster_store.cluster_by_name(connection, asked)
        if row is None:
            fix = f"use one of {_names(cluster_store.all_clusters(connection))}"
            raise refused(422, "cluster.unknown", f"there is no cluster {asked[:64]!r}", fix, "clusterId")
        return str(row.id)
    rows = cluster_store.all_clusters(connection)
    if not rows:
        raise refused(422, "cluster.none", "there is no cluster yet", "connect one first", "clusterId")
    if len(rows) > 1:
        what = f"a cluster must be named; there are {len(rows)}: {_names(rows)}"
        fix = "specify one with --cluster NAME (API: clusterId), or set a default with `runai config cluster NAME`"
        raise refused(422, "cluster.not_named", what, fix, "clusterId")
    return str(rows[0].id)


def _names(clusters: Iterable[Any]) -> str:
    return ", ".join(sorted(row.name for row in clusters))


def pool_names(connection: Connection, cluster: str | None = None) -> frozenset[str]:
    """The names of all node pools, or of those that a cluster has."""
    if cluster is None:
        return frozenset(store.pool_names(connection))
    return frozenset(each.name for each in pools_in(connection, cluster))


def topologies_in(connection: Connection) -> tuple[Topology, ...]:
    """All network topologies: node labels, so that they are the same in every cluster."""
    rows = store.all_topologies(connection)
    bodies = [nodes_wire.NetworkTopologyRequest.model_validate_json(row.document) for row in rows]
    return tuple(Topology(name=each.name, levels=tuple(each.levels)) for each in bodies)


def _departments_in(connection: Connection, cluster: str) -> list[declared.DeclaredDepartment]:
    """The departments of a cluster: its own, and those of all clusters."""
    rows = store.all_departments(connection)
    return [department_unit(row) for row in rows if _department_body(row.document).cluster_id in (None, cluster)]


def organization_of(plane: Plane, connection: Connection, cluster: str) -> Organization:
    """Everything that is declared for a cluster except its workloads."""
    overrides = {row.node: row.document for row in store.node_overrides(connection) if row.cluster == cluster}
    rows = [row for row in store.all_projects(connection) if row.cluster == cluster]
    return declared.organization(
        [replace(project_unit(row), rules=effective_project(connection, row).scheduling_rules) for row in rows],
        _departments_in(connection, cluster),
        pools_in(connection, cluster),
        {node: nodes_wire.NodeOverridesRequest.model_validate_json(document) for node, document in overrides.items()},
        topologies=topologies_in(connection),
        use_departments=bool(preferences.current_value(plane.settings, connection, preferences.DEPARTMENTS)),
        graces=preferences.graces(plane.settings, connection),
    )


def organization_wire(plane: Plane, connection: Connection, cluster: str) -> OrganizationWire:
    """The same as a cluster pulls it."""
    return plane.cache.get(
        ("organization", cluster),
        plane.organization_state(connection),
        lambda: OrganizationWire.of(organization_of(plane, connection, cluster)),
    )


def pool_view(plane: Plane, connection: Connection, project: Any, nodes: ReportedNodes, pool: str) -> PoolView:
    """A node pool as the workloads of one project see it."""
    return PoolView(
        pool=PoolName(pool),
        nodes=nodes.pools.get(pool, PoolNodes()) if nodes.is_recent and nodes.pools else None,
        owners=plane.cache.get(
            ("owners", project.name, pool),
            plane.organization_state(connection),
            lambda: _owners(plane, connection, project, pool),
        ),
    )


def _owners(plane: Plane, connection: Connection, project: Any, pool: str) -> tuple[Queue, ...]:
    departments = _departments_in(connection, project.cluster)
    used = bool(preferences.current_value(plane.settings, connection, preferences.DEPARTMENTS))
    above = None
    siblings: list[declared.DeclaredProject] = []
    if used and declared.are_queues(departments):
        above = next(each for each in departments if each.name == project.department)
        rows = store.all_projects(connection, names=(), parents=(project.department,))
        siblings = [project_unit(row) for row in rows if row.cluster == project.cluster]
    return declared.owners(project_unit(project), pool, above, siblings)


@dataclass(frozen=True, slots=True)
class OrganizationTree:
    """Departments and projects as they are declared, with what they hold and what there is: read once for a list."""

    projects: tuple[declared.DeclaredProject, ...]
    departments: tuple[declared.DeclaredDepartment, ...]
    clusters: Mapping[str, str]
    """The cluster of each project."""
    gpus: Mapping[str, Mapping[str, int]]
    """By cluster: GPUs of each pool, as far as nodes were ever reported."""
    held_milli: Mapping[str, int]
    """By project: thousandths of a GPU."""

    def queues(self, cluster: str | None = None) -> dict[str, tuple[Queue, ...]]:
        """By pool: the queues with their quotas, in one cluster or in all."""
        mine = [each for each in self.projects if cluster is None or self.clusters[each.name] == cluster]
        named = {each.pool for unit in mine for each in unit.resources}
        named |= {each.pool for unit in self.departments for each in unit.resources}
        return {pool: declared.queues_in(pool, mine, self.departments) for pool in named}

    def warnings(self) -> dict[str, list[str]]:
        """By department: quotas that add up to more than there is, below it and in whole pools."""
        said: dict[str, list[str]] = {each.name: [] for each in self.departments}
        for cluster in sorted({*self.clusters.values()}):
            queues = self.queues(cluster)
            in_pools = declared.warnings_of_pools(queues, self.gpus.get(cluster, {}))
            below = declared.warnings_below(queues)
            for department, lines in said.items():
                lines += [*below.get(department, []), *in_pools]
        return {department: list(dict.fromkeys(lines)) for department, lines in said.items()}


def organization_tree(plane: Plane, connection: Connection) -> OrganizationTree:
    """As they are now."""
    rows = store.all_projects(connection)
    nodes = {each.id: reported_nodes(plane, connection, each.id) for each in cluster_store.all_clusters(connection)}
    gpus = {
        cluster: {pool: members.gpus for pool, members in there.pools.items()}
        for cluster, there in nodes.items()
        if there.pools
    }
    return OrganizationTree(
        projects=tuple(project_unit(row) for row in rows),
        departments=tuple(department_unit(row) for row in store.all_departments(connection)),
        clusters={row.name: row.cluster for row in rows},
        gpus={cluster: {**dict.fromkeys(store.pool_names(connection), 0), **pools} for cluster, pools in gpus.items()},
        held_milli={name: held for name, (_, held) in store.use_by_project(connection).items()},
    )


def make_first_organization(plane: Plane, connection: Connection) -> None:
    """On a fresh database: the default department and the default pool."""
    now = plane.now()
    if store.department(connection, DEFAULT_DEPARTMENT) is None:
        body = wire.DepartmentRequest(name=DEFAULT_DEPARTMENT)
        _add(plane, connection, "department", departments_table, body, now)
    if store.node_pool(connection, "default") is None:
        pool = nodes_wire.NodePoolRequest(name="default", label_key="-", label_value="-")
        _add(plane, connection, "node-pool", node_pools, pool, now)


def add_department(plane: Plane, connection: Connection, body: wire.DepartmentRequest) -> int:
    """Declare a department; its revision."""
    now = plane.now()
    if store.department(connection, body.name) is not None:
        what = f"department {body.name} already exists"
        raise refused(409, "department.exists", what, "choose another name", "name")
    body = _in_known_cluster(connection, body)
    check_resources(connection, body)
    return _add(plane, connection, "department", departments_table, body, now)


def change_department(plane: Plane, connection: Connection, body: wire.DepartmentRequest) -> int:
    """Declare other values for a department; its new revision."""
    before = _department_body(store.department(connection, body.name).document)
    _check_cluster_stays(connection, body, before.cluster_id, "department")
    body = body.model_copy(update={"cluster_id": before.cluster_id})
    check_resources(connection, body)
    now = plane.now()
    revision = record_change(plane, connection, "department", body.name, "updated", now)
    document = body.model_dump_json(by_alias=True)
    store.change(connection, departments_table, body.name, now, document=document, revision=revision)
    return revision


def add_project(plane: Plane, connection: Connection, body: wire.ProjectRequest, by: str) -> int:
    """Declare a project; its revision."""
    before = store.project(connection, body.name)
    if before is not None:
        what = f"project {body.name} already exists"
        if before.phase == "Deleting":
            what = f"project {body.name} is still being deleted"
        raise refused(409, "project.exists", what, "choose another name, or wait until it is gone", "name")
    cluster = cluster_of(connection, body.cluster_id)
    _check_project(connection, body, cluster)
    claim_store.set_aside(connection, body.name, kept_claims_name(connection, body.name, plane.now()))
    config_map_store.forget(connection, body.name)
    now = plane.now()
    columns: dict[str, object] = {"department": body.parent_id, "cluster": cluster, "phase": "Ready", "created_by": by}
    columns["color_slot"] = project_colors.slot_for(connection, body.name, now)
    revision = _add(plane, connection, "project", projects_table, body, now, **columns)
    note_quotas(plane, connection, store.project(connection, body.name))
    return revision


def kept_claims_name(connection: Connection, name: str, now: Instant) -> str:
    """Under which the claims of an earlier project of this name are kept: the same each time, until it has others."""
    latest = claim_store.latest(connection, name)
    return f"{name[:KEPT_NAME_MAX]}.{now if latest is None else latest}"


def change_project(plane: Plane, connection: Connection, row: Any, body: wire.ProjectRequest) -> int:
    """Declare other values for a project; its new revision."""
    _check_cluster_stays(connection, body, row.cluster, "project")
    _check_project(connection, body, row.cluster)
    now = plane.now()
    revision = record_change(plane, connection, "project", row.name, "updated", now)
    values = {"document": body.model_dump_json(by_alias=True), "department": body.parent_id, "revision": revision}
    store.change(connection, projects_table, row.name, now, **values)
    note_quotas(plane, connection, store.project(connection, row.name))
    if body.parent_id != row.department:
        declarations.follow_department(plane, connection, row.name, body.parent_id)
    return revision


def note_quotas(plane: Plane, connection: Connection, row: Any) -> None:
    """Its GPU quotas hold from now on, for accounting; of a project from before there was accounting, from its
    creation on."""
    unit = project_unit(row)
    quotas = {each.pool: declared.queues_in(each.pool, [unit], ())[0].gpu.quota for each in unit.resources}
    usage_store.note_quotas(connection, row.name, row.number, quotas, plane.now(), first=row.created_at)


def add_pool(plane: Plane, connection: Connection, body: nodes_wire.NodePoolRequest, by: str) -> int:
    """Declare a node pool; its revision."""
    if store.node_pool(connection, body.name) is not None:
        what = f"node pool {body.name} already exists"
        raise refused(409, "pool.exists", what, "choose another name", "name")
    body = _in_known_cluster(connection, body)
    return _add(plane, connection, "node-pool", node_pools, body, plane.now(), created_by=by)


def changed_pool(
    connection: Connection, before: nodes_wire.NodePoolRequest, body: nodes_wire.NodePoolRequest
) -> nodes_wire.NodePoolRequest:
    """Other values for a node pool, as they are stored."""
    _check_cluster_stays(connection, body, before.cluster_id, "node pool")
    return body.model_copy(update={"cluster_id": before.cluster_id})


InCluster = TypeVar("InCluster", wire.DepartmentRequest, nodes_wire.NodePoolRequest)


def _in_known_cluster(connection: Connection, body: InCluster) -> InCluster:
    """The same with the id of its cluster, which may be given by name; None: it is in all clusters."""
    cluster = cluster_of(connection, body.cluster_id) if body.cluster_id else None
    return body.model_copy(update={"cluster_id": cluster})


def _check_cluster_stays(
    connection: Connection,
    body: wire.ProjectRequest | wire.DepartmentRequest | nodes_wire.NodePoolRequest,
    cluster: str | None,
    noun: str,
) -> None:
    """Refuse another cluster than it was created for; none said means that it stays."""
    if body.cluster_id and cluster_of(connection, body.cluster_id) != cluster:
        what = f"{noun} {body.name} cannot move to another cluster"
        raise refused(409, "cluster.fixed", what, f"create another {noun} there", "clusterId")


def declare_overrides(
    plane: Plane, connection: Connection, cluster: str, node: str, body: nodes_wire.NodeOverridesRequest
) -> int:
    """Declare the cordon, taints and labels of a node; the new revision."""
    revision = changes.record(connection, "node", node, "updated", plane.now(), kept=plane.settings.changes_kept)
    store.set_node_overrides(connection, cluster, node, body.model_dump_json(by_alias=True), revision)
    return revision


def _add(
    plane: Plane,
    connection: Connection,
    noun: str,
    table: Table,
    body: wire.DepartmentRequest | wire.ProjectRequest | nodes_wire.NodePoolRequest,
    now: Instant,
    **columns: object,
) -> int:
    revision = record_change(plane, connection, noun, body.name, "created", now)
    document = body.model_dump_json(by_alias=True)
    values = {"name": body.name, "document": document, "created_at": now, "updated_at": now, "revision": revision}
    store.add(connection, table, **values, number=revision, **columns)
    return revision


def _check_project(connection: Connection, body: wire.ProjectRequest, cluster: str) -> None:
    """Everything that is wrong with a project, at once."""
    pools = pool_names(connection, cluster)
    problems = declared.resource_problems(body.resources, pools)
    parent = store.department(connection, body.parent_id)
    if parent is None:
        what, fix = f"there is no department {body.parent_id}", "create it first, or use default"
        problems.append(ProblemItem(code="department.unknown", what=what, fix=fix, field="parentId"))
    elif _department_body(parent.document).cluster_id not in (None, cluster):
        what, fix = f"department {body.parent_id} is in another cluster", "use a department of the project's cluster"
        problems.append(ProblemItem(code="department.elsewhere", what=what, fix=fix, field="parentId"))
    problems += _unknown_pools(body.default_node_pools, pools)
    if body.requested_namespace not in (None, f"runai-{body.name}"):
        fix = f"remove it, or use runai-{body.name}"
        what = "a project's namespace is derived from its name"
        problems.append(ProblemItem(code="project.namespace", what=what, fix=fix, field="requestedNamespace"))
    if not body.enforce_runai_scheduler:
        what, fix = "no other scheduler places pods here", "remove it, or set it to true"
        problems.append(ProblemItem(code="project.scheduler", what=what, fix=fix, field="enforceRunaiScheduler"))
    if problems:
        raise Refused(422, problems)


def _unknown_pools(named: Iterable[str], pools: frozenset[str]) -> list[ProblemItem]:
    fix = f"use one of {', '.join(sorted(pools))}"
    return [
        ProblemItem(code="pool.unknown", what=f"there is no node pool {name}", fix=fix, field="defaultNodePools")
        for name in named
        if name not in pools
    ]


def check_resources(connection: Connection, body: wire.DepartmentRequest) -> None:
    """Refuse quotas and node pools that cannot be."""
    pools = pool_names(connection, body.cluster_id)
    problems = declared.resource_problems(body.resources, pools) + _unknown_pools(body.default_node_pools, pools)
    if problems:
        raise Refused(422, problems)


def record_change(plane: Plane, connection: Connection, noun: str, name: str, verb: str, now: Instant) -> int:
    """Record that it changed; its new revision."""
    project = name if noun == "project" else None
    return changes.record(connection, noun, name, verb, now, project=project, kept=plane.settings.changes_kept)


def project_unit(row: Any) -> declared.DeclaredProject:
    """A project's row, as it is declared."""
    body = _project_body(row.document)
    return declared.DeclaredProject(
        row.name, tuple(body.resources), row.created_at, row.department, body.scheduling_rules
    )


def effective_project(connection: Connection, row: Any) -> wire.ProjectRequest:
    """A project's row, as it is declared, with its department's values where it has none of its own."""
    department = store.department(connection, row.department)
    return _effective(row.document, department.document)


def department_unit(row: Any) -> declared.DeclaredDepartment:
    """A department's row, as it is declared."""
    body = _department_body(row.document)
    return declared.DeclaredDepartment(row.name, tuple(body.resources), row.created_at)


# The same text is the same value, which cannot be changed; and it is asked for at every submit.
@lru_cache(maxsize=8192)
def _project_body(document: str) -> wire.ProjectRequest:
    return wire.ProjectRequest.model_validate_json(document)


@lru_cache(maxsize=8192)
def _effective(project: str, department: str) -> wire.ProjectRequest:
    return declared.effective(_project_body(project), _department_body(department))


@lru_cache(maxsize=1024)
def _department_body(document: str) -> wire.DepartmentRequest:
    return wire.DepartmentRequest.model_validate_json(document)
