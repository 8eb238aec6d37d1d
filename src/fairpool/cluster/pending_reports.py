"""Levels of nodes and queues, and which workload levels are new: what the loop tells beside the workloads."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.api.clusters import NodeReport, QueueReport
from fairpool.cluster.ledger_cache import EntryDraft, LedgerCache
from fairpool.model.ids import WorkloadId


class PendingReports:
    """What has to be told next time, and what was last told about nodes and queues."""

    def __init__(self) -> None:
        self.changed_reports: set[WorkloadId] = set()
        self._told_of: tuple[object, ...] = ()
        self._queues_differ = True

    def note(self, draft: EntryDraft) -> None:
        """A draft was recorded."""
        self.changed_reports |= draft.reports.keys() | draft.dropped | draft.undesired
        self._queues_differ |= bool(draft.plans)

    def nodes(self, cache: LedgerCache) -> Sequence[NodeReport] | None:
        """All nodes as they are; None: as before."""
        if cache.observation is None:
            return None
        observed_pods, marks, pool_of = cache.observation.nodes, cache.organization.marks, cache.pooled_nodes.pool_of
        if self._told_of and all(
            new is old for new, old in zip((observed_pods, marks, pool_of), self._told_of, strict=True)
        ):
            return None
        self._told_of = (observed_pods, marks, pool_of)
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
            for name, observed in observed_pods.items()
        ]

    def queues(self, cache: LedgerCache) -> Sequence[QueueReport] | None:
        """What each queue is owed, may fairly have and holds, in each pool; None: as before."""
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
