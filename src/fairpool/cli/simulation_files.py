"""Output files of a simulation: the outcome as JSON, charts, snapshots. Checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairpool.cli.simulation_chart import Chart, svg
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.problem import Problem
from fairpool.replay.planned import counted
from fairpool.replay.saved import save
from fairpool.simulation.capture import Capture
from fairpool.simulation.result import SimulationResult, result_text
from fairpool.simulation.scenario import START

ALLOCATION, WAITING = "gpu-allocation.svg", "waiting-jobs.svg"


@dataclass(frozen=True)
class OutputFiles:
    """The output files that were asked for."""

    json: str | None
    charts: str | None
    capture: Capture
    overwrite: bool

    def obstacles(self) -> list[Problem]:
        """What would prevent writing them; found before a simulation that may take an hour."""
        problems = []
        for path in self._paths():
            if path.is_dir():
                problems.append(Problem("file.other_kind", f"{path} is a folder, not a file", "name a file"))
            elif path.exists() and not self.overwrite:
                fix = "choose another name, or pass --force"
                problems.append(Problem("file.exists", f"{path} exists already", fix))
            elif path.parent.exists() and not path.parent.is_dir():
                problems.append(Problem("file.no_folder", f"{path.parent} is not a folder", "name another place"))
            elif not path.parent.exists() and (self.charts is None or path.parent != Path(self.charts)):
                problems.append(Problem("file.no_folder", f"there is no folder {path.parent}", "create it first"))
        return problems

    def _paths(self) -> Iterable[Path]:
        if self.json is not None and self.json != "-":
            yield Path(self.json)
        if self.charts is not None:
            yield from (Path(self.charts) / name for name in (ALLOCATION, WAITING))
        yield from (Path(each.file) for each in self.capture.requests if each.file != "-")

    def write(self, outcome: SimulationResult) -> list[Problem]:
        """All of them; the answer is what could not be written."""
        problems = _saved(self.capture)
        try:
            if self.json is not None and self.json != "-":
                Path(self.json).write_text(result_text(outcome), encoding="utf-8")
            if self.charts is not None:
                folder = Path(self.charts)
                folder.mkdir(parents=True, exist_ok=True)
                for name, chart in charts(outcome).items():
                    (folder / name).write_text(svg(chart), encoding="utf-8")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            what = f"{error.filename or 'a file'} cannot be written: {why}"
            problems.append(Problem("file.unreachable", what, "check free space and permissions"))
        return problems


def _saved(capture: Capture) -> list[Problem]:
    """Write all snapshots; what could not be written is in the answer."""
    problems = []
    for each in capture.requests:
        if each.snapshot is None:
            what = (
                f"{each.file} is not written: there was no such cycle; the run had {counted(capture.cycles, 'cycle')}"
            )
            problems.append(Problem("capture.none", what, "name another cycle, or @last"))
            continue
        problem = save(each.snapshot, each.file, overwrite=True)
        if problem is not None:
            problems.append(problem)
    return problems


def charts(outcome: SimulationResult) -> dict[str, Chart]:
    """The charts of a simulation, by the name of the file."""
    figures = outcome.tally
    end_s = _seconds(figures.end)
    allocated = {
        str(project): [(_seconds(at), milli / 1000) for at, milli in holding.series]
        for project, holding in figures.holdings.items()
    }
    waiting = {"waiting jobs": [(_seconds(at), float(jobs)) for at, jobs in figures.waiting]}
    return {
        ALLOCATION: Chart("GPU Allocation / Project", "GPUs", allocated, end_s, float(figures.gpus)),
        WAITING: Chart("Waiting jobs", "jobs", waiting, end_s),
    }


def _seconds(moment: Instant) -> float:
    return (moment - START) / SECOND_MS
