"""The search for victims that consolidation, reclaim and preemption share.

Victims are added one unit at a time, in the order in which groups give, until a simulation shows that the waiting
group gets its places. In the simulation victims are offered their places back in fair order, so whoever deserves the
room more than the waiting group keeps it, and whatever still fits somewhere stays or is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from fairpool.model.workload import GpuKind
from fairpool.scheduler import gate
from fairpool.scheduler.board import COMING, LEAVING, NOWHERE, REAL, STAYING
from fairpool.scheduler.chunk import chunk_need, has_waiting, next_chunk
from fairpool.scheduler.index import NodeSet
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.victims import VictimWalk
from fairpool.scheduler.walk import Walk


@dataclass(slots=True)
class Scenario:
    """Who would lose a place so that a group gets one."""

    group: int
    chunk: Sequence[int]
    need: Vector
    victims: list[int]
    """Pods, in the order in which they became victims."""
    lost_from: dict[int, int] = field(default_factory=dict)
    """Node on which each victim was when it was evicted."""
    considered: Collection[int] = ()
    """All pods that were looked at as victims, evicted in this scenario or not."""


Validator = Callable[[Scenario], bool]


class Solver:
    """Searches on one placer's trial; leaves the moves of an accepted scenario in place."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.trial = placer.trial
        self.board = placer.board

    def solve(self, group: int, candidates: Sequence[int], accepts: Validator) -> Scenario | None:
        """Find victims among the candidate groups so that the next chunk of a group is placed."""
        chunk = next_chunk(self.trial, group)
        if not chunk or not candidates:
            return None
        start = self.trial.mark()
        found: Scenario | None = None
        for size in range(1, len(chunk) + 1):
            recorded = self._not_restored(found) if found else []
            self.trial.undo(start)
            found = _Search(self, group, chunk[:size], recorded, candidates, accepts).run()
            if found is None:
                self.trial.undo(start)
                return None
        if found and self.board.policy.whole_gang_restarts:
            self._restart_broken(found)
        return found

    def _not_restored(self, scenario: Scenario) -> list[int]:
        """Victims to start from when one more pod is solved for: those of groups that did not simply stay."""
        board = self.board
        gone = {board.group_of[pod] for pod in scenario.victims if board.hold[pod] != REAL}
        return [pod for pod in scenario.victims if board.group_of[pod] in gone]

    def _restart_broken(self, scenario: Scenario) -> None:
        """Where the pods of a group that stay put no longer make it up, they restart too, on their own places."""
        board, trial, sets = self.board, self.trial, self.board.sets
        for group in sorted({board.group_of[pod] for pod in scenario.victims}):
            staying = {
                number: [pod for pod in sets.pods[number] if board.hold[pod] == REAL] for number in board.sets_of[group]
            }
            if all(len(pods) >= sets.minimum[number] for number, pods in staying.items()):
                continue
            for pod in (pod for pods in staying.values() for pod in pods if trial.started_as[pod][0] == REAL):
                node, seats = trial.place(pod)
                trial.evict(pod)
                trial.promise(pod, node, seats)
                scenario.victims.append(pod)


class _Search:
    """The search for the first pods of a chunk, given the victims found for fewer of them."""

    def __init__(
        self,
        solver: Solver,
        group: int,
        chunk: Sequence[int],
        recorded: list[int],
        candidates: Sequence[int],
        accepts: Validator,
    ) -> None:
        self.solver = solver
        self.placer = solver.placer
        self.trial = solver.trial
        self.board = solver.board
        self.group = group
        self.chunk = chunk
        self.recorded = recorded
        self.accepts = accepts
        self.walk = VictimWalk(self.trial, candidates)
        self.potential: list[int] = []
        self.start = self.trial.mark()
        self.nodes = self._feasible_nodes() | {self.trial.place(pod)[0] for pod in recorded}

    def run(self) -> Scenario | None:
        if self.recorded:
            found = self._attempt(self.recorded)
            if found:
                return found
        recorded = set(self.recorded)
        while True:
            given = self.walk.pop()
            if given is None:
                return None
            group, unit = given
            if recorded.intersection(unit):
                self.walk.take(group, [pod for pod in self.recorded if self.board.group_of[pod] == group])
                continue
            self.walk.take(group, unit)
            self.potential += unit
            found = self._attempt_near(unit)
            if found:
                return found

    def _attempt_near(self, unit: Sequence[int]) -> Scenario | None:
        """Try each node where the last victims are: evict the potential victims of every group that has one there."""
        for node in sorted({self.trial.place(pod)[0] for pod in unit}):
            groups = {self.board.group_of[pod] for pod in self.potential if self.trial.place(pod)[0] == node}
            taken = [pod for pod in self.potential if self.board.group_of[pod] in groups]
            found = self._attempt([*self.recorded, *taken])
            if found:
                return found
        return None

    def _attempt(self, victims: list[int]) -> Scenario | None:
        """Evict the victims, offer everybody a place in fair order, and see whether the rules hold."""
        lost_from = {pod: self.trial.place(pod)[0] for pod in victims}
        nodes = NodeSet(sorted(self.nodes.union(lost_from.values())), is_limited=True)
        for pod in victims:
            self.trial.evict(pod)
        if self._place_in_order(victims, nodes):
            placed = self._need()
            considered = {*self.recorded, *self.potential}
            scenario = Scenario(self.group, self.chunk, placed, victims, lost_from, considered)
            if self.accepts(scenario):
                return scenario
        self.trial.undo(self.start)
        return None

    def _need(self) -> Vector:
        """What the chunk is charged where it was placed."""
        need = NONE
        for pod in self.chunk:
            need = plus(need, self.board.placed_need(pod, self.trial.place(pod)[0]))
        return need

    def _place_in_order(self, victims: Sequence[int], nodes: NodeSet) -> bool:
        """Walk all groups in fair order, acting on victims and on the waiting group only.

        A victim group gets one try for one chunk and may fail; if the waiting group fails, so does the scenario.
        """
        victim_groups = {self.board.group_of[pod] for pod in victims}
        with _Restricted(self, victim_groups) as others:
            walk = Walk(self.trial, sorted(others | victim_groups | {self.group}))
            pending = set(victim_groups)
            placed = False
            while pending or not placed:
                group = walk.pop()
                if group is None:
                    break
                if group == self.group:
                    if not self._place(group, self.chunk, nodes):
                        return False
                    placed = True
                elif group in pending:
                    pending.discard(group)
                    chunk = [pod for pod in next_chunk(self.trial, group, evicted_too=True) if pod in victims]
                    if chunk:
                        self._place(group, chunk, nodes)
        return placed

    def _place(self, group: int, chunk: Sequence[int], nodes: NodeSet) -> bool:
        mark = self.trial.mark()
        if may_start(self.placer, group, chunk) and self.placer.place(group, chunk, nodes, now=False):
            return True
        self.trial.undo(mark)
        return False

    def _feasible_nodes(self) -> set[int]:
        """Nodes worth trying: any, or for pods that all need a GPU those with some GPU idle or being released."""
        board = self.board
        pods = (pod for number in board.sets_of[self.group] for pod in board.sets.pods[number])
        everywhere = set(range(len(board.nodes.rows)))
        if any(board.shape(pod).gpu.kind is GpuKind.NONE and not board.claimed_gpus[pod] for pod in pods):
            return everywhere
        return {node for node in everywhere if self._has_free_gpu(node)}

    def _has_free_gpu(self, node: int) -> bool:
        nodes = self.board.nodes
        if nodes.gpus_idle[node] > 0 or nodes.gpus_releasing[node] > 0 or nodes.claim_free[node]:
            return True
        mib = nodes.device_mib[node]
        if any(device[LEAVING] or mib > device[STAYING] + device[COMING] for device in nodes.shared[node].values()):
            return True
        profiles = nodes.rows[node].mig_instances
        return any(nodes.other_idle[name][node] + nodes.other_releasing[name][node] > 0 for name in profiles)


class _Restricted:
    """For the time of a simulation the waiting group consists of the pods that are being solved for.

    Its minimum is their number in each pod set, and its other waiting pods do not exist.
    """

    def __init__(self, search: _Search, victim_groups: Collection[int]) -> None:
        self.board = search.board
        self.search = search
        self.victim_groups = victim_groups
        self.minimum: dict[int, int] = {}
        self.hidden: list[tuple[int, list[int]]] = []

    def __enter__(self) -> set[int]:
        board, search = self.board, self.search
        waiting = {
            group
            for group in range(len(board.groups))
            if board.queue_of[group] != NOWHERE and has_waiting(board, group)
        }
        chunk = set(search.chunk)
        for number in board.sets_of[search.group]:
            count = sum(board.set_of[pod] == number for pod in search.chunk)
            self.minimum[number] = board.sets.minimum[number]
            if count:
                board.sets.minimum[number] = count
            pods = board.sets.pods[number]
            self.hidden.append((number, pods))
            board.sets.pods[number] = [pod for pod in pods if pod in chunk or not search.trial.is_waiting(pod)]
        return waiting

    def __exit__(self, *_: object) -> None:
        for number, minimum in self.minimum.items():
            self.board.sets.minimum[number] = minimum
        for number, pods in self.hidden:
            self.board.sets.pods[number] = pods


def may_start(placer: Placer, group: int, chunk: Iterable[int]) -> bool:
    """The capacity gate for a chunk, before any node is looked at."""
    board = placer.board
    if not board.policy.fair_order:
        return True
    need = NONE
    for pod in chunk:
        amounts = board.waiting_need(pod)
        if not board.policy.charge_memory_at_gate and board.shape(pod).gpu.kind is GpuKind.MEMORY:
            amounts = (0, amounts[1], amounts[2])
        need = plus(need, amounts)
    return gate.passes(board.queues, board.queue_of[group], need, firm=board.is_firm(group))


def asked(placer: Placer, group: int) -> Vector:
    """What the next chunk of a group asks for."""
    return chunk_need(placer.board, next_chunk(placer.trial, group))
