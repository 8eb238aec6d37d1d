"""The built-in roles, as data: which cells of the permission grid each has. Pure.

They cannot be changed. Their ids are part of the API and are never given to another role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fairpool.api.access import ScopeType
from fairpool.api.roles import ADMINISTRATOR, RESEARCHER, ResourceType, Verb, role_key
from fairpool.control.rbac import CELLS, DATA_SOURCES, WORKLOAD_KINDS, Cell, Grant, actions_of

FIRST_CUSTOM_ID = 1001
"""Custom roles have this id or a higher one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInRole:
    """A role that comes with every installation."""

    id: int
    key: str
    """As commands and the database call it."""
    name: str
    description: str
    cells: frozenset[Cell]
    also: tuple[str, ...] = ()
    """Other keys that are accepted."""

    def grant(self, scope_type: ScopeType, scope_id: str = "") -> Grant:
        return Grant(self.key, actions_of(self.cells), scope_type, scope_id)


R = ResourceType
LETTERS = {"c": Verb.CREATE, "r": Verb.READ, "u": Verb.UPDATE, "d": Verb.DELETE}
ASSETS = (R.ENVIRONMENTS, R.COMPUTE_RESOURCES, R.TEMPLATES, *DATA_SOURCES)
PLACES = (R.CLUSTER, R.NODES, R.NODEPOOLS, R.NETWORK_TOPOLOGIES, R.DEPARTMENT, R.PROJECT, R.DASHBOARDS_OVERVIEW)


def _cells(letters: str, *resources: ResourceType) -> frozenset[Cell]:
    cells = {Cell(resource, LETTERS[letter]) for resource in resources for letter in letters}
    return frozenset(cells) & CELLS


LOOK = _cells("r", *PLACES, *WORKLOAD_KINDS, *ASSETS, R.POLICIES, R.CREDENTIALS, R.REGISTRIES)
"""What every role may see within its scope."""
WORK = _cells("cud", R.WORKSPACES, R.TRAININGS)
MODELS = _cells("cud", R.INFERENCES)
EVERY_ASSET = _cells("cud", *ASSETS, R.CREDENTIALS)
MEMBERS = _cells("crd", R.ACCESS_RULES) | _cells("r", R.USERS, R.APPS, R.SERVICE_ACCOUNT)

_LISTED = (
    BuiltInRole(
        id=1,
        key=ADMINISTRATOR,
        name="System administrator",
        description="Everything: users, settings, clusters, departments, projects and their workloads",
        cells=CELLS,
        also=("system-administrator", "admin", "system-admin"),
    ),
    BuiltInRole(
        id=2,
        key="department-administrator",
        name="Department administrator",
        description="Projects, access rules, workloads, policies and assets within a department",
        cells=LOOK
        | _cells("cud", R.PROJECT, R.POLICIES)
        | WORK
        | MODELS
        | EVERY_ASSET
        | MEMBERS
        | _cells("cud", R.REGISTRIES),
        also=("department-admin",),
    ),
    BuiltInRole(
        id=3,
        key="department-viewer",
        name="Department viewer",
        description="Sees projects, workloads, assets and access rules within a department, and changes nothing",
        cells=LOOK | _cells("r", R.ACCESS_RULES),
    ),
    BuiltInRole(
        id=4,
        key="editor",
        name="Editor",
        description="Creates and changes departments and projects; sees workloads and assets",
        cells=LOOK | _cells("cud", R.DEPARTMENT, R.PROJECT),
    ),
    BuiltInRole(
        id=5,
        key="research-manager",
        name="Research manager",
        description="Creates and changes assets, credentials included; sees projects and workloads",
        cells=LOOK | EVERY_ASSET,
    ),
    BuiltInRole(
        id=6,
        key=RESEARCHER,
        name="Researcher",
        description="Submits and manages workloads of every kind, and creates credentials",
        cells=LOOK | WORK | MODELS | _cells("c", R.CREDENTIALS),
    ),
    BuiltInRole(
        id=7,
        key="l1-researcher",
        name="L1 researcher",
        description="Submits and manages workloads of every kind, and creates and changes assets",
        cells=LOOK | WORK | MODELS | EVERY_ASSET,
        also=("researcher-l1",),
    ),
    BuiltInRole(
        id=8,
        key="l2-researcher",
        name="L2 researcher",
        description="Submits and manages workspaces and training; uses the assets that others made",
        cells=LOOK | WORK,
        also=("researcher-l2",),
    ),
    BuiltInRole(
        id=9,
        key="ml-engineer",
        name="ML engineer",
        description="Submits and manages inference workloads; sees the others",
        cells=LOOK | MODELS,
    ),
    BuiltInRole(
        id=10,
        key="viewer",
        name="Viewer",
        description="Sees projects, workloads and assets, and changes nothing",
        cells=LOOK,
    ),
    BuiltInRole(
        id=11,
        key="compute-resource-administrator",
        name="Compute resource administrator",
        description="Creates and changes compute resources; sees workloads and the other assets",
        cells=LOOK | _cells("cud", R.COMPUTE_RESOURCES),
    ),
    BuiltInRole(
        id=12,
        key="environment-administrator",
        name="Environment administrator",
        description="Creates and changes environments; sees workloads and the other assets",
        cells=LOOK | _cells("cud", R.ENVIRONMENTS),
    ),
    BuiltInRole(
        id=13,
        key="data-source-administrator",
        name="Data source administrator",
        description="Creates and changes data sources; sees workloads and the other assets",
        cells=LOOK | _cells("cud", *DATA_SOURCES),
    ),
    BuiltInRole(
        id=14,
        key="credentials-administrator",
        name="Credentials administrator",
        description="Creates and changes credentials, also those of others; sees workloads and assets",
        cells=LOOK | _cells("cud", R.CREDENTIALS),
        also=("credential-administrator",),
    ),
    BuiltInRole(
        id=15,
        key="template-administrator",
        name="Template administrator",
        description="Creates and changes workload templates; sees workloads and the other assets",
        cells=LOOK | _cells("cud", R.TEMPLATES),
    ),
)

BUILT_IN: Mapping[str, BuiltInRole] = MappingProxyType({role.key: role for role in _LISTED})
"""By key, in the order of their ids."""
BY_ID: Mapping[int, BuiltInRole] = MappingProxyType({role.id: role for role in _LISTED})
BY_NAME: Mapping[str, BuiltInRole] = MappingProxyType(
    {name: role for role in _LISTED for name in (role.key, role_key(role.name), *role.also)}
)


def built_in(name: str) -> BuiltInRole | None:
    """The built-in role of this name, however it is written, or of this id."""
    if name.isascii() and name.isdigit():
        return BY_ID.get(int(name)) if len(name) < len(str(FIRST_CUSTOM_ID)) else None
    return BY_NAME.get(role_key(name))
