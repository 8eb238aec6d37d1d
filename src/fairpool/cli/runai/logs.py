"""`runai logs`: what a job wrote, past or as it comes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.failure import Failure, failure, not_yet
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.runai.terminal_text import Harmless

if TYPE_CHECKING:
    from fairpool.api.client import Client

LOOK_AGAIN_S = 1.0
OVER = frozenset({"Completed", "Failed", "Stopped", "Deleted"})


@click.command("logs", cls=Leaf, short_help="What a job wrote.", example="runai logs hyper1 --tail 100 -f")
@click.argument("name", shell_complete=job_names)
@flag("-f", "--follow", is_flag=True, help="Go on as it comes, until the pod ends.")
@flag("--pod", metavar="POD", help="Of this pod; else of the first one.")
@flag("-i", "--instance", metavar="POD", hidden=True)
@flag("-t", "--tail", type=int, default=-1, metavar="LINES", help="Only the last lines; -1 for all.")
@flag("--since", metavar="TIME", hidden=True)
@flag("--since-time", metavar="MOMENT", hidden=True)
@flag("--timestamps", is_flag=True, hidden=True)
@flag("--raw", is_flag=True, help="Pass every byte on to the terminal, also what can harm it.")
@click.pass_obj
def logs(
    here: Here,
    name: str,
    follow: bool,
    pod: str | None,
    instance: str | None,
    tail: int,
    since: str | None,
    since_time: str | None,
    timestamps: bool,
    raw: bool,
) -> None:
    """What the first pod of a job wrote, or one that you name."""
    asked = {"--since": since, "--since-time": since_time, "--timestamps": timestamps}
    refused = [not_yet(flag_name, "use --tail") for flag_name, value in asked.items() if value]
    if refused:
        raise Failure(refused)
    from fairpool.cli.runai.session import Session, job

    session = Session(here)
    project = session.project()
    with session.connected() as client:
        workload = job(client, project, name).id
        if follow:
            _wait_for_a_pod(here, client, workload, name, pod or instance)
        lines = None if tail < 0 else tail
        which = pod or instance or _choice(here, client, workload, name)
        write(client.logs(workload, pod=which, tail=lines, follow=follow), raw=raw)


def _choice(here: Here, client: Client, workload: str, name: str) -> str | None:
    """Whose log is shown where none was named; who sees an earlier life's is told so."""
    from fairpool.api.workloads import life_to_read

    lives = client.history(workload)
    chosen = life_to_read(lives)
    if chosen is None or not chosen.has_log:
        found = client.workload(workload)
        why = f" ({found.phase_message})" if found.phase_message else ""
        what = f"Job {name} has written nothing yet: it is {found.classic_status or found.phase.value}{why}"
        raise failure("job.no_log", what, f"ask again when it runs, or wait with runai logs -f {name}")
    newest = next(life for life in lives if life.current and life.index == chosen.index)
    if newest is not chosen:
        here.notice(f"The log of {chosen.name}, which has ended; {newest.name} has not started yet.")
    return chosen.id


def write(chunks: Iterator[bytes], *, raw: bool) -> None:
    """To a pipe as it is; to a terminal without what could harm it, unless that was asked for."""
    out = sys.stdout.buffer
    if raw or not sys.stdout.isatty():
        for chunk in chunks:
            out.write(chunk)
            out.flush()
        return
    harmless = Harmless()
    for chunk in chunks:
        out.write(harmless.feed(chunk).encode())
        out.flush()
    out.write(harmless.finish().encode() + b"\x1b[0m")  # a colour that was left on stays in the log
    out.flush()


def _wait_for_a_pod(here: Here, client: Client, workload: str, name: str, pod: str | None) -> None:
    """Who follows a job that is still waiting wants to see its first line, and not that there is none."""
    told = False
    while pod is None and not any(life.started_at or life.phase == "ended" for life in client.pods(workload)):
        found = client.workload(workload)
        if found.phase.value in OVER or found.desired_phase.value != "Running":
            return
        if not told:
            why = f" ({found.phase_message})" if found.phase_message else ""
            here.notice(f"Job {name} is {found.classic_status}{why}; waiting for its first line ...")
            told = True
        time.sleep(LOOK_AGAIN_S)
