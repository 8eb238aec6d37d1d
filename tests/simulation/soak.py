"""Many seeds, one after the other on every core: `python -m tests.simulation --seeds 10000 --first 0`.

With `--two-processes` the control plane and the loop of each world are two processes, with HTTP between them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.two_process_world import TwoProcessWorld
from tests.simulation.world import World, Wrong

SEED_CPU_S_MAX = 60
"""A world that takes longer hangs."""


def run_seed(seed: int) -> Counter[str]:
    """One world from its beginning to its end; what happened in it, counted. Raises `Wrong`."""
    return _run_world(World(seed), hours=0.6)


def run_seed_apart(seed: int) -> Counter[str]:
    """The same with two processes; shorter, because every cycle costs more."""
    return _run_world(TwoProcessWorld(seed), hours=0.3)


def _run_world(world: World, hours: float) -> Counter[str]:
    try:
        world.run(hours)
        world.calm()
        world.finish()
        return world.counts
    finally:
        world.close()


def attempt(seed: int, run: Callable[[int], Counter[str]] = run_seed) -> tuple[int, Counter[str], str]:
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SEED_CPU_S_MAX)  # not by the clock: the machine may be busy
    try:
        return seed, run(seed), ""
    except Wrong as wrong:
        return seed, Counter(), str(wrong)
    except Exception:  # a bug of ours is a failed seed, too
        return seed, Counter(), f"seed {seed}: {traceback.format_exc(limit=-8)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"a world took more than {SEED_CPU_S_MAX} s")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run many simulated worlds.")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--two-processes", action="store_true", help="control plane and loop are killed processes")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    run = run_seed_apart if given.two_processes else run_seed
    total: Counter[str] = Counter()
    failed: list[int] = []
    began = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        for done, result in enumerate(as_completed([pool.submit(attempt, seed, run) for seed in seeds]), 1):
            seed, counts, wrong = result.result()
            total += counts
            if wrong:
                failed.append(seed)
                print(f"\n{wrong}\n", flush=True)
            if sys.stderr.isatty() or done % (20 if given.two_processes else 500) == 0:
                print(f"{done} of {len(seeds)} seeds, {len(failed)} failed", file=sys.stderr, flush=True)
    print(f"{time.monotonic() - began:.0f} s; " + ", ".join(f"{total[each]} {each}" for each in sorted(total)))
    if failed:
        print(f"failed seeds: {' '.join(map(str, sorted(failed)))}")
    print(f"{len(seeds) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0
