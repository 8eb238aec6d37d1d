"""Reports of nodes and queues, and which workload reports changed: what the next push has to contain."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.api.clusters import NodeReport, QueueReport
from fairpool.cluster.ledger_cache import EntryDraft, LedgerCache
from fairpool.model.ids import WorkloadId


class PendingReports:
    """What has to be reported next, and what was last reported about nodes and queues."""

    def __init__(self) -> None:
        self.changed_reports: set[WorkloadId] = set()
        self._reported_nodes: tuple[object, ...] = ()
        self._queues_differ = True

    def note(self, draft: EntryDraft) -> None:
        """Note what changed with a recorded draft."""
        self.changed_reports |= draft.reports.keys() | draft.dropped | draft.undesired
        self._queues_differ |= bool(draft.plans)

    def nodes(self, cache: LedgerCache) -> Sequence[NodeReport] | None:
        """All nodes; None: unchanged."""
        if cache.observation is None:
            return None
        nodes, marks, pool_of = cache.observation.nodes, cache.organization.marks, cache.pooled_nodes.pool_of
        if self._reported_nodes and all(
            new is old for new, old in zip((nodes, marks, pool_of), self._reported_nodes, strict=True)
        ):
            return None
        self._reported_nodes = (nodes, marks, pool_of)
        return [
            NodeReport(
                name=name,
                pool=pool_of.get(name),
                ready=observed.node.ready and observed.silent_since is None,
                cordoned=observed.node.cordoned or (name in marks and marks[name].cordoned),
                silent_since=observed.silent_since,
                gpus=observed.node.gpus,
                cpu_milli=observed.node.cpu_milli,
                memory_bytes=observed.node.memory_bytes,
                gpu_memory_mib=observed.node.gpu_memory_mib,
                gpus_withheld=observed.node.gpus_withheld,
                words=observed.message,
                labels=dict(observed.node.labels),
                images=observed.images,
            )
            for name, observed in nodes.items()
        ]

    def queues(self, cache: LedgerCache) -> Sequence[QueueReport] | None:
        """Quota, fair share and use of every queue in every pool; None: unchanged."""
        if not self._queues_differ:
            return None
        self._queues_differ = False
        return [
            QueueReport(
                pool=pool,
                queue=figures.queue,
                quota_milli=figures.quota_milli,
                fair_share_milli=figures.fair_share_milli,
                held_milli=figures.held_milli,
            )
            for pool, plan in sorted(cache.plans.items())
            for figures in plan.queues
        ]
