"""Node pools: which nodes are whose, and how a group goes along its list."""

from __future__ import annotations

import pytest

from fairpool.model.ids import Instant, NodeName, PoolName, QueueId
from fairpool.model.node import Node, NodePool, nodes_by_pool
from fairpool.scheduler.decision import NoQueue, Verdict, WaitsForVictims, Why
from fairpool.scheduler.plan import next_pool

A, B, C = PoolName("a100"), PoolName("default"), PoolName("v100")
NO_WAY = NoQueue(QueueId("q"), exists=False)
SOON = WaitsForVictims((NodeName("n1"),), 1, Instant(0))


def node(name: str, **labels: str) -> Node:
    return Node(name=NodeName(name), cpu_milli=1000, memory_bytes=10**9, labels=labels)


def test_a_node_belongs_to_the_pool_whose_label_it_carries_and_else_to_the_default() -> None:
    pools = [NodePool(), NodePool(name=A, label_key="gpu", label_value="a100")]
    split = nodes_by_pool([node("n1", gpu="a100"), node("n2", gpu="v100"), node("n3")], pools)
    assert {name: [each.name for each in nodes] for name, nodes in split.items()} == {A: ["n1"], B: ["n2", "n3"]}


def test_of_two_pools_that_claim_a_node_the_first_by_name_has_it() -> None:
    pools = [NodePool(name=C, label_key="a", label_value="1"), NodePool(name=A, label_key="b", label_value="1")]
    assert nodes_by_pool([node("n1", a="1", b="1")], pools)[A]


@pytest.mark.parametrize(
    ("current", "why", "running", "then"),
    [
        pytest.param(A, NO_WAY, 0, B, id="a verdict without a promise sends it on"),
        pytest.param(C, NO_WAY, 0, A, id="and round again"),
        pytest.param(A, SOON, 0, A, id="with a promise it stays"),
        pytest.param(A, None, 0, A, id="without a verdict it stays"),
        pytest.param(A, NO_WAY, 2, A, id="what runs in part stays where it runs"),
        pytest.param(PoolName("gone"), NO_WAY, 0, A, id="from a pool that is not on its list it goes to the first"),
    ],
)
def test_where_a_group_tries_next(current: PoolName, why: Why | None, running: int, then: PoolName) -> None:
    verdict = None if why is None else Verdict(why, 1, running, Instant(0))
    assert next_pool([A, B, C], current, verdict) == then
