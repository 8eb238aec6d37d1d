"""Node pools: each is planned by itself, so a cluster is split before and groups move along their list after.

Quotas and placement strategies are per pool. A group is in one pool at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairpool.model.ids import PoolName
from fairpool.model.node import DEFAULT_POOL, Node, NodePool
from fairpool.scheduler.decision import Verdict, WaitsForVictims


def split(nodes: Iterable[Node], pools: Sequence[NodePool]) -> dict[PoolName, tuple[Node, ...]]:
    """Nodes by pool: the first pool, by name, whose label a node carries; the default pool takes the rest."""
    labelled = sorted((pool for pool in pools if pool.label_key), key=lambda pool: pool.name)
    rest = next((pool.name for pool in pools if not pool.label_key), DEFAULT_POOL)
    split: dict[PoolName, list[Node]] = {pool.name: [] for pool in pools}
    for node in nodes:
        home = next((pool.name for pool in labelled if node.labels.get(pool.label_key) == pool.label_value), rest)
        split.setdefault(home, []).append(node)
    return {name: tuple(members) for name, members in split.items()}


def next_pool(wanted: Sequence[PoolName], current: PoolName, verdict: Verdict | None) -> PoolName:
    """Where a group tries next: on to the next pool of its list after a verdict without a promise, and round again."""
    if verdict is None or verdict.running or isinstance(verdict.why, WaitsForVictims) or current not in wanted:
        return current if current in wanted or not wanted else wanted[0]
    return wanted[(wanted.index(current) + 1) % len(wanted)]
