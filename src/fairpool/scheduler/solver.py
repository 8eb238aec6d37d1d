"""The search for victims, shared by consolidate, reclaim and preempt.

Victims are added one unit at a time, in the order of `victim_line.py`, until a simulation shows that the waiting group
gets its places (`victim_search.py`), for its first pod, then for its first two and so on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

from fairpool.scheduler import equivalence
from fairpool.scheduler.chunk import next_chunk
from fairpool.scheduler.columns import REAL
from fairpool.scheduler.eviction_simulation import EvictionSimulation
from fairpool.scheduler.gang_proposal import propose
from fairpool.scheduler.group_index import GroupIndex
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.queues import Vector
from fairpool.scheduler.victim_line import VictimLines
from fairpool.scheduler.victim_search import Solution, Validator, VictimSearch
from fairpool.scheduler.victims import Candidates, possible_victims
from fairpool.scheduler.walk import waiting_index


class Solver:
    """Searches on one placer's trial; leaves the moves of an accepted solution in place."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.trial = placer.trial
        self.columns = placer.columns
        self.needs: dict[int, Vector] = {}
        """What waiting groups ask for."""
        self.has_searched = False
        """Whether victims were searched for some group."""
        self._failed: dict[Hashable, int] = {}
        self._common: VictimLines | None = None
        self._read = len(self.trial.touched)

    @cached_property
    def possible_victims(self) -> GroupIndex:
        """Groups that may be victims, sorted at first use and kept for all passes."""
        return possible_victims(self.trial, self.placer.winners)

    @cached_property
    def waiting(self) -> GroupIndex:
        """Groups that wait, likewise."""
        return waiting_index(self.trial)

    def begin(self) -> None:
        """Get ready for a pass: what failed by the rules of another may succeed by those of this one."""
        self._failed.clear()
        self._common = None

    def solve(self, group: int, candidates: Candidates, accepts: Validator) -> Solution | None:
        """Find victims so that the next chunk of a group is placed."""
        chunk = next_chunk(self.trial, group)
        if not chunk:
            return None
        self.has_searched = True
        kind = equivalence.equivalence_class(self.placer, group, chunk)
        if kind is not None and self._failed.get(kind) == self.trial.mark():
            return None
        self.refresh()
        start = self.trial.mark()
        found = self._find(group, chunk, candidates, accepts)
        if found is None:
            self.trial.undo(start)
            if kind is not None:
                self._failed[kind] = start
            return None
        if self.columns.policy.whole_gang_restarts:
            self._restart_broken(found)
        if self.columns.policy.winners_keep:
            self.placer.winners.add(group)
        return found

    def victim_lines(self, candidates: Candidates) -> VictimLines:
        """The line of one search, of those who may give."""
        if candidates.among is not None:
            return VictimLines(self.trial, self.possible_victims.only(candidates.among), candidates)
        if not candidates.are_common:
            return VictimLines(self.trial, self.possible_victims, candidates)
        if self._common is None:
            self._common = VictimLines.for_pass(self.trial, self.possible_victims, candidates)
        return self._common.for_search(candidates)

    def refresh(self) -> None:
        """Take note of what has moved since the last search."""
        moved = dict.fromkeys(self.trial.touched[self._read :])
        for group in moved:
            self.needs.pop(group, None)
        self._read = len(self.trial.touched)
        for name in ("possible_victims", "waiting"):
            if name in self.__dict__:  # made at first use
                getattr(self, name).refresh()
        if self._common is not None:
            self._common.follow(moved)

    def _find(self, group: int, chunk: Sequence[int], candidates: Candidates, accepts: Validator) -> Solution | None:
        """First propose victims by counting; if that is no solution, search step by step."""
        shape = equivalence.countable_shape(self.placer, group, chunk)
        has_none = not any(self.columns.sets.active[number] for number in self.columns.sets_of[group])
        if candidates.are_lost and len(chunk) > 1 and shape is not None and has_none:
            proposal = propose(self.placer, shape, len(chunk), self.victim_lines(candidates))
            if proposal is not None:
                search = self._search(group, chunk, [], candidates, accepts)
                found = search.attempt_proposal(proposal) if proposal.steps else None
                if found is not None or not proposal.steps:
                    return found
        return self._step_by_step(group, chunk, candidates, accepts)

    def _step_by_step(
        self, group: int, chunk: Sequence[int], candidates: Candidates, accepts: Validator
    ) -> Solution | None:
        """Solve for the first pod of the chunk, then for the first two, keeping the victims found so far."""
        start = self.trial.mark()
        found: Solution | None = None
        before: VictimSearch | None = None
        for size in range(1, len(chunk) + 1):
            recorded = self._not_restored(found) if found else []
            self.trial.undo(start)
            search = self._search(group, chunk[:size], recorded, candidates, accepts, is_for_all=size == len(chunk))
            if before is not None:
                search.go_on_from(before)
            found = search.run()
            if found is None:
                return None
            search.victims = list(found.victims)
            before = search
        return found

    def _search(
        self,
        group: int,
        chunk: Sequence[int],
        recorded: list[int],
        candidates: Candidates,
        accepts: Validator,
        *,
        is_for_all: bool = False,
    ) -> VictimSearch:
        simulation = EvictionSimulation(self.placer, self.waiting, self.needs, group, chunk)
        lines = self.victim_lines(candidates)
        return VictimSearch(simulation, lines, recorded, accepts, candidates.losses, is_for_all=is_for_all)

    def _not_restored(self, solution: Solution) -> list[int]:
        """Victims to start from when one more pod is solved for: those of groups that did not simply stay."""
        columns = self.columns
        gone = {columns.group_of[pod] for pod in solution.victims if columns.hold[pod] != REAL}
        return [pod for pod in solution.victims if columns.group_of[pod] in gone]

    def _restart_broken(self, solution: Solution) -> None:
        """Where the pods of a group that stay put no longer make it up, they restart too, on their own places."""
        columns, trial, sets = self.columns, self.trial, self.columns.sets
        for group in sorted({columns.group_of[pod] for pod in solution.victims}):
            staying = {
                number: [pod for pod in sets.pods[number] if columns.hold[pod] == REAL]
                for number in columns.sets_of[group]
            }
            if all(len(pods) >= sets.minimum[number] for number, pods in staying.items()):
                continue
            for pod in (pod for pods in staying.values() for pod in pods if trial.started_as[pod][0] == REAL):
                node, devices = trial.place(pod)
                trial.evict(pod)
                trial.promise(pod, node, devices)
                solution.victims.append(pod)
