"""`runai logs`: what a job wrote, past or as it comes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fairpool.cli.runai import ages
from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.failure import Failure, failure, not_yet
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.runai.terminal_text import Harmless

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.workloads import PodItem, WorkloadItem

LOOK_AGAIN_S = 1.0
PODS_NAMED = 20
OVER = frozenset({"Completed", "Failed", "Stopped", "Deleted"})


@click.command("logs", cls=Leaf, short_help="What a job wrote.", example="runai logs hyper1 --tail 100 -f")
@click.argument("name", shell_complete=job_names)
@flag("-f", "--follow", is_flag=True, help="Go on as it comes, until the pod ends.")
@flag("--pod", metavar="POD", help="Pod by number or name; default: the one that runs, or that failed.")
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
    """Show the output of a job: of the pod that runs, or that failed last, or that you name."""
    asked = {"--since": since, "--since-time": since_time, "--timestamps": timestamps}
    refused = [not_yet(flag_name, "use --tail") for flag_name, value in asked.items() if value]
    if refused:
        raise Failure(refused)
    from fairpool.cli.runai.session import Session, job

    session = Session(here)
    project = session.project()
    with session.connected() as client:
        found = job(client, project, name)
        if follow:
            found = _wait_for_a_pod(here, client, found, pod or instance)
        lines = None if tail < 0 else tail
        which = pod or instance or _choice(here, client, found)
        written = write(client.logs(found.id, pod=which, tail=lines, follow=follow), raw=raw)
        if not written and lines != 0:
            for line in silence(client.history(found.id), which):
                here.notice(line)


def _choice(here: Here, client: Client, found: WorkloadItem) -> str:
    """Whose log is shown where no pod was named; where others could be meant, the reader is told."""
    from fairpool.api.workloads import life_to_read

    lives = client.history(found.id)
    chosen = life_to_read(lives)
    if chosen is None or not chosen.has_log:
        raise failure("job.no_log", *no_output(found, lives))
    for line in notices(found, lives, chosen):
        here.notice(line)
    return chosen.id


def notices(found: WorkloadItem, lives: Sequence[PodItem], chosen: PodItem) -> list[str]:
    """What a reader should know who named no pod: which one this is, and which there are."""
    said = []
    pods = [life for life in lives if life.current]
    if len(pods) > 1:
        others = [str(life.index) for life in pods if life.index != chosen.index]
        listed = f"{', '.join(others[:PODS_NAMED])}{', ...' if len(others) > PODS_NAMED else ''}"
        failed = ", which failed" if chosen.outcome == "error" else ""
        said.append(f"{found.name} has {len(pods)} pods; showing pod {chosen.index}{failed}; others: --pod {listed}")
    newest = next(life for life in pods if life.index == chosen.index)
    if newest is not chosen:
        how = f" ({chosen.detail})" if chosen.detail else ""
        when = f" It starts at {ages.ahead(found.next_try_at)}." if found.next_try_at else ""
        said.append(f"Showing {chosen.name}, which ended{how}; {newest.name} has not started yet.{when}")
    return said


def silence(lives: Sequence[PodItem], which: str) -> list[str]:
    """What is said of a pod without any output: whether it may still come, and where an earlier try's is."""
    from fairpool.api.workloads import life_called

    life = life_called(lives, which)
    if life is None:
        return []
    if life.phase != "ended":
        return [f"{life.name} has written nothing yet."]
    code = "" if life.exit_code is None else f" with exit code {life.exit_code}"
    said = [f"{life.name} ended{code} and wrote nothing."]
    before = [each for each in lives if each.index == life.index and each.incarnation < life.incarnation]
    earlier = [each.name for each in before if each.has_log]
    return [*said, *([f"Output of the try before: --pod {earlier[-1]}"] if earlier else [])]


def no_output(found: WorkloadItem, lives: Sequence[PodItem]) -> tuple[str, str]:
    """Why a job has no output, and what to do."""
    name, status = found.name, found.classic_status or found.phase.value
    ended = [life for life in lives if life.phase == "ended" and life.outcome == "error"]
    why = found.phase_message
    if not why and ended:
        last = max(ended, key=lambda life: life.since)
        why = last.detail or last.trouble or ""
    trouble = next((life.trouble for life in lives if life.current and life.trouble), "")
    because = f": {why or trouble}" if why or trouble else ""
    if found.phase.value in OVER:
        return f"Job {name} has no output: it is {status} and never started{because}", f"see: runai why {name}"
    if found.next_try_at:
        after = f"wait with runai logs -f {name}, or see: runai why {name}"
        return (
            f"Job {name} has no output yet: it is {status}{because}; next try at {ages.ahead(found.next_try_at)}",
            after,
        )
    after = f"wait with runai logs -f {name}, or see why: runai why {name}"
    return f"Job {name} has not started yet, so it has no output: it is {status}{because}", after


def write(chunks: Iterator[bytes], *, raw: bool) -> int:
    """To a pipe as it is; to a terminal without what could harm it, unless that was asked for. Says how many bytes."""
    out = sys.stdout.buffer
    count = 0
    if raw or not sys.stdout.isatty():
        for chunk in chunks:
            count += len(chunk)
            out.write(chunk)
            out.flush()
        return count
    harmless = Harmless()
    for chunk in chunks:
        count += len(chunk)
        out.write(harmless.feed(chunk).encode())
        out.flush()
    out.write(harmless.finish().encode() + b"\x1b[0m")  # a colour that was left on stays in the log
    out.flush()
    return count


def _wait_for_a_pod(here: Here, client: Client, found: WorkloadItem, pod: str | None) -> WorkloadItem:
    """Who follows a job that is still waiting wants to see its first line, and not that there is none."""
    told = ""
    while pod is None and not any(life.started_at or life.phase == "ended" for life in client.pods(found.id)):
        found = client.workload(found.id)
        if found.phase.value in OVER or found.desired_phase.value != "Running":
            return found
        if told != found.classic_status:
            because = f" ({found.phase_message})" if found.phase_message else ""
            here.notice(f"Job {found.name} is {found.classic_status}{because}; waiting for its output ...")
            told = found.classic_status
        time.sleep(LOOK_AGAIN_S)
    return found
