"""Marks pods as ended that are missing from reports, from their `ended` events.

A report holds the latest pod of each index. How an earlier one ended is in its `ended` event, which may come before or
after the report with its replacement, and may be all that was ever reported of a short one.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.api.clusters import EventReport, PodReport
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant, PodId, place_of
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause

CAUSES = frozenset(Cause)
CREATED = ("created", "born")
"""Clusters of an older version say born, and so do lines that were stored then."""
PODS_KEPT = 100
"""Of each pod. What is preempted every hour for a year has thousands, and they are not read."""


def close_ended(connection: Connection, cluster: str, reported: Iterable[EventReport]) -> None:
    """Write down the ends among these lines."""
    ends = {line.pod: line for line in reported if line.kind == "ended" and line.pod is not None}
    owners = store.some(connection, list(dict.fromkeys(line.workload for line in ends.values())))
    for pod, end in ends.items():
        owner = owners.get(end.workload)
        place = place_of(end.workload, pod)
        if owner is not None and owner.cluster == cluster and place is not None:  # no cluster closes another's pods
            _close(connection, pod, place, end)


def is_better_known(connection: Connection, pod: PodId, node: str | None) -> bool:
    """Whether the node of a pod that has ended is known here, and not to the loop that reports its end.

    A loop that lost its ledger, as after a restore on a wiped machine, knows no more than that the pod had ended.
    """
    row = store.pod(connection, pod) if node is None else None
    return row is not None and row.phase == PodPhase.ENDED.value and PodReport.from_json(row.document).node is not None


def _close(connection: Connection, pod: PodId, place: tuple[int, int], end: EventReport) -> None:
    if is_better_known(connection, pod, end.node):
        return
    row = store.pod(connection, pod)
    index, incarnation = place
    before = PodReport(id=pod, index=index, incarnation=incarnation, phase=PodPhase.WAITING)
    if row is not None:
        before = PodReport.from_json(row.document)
    created_at, started_at = end.at, before.started_at
    if row is None or started_at is None:
        for line in cluster_store.events_of_pod(connection, end.workload, pod):
            if line.kind in CREATED:
                created_at = line.at
            elif line.kind == "started":
                started_at = line.at
    after = before.model_copy(update=_ended(before, end, started_at))
    values = {
        "id": pod,
        "workload": end.workload,
        "pod_index": index,
        "incarnation": incarnation,
        "phase": after.phase.value,
        "document": after.to_json(),
        "since": end.at,
    }
    store.set_pod(connection, row is not None, values if row is not None else {**values, "created_at": created_at})
    store.drop_pods_before(connection, end.workload, index, incarnation - PODS_KEPT + 1)


def _ended(before: PodReport, end: EventReport, started_at: Instant | None) -> dict[str, object]:
    return {
        "phase": PodPhase.ENDED,
        "node": end.node or before.node,
        "started_at": started_at,
        "outcome": end.outcome or before.outcome,
        "cause": Cause(end.cause) if end.cause in CAUSES else before.cause,
        "detail": end.detail or before.detail,
        "exit_code": before.exit_code if end.exit_code is None else end.exit_code,
        "start_failure": "",
    }
