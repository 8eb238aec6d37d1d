"""Units of work that read stored samples: what some subjects did over a time, and the latest of many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from fairpool.control.store import series
from fairpool.control.store.database import Connection
from fairpool.metrics.block import NotABlock, Run, Values, averaged_run, dense, unpacked
from fairpool.metrics.resolution import FINE, Resolution, finer
from fairpool.metrics.time_range import SeriesSubject

Runs = dict[str, list[Run]]
"""By subject; their slots are counted from 1970."""
RecentSamples = dict[str, dict[str, Values]]
"""By group and subject."""
LatestSlots = dict[str, dict[str, list[float]]]
"""The same of one slot: a value for each column, the coverage first; NaN: not measured."""
IsMeasured = Callable[[str, Values], bool]
"""Whether a sample of a subject has something that was measured, and not only what is declared of it."""


class LatestSample(NamedTuple):
    """A sample, and when its slot begins."""

    at_s: int
    row: Values
    """With the coverage as its first column."""


class SeriesReader:
    """Reads within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.unreadable = 0
        """Blocks that are damaged. What they held is missing in what was read."""

    def values(self, grp: str, names: Sequence[str], resolution: Resolution, start_s: int, slots: int) -> list[Values]:
        """The slots of each of these subjects of a group, from `start_s` on, where a slot begins."""
        found = self.runs(grp, frozenset(names), resolution, start_s, start_s + slots * resolution.step_s)
        return [dense(found.get(name, ()), start_s // resolution.step_s, slots) for name in names]

    def recent(self, prefix: str, start_s: int, slots: int) -> RecentSamples:
        """The finest slots of all subjects of the groups whose names begin so, by group and subject."""
        runs: dict[str, Runs] = {}
        for each in series.recent_blocks(self._connection, prefix, start_s):
            self._add(runs.setdefault(each.grp, {}), FINE, each.start_s, each.data, None)
        for each in series.recent_ticks(self._connection, prefix, start_s):
            self._add(runs.setdefault(each.grp, {}), FINE, FINE.block_start(each.start_s), each.data, None)
        first = start_s // FINE.step_s
        return {
            grp: {name: dense(its, first, slots) for name, its in subjects.items()} for grp, subjects in runs.items()
        }

    def latest_slots(self, prefix: str, since_s: int) -> LatestSlots:
        """The latest slot since then of each of these groups, with all subjects that it has there."""
        found: LatestSlots = {}
        for each in series.recent_blocks(self._connection, prefix, since_s):
            first = (since_s - each.start_s) // FINE.step_s
            self._add_latest(found, each.grp, each.data, first)
        newest = {each.grp: each.data for each in series.recent_ticks(self._connection, prefix, since_s)}
        for grp, data in newest.items():
            self._add_latest(found, grp, data, 0)
        return found

    def _add_latest(self, found: LatestSlots, grp: str, data: bytes, first: int) -> None:
        try:
            block = unpacked(data)
        except NotABlock:
            self.unreadable += 1
            return
        newest = max((run.end for run in block.values()), default=0)
        if newest > first:
            found[grp] = {name: run.values[:, -1].tolist() for name, run in block.items() if run.end == newest}

    def latest(
        self, prefix: str, wanted: Mapping[str, Collection[str]], is_measured: IsMeasured, since_s: int
    ) -> dict[SeriesSubject, LatestSample]:
        """What was last measured of these subjects, by group, if it was since then; the groups' names begin so."""
        missing = {grp: set(names) for grp, names in wanted.items() if names}
        found: dict[SeriesSubject, LatestSample] = {}

        def take(grp: str, runs: Runs) -> None:
            names = missing.get(grp, set())
            for name, (run,) in runs.items():
                at_s, row = (run.end - 1) * FINE.step_s, run.values[:, -1]
                if at_s >= since_s and is_measured(name, row):
                    found[SeriesSubject(grp, name)] = LatestSample(at_s, row)
                    names.discard(name)
            if not names:
                missing.pop(grp, None)

        for at_s in series.tick_moments(self._connection, since_s):
            for each in series.ticks_at(self._connection, prefix, list(missing), at_s) if missing else ():
                if each.grp in missing:
                    take(each.grp, self._alone(FINE.block_start(at_s), each.data, missing[each.grp]))
        for each in series.recent_blocks(self._connection, prefix, since_s) if missing else ():
            if each.grp in missing:
                take(each.grp, self._alone(each.start_s, each.data, missing[each.grp]))
        return found

    def _alone(self, start_s: int, data: bytes, names: Collection[str]) -> Runs:
        """The runs of one block."""
        runs: Runs = {}
        self._add(runs, FINE, start_s, data, names)
        return runs

    def runs(self, grp: str, names: Collection[str], resolution: Resolution, start_s: int, end_s: int) -> Runs:
        """From blocks of this resolution as far as they are made, and for the rest from finer ones."""
        found: Runs = {}
        for each in series.blocks_of(self._connection, grp, resolution, start_s, end_s):
            self._add(found, resolution, each.start_s, each.data, names)
        source = finer(resolution)
        if source is None:
            for each in series.ticks_of(self._connection, grp, start_s, end_s):
                self._add(found, resolution, resolution.block_start(each.start_s), each.data, names)
            return found
        made_s = max(series.until(self._connection, resolution.step_s) or 0, start_s)
        if made_s < end_s:
            rest = self.runs(grp, names, source, made_s - made_s % resolution.step_s, end_s)
            for name, runs in rest.items():
                found.setdefault(name, []).append(averaged_run(runs, resolution.step_s // source.step_s))
        return found

    def _add(
        self, found: Runs, resolution: Resolution, start_s: int, data: bytes, names: Collection[str] | None
    ) -> None:
        try:
            block = unpacked(data, names)
        except NotABlock:
            self.unreadable += 1
            return
        for name, run in block.items():
            found.setdefault(name, []).append(Run(start_s // resolution.step_s + run.first, run.values))
