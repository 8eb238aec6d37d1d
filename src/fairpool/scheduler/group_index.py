"""Sorted index of groups by leaf queue, kept up to date during a plan.

Sorting all groups anew for every search would cost more than the searches. An index is sorted once; groups that have
changed since are few and kept apart. It is brought up to date between searches, never in the middle of one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable

from fairpool.scheduler.order import GroupKey
from fairpool.scheduler.trial import Trial


class GroupIndex:
    """Groups that belong, each with its key."""

    def __init__(
        self, trial: Trial, groups: Iterable[int], belongs: Callable[[int], bool], key: Callable[[int], GroupKey]
    ) -> None:
        self.trial = trial
        self.belongs = belongs
        self.key = key
        self.keys: dict[int, GroupKey] = {}
        self.sorted: dict[int, list[GroupKey]] = {}
        self.changed: dict[int, list[GroupKey]] = {}
        """Groups whose key is not the one they were sorted by."""
        self.begins: dict[int, int] = {}
        """How many at the beginning of a sorted list are no longer there."""
        self._run_ends: dict[int, list[int]] = {}
        queue_of = trial.columns.queue_of
        for group in groups:
            mine = self.keys[group] = key(group)
            self.sorted.setdefault(queue_of[group], []).append(mine)
        for line in self.sorted.values():
            line.sort()
        self._read = len(trial.touched)

    def only(self, groups: Iterable[int]) -> GroupIndex:
        """An index of some of the groups, as they are now."""
        return GroupIndex(self.trial, filter(self.keys.__contains__, groups), self.belongs, self.key)

    def refresh(self) -> None:
        """Take note of groups that have moved."""
        touched = self.trial.touched
        if len(touched) == self._read:
            return
        for group in dict.fromkeys(touched[self._read :]):
            was = self.keys.get(group)
            now = self.key(group) if self.belongs(group) else None
            if was is not None or now is not None:
                self._replace(group, was, now)
        self._read = len(touched)

    def run_ends(self, leaf: int, kind: Callable[[int], Hashable]) -> list[int]:
        """For each place in the sorted line of a leaf queue, where the run of groups of the same kind ends."""
        ends = self._run_ends.get(leaf)
        if ends is None:
            line = self.sorted.get(leaf, [])
            ends = [0] * len(line)
            end, last = len(line), None
            for at in range(len(line) - 1, -1, -1):
                this = kind(abs(line[at][-1]))
                if this != last:
                    end, last = at + 1, this
                ends[at] = end
            self._run_ends[leaf] = ends
        return ends

    def _replace(self, group: int, was: GroupKey | None, now: GroupKey | None) -> None:
        queue = self.trial.columns.queue_of[group]
        changed = self.changed.setdefault(queue, [])
        if was is not None:
            del self.keys[group]
            at = bisect_left(changed, was)
            if at < len(changed) and changed[at] == was:
                del changed[at]
        if now is not None:
            self.keys[group] = now
            insort(changed, now)

    def leaves(self) -> list[int]:
        """Leaf queues that may have a group, in id order."""
        return sorted(self.sorted.keys() | self.changed.keys())

    def cursor(self, leaf: int) -> Cursor:
        """Go through the groups of one leaf queue."""
        line = self.sorted.get(leaf, [])
        begin = self.begins.get(leaf, 0)
        while begin < len(line) and self.keys.get(abs(line[begin][-1])) != line[begin]:
            begin += 1
        self.begins[leaf] = begin
        return Cursor(self.keys, line, begin, self.changed.get(leaf, []))


class Cursor:
    """A place in a leaf queue's line of groups."""

    __slots__ = ("_at", "_changed", "_changed_at", "_keys", "_line")

    def __init__(self, keys: dict[int, GroupKey], line: list[GroupKey], at: int, changed: list[GroupKey]) -> None:
        self._keys = keys
        self._line = line
        self._at = at
        self._changed = changed
        self._changed_at = 0

    def peek(self) -> GroupKey | None:
        """The key of the group here; None at the end. The group is the last part of the key, by absolute value."""
        line, keys = self._line, self._keys
        at = self._at
        while at < len(line) and keys.get(abs(line[at][-1])) != line[at]:
            at += 1
        self._at = at
        other = self._changed[self._changed_at] if self._changed_at < len(self._changed) else None
        if at == len(line):
            return other
        return line[at] if other is None or line[at] < other else other

    def advance(self) -> None:
        """Go on to the next group."""
        here = self.peek()
        if self._at < len(self._line) and self._line[self._at] == here:
            self._at += 1
        if self._changed_at < len(self._changed) and self._changed[self._changed_at] == here:
            self._changed_at += 1

    def skip_run(self, ends: list[int], before: GroupKey | None) -> None:
        """Go on to the next group of another kind, or to the first that comes after a key."""
        if self._changed_at < len(self._changed) or self._at >= len(self._line):
            self.advance()
            return
        end = ends[self._at]
        if before is not None:
            end = min(end, bisect_left(self._line, before, self._at, end))
        self._at = max(end, self._at + 1)
