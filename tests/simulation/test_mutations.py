"""Mutation tests of the checks: each known wrong behaviour, put back into the code, is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from fairpool.cluster import cycle, settle
from fairpool.engines.simulated import engine, timeline
from fairpool.engines.simulated.timeline import PodTimeline
from fairpool.model.ids import Instant, PodId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import GraceRules
from fairpool.model.pod_record import Cause, Outcome, PodRecord
from fairpool.model.spec import WorkloadSpec
from tests.fault_injection.faults import Faults
from tests.fault_injection.random_workloads import NEVER_S
from tests.simulation.world import World, Wrong

SEEDS = range(12)


def ended_when_unseen(pod: PodRecord, look: settle.Evidence, now: Instant) -> PodRecord:
    """What is not seen is over, although it was not verified."""
    if pod.phase is PodPhase.RUNNING and look.observed_phase(pod) is settle.Observed.ABSENT:
        return pod.end(now, Outcome.LOST, Cause.VANISHED)
    return settle.settle(pod, look, now)


def ended_with_its_node(pod: PodRecord, look: settle.Evidence, now: Instant) -> PodRecord:
    """What ran on a node that is not offered any more is over, whatever is seen of it."""
    if pod.is_placed and look.node is None:
        return pod.end(now, Outcome.LOST, Cause.NODE_LOST)
    return settle.settle(pod, look, now)


def as_long_as_they_like(
    pods: Sequence[PodRecord], spec: WorkloadSpec | None, graces: GraceRules, owed: Mapping[PodId, str]
) -> tuple[PodRecord, ...]:
    """A pod that stops has the grace period that it asked for."""
    return tuple(pods)


def only_by_the_shim(stopping: PodTimeline, now: Instant, grace_s: float, reason: str) -> PodTimeline:
    """The grace is kept to by the shim alone, and not by one that is stopped."""
    is_deaf = stopping.deaf_until is not None and now < stopping.deaf_until
    return timeline.stopped(stopping, now, NEVER_S if is_deaf else grace_s, reason)


def caught(faults: Faults) -> str:
    """The first violation that any of the worlds finds."""
    for seed in SEEDS:
        world = World(seed, faults, workloads=20)
        try:
            world.run(hours=0.6)
        except Wrong as wrong:
            return str(wrong).partition("\n")[0]
        finally:
            world.close()
    return "nothing"


MUTATIONS = [
    pytest.param(
        (cycle, "settle", ended_when_unseen),
        Faults(record_loss=10.0),
        "is over-committed",  # its GPUs are given to another while it runs
        id="a pod that is not seen is taken for dead",
    ),
    pytest.param(
        (cycle, "settle", ended_with_its_node),
        Faults(node_set_change=6.0),
        "runs at the same time as",
        id="a pod whose node is not offered any more is taken for dead",
    ),
    pytest.param(
        (cycle, "with_capped_graces", as_long_as_they_like),
        Faults(ignores_stop=0.9),
        "and still runs",
        id="an evicted pod has the grace that it asked for",
    ),
    pytest.param(
        (engine, "stopped", only_by_the_shim),
        Faults(shim_stop=30.0),
        "and still runs",
        id="the grace of a pod whose shim is stopped is not kept to",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mutation", "faults", "violation"), MUTATIONS)
def test_a_mutation_is_caught(
    mutation: tuple[object, str, Callable[..., object]],
    faults: Faults,
    violation: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, name, wrong = mutation
    monkeypatch.setattr(module, name, wrong)
    assert violation in caught(faults)
