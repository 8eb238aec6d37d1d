"""Groups that wait, and the class of each, kept up to date as pods move.

Groups of one class wait as a whole, and differ in nothing but their place in the line of their queue: what one of them
finds, all of them find.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fairpool.scheduler.chunk import is_ready
from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.fit import Fit
from fairpool.scheduler.trial import Trial


class WaitingGroups:
    """All groups that have a pod without a place."""

    def __init__(self, trial: Trial, fit: Fit, expired: Collection[int]) -> None:
        self._trial = trial
        self._columns = trial.columns
        self._fit = fit
        self._expired = expired
        self._startable: list[int] = []
        self._class_of: dict[int, int] = {}
        self._one_of_each: dict[int, int] | None = None
        self._kinds: dict[tuple[object, ...], int] = {}
        self._read: int | None = None
        """How many moves are taken into account; None: nothing was looked at yet."""

    def startable(self) -> Sequence[int]:
        """Groups that have waiting pods, enough pods to start, and a queue; sorted."""
        self._catch_up()
        return self._startable

    def class_of(self) -> Mapping[int, int]:
        """The class of each group: below 0, or for a group that is like no other its own number."""
        self._catch_up()
        return self._class_of

    def one_of_each(self) -> Collection[int]:
        """Of the groups that could start, one of each class."""
        self._catch_up()
        if self._one_of_each is None:
            class_of = self._class_of
            self._one_of_each = {class_of[group]: group for group in self._startable}
        return self._one_of_each.values()

    def _catch_up(self) -> None:
        touched = self._trial.touched
        if self._read == len(touched):
            return
        if self._read is None:
            self._look_at(self._trial.unplaced_groups())
        else:
            moved = set(touched[self._read :])
            for group in moved:
                self._class_of.pop(group, None)
            self._startable = [group for group in self._startable if group not in moved]
            self._look_at(moved.intersection(self._trial.unplaced_groups()))
            self._startable.sort()
        self._one_of_each = None
        self._read = len(touched)

    def _look_at(self, groups: Iterable[int]) -> None:
        columns, kinds, expired = self._columns, self._kinds, self._expired
        sets, rules, queue_of, shape_of = columns.sets, columns.rules, columns.queue_of, columns.shape_of
        particular = self._fit.particular_shapes
        singular = {*columns.claiming_pods, *columns.nominated_pods}
        for group in groups:
            number = columns.first_set[group]
            pods, waiting = sets.pods[number], sets.waiting[number]
            kind = group
            if (
                columns.is_plain[group]
                and waiting == len(pods)
                and not columns.groups[group].avoid
                and group not in expired
                and (not singular or singular.isdisjoint(pods))
            ):
                shapes = (shape_of[pods[0]],) if len(pods) == 1 else tuple([shape_of[pod] for pod in pods])
                if not particular or particular.isdisjoint(shapes):
                    rule = rules[group]
                    key = (queue_of[group], shapes, rule.priority, rule.preemptible, sets.minimum[number])
                    kind = kinds.setdefault(key, -1 - len(kinds))
            self._class_of[group] = kind
            if queue_of[group] == NOWHERE:
                continue
            if len(columns.sets_of[group]) == 1:
                if waiting and sets.active[number] + waiting >= sets.minimum[number]:
                    self._startable.append(group)
            elif any(sets.waiting[each] for each in columns.sets_of[group]) and is_ready(columns, group):
                self._startable.append(group)
