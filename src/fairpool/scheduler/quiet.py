"""How long a plan stands: until when the passing of time alone cannot change it."""

from __future__ import annotations

from collections.abc import Iterator

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.scheduler.board import NOWHERE, Board
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.stale import grace_ends_at, stale_groups


def quiet_until(placer: Placer) -> Instant | None:
    """Until when the passing of time alone cannot change the plan; None: for ever."""
    board = placer.board
    moments = [*_grace_ends(board), *_promise_ends(placer)]
    if any(board.sets.waiting):
        moments += _protection_ends(board)
    return min((moment for moment in moments if moment > board.now), default=None)


def _grace_ends(board: Board) -> Iterator[Instant]:
    for group in stale_groups(board):
        ends = grace_ends_at(board, group)
        if ends is not None:
            yield ends


def _promise_ends(placer: Placer) -> Iterator[Instant]:
    """When promises, those that are kept and those that are not, would have been given up for their age."""
    board = placer.board
    if board.policy.durable_promises:
        for pod in placer.trial.was_promised:
            yield Instant((board.pods[pod].promised_at or 0) + board.policy.promise_lifetime_s * SECOND_MS)


def _protection_ends(board: Board) -> Iterator[Instant]:
    """Every moment at which some minimum runtime of some group that could be a victim ends."""
    policy = board.policy
    for group, row in enumerate(board.groups):
        queue = board.queue_of[group]
        if row.started_at is None or queue == NOWHERE or board.is_non_preemptible(group):
            continue
        seconds = {policy.default_preempt_min_runtime_s, policy.default_reclaim_min_runtime_s}
        for level in board.queues.path[queue]:
            owner = board.queues.rows[level]
            seconds |= {owner.preempt_min_runtime_s or 0, owner.reclaim_min_runtime_s or 0}
        for each in sorted(seconds):
            yield Instant(row.started_at + each * SECOND_MS)
