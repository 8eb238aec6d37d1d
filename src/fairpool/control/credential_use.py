"""Who uses a credential: the workloads that refer to it, as their projects resolve its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from fairpool.api import assets as wire
from fairpool.control.asset_use import LISTS
from fairpool.control.plane import Caller
from fairpool.control.rbac import Action
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of

Usable = Callable[[Connection, Any, Collection[str]], dict[str, Any]]


def of_all(connection: Connection, caller: Caller, usable: Usable) -> dict[str, wire.AssetUse]:
    """Workloads that the caller may see, by the id of each credential that they refer to."""
    projects: dict[str, Any] = {}
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in workload_store.with_credentials(connection):
        if not caller.may(Action.WORKLOAD_READ, row.project, row.department, row.cluster):
            continue
        if row.project not in projects:
            projects[row.project] = organization_store.project(connection, row.project)
        project, names = projects[row.project], _named(row)
        if project is None or not names:
            continue
        use = wire.WorkloadUse(id=row.id, name=row.name, project_name=row.project, phase=row.phase, status=row.phase)
        for each in {credential.id for credential in usable(connection, project, names).values()}:
            found[each][LISTS[row.kind]].append(use)
    return {each: wire.AssetUse(**lists) for each, lists in found.items()}


def _named(row: Any) -> frozenset[str]:
    spec = declaration_of(row).workload.to_spec()
    templates = [each for each in (spec.template, spec.leader) if each is not None]
    return frozenset(name for each in templates for name in each.program.credentials)
