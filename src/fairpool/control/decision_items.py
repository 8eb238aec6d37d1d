"""Decisions as the API shows them, rendered from the rows of the history. Pure."""

from __future__ import annotations

from typing import Any

from fairpool.api import decisions as wire
from fairpool.api.clusters import DecisionReport, EventReport, QueueStateReport
from fairpool.control.moments import iso
from fairpool.control.workload_documents import former_name
from fairpool.model.decision_record import DecisionKind
from fairpool.model.organization import DEPARTMENT_PREFIX
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, gpus_text

NODES_SHOWN = 3


def decision_item(row: Any, *, sees_all: bool) -> wire.Decision:
    """One decision, from an event with the place and name of its workload. Callers who see some projects only get no
    figures of other queues than its own project, beyond those in the reason."""
    line = EventReport.from_json(row.document)
    decision = line.decision
    assert decision is not None, "only events with a decision are selected"
    return wire.Decision(
        id=f"{row.cluster}/{row.number}",
        sequence=row.number,
        cluster_id=row.cluster,
        at=iso(row.at),
        kind=decision.kind,
        message=_message(line, decision),
        workload_id=row.workload,
        workload_name=row.name,
        project_id=former_name(row.project),
        department_id=former_name(row.department),
        submitted_by=row.submitted_by,
        pods=decision.pods,
        gpus=_gpus(decision.gpus_milli),
        lent_gpus=_gpus(decision.lent_milli),
        nodes=list(decision.nodes),
        project=_queue(decision.project, row.project, sees_all=sees_all),
        winner=decision.winner or None,
        wanted_gpus=_gpus(decision.wanted_milli) if decision.winner else None,
        taken=_queue(decision.taken, row.project, sees_all=sees_all),
        gaining=_queue(decision.gaining, row.project, sees_all=sees_all),
    )


def _message(line: EventReport, decision: DecisionReport) -> str:
    """What was decided. The reason of an eviction was written by the cluster, with the grace period."""
    places = _places(decision.nodes)
    amount = _amount(decision)
    match decision.kind:
        case DecisionKind.STARTED:
            return f"starts on {places}{amount}{_holds(decision)}"
        case DecisionKind.LENT:
            them = "it" if decision.gpus_milli <= WHOLE_GPU_MILLI else "them"
            return f"starts on {places}{amount}, {gpus_text(decision.lent_milli)} of {them} lent{_holds(decision)}"
        case DecisionKind.PROMISED:
            return f"is assigned to {places}{amount}, and starts when the pods there have stopped"
        case DecisionKind.WITHDRAWN:
            return f"is no longer assigned to {places}: {line.detail}"
        case DecisionKind.TAKEN_BACK | DecisionKind.PREEMPTED | DecisionKind.MOVED | DecisionKind.STOPPED:
            return f"is stopped on {places}{amount}: {line.detail}"


def _amount(decision: DecisionReport) -> str:
    if not decision.gpus_milli:
        return ""
    noun = "GPU" if decision.gpus_milli <= WHOLE_GPU_MILLI else "GPUs"
    return f" with {gpus_text(decision.gpus_milli)} {noun}"


def _holds(decision: DecisionReport) -> str:
    mine = decision.project
    if mine is None or not decision.gpus_milli:
        return ""
    quota = "unlimited" if mine.quota_milli == UNLIMITED else gpus_text(mine.quota_milli)
    return f": {mine.queue} holds {gpus_text(mine.held_milli)} (quota {quota})"


def _places(nodes: tuple[str, ...]) -> str:
    more = f" and {len(nodes) - NODES_SHOWN} more nodes" if len(nodes) > NODES_SHOWN else ""
    return ", ".join(nodes[:NODES_SHOWN]) + more


def _queue(state: QueueStateReport | None, project: str, *, sees_all: bool) -> wire.QueueAtDecision | None:
    if state is None:
        return None
    name, is_department = state.queue.removeprefix(DEPARTMENT_PREFIX), state.queue.startswith(DEPARTMENT_PREFIX)
    if not sees_all and state.queue != project:
        return wire.QueueAtDecision(name=name, is_department=is_department, is_hidden=True)
    return wire.QueueAtDecision(
        name=name,
        is_department=is_department,
        quota=None if state.quota_milli == UNLIMITED else _gpus(state.quota_milli),
        fair_share=_gpus(state.fair_share_milli),
        allocated=_gpus(state.held_milli),
    )


def _gpus(milli: int) -> float:
    return milli / WHOLE_GPU_MILLI
