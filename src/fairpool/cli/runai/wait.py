"""`runai wait`: block until jobs run, finish or are gone; for scripts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fairpool.cli.runai import ages
from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.failure import ERROR, Failure, failure
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.workloads import Workload

TIMED_OUT = 124
"""As `timeout` of the core utilities does."""
LOOK_FIRST_S, LOOK_LATER_S = 0.2, 2.0
AWAY_S, AWAY_TRIES = 2.0, 30
"""A restarted server is back within a minute."""
GOALS = ("finished", "running", "deleted")
OVER = frozenset({"Completed", "Failed", "Stopped", "Deleted"})


@click.command(
    "wait",
    cls=Leaf,
    short_help="Wait until jobs finish, run or are deleted.",
    example="runai wait prep --timeout 2h && runai submit train -f train.yaml",
)
@click.argument("names", nargs=-1, required=True, shell_complete=job_names)
@flag("--for", "goal", type=click.Choice(GOALS), default="finished", help="What to wait for (finished).")
@flag("--timeout", metavar="TIME", help="Give up after this long, such as 90s or 2h (default: never).")
@flag("-q", "--quiet", is_flag=True, help="Print nothing; only set the exit code.")
@click.pass_context
def wait(ctx: click.Context, names: tuple[str, ...], goal: str, timeout: str | None, quiet: bool) -> None:
    """Wait for jobs to finish, run or be deleted.

    Exit code 0: all jobs reached that state (with --for finished: succeeded). 1: a job ended otherwise. 124: timed out.
    """
    from fairpool.cli.runai.session import Session, job

    here: Here = ctx.obj
    patience = _patience(timeout)
    session = Session(here)
    project = session.project()
    with session.connected() as client:
        # A job that is gone already is what was waited for.
        found = {
            name: _known(client, project, name) if goal == "deleted" else job(client, project, name).id
            for name in dict.fromkeys(names)
        }
        for name in [name for name, workload in found.items() if workload is None and not quiet]:
            click.echo(f"{printable(name)}: deleted")
        waiting = {name: workload for name, workload in found.items() if workload is not None}
        ctx.exit(_wait(client, waiting, goal, patience, quiet=quiet))


def _known(client: Client, project: str, name: str) -> str | None:
    from fairpool.cli.runai.session import NAME, check_project

    check_project(client, project)
    found = client.find_workload(project, name) or client.find_leaving(project, name) if NAME.fullmatch(name) else None
    return None if found is None else found.id


def _patience(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    seconds = ages.seconds(timeout)
    if isinstance(seconds, Problem):
        raise Failure([seconds])
    return float(seconds)


def _wait(client: Client, waiting: dict[str, str], goal: str, patience: float | None, *, quiet: bool) -> int:
    begin, pause, code = time.monotonic(), LOOK_FIRST_S, 0
    while True:
        for name, workload in list(waiting.items()):
            verdict = verdict_of(_found(client, workload), goal)
            if verdict is None:
                continue
            del waiting[name]
            is_good, words = verdict
            code = code if is_good else ERROR
            if not quiet:
                click.echo(f"{printable(name)}: {printable(words)}", err=not is_good)
        if not waiting:
            return code
        if patience is not None and time.monotonic() - begin >= patience:
            left = ", ".join(f"{name} ({_state(_found(client, workload))})" for name, workload in waiting.items())
            raise _timed_out(left, goal, patience)
        rest = pause if patience is None else min(pause, max(0.0, begin + patience - time.monotonic()))
        time.sleep(rest)
        pause = min(pause * 1.3, LOOK_LATER_S)


def _timed_out(left: str, goal: str, patience: float) -> Failure:
    late = failure("wait.timed_out", f"timed out after {ages.exact(round(patience))}; not {goal} yet: {left}")
    late.exit_code = TIMED_OUT
    return late


def _found(client: Client, workload: str) -> Workload | None:
    """As it is now; None: it is gone. A server that is away for a moment is asked again: a wait may last for days."""
    from fairpool.api.client import Refused, Unreachable

    for _ in range(AWAY_TRIES):
        try:
            return client.workload(workload)
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise
        except Unreachable:
            time.sleep(AWAY_S)
    return client.workload(workload)


def _state(found: Workload | None) -> str:
    return "deleted" if found is None else found.classic_status or found.phase.value


def verdict_of(found: Workload | None, goal: str) -> tuple[bool, str] | None:
    """Whether the wait for this job is over: well or not, with the words for it. None: not yet."""
    phase = "Deleted" if found is None else found.phase.value
    if goal == "deleted":
        return (True, "deleted") if phase == "Deleted" else None
    if goal == "running" and phase in ("Running", "Degraded"):
        return True, "running"
    if phase not in OVER:
        return None
    why = f": {found.phase_message}" if found is not None and found.phase_message else ""
    if phase == "Completed":
        return True, "succeeded"
    return False, f"{phase.lower()}{why}"
