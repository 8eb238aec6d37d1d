"""One scheduling cycle, in process: from a snapshot in memory to the plan.

    python -m bench.cycle [--case NAME ...] [--size N ...] [--json FILE] [--repeat K] [--check] [--quick]

Every case at every size runs in a process of its own, is measured, and its outcome is judged; a wrong outcome makes
the command fail. A sweep ends at the first size that takes longer than the limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench._cases import CASES, Case, case_named
from bench._report import Column, FailedError, Line, OverLimitError, Setting, Table, exponent, progress, watched
from bench._stopwatch import Point

CHECKED_NODES = 100
"""Up to this size the oracle is asked."""
QUICK_NODES = 100

COLUMNS = (
    Column("pods", 8, "pods"),
    Column("median", 9, "median_s", is_time=True),
    Column("p99", 9, "p99_s", is_time=True),
    Column("min", 9, "min_s", is_time=True),
    Column("max", 9, "max_s", is_time=True),
    Column("cpu", 9, "cpu_s", is_time=True),
    Column("columns", 9, "columns_s", is_time=True),
    Column("decide", 9, "decide_s", is_time=True),
    Column("pods/s", 10, "pods_per_s"),
    Column("MiB", 8, "peak_mib"),
    Column("runs", 6, "samples"),
    Column("exponent", 10, "exponent"),
)
OUTCOME = ("bound", "promised", "evicted", "moves", "least_moves", "allocated_percent")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.quick:
        options.limit, options.repeat, options.cycles = min(options.limit, 10), min(options.repeat, 3), 20
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS)
    table.head()
    written = options.json.open("w") if options.json else None
    are_right = True
    for case in [case_named(name) for name in options.case] or CASES:
        lines = swept(case, options, table)
        are_right &= not any(line.faults for line in lines)
        if written:
            written.writelines(f"{line.as_json('cycle', setting)}\n" for line in lines)
            written.flush()
    if written:
        written.close()
    print("every outcome is as expected" if are_right else "some outcomes are wrong: see above", flush=True)
    return 0 if are_right else 1


def swept(case: Case, options: argparse.Namespace, table: Table) -> list[Line]:
    """One case at one size after the other, until one takes too long."""
    lines: list[Line] = []
    sizes = sorted(set(options.size or (quick_sizes(case) if options.quick else case.sizes)))
    for size in sizes:
        point = Point(case=case.name, nodes=size, repeat=options.repeat, cycles=options.cycles)
        line = measured(case, point, options.limit)
        lines.append(line)
        is_last = size == sizes[-1] or not line.metrics
        if is_last:
            note_exponent(lines)
        if options.check and not line.faults:
            compare(line, point, options.limit)
        show(table, line)
        if is_last:
            break
    return lines


def quick_sizes(case: Case) -> tuple[int, ...]:
    return tuple(size for size in case.sizes if size <= QUICK_NODES) or case.sizes[:1]


def measured(case: Case, point: Point, limit_s: float) -> Line:
    """One point, in a process of its own."""
    params: dict[str, object] = {"nodes": point.nodes, "repeat": point.repeat}
    if case.cycles > 1:
        params = {"nodes": point.nodes, "cycles": point.cycles or case.cycles}
    line = Line(case.name, params, point.nodes)
    runs = 0
    progress(f"{case.name} {point.nodes}: building")
    try:
        for event in watched("bench._stopwatch", asdict(point), limit_s):
            if event["event"] == "result":
                line.metrics, line.faults, line.note = event["metrics"], event["faults"], event["note"]
            elif sys.stderr.isatty():
                runs += event["event"] == "run"
                progress(f"{case.name} {point.nodes}: run {runs + 1}")
    except OverLimitError:
        line.note = f"over {limit_s:g} s"
    except FailedError as error:
        line.faults = [f"the measurement failed: {error}"]
    if sys.stderr.isatty():
        progress("")
    return line


def note_exponent(lines: Sequence[Line]) -> None:
    """Growth over a sweep stands in the line of the largest size that was measured."""
    growth = exponent(lines)
    if growth is not None:
        next(line for line in reversed(lines) if line.metrics).metrics["exponent"] = round(growth, 3)


def compare(line: Line, point: Point, limit_s: float) -> None:
    """Ask the oracle about the same snapshot."""
    if point.nodes > CHECKED_NODES:
        line.note = _joined(line.note, f"not checked above {CHECKED_NODES} nodes")
        return
    try:
        for event in watched("bench._stopwatch", asdict(point) | {"check": True}, limit_s):
            if event["event"] == "result":
                line.faults, line.note = event["faults"], _joined(line.note, event["note"])
    except OverLimitError:
        line.note = _joined(line.note, f"not checked: over {limit_s:g} s")
    except FailedError as error:
        line.faults = [f"the check failed: {error}"]


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def show(table: Table, line: Line) -> None:
    counts = [f"{line.metrics[name]:g} {name.replace('_', ' ')}" for name in OUTCOME if line.metrics.get(name)]
    verdict = "WRONG" if line.faults else ", ".join(counts)
    table.add(line, _joined(verdict, line.note))
    for fault in line.faults:
        print(f"    {fault}", flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m bench.cycle",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Time one scheduling cycle: from a snapshot in memory to the plan.",
        epilog="cases:\n"
        + "\n".join(f"  {case.name:<20}{case.about} ({_sizes_text(case)})" for case in CASES)
        + "\n  idle                is a matter of the loop, not of one plan: python -m bench.loop"
        + "\n\nexample:\n  python -m bench.cycle --case fill-whole --case churn --size 100 200 --cycles 50",
    )
    names = [case.name for case in CASES]
    made.add_argument(
        "--case", action="extend", nargs="+", default=[], choices=names, metavar="NAME", help="only these"
    )
    made.add_argument("--size", action="extend", nargs="+", default=[], type=_count, metavar="N", help="nodes")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    made.add_argument("--repeat", type=_count, default=5, metavar="K", help="runs, within 30 s (default 5)")
    made.add_argument("--cycles", type=_count, metavar="K", help="of churn (default 200, within 120 s of planning)")
    made.add_argument("--limit", type=float, default=60, metavar="S", help="give up on a run after (default 60 s)")
    made.add_argument("--check", action="store_true", help=f"compare with the oracle, up to {CHECKED_NODES} nodes")
    made.add_argument("--quick", action="store_true", help="smallest size of each case, 3 runs, limit 10 s, 20 cycles")
    return made


def _sizes_text(case: Case) -> str:
    return ", ".join(f"{size:,}" for size in case.sizes) + " nodes"


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
