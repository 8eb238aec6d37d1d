"""Reports of nodes and queues, and which workload reports changed: what the next report has to contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from fairpool.api.clusters import NodeReport, QueueReport
from fairpool.api.declarations import DeclaredTaint
from fairpool.cluster.ledger_cache import EntryDraft, LedgerCache
from fairpool.model.ids import NodeName, PoolName, QueueId, WorkloadId
from fairpool.model.observation import ObservedNode
from fairpool.model.organization import NodeOverrides
from fairpool.scheduler.decision import QueueFigures


class PendingReports:
    """What has to be reported next. A node or queue that is as it was is the same report object as before."""

    def __init__(self) -> None:
        self.changed_reports: set[WorkloadId] = set()
        self._observed: tuple[object, ...] = ()
        self._queues_differ = True
        self._nodes: dict[NodeName, tuple[tuple[object, ...], NodeReport]] = {}
        self._queues: dict[tuple[PoolName, QueueId], QueueReport] = {}

    def note(self, draft: EntryDraft) -> None:
        """Note what changed with a recorded draft."""
        self.changed_reports |= draft.reports.keys() | draft.dropped | draft.undesired
        self._queues_differ |= bool(draft.plans)

    def nodes(self, cache: LedgerCache) -> Sequence[NodeReport] | None:
        """All nodes; None: unchanged."""
        if cache.observation is None:
            return None
        observed, overrides, pool_of = (
            cache.observation.nodes,
            cache.organization.node_overrides,
            cache.pooled_nodes.pool_of,
        )
        sources = (observed, overrides, pool_of)
        if self._observed and all(new is old for new, old in zip(sources, self._observed, strict=True)):
            return None
        self._observed = sources
        before, self._nodes = self._nodes, {}
        for name, node in observed.items():
            made_of = (node, overrides.get(name), pool_of.get(name))
            known = before.get(name)
            if known is None or any(new is not old for new, old in zip(made_of, known[0], strict=True)):
                known = made_of, _node_report(node, overrides.get(name), pool_of.get(name))
            self._nodes[name] = known
        return [report for _, report in self._nodes.values()]

    def queues(self, cache: LedgerCache) -> Sequence[QueueReport] | None:
        """Quota, fair share and use of every queue in every pool; None: unchanged."""
        if not self._queues_differ:
            return None
        self._queues_differ = False
        before, self._queues = self._queues, {}
        for pool, plan in sorted(cache.plans.items()):
            for figures in plan.queues:
                key = (pool, figures.queue)
                known = before.get(key)
                self._queues[key] = known if _is_same(known, figures) else _queue_report(pool, figures)
        return list(self._queues.values())


def _node_report(observed: ObservedNode, overrides: NodeOverrides | None, pool: PoolName | None) -> NodeReport:
    node = observed.node
    return NodeReport(
        name=node.name,
        pool=pool,
        ready=node.ready and observed.silent_since is None,
        cordoned=node.cordoned or (overrides is not None and overrides.cordoned),
        silent_since=observed.silent_since,
        gpus=node.gpus,
        cpu_milli=node.cpu_milli,
        memory_bytes=node.memory_bytes,
        gpu_memory_mib=node.gpu_memory_mib,
        gpus_withheld=node.gpus_withheld,
        message=observed.message,
        labels=dict(node.labels),
        images=observed.images,
        taints=tuple(map(DeclaredTaint.of, node.taints)),
        mig_strategy=node.mig_strategy,
        privileges=observed.privileges,
        directory_users=observed.directory_users,
        counted={**node.extended, **node.mig_instances},
    )


def _is_same(report: QueueReport | None, figures: QueueFigures) -> TypeGuard[QueueReport]:
    return report is not None and (report.quota_milli, report.fair_share_milli, report.held_milli) == (
        figures.quota_milli,
        figures.fair_share_milli,
        figures.held_milli,
    )


def _queue_report(pool: PoolName, figures: QueueFigures) -> QueueReport:
    return QueueReport(
        pool=pool,
        queue=figures.queue,
        quota_milli=figures.quota_milli,
        fair_share_milli=figures.fair_share_milli,
        held_milli=figures.held_milli,
    )
