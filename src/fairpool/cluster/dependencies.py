"""Waiting for other workloads: which have ended as wanted, and which cannot do so any more. Pure.

`expand` asks before it lets pods be born; `rollup` for the words. That a dependency was met is remembered in the
standing, because the workload it was about may be deleted long before the one that waited runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.spec import Dependency, DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase


class Course(StrEnum):
    """What became of a workload, for those that wait for it."""

    OPEN = "open"
    """It may still complete: it waits, runs, or is suspended and can be resumed."""
    COMPLETED = "completed"
    FAILED = "failed"
    GONE = "deleted"


Courses = Callable[[WorkloadId], Course]


def course_of(spec: WorkloadSpec | None, standing: WorkloadState) -> Course:
    """What became of a workload, from its declaration and what is remembered of it."""
    halt = standing.halt if spec is None or spec.run <= standing.run else None
    if halt is not None and halt.phase is WorkloadPhase.COMPLETED:
        return Course.COMPLETED
    if halt is not None and halt.phase is WorkloadPhase.FAILED:
        return Course.FAILED
    return Course.GONE if spec is None or spec.want is DesiredState.DELETE else Course.OPEN


def with_met(
    spec: WorkloadSpec, standing: WorkloadState, lives: Sequence[PodRecord], courses: Courses
) -> WorkloadState:
    """The standing with every dependency that is met by now. Pods are born only after all are: who has some began."""
    if not unmet(spec, standing):
        return standing
    met = tuple(each.workload for each in spec.after if lives or _is_met(each, standing, courses))
    return replace(standing, met=met) if met != standing.met else standing


def _is_met(dependency: Dependency, standing: WorkloadState, courses: Courses) -> bool:
    if dependency.workload in standing.met:
        return True
    course = courses(dependency.workload)
    return course is Course.COMPLETED or (dependency.any_end and course is not Course.OPEN)


def unmet(spec: WorkloadSpec, standing: WorkloadState) -> list[Dependency]:
    """What it still has to wait for."""
    return [each for each in spec.after if each.workload not in standing.met]


def hopeless(spec: WorkloadSpec, standing: WorkloadState, courses: Courses, now: Instant) -> Halt | None:
    """The end of a workload that waits for something that will not happen."""
    words = {Course.FAILED: "failed", Course.GONE: "was deleted"}
    for each in unmet(spec, standing):
        course = courses(each.workload)
        if course in words:
            detail = f"dependency failed: {each.name} {words[course]}, and this job starts only after it completes"
            return Halt(WorkloadPhase.FAILED, Cause.DEPENDENCY, now, detail)
    return None


def waiting_words(dependencies: Sequence[Dependency]) -> str:
    """`waits for prep and clean to finish`."""
    names = [each.name for each in dependencies]
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} others"]
    joined = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"waits for {joined} to finish"
