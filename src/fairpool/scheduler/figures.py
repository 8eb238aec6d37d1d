"""Figures of a queue for reports: quota, fair share and what it holds."""

from __future__ import annotations

import math

from fairpool.model.quantity import UNLIMITED
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.decision import QueueFigures
from fairpool.scheduler.queues import GPU


def queue_figures(columns: Columns, queue: int, held: float | None = None) -> QueueFigures:
    """GPUs of a queue, as it holds them now or as it held them."""
    queues = columns.queues
    quota = queues.quota[queue][GPU]
    return QueueFigures(
        queue=queues.ids[queue],
        quota_milli=UNLIMITED if quota == math.inf else int(quota),
        fair_share_milli=int(queues.fair[queue][GPU]),
        held_milli=int(queues.held[queue][GPU] if held is None else held),
    )
