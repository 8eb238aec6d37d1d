"""Fairness against completion time: the Philly jobs in simulated time, through the real scheduler.

    python -m bench.fair [--case NAME ...] [--jobs N] [--every S] [--through-loop] [--json FILE]

Each case is one setting of the knobs, run to the end of the last job in a process of its own. The static cases are
small and exact: who holds how much, once everything has settled. A job that is lost or a share that is off by a GPU
makes the command fail.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench._curve import CASES, EVERY_S, Point
from bench._report import Column, FailedError, Line, OverLimitError, Setting, Table, progress, watched
from bench._shares import SHARES, Share, settled

COLUMNS = (
    Column("JCT h", 8, "mean_jct_h"),
    Column("p50", 8, "p50_jct_h"),
    Column("p99", 8, "p99_jct_h"),
    Column("wait h", 8, "mean_wait_h"),
    Column("use%", 7, "use_percent"),
    Column("error%", 8, "fairness_error_percent"),
    Column("rho", 7, "mean_rho"),
    Column("rho99", 7, "p99_rho"),
    Column("stops", 8, "preemptions"),
    Column("lost%", 7, "lost_percent"),
    Column("plans", 8, "plans"),
    Column("cpu", 8, "cpu_s", is_time=True),
    Column("wall", 8, "wall_s", is_time=True),
    Column("MiB", 6, "peak_mib"),
)
TABLE = Table(COLUMNS, size="jobs", case_width=20)
LOOPED = tuple(case.name for case in CASES if not case.knobs.levels_gpu_h)
"""What can go through the whole loop: users cannot lower the priority of a workload that is there."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    setting = Setting.here()
    print(setting)
    written = options.json.open("a" if options.append else "w") if options.json else None
    TABLE.head()
    are_right = True
    for name in options.case:
        share = next((share for share in SHARES if share.name == name), None)
        if share is not None:
            line = checked(share)
        else:
            how = Point(case=name, jobs=options.jobs, every_s=options.every, through_loop=options.through_loop)
            line = measured(how, options.limit)
        show(line)
        are_right &= not line.faults
        if written:
            written.write(f"{line.as_json('fair', setting)}\n")
            written.flush()
    if written:
        written.close()
    print("every outcome is as expected" if are_right else "some outcomes are wrong: see above", flush=True)
    return 0 if are_right else 1


def checked(share: Share) -> Line:
    """A static case: what each queue holds, beside what it should."""
    result = settled(share)
    return Line(share.name, {"nodes": share.nodes}, len(share.jobs), result.metrics, result.faults, result.note)


def measured(point: Point, limit_s: float) -> Line:
    """One point of the curve, in a process of its own."""
    params: dict[str, object] = {"jobs": point.jobs or "all", "every_s": point.every_s}
    params |= {"through_loop": True} if point.through_loop else {}
    line = Line(point.case, params, point.jobs or 0)
    if sys.stderr.isatty():
        progress(f"{point.case}: building")
    try:
        for event in watched("bench._curve", asdict(point), limit_s):
            if event["event"] == "result":
                line.metrics, line.faults, line.note = event["metrics"], event["faults"], event["note"]
            elif event["event"] == "run" and sys.stderr.isatty():
                progress(f"{point.case}: day {event['day']}")
    except OverLimitError:
        line.note = f"over {limit_s:g} s"
    except FailedError as error:
        line.faults = [f"the measurement failed: {error}"]
    if sys.stderr.isatty():
        progress("")
    line.size = int(line.metrics.get("jobs", line.size))
    return line


def show(line: Line) -> None:
    TABLE.add(line, "WRONG" if line.faults else line.note)
    for fault in line.faults:
        print(f"    {fault}", flush=True)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, with the cases that are meant where none is named."""
    made = parser()
    options = made.parse_args(arguments)
    if options.through_loop:
        options.case = options.case or [CASES[0].name]
        for name in options.case:
            if name not in LOOPED:
                made.error(f"{name} cannot go through the loop; these can: {', '.join(LOOPED)}")
    options.case = options.case or [each.name for each in (*SHARES, *CASES)]
    return options


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m bench.fair",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Fairness against completion time, on the jobs of a production trace in simulated time.",
        epilog="cases:\n"
        + "\n".join(f"  {each.name:<22}{each.about}" for each in (*SHARES, *CASES))
        + "\n\nexample:\n  python -m bench.fair --case strict levels --jobs 1000 --every 60",
    )
    names = [each.name for each in (*SHARES, *CASES)]
    made.add_argument(
        "--case", action="extend", nargs="+", default=[], choices=names, metavar="NAME", help="only these"
    )
    made.add_argument("--jobs", type=_count, metavar="N", help="only the first so many of the trace")
    made.add_argument(
        "--every",
        type=_count,
        default=EVERY_S,
        metavar="S",
        help=f"simulated seconds between plans, at least ({EVERY_S})",
    )
    made.add_argument(
        "--through-loop",
        action="store_true",
        help="the whole cluster loop, not the scheduler alone (without --case: strict)",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    made.add_argument("--append", action="store_true", help="to what the file has")
    made.add_argument("--limit", type=float, default=3600, metavar="S", help="give up on a case after (default 3600 s)")
    return made


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
