"""`fairpool simulate`: run a whole cluster in virtual time and print the outcome.

Only flags and texts are here: what runs, counts and draws is in `simulation/`, and is imported once it is needed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairpool.cli.failure import UNUSABLE, fail
from fairpool.model.spelling import did_you_mean

if TYPE_CHECKING:
    from fairpool.cli.simulation_files import OutputFiles
    from fairpool.model.problem import Problem
    from fairpool.simulation.capture import Capture
    from fairpool.simulation.checkpoint import Checkpoint
    from fairpool.simulation.result import SimulationResult
    from fairpool.simulation.runner import Pacer
    from fairpool.simulation.scenario import Scenario

FAILED = 1
INTERRUPTED = 130
SPEED = 60.0

HELP = """Simulate WHAT in virtual time with the real scheduler, and print the results.

WHAT is the name of an example (see --list), a scenario file (.toml, see docs/reference/scenario-file.md) or a trace:
a table (.csv) with the columns job, project, submit_s, gpus, duration_s and, optionally, kind.

The same file produces the same results on every machine, however often it was interrupted.

\b
--snapshot saves the input of one scheduling cycle for fairpool plan:
  --snapshot demo.snapshot          the last cycle
  --snapshot demo.snapshot@12       the 12th
  --snapshot demo.snapshot@90s      the last one within 90 s of the start

\b
Exit codes: 0 everything as expected, or nothing was expected; 1 something was
not as expected; 2 WHAT cannot be used, or the flags make no sense; 130
interrupted.
"""


@click.command(
    help=HELP,
    epilog="Example: fairpool simulate netapp --charts charts",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("what", required=False)
@click.option("--list", "list_them", is_flag=True, help="List the examples.")
@click.option("--copy", metavar="FILE", help="Copy the example WHAT to FILE instead of running it.")
@click.option("--nodes", metavar="100x8", help="Trace only: number of nodes x GPUs per node.")
@click.option(
    "--quota",
    "quotas",
    metavar="PROJECT=8",
    multiple=True,
    help="Trace only: a project's quota (default: by its GPU hours). Repeatable.",
)
@click.option(
    "--json", "json_file", metavar="FILE", help="Save the results as JSON; `-` prints them instead of tables."
)
@click.option("--charts", metavar="FOLDER", help="Save charts (SVG) of GPUs by project and of waiting jobs.")
@click.option(
    "--snapshot", "snapshots", metavar="FILE[@CYCLE]", multiple=True, help="Save a scheduling cycle. Repeatable."
)
@click.option("--pool", default="default", show_default=True, help="Node pool that --snapshot saves.")
@click.option("--events", is_flag=True, help="Print all events.")
@click.option("--why", metavar="JOB", help="Print one job's state, the reason, and its history.")
@click.option("--realtime", is_flag=True, help="Run on a real clock.")
@click.option("--speed", type=click.FloatRange(min=0, min_open=True), help="Speed-up of --realtime. [60]")
@click.option("--state", metavar="FOLDER", help="Keep state in FOLDER; after a crash, rerun the command to continue.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def simulate(
    what: str | None,
    list_them: bool,
    copy: str | None,
    nodes: str | None,
    quotas: tuple[str, ...],
    json_file: str | None,
    charts: str | None,
    snapshots: tuple[str, ...],
    pool: str,
    events: bool,
    why: str | None,
    realtime: bool,
    speed: float | None,
    state: str | None,
    force: bool,
) -> None:
    """Choose what is asked, run it, answer."""
    if list_them:
        _list()
        return
    if what is None:
        raise click.UsageError("Name an example (see --list), a scenario file or a trace.")
    if copy is not None:
        _copy(what, Path(copy), force)
        return
    if speed is not None and not realtime:
        raise click.UsageError("--speed needs --realtime.")
    if state is not None and snapshots:
        raise click.UsageError(
            "--snapshot cannot be combined with --state; run without --state to save the same cycles."
        )
    scenario = _scenario(what, nodes, quotas)
    wanted = _wanted(scenario, json_file, charts, _capture(snapshots, pool), why, force)
    checkpoint = _open_checkpoint(scenario, state)
    outcome = _simulated(scenario, checkpoint, wanted, (speed or SPEED) if realtime else None)
    problems = wanted.write(outcome)
    _print(outcome, json_file, events, why)
    if problems:
        fail(problems, UNUSABLE)
    if not outcome.is_complete:
        if state is not None:
            click.echo("Interrupted. Run the same command again to continue.", err=True)
        raise click.exceptions.Exit(INTERRUPTED)
    raise click.exceptions.Exit(FAILED if outcome.passed is False else 0)


def _list() -> None:
    from fairpool.cli.screen import Screen
    from fairpool.simulation.catalogue import titles

    screen = Screen.here()
    screen.table(("EXAMPLE", "WHAT IT SHOWS"), titles())
    screen.show()


def _copy(example: str, file: Path, force: bool) -> None:
    from fairpool.simulation.catalogue import copied

    problem = copied(example, file, overwrite=force)
    if problem is not None:
        fail([problem], UNUSABLE)
    click.echo(f"Wrote {file}. Run it with: fairpool simulate {file}")


def _scenario(what: str, nodes: str | None, quotas: tuple[str, ...]) -> Scenario:
    from fairpool.simulation.catalogue import find_scenario

    scenario = find_scenario(what, nodes, quotas)
    if isinstance(scenario, list):
        fail(scenario, UNUSABLE)
    return scenario


def _capture(snapshots: tuple[str, ...], pool: str) -> Capture:
    from fairpool.model.ids import PoolName
    from fairpool.simulation.capture import Capture, CaptureRequest, request

    requests = [request(each) for each in snapshots]
    problems = [each for each in requests if not isinstance(each, CaptureRequest)]
    if problems:
        fail(problems, UNUSABLE)
    return Capture([each for each in requests if isinstance(each, CaptureRequest)], PoolName(pool))


def _wanted(
    scenario: Scenario, json_file: str | None, charts: str | None, capture: Capture, why: str | None, force: bool
) -> OutputFiles:
    from fairpool.cli.simulation_files import OutputFiles

    wanted = OutputFiles(json_file, charts, capture, force)
    problems = wanted.obstacles()
    pools = [pool.name for pool in scenario.organization.pools]
    if capture.requests and capture.pool not in pools:
        problems.append(_unknown("pool", capture.pool, pools))
    if why is not None and why not in scenario.submitted():
        problems.append(_unknown("job", why, scenario.submitted()))
    if problems:
        fail(problems, UNUSABLE)
    return wanted


def _unknown(noun: str, name: str, known: Iterable[str]) -> Problem:
    from fairpool.model.problem import Problem

    known = list(known)
    fix = did_you_mean(name, known, f"there are: {', '.join(known[:8])}")
    return Problem(f"{noun}.unknown", f"there is no {noun} {name!r} in the scenario", fix)


def _open_checkpoint(scenario: Scenario, state: str | None) -> Checkpoint:
    from fairpool.model.problem import Problem
    from fairpool.simulation.checkpoint import Checkpoint, opened

    if state is None:
        return Checkpoint()
    folder = opened(Path(state), scenario)
    if isinstance(folder, Problem):
        fail([folder], UNUSABLE)
    return folder


def _simulated(
    scenario: Scenario, checkpoint: Checkpoint, wanted: OutputFiles, speed: float | None
) -> SimulationResult:
    """The outcome at the end, or as far as it came before it was interrupted."""
    from fairpool.cli.simulation_progress import Progress
    from fairpool.model.problem import Problem
    from fairpool.simulation.result import SimulationResult
    from fairpool.simulation.runner import Pacer, run_scenario
    from fairpool.simulation.simulated_cluster import STORAGE_ERRORS, SimulatedCluster

    watch = wanted.capture if wanted.capture.requests else None
    progress = Progress(len(scenario.submitted()), scenario.gpus)
    try:
        cluster = SimulatedCluster(scenario, checkpoint.position.now, checkpoint.files, watch)
        with _stopped_by_interrupt(Pacer(speed)) as pacer:
            run_scenario(cluster, checkpoint, pacer, progress)
        outcome = SimulationResult.of(cluster, checkpoint.position)
        cluster.close()
    except STORAGE_ERRORS as error:
        fix = "check that the disk has space and that no other process writes there, or choose another folder"
        fail([Problem("state.unusable", f"the simulation cannot be kept: {error}", fix)], UNUSABLE)
    finally:
        progress.clear()
        checkpoint.close()
    return outcome


@contextmanager
def _stopped_by_interrupt(pacer: Pacer) -> Iterator[Pacer]:
    """Ctrl-C ends the run between two moments, where what is known agrees. A second one does not wait for that."""

    def stop(_number: int, _frame: object) -> None:
        if pacer.is_stopped:
            raise KeyboardInterrupt
        pacer.is_stopped = True
        click.echo(err=True)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield pacer
    finally:
        signal.signal(signal.SIGINT, before)


def _print(outcome: SimulationResult, json_file: str | None, events: bool, why: str | None) -> None:
    from fairpool.cli import simulation_summary
    from fairpool.cli.screen import Screen
    from fairpool.simulation.result import result_text

    if json_file == "-":
        click.echo(result_text(outcome), nl=False)
        return
    screen = Screen.here(every_row=True)
    if events:
        simulation_summary.draw_events(screen, outcome)
    simulation_summary.draw(screen, outcome)
    if why is not None:
        simulation_summary.draw_why(screen, outcome, why)
    simulation_summary.draw_checks(screen, outcome)
    screen.show()
