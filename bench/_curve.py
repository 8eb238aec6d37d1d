"""The points of the curve between sharing strictly and completing early, and the measurement of one of them.

A point is measured in a process of its own: `python -m bench._curve JSON`, started by `bench.fair`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from bench._fair import NEVER, Cluster, Knobs, Simulation
from bench._philly import HOUR_S, Meter, alone, jobs, quotas
from bench._stopwatch import Result, aloud, peak_mib, silent
from bench._through_loop import ThroughLoop
from bench._worlds import GPUS_PER_NODE, nodes
from fairpool.model.ids import QueueId
from fairpool.model.organization import OverQuotaChoice, Queue, gpu_entitlement
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.scheduler.policy import Pass, Policy

NODES = 100
DAY_S = 24 * HOUR_S
EVERY_S = 3600
SAY_S = 2.0
"""How often a long measurement says that it goes on."""

LEVELS_GPU_H = (2, 16, 128)
STILL = Policy(max_moved_groups=0)
"""No pod is moved to make room, which makes plans cheaper."""
NO_RECLAIM = Policy(passes=(Pass.ALLOCATE, Pass.PREEMPT, Pass.STALE))


@dataclass(frozen=True, slots=True)
class Case:
    """One setting of the knobs."""

    name: str
    about: str
    knobs: Knobs = field(default_factory=Knobs)
    over_quota: OverQuotaChoice | None = None
    """None: what is idle is lent in proportion to quota."""


def _turned(*levels: float, policy: Policy = STILL, restart_s: int = 300, usage_half_life_s: int = 0) -> Knobs:
    return Knobs(policy=policy, levels_gpu_h=levels, restart_s=restart_s, usage_half_life_s=usage_half_life_s)


def _guard(seconds: int) -> Policy:
    return replace(STILL, default_reclaim_min_runtime_s=seconds)


CASES = (
    Case("strict", "what is owed is taken back at once; no pod is moved", _turned()),
    Case("strict-restart-0", "starting again costs nothing", _turned(restart_s=0)),
    Case("strict-restart-30m", "starting again costs half an hour", _turned(restart_s=1800)),
    Case("strict-moves", "and groups are moved to make room: the product as it is"),
    Case("guard-4h", "no pod is evicted in its first 4 hours", _turned(policy=_guard(4 * HOUR_S))),
    Case("guard-1d", "nor in the first day", _turned(policy=_guard(DAY_S))),
    Case("guard-4d", "nor in the first four days", _turned(policy=_guard(4 * DAY_S))),
    Case("no-reclaim", "nothing is ever taken back", _turned(policy=NO_RECLAIM)),
    Case("levels", "inside a queue jobs that have had less go first, in four levels", _turned(*LEVELS_GPU_H)),
    Case("levels-restart-0", "and starting again costs nothing", _turned(*LEVELS_GPU_H, restart_s=0)),
    Case("levels-restart-30m", "or half an hour", _turned(*LEVELS_GPU_H, restart_s=1800)),
    Case("levels-one", "two levels, parted at 8 GPU hours", _turned(8)),
    Case("levels-six", "six levels", _turned(1, 4, 16, 64, 256)),
    Case("levels-guard-8h", "levels, and 8 hours", _turned(*LEVELS_GPU_H, policy=_guard(8 * HOUR_S))),
    Case("levels-guard-4d", "levels, and four days", _turned(*LEVELS_GPU_H, policy=_guard(4 * DAY_S))),
    Case("levels-no-reclaim", "levels, nothing taken back", _turned(*LEVELS_GPU_H, policy=NO_RECLAIM)),
    Case("usage-7d", "what a queue used counts against it, by half after a week", _turned(usage_half_life_s=7 * DAY_S)),
    Case("equal-weights", "what is idle is lent in equal parts", _turned(), OverQuotaChoice.MEDIUM),
)


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is to be measured."""

    case: str
    jobs: int | None = None
    """The first so many; None: all."""
    every_s: int = EVERY_S
    nodes: int = NODES
    through_loop: bool = False
    """Through the whole cluster loop, not the scheduler alone."""


def measure(point: Point, *, is_heard: bool = False) -> Result:
    """Run the jobs to the last end, and say what came of it."""
    case = case_named(point.case)
    runner = looped(case, point) if point.through_loop else prepared(case, point)
    say = aloud if is_heard else silent
    say(event="built")
    gc.collect()
    gc.freeze()  # what was built before the clock started is not looked through again and again
    wall, cpu = time.perf_counter(), time.process_time()
    said = wall
    while runner.next_s < NEVER:
        runner.step()
        if time.perf_counter() - said > SAY_S:
            said = time.perf_counter()
            say(event="run", wall_s=said - wall, day=runner.now_s // DAY_S)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    found = faults(runner)
    if found:
        return Result(faults=found)
    meter = runner.meter
    figures = {"jobs": float(len(meter.jobs)), **meter.metrics(alone(meter.jobs, meter.quota))}
    return Result({**figures, "wall_s": wall, "cpu_s": cpu, **runner.costs(), "peak_mib": peak_mib()})


def prepared(case: Case, point: Point) -> Simulation:
    """The simulation of a point, before its first step."""
    meter = _meter(point)
    knobs = replace(case.knobs, every_s=point.every_s)
    cluster = Cluster(nodes(point.nodes), queues(meter.quota, case.over_quota), knobs)
    return Simulation(meter.jobs, cluster, meter)


def looped(case: Case, point: Point) -> ThroughLoop:
    """The same jobs, for the whole loop."""
    meter = _meter(point)
    knobs = replace(case.knobs, every_s=point.every_s)
    return ThroughLoop(nodes(point.nodes), queues(meter.quota, case.over_quota), knobs, meter)


def _meter(point: Point) -> Meter:
    all_jobs, capacity = jobs(), point.nodes * GPUS_PER_NODE
    return Meter(all_jobs[: point.jobs], quotas(all_jobs, capacity), capacity)


def queues(quota: Mapping[QueueId, int], over_quota: OverQuotaChoice | None = None) -> list[Queue]:
    """A queue for each virtual cluster."""
    return [
        Queue(id=name, gpu=gpu_entitlement(gpus * WHOLE_GPU_MILLI, over_quota)) for name, gpus in sorted(quota.items())
    ]


def faults(runner: Simulation | ThroughLoop) -> list[str]:
    """Every job ended, after no less time than it needs, and nothing is held in the end."""
    meter = runner.meter
    found = [f"{runner.unfinished} jobs never ended"] if runner.unfinished else []
    lost = [job.number for job in meter.jobs if job.number not in meter.ended_s]
    found += [f"job {number} was lost" for number in lost[:3]]
    found += [
        f"job {job.number} ended after {meter.ran_s[job.number]} s of work, it needs {job.duration_s}"
        for job in meter.jobs
        if job.number in meter.ran_s and meter.ran_s[job.number] < job.duration_s
    ][:3]
    found += [f"{queue} still holds {held}" for queue, held in meter.held.items() if held]
    return found + runner.leftovers()


def main(arguments: Sequence[str]) -> int:
    result = measure(Point(**json.loads(arguments[0])), is_heard=True)
    aloud(event="result", **asdict(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
