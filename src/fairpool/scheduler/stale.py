"""Broken gangs: groups that lost pods they need and hold on to the rest for nothing."""

from __future__ import annotations

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.scheduler.board import Board
from fairpool.scheduler.trial import Trial


def is_stale(board: Board, group: int) -> bool:
    """Has active pods, but in some pod set fewer than it needs, and none that already ended well."""
    sets, numbers = board.sets, board.sets_of[group]
    used = [sets.active[each] + sets.leaving[each] for each in numbers]
    short = any(pods < sets.minimum[each] for pods, each in zip(used, numbers, strict=True))
    return short and any(used) and not board.groups[group].succeeded


def grace_ends_at(board: Board, group: int) -> Instant | None:
    """When a stale group is ended; None: never."""
    if board.policy.stale_grace_s < 0:
        return None
    since = board.groups[group].stale_since
    return Instant((board.now if since is None else since) + board.policy.stale_grace_s * SECOND_MS)


def end_stale(trial: Trial) -> list[int]:
    """Evict the pods of groups that have been stale for too long; returns the groups."""
    board = trial.board
    ended = []
    for group in range(len(board.groups)):
        if not is_stale(board, group):
            continue
        ends_at = grace_ends_at(board, group)
        if ends_at is None or ends_at > board.now:
            continue
        ended.append(group)
        for number in board.sets_of[group]:
            for pod in board.sets.pods[number]:
                if trial.is_active(pod):
                    trial.evict(pod)
    return ended
