"""SQL for resources that pods hold on nodes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from fairpool.api.clusters import PodReport
from fairpool.control.store.compiled import Compiled, CompiledIn
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import holdings, pods, workloads
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase

_OF_WORKLOAD = Compiled(select(holdings).where(holdings.c.workload == bindparam("of")).order_by(holdings.c.pod))
_DROP = Compiled(delete(holdings).where(holdings.c.workload == bindparam("of")))
_ADD = Compiled(insert(holdings))
_HOLDERS = CompiledIn(
    lambda ids: select(holdings.c.cluster, holdings.c.workload).where(holdings.c.workload.in_(ids)).distinct()
)
_OWNER = (workloads.c.name, workloads.c.project, workloads.c.department, workloads.c.submitted_by)
_WITH_OWNERS = Compiled(
    select(
        *(holdings.c.cluster, holdings.c.node, holdings.c.devices, holdings.c.gpus_milli, holdings.c.workload),
        *_OWNER,
        *(pods.c.phase, holdings.c.since),
    )
    .join(workloads, workloads.c.id == holdings.c.workload)
    .join(pods, pods.c.id == holdings.c.pod)
    .order_by(holdings.c.cluster, holdings.c.node, holdings.c.devices, holdings.c.pod)
)


@dataclass(slots=True)
class Use:
    """What is in use of one node."""

    gpus_milli: int = 0
    devices_milli: dict[int, int] = field(default_factory=dict)
    pods: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0


def replace(connection: Connection, cluster: str, workload: str, pods: Iterable[PodReport], now: int) -> None:
    """What the pods of a workload hold from now on. A pod keeps its place until it has ended."""
    before = [row._asdict() for row in _OF_WORKLOAD.rows(connection, {"of": workload})]
    since = {row["pod"]: row["since"] for row in before}
    rows = [
        {
            "pod": pod.id,
            "workload": workload,
            "cluster": cluster,
            "node": pod.node,
            "devices": json.dumps(pod.devices),
            "gpus_milli": pod.gpus_milli,
            "cpu_milli": pod.cpu_milli,
            "memory_bytes": pod.memory_bytes,
            "since": since.get(pod.id) or pod.started_at or now,
        }
        for pod in sorted(pods, key=lambda pod: pod.id)
        if pod.node is not None and pod.phase in HOLDS_DEVICES
    ]
    if before == rows:
        return
    if before:
        _DROP.run(connection, {"of": workload})
    _ADD.run_all(connection, rows)


def holders(connection: Connection, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Those of these workloads that hold something, by cluster."""
    found: dict[str, list[str]] = {}
    for row in _HOLDERS.rows(connection, wanted):
        found.setdefault(row.cluster, []).append(row.workload)
    return found


def by_node(connection: Connection, node: str | None = None) -> dict[tuple[str, str], Use]:
    """What is in use, by cluster and node; of all nodes, or of those with this name."""
    found: dict[tuple[str, str], Use] = {}
    for row in connection.execute(
        select(holdings) if node is None else select(holdings).where(holdings.c.node == node)
    ):
        use = found.setdefault((row.cluster, row.node), Use())
        use.gpus_milli += row.gpus_milli
        use.cpu_milli += row.cpu_milli
        use.memory_bytes += row.memory_bytes
        use.pods += 1
        devices = json.loads(row.devices)
        for device in devices:
            use.devices_milli[device] = use.devices_milli.get(device, 0) + row.gpus_milli // len(devices)
    return found


def with_owners(connection: Connection) -> list[Any]:
    """Every pod that holds something, with its phase and whose it is, by node and device."""
    return _WITH_OWNERS.rows(connection)


def promised(connection: Connection) -> list[Any]:
    """Every pod that has a place as soon as others have left it."""
    query = select(pods.c.document, pods.c.workload, workloads.c.cluster, workloads.c.declaration, *_OWNER)
    query = query.join(workloads, workloads.c.id == pods.c.workload)
    is_promised = (pods.c.phase == PodPhase.PROMISED.value, workloads.c.deleted_at.is_(None))
    return list(connection.execute(query.where(*is_promised).order_by(pods.c.id)))


def on_node(connection: Connection, cluster: str, node: str) -> list[Any]:
    """The pods that hold something on a node, with whose they are."""
    query = select(holdings, *_OWNER).join(workloads, workloads.c.id == holdings.c.workload)
    mine = (holdings.c.cluster == cluster, holdings.c.node == node)
    return list(connection.execute(query.where(*mine).order_by(workloads.c.project, workloads.c.name, holdings.c.pod)))
