"""Free GPUs: of the whole pool, kept up to date as nodes change; and on some nodes, for verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairpool.model.ids import NodeName
from fairpool.model.precedence import mig_milli
from fairpool.scheduler.columns import COMING, NOWHERE, STAYING, Columns
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
        self.is_overcommitted = min(trial.columns.nodes.gpus_idle, default=0) < 0
        """Some node began with more on it than it has."""

    def milli(self) -> float:
        """All of them, in thousandths."""
        self._catch_up()
        return self._free

    def milli_for_moves(self) -> float:
        """What consolidation may hope for: the reference subtracts promised portions a second time."""
        self._catch_up()
        return self._free - self._promised if self.columns.policy.promised_portions_twice else self._free

    def is_exact(self) -> bool:
        """Whether the sum, kept up to date, is what adding up gives: parts of devices are rounded."""
        self._catch_up()
        return self._free == sum(free for free, _ in self._by_node)

    def _catch_up(self) -> None:
        changes = self.columns.nodes.changes
        if not self._by_node:
            nodes = self.columns.nodes
            columns = zip(nodes.rows, nodes.gpus_idle, nodes.gpus_releasing, nodes.shared, strict=True)
            self._by_node = [
                self._on(node) if shared or row.claim_devices or row.mig_instances else (1000 * (idle + releasing), 0.0)
                for node, (row, idle, releasing, shared) in enumerate(columns)
            ]
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


@dataclass(frozen=True, slots=True)
class FreeBlocks:
    """GPUs that are idle or being released on some nodes, in thousandths."""

    total_milli: int = 0
    largest_milli: int = 0
    largest_node: NodeName | None = None

    @classmethod
    def on(cls, columns: Columns, nodes: Sequence[int], one_device: bool) -> FreeBlocks:
        total, largest, where = 0, -1, NOWHERE
        idle, releasing, shared = columns.nodes.gpus_idle, columns.nodes.gpus_releasing, columns.nodes.shared
        for node in nodes:
            if not shared[node] and idle[node] + releasing[node] <= 0:
                block = 0
            else:
                total += free_milli(columns, node)
                block = largest_on_a_device(columns, node) if one_device else idle_milli(columns, node)
            if block > largest:
                largest, where = block, node
        return cls(total, max(largest, 0), None if where == NOWHERE else columns.nodes.names[where])


def free_milli(columns: Columns, node: int) -> int:
    """GPUs of a node that are idle or being released, parts of shared devices included."""
    nodes = columns.nodes
    free = idle_milli(columns, node)
    if not nodes.shared[node]:
        return free
    return free + sum(_free_part(columns, node, device) for device in nodes.shared_devices(node))


def idle_milli(columns: Columns, node: int) -> int:
    """Whole GPUs of a node that are idle or being released."""
    return max(0, 1000 * (columns.nodes.gpus_idle[node] + columns.nodes.gpus_releasing[node]))


def largest_on_a_device(columns: Columns, node: int) -> int:
    """The largest free part of one device of a node."""
    nodes = columns.nodes
    if nodes.gpus_idle[node] + nodes.gpus_releasing[node] > 0:
        return 1000
    return max((_free_part(columns, node, device) for device in nodes.shared_devices(node)), default=0)


def _free_part(columns: Columns, node: int, device: list[int]) -> int:
    """Of a device that some pod stays on or comes to; one that all pods leave counts as a whole."""
    mib = columns.nodes.device_mib[node]
    used = device[STAYING] + device[COMING]
    return max(0, 1000 * (mib - used) // mib) if used else 0
