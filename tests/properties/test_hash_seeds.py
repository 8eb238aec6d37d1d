"""The same snapshot gives the same plan in every process, however Python happens to order its sets there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLAN_MANY = """
import hashlib
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from tests.oracle.worlds import FEATURES, PROFILES, world

found = hashlib.sha256()
for profile in PROFILES:
    for feature in FEATURES:
        for seed in range(300, 304):
            decided = plan(world(seed, profile, feature, Policy.product()))
            acts = (decided.binds, decided.promises, decided.evictions, decided.withdrawals)
            found.update(repr((acts, list(decided.verdicts.items()), decided.queues)).encode())
print(found.hexdigest())
"""


def plans_with(hash_seed: str) -> str:
    """A fingerprint of many plans, made by a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PLAN_MANY], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_the_hash_seed_of_a_process_changes_nothing() -> None:
    assert len({plans_with(seed) for seed in ("0", "1", "77")}) == 1
