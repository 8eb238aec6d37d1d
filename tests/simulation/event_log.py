"""Log of events and faults, printed when a seed fails."""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.cluster.history import Event
from fairpool.model.ids import SECOND_MS, Instant, WorkloadId

LINES_MAX = 60


class EventLog:
    """Every event that was recorded, and every fault of the loop."""

    def __init__(self, start: Instant) -> None:
        self._start = start
        self._lines: list[tuple[Instant, WorkloadId | None, str]] = []

    def note(self, now: Instant, line: str) -> None:
        self._lines.append((now, None, line))

    def record(self, now: Instant, events: Iterable[Event]) -> None:
        for event in events:
            place = f" on {event.node}" if event.node is not None else ""
            why = ": ".join(part for part in (event.cause, event.detail) if part)
            words = f"{event.pod or event.workload} {event.kind.value}{place}" + (f" ({why})" if why else "")
            self._lines.append((now, event.workload, words))

    def about(self, concerned: Iterable[WorkloadId]) -> str:
        """The last lines about these workloads, or about all."""
        wanted = set(concerned)
        lines = [
            f"{self._hours(at)}  {words}"
            for at, workload, words in self._lines
            if workload is None or not wanted or workload in wanted
        ]
        left_out = len(lines) - LINES_MAX
        head = [f"... {left_out} earlier lines"] if left_out > 0 else []
        return "\n".join(head + lines[-LINES_MAX:])

    def _hours(self, at: Instant) -> str:
        seconds = (at - self._start) // SECOND_MS
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
