"""Scoring: which of the nodes where a pod fits is best.

The terms are of different magnitude on purpose, so that a lower one only decides between nodes that are alike in the
higher ones: nominated node, closeness in a topology, preferred node affinity where there is room at once, a device
already shared, free at once, a node without GPUs for a pod without, and last the placement strategy.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairpool.model.empty_node import preference
from fairpool.model.node import Placement
from fairpool.scheduler.charge import ShapeFacts
from fairpool.scheduler.columns import COMING, LEAVING, STAYING, Columns
from fairpool.scheduler.fit import Fit, soft_taints
from fairpool.scheduler.policy import ScoreTerm

CLOSENESS = 10**9
PREFERENCE = 10_000
SHARING = 1_000
AVAILABLE = 100
NO_GPUS = 10

Closeness = Mapping[int, int]
"""Points by node for being close to where most of a group should go."""

ALIKE: Closeness = {}

Rank = tuple[float, float]
"""Sum of the higher terms and the placement strategy's term, both such that smaller is better."""


class Score:
    """Ranks nodes for one shape, or for one pod with device claims: those of GPUs make it a GPU pod."""

    def __init__(self, fit: Fit, facts: ShapeFacts, closeness: Closeness, pod: int | None = None) -> None:
        columns = fit.columns
        terms = columns.policy.score_terms
        self.fit = fit
        self.columns: Columns = columns
        self.facts = facts
        self.claims = () if pod is None else columns.pods[pod].claims
        self.on_gpus = facts.on_gpus or (pod is not None and columns.claimed_gpus[pod] > 0)
        self.closeness = closeness if ScoreTerm.TOPOLOGY in terms else {}
        self.packs = columns.gpu_placement is Placement.BINPACK
        self.prefers = ScoreTerm.PREFERENCES in terms and bool(facts.shape.preferences)
        self.by_sharing = ScoreTerm.SHARING in terms and self.packs
        self.by_availability = ScoreTerm.AVAILABILITY in terms
        self.by_type = ScoreTerm.RESOURCE_TYPE in terms and not self.on_gpus
        self.by_taints = ScoreTerm.SOFT_TAINTS in terms and columns.has_soft_taints
        self.by_placement = ScoreTerm.PLACEMENT in terms
        strategy = columns.gpu_placement if self.on_gpus else columns.cpu_placement
        self.fragments = fit.fragments if strategy is Placement.FRAGMENTATION else None

    def rank(self, node: int) -> Rank:
        """How good a node is on which the amounts fit."""
        points = 0.0
        if self.closeness:
            points += CLOSENESS * self.closeness.get(node, 0)
        if self.by_sharing and self._joins_shared(node):
            points += SHARING
        if (self.by_availability or self.prefers) and self._is_available(node):
            points += AVAILABLE * self.by_availability
            if self.prefers:
                points += PREFERENCE * preference(self.facts.shape, self.columns.nodes.rows[node])
        if self.by_type and self._is_without_gpus(node):
            points += NO_GPUS
        if self.by_taints:
            points -= soft_taints(self.facts.shape, self.columns.nodes.rows[node])
        return -points, self._placement(node) if self.by_placement else 0.0

    def _joins_shared(self, node: int) -> bool:
        if self.facts.shared:
            return bool(self.fit.hosts(self.facts, node))
        if self.on_gpus or not self.columns.policy.cpu_pods_join_shared:
            return False
        return any(device[STAYING] or device[LEAVING] for device in self.columns.nodes.shared_devices(node))

    def _is_available(self, node: int) -> bool:
        """Free at once, on whichever devices: which ones it gets is another question."""
        facts = self.facts
        if not self.fit.amounts_fit_now(facts, node):
            return False
        if self.claims and not self.fit.trial.claims.is_free(self.claims, node):
            return False
        missing = facts.shared - max(0, self.columns.nodes.gpus_idle[node])
        return missing <= 0 or self.fit.hosts_now(facts, node) >= missing

    def _is_without_gpus(self, node: int) -> bool:
        row = self.columns.nodes.rows[node]
        return not (row.gpus or row.mig_instances or row.claim_devices)

    def _placement(self, node: int) -> float:
        """Pack: fullest first. Spread: the largest free part first. Fragmentation: what others can use least."""
        if self.fragments is not None:
            return self.fragments.rank(self.facts, node)
        columns, nodes = self.columns, self.columns.nodes
        if self.on_gpus:
            free = free_gpus_milli(columns, node)
            capacity = 1000 * nodes.gpus[node]
            if self.claims:
                claims = self.fit.trial.claims
                free += 1000 * (len(claims.free(node)) + len(claims.soon(node)))
                capacity += 1000 * len(claims.devices[node])
            if self.packs:
                return free
        else:
            free = nodes.cpu_idle[node] + nodes.cpu_releasing[node]
            if columns.cpu_placement is Placement.BINPACK:
                return free
            capacity = nodes.rows[node].cpu_milli
        return -free / capacity if capacity else 0.0


def free_gpus_milli(columns: Columns, node: int) -> float:
    """GPUs that are idle or being released, parts of shared devices included if the policy looks at them."""
    nodes = columns.nodes
    free = 1000 * (nodes.gpus_idle[node] + nodes.gpus_releasing[node])
    if nodes.shared[node] and columns.policy.pack_partial_devices:
        mib = nodes.device_mib[node]
        for device in nodes.shared_devices(node):
            used = device[STAYING] + device[COMING]
            if used:
                free += 1000 * (mib - used) // mib
    return free
