"""What workloads ask for, read from their declarations once for each revision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fairpool.control.store import scrape as store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import WorkloadDeclaration


class WorkloadRequest(NamedTuple):
    """What a workload asks for, all pods together."""

    revision: int
    cpu_milli: int
    memory_bytes: int
    cpu_limit_milli: int
    memory_limit_bytes: int
    gpu_memory_mib: int
    image: str
    pods: int


class RequestCache:
    """What was read of the declarations of the workloads that had series last time."""

    def __init__(self) -> None:
        self._known: dict[str, WorkloadRequest] = {}

    def of(self, connection: Connection, rows: Sequence[Any]) -> dict[str, WorkloadRequest]:
        known = self._known
        found = {row.id: known[row.id] for row in rows if row.id in known and known[row.id].revision == row.revision}
        for row in store.declarations(connection, [row.id for row in rows if row.id not in found]):
            with suppress(ValueError):  # one that cannot be read must not leave all others without figures
                found[row.id] = _request(row)
        self._known = found
        return found


def _request(row: Any) -> WorkloadRequest:
    workload = WorkloadDeclaration.from_json(row.declaration).workload
    shape, program, pods = workload.template.shape, workload.template.program, workload.pods
    return WorkloadRequest(
        revision=row.revision,
        cpu_milli=shape.cpu_milli * pods,
        memory_bytes=shape.memory_bytes * pods,
        cpu_limit_milli=program.cpu_limit_milli,
        memory_limit_bytes=program.memory_limit_bytes,
        gpu_memory_mib=shape.gpu.memory_mib * shape.gpu.devices * pods,
        image=program.image,
        pods=pods,
    )
