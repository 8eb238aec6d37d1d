"""GPUs that are free in the whole pool, kept up to date as nodes change."""

from __future__ import annotations

from fairpool.scheduler.board import COMING, STAYING, Board
from fairpool.scheduler.charge import mig_milli


class FreeGpus:
    """GPUs that are idle or being released, parts of shared devices and MIG instances included."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._by_node: list[float] = []
        self._total = 0.0
        self._read = 0

    def milli(self) -> float:
        """All of them, in thousandths."""
        changes = self.board.nodes.changes
        if not self._by_node:
            self._by_node = [self._on(node) for node in range(len(self.board.nodes.rows))]
            self._total = sum(self._by_node)
        elif self._read < len(changes):
            for node in dict.fromkeys(changes[self._read :]):
                free = self._on(node)
                self._total += free - self._by_node[node]
                self._by_node[node] = free
        self._read = len(changes)
        return self._total

    def _on(self, node: int) -> float:
        board, nodes = self.board, self.board.nodes
        free: float = 1000 * (nodes.gpus_idle[node] + nodes.gpus_releasing[node])
        if nodes.claim_free[node]:
            free += 1000 * len(nodes.claim_free[node])
        profiles = nodes.rows[node].mig_instances
        if profiles:
            left = ((name, nodes.other_idle[name][node] + nodes.other_releasing[name][node]) for name in profiles)
            free += mig_milli(left, board.policy)
        mib = nodes.device_mib[node]
        for device in nodes.shared[node].values():
            used = device[STAYING] + device[COMING]
            if used:
                free += 1000 * (mib - used) / mib
            if board.policy.promised_portions_twice:
                free -= 1000 * device[COMING] / mib
        return free
