"""`runai describe job`, and its older spelling `runai get`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fairpool.api.limits import GPU_FIELDS
from fairpool.api.pod_choice import pod_to_read
from fairpool.api.record import document
from fairpool.cli.runai import ages, figures
from fairpool.cli.runai.field_flags import flag_of
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.jobs import gpus_asked, gpus_cell, node_cell, running_seconds, type_word
from fairpool.cli.runai.listing import PROSE, one_output_flag, screen_here, show_document
from fairpool.cli.runai.session import Session, job
from fairpool.cli.runai.suggestions import job_names
from fairpool.cli.screen import Column, Screen, printable

if TYPE_CHECKING:
    from fairpool.api.measured import MeasuredPod, MeasuredShare, MeasuredWorkload
    from fairpool.api.workloads import EventItem, PodItem, Workload, WorkloadItem

EVENTS_SHOWN = 50
SECTIONS = {
    "general": "Show the facts of the job.",
    "compute": "Show what the job requests and holds.",
    "containers": "Show the image, the program and the mounts.",
    "networks": "Show the ports and addresses.",
    "pods": "Show the pods.",
    "events": "Show the events.",
}
POD_WORDS = {
    "waiting": "Pending",
    "promised": "Pending",
    "bound": "ContainerCreating",
    "running": "Running",
    "releasing": "Terminating",
}
OUTCOME_WORDS = {"ok": "Succeeded", "error": "Failed", "lost": "Lost", "evicted": "Evicted", "stopped": "Stopped"}
WARNINGS = frozenset({"error", "lost", "evicted"})
"""Outcomes that are shown as warnings."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Which parts of a description are shown, and how long their tables may be."""

    sections: tuple[str, ...] = ()
    """None chosen: the facts, mounts, origins of values, pods and events."""
    pods: int | None = None
    events: int = EVENTS_SHOWN

    def has(self, section: str) -> bool:
        return section in (self.sections or ("general", "mounts", "origins", "pods", "events"))


def _describe(options: GlobalOptions, name: str, output: str | None, shown: Shown) -> None:
    session = Session(options)
    project = session.project()
    with session.connected() as client:
        found = client.workload(job(client, project, name, options.kind).id)
        pods = client.history(found.id)
        events = client.events(found.id)
        measured = client.measured(found.id)
    if output == "name":
        click.echo(printable(found.name))
    elif output in ("json", "yaml"):
        show_document(output, classic_document(found, pods, measured))
    else:
        screen = screen_here()
        _draw_facts(screen, found, pods, measured, shown)
        if shown.has("mounts") or shown.has("containers"):
            draw_mounts(screen, mounts(found.spec))
        if shown.has("origins"):
            _draw_origins(screen, found.value_origins or {})
        if shown.has("pods"):
            _draw_pods(screen, found, [pod for pod in pods if pod.current], measured, shown.pods)
            _draw_devices(screen, measured)
        if shown.has("events"):
            _draw_events(screen, events[-shown.events :])
        screen.show()


def _draw_facts(
    screen: Screen, found: Workload, pods: Sequence[PodItem], measured: MeasuredWorkload, shown: Shown
) -> None:
    facts = {
        "general": [*summary(found, pods, measured), *in_use(found, measured)],
        "compute": [*compute(found, measured), *in_use(found, measured)],
        "containers": container(found),
        "networks": network(found),
    }
    for section, rows in facts.items():
        if shown.has(section):
            screen.facts(rows, aligned=False)


def _sections(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, text in reversed(SECTIONS.items()):
        command = flag(f"--{name}", is_flag=True, section="Sections", help=text)(command)
    return command


@command("job", "runai describe job hyper1")
@click.argument("name", shell_complete=job_names)
@one_output_flag
@_sections
@flag("--pod-limit", type=click.IntRange(1), section="Sections", metavar="N", help="Show at most N pods.")
@flag(
    "--event-limit",
    type=click.IntRange(1),
    default=EVENTS_SHOWN,
    section="Sections",
    metavar="N",
    help=f"Show the last N events ({EVENTS_SHOWN}).",
)
@click.pass_obj
def describe_job(
    options: GlobalOptions, /, name: str, output: str | None, pod_limit: int | None, event_limit: int, **sections: bool
) -> None:
    """Show a job with its request, pods, mounts and events. With flags of sections, only those."""
    chosen = tuple(each for each in SECTIONS if sections[each])
    _describe(options, name, output, Shown(chosen, pod_limit, event_limit))


@command("get", "runai get hyper1")
@click.argument("name", shell_complete=job_names)
@one_output_flag
@click.pass_obj
def get(options: GlobalOptions, name: str, output: str | None) -> None:
    """Old name of `runai describe job`."""
    _describe(options, name, output, Shown())


# --- what is shown -----------------------------------------------------------------------------------------------


def summary(found: Workload, pods: Sequence[PodItem], measured: MeasuredWorkload) -> list[tuple[str, str]]:
    """The facts of a job."""
    ended = {pod.index: pod.outcome for pod in pods if pod.current and pod.phase == "ended"}
    pairs = [
        ("NAME", found.name),
        ("NAMESPACE", f"runai-{found.project_name}"),
        ("TYPE", type_word(found)),
        ("STATUS", found.classic_status or found.phase),
        ("TRAINING DURATION", ages.clock(running_seconds(found))),
        ("GPUS", gpus_asked(found, _pods_with_gpus(found))),
        ("TOTAL REQUESTED GPUS", gpus_asked(found)),
        ("ALLOCATED GPUS", gpus_cell(found).split(" ", maxsplit=1)[0]),
        ("ALLOCATED GPUS MEMORY", gpu_memory_allocated(measured)),
        *tries(found),
        ("RUNNING PODS", str(found.running_pods)),
        ("PENDING PODS", str(found.pending_pods)),
        ("PARALLELISM", str(found.spec.get("parallelism", 1))),
        ("COMPLETIONS", str(found.spec.get("completions", 1))),
        ("SUCCEEDED PODS", str(sum(outcome == "ok" for outcome in ended.values()))),
        ("FAILED PODS", str(sum(outcome == "error" for outcome in ended.values()))),
        ("IS DISTRIBUTED WORKLOAD", str(found.type == "Distributed").lower()),
        ("CREATED BY CLI", str(found.source == "CLI").lower()),
        ("SERVICE URL(S)", ", ".join(found.urls)),
        ("COMMAND LINE", found.command_line),
        *_changed(found),
        ("USER", found.submitted_by),
        ("IMAGE", ", ".join(found.images)),
        ("NODE", node_cell(found)),
        ("PRIORITY", f"{found.priority_class_name or '-'} ({found.priority})"),
        ("CREATED", ages.local(found.created_at)),
        *asked_of_time(found.spec),
        *asked_of_place(found.spec),
    ]
    return [*pairs, *reported(pods), *([("MESSAGE", found.phase_message)] if found.phase_message else [])]


def _changed(found: Workload) -> list[tuple[str, str]]:
    """What the command line does not say any more: the flags, or the fields that have several."""
    names = [flag_of(f"spec.{field}") or field for field in found.changed_fields or ()]
    return [("CHANGED SINCE", f"{', '.join(names)} (by updates; -o yaml shows all values)")] if names else []


def _pods_with_gpus(found: Workload) -> int:
    """An MPI launcher is without, unless it was given some."""
    launcher = (found.spec.get("masterSpec") or {}).get("compute") or {}
    is_without = found.distributed_framework == "MPI" and not any(name in launcher for name in GPU_FIELDS)
    return max(found.requested_pods.number - is_without, 1)


def compute(found: Workload, measured: MeasuredWorkload) -> list[tuple[str, str]]:
    """What it requests and holds."""
    asked = found.workload_requested_resources
    return [
        ("PODS", str(found.requested_pods.number)),
        ("GPUS", gpus_asked(found, _pods_with_gpus(found))),
        ("TOTAL REQUESTED GPUS", gpus_asked(found)),
        ("ALLOCATED GPUS", gpus_cell(found).split(" ", maxsplit=1)[0]),
        ("ALLOCATED GPUS MEMORY", gpu_memory_allocated(measured)),
        ("TOTAL REQUESTED CPUS", f"{asked.cpu.request:g}"),
        ("TOTAL REQUESTED MEMORY", f"{asked.memory_bytes / (1 << 20):.0f} MiB"),
    ]


def gpu_memory_allocated(measured: MeasuredWorkload) -> str:
    """Its parts of the memory of its GPUs, in the unit of `nvidia-smi`."""
    held = None if measured.total is None else measured.total.gpu_memory_allocated_bytes
    return figures.UNKNOWN if held is None else f"{held / figures.MIB:.0f} MiB"


def in_use(found: Workload, measured: MeasuredWorkload) -> list[tuple[str, str]]:
    """What was last measured of it; of one that holds nothing, nothing."""
    total = measured.total
    if total is None and not found.running_pods:
        return []
    mark = " (simulated)" if total is not None and total.simulated else ""
    rows = [
        ("GPU UTILIZATION", figures.percent(figures.utilization(total)), mark),
        ("GPU MEMORY USED", figures.size(figures.gpu_memory(total)), mark),
        ("CPU USED", figures.cores(figures.cpu(total)), ""),
        ("MEMORY USED", figures.size(figures.memory(total)), ""),
        ("MEASURED", figures.UNKNOWN if total is None else ages.local(total.at), ""),
    ]
    return [(name, text if text == figures.UNKNOWN else f"{text}{more}") for name, text, more in rows]


def container(found: Workload) -> list[tuple[str, str]]:
    """Its image and program; variables without their values, which may be secret."""
    spec = found.spec
    names = [str(each.get("name", "")) for each in spec.get("environmentVariables") or []]
    return [
        ("IMAGE", ", ".join(found.images)),
        ("COMMAND", shlex.join(map(str, spec.get("command") or []))),
        ("ARGUMENTS", shlex.join(map(str, spec.get("args") or []))),
        ("WORKING DIRECTORY", str(spec.get("workingDir") or "-")),
        ("ENVIRONMENT", ", ".join(names) or "-"),
    ]


def network(found: Workload) -> list[tuple[str, str]]:
    """Its ports, and where they can be reached."""
    ports = [each for key in ("ports", "exposedUrls") for each in found.spec.get(key) or []]
    serving = found.spec.get("servingPort")
    numbers = [str(each.get("container")) for each in [*ports, *([serving] if serving else [])]]
    return [("PORTS", ", ".join(numbers) or "-"), ("SERVICE URL(S)", ", ".join(found.urls) or "-")]


def tries(found: WorkloadItem) -> list[tuple[str, str]]:
    """How often it failed, and when it is tried again; empty if it never failed."""
    if not found.failed_tries and found.next_try_at is None:
        return []
    left = "" if found.retries_left is None else f" (retries left: {found.retries_left})"
    rows = [("FAILED TRIES", f"{found.failed_tries}{left}")]
    return [*rows, *([("NEXT TRY", ages.ahead(found.next_try_at))] if found.next_try_at else [])]


def asked_of_time(spec: dict[str, Any]) -> list[tuple[str, str]]:
    """When it may start and how long it may run, if that is limited."""
    limit, after = spec.get("deadlineSeconds"), spec.get("after")
    return [
        *([("TIME LIMIT", ages.exact(limit))] if limit else []),
        *([("AFTER", ", ".join(after))] if after else []),
    ]


def asked_of_place(spec: dict[str, Any]) -> list[tuple[str, str]]:
    """Where its pods may or should run, if it was said."""
    topology = spec.get("topology") or {}
    levels = [f"{topology[name]} ({name})" for name in ("required", "preferred") if topology.get(name)]
    if topology.get("name"):
        levels = [f"{topology['name']}: {', '.join(levels)}"]
    preferred = [_affinity_text(each["preference"]) for each in spec.get("nodeAffinityPreferred") or []]
    rows = [
        ("NODE TYPE", str(spec.get("nodeType") or "")),
        ("TOPOLOGY", ", ".join(levels)),
        ("PREFERRED NODES", "; ".join(preferred)),
    ]
    return [(name, text) for name, text in rows if text]


def _affinity_text(term: dict[str, Any]) -> str:
    return ", ".join(
        f"{each['key']} {each['operator']} {', '.join(each.get('values') or ())}".strip().replace(" In ", "=")
        for each in term["matchExpressions"]
    )


def reported(pods: Sequence[PodItem]) -> list[tuple[str, str]]:
    """Progress, metrics and parameters that the job reports, of the pod that `runai logs` would show."""
    pod = pod_to_read(pods)
    if pod is None:
        return []
    metrics = [f"{name}={value:g}" for name, value in sorted(pod.metrics.items())]
    parameters = [f"{name}={value}" for name, value in sorted(pod.parameters.items())]
    rows = [
        ("PROGRESS", "" if pod.progress_percent is None else f"{pod.progress_percent:g}%"),
        ("METRICS", ", ".join(metrics)),
        ("PARAMETERS", ", ".join(parameters)),
    ]
    return [(name, text) for name, text in rows if text]


def classic_document(found: Workload, pods: Sequence[PodItem], measured: MeasuredWorkload) -> dict[str, Any]:
    """A job as JSON: the keys of the older command, then the workload, and what was last measured of it."""
    current = [pod for pod in pods if pod.current]
    return {
        "name": found.name,
        "namespace": f"runai-{found.project_name}",
        "duration": ages.clock(running_seconds(found)),
        "status": found.classic_status or found.phase,
        "trainer": type_word(found),
        "chiefName": current[0].name if current else "",
        "instances": [
            {
                "name": pod.name,
                "status": pod_word(pod),
                "age": ages.age(pod.created_at),
                "node": pod.node or "N/A",
                "chief": pod is current[0],
                **({} if pod.progress_percent is None else {"progress": pod.progress_percent}),
            }
            for pod in current
        ],
        "priority": found.priority_class_name or str(found.priority),
        "commandLine": found.command_line,
        "workload": document(found),
        "measured": document(measured),
    }


def pod_word(pod: PodItem) -> str:
    """The status of a pod, as the older command names it."""
    if pod.phase == "ended":
        return OUTCOME_WORDS.get(pod.outcome or "", "Unknown")
    if pod.problem:
        return pod.problem.partition(":")[0]
    return POD_WORDS.get(pod.phase, pod.phase)


def mounts(spec: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The mounts of a job: source, path and mode."""
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
    """The mounts, if there are any."""
    if not found:
        return
    screen.title("Mounts:")
    headings = ("SOURCE", "PATH", "MODE")
    columns = [Column[tuple[str, str, str]](name, _cell(index)) for index, name in enumerate(headings)]
    screen.draw(columns, found)


def _draw_origins(screen: Screen, origins: dict[str, str]) -> None:
    """Values that templates and assets gave, if there are any."""
    if not origins:
        return
    screen.title("Values from templates and assets:")
    columns = [Column[tuple[str, str]](name, _cell(index)) for index, name in enumerate(("FIELD", "FROM"))]
    screen.draw(columns, sorted(origins.items()))


def _cell(index: int) -> Any:
    return lambda row: row[index]


def _draw_pods(
    screen: Screen, found: Workload, pods: list[PodItem], measured: MeasuredWorkload, most: int | None = None
) -> None:
    at = ages.now()
    known = {each.id: each for each in measured.pods}
    left_out = max(0, len(pods) - most) if most else 0
    screen.title("Pods:")
    columns: list[Column[PodItem]] = [
        Column("POD", lambda pod: pod.name),
        Column("STATUS", pod_word),
        Column("TYPE", lambda _: type_word(found)),
        Column("AGE", lambda pod: ages.age(pod.created_at, at)),
        Column("NODE", lambda pod: pod.node or "N/A"),
        *(_pod_figures(known) if known else []),
    ]
    if pods:
        screen.draw(columns, pods[: len(pods) - left_out])
    else:
        screen.text("No pods yet")
    if left_out:
        screen.text(f"... and {left_out} more")


def _pod_figures(known: Mapping[str, MeasuredPod]) -> list[Column[PodItem]]:
    """What was last measured of pods, by id."""
    return [
        Column("GPU UTIL", lambda pod: figures.brief_percent(figures.utilization(known.get(pod.id))), spare=1),
        Column("GPU MEMORY", lambda pod: figures.size(figures.gpu_memory(known.get(pod.id))), spare=5),
        Column("CPU", lambda pod: figures.cores(figures.cpu(known.get(pod.id))), spare=3),
        Column("MEMORY", lambda pod: figures.size(figures.memory(known.get(pod.id))), spare=4),
        Column("PROGRESS", lambda pod: figures.brief_percent(_progress(pod, known)), spare=2),
    ]


def _progress(pod: PodItem, known: Mapping[str, MeasuredPod]) -> float | None:
    """As the pod reported it, which is newer than its latest sample."""
    return figures.progress(known.get(pod.id)) if pod.progress_percent is None else pod.progress_percent


def _draw_devices(screen: Screen, measured: MeasuredWorkload) -> None:
    """What its pods have of each of their GPUs, if that was measured."""
    rows = [(pod, share) for pod in measured.pods for share in pod.devices if share.utilization is not None]
    if not rows:
        return
    simulated = " (simulated)" if measured.total is not None and measured.total.simulated else ""
    screen.title(f"GPUs{simulated}:")
    columns: list[Column[tuple[MeasuredPod, MeasuredShare]]] = [
        Column("POD", lambda row: row[0].name),
        Column("NODE", lambda row: row[0].node or "N/A"),
        Column("GPU", lambda row: str(row[1].index)),
        Column("UTILIZATION", lambda row: figures.percent(row[1].utilization)),
        Column("MEMORY USAGE", lambda row: figures.size(row[1].memory_bytes)),
    ]
    screen.draw(columns, rows)


def _draw_events(screen: Screen, events: Sequence[EventItem]) -> None:
    at = ages.now()
    screen.title("Events:")
    columns: list[Column[EventItem]] = [
        Column("SOURCE", lambda event: f"pod/{event.pod_name or event.pod}" if event.pod else "job"),
        Column("TYPE", lambda event: "Warning" if event.outcome in WARNINGS else "Normal"),
        Column("AGE", lambda event: ages.age(event.at, at)),
        Column("MESSAGE", event_text, least=PROSE),
    ]
    if events:
        screen.draw(columns, events)
    else:
        screen.text("No events for resources")


def event_text(event: EventItem) -> str:
    """`[Bound] on dgx1-1: ...`."""
    reason = "".join(part.capitalize() for part in event.kind.replace("_", "-").split("-"))
    place = f"on {event.node}" if event.node else ""
    words = ": ".join(part for part in (place, event.detail or event.cause) if part)
    return f"[{reason}] {words}".rstrip()
