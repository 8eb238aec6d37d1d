"""Which notifications a change of a workload's status is worth, and their words. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairpool.model.ids import SECOND_MS
from fairpool.model.pod_record import Cause
from fairpool.model.status import WorkloadPhase

CATEGORY: Final = "workload"
TYPES: Final[Mapping[str, str]] = {
    "started": "A job of yours runs",
    "finished": "A job of yours completed",
    "failed": "A job of yours failed, and is not tried again",
    "preempted": "A job of yours gave its GPUs back to another project",
    "near-limit": "A job of yours will soon be stopped by a time or idle limit",
}
NEAR_LIMIT: Final = "near-limit"
AHEAD_MS: Final = 15 * 60 * SECOND_MS
"""How long before the end of a time limit its owner is told."""
IN_PHASE: Final = {
    WorkloadPhase.RUNNING: "started",
    WorkloadPhase.COMPLETED: "finished",
    WorkloadPhase.FAILED: "failed",
}
LINES_MAX: Final = 50
"""Notifications that one mail lists; the others are counted."""


@dataclass(frozen=True, slots=True)
class Note:
    """One notification, as it is sent."""

    id: str
    event: str
    workload: str
    workload_id: str
    project: str
    at: str


def event_of(before: str, now: str, reason: str | None) -> str | None:
    """What a workload that was in one phase and is in another is worth telling; None: nothing."""
    if before == now:
        return None
    if reason == Cause.PREEMPTED and before in (WorkloadPhase.RUNNING, WorkloadPhase.DEGRADED):
        return "preempted"
    if now == WorkloadPhase.RUNNING and before == WorkloadPhase.DEGRADED:
        return None
    return IN_PHASE.get(WorkloadPhase(now))


def warned_from(started_at: int, limit_s: int) -> int:
    """From when on the owner is told that a job which started then will reach a limit: a quarter of an hour before, and
    in the last quarter of a shorter limit."""
    return started_at + limit_s * SECOND_MS - min(AHEAD_MS, limit_s * SECOND_MS // 4)


def note_id(workload: str, event: str, since: int, owner: str, channel: str) -> str:
    """The same for the same event, however often it is reported or sent."""
    return hashlib.sha256("\n".join((workload, event, str(since), owner, channel)).encode()).hexdigest()[:32]


def subject_of(notes: Sequence[Note]) -> str:
    """The subject of a mail."""
    if len(notes) == 1:
        event = notes[0].event
        return f"Fairpool: job {notes[0].workload} {'is near a time or idle limit' if event == NEAR_LIMIT else event}"
    counts = {event: sum(note.event == event for note in notes) for event in TYPES}
    return "Fairpool: " + ", ".join(f"{count} {event}" for event, count in counts.items() if count)


def text_of(notes: Sequence[Note], total: int) -> str:
    """The text of a mail: a line for each of the first, and how many more there are."""
    lines = [f"{note.at}  {note.event:<9}  {note.project}/{note.workload}" for note in notes[:LINES_MAX]]
    if total > len(lines):
        lines.append(f"and {total - len(lines)} more: runai notifications log")
    lines += ["", "To stop these messages: runai notifications list, then runai notifications unsubscribe ID"]
    return "\n".join(lines) + "\n"
