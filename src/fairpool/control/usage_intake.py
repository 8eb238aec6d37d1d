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
"""The cause of an end that no line reported."""
WORKLOADS: Final = 16
"""Looked up with one statement."""
HELD: Final = frozenset({"adopted", "bound"})
"""Kinds of lines that say that a pod holds something from then on."""
KINDS: Final = HELD | {"created", "ended"}

Row = dict[str, Any]


class PodParts:
    """The rows of one pod, as they are and as they become. They follow each other in time: a pod that goes to another
    project with its workload has a row for each."""

    def __init__(self, stored: Iterable[Row]) -> None:
        self.stored = list(stored)
        self.rows = [dict(row) for row in self.stored]

    def bind(self, line: EventReport) -> None:
        """It holds something since then. All parts have its amounts."""
        said = line.usage
        if said is None or said.bound_at is None:
            return
        if line.kind in HELD and self.rows[-1]["cause"] == UNSEEN:  # it was only out of sight
            self.rows[-1] |= {"ended_at": None, "cause": ""}
        for row in self.rows:
            row |= {"gpus_milli": said.gpus_milli, "cpu_milli": said.cpu_milli, "memory_bytes": said.memory_bytes}
            row |= {"pool": said.pool, "gpu_type": said.gpu_type, "node": line.node or row["node"]}
            if row["part"] == 0:
                row["created_at"] = said.created_at  # another than before, if the cluster's clock was set
            if row["ended_at"] is None or said.bound_at < row["ended_at"] or line.kind == "ended":
                row["bound_at"] = said.bound_at if row["part"] == 0 else max(said.bound_at, row["created_at"])

    def end(self, line: EventReport) -> None:
        """It ended then, whatever was assumed before."""
        # A part that begins after that was made before its end was known here. The first may not be part 0: old parts
        # are deleted when they are summed.
        self.rows = [row for row in self.rows if row is self.rows[0] or row["created_at"] < line.at]
        is_lost = line.cause in LOST and line.outcome is not Outcome.OK
        for row in self.rows:
            row["is_lost"] = is_lost
        last = self.rows[-1]
        # By a clock that was set back, it ended before it began: then it held nothing.
        begin = last["created_at"] if last["bound_at"] is None else last["bound_at"]
        last |= {"ended_at": max(line.at, begin), "cause": line.cause}

    def first_change(self) -> int | None:
        """Up to when all of it is as it was; None: it is the same."""
        if self.rows == self.stored:
            return None
        before = {row["part"]: row for row in self.stored}
        after = {row["part"]: row for row in self.rows}
        moments: list[int] = []
        for part in before.keys() | after.keys():
            old, new = before.get(part), after.get(part)
            if old is None or new is None:
                moments.append(int((old or new or {})["created_at"]))
            elif old != new:
                moments.append(_first_difference(old, new))
        return min(moments)


def _first_difference(old: Row, new: Row) -> int:
    """From when on two versions of a row count differently."""
    differs = {name for name in old if old[name] != new[name]} - {"cause"}
    bound = [row["bound_at"] for row in (old, new) if row["bound_at"] is not None]
    if differs - {"ended_at", "bound_at", "is_lost"}:
        return int(min(old["created_at"], new["created_at"]))
    if differs & {"bound_at", "is_lost"} and bound:
        return int(min(bound))
    ends = [row["ended_at"] for row in (old, new) if row["ended_at"] is not None]
    return int(min(ends, default=old["created_at"]))


def take_usage(connection: Connection, cluster: str, lines: Sequence[EventReport]) -> None:
    """Write down what these lines say about usage. They are new here, and in order."""
    lines_of_pods = [
        line
        for line in lines
        if line.kind in KINDS and line.pod is not None and place_of(line.workload, line.pod) is not None
    ]
    if not lines_of_pods:
        return
    owners = workload_store.some(connection, list(dict.fromkeys(line.workload for line in lines_of_pods)))
    found = usage.of_pods(connection, cluster, list(dict.fromkeys(line.pod for line in lines_of_pods if line.pod)))
    parts = {pod: PodParts(rows) for pod, rows in found.items()}
    for line in lines_of_pods:
        if line.pod is None or (line.usage is None and line.pod not in parts):
            continue  # of a cluster of the previous version, which does not say what pods hold
        if line.pod not in parts:
            parts[line.pod] = PodParts([])
            parts[line.pod].rows.append(_first_row(connection, cluster, line, owners.get(line.workload)))
        parts[line.pod].bind(line)
        if line.kind == "ended":
            parts[line.pod].end(line)
    _write(connection, parts.values())


def _first_row(connection: Connection, cluster: str, line: EventReport, owner: Any) -> Row:
    """A pod that is new here. Of a workload that is not known here (any more), its cluster knows the project."""
    said = line.usage
    assert said is not None, "a line without usage begins nothing"
    project = owner.project if owner is not None else said.project
    found = organization.project(connection, project)
    if owner is None and found is not None and found.cluster != cluster:
        project, found = "", None  # no cluster charges the projects of another
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


def _write(connection: Connection, changed: Iterable[PodParts]) -> None:
    moments: list[int] = []
    new: list[Row] = []
    for parts in changed:
        moment = parts.first_change()
        if moment is None:
            continue
        moments.append(moment)
        before = {row["part"]: row for row in parts.stored}
        for row in parts.rows:
            old = before.pop(row["part"], None)
            if old is None:
                new.append(row)
            elif old != row:
                usage.change(connection, old, {name: value for name, value in row.items() if old[name] != value})
        for old in before.values():
            usage.drop(connection, old)
    usage.add_all(connection, new)
    if moments:
        usage.unsettle(connection, min(moments))


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
        gone = []
        for name in some:
            row = known.get(name)
            report = report_of(row) if row is not None and row.deleted_at is None else None
            reported = {pod.id for pod in report.pods if pod.outcome is None} if report is not None else set()
            gone += [pod for pod in by_workload[name] if pod not in reported]
        _end_unseen(connection, cluster, gone, at)
        yield


def _end_unseen(connection: Connection, cluster: str, pods: list[str], at: Instant) -> None:
    parts = [PodParts(rows) for rows in usage.of_pods(connection, cluster, pods).values()]
    for each in parts:
        last = each.rows[-1]
        if last["ended_at"] is None:
            last |= {"ended_at": max(at, last["created_at"]), "cause": UNSEEN}
    _write(connection, parts)


def hand_over(connection: Connection, rows: Iterable[Row], now: Instant, project: Any, department: Any) -> None:
    """From now on, these pods are charged to this project and department (their rows). They go on otherwise."""
    owner = {"project": project.name, "project_number": project.number}
    owner |= {"department": department.name, "department_number": department.number}
    changed = []
    for row in rows:
        parts = PodParts([row])
        last, from_at = parts.rows[0], max(now, row["created_at"])
        if from_at == row["created_at"]:
            last |= owner
        else:
            bound_at = None if row["bound_at"] is None else max(from_at, row["bound_at"])
            parts.rows.append({**last, **owner, "part": row["part"] + 1, "created_at": from_at, "bound_at": bound_at})
            last["ended_at"] = from_at
        changed.append(parts)
    _write(connection, changed)
