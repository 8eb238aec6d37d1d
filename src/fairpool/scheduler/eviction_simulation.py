"""Simulation of an eviction: victims lose their places, and all of them and the waiting group are offered places in
fair order.

A victim that comes before the waiting group keeps its place, and what still fits somewhere stays or is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairpool.scheduler import equivalence, gate
from fairpool.scheduler.chunk import next_chunk
from fairpool.scheduler.columns import COMING, LEAVING, STAYING
from fairpool.scheduler.gang_proposal import comes_first
from fairpool.scheduler.group_index import GroupIndex
from fairpool.scheduler.node_index import CandidateNodes
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.queues import Vector
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.walk import SimulatedWalk


class EvictionSimulation:
    """Simulations for some pods of one waiting group; their moves are left in the trial."""

    def __init__(
        self, placer: Placer, waiting: GroupIndex, needs: dict[int, Vector], group: int, chunk: Sequence[int]
    ) -> None:
        self.placer = placer
        self.trial = placer.trial
        self.columns = placer.columns
        self.waiting = waiting
        self.needs = needs
        """What waiting groups ask for."""
        self.group = group
        self.chunk = chunk
        self._feasible: set[int] | None = None

    def succeeds(self, victims: Sequence[int], recorded: Sequence[int], *, must_be_first: bool) -> bool:
        """Evict pods, and see whether the chunk gets its places; `recorded` were victims of fewer pods of the group.

        With `must_be_first` only if it is offered them before any victim, and however few of them there are.
        """
        nodes = self._nodes(victims, recorded)
        for pod in victims:
            self.trial.evict(pod)
        return self._place_in_order(victims, nodes, must_be_first=must_be_first)

    def _place_in_order(self, victims: Sequence[int], nodes: CandidateNodes, *, must_be_first: bool) -> bool:
        """Walk all groups in fair order, acting on victims and on the waiting group only.

        A victim group gets one try for one chunk and may fail; if the waiting group fails, so does the solution.
        """
        columns = self.columns
        groups = {columns.group_of[pod] for pod in victims}
        evicted = set(victims)
        hopeless: set[tuple[int, ...]] = set()
        with _Restricted(self):
            walk = SimulatedWalk(self.trial, self.waiting, (*sorted(groups), self.group), self.needs)
            while (group := walk.pop()) is not None:
                if group == self.group:
                    if must_be_first and not comes_first(columns, group, self.chunk, victims, walk.passed):
                        return False
                    if not self._place(group, self.chunk, nodes):
                        return False
                    must_be_first = False
                    if self.is_full_for(victims):
                        break
                    continue
                if must_be_first:
                    return False
                chunk = next_chunk(self.trial, group, evicted_too=True)
                mine = [pod for pod in chunk if pod in evicted]
                # A part of a gang is no use without the rest, and the rest is not to be started here.
                if len(mine) == len(chunk) or not self.columns.policy.whole_gang_restarts:
                    self._offer(group, mine, nodes, hopeless)
        return True

    def is_full_for(self, victims: Iterable[int]) -> bool:
        """Whether no victim can come back anywhere, so that the rest of the walk changes nothing."""
        columns = self.columns
        kinds = {(columns.shape_of[pod], columns.is_plain[columns.group_of[pod]]) for pod in victims}
        if not all(plain for _, plain in kinds):
            return False
        return all(self.placer.index(shape).best() is None for shape, _ in kinds)

    def _offer(self, group: int, chunk: Sequence[int], nodes: CandidateNodes, hopeless: set[tuple[int, ...]]) -> None:
        """Give victims a place again if there is one. What found none for its like is not tried again: room only
        becomes less in a simulation.
        """
        if not chunk:
            return
        shapes = tuple(self.columns.shape_of[pod] for pod in chunk)
        if shapes in hopeless:
            return
        if not gate.chunk_passes(self.columns, group, chunk):
            return
        mark = self.trial.mark()
        if self.placer.place(group, chunk, nodes, now=False):
            return
        self.trial.undo(mark)
        if self.columns.policy.charge_all_devices_per_node and equivalence.is_simple(self.placer, group, chunk):
            hopeless.add(shapes)

    def _place(self, group: int, chunk: Sequence[int], nodes: CandidateNodes) -> bool:
        mark = self.trial.mark()
        if gate.chunk_passes(self.columns, group, chunk) and self.placer.place(group, chunk, nodes, now=False):
            return True
        self.trial.undo(mark)
        return False

    def _nodes(self, victims: Sequence[int], recorded: Iterable[int]) -> CandidateNodes:
        """Nodes worth trying: those with some GPU idle or being released before, and those of the victims.

        Pods that need a GPU find none elsewhere anyway, so this only matters to others, and to topologies.
        """
        columns = self.columns
        pods = (*self.chunk, *victims)
        if all(
            columns.is_plain[columns.group_of[pod]] and columns.facts[columns.shape_of[pod]].on_gpus for pod in pods
        ):
            return self.placer.everywhere
        if self._feasible is None:
            before = {self.trial.place(pod)[0] for pod in recorded}
            self._feasible = feasible_nodes(self.trial, self.group) | before
        here = {self.trial.place(pod)[0] for pod in victims}
        return CandidateNodes(sorted(self._feasible | here), is_limited=True)


def feasible_nodes(trial: Trial, group: int) -> set[int]:
    """Any node, or for pods that all need a GPU those with some GPU idle or being released."""
    columns = trial.columns
    pods = (pod for number in columns.sets_of[group] for pod in columns.sets.pods[number])
    everywhere = set(range(len(columns.nodes.rows)))
    if any(not columns.facts[columns.shape_of[pod]].on_gpus and not columns.claimed_gpus[pod] for pod in pods):
        return everywhere
    return {node for node in everywhere if _has_free_gpu(trial, node)}


def _has_free_gpu(trial: Trial, node: int) -> bool:
    nodes, claims = trial.columns.nodes, trial.claims
    if nodes.gpus_idle[node] > 0 or nodes.gpus_releasing[node] > 0:
        return True
    if nodes.rows[node].claim_devices and (claims.free(node) or claims.soon(node)):
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

    def __init__(self, simulation: EvictionSimulation) -> None:
        self.columns = simulation.columns
        self.simulation = simulation
        self.minimum: dict[int, int] = {}
        self.pods: dict[int, Sequence[int]] = {}

    def __enter__(self) -> None:
        sets, simulation = self.columns.sets, self.simulation
        chunk = set(simulation.chunk)
        for number in self.columns.sets_of[simulation.group]:
            count = sum(self.columns.set_of[pod] == number for pod in simulation.chunk)
            self.minimum[number] = sets.minimum[number]
            self.pods[number] = sets.pods[number]
            if count:
                sets.minimum[number] = count
            sets.pods[number] = [
                pod for pod in sets.pods[number] if pod in chunk or not simulation.trial.is_waiting(pod)
            ]

    def __exit__(self, *_: object) -> None:
        for number, minimum in self.minimum.items():
            self.columns.sets.minimum[number] = minimum
            self.columns.sets.pods[number] = self.pods[number]
