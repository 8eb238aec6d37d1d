"""Scenarios from traces: tables of submitted jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairpool.api.limits import NAME_PATTERN, PROJECT_NAME_MAX
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.engines.simulated.traces import Arrival, Trace, read_trace
from fairpool.model.ids import SECOND_MS, NodeName, QueueId
from fairpool.model.node import DEFAULT_POOL, Node
from fairpool.model.organization import Organization, Queue, gpu_entitlement
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import WorkloadSpec
from fairpool.model.typed_text import or_unlimited, thousandths
from fairpool.simulation.scenario import START, Action, Await, Condition, Scenario, ScenarioPhase, SubmitStep, Until

COLUMNS = ("job", "project", "submit_s", "gpus", "duration_s")
NODES = re.compile(r"(\d{1,5})x(\d{1,4})")
CPUS_PER_GPU = 16
MEMORY_PER_GPU = 128 * 2**30
FOR_EVER_S = 10 * 365 * 86_400.0
EXAMPLE = "job,project,submit_s,gpus,duration_s"


def read(text: str, name: str, nodes: str | None, quotas: Sequence[str]) -> Scenario | list[Problem]:
    """The scenario that a table comes to."""
    problems: list[Problem] = []
    machines = _nodes(nodes)
    problems += machines if isinstance(machines, list) else ()
    trace = _trace(text)
    problems += trace if isinstance(trace, list) else ()
    chosen = _chosen(quotas, trace if isinstance(trace, Trace) else None)
    problems += chosen if isinstance(chosen, list) else ()
    if isinstance(machines, list) or isinstance(trace, list) or isinstance(chosen, list):
        return problems
    owed = {**_by_gpu_hours(trace, sum(node.gpus for node in machines)), **chosen}
    queues = tuple(Queue(id=queue, gpu=gpu_entitlement(milli)) for queue, milli in sorted(owed.items()))
    return Scenario(
        name=name,
        title=f"a trace of {len(trace.arrivals)} jobs",
        nodes=machines,
        organization=Organization(queues={DEFAULT_POOL: queues}),
        phases=(ScenarioPhase("trace", (*_actions(trace.arrivals), _until_all_is_done())),),
        behaviours={arrival.spec.id: Behaviour(run_s=trace.work_s[arrival.spec.id]) for arrival in trace.arrivals},
    )


def _until_all_is_done() -> Await:
    # A trace may hold a job that fits nowhere: then the rest has run, and that is the outcome.
    return Await(Condition.IDLE, within_s=FOR_EVER_S, required=False)


def _actions(arrivals: Iterable[Arrival]) -> Iterable[Action]:
    for arrival in arrivals:
        yield Until((arrival.at - START) / SECOND_MS)
        yield SubmitStep(arrival.spec)


def _trace(text: str) -> Trace | list[Problem]:
    lines = text.splitlines()
    header = [each.strip() for each in lines[0].split(",")] if lines else []
    missing = [each for each in COLUMNS if each not in header]
    if missing:
        what = f"line 1: the columns {', '.join(missing)} are missing"
        return [Problem("trace.columns", what, f"begin with the line {EXAMPLE}, and after that a line a job")]
    trace = read_trace(lines, START)
    if not isinstance(trace, Trace):
        return list(trace)
    if not trace.arrivals:
        return [Problem("trace.empty", "there is no job in it", "add a line a job")]
    names: dict[str, str] = {}
    for arrival in trace.arrivals:
        other = names.setdefault(_project_name(arrival.spec.project), arrival.spec.project)
        if other != arrival.spec.project:
            what = f"the projects {other!r} and {arrival.spec.project!r} would both be called {_project_name(other)}"
            return [Problem("trace.project", what, "rename one of them")]
    return replace(trace, arrivals=tuple(map(_with_project_name, trace.arrivals)))


def _with_project_name(arrival: Arrival) -> Arrival:
    name = QueueId(_project_name(arrival.spec.project))
    return arrival if name == arrival.spec.project else replace(arrival, spec=replace(arrival.spec, project=name))


def _project_name(written: str) -> str:
    """As a control plane accepts it: a trace from elsewhere may have capitals and underscores."""
    name = re.sub("[^a-z0-9]+", "-", written.lower())[:PROJECT_NAME_MAX].strip("-")
    return name if re.fullmatch(NAME_PATTERN, name) else f"project-{name}"[:PROJECT_NAME_MAX].strip("-")


def _nodes(text: str | None) -> tuple[Node, ...] | list[Problem]:
    fix = "write --nodes 100x8 for 100 nodes with 8 GPUs each"
    if text is None:
        return [Problem("trace.nodes", "a trace does not say what it runs on", fix)]
    match = NODES.fullmatch(text)
    if match is None or not int(match[1]):
        return [Problem("trace.nodes", f"{text!r} is not a number of nodes and GPUs", fix)]
    count, gpus = int(match[1]), int(match[2])
    width = len(str(count))
    return tuple(
        Node(
            name=NodeName(f"node-{number:0{width}}"),
            cpu_milli=max(gpus, 1) * CPUS_PER_GPU * 1000,
            memory_bytes=max(gpus, 1) * MEMORY_PER_GPU,
            gpus=gpus,
            gpu_memory_mib=81_920,
        )
        for number in range(1, count + 1)
    )


def _chosen(quotas: Sequence[str], trace: Trace | None) -> dict[QueueId, int] | list[Problem]:
    """What `--quota project=8` says."""
    chosen: dict[QueueId, int] = {}
    problems = []
    projects = {arrival.spec.project for arrival in trace.arrivals} if trace is not None else None
    for text in quotas:
        name, equals, amount = text.rpartition("=")
        milli = or_unlimited(thousandths)(amount)
        if not equals or not name or isinstance(milli, Problem):
            problems.append(Problem("trace.quota", f"--quota {text} is not understood", "write --quota PROJECT=8"))
        elif projects is not None and _project_name(name) not in projects:
            there = ", ".join(sorted(projects)[:8])
            problems.append(
                Problem("trace.project", f"--quota: project {name!r} has no jobs in the trace", f"there are: {there}")
            )
        else:
            chosen[QueueId(_project_name(name))] = milli
    return problems or chosen


def _by_gpu_hours(trace: Trace, gpus: int) -> dict[QueueId, int]:
    """Whole GPUs in proportion to the GPU hours of each project; what rounding leaves goes to the largest rests."""
    work: Counter[QueueId] = Counter()
    for arrival in trace.arrivals:
        work[arrival.spec.project] += round(_gpus_milli(arrival.spec) * trace.work_s[arrival.spec.id])
    total = sum(work.values())
    if not total:
        return dict.fromkeys(work, 0)
    whole = {queue: gpus * amount // total for queue, amount in work.items()}
    rests = sorted(work, key=lambda queue: (-(gpus * work[queue] % total), queue))
    for queue in rests[: gpus - sum(whole.values())]:
        whole[queue] += 1
    return {queue: amount * WHOLE_GPU_MILLI for queue, amount in whole.items()}


def _gpus_milli(spec: WorkloadSpec) -> int:
    return spec.pods * gpus_charged_milli(spec.template.shape.gpu)
