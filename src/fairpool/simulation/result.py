"""The result of a simulation, also as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairpool import __version__
from fairpool.api.clusters import EventReport, WorkloadReport
from fairpool.model.ids import SECOND_MS, Instant, WorkloadId
from fairpool.simulation.checkpoint import Position
from fairpool.simulation.scenario import START, Scenario
from fairpool.simulation.simulated_cluster import SimulatedCluster
from fairpool.simulation.step_tables import GONE
from fairpool.simulation.tally import HOUR_MS, JobFigures, Spread, Tally, completions_ms, spread, tally, waits_ms


@dataclass(frozen=True)
class SimulationResult:
    """All that is known at the end, or when it was interrupted."""

    scenario: Scenario
    position: Position
    tally: Tally
    reports: dict[WorkloadId, WorkloadReport]
    history: Sequence[EventReport]
    violations: Sequence[str]
    why: dict[WorkloadId, str]
    """Of those that wait or have stopped: the reason in words."""

    @classmethod
    def of(cls, cluster: SimulatedCluster, position: Position) -> SimulationResult:
        history = cluster.history()
        figures = tally(cluster.scenario, history, cluster.now, position.quotas)
        reports = dict(cluster.reports())
        return cls(
            scenario=cluster.scenario,
            position=position,
            tally=figures,
            reports=reports,
            history=history,
            violations=list(cluster.engine.violations),
            why={name: cluster.why(name) for name in reports},
        )

    @property
    def is_complete(self) -> bool:
        return self.position.done

    @property
    def passed(self) -> bool | None:
        """None: nothing was expected, or it is not over."""
        if self.violations or not all(check.passed for check in self.position.checks):
            return False
        return True if self.position.checks and self.is_complete else None

    def phase_of(self, workload: WorkloadId) -> str:
        """Its phase; `Gone` if it was deleted; empty if it was not submitted yet."""
        report = self.reports.get(workload)
        if report is not None:
            return report.phase.value
        return GONE if self.tally.jobs[workload].submitted is not None else ""


def result_text(outcome: SimulationResult) -> str:
    """The whole document, in a fixed order: the same outcome gives the same bytes."""
    return json.dumps(result_document(outcome), indent=1, ensure_ascii=False) + "\n"


def result_document(outcome: SimulationResult) -> dict[str, Any]:
    figures = outcome.tally
    return {
        "format": "fairpool-simulation",
        "version": 1,
        "written_by": __version__,
        "scenario": outcome.scenario.name,
        "title": outcome.scenario.title,
        "complete": outcome.is_complete,
        "passed": outcome.passed,
        "stopped": outcome.position.stopped or None,
        "duration_s": _seconds(figures.end),
        "checks": [
            {
                "phase": check.phase,
                "what": check.what,
                "expected": check.expected,
                "reached": check.reached,
                "passed": check.passed,
                "at_s": _seconds(check.at),
            }
            for check in outcome.position.checks
        ],
        "gpus": figures.gpus,
        "use": round(figures.use, 6),
        "gpu_hours": {
            "held": _hours(figures.held_gpu_ms),
            "worked": _hours(figures.worked_gpu_ms),
            "idle": _hours(figures.idle_gpu_ms),
            "lost": _hours(figures.lost_gpu_ms),
        },
        "wait_s": _spread(spread(waits_ms(figures.jobs.values()))),
        "completion_s": _spread(spread(completions_ms(figures.jobs.values()))),
        "preemptions": dict(sorted(figures.taken.items())),
        "projects": _projects(outcome),
        "jobs": [_job(outcome, name, job) for name, job in figures.jobs.items()],
        "waiting": [[_seconds(at), jobs] for at, jobs in figures.waiting],
        "violations": list(outcome.violations),
    }


def _projects(outcome: SimulationResult) -> list[dict[str, Any]]:
    figures = outcome.tally
    length = max(figures.end - figures.begin, 1)
    rows = []
    for name, holding in figures.holdings.items():
        jobs = [job for job in figures.jobs.values() if job.spec.project == name]
        rows.append(
            {
                "project": name,
                "quota_milli": holding.quota_milli,
                "held_mean_milli": round(holding.held_gpu_ms / length),
                "held_most_milli": holding.most_milli,
                "held_end_milli": holding.held_milli,
                "owed_gpu_hours": _hours(holding.owed_gpu_ms),
                "jobs": len(jobs),
                "preemptions": sum(job.taken for job in jobs),
                "wait_s": _spread(spread(waits_ms(jobs))),
                "allocated": [[_seconds(at), milli] for at, milli in holding.series],
            }
        )
    return rows


def _job(outcome: SimulationResult, name: WorkloadId, job: JobFigures) -> dict[str, Any]:
    return {
        "job": name,
        "project": job.spec.project,
        "kind": job.spec.kind.value,
        "phase": outcome.phase_of(name) or None,
        "why": outcome.why.get(name, ""),
        "submitted_s": _seconds(job.submitted),
        "first_placed_s": _seconds(job.first_bound),
        "completed_s": _seconds(job.completed),
        "waited_s": job.waited_ms / SECOND_MS,
        "preemptions": job.taken,
    }


def _seconds(moment: Instant | None) -> float | None:
    return None if moment is None else (moment - START) / SECOND_MS


def _hours(gpu_ms: float) -> float:
    """Thousandths of a GPU times milliseconds, as GPU hours."""
    return round(gpu_ms / 1000 / HOUR_MS, 6)


def _spread(figures: Spread | None) -> dict[str, float] | None:
    if figures is None:
        return None
    return {
        "jobs": figures.count,
        "mean": round(figures.mean_s, 3),
        "p99": round(figures.p99_s, 3),
        "longest": round(figures.longest_s, 3),
    }


def lines_about(history: Iterable[EventReport], workload: str | None) -> list[EventReport]:
    """History of one workload, or of all."""
    return [line for line in history if workload is None or line.workload == workload]
