"""Clusters of the previous protocol version: which workloads they cannot run as declared, and what users are shown.

Fields that such a cluster does not know are left out of its messages. A workload that is to run and uses one of them is
not sent at all, because it would run differently than declared; it waits, and says why. To be stopped or deleted, none
of its fields matters. A cluster that was upgraded asks for everything again.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.api.clusters import DesiredWorkload, WorkloadReport
from fairpool.api.message import VERSION
from fairpool.model.ids import Instant
from fairpool.model.spec import DesiredState
from fairpool.model.status import WaitReason, WorkloadPhase

NOT_SENT = "not sent to its cluster: "


def withheld(workloads: Iterable[DesiredWorkload], version: int) -> list[tuple[DesiredWorkload, list[str]]]:
    """Those that a cluster of this version must not be sent, with the fields that it does not know."""
    if version >= VERSION:
        return []
    found = [(each, list(each.newer_fields(version))) for each in workloads if each.desired_state is DesiredState.RUN]
    return [(each, fields) for each, fields in found if fields]


def withheld_report(workload: DesiredWorkload, fields: list[str], version: int, now: Instant) -> WorkloadReport:
    """What users are shown of it, as if its cluster had reported it."""
    named = ", ".join(fields)
    detail = f"{NOT_SENT}the cluster speaks protocol version {version} and does not know {named}; upgrade the cluster"
    detail += f" to the release of its control plane (version {VERSION})"
    return WorkloadReport(
        id=workload.id,
        run=workload.run,
        phase=WorkloadPhase.PENDING,
        reason=WaitReason.QUEUED,
        detail=detail,
        since=now,
        waiting_since=workload.created_at,
    )


def is_withheld(report: WorkloadReport | None) -> bool:
    """Whether this is such a report, and not one of a cluster."""
    return report is not None and report.detail.startswith(NOT_SENT)
