"""`fairpool plan` with changes: the plans before and after them, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.cli.report import head, tree
from fairpool.cli.screen import Screen
from fairpool.model.ids import QueueId
from fairpool.model.quantity import gpus_text
from fairpool.replay.planned import GroupOutcome, Replay, counts, differing_outcomes
from fairpool.scheduler.decision import QueueFigures

BEFORE, AFTER = "AS SAVED", "CHANGED"
ABSENT = "is not there"


def draw(screen: Screen, before: Replay, after: Replay, changes: Sequence[str], title: str) -> None:
    """What is different, group by group and queue by queue."""
    head(screen, before.snapshot, title)
    screen.title("What if")
    for change in changes:
        screen.text(change, indent="  ")
    screen.title("In numbers")
    screen.table(("", BEFORE, AFTER), _number_rows(before, after))
    different = differing_outcomes(before, after)
    screen.title("Changed groups")
    if different and screen.width is None:
        for group, old, new in different:  # side by side, both reasons would make very long lines
            screen.text(group)
            screen.text(f"{BEFORE}: {_said(old)}", indent="  ")
            screen.text(f"{AFTER}: {_said(new)}", indent="  ")
    elif different:
        screen.table(("GROUP", BEFORE, AFTER), [(group, _said(old), _said(new)) for group, old, new in different])
    else:
        screen.text("None: the same groups start, are preempted and wait as before.")
    again = groups_with_other_figures(before, after)
    if again:
        wait = "group waits" if again == 1 else "groups wait"
        screen.text(f"{again} more {wait} for the same reason as before, with other figures.")
    screen.title("Queues (GPUs)")
    screen.table(("QUEUE", "QUOTA", "FAIR SHARE", "HELD NOW", "HELD AFTER"), _queue_rows(before, after))
    new_problems = [problem for problem in after.plan.problems if problem not in before.plan.problems]
    if new_problems:
        screen.title("Problems after the changes (planned around)")
        screen.table(("WHAT", "FIX"), [(problem.what, problem.fix) for problem in new_problems])


def groups_with_other_figures(before: Replay, after: Replay) -> int:
    """How many groups wait for the same reason on both sides, with other numbers in it."""
    old, new = before.plan.verdicts, after.plan.verdicts
    return sum(
        type(old[group].why) is type(new[group].why) and old[group] != new[group] for group in old if group in new
    )


def _said(outcome: GroupOutcome | None) -> str:
    return ABSENT if outcome is None else str(outcome)


def _number_rows(before: Replay, after: Replay) -> list[tuple[str, ...]]:
    old, new = counts(before.plan), counts(after.plan)
    rows = [
        ("groups that start", old.starting, new.starting),
        ("groups that start when preempted pods have stopped", old.promised, new.promised),
        ("pods that are preempted", old.taken, new.taken),
        ("groups that wait", old.waiting, new.waiting),
    ]
    return [(name, str(one), str(other)) for name, one, other in rows]


def _queue_rows(before: Replay, after: Replay) -> list[tuple[str, ...]]:
    old, new = before.figures(), after.figures()
    known = [*tree(after.snapshot), *((queue, depth) for queue, depth in tree(before.snapshot) if queue not in new)]
    return [
        (
            "  " * depth + queue,
            _pair(_quota(old.get(queue)), _quota(new.get(queue))),
            _pair(_fair(old.get(queue)), _fair(new.get(queue))),
            _pair(_held_now(before, queue), _held_now(after, queue)),
            _pair(_held_after(old.get(queue)), _held_after(new.get(queue))),
        )
        for queue, depth in known
    ]


def _pair(one: str, other: str) -> str:
    return one if one == other else f"{one} → {other}"


def _quota(figures: QueueFigures | None) -> str:
    return "-" if figures is None else gpus_text(figures.quota_milli)


def _fair(figures: QueueFigures | None) -> str:
    return "-" if figures is None else gpus_text(figures.fair_share_milli)


def _held_now(replayed: Replay, queue: QueueId) -> str:
    return gpus_text(replayed.held_before_milli.get(queue, 0))


def _held_after(figures: QueueFigures | None) -> str:
    return "-" if figures is None else gpus_text(figures.held_milli)
