"""`runai why` and `runai history`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fairpool.api.calls import Refused
from fairpool.api.record import document
from fairpool.cli.runai import ages
from fairpool.cli.runai.details import event_text, pod_word
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.listing import PROSE, output_flag, screen_here, show
from fairpool.cli.runai.projects import quota_text
from fairpool.cli.runai.session import Session, job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import Column, Screen

if TYPE_CHECKING:
    from fairpool.api.client import Client
    from fairpool.api.organization import Project
    from fairpool.api.waiting import StartEstimate, WaitChange, WorkloadWait
    from fairpool.api.workloads import EventItem, PodItem, Workload

LAST_EVENTS = 5
BASES = {
    "time-limit": "the time limits of running jobs",
    "progress": "the progress that running jobs report",
    "minimum-runtime": "minimum runtimes",
    "handover": "pods that are stopping",
}
"""What an estimate follows from, in words."""
NEXT_STEP = {
    "Stopped": "Resume it with: runai resume {name} -p {project}",
    "Failed": "For details, see its output: runai logs {name} -p {project}",
    "Pending": "For its full history: runai history {name} -p {project}",
}


@command("why", "runai why hyper1")
@click.argument("name", shell_complete=job_names)
@click.pass_obj
def why(options: GlobalOptions, name: str) -> None:
    """Explain why a job is waiting, stopped or failed: the scheduler's reason, the project's quota, the last events."""
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        found = client.workload(job(client, project, name).id)
        pods = client.history(found.id)
        events = client.events(found.id)
        owner = client.project(project)
        wait = _wait(client, found)
    screen = screen_here()
    for line in sentences(found, owner, pods):
        screen.text(line)
    if wait is not None and wait.waits:
        _draw_wait(screen, wait)
    if events:
        screen.title("Last events:")
        _draw_events(screen, events[-LAST_EVENTS:])
    step = NEXT_STEP.get(found.phase)
    if step:
        screen.text()
        screen.text(step.format(name=found.name, project=project))
    screen.show()


def _wait(client: Client, found: Workload) -> WorkloadWait | None:
    """What would change it; None: it does not wait for the scheduler, or its cluster does not answer."""
    if found.wait is None:
        return None
    try:
        return client.wait(found.id)
    except Refused:
        return None


def _draw_wait(screen: Screen, wait: WorkloadWait) -> None:
    if wait.estimate != "not-computed":
        screen.text(start_text(wait.expected_start))
    if wait.changes:
        screen.title("What would change it:")
        for change in wait.changes:
            screen.text(change_text(change), indent="  ", further="    ")


def start_text(estimate: StartEstimate | None) -> str:
    """When a job is expected to start, and what that follows from."""
    if estimate is None:
        return "Expected start: not known, since no running job in its way has a time limit or reports progress."
    said = f"Expected start: {ages.ahead(estimate.expected_at)}"
    if estimate.latest_at and estimate.latest_at != estimate.expected_at:
        said += f", at the latest {ages.ahead(estimate.latest_at)}"
    elif estimate.latest_at:
        said += " or sooner"
    said += f"; from {' and '.join(BASES.get(each, each) for each in estimate.basis)}"
    if estimate.first is not None:
        said += f". It was {ages.ahead(estimate.first.expected_at)} {ages.age(estimate.first.made_at)} ago"
    return f"{said}."


def change_text(change: WaitChange) -> str:
    """One change, what it gains and who can make it."""
    who = " (administrator)" if change.by == "administrator" else ""
    if change.effect == "no-gain":
        return f"- {change.message}{who}"
    stops = f", and stops {change.victims} {'pod' if change.victims == 1 else 'pods'}" if change.victims else ""
    return f"- {change.message}{who}: it starts{stops}"


def sentences(found: Workload, owner: Project, pods: Sequence[PodItem] = ()) -> list[str]:
    """The explanation, from the verdict to the quota."""
    status, since = found.classic_status or found.phase, found.phase_since
    said = [f"Job {found.name} is {status}" + (f", for {ages.age(since)}." if since else ".")]
    if found.phase == "Stopped" and found.reason == "suspended":
        by = f" by {found.suspended_by}" if found.suspended_by else ""
        said.append(f"It was suspended{by}. It holds no GPU until it is resumed.")
    elif found.phase_message:
        # As it is: it may begin with the name of a node or project, and names are not to be changed.
        said.append(f"Reason: {found.phase_message.rstrip('.')}.")
    elif found.reason:
        said.append(f"Reason: {found.reason}.")
    elif found.phase == "Creating":
        said.append("The scheduler has not considered it yet.")
    if found.next_try_at:
        said.append(f"Next try at {ages.ahead(found.next_try_at)}.")
    said += _last_end(found, pods)
    asked = found.workload_requested_resources.gpu.request
    said.append(
        f"It requests {asked:g} {'GPU' if asked == 1 else 'GPUs'}. Project {owner.name} uses {owner.allocated_gpus:g}"
        f" of its quota of {quota_text(owner.total_resources.gpu_quota)}."
    )
    return said


def _last_end(found: Workload, pods: Sequence[PodItem]) -> list[str]:
    """How the last pod that failed ended, where the job waits or failed and its message does not say it."""
    ends = [pod for pod in pods if pod.phase == "ended" and pod.outcome in ("error", "lost")]
    if not ends or found.phase not in ("Pending", "Creating", "Initializing", "Failed"):
        return []
    last = max(ends, key=lambda pod: pod.since)
    words = last.detail or last.problem or last.cause or ""
    if not words or words in found.phase_message:
        return []
    return [f"Its last try, {last.name}, ended {ages.age(last.since)} ago: {words.rstrip('.')}."]


@command("history", "runai history hyper1 --events")
@click.argument("name", shell_complete=job_names)
@flag("--events", "with_events", is_flag=True, help="Also show all events.")
@output_flag
@click.pass_obj
def history(options: GlobalOptions, name: str, with_events: bool, output: str | None) -> None:
    """Show every try of a job's pods: its node, how long it ran, how it ended and why."""
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        workload = job(client, project, name).id
        pods = client.history(workload)
        events = client.events(workload)
    documents = {
        "pods": document(pods),
        "events": document(events),
    }
    show(output, pod_columns(), pods, documents=documents)
    if with_events and output in (None, "wide"):
        screen = screen_here()
        screen.lines.append("")
        _draw_events(screen, events)
        screen.show()


def pod_columns() -> list[Column[PodItem]]:
    """One pod a row."""
    return [
        Column("POD", lambda pod: pod.name),
        Column("STATUS", pod_word),
        Column("NODE", lambda pod: pod.node or "-"),
        Column("CREATED", lambda pod: ages.local(pod.created_at), spare=2),
        Column("RAN", _ran),
        Column("EXIT", lambda pod: "-" if pod.exit_code is None else str(pod.exit_code), spare=1),
        Column("DEVICES", lambda pod: ",".join(map(str, pod.devices)) or "-", wide=True),
        Column("ID", lambda pod: pod.id, wide=True),
        Column("WHY", lambda pod: pod.detail or pod.cause or pod.problem or "-", least=PROSE),
    ]


def _ran(pod: PodItem) -> str:
    if pod.started_at is None:
        return "-"
    end = ages.moment(pod.since) if pod.phase == "ended" else ages.now()
    return ages.clock((end - ages.moment(pod.started_at)).total_seconds())


def _draw_events(screen: Screen, events: list[EventItem]) -> None:
    columns: list[Column[EventItem]] = [
        Column("AT", lambda event: ages.local(event.at)),
        Column("POD", lambda event: event.pod_name or event.pod or "-"),
        Column("EVENT", event_text, least=PROSE),
    ]
    screen.draw(columns, events)
