"""Whom to take from: the search for victims shared by consolidate, reclaim and preempt (specification, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fairpool.model.ids import GroupId, NodeName
from tests.oracle.order import VictimWalk, chunk, next_group, passes_gate
from tests.oracle.place import place_chunk
from tests.oracle.shares import FairShares
from tests.oracle.world import GroupState, PodState, Stand, Status, World, wants_gpu


@dataclass(frozen=True)
class Victim:
    """A pod that was evicted in a try, and how it stood before."""

    pod: PodState
    stood: Stand

    @property
    def is_back(self) -> bool:
        """Has its own place again, as if nothing had happened."""
        return self.pod.stand == self.stood

    @property
    def is_lost(self) -> bool:
        """Has no place any more."""
        return self.pod.status in (Status.LEAVING, Status.WAITING)


@dataclass(frozen=True)
class Solution:
    """A try that placed what it was made for."""

    placed: tuple[PodState, ...]
    victims: tuple[Victim, ...]
    considered: tuple[PodState, ...]
    """All pods that had become potential victims by then, evicted in this try or not."""


Validator = Callable[[Solution], bool]


@dataclass
class Search:
    """The search for the victims of one group."""

    shares: FairShares
    group: GroupState
    may_lose: Collection[GroupId]
    is_valid: Validator
    most_groups: int | None = None

    @property
    def world(self) -> World:
        return self.shares.world

    def run(self) -> Solution | None:
        """Solve for the first pod of the chunk, then for two, and so on, keeping the victims found so far.

        The world is left as the last solution made it, or as it was if there is none.
        """
        start = self.world.mark()
        pods = chunk(self.world, self.group)
        recorded: list[PodState] = []
        solution: Solution | None = None
        for count in range(1, len(pods) + 1):
            self.world.undo(start)
            solution = self._solve_for(pods[:count], recorded)
            if solution is None:
                self.world.undo(start)
                return None
            recorded = _really_touched(solution.victims)
        return solution

    def _solve_for(self, pods: list[PodState], recorded: list[PodState]) -> Solution | None:
        """Add victims one by one until a try succeeds."""
        start = self.world.mark()
        feasible = self._feasible_nodes() | _nodes_of(recorded)
        walk = VictimWalk(self.shares, set(self.may_lose), self.most_groups)
        potential: list[PodState] = []
        if recorded:
            solution = self._try(pods, recorded, feasible, potential)
            if solution is not None:
                return solution
        while (victim := walk.next()) is not None:
            group, added = victim
            if any(pod in recorded for pod in added):
                walk.take(group, [pod for pod in recorded if pod.group is group])
                continue
            walk.take(group, added)
            potential += added
            for node in sorted(_nodes_of(added)):
                touched = {pod.group.id for pod in potential if _node(pod) == node}
                evicted = [pod for pod in potential if pod.group.id in touched]
                solution = self._try(pods, recorded + evicted, feasible | _nodes_of(evicted), potential)
                if solution is not None:
                    return solution
                self.world.undo(start)
        return None

    def _feasible_nodes(self) -> set[NodeName]:
        if all(wants_gpu(self.world, pod) for pod in self.group.pods):
            return {name for name in self.world.nodes if self.world.has_room_for_gpus(name)}
        return set(self.world.nodes)

    def _try(
        self, pods: list[PodState], evicted: list[PodState], nodes: set[NodeName], potential: list[PodState]
    ) -> Solution | None:
        """Evict, then offer places in the usual order to the victims and to the group."""
        world, start = self.world, self.world.mark()
        victims = tuple(Victim(pod, pod.stand) for pod in evicted)
        for pod in evicted:
            world.evict(pod)
        with self.group.restricted_to(pods):
            if self._offer_places(pods, evicted, nodes):
                solution = Solution(tuple(pods), victims, tuple(potential))
                if self.is_valid(solution):
                    return solution
        world.undo(start)
        return None

    def _offer_places(self, pods: list[PodState], evicted: list[PodState], nodes: set[NodeName]) -> bool:
        """Whether the group got its places. A victim that gets none stays evicted, and that is fine."""
        world = self.world
        losers = {pod.group.id for pod in evicted}
        waiting = {group.id for group in world.groups.values() if group.has(Status.WAITING) and group.queue}
        pool = waiting | losers | {self.group.id}
        is_placed = False
        while (group := next_group(self.shares, pool)) is not None:
            pool.discard(group.id)
            if group is self.group:
                if not self._offer(group, pods, nodes):
                    return False
                is_placed = True
            elif group.id in losers:
                together = chunk(world, group, with_evicted=True)
                back = [pod for pod in together if pod in evicted]
                # A part of a gang is no use without the rest, which is not to be started here.
                if back and (len(back) == len(together) or not world.policy.whole_gang_restarts):
                    self._offer(group, back, nodes)
        return is_placed

    def _offer(self, group: GroupState, pods: list[PodState], nodes: set[NodeName]) -> bool:
        return passes_gate(self.world, group, pods) and place_chunk(self.world, group, pods, nodes, may_bind=False)


def _really_touched(victims: Iterable[Victim]) -> list[PodState]:
    """Victims worth carrying forward: all of a group of which at least one did not simply get its place back."""
    victims = list(victims)
    touched = {victim.pod.group.id for victim in victims if not victim.is_back}
    return [victim.pod for victim in victims if victim.pod.group.id in touched]


def _node(pod: PodState) -> NodeName | None:
    return None if pod.stand.place is None else pod.stand.place.node


def _nodes_of(pods: Iterable[PodState]) -> set[NodeName]:
    return {node for pod in pods if (node := _node(pod)) is not None}
