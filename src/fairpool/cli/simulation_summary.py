"""Summary of a simulation: figures, projects, expectations, and pass or fail."""

from __future__ import annotations

from collections import Counter

from fairpool.cli.screen import Screen
from fairpool.cli.simulation_progress import elapsed_text
from fairpool.model.ids import SECOND_MS, Instant, WorkloadId
from fairpool.model.mentions import in_full
from fairpool.model.pod_record import Cause
from fairpool.model.quantity import gpus_text
from fairpool.replay.planned import counted, listed
from fairpool.simulation.result import SimulationResult, lines_about
from fairpool.simulation.scenario import START
from fairpool.simulation.tally import HOUR_MS, Spread, completions_ms, spread, waits_ms

CAUSES = {
    Cause.PREEMPTED: "reclaimed by projects below their quota",
    Cause.MOVED: "moved to make room",
    Cause.STALE: "gang lost a pod",
    Cause.NODE_DRAINED: "node drained",
    Cause.NODE_LOST: "node lost",
    Cause.VANISHED: "pod lost",
}


def draw(screen: Screen, outcome: SimulationResult) -> None:
    """The summary that is always shown."""
    figures, scenario = outcome.tally, outcome.scenario
    screen.title(f"{scenario.name}: {scenario.title}" if scenario.title else scenario.name)
    length = elapsed_text((figures.end - figures.begin) / SECOND_MS)
    over = "" if outcome.is_complete else ", not finished"
    screen.text(
        f"{counted(len(scenario.nodes), 'node')} with {counted(figures.gpus, 'GPU')}, "
        f"{counted(len(figures.jobs), 'job')}, {counted(len(figures.holdings), 'project')}; it took {length}{over}"
    )
    screen.title("Figures")
    screen.facts(_facts(outcome))
    screen.title("Projects (GPUs)")
    screen.table(
        ("PROJECT", "QUOTA", "MEAN", "MOST", "AT END", "OWED GPU-H", "JOBS", "TAKEN", "WAIT", "P99"),
        _project_rows(outcome),
    )


def draw_checks(screen: Screen, outcome: SimulationResult) -> None:
    """What was expected and reached, and a line with pass or fail."""
    checks = outcome.position.checks
    if checks:
        screen.title("Expected and actual")
        rows = [
            (check.phase, check.what, check.expected, check.reached, "ok" if check.passed else "FAIL")
            for check in checks
        ]
        screen.table(("PHASE", "WHAT", "EXPECTED", "REACHED", ""), rows)
    for violation in outcome.violations:
        screen.text(f"This is a bug in Fairpool, please report it: {violation}")
    if outcome.position.stopped:
        screen.text(f"Stopped early: {outcome.position.stopped}.")
    failed = sum(not check.passed for check in checks)
    if outcome.passed is False:
        screen.text(f"FAIL: {failed} of {counted(len(checks), 'figure')} not as expected")
    elif outcome.passed:
        screen.text(f"PASS: {'the figure is' if len(checks) == 1 else f'all {len(checks)} figures are'} as expected")
    elif not outcome.is_complete and checks:
        screen.text(f"Not finished: {counted(len(checks), 'figure')} so far as expected")


def draw_events(screen: Screen, outcome: SimulationResult, workload: str | None = None) -> None:
    """History, line by line."""
    screen.title("History" if workload is None else f"History of {workload}")
    rows = [
        (
            _clock(line.at),
            line.kind,
            line.pod or line.workload,
            line.node or "",
            _because(line.cause, in_full(line.detail)),
        )
        for line in lines_about(outcome.history, workload)
    ]
    screen.table(("TIME", "WHAT", "WHO", "NODE", "WHY"), rows)


def draw_why(screen: Screen, outcome: SimulationResult, workload: str) -> None:
    """One workload: its state, the reason, and its history."""
    name = WorkloadId(workload)
    job = outcome.tally.jobs[name]
    phase = outcome.phase_of(name) or "not submitted yet"
    facts = [("phase", phase), ("why", outcome.why.get(name) or "-"), ("project", str(job.spec.project))]
    if job.submitted is not None:
        facts.append(("submitted", _clock(job.submitted)))
    facts.append(("waited", elapsed_text(job.waited_ms / SECOND_MS)))
    facts.append(("preempted", f"{counted(job.taken, 'time')}"))
    screen.title(f"Job {workload}")
    screen.facts(facts)
    draw_events(screen, outcome, workload)


def _facts(outcome: SimulationResult) -> list[tuple[str, str]]:
    figures = outcome.tally
    phases = Counter(outcome.phase_of(name) or "not submitted" for name in figures.jobs)
    hours = [
        f"{_hours(figures.worked_gpu_ms)} worked",
        f"{_hours(figures.idle_gpu_ms)} starting and stopping",
        f"{_hours(figures.lost_gpu_ms)} lost",
    ]
    taken = [f"{many} {CAUSES[Cause(cause)]}" for cause, many in sorted(figures.taken.items())]
    total = sum(figures.taken.values())
    return [
        ("GPUs in use", f"{100 * figures.use:.1f} % of {figures.gpus} over the whole time"),
        ("GPU hours", ", ".join(hours)),
        ("jobs", ", ".join(f"{many} {phase.lower()}" for phase, many in sorted(phases.items())) or "none"),
        ("waited", _spread_text(spread(waits_ms(figures.jobs.values())))),
        ("submit to finish", _spread_text(spread(completions_ms(figures.jobs.values())))),
        ("preemptions", f"{total}: {listed(taken)}" if total else "none"),
    ]


def _spread_text(figures: Spread | None) -> str:
    if figures is None:
        return "none"
    mean, p99, longest = (elapsed_text(each) for each in (figures.mean_s, figures.p99_s, figures.longest_s))
    return f"mean {mean}, p99 {p99}, longest {longest} ({counted(figures.count, 'job')})"


def _project_rows(outcome: SimulationResult) -> list[tuple[str, ...]]:
    figures = outcome.tally
    length = max(figures.end - figures.begin, 1)
    rows: list[tuple[str, ...]] = []
    for name, holding in sorted(figures.holdings.items()):
        jobs = [job for job in figures.jobs.values() if job.spec.project == name]
        waits = spread(waits_ms(jobs))
        rows.append(
            (
                str(name),
                gpus_text(holding.quota_milli),
                f"{holding.held_gpu_ms / length / 1000:.2f}",
                gpus_text(holding.most_milli),
                gpus_text(holding.held_milli),
                _hours(holding.owed_gpu_ms),
                str(len(jobs)),
                str(sum(job.taken for job in jobs)),
                elapsed_text(waits.mean_s) if waits is not None else "-",
                elapsed_text(waits.p99_s) if waits is not None else "-",
            )
        )
    return rows


def _hours(gpu_ms: float) -> str:
    hours = gpu_ms / 1000 / HOUR_MS
    return f"{hours:.0f}" if hours >= 1000 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2f}"


def _clock(moment: Instant) -> str:
    """Simulated time since the start: `0:04:05`, with the part of a second where there is one."""
    ms = moment - START
    hours, rest = divmod(ms, HOUR_MS)
    minutes, rest = divmod(rest, 60 * SECOND_MS)
    seconds, part = divmod(rest, SECOND_MS)
    return f"{hours}:{minutes:02}:{seconds:02}" + (f".{part:03}" if part else "")


def _because(cause: str, detail: str) -> str:
    return f"{cause}: {detail}" if cause and detail else cause or detail
