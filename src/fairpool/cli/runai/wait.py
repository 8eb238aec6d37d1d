"""`runai wait`: block until jobs run, finish or are gone; for scripts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Refused
from fairpool.cli.failure import ERROR, Failure, failure
from fairpool.cli.runai import ages
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.session import Session, check_project, find_job, unknown_job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import printable
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.workloads import Workload

TIMED_OUT = 124
"""As `timeout` of the core utilities does."""
LOOK_FIRST_S, LOOK_LATER_S = 0.2, 2.0
AWAY_S = 60.0
"""A restarted server is back by then."""
GOALS = ("finished", "running", "deleted")
OVER = frozenset({"Completed", "Failed", "Stopped", "Deleted"})


@command("wait", "runai wait prep --timeout 2h && runai submit train -f train.yaml")
@click.argument("names", nargs=-1, required=True, shell_complete=job_names)
@flag("--for", "goal", type=click.Choice(GOALS), default="finished", help="What to wait for (finished).")
@flag("--timeout", metavar="TIME", help="Give up after this long, such as 90s or 2h (default: never).")
@flag("-q", "--quiet", is_flag=True, help="Print nothing; only set the exit code.")
@click.pass_context
def wait(ctx: click.Context, names: tuple[str, ...], goal: str, timeout: str | None, quiet: bool) -> None:
    """Wait for jobs to finish, run or be deleted.

    Exit code 0: all jobs reached that state (with --for finished: succeeded). 1: a job ended otherwise. 124: timed out.
    """
    options: GlobalOptions = ctx.obj
    patience = _patience(timeout)
    session = Session(options)
    project = session.project()
    waiting: dict[str, str] = {}
    with session.connected() as client:
        for name in dict.fromkeys(names):
            found = find_job(client, project, name)
            if found is not None:
                waiting[name] = found.id
            elif goal != "deleted":
                raise unknown_job(client, project, name)
            else:  # that is what is waited for
                check_project(client, project)
                _say(name, "deleted", is_good=True, quiet=quiet)
    ctx.exit(_wait(session, waiting, goal, patience, quiet=quiet))


def _patience(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    seconds = ages.seconds(timeout)
    if isinstance(seconds, Problem):
        raise Failure([seconds])
    return float(seconds)


def _wait(session: Session, waiting: dict[str, str], goal: str, patience: float | None, *, quiet: bool) -> int:
    begin, answered_at, pause, code = time.monotonic(), time.monotonic(), LOOK_FIRST_S, 0
    states: dict[str, Workload | None] = {}
    while waiting:
        try:
            states = _look(session, waiting)
            answered_at = time.monotonic()
        except Failure as failed:  # a wait may last for days, and a server is restarted in between
            if failed.problems[0].code != "server.away" or time.monotonic() - answered_at > AWAY_S:
                raise
        for name in [name for name in states if name in waiting]:
            verdict = verdict_of(states[name], goal)
            if verdict is not None:
                del waiting[name]
                code = code if verdict[0] else ERROR
                _say(name, verdict[1], is_good=verdict[0], quiet=quiet)
        if not waiting:
            break
        if patience is not None and time.monotonic() - begin >= patience:
            left = ", ".join(f"{name} ({_state(states[name]) if name in states else 'unknown'})" for name in waiting)
            raise _timed_out(left, goal, patience)
        time.sleep(pause if patience is None else min(pause, max(0.0, begin + patience - time.monotonic())))
        pause = min(pause * 1.3, LOOK_LATER_S)
    return code


def _look(session: Session, waiting: dict[str, str]) -> dict[str, Workload | None]:
    """The current state of each; None if it is gone. Reconnects, which renews the login."""
    states: dict[str, Workload | None] = {}
    with session.connected() as client:
        for name, workload in waiting.items():
            try:
                states[name] = client.workload(workload)
            except Refused as refusal:
                if refusal.status != 404:
                    raise
                states[name] = None
    return states


def _say(name: str, words: str, *, is_good: bool, quiet: bool) -> None:
    if not quiet:
        click.echo(f"{printable(name)}: {printable(words)}", err=not is_good)


def _timed_out(left: str, goal: str, patience: float) -> Failure:
    late = failure("wait.timed_out", f"timed out after {ages.exact(round(patience))}; not {goal} yet: {left}")
    late.exit_code = TIMED_OUT
    return late


def _state(found: Workload | None) -> str:
    return "deleted" if found is None else found.classic_status or found.phase


def verdict_of(found: Workload | None, goal: str) -> tuple[bool, str] | None:
    """Whether the job reached the goal or can no longer, with a text; None: not yet."""
    phase = "Deleted" if found is None else found.phase
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
