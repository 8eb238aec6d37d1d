"""One list of the trace and one seed, in a process of its own: `python -m bench._allocation JSON`, see `alloc.py`.

Pods arrive one after the other and never leave; a pod that fits nowhere is dropped. The clock is on while a plan is
decided. Where pods went is judged afterwards, outside the clock, by a cluster that shares no code with the scheduler.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from bench._departures import departures
from bench._fgd import Cluster, Fgd, Typical
from bench._trace import SATURATED, Ask, Place, arrivals, asks, nodes, snapshot, typical
from fairpool.model.node import Placement
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.scheduler.allocate import place_next
from fairpool.scheduler.columns import REAL
from fairpool.scheduler.device_assignment import assign_devices
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.plan import plan, share
from fairpool.scheduler.prepared import prepare
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.trial import Trial

ALLOCATED_AT = (95, 100, 130)
FRAGMENTED_AT = (60, 90)
FGD = "fgd"


class Way(StrEnum):
    """How the scheduler is asked."""

    ONE_BY_ONE = "one-by-one"
    """One decision for each arrival, columns kept in between."""
    TOGETHER = "together"
    """The whole list in one snapshot, in the order of arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is to be measured."""

    name: str
    seed: int
    strategy: str
    """Of a node pool, or `fgd`."""
    way: str = Way.ONE_BY_ONE
    arrived: float = SATURATED
    """GPUs asked for in the end, as a part of those there are."""
    moves: bool = False
    """Then plan once more with pods marked movable, and say what that gains."""
    departures: int = 0
    """Instead, let pods come and go at their recorded times, on every so manieth node."""


@dataclass(slots=True)
class Decided:
    """Where every pod went, in the order of arrival; None: nowhere."""

    places: list[Place | None]
    wall_s: float
    cpu_s: float


@dataclass(slots=True)
class Result:
    """What came of it."""

    metrics: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    note: str = ""


def measure(point: Point) -> Result:
    """Decide, then judge."""
    if point.departures:
        return Result(departures(point.name, Placement(point.strategy), point.departures))
    listed = asks(point.name)
    capacity = WHOLE_GPU_MILLI * sum(node.gpus for node in nodes())
    arrived = arrivals(listed, int(point.arrived * capacity), point.seed)
    decided = decide(point, listed, arrived)
    result = Result()
    try:
        result.metrics = judged(listed, arrived, decided.places)
    except AssertionError:
        result.faults = ["a pod was put where it does not fit"]
    if point.moves:
        result.metrics |= moved(point, arrived, decided.places, capacity)
    result.metrics["pods"] = len(arrived)
    result.metrics["decisions_per_s"] = round(len(arrived) / decided.wall_s, 1)
    result.metrics["decisions_per_cpu_s"] = round(len(arrived) / decided.cpu_s, 1)
    result.metrics["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result


def decide(point: Point, listed: Sequence[Ask], arrived: Sequence[Ask]) -> Decided:
    """Give every pod that arrived a place, with the clock on."""
    if point.strategy == FGD:
        return by_fgd(listed, arrived)
    rows = snapshot(arrived, Placement(point.strategy), typical(listed))
    return together(rows) if point.way == Way.TOGETHER else one_by_one(rows)


def by_fgd(listed: Sequence[Ask], arrived: Sequence[Ask]) -> Decided:
    """The peer."""
    rows = nodes()
    fgd = Fgd(Cluster(rows, Typical(listed)))
    places: list[Place | None] = []
    with _Clock() as clock:
        for ask in arrived:
            found = fgd.place(ask)
            places.append(None if found is None else (rows[found[0]].name, tuple(found[1])))
    return Decided(places, clock.wall_s, clock.cpu_s)


def one_by_one(rows: Snapshot) -> Decided:
    """The scheduler's own step for one group, once for each arrival, on one set of columns.

    Building the columns, which a running scheduler would not do anew for each pod, is outside the clock.
    """
    trial = Trial(prepare(rows).columns)
    columns = trial.columns
    share(trial)
    placer = Placer(trial)
    with _Clock() as clock:
        for group in range(len(columns.groups)):
            place_next(placer, group)
    devices = assign_devices(trial, [pod for pod in range(len(columns.pods)) if columns.hold[pod] == REAL])
    names = columns.nodes.names
    places: list[Place | None] = [
        (names[columns.hold_node[pod]], devices.get(pod, ())) if columns.hold[pod] == REAL else None
        for pod in range(len(columns.pods))
    ]
    return Decided(places, clock.wall_s, clock.cpu_s)


def together(rows: Snapshot) -> Decided:
    """One plan for all."""
    with _Clock() as clock:
        planned = plan(rows)
    given: dict[str, Place] = {bind.pod: (bind.node, bind.devices) for bind in planned.binds}
    return Decided([given.get(pod.id) for pod in rows.pods], clock.wall_s, clock.cpu_s)


def moved(point: Point, arrived: Sequence[Ask], places: Sequence[Place | None], capacity: int) -> dict[str, float]:
    """What one more plan gains when as much has arrived as there is, and pods marked best-effort may move."""
    asked = 0
    for count, ask in enumerate(arrived):
        asked += ask.gpu_milli
        if asked > capacity:
            arrived, places = arrived[:count], places[:count]
            break
    rows = snapshot(arrived, Placement(point.strategy), typical(asks(point.name)), places, moves=True)
    used = sum(ask.gpu_milli for ask, place in zip(arrived, places, strict=True) if place)
    with _Clock() as clock:
        planned = plan(rows)
    milli = {pod.id: ask.gpu_milli for pod, ask in zip(rows.pods, arrived, strict=True)}
    evicted = {each.pod for each in planned.evictions}
    given = {bind.pod for bind in planned.binds} | {promise.pod for promise in planned.promises}
    lost = sum(milli[pod] for pod in evicted - given)
    gained = sum(milli[pod] for pod in given - evicted) - lost
    figures = {
        "moves": len(evicted & given),
        "moves_gained_gpus": gained / WHOLE_GPU_MILLI,
        "unallocated_percent_before_moves": 100 - 100 * used / capacity,
        "unallocated_percent_after_moves": 100 - 100 * (used + gained) / capacity,
        "moves_s": clock.wall_s,
    }
    return figures | ({"evicted_for_good": len(evicted - given)} if evicted - given else {})


class _Clock:
    """Wall and CPU time of a block."""

    def __enter__(self) -> _Clock:
        gc.collect()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = time.process_time() - self._cpu


def judged(listed: Sequence[Ask], arrived: Sequence[Ask], places: Sequence[Place | None]) -> dict[str, float]:
    """Figures at each whole per cent of arrived GPU demand: the mean over the arrivals that round to it."""
    cluster = Cluster(nodes(), Typical(listed))
    asked, refused, first_refusal = 0, 0, 0.0
    used: dict[int, list[int]] = {}
    fragments: dict[int, list[float]] = {}
    for ask, place in zip(arrived, places, strict=True):
        asked += ask.gpu_milli
        if place is not None:
            cluster.take(cluster.names[place[0]], ask, place[1])
        elif ask.gpu_milli:
            refused += 1
            first_refusal = first_refusal or 100 * asked / cluster.total_milli
        at = round(100 * asked / cluster.total_milli)
        used.setdefault(at, []).append(cluster.used_milli)
        fragments.setdefault(at, []).append(cluster.fragments_milli)
    figures: dict[str, float] = {"refused": refused}
    if first_refusal:
        figures["first_refusal_at_percent"] = round(first_refusal, 2)
    for at in (each for each in ALLOCATED_AT if each in used):
        figures[f"unallocated_percent_at_{at}"] = 100 - 100 * _mean(used[at]) / cluster.total_milli
    for at in (each for each in FRAGMENTED_AT if each in used):
        idle = cluster.total_milli - _mean(used[at])
        figures[f"fragments_percent_of_idle_at_{at}"] = 100 * _mean(fragments[at]) / idle
    return figures


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main(arguments: Sequence[str]) -> None:
    point = Point(**json.loads(arguments[0]))
    print(json.dumps({"event": "built"}), flush=True)
    print(json.dumps({"event": "result"} | asdict(measure(point))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
