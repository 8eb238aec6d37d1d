"""How much of a cluster the scheduler fills: a production trace, through the real scheduler, beside FGD.

    python -m bench.alloc [--list NAME ...] [--seeds 42-51] [--strategy NAME ...] [--together] [--moves]
                          [--departures] [--json FILE]

The pods of a list arrive in random order until they ask for 1.3 times the GPUs there are; each is one decision, nothing
ever leaves, and what fits nowhere is dropped. Every list, seed and strategy runs in a process of its own. A pod put
where it does not fit makes the command fail.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench._allocation import FGD, Point, Way
from bench._report import Column, FailedError, Line, OverLimitError, Setting, Table, progress, watched
from bench._trace import LISTS, SATURATED, published
from fairpool.model.node import Placement

COLUMNS = (
    Column("idle%95", 9, "unallocated_percent_at_95"),
    Column("idle%100", 9, "unallocated_percent_at_100"),
    Column("idle%130", 9, "unallocated_percent_at_130"),
    Column("frag%60", 9, "fragments_percent_of_idle_at_60"),
    Column("frag%90", 9, "fragments_percent_of_idle_at_90"),
    Column("refusal%", 9, "first_refusal_at_percent"),
    Column("refused", 9, "refused"),
    Column("moves", 7, "moves"),
    Column("idle%moved", 11, "unallocated_percent_after_moves"),
    Column("mean%", 8, "mean_allocated_percent"),
    Column("per s", 8, "decisions_per_s"),
    Column("MiB", 6, "peak_mib"),
)
TABLE = Table(COLUMNS, size="seed", case_width=26)
QUICK_SEEDS = (42,)
AT_100 = "unallocated_percent_at_100"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    setting = Setting.here()
    print(setting)
    TABLE.head()
    written = options.json.open("a" if options.append else "w") if options.json else None
    are_right = True
    for name in options.list or ["default"]:
        lines = [measured(point, options.limit) for point in points(name, options)]
        are_right &= not any(line.faults for line in lines)
        if written:
            written.writelines(f"{line.as_json('alloc', setting)}\n" for line in lines)
            written.flush()
        compare(name, lines)
    if written:
        written.close()
    print("every pod is where it fits" if are_right else "some outcomes are wrong: see above", flush=True)
    return 0 if are_right else 1


def points(name: str, options: argparse.Namespace) -> list[Point]:
    """What is measured of one list: each strategy on the same seeds, and FGD beside them."""
    way = Way.TOGETHER if options.together else Way.ONE_BY_ONE
    strategies = options.strategy or [Placement.FRAGMENTATION.value]
    if options.departures:
        strategies = options.strategy or [Placement.FRAGMENTATION.value, Placement.BINPACK.value]
        return [Point(name=name, seed=0, strategy=each, departures=options.departures) for each in strategies]
    strategies = [*strategies, *([] if options.alone else [FGD])]
    return [
        Point(
            name=name,
            seed=seed,
            strategy=strategy,
            way=way,
            arrived=options.arrived,
            moves=options.moves and strategy != FGD,
        )
        for strategy in strategies
        for seed in options.seeds
    ]


def measured(point: Point, limit_s: float) -> Line:
    """One list, seed and strategy, in a process of its own."""
    params: dict[str, object] = {"list": point.name, "seed": point.seed, "strategy": point.strategy}
    if point.strategy != FGD:
        params["way"] = point.way
    if point.departures:
        params |= {"way": "departures", "every": point.departures}
    if point.arrived != SATURATED:
        params["arrived"] = point.arrived
    line = Line(f"{point.name}/{point.strategy}", params, point.seed)
    if sys.stderr.isatty():
        progress(f"{line.case} {point.seed}")
    try:
        for event in watched("bench._allocation", asdict(point), limit_s):
            if event["event"] == "result":
                line.metrics, line.faults, line.note = event["metrics"], event["faults"], event["note"]
    except OverLimitError:
        line.note = f"over {limit_s:g} s"
    except FailedError as error:
        line.faults = [f"the measurement failed: {error}"]
    if sys.stderr.isatty():
        progress("")
    show(line)
    return line


def show(line: Line) -> None:
    TABLE.add(line, "WRONG" if line.faults else line.note)
    for fault in line.faults:
        print(f"    {fault}", flush=True)


def compare(name: str, lines: Sequence[Line]) -> None:
    """Means over the seeds, and the difference to FGD, seed by seed."""
    by_strategy: dict[str, dict[int, float]] = {}
    for line in lines:
        if AT_100 in line.metrics:
            by_strategy.setdefault(str(line.params["strategy"]), {})[line.size] = line.metrics[AT_100]
    fgd = by_strategy.get(FGD, {})
    for strategy, by_seed in by_strategy.items():
        text = f"{name}: {strategy} leaves {statistics.mean(by_seed.values()):.2f} % idle at 100 % arrived"
        gaps = [value - fgd[seed] for seed, value in by_seed.items() if seed in fgd]
        if gaps and strategy != FGD:
            text += f", {statistics.mean(gaps):+.2f} to FGD (worst seed {max(gaps):+.2f})"
        if strategy == FGD and (theirs := published(name, 100)) is not None:
            text += f" (published, on the authors' arrivals: {theirs:.2f})"
        print(f"{text}; {len(by_seed)} seeds", flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m bench.alloc",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="How much of a cluster the scheduler fills with the pods of a production trace.",
        epilog="lists:\n  "
        + " ".join(LISTS)
        + "\n\nexample:\n  python -m bench.alloc --list default gpuspec33 --seeds 42-44",
    )
    made.add_argument(
        "--list", action="extend", nargs="+", default=[], choices=LISTS, metavar="NAME", help="only these"
    )
    made.add_argument("--seeds", type=_seeds, default=QUICK_SEEDS, metavar="A-B", help="such as 42-51 (default 42)")
    names = [each.value for each in Placement]
    made.add_argument(
        "--strategy", action="extend", nargs="+", default=[], choices=names, help="default: fragmentation"
    )
    way = made.add_mutually_exclusive_group()
    way.add_argument("--one-by-one", action="store_true", help="a decision for each arrival (the default)")
    way.add_argument("--together", action="store_true", help="the whole list in one snapshot, in arrival order")
    made.add_argument("--alone", action="store_true", help="without FGD beside it")
    made.add_argument(
        "--moves", action="store_true", help="then let pods marked best-effort move, and say what it gains"
    )
    made.add_argument(
        "--departures",
        type=int,
        nargs="?",
        const=120,
        default=0,
        metavar="N",
        help="instead: recorded times, on every Nth node (default 120), beside binpack",
    )
    made.add_argument(
        "--arrived", type=float, default=SATURATED, metavar="X", help=f"GPUs asked for / GPUs (default {SATURATED})"
    )
    made.add_argument("--limit", type=float, default=300, metavar="S", help="give up on a run after (default 300 s)")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    made.add_argument("--append", action="store_true", help="to what the file has")
    return made


def _seeds(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed such as 42, nor a range such as 42-51")
    return tuple(range(int(first), int(last or first) + 1))


if __name__ == "__main__":
    sys.exit(main())
