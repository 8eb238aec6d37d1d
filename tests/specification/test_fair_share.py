"""Fair shares: the table of known divisions, read from the figures that every plan carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from tests.accounting import Accounting
from tests.scenario import World

DIVISIONS = [
    pytest.param(20, ["4 12", "4 12 weight 3", "4 2"], [7, 11, 2], 1.0, id="F1 weights divide what is left"),
    pytest.param(12, ["2 10 limit 4", "2 10"], [4, 8], 1.0, id="F2 what a limit refuses is divided again"),
    pytest.param(20, ["4 20 priority 200", "4 6", "0 20"], [16, 4, 0], 1.0, id="F3 higher tier first"),
    pytest.param(10, ["2 10 weight 0", "2 5"], [2, 5], 1.0, id="F4 weight 0 is lent nothing"),
    pytest.param(10, ["8 8", "8 8"], [8, 8], 1.0, id="F5 quotas are not scaled down"),
    pytest.param(11, ["2 10 weight 1", "2 10 weight 4"], [3, 8], 1.0, id="F6 the larger rest gets the unit"),
    pytest.param(
        9,
        ["2 10 priority 200", "2 10 priority 200", "0 10"],
        [5, 4, 0],
        1.0,
        id="F7 remainders stay in their tier",
    ),
    pytest.param(11, ["2 6 weight 2", "2 6 weight 2"], [6, 5], 1.0, id="F8 the older queue gets the unit"),
    pytest.param(30, ["0 3", "0 30", "0 30 weight 2"], [3, 9, 18], 1.0, id="F9 what one leaves others divide"),
    pytest.param(4, ["0 1.5", "0 10"], [1.5, 2.5], 1.0, id="F10 fractions of GPUs"),
    pytest.param(10, ["unlimited 6", "4 8"], [6, 4], 1.0, id="F11 an unlimited quota is what it asks for"),
    pytest.param(10, ["unlimited 10", "unlimited 10"], [10, 10], 1.0, id="F12 two unlimited quotas overlap"),
    pytest.param(16, ["0 16 usage 0.75", "0 16"], [3, 13], 1.0, id="F14 past use bends the weights"),
    pytest.param(16, ["0 16 usage 0.75", "0 16"], [5, 11], 0.5, id="F14 half as much with k = 0.5"),
    pytest.param(16, ["0 16 usage 0.97", "0 16"], [0, 16], 1.0, id="F15 all to who used nothing"),
    pytest.param(16, ["0 16 usage 0.96", "0 16"], [1, 15], 1.0, id="F16 almost all"),
    pytest.param(16, ["4 16 usage 0.9", "4 16 usage 0.1"], [5, 11], 1.0, id="F17 quotas are untouched by use"),
    pytest.param(16, ["4 16 usage 0.9", "4 16 usage 0.1"], [8, 8], 0.0, id="F17 k = 0 forgets use"),
    pytest.param(
        100,
        ["10 100 weight 2 usage 0.4", "10 100 usage 0.1", "10 100"],
        [38, 29, 33],
        1.0,
        id="F18 weights and use together",
    ),
    pytest.param(5, ["2 5 priority 2", "2 5 priority 2", "1 0 priority 1"], [3, 2, 0], 1.0, id="F19 no request below"),
]


@pytest.mark.parametrize(("capacity", "queues", "fair", "usage_factor"), DIVISIONS)
def test_fair_shares(capacity: int, queues: list[str], fair: list[float], usage_factor: float) -> None:
    """A row `4 12 weight 3` is a quota of 4 and a demand of 12; the weight is 1 unless it says otherwise."""
    world = World(f"node n1: {capacity} gpus", policy=replace(Policy.product(), usage_factor=usage_factor))
    for name, row in zip("abc", queues, strict=False):
        quota, demand, *settings = row.split()
        phrases = dict(zip(settings[::2], settings[1::2], strict=True))
        phrases.setdefault("weight", "1")
        described = ", ".join(f"{key} {value}" for key, value in phrases.items())
        world.add_line(f"queue {name}: quota {quota}, {described}")
        _ask(world, name, demand)
    shares = {figures.queue: figures.fair_share_milli / 1000 for figures in plan(world.snapshot).queues}
    assert [shares[queue.id] for queue in world.snapshot.queues] == fair
    ours = Accounting(world.snapshot).fair_shares_milli()
    assert [ours[queue.id] / 1000 for queue in world.snapshot.queues] == fair, "the accounting of the tests is wrong"


def _ask(world: World, queue: str, demand: str) -> None:
    whole, _, part = demand.partition(".")
    if int(whole):
        world.submit(f"{queue}-whole of {queue}: {whole} gpus")
    if part:
        world.submit(f"{queue}-part of {queue}: 0.{part} gpu")


def test_children_divide_the_share_of_their_parent() -> None:
    """Worked example 6 of the rules."""
    world = World("""
        node  n1: 20 gpus
        queue d1: quota 8, weight 1
        queue d2: quota 8, weight 1
        queue p1: quota 6, weight 1, in d1
        queue p2: quota 2, weight 3, in d1
        queue p3: quota 8, in d2
        pending a of p1: 20 gpus
        pending b of p2: 10 gpus
        pending c of p3: 6 gpus
    """)
    shares = {figures.queue: figures.fair_share_milli / 1000 for figures in plan(world.snapshot).queues}
    assert shares == {"d1": 14, "d2": 6, "p1": 8, "p2": 6, "p3": 6}


def test_children_are_owed_their_quotas_even_beyond_the_share_of_their_parent() -> None:
    """F13."""
    world = World("""
        node  n1: 4 gpus
        queue d: quota 4
        queue p1: quota 6, in d
        queue p2: quota 2, in d
        pending a of p1: 6 gpus
        pending b of p2: 6 gpus
    """)
    shares = {figures.queue: figures.fair_share_milli / 1000 for figures in plan(world.snapshot).queues}
    assert shares == {"d": 4, "p1": 6, "p2": 2}


def test_gpus_that_no_pod_can_use_are_not_divided() -> None:
    """Cordoned and unready nodes and withheld devices count for nothing."""
    world = World("""
        node  n1: 4 gpus, withheld 3
        node  n2: 4 gpus, cordoned
        node  n3: 4 gpus, not ready
        queue a: quota 0
        pending j of a: 8 gpus
    """)
    assert [figures.fair_share_milli for figures in plan(world.snapshot).queues] == [3000]
