"""Mutation tests of the audit of accounting: usage that is counted wrongly is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairpool.cluster import cycle
from fairpool.control import usage_intake
from fairpool.control.store import usage
from tests.fault_injection.faults import Faults
from tests.simulation.world import World, Wrong

SEEDS = range(4)
JUMPS = Faults(clock_jump=0.03)
CUTS = Faults(control_cut=3.0)


def found(faults: Faults) -> Iterator[str]:
    """What the audit says of these worlds."""
    for seed in SEEDS:
        world = World(seed, faults, workloads=6)
        try:
            world.run(hours=0.5)
            world.calm()
            world.finish()
        except Wrong as wrong:
            yield str(wrong).partition("\n")[0]
        finally:
            world.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "wrong", "faults", "words"),
    [
        (cycle, "with_later_usage", lambda pod, by_ms: pod, JUMPS, "and it held its place for"),
        (usage_intake, "LOST", frozenset(), Faults.none(), "is counted as not lost"),
        (usage_intake, "KINDS", frozenset({"created", "bound"}), Faults.none(), "it has ended, and is counted as if"),
        (usage, "unsettle", lambda connection, at: None, CUTS, "are summed; held were"),
    ],
    ids=["a clock that is set", "lost work", "an end that is ignored", "a late report of an hour that is summed"],
)
def test_usage_that_is_counted_wrongly_is_found(
    module: object, name: str, wrong: object, faults: Faults, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, wrong)
    assert words in next(found(faults), "nothing")
