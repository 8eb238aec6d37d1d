"""`python -m tests.fuzz --requests 1000000`: mixed fuzz, in worlds of some thousand requests each.

Half of the requests are sent by administrators, since most of the others are refused at the door. What is written is
kept within a world, so that later requests meet what earlier ones made. A fault is printed with the world's number,
from which the world can be repeated: `--first NUMBER --requests 20000`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from random import Random

from tests.control.two_scopes import two_scopes
from tests.fuzz.cases import FuzzCase, Mutator, generated
from tests.fuzz.judge import document
from tests.fuzz.world import FuzzedWorld

IN_A_WORLD = 20_000
WORLDS_PER_GENERATION = 10
EACH = 3
ADMINISTRATORS = ("near-administrator", "all-administrator", "all-department-administrator", "near-l1-researcher")


def main() -> int:
    """How many faults were found, as an exit code."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=IN_A_WORLD)
    arguments.add_argument("--first", type=int, default=0, help="number of the first world")
    chosen = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    statuses: Counter[int] = Counter()
    faults: dict[tuple[str, str, str], str] = {}
    began, number = time.monotonic(), chosen.first
    cases: list[FuzzCase] = []
    while statuses.total() < chosen.requests:
        if not cases or number % WORLDS_PER_GENERATION == 0:
            made = generated(document(), number // WORLDS_PER_GENERATION, EACH)
            cases = [case for some in made.values() for case in some]
        world = _fuzz(number, cases, min(IN_A_WORLD, chosen.requests - statuses.total()))
        statuses += world.statuses
        for kind, said in world.faults.items():
            if kind not in faults:
                faults[kind] = said
                print(f"world {number}: {said}", flush=True)
        rate = statuses.total() / (time.monotonic() - began)
        print(
            f"{statuses.total()} requests, {rate:.0f} a second, {len(faults)} kinds of faults, "
            f"{dict(sorted(statuses.items()))}",
            flush=True,
        )
        number += 1
    return 1 if faults else 0


def _fuzz(number: int, cases: list[FuzzCase], requests: int) -> FuzzedWorld:
    random = Random(number)
    with two_scopes() as scopes:
        world = FuzzedWorld(scopes)
        tried = [*cases, *world.examples(scopes.near) * EACH]
        bodies = [case.body for case in tried if case.body]
        mutator = Mutator(random)

        async def send_all() -> None:
            while world.sent < requests:
                case = random.choice(tried)
                caller = random.choice(ADMINISTRATORS if random.random() < 0.5 else world.callers)
                await world.send(mutator.mutated(case, world.places(case.path, caller), bodies), caller)

        assert scopes.control.http.portal is not None
        scopes.control.http.portal.call(send_all)
    return world


if __name__ == "__main__":
    sys.exit(main())
