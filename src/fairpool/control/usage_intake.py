"""Usage of pods, from the lines of history that clusters report: each line is stored once, and so is what it says.

A pod has a row from its creation to its end, which any of its lines can begin: one that was created and ended between
two reports is complete, and so is one whose first lines were lost with a ledger. A line that comes late changes what
was summed already: those hours are summed again. What was counted stays when the workload or its project is deleted.

A pod that ended unseen, as with a ledger that was lost, has no line about its end. It ends with the first report of
everything that does not have it, until a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairpool.api.clusters import EventReport
from fairpool.control.store import organization, usage
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import report_of
from fairpool.model.ids import Instant, place_of
from fairpool.model.pod_record import LOSSES, Cause, Outcome

LOST: Final = frozenset({*LOSSES, Cause.PREEMPTED, Cause.MOVED, Cause.STALE, Cause.NODE_DRAINED})
"""Causes of an end by which work is lost: taken back for others, moved to make room, or gone with its node."""
UNSEEN: Final = "unseen"
"""The cause of an end that no line told."""
WORKLOADS: Final = 16
"""Looked up with one statement."""
_KINDS: Final = frozenset({"created", "adopted", "bound", "ended"})


def take_usage(connection: Connection, cluster: str, lines: Sequence[EventReport]) -> None:
    """Write down what these lines say about usage. They are new here, and in order."""
    counted = [line for line in lines if line.usage is not None and line.pod is not None and line.kind in _KINDS]
    ends = {line.pod: line for line in lines if line.kind == "ended" and line.usage is None and line.pod is not None}
    if not counted and not ends:
        return
    owners = workload_store.some(connection, list(dict.fromkeys(line.workload for line in counted)))
    for line in counted:
        if line.pod is not None and place_of(line.workload, line.pod) is not None:  # else it would be another's pod
            _take(connection, cluster, line, owners.get(line.workload))
    for pod, line in ends.items():
        _end(connection, usage.of_pod(connection, cluster, pod), line)


def _take(connection: Connection, cluster: str, line: EventReport, owner: Any) -> None:
    said = line.usage
    assert said is not None
    rows = usage.of_pod(connection, cluster, line.pod or "")
    if not rows:
        usage.unsettle(connection, said.created_at)
        usage.add(connection, _first_row(connection, cluster, line, owner))
        rows = usage.of_pod(connection, cluster, line.pod or "")
    if said.bound_at is not None:
        _bind(connection, rows, line)
    if line.kind == "ended":
        _end(connection, usage.of_pod(connection, cluster, line.pod or ""), line)


def _first_row(connection: Connection, cluster: str, line: EventReport, owner: Any) -> dict[str, Any]:
    """A pod that is new here. Of a workload that is not known here (any more), its cluster knows the project."""
    said = line.usage
    assert said is not None
    project = owner.project if owner is not None else said.project
    found = organization.project(connection, project)
    department = owner.department if owner is not None else found.department if found is not None else ""
    above = organization.department(connection, department)
    return {
        "cluster": cluster,
        "pod": line.pod,
        "part": 0,
        "workload": line.workload,
        "workload_name": owner.name if owner is not None else line.workload,
        "project": project,
        "project_number": found.number if found is not None else 0,
        "department": department,
        "department_number": above.number if above is not None else 0,
        "submitted_by": owner.submitted_by if owner is not None else "",
        "kind": owner.kind if owner is not None else "",
        "pool": said.pool,
        "node": line.node or "",
        "gpu_type": said.gpu_type,
        "gpus_milli": said.gpus_milli,
        "cpu_milli": said.cpu_milli,
        "memory_bytes": said.memory_bytes,
        "created_at": said.created_at,
        "bound_at": None,
        "ended_at": None,
        "cause": "",
        "is_lost": False,
    }


def _bind(connection: Connection, rows: list[Any], line: EventReport) -> None:
    """It holds something since then. The parts of a pod are in the order of time, and share its amounts."""
    said = line.usage
    assert said is not None
    assert said.bound_at is not None
    amounts = {"gpus_milli": said.gpus_milli, "cpu_milli": said.cpu_milli, "memory_bytes": said.memory_bytes}
    place = {"pool": said.pool, "gpu_type": said.gpu_type, "node": line.node or rows[-1].node}
    for row in rows:
        values: dict[str, Any] = {**amounts, **place}
        if row.ended_at is None or said.bound_at < row.ended_at:
            values["bound_at"] = said.bound_at if row.part == 0 else max(said.bound_at, row.created_at)
        changed = {name: value for name, value in values.items() if getattr(row, name) != value}
        if not changed:
            continue
        moments = [each for each in (row.bound_at, changed.get("bound_at")) if each is not None]
        usage.unsettle(connection, min(moments) if changed.keys() <= {"bound_at"} else row.created_at)
        usage.change(connection, row, **changed)


def _end(connection: Connection, rows: list[Any], line: EventReport) -> None:
    """It ended then, whatever was assumed before."""
    is_lost = line.cause in LOST and line.outcome is not Outcome.OK
    for row in rows:
        if row.part and row.created_at >= line.at:  # it went to another project after its end
            usage.unsettle(connection, row.created_at)
            usage.drop(connection, row)
            continue
        is_last = row.part == rows[-1].part or rows[row.part + 1].created_at >= line.at
        ended_at = max(line.at, row.created_at) if is_last else row.ended_at
        values = {"ended_at": ended_at, "cause": line.cause if is_last else row.cause, "is_lost": is_lost}
        if all(getattr(row, name) == value for name, value in values.items()):
            continue
        touched = [ended_at] if row.ended_at is None else [ended_at, row.ended_at]
        if is_lost != row.is_lost:
            touched.append(row.created_at if row.bound_at is None else row.bound_at)
        usage.unsettle(connection, min(touched))
        usage.change(connection, row, **values)


# --- what no line says ---------------------------------------------------------------------------------------


def end_unseen(connection: Connection, cluster: str, at: Instant) -> Iterator[None]:
    """After a report of everything: pods that are not in it have ended. Yields after some."""
    by_workload: dict[str, list[str]] = {}
    for row in usage.open_pods(connection, cluster):
        by_workload.setdefault(row.workload, []).append(row.pod)
    names = list(by_workload)
    for first in range(0, len(names), WORKLOADS):
        some = names[first : first + WORKLOADS]
        known = workload_store.some(connection, some)
        for name in some:
            row = known.get(name)
            report = report_of(row) if row is not None and row.deleted_at is None else None
            reported = {pod.id for pod in report.pods if pod.outcome is None} if report is not None else set()
            for pod in by_workload[name]:
                if pod not in reported:
                    _end_unseen(connection, cluster, pod, at)
        yield


def _end_unseen(connection: Connection, cluster: str, pod: str, at: Instant) -> None:
    for row in usage.of_pod(connection, cluster, pod):
        if row.ended_at is None:
            ended_at = max(at, row.created_at)
            usage.unsettle(connection, ended_at)
            usage.change(connection, row, ended_at=ended_at, cause=UNSEEN)


def hand_over(connection: Connection, rows: Iterable[Any], now: Instant, project: Any, department: Any) -> None:
    """From now on, these pods are charged to this project and department (their rows). They go on otherwise."""
    for row in rows:
        from_at = max(now, row.created_at)
        usage.unsettle(connection, from_at)
        values = row._asdict()
        values |= {"project": project.name, "project_number": project.number}
        values |= {"department": department.name, "department_number": department.number}
        if from_at == row.created_at and row.part == 0:
            owner = ("project", "project_number", "department", "department_number")
            usage.change(connection, row, **{name: values[name] for name in owner})
            continue
        bound_at = None if row.bound_at is None else max(from_at, row.bound_at)
        usage.change(connection, row, ended_at=from_at)
        usage.add(connection, {**values, "part": row.part + 1, "created_at": from_at, "bound_at": bound_at})
