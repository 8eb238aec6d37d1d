"""Levels of nodes and queues, and which workload levels are new: what the loop tells beside the workloads."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.api.clusters import NodeReport, QueueReport
from fairpool.cluster.books import Books, Draft
from fairpool.cluster.rollup import gpus_held_milli
from fairpool.model.ids import SECOND_MS, Instant, NodeName, WorkloadId

NODES_S = 5
"""How often the use of nodes is counted, at most."""


class Inventory:
    """What has to be told next time, and what was last told about nodes and queues."""

    def __init__(self) -> None:
        self.changed_levels: set[WorkloadId] = set()
        self._nodes_differ = True
        self._queues_differ = True
        self._counted_at: Instant | None = None

    def note(self, draft: Draft) -> None:
        """A draft was recorded."""
        self.changed_levels |= draft.levels.keys() | draft.dropped | draft.undesired
        self._nodes_differ |= bool(draft.lives) or draft.must_plan
        self._queues_differ |= bool(draft.plans)

    @property
    def due_at(self) -> Instant | None:
        """When the use of nodes should be counted again; None: it is as it was counted."""
        if not self._nodes_differ or self._counted_at is None:
            return None
        return Instant(self._counted_at + NODES_S * SECOND_MS)

    def nodes(self, books: Books, now: Instant) -> Sequence[NodeReport] | None:
        """All nodes with what is used of them; None: as before, or counted too lately."""
        recent = self._counted_at is not None and 0 <= now - self._counted_at < NODES_S * SECOND_MS
        if not self._nodes_differ or recent or books.observation is None:
            return None
        self._nodes_differ, self._counted_at = False, now
        sights = books.observation.nodes
        used: dict[NodeName, int] = dict.fromkeys(sights, 0)
        cpu, memory, pods = used.copy(), used.copy(), used.copy()
        for workload in books.rows:
            for life in books.lives[workload]:
                if life.is_placed and life.node in used:
                    used[life.node] += gpus_held_milli(life, sights)
                    cpu[life.node] += life.shape.cpu_milli
                    memory[life.node] += life.shape.memory_bytes
                    pods[life.node] += 1
        marks = books.organization.marks
        return [
            NodeReport(
                name=name,
                pool=books.ground.pool_of.get(name),
                ready=sight.node.ready and sight.silent_since is None,
                cordoned=sight.node.cordoned or (name in marks and marks[name].cordoned),
                silent_since=sight.silent_since,
                gpus=sight.node.gpus,
                gpus_used_milli=used[name],
                pods=pods[name],
                cpu_milli=sight.node.cpu_milli,
                cpu_used_milli=cpu[name],
                memory_bytes=sight.node.memory_bytes,
                memory_used_bytes=memory[name],
                gpu_memory_mib=sight.node.gpu_memory_mib,
                gpus_withheld=sight.node.gpus_withheld,
                labels=dict(sight.node.labels),
            )
            for name, sight in sights.items()
        ]

    def queues(self, books: Books) -> Sequence[QueueReport] | None:
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
            for pool, plan in sorted(books.plans.items())
            for figures in plan.queues
        ]
