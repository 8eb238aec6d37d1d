"""Statistics from history: GPU use, waiting and completion times, preemptions.

Everything follows from what was declared and from the lines of history, both of which outlive a process. Nothing is
sampled, so that the figures do not depend on when or how often they were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairpool.api.clusters import EventReport
from fairpool.cluster.history import EventKind
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, PoolName, QueueId, WorkloadId
from fairpool.model.node import Node
from fairpool.model.organization import DEPARTMENT_PREFIX
from fairpool.model.pod_record import Cause
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.quantity import UNLIMITED
from fairpool.model.spec import WorkloadSpec
from fairpool.simulation.scenario import START, Scenario

HOUR_MS = 3600 * SECOND_MS
TAKEN = frozenset({Cause.PREEMPTED, Cause.MOVED, Cause.STALE, Cause.NODE_DRAINED, Cause.NODE_LOST, Cause.VANISHED})
"""Why a job that wants to run loses its place. That its peers follow it is not counted again."""
FINISHED = Cause.FINISHED.value


@dataclass
class PodSpan:
    """One pod, as far as its events say."""

    pod: PodId
    workload: WorkloadId
    created: Instant
    bound: Instant | None = None
    started: Instant | None = None
    ended: Instant | None = None
    node: NodeName | None = None
    cause: str = ""


@dataclass
class JobFigures:
    """What became of one workload."""

    spec: WorkloadSpec
    submitted: Instant | None = None
    """None: it was not looked at before the end."""
    first_bound: Instant | None = None
    waited_ms: int = 0
    """All the time in which it had no place and wanted one, after it was taken as well."""
    completed: Instant | None = None
    taken: int = 0


@dataclass
class Holding:
    """What one project had over the whole time."""

    quota_milli: int
    held_gpu_ms: float = 0
    owed_gpu_ms: float = 0
    """What it was short of its quota while it had jobs waiting."""
    held_milli: int = 0
    """At the end."""
    most_milli: int = 0
    series: list[tuple[Instant, int]] = field(default_factory=list)


@dataclass
class Tally:
    """All figures of a simulation."""

    begin: Instant
    end: Instant
    gpus: int
    jobs: dict[WorkloadId, JobFigures]
    holdings: dict[QueueId, Holding]
    waiting: list[tuple[Instant, int]]
    """Jobs without a place, whenever that changed."""
    taken: Counter[str]
    worked_gpu_ms: float
    lost_gpu_ms: float
    """Work that has to be done again."""
    idle_gpu_ms: float
    """Held by pods that were not running yet, or not any more."""

    @property
    def held_gpu_ms(self) -> float:
        return sum(each.held_gpu_ms for each in self.holdings.values())

    @property
    def use(self) -> float:
        """Part of all GPUs that was held, over the whole time."""
        room = self.gpus * 1000 * (self.end - self.begin)
        return self.held_gpu_ms / room if room else 0.0


def tally(
    scenario: Scenario,
    history: Sequence[EventReport],
    end: Instant,
    quotas: Iterable[tuple[Instant, str, str, int]] = (),
) -> Tally:
    """Everything, from the start until `end`."""
    specs = scenario.submitted()
    spans = spans_of(history)
    jobs = {name: JobFigures(spec) for name, spec in specs.items()}
    for line in history:
        _note(jobs, line)
    size = _Sizes(specs, scenario.nodes)
    holdings = _holdings(scenario)
    waiting = _sweep(_Moves(spans, size, specs, _totals(scenario, quotas)), holdings, jobs, end)
    taken = preemptions(history, jobs)
    worked, lost, idle = _work(scenario, spans, size, end)
    return Tally(START, end, scenario.gpus, jobs, holdings, waiting, taken, worked, lost, idle)


def spans_of(history: Iterable[EventReport]) -> dict[PodId, PodSpan]:
    """The spans of all pods."""
    spans: dict[PodId, PodSpan] = {}
    for line in history:
        if line.pod is None:
            continue
        span = spans.setdefault(line.pod, PodSpan(line.pod, line.workload, line.at))
        span.node = line.node or span.node
        if line.kind in (EventKind.BOUND, EventKind.ADOPTED):
            span.bound = line.at
        elif line.kind == EventKind.STARTED:
            span.started = line.at
            span.bound = line.at if span.bound is None else span.bound
        elif line.kind == EventKind.ENDED:
            span.ended, span.cause = line.at, line.cause
    return spans


def preemptions(history: Iterable[EventReport], jobs: Mapping[WorkloadId, JobFigures] | None = None) -> Counter[str]:
    """How often jobs lost their place, by cause: pods of one job that leave at one moment are counted once."""
    placed: set[PodId] = set()
    left: set[PodId] = set()
    seen: set[tuple[WorkloadId, str, Instant]] = set()
    counted: Counter[str] = Counter()
    for line in history:
        if line.pod is None:
            continue
        if line.kind in (EventKind.BOUND, EventKind.STARTED):
            placed.add(line.pod)
        if line.kind not in (EventKind.RELEASING, EventKind.ENDED) or line.pod not in placed or line.pod in left:
            continue
        left.add(line.pod)
        key = (line.workload, line.cause, line.at)
        if line.cause not in TAKEN or key in seen:
            continue
        seen.add(key)
        counted[line.cause] += 1
        if jobs is not None and line.workload in jobs:
            jobs[line.workload].taken += 1
    return counted


def _note(jobs: Mapping[WorkloadId, JobFigures], line: EventReport) -> None:
    job = jobs.get(line.workload)
    if job is None:
        return
    if line.kind == EventKind.CREATED and job.submitted is None:
        job.submitted = line.at
    elif line.kind == EventKind.BOUND and job.first_bound is None:
        job.first_bound = line.at
    elif line.kind == EventKind.HALTED and line.cause == FINISHED:
        job.completed = line.at
    elif line.kind == EventKind.RESUMED:
        job.completed = None


# --- over time ------------------------------------------------------------------------------------------------------


class _Sizes:
    """GPUs of pods, in thousandths."""

    def __init__(self, specs: Mapping[WorkloadId, WorkloadSpec], nodes: Sequence[Node]) -> None:
        self._specs = specs
        self._memory_mib = {node.name: node.gpu_memory_mib for node in nodes}
        self._usual_mib = max(self._memory_mib.values(), default=0)

    def of(self, span: PodSpan) -> int:
        index = int(span.pod.rsplit("-", 2)[1])
        shape = self._specs[span.workload].template_of(index).shape
        return gpus_charged_milli(shape.gpu, self._memory_mib.get(span.node or NodeName(""), self._usual_mib))


@dataclass(frozen=True, slots=True)
class _Move:
    """Something changes for a project: what it holds, what it waits for, what it is owed."""

    at: Instant
    workload: WorkloadId | None
    project: QueueId
    held_milli: int = 0
    placed: int = 0
    wanted_milli: int = 0
    waiting: int = 0
    quota_milli: int | None = None


class _Moves:
    """All changes in the order of time."""

    def __init__(
        self,
        spans: Mapping[PodId, PodSpan],
        size: _Sizes,
        specs: Mapping[WorkloadId, WorkloadSpec],
        quotas: Iterable[tuple[Instant, QueueId, int]],
    ) -> None:
        moves = [_Move(at, None, queue, quota_milli=milli) for at, queue, milli in quotas]
        for span in spans.values():
            if span.workload in specs:
                moves += _moves_of(span, size.of(span), specs[span.workload].project)
        self.all = sorted(moves, key=lambda move: move.at)


def _moves_of(span: PodSpan, milli: int, project: QueueId) -> Iterable[_Move]:
    until = span.bound if span.bound is not None else span.ended
    yield _Move(span.created, span.workload, project, wanted_milli=milli, waiting=1)
    if until is not None:
        yield _Move(until, span.workload, project, wanted_milli=-milli, waiting=-1)
    if span.bound is not None:
        yield _Move(span.bound, span.workload, project, held_milli=milli, placed=1)
        if span.ended is not None:
            yield _Move(span.ended, span.workload, project, held_milli=-milli, placed=-1)


def _holdings(scenario: Scenario) -> dict[QueueId, Holding]:
    """Projects and what they are owed in all pools together."""
    organization = scenario.organization
    owed: dict[QueueId, list[int]] = {}
    for queues in organization.queues.values():
        for queue in queues:
            if not queue.id.startswith(DEPARTMENT_PREFIX):
                owed.setdefault(queue.id, []).append(queue.gpu.quota)
    return {queue: Holding(_together(quotas)) for queue, quotas in owed.items()}


def _totals(
    scenario: Scenario, quotas: Iterable[tuple[Instant, str, str, int]]
) -> Iterable[tuple[Instant, QueueId, int]]:
    """Changes of a quota in one pool, as what is owed in all pools from then on."""
    by_pool = {
        (queue.id, pool): queue.gpu.quota for pool, each in scenario.organization.queues.items() for queue in each
    }
    for at, name, where, milli in quotas:
        queue = QueueId(name)
        by_pool[queue, PoolName(where)] = milli
        yield at, queue, _together([each for (owner, _), each in by_pool.items() if owner == queue])


def _together(quotas: Sequence[int]) -> int:
    return UNLIMITED if UNLIMITED in quotas else sum(quotas)


@dataclass
class _Account:
    """One project while the sweep goes on."""

    holding: Holding
    quota_milli: int
    wanted_milli: int = 0
    since: Instant = START

    def pass_time(self, now: Instant) -> None:
        length = now - self.since
        held = self.holding.held_milli
        self.holding.held_gpu_ms += held * length
        owed = held + self.wanted_milli if self.quota_milli == UNLIMITED else self.quota_milli
        self.holding.owed_gpu_ms += max(0, min(owed, held + self.wanted_milli) - held) * length
        self.since = now


def _sweep(
    moves: _Moves, holdings: Mapping[QueueId, Holding], jobs: Mapping[WorkloadId, JobFigures], end: Instant
) -> list[tuple[Instant, int]]:
    """Walk through time once, adding up. The answer: jobs without a place, whenever their number changed."""
    accounts = {name: _Account(holding, holding.quota_milli) for name, holding in holdings.items()}
    queue = _Queue(jobs)
    for move in moves.all:
        account = accounts.get(move.project)
        if account is None:
            continue
        account.pass_time(move.at)
        account.quota_milli = account.quota_milli if move.quota_milli is None else move.quota_milli
        account.wanted_milli += move.wanted_milli
        account.holding.held_milli += move.held_milli
        if move.held_milli:
            _append(account.holding.series, move.at, account.holding.held_milli)
        if move.workload is not None:
            queue.take(move.workload, move.placed, move.waiting, move.at)
    for account in accounts.values():
        account.pass_time(end)
        account.holding.most_milli = max((milli for _, milli in account.holding.series), default=0)
    queue.close(end)
    return queue.series


class _Queue:
    """Who waits: a job of which some pod wants a place and none has one."""

    def __init__(self, jobs: Mapping[WorkloadId, JobFigures]) -> None:
        self._jobs = jobs
        self._placed: Counter[WorkloadId] = Counter()
        self._waiting: Counter[WorkloadId] = Counter()
        self._since: dict[WorkloadId, Instant] = {}
        self.series: list[tuple[Instant, int]] = []

    def take(self, workload: WorkloadId, placed: int, waiting: int, at: Instant) -> None:
        self._placed[workload] += placed
        self._waiting[workload] += waiting
        waits = self._waiting[workload] > 0 and self._placed[workload] == 0
        if waits and workload not in self._since:
            self._since[workload] = at
        elif not waits and workload in self._since:
            self._jobs[workload].waited_ms += at - self._since.pop(workload)
        _append(self.series, at, len(self._since))

    def close(self, end: Instant) -> None:
        for workload, since in self._since.items():
            self._jobs[workload].waited_ms += end - since


def _append(series: list[tuple[Instant, int]], at: Instant, value: int) -> None:
    """What it was last at a moment is what counts; what did not change is not repeated."""
    if series and series[-1][0] == at:
        series.pop()
    if not series or series[-1][1] != value:
        series.append((at, value))


# --- work -----------------------------------------------------------------------------------------------------------


def _work(scenario: Scenario, spans: Mapping[PodId, PodSpan], size: _Sizes, end: Instant) -> tuple[float, float, float]:
    """GPU time that was worked for good, that has to be worked again, and that was held without working."""
    worked = lost = idle = 0.0
    done_ms: dict[str, int] = {}
    for span in sorted(spans.values(), key=lambda each: (each.bound or end, each.pod)):
        if span.bound is None or span.workload not in scenario.behaviours:
            continue
        milli, until = size.of(span), span.ended if span.ended is not None else end
        ran = until - span.started if span.started is not None else 0
        idle += milli * (until - span.bound - ran)
        again = 0
        if span.cause in TAKEN or span.cause == Cause.PEER:
            pod = span.pod.rpartition("-")[0]
            all_ms = done_ms.get(pod, 0) + ran
            done_ms[pod] = _kept_ms(all_ms, scenario.behaviours[span.workload].checkpoint_s)
            again = min(all_ms - done_ms[pod], all_ms)
        lost += milli * again
        worked += milli * (ran - min(again, ran))
    return worked, lost, idle


def _kept_ms(done_ms: int, checkpoint_s: float | None) -> int:
    if checkpoint_s is None:
        return 0
    piece_ms = round(checkpoint_s * SECOND_MS)
    return done_ms - done_ms % piece_ms if piece_ms else done_ms


# --- statistics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Many lengths of time in four figures."""

    count: int
    mean_s: float
    p99_s: float
    longest_s: float


def spread(lengths_ms: Iterable[int]) -> Spread | None:
    """None of nothing. The 99th of a hundred, in order of length, is the p99."""
    ordered = sorted(lengths_ms)
    if not ordered:
        return None
    rank = -(-99 * len(ordered) // 100)
    mean = sum(ordered) / len(ordered)
    return Spread(len(ordered), mean / SECOND_MS, ordered[rank - 1] / SECOND_MS, ordered[-1] / SECOND_MS)


def waits_ms(jobs: Iterable[JobFigures]) -> list[int]:
    """How long each job waited, those that still do included."""
    return [job.waited_ms for job in jobs if job.submitted is not None]


def completions_ms(jobs: Iterable[JobFigures]) -> list[int]:
    """From submit to end, of those that ended well."""
    return [job.completed - job.submitted for job in jobs if job.completed is not None and job.submitted is not None]
