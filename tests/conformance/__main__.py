"""Run conformance cases: `python -m tests.conformance DIR [--only GLOB] [-v]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fairpool.scheduler.plan import plan
from tests.conformance.case import CannotRead, choose, read_folder
from tests.conformance.judge import Outcome, judge

CANNOT_RUN = 2
LINES_SHOWN = 6
"""Differences shown for a case without -v."""


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        cases = choose(read_folder(options.folder), options.only)
    except CannotRead as problem:
        print(f"conformance: {problem}", file=sys.stderr)
        return CANNOT_RUN
    failed = 0
    for case in cases:
        outcome = judge(case, plan)
        failed += not outcome.passed
        for line in report(outcome, verbose=options.verbose):
            print(line)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def report(outcome: Outcome, *, verbose: bool) -> list[str]:
    """What to print about a case: nothing if it passed, unless one asks for more."""
    if outcome.passed and not verbose:
        return []
    shown = outcome.differences if verbose else outcome.differences[:LINES_SHOWN]
    lines = [f"{'ok' if outcome.passed else 'FAILED'} {outcome.case.id}", *(f"    {line}" for line in shown)]
    if len(shown) < len(outcome.differences):
        lines.append(f"    and {len(outcome.differences) - len(shown)} more; -v shows all")
    if verbose:
        lines += [f"    hint: {line}" for line in outcome.hints]
        lines += [f"    {line}" for line in outcome.trace.splitlines()]
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Run every conformance case in a folder and below it; the last line says how many passed.",
        epilog="example: python -m tests.conformance tests/conformance/cases --only 'reclaim*' -v",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the case files are")
    parser.add_argument("--only", metavar="GLOB", help="only cases whose id or suite matches")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every case, hints, and all that differed")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
