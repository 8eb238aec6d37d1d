"""What a scrape shows: all clusters as one read of the database finds them, and what was last measured there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from fairpool.api.clusters import NodeReport
from fairpool.control.cluster_facts import facts_of
from fairpool.control.plane import Plane
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import scrape as store
from fairpool.control.store.database import Connection
from fairpool.control.store.telemetry import workload_totals
from fairpool.control.workload_requests import WorkloadRequest
from fairpool.metrics.totals import ClusterFacts
from fairpool.model.ids import SECOND_MS, Instant

WORKLOADS_MAX: Final = 20_000
"""With series of their own."""
ENDED_S: Final = 3600
"""How long a workload that has ended keeps its series."""

Row = Mapping[str, Sequence[float]]
"""By subject: a value for each column."""


@dataclass(frozen=True, slots=True)
class ScrapedCluster:
    """One cluster."""

    id: str
    name: str
    version: str
    last_seen_at: Instant | None
    facts: ClusterFacts
    nodes: Sequence[NodeReport]
    workloads: Sequence[Any]
    """Their rows, also of those that ended a while ago."""
    measured: dict[str, Row] = field(default_factory=dict)
    """By group: what was measured last."""


@dataclass(frozen=True, slots=True)
class Scraped:
    """Everything, at one moment."""

    now: Instant
    clusters: Sequence[ScrapedCluster]
    requests: Mapping[str, WorkloadRequest]
    totals: Sequence[Any]
    """Number of workloads by project, department, cluster, kind and phase."""
    left_out: int
    """Workloads beyond the most that have series."""


def scraped(plane: Plane, connection: Connection, now: Instant) -> Scraped:
    since = now - ENDED_S * SECOND_MS
    rows = store.workload_rows(connection, since, WORKLOADS_MAX)
    left_out = store.workload_count(connection, since) - len(rows) if len(rows) == WORKLOADS_MAX else 0
    by_cluster: dict[str, list[Any]] = {}
    for row in rows:
        by_cluster.setdefault(row.cluster, []).append(row)
    clusters = [
        ScrapedCluster(
            row.id,
            row.name,
            row.version,
            row.last_seen_at,
            facts_of(plane, connection, row.id, now),
            [_report(each.document) for each in cluster_store.nodes_of(connection, row.id)],
            by_cluster.get(row.id, []),
        )
        for row in cluster_store.all_clusters(connection)
    ]
    return Scraped(now, clusters, plane.requests.of(connection, rows), workload_totals(connection), left_out)


# Few nodes are reported again between two scrapes.
@lru_cache(maxsize=20_000)
def _report(document: str) -> NodeReport:
    return NodeReport.from_json(document)
