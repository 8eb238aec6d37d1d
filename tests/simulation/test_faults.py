"""One kind of fault at a time, at a high rate: the disk, a second loop, the clock, the control plane."""

from __future__ import annotations

import pytest

from tests.fault_injection.faults import Faults
from tests.simulation.world import World

SEEDS = range(4)

FAULTS = [
    pytest.param(Faults(loop_crash=0.3), id="the loop crashes at every third step"),
    pytest.param(Faults(disk_full=0.5), id="the disk is full every other time"),
    pytest.param(Faults(second_loop=0.1), id="a second loop keeps taking over"),
    pytest.param(Faults(clock_jump=0.3), id="the clock jumps back and forth"),
    pytest.param(Faults(control_away=0.95), id="the control plane hardly ever answers"),
    pytest.param(Faults(control_late=0.5), id="the control plane answers late"),
    pytest.param(Faults(control_twice=0.7), id="the control plane hears and says everything twice"),
    pytest.param(Faults(order_lost=0.5, answer_lost=0.3), id="orders and answers get lost"),
    pytest.param(Faults(order_late=0.6, order_twice=0.3), id="orders come late and twice"),
    pytest.param(Faults(node_long_silence=2.0), id="nodes fall silent for long"),
    pytest.param(Faults(node_reboot=3.0), id="nodes keep rebooting"),
    pytest.param(Faults(refused=0.5, put_off=0.3), id="nodes refuse to start pods"),
    pytest.param(Faults(node_set_change=4.0), id="the set of nodes changes under running pods"),
    pytest.param(Faults(record_loss=10.0), id="the engine does not see pods that still run"),
    pytest.param(Faults(shim_stop=10.0), id="shims are stopped"),
    pytest.param(Faults(ignores_stop=0.9), id="pods ignore SIGTERM, and have long grace periods"),
    pytest.param(
        Faults(node_set_change=4.0, record_loss=10.0, shim_stop=10.0, ignores_stop=0.9),
        id="all of that at the same time",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
def test_nothing_is_lost_or_run_twice_when(faults: Faults) -> None:
    for seed in SEEDS:
        world = World(seed, faults, workloads=8)
        try:
            world.run(hours=0.5)
            world.calm()
            world.finish()
        finally:
            world.close()


@pytest.mark.slow
def test_a_lost_ledger_is_read_back_from_what_runs() -> None:
    """Pods are read back from the engine, what was over stays over, and nothing runs twice."""
    for seed in SEEDS:
        world = World(seed, Faults.none(), workloads=8)
        try:
            world.run(hours=0.3)
            running = set(world.engine.alive())
            world.lose_ledger()
            world.run(hours=0.01)
            ended = [world.record.end_of(pod) for pod in sorted(running - set(world.engine.alive()))]
            assert all(course is not None and course.notice_at is None for course in ended), f"seed {seed}: {ended}"
            stopped = [pod for pod in running if pod not in world.cache.workload_of]
            assert not stopped, f"seed {seed}: {stopped} ran and were forgotten"
            world.calm()
            world.finish()
        finally:
            world.close()
