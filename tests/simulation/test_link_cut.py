"""The link between cluster and control plane is cut for hours: pods end, others are submitted, the end is the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fairpool.cluster.control_link import ControlLink
from fairpool.model.ids import SECOND_MS, WorkloadId
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import HOLDS_NOTHING
from fairpool.simulation.catalogue import find_scenario
from fairpool.simulation.checkpoint import Checkpoint
from fairpool.simulation.runner import Pacer, run_scenario
from fairpool.simulation.scenario import START, Action, Await, Expect, Pause, Scenario
from fairpool.simulation.simulated_cluster import CLUSTER, SimulatedCluster
from tests.fault_injection.faults import Faults
from tests.simulation.control import HOUR_S, FaultyControl
from tests.simulation.world import World

LONGEST_S = 6 * HOUR_S
PATIENCE_S = LONGEST_S + HOUR_S


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 6, 10])  # in which work arrives for long enough
def test_what_ends_while_the_link_is_cut_is_reported_when_it_is_mended(seed: int) -> None:
    world = World(seed, Faults.none(), workloads=10)
    try:
        world.calm()
        world.run(hours=0.1)
        declared = world.cache.cursor
        before = {each.id for each in world.control.workloads() if each.phase in HOLDS_NOTHING}
        world.wire.cut(LONGEST_S)
        world.run(hours=5)
        assert not world.arrivals, "all were submitted meanwhile"
        assert world.control.revision != declared == world.cache.cursor
        ended = {each.id for each in world.cache.reports.values() if each.phase in HOLDS_NOTHING} - before
        assert {each.id for each in world.control.workloads() if each.phase in HOLDS_NOTHING} == before
        assert ended, "pods ended meanwhile"
        events = len(world.ledger_audit.events)
        world.finish()
        assert len(world.control.events()) > events
    finally:
        world.close()


class CutCluster(SimulatedCluster):
    """A simulated cluster whose link is cut for hours after some of the submits and deletes."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._dice = Random(f"cuts {seed}")
        self.cuts = 0
        super().__init__(scenario, START)
        self.control.declare(scenario.organization, scenario.followers)

    def _new_link(self) -> ControlLink:
        self._wire = FaultyControl(self.control, Faults.none(), self._dice, self.clock.now)
        return ControlLink(self._wire, CLUSTER)

    def submit(self, spec: WorkloadSpec) -> Problem | None:
        self.maybe_cut()
        return super().submit(spec)

    def maybe_cut(self) -> None:
        if self._dice.random() < 0.4:
            self.cuts += 1
            self._wire.cut(self._dice.uniform(HOUR_S, LONGEST_S))


def with_patience(action: Action) -> tuple[Action, ...]:
    """Wherever something is waited for or looked at, the longest cut has been mended before."""
    match action:
        case Await():
            return (Pause(PATIENCE_S), replace(action, within_s=PATIENCE_S + action.within_s))
        case Expect():
            return (Pause(PATIENCE_S), action)
    return (action,)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_sixteen_gpus_and_four_teams_reach_the_same_states_with_the_link_cut_for_hours(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = find_scenario("netapp", None, ())
    assert isinstance(scenario, Scenario)
    patient = [
        replace(phase, actions=tuple(each for action in phase.actions for each in with_patience(action)))
        for phase in scenario.phases
    ]
    cluster = CutCluster(replace(scenario, phases=tuple(patient)), seed)
    delete = cluster.control.delete

    def cut_and_delete(workload: WorkloadId, *, force: bool = False) -> Problem | None:
        cluster.maybe_cut()
        return delete(workload, force=force)

    try:
        monkeypatch.setattr(cluster.control, "delete", cut_and_delete)
        checkpoint = Checkpoint()
        run_scenario(cluster, checkpoint, Pacer(), lambda cluster, part: None)
        checks = checkpoint.position.checks
        assert [each for each in checks if not each.passed] == []
        assert len(checks) > 20
        assert not checkpoint.position.stopped
        assert cluster.cuts > 2
        assert (cluster.now - START) / SECOND_MS > cluster.cuts * HOUR_S
    finally:
        cluster.close()
