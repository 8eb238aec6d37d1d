"""Measures one case at one size, in a process of its own: `python -m bench._stopwatch JSON`, started by benchmarks.

Progress and the result go to standard output, one JSON object a line, so that the parent process can tell a long
measurement from a stuck one and give up (see `_report.watched`). The clock is on during `plan` only.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench._audit import After, faults
from bench._cases import Case, case_named
from bench._ledger import Ledger
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.plan import decide, plan
from fairpool.scheduler.prepared import Prepared, prepare
from fairpool.scheduler.snapshot import Snapshot

ENOUGH_S = 30.0
"""Repetitions end after this long."""
LONG_S = 10.0
"""A first run that took longer counts: there is no warm-up then."""
CHURN_S = 120.0
COLUMNS_S = 5.0
P99_SAMPLES = 20
"""With fewer samples a p99 is just the worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is to be measured."""

    case: str
    nodes: int
    repeat: int = 5
    cycles: int | None = None
    """Of a case that goes from cycle to cycle; None: as many as the case says."""
    check: bool = False
    """Compare with the oracle instead of measuring."""


@dataclass(slots=True)
class Result:
    """What came of it."""

    metrics: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    note: str = ""


@dataclass(slots=True)
class Samples:
    """Times of repeated runs, and of turning rows into columns."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    columns: list[float] = field(default_factory=list)
    pods: int = 0
    """Pods that waited for a decision, in all runs."""
    goes_on: bool = False
    """What is prepared for one run is kept for the next, as the loop does."""
    previous: Prepared | None = None

    def take(self, snapshot: Snapshot) -> Plan:
        """Plan once, with the clock on, after what was prepared for the cycle before if this is one of several."""
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        prepared = prepare(snapshot, self.previous)
        planned = decide(prepared)
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        self.pods += sum(pod.phase in (PodPhase.WAITING, PodPhase.PROMISED) for pod in snapshot.pods)
        say(event="run", wall_s=self.wall[-1])
        if self.goes_on:
            self.previous = prepared
        return planned

    def take_columns(self, snapshot: Snapshot) -> None:
        """The first step alone: clean rows into columns."""
        gc.collect()
        start = time.perf_counter()
        prepare(snapshot, self.previous)
        self.columns.append(time.perf_counter() - start)
        say(event="columns", wall_s=self.columns[-1])

    def metrics(self) -> dict[str, float]:
        median, columns = statistics.median(self.wall), statistics.median(self.columns)
        figures = {
            "median_s": median,
            "min_s": min(self.wall),
            "max_s": max(self.wall),
            "cpu_s": statistics.median(self.cpu),
            "columns_s": columns,
            "decide_s": max(0.0, median - columns),
            "pods": round(self.pods / len(self.wall)),
            "pods_per_s": round(self.pods / len(self.wall) / median, 1),
            "samples": len(self.wall),
        }
        if len(self.wall) >= P99_SAMPLES:
            figures["p99_s"] = p99(self.wall)
        return figures


def p99(samples: Sequence[float]) -> float:
    """The smallest sample that 99 % are not above."""
    ordered = sorted(samples)
    return ordered[-(-99 * len(ordered) // 100) - 1]


def measure(point: Point) -> Result:
    """One case at one size."""
    case = case_named(point.case)
    snapshot = case.build(point.nodes)
    # The input is not the scheduler's garbage: a process that keeps snapshots freezes them, as the loop will.
    gc.collect()
    gc.freeze()
    say(event="built", pods=len(snapshot.pods))
    if point.check:
        return checked(case, snapshot)
    return churned(case, snapshot, point.cycles or case.cycles) if case.cycles > 1 else once(case, snapshot, point)


def once(case: Case, snapshot: Snapshot, point: Point) -> Result:
    """The same cycle again and again."""
    samples = Samples()
    planned = samples.take(snapshot)
    if samples.wall[0] <= LONG_S:
        samples = Samples()
    while len(samples.wall) < point.repeat and sum(samples.wall) < ENOUGH_S:
        del planned  # or the largest plans would be in memory twice
        planned = samples.take(snapshot)
    while len(samples.columns) < point.repeat and sum(samples.columns) < COLUMNS_S:
        samples.take_columns(snapshot)
    peak = peak_mib()
    after = After(snapshot, planned)
    counts = {"bound": len(planned.binds), "promised": len(planned.promises), "evicted": len(planned.evictions)}
    figures = {**samples.metrics(), "peak_mib": peak, **counts, **case.figures(after)}
    return Result(figures, [*faults(after), *case.judge(after)])


def churned(case: Case, snapshot: Snapshot, cycles: int) -> Result:
    """One cycle after the other, each on what the last one left."""
    ledger = Ledger(snapshot)
    jobs, pods = len(snapshot.groups), len(snapshot.pods)
    samples, found, counts = Samples(goes_on=True), list[str](), dict.fromkeys(("bound", "promised", "evicted"), 0)
    after = After(snapshot, samples.take(snapshot))  # the warm-up: nothing waits yet
    samples = Samples(goes_on=True, previous=samples.previous)
    while len(samples.wall) < cycles and sum(samples.wall) < CHURN_S and not found:
        ledger.turn_over()
        seen = ledger.snapshot()
        if len(samples.wall) % max(1, cycles // 20) == 0:
            samples.take_columns(seen)
        planned = samples.take(seen)
        after = After(seen, planned)
        found = [f"cycle {len(samples.wall)}: {fault}" for fault in (*faults(after), *case.judge(after))]
        ledger.record(planned)
        found += ledger.faults(jobs, pods)
        for name, decisions in zip(counts, (planned.binds, planned.promises, planned.evictions), strict=True):
            counts[name] += len(decisions)
    note = "" if found or len(samples.wall) == cycles else f"{len(samples.wall)} of {cycles} cycles"
    return Result({**samples.metrics(), "peak_mib": peak_mib(), **counts, **case.figures(after)}, found, note)


def checked(case: Case, snapshot: Snapshot) -> Result:
    """The same decisions as the oracle's, in totals."""
    try:
        from bench._oracle import differences
    except ImportError as error:
        return Result(note=f"no oracle to compare with ({error})")
    if case.cycles > 1:
        ledger = Ledger(snapshot)
        ledger.turn_over()
        snapshot = ledger.snapshot()
    after = After(snapshot, plan(snapshot))
    say(event="run", wall_s=0.0)
    return Result(faults=[*faults(after), *case.judge(after), *differences(after)], note="as the oracle")


def peak_mib() -> float:
    """Peak resident memory of this process; the kernel's own figure where it can be read.

    What `getrusage` gives is inherited from the parent process, so it is the second choice.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        if "VmHWM" in lines:
            return round(int(lines["VmHWM"].split()[0]) / 1024, 1)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def silent(**_: object) -> None:
    """Where no parent listens."""


def aloud(**event: object) -> None:
    """To the parent process."""
    print(json.dumps(event), flush=True)


say: Callable[..., None] = silent


def main(arguments: Sequence[str]) -> int:
    global say
    say = aloud
    result = measure(Point(**json.loads(arguments[0])))
    say(event="result", **asdict(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
