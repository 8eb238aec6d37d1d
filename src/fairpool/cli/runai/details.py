"""Everything about one job: `runai describe job`, and its older spelling `runai get`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli.runai import ages
from fairpool.cli.runai.command_tree import Here, Leaf, flag
from fairpool.cli.runai.jobs import gpus, gpus_asked, node, running_seconds, type_word
from fairpool.cli.runai.listing import FORMATS, Column, draw, facts, screen_here, show_document
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import Screen, printable

if TYPE_CHECKING:
    from fairpool.api.workloads import EventItem, PodItem, Workload, WorkloadItem

EVENTS_SHOWN = 50
POD_WORDS = {
    "waiting": "Pending",
    "promised": "Pending",
    "bound": "ContainerCreating",
    "running": "Running",
    "releasing": "Terminating",
}
OUTCOME_WORDS = {"ok": "Succeeded", "error": "Failed", "lost": "Lost", "evicted": "Evicted", "stopped": "Stopped"}
WARNINGS = frozenset({"error", "lost", "evicted"})
"""Outcomes that nobody asked for."""


def _describe(here: Here, name: str, output: str | None) -> None:
    from fairpool.cli.runai.session import Session, job

    session = Session(here)
    project = session.project()
    with session.connected() as client:
        found = client.workload(job(client, project, name).id)
        lives = client.history(found.id)
        events = client.events(found.id)
    if output == "name":
        click.echo(printable(found.name))
    elif output in ("json", "yaml"):
        show_document(output, document(found, lives))
    else:
        screen = screen_here()
        facts(screen, summary(found, lives))
        draw_mounts(screen, mounts(found.spec))
        _draw_pods(screen, found, [life for life in lives if life.current])
        _draw_events(screen, events[-EVENTS_SHOWN:])
        screen.show()


_output = flag("-o", "--output", type=click.Choice(FORMATS), help="Output format: json, yaml, wide or name.")


@click.command(
    "job", cls=Leaf, short_help="Show a job with its pods, mounts and events.", example="runai describe job hyper1"
)
@click.argument("name", shell_complete=job_names)
@_output
@click.pass_obj
def describe_job(here: Here, name: str, output: str | None) -> None:
    """Show a job with its request, pods, mounts and events."""
    _describe(here, name, output)


@click.command("get", cls=Leaf, short_help="Old name of describe job.", example="runai get hyper1")
@click.argument("name", shell_complete=job_names)
@_output
@click.pass_obj
def get(here: Here, name: str, output: str | None) -> None:
    """Old name of `runai describe job`."""
    _describe(here, name, output)


# --- what is shown -----------------------------------------------------------------------------------------------


def summary(found: Workload, lives: Sequence[PodItem]) -> list[tuple[str, str]]:
    """The facts of a job."""
    memory = found.allocated_resources.gpu_memory_mib
    ended = {life.index: life.outcome for life in lives if life.current and life.phase == "ended"}
    pairs = [
        ("NAME", found.name),
        ("NAMESPACE", f"runai-{found.project_name}"),
        ("TYPE", type_word(found)),
        ("STATUS", found.classic_status or found.phase.value),
        ("TRAINING DURATION", ages.clock(running_seconds(found))),
        ("GPUS", gpus_asked(found, max(found.requested_pods, 1))),
        ("TOTAL REQUESTED GPUS", gpus_asked(found)),
        ("ALLOCATED GPUS", gpus(found).split(" ", maxsplit=1)[0]),
        ("ALLOCATED GPUS MEMORY", "-" if memory is None else f"{memory} MiB"),
        *tries(found),
        ("RUNNING PODS", str(found.running_pods)),
        ("PENDING PODS", str(found.pending_pods)),
        ("PARALLELISM", str(found.spec.get("parallelism", 1))),
        ("COMPLETIONS", str(found.spec.get("completions", 1))),
        ("SUCCEEDED PODS", str(sum(outcome == "ok" for outcome in ended.values()))),
        ("FAILED PODS", str(sum(outcome == "error" for outcome in ended.values()))),
        ("IS DISTRIBUTED WORKLOAD", str(found.type.value == "Distributed").lower()),
        ("CREATED BY CLI", str(found.source.value == "CLI").lower()),
        ("SERVICE URL(S)", ", ".join(found.urls)),
        ("COMMAND LINE", found.command_line),
        ("USER", found.submitted_by),
        ("IMAGE", ", ".join(found.images)),
        ("NODE", node(found)),
        ("PRIORITY", f"{found.priority_class_name or '-'} ({found.priority})"),
        ("CREATED", ages.local(found.created_at)),
        *asked_of_time(found.spec),
    ]
    return [*pairs, *reported(lives), *([("MESSAGE", found.phase_message)] if found.phase_message else [])]


def tries(found: WorkloadItem) -> list[tuple[str, str]]:
    """How often it failed, and when it is tried again; nothing where nothing failed."""
    if not found.failed_tries and found.next_try_at is None:
        return []
    left = "" if found.retries_left is None else f" (retries left: {found.retries_left})"
    rows = [("FAILED TRIES", f"{found.failed_tries}{left}")]
    return [*rows, *([("NEXT TRY", ages.ahead(found.next_try_at))] if found.next_try_at else [])]


def asked_of_time(spec: dict[str, Any]) -> list[tuple[str, str]]:
    """When it may start and how long it may run, where it says so."""
    limit, after = spec.get("deadlineSeconds"), spec.get("after")
    return [
        *([("TIME LIMIT", ages.exact(limit))] if limit else []),
        *([("AFTER", ", ".join(after))] if after else []),
    ]


def reported(lives: Sequence[PodItem]) -> list[tuple[str, str]]:
    """What the job says about itself, if it says anything: of the pod whose log is meant by the job's log."""
    from fairpool.api.workloads import pod_to_read

    life = pod_to_read(lives)
    if life is None:
        return []
    metrics = [f"{name}={value:g}" for name, value in sorted(life.metrics.items())]
    parameters = [f"{name}={value}" for name, value in sorted(life.parameters.items())]
    rows = [
        ("PROGRESS", "" if life.progress_percent is None else f"{life.progress_percent:g}%"),
        ("METRICS", ", ".join(metrics)),
        ("PARAMETERS", ", ".join(parameters)),
    ]
    return [(name, text) for name, text in rows if text]


def document(found: Workload, lives: Sequence[PodItem]) -> dict[str, Any]:
    """A job for programs: the keys that older scripts know, then everything else."""
    current = [life for life in lives if life.current]
    return {
        "name": found.name,
        "namespace": f"runai-{found.project_name}",
        "duration": ages.clock(running_seconds(found)),
        "status": found.classic_status or found.phase.value,
        "trainer": type_word(found),
        "chiefName": current[0].name if current else "",
        "instances": [
            {
                "name": life.name,
                "status": pod_word(life),
                "age": ages.age(life.born_at),
                "node": life.node or "N/A",
                "chief": life is current[0],
                **({} if life.progress_percent is None else {"progress": life.progress_percent}),
            }
            for life in current
        ],
        "priority": found.priority_class_name or str(found.priority),
        "commandLine": found.command_line,
        "workload": found.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def pod_word(life: PodItem) -> str:
    """How a pod stands, in the classic words."""
    if life.phase == "ended":
        return OUTCOME_WORDS.get(life.outcome or "", "Unknown")
    if life.trouble:
        return life.trouble.partition(":")[0]
    return POD_WORDS.get(life.phase, life.phase)


def mounts(spec: dict[str, Any]) -> list[tuple[str, str, str]]:
    """From, to, and how: what a job sees of other places."""
    storage = spec.get("storage") or {}
    found = [(each["path"], each["mountPath"], _mode(each)) for each in storage.get("hostPath", [])]
    found += [(f"pvc {each.get('claimName') or '(new)'}", each["path"], _mode(each)) for each in storage.get("pvc", [])]
    found += [(f"{each['server']}:{each['path']}", each["mountPath"], _mode(each)) for each in storage.get("nfs", [])]
    found += [(f"git {each['repository']}", each.get("path", "/code"), "rw") for each in storage.get("git", [])]
    found += [(f"s3 {each['bucket']}", each["path"], "rw") for each in storage.get("s3", [])]
    found += [(f"config map {each['name']}", each["mountPath"], "ro") for each in storage.get("configMapVolume", [])]
    return found


def _mode(mount: dict[str, Any]) -> str:
    return "ro" if mount.get("readOnly") else "rw"


def draw_mounts(screen: Screen, found: list[tuple[str, str, str]]) -> None:
    """What it sees of other places, if anything."""
    if not found:
        return
    screen.title("Mounts:")
    headings = ("SOURCE", "PATH", "MODE")
    columns = [Column[tuple[str, str, str]](name, _cell(index)) for index, name in enumerate(headings)]
    draw(screen, columns, found)


def _cell(index: int) -> Any:
    return lambda row: row[index]


def _draw_pods(screen: Screen, found: Workload, lives: list[PodItem]) -> None:
    at = ages.now()
    screen.title("Pods:")
    columns: list[Column[PodItem]] = [
        Column("POD", lambda life: life.name),
        Column("STATUS", pod_word),
        Column("TYPE", lambda _: type_word(found)),
        Column("AGE", lambda life: ages.age(life.born_at, at)),
        Column("NODE", lambda life: life.node or "N/A"),
    ]
    if lives:
        draw(screen, columns, lives)
    else:
        screen.text("No pods yet")


def _draw_events(screen: Screen, events: Sequence[EventItem]) -> None:
    at = ages.now()
    screen.title("Events:")
    columns: list[Column[EventItem]] = [
        Column("SOURCE", lambda event: f"pod/{event.pod_name or event.pod}" if event.pod else "job"),
        Column("TYPE", lambda event: "Warning" if event.outcome in WARNINGS else "Normal"),
        Column("AGE", lambda event: ages.age(event.at, at)),
        Column("MESSAGE", event_text, prose=True),
    ]
    if events:
        draw(screen, columns, events)
    else:
        screen.text("No events for resources")


def event_text(event: EventItem) -> str:
    """`[Bound] on dgx1-1: ...`."""
    reason = "".join(part.capitalize() for part in event.kind.replace("_", "-").split("-"))
    place = f"on {event.node}" if event.node else ""
    words = ": ".join(part for part in (place, event.detail or event.cause) if part)
    return f"[{reason}] {words}".rstrip()
