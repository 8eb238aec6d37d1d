"""GPUs that are free in the whole pool, kept up to date as nodes change."""

from __future__ import annotations

from fairpool.model.precedence import mig_milli
from fairpool.scheduler.columns import COMING, STAYING
from fairpool.scheduler.trial import Trial


class FreeGpus:
    """GPUs that are idle or being released, parts of shared devices and MIG instances included."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.columns = trial.columns
        self._by_node: list[tuple[float, float]] = []
        self._free = 0.0
        self._promised = 0.0
        self._read = 0

    def milli(self) -> float:
        """All of them, in thousandths."""
        self._catch_up()
        return self._free

    def milli_for_moves(self) -> float:
        """What consolidation may hope for: the reference subtracts promised portions a second time."""
        self._catch_up()
        return self._free - self._promised if self.columns.policy.promised_portions_twice else self._free

    def _catch_up(self) -> None:
        changes = self.columns.nodes.changes
        if not self._by_node:
            self._by_node = [self._on(node) for node in range(len(self.columns.nodes.rows))]
            self._free = sum(free for free, _ in self._by_node)
            self._promised = sum(promised for _, promised in self._by_node)
        elif self._read < len(changes):
            for node in dict.fromkeys(changes[self._read :]):
                free, promised = self._on(node)
                self._free += free - self._by_node[node][0]
                self._promised += promised - self._by_node[node][1]
                self._by_node[node] = (free, promised)
        self._read = len(changes)

    def _on(self, node: int) -> tuple[float, float]:
        """Free on one node, and portions promised there."""
        columns, nodes = self.columns, self.columns.nodes
        free: float = 1000 * (nodes.gpus_idle[node] + nodes.gpus_releasing[node])
        if nodes.rows[node].claim_devices:
            claims = self.trial.claims
            free += 1000 * (len(claims.free(node)) + len(claims.soon(node)))
        profiles = nodes.rows[node].mig_instances
        if profiles:
            left = ((name, nodes.other_idle[name][node] + nodes.other_releasing[name][node]) for name in profiles)
            free += mig_milli(left, columns.policy.mig_slices_per_gpu)
        mib, promised = nodes.device_mib[node], 0.0
        for device in nodes.shared_devices(node):
            used = device[STAYING] + device[COMING]
            if used:
                free += 1000 * (mib - used) / mib
            promised += 1000 * device[COMING] / mib
        return free, promised
