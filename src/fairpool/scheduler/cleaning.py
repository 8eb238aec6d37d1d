"""What is wrong with a snapshot, and how it is planned around."""

from __future__ import annotations

from fairpool.model.problem import Problem
from fairpool.scheduler.snapshot import Snapshot


def clean(snapshot: Snapshot) -> tuple[Snapshot, list[Problem]]:
    return snapshot, []
