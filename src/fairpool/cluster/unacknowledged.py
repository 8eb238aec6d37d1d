"""Reports of one kind by name: their current values, which of them are acknowledged, and how far all were sent.

Rows are sent in two ways. Normally those are taken that differ from what was acknowledged. To send everything, all
names are gone through in their order, a slice at a time; what changes behind the slice meanwhile is sent afterwards.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from fairpool.api.clusters import NameRange

Report = TypeVar("Report")
Key = tuple[str, ...]


class Unacknowledged(Generic[Report]):
    """Reports of one kind."""

    def __init__(self, weigh: Callable[[Report], int] = lambda report: 1, *, reports_removals: bool = True) -> None:
        self._weigh, self._reports_removals = weigh, reports_removals
        self._current: dict[Key, Report] = {}
        self._acknowledged: dict[Key, Report | None] = {}
        """None: sent, and the answer was lost."""
        self._unconfirmed: dict[Key, None] = {}  # a set that keeps its order
        self._sent: dict[Key, Report | None] = {}
        """What is in the piece on its way; None: that it is no more."""
        self._names: list[Key] | None = None
        """All names in their order, while everything is being sent."""
        self._covered: Key | None = ()
        """How far; None: to the end."""

    def change(self, changed: Mapping[Key, Report | None]) -> None:
        """Set current values; None: there is none any more."""
        for key, report in changed.items():
            if report is not None:
                if self._names is not None and key not in self._current:
                    insort(self._names, key)
                self._current[key] = report
                self._unconfirmed[key] = None
                continue
            self._current.pop(key, None)
            if self._reports_removals:
                self._unconfirmed[key] = None
            else:
                self._acknowledged.pop(key, None)
                self._unconfirmed.pop(key, None)

    def replace(self, reports: Mapping[Key, Report]) -> None:
        """Set all current values. What is unchanged should be the same object, then comparing costs nothing."""
        current = self._current
        self.change({key: report for key, report in reports.items() if current.get(key) is not report})
        if len(current) > len(reports):
            self.change(dict.fromkeys(current.keys() - reports.keys()))

    @property
    def weight(self) -> int:
        """Of everything."""
        return sum(map(self._weigh, self._current.values()))

    # --- what changed ---

    def settled(self) -> list[Key]:
        """Takes out what may have changed and is as it was acknowledged. Returns the names, of what there is."""
        same = [key for key in self._unconfirmed if self._is_known(key)]
        for key in same:
            del self._unconfirmed[key]
        return [key for key in same if key in self._current]

    def _is_known(self, key: Key) -> bool:
        report = self._current.get(key)
        if report is None:
            return key not in self._acknowledged
        return self._acknowledged.get(key) == report

    def take_changes(self, room: int) -> tuple[list[Report], list[Key]]:
        """Rows to send, and names that are no more, as many as there is room for."""
        rows: list[Report] = []
        removed: list[Key] = []
        for key in self._unconfirmed:
            if room <= 0:
                break
            report = self._sent[key] = self._current.get(key)
            if report is None:
                removed.append(key)
            else:
                rows.append(report)
            room -= 1 if report is None else self._weigh(report)
        return rows, removed

    @property
    def has_changes(self) -> bool:
        return bool(self._unconfirmed)

    def report_again(self) -> None:
        """From now on nothing counts as acknowledged, and all of it has changed."""
        self._acknowledged.clear()
        self._sent.clear()
        self._unconfirmed = dict.fromkeys(self._current)

    # --- everything ---

    def begin(self) -> None:
        """From now on nothing counts as acknowledged, and everything is sent."""
        self._acknowledged.clear()
        self._unconfirmed.clear()
        self._sent.clear()
        self._names, self._covered = sorted(self._current), ()

    def take_slice(self, room: int) -> tuple[list[Report], NameRange | None]:
        """The next rows, and the range they cover; None: all were sent before, or there is no room."""
        if self._names is None or self._covered is None or room <= 0:
            return [], None
        first = last = bisect_right(self._names, self._covered)
        while last < len(self._names) and room > 0:
            report = self._current.get(self._names[last])
            room -= 0 if report is None else self._weigh(report)
            last += 1
        rows = {key: self._current[key] for key in self._names[first:last] if key in self._current}
        self._sent = dict(rows)
        through = self._names[last - 1] if last < len(self._names) else None
        return list(rows.values()), NameRange(after=self._covered, through=through)

    def ends_with(self, span: NameRange | None) -> bool:
        """Whether all is sent with this slice."""
        return self._covered is None if span is None else span.through is None

    def end(self) -> None:
        """Everything is sent."""
        self._names = None

    # --- what became of it ---

    def acknowledge(self, span: NameRange | None) -> list[Key]:
        """What was sent is stored, and a range of names covered. Returns the names whose current report is stored."""
        stored = []
        for key, report in self._sent.items():
            if report is None:
                self._acknowledged.pop(key, None)
            else:
                self._acknowledged[key] = report
            if self._current.get(key) is report:
                self._unconfirmed.pop(key, None)
                stored.append(key)
        self._sent = {}
        if span is not None:
            self._covered = span.through
        return stored

    def mark_unknown(self) -> None:
        """Whether what was sent is stored is unknown."""
        for key in self._sent:
            self._acknowledged[key] = None
            self._unconfirmed[key] = None
        self._sent = {}
