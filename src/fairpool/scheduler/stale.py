"""Broken gangs: groups that lost pods they need and hold on to the rest for nothing."""

from __future__ import annotations

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.scheduler.board import Board
from fairpool.scheduler.trial import Trial


def stale_groups(board: Board) -> list[int]:
    """Groups that have active pods, but in some pod set fewer than they need, and none that already ended well."""
    return sorted(group for group in board.sets.broken_groups() if not board.groups[group].succeeded)


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
    for group in stale_groups(board):
        ends_at = grace_ends_at(board, group)
        if ends_at is None or ends_at > board.now:
            continue
        ended.append(group)
        for number in board.sets_of[group]:
            for pod in board.sets.pods[number]:
                if trial.is_active(pod):
                    trial.evict(pod)
    return ended
