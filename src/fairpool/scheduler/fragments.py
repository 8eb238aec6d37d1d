"""The placement strategy `fragmentation`: take the room that typical requests can use least.

Idle GPUs are worth what typical requests can still use of them: a tenth of a device is worth little where most
ask for whole ones, and so is a whole device beside two idle CPU cores. The *expected use* of a node is the mean, over
the typical shapes of the policy, of the idle GPU that requests of that shape could take there; a placement costs what
it removes from that, plus a price for nodes that few others could replace. Costs within one step are equal, and
then the fullest node is taken.

Everything is counted in integers, so that the same snapshot gives the same plan on every machine. `score.py` asks for
the rank of a node, `fit.py` for devices. Why this rule, and when packing is better: docs/decisions/0002.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, PodShape
from fairpool.scheduler.charge import Charges, ShapeFacts
from fairpool.scheduler.columns import COMING, STAYING, Columns
from fairpool.scheduler.policy import TypicalShape

STEP_MILLI = 160
"""Costs are compared in steps of so many thousandths of a GPU: finer ones spread pods over nodes that are alike."""
TYPICAL_MAX = 512
"""Of the shapes in a snapshot, the most frequent ones are typical."""
EQUAL_MILLI = 5
"""Devices whose choice makes less of a difference than this are equal: rounding to MiB is no reason."""
CORE_MILLI = 1000
CORES_MAX = 512
"""Where more cores are idle than this, CPU is not what is short."""
DEVICES_MAX = 1024
ROOM_BITS, WEIGHT_BITS = 20, 20
"""Precision that keeps every sum within 64 bits, whatever a snapshot says."""
MILLION = 1_000_000

IDLE_BITS, CPU_BITS = 24, 32

Rooms = tuple[int, ...]
"""Free MiB of each device of a node that has any, smallest first."""
Ask = tuple[int, int]
"""Devices, and MiB of each."""
Terms = tuple["array[int]", int, int]
"""Of the cost of a shape in a state: expected use afterwards by idle cores, price, and what a step comes to."""
Figures = npt.NDArray[np.int64]


class Fragments:
    """What places cost on the nodes of one snapshot."""

    def __init__(self, columns: Columns, nodes_for: Callable[[PodShape], Sequence[int]]) -> None:
        self.columns = columns
        typical = [each for each in columns.policy.typical or typical_shapes(columns) if _is_on_devices(each.shape)]
        self._kinds = _Kinds(columns, typical, nodes_for)
        self._states: list[_State | None] = [None] * len(columns.nodes.rows)
        self._versions = [-1] * len(columns.nodes.rows)

    def rank(self, facts: ShapeFacts, node: int) -> int:
        """Smaller is better: lowest cost, then least idle GPU, then least CPU left. Asked where the amounts fit."""
        nodes = self.columns.nodes
        known = self._states[node]
        state = known if known is not None and self._versions[node] == nodes.version[node] else self._state(node)
        cpu = nodes.cpu_idle[node] + nodes.cpu_releasing[node]
        left = cpu - facts.cpu_milli
        after, price, step = state.terms.get(facts) or state.terms_for(facts, self._ask(facts, node))
        lost = state.use[min(cpu // CORE_MILLI, CORES_MAX)] - after[min(left // CORE_MILLI, CORES_MAX)]
        cost = (WHOLE_GPU_MILLI * lost + price) // step
        return ((cost << IDLE_BITS) + state.idle_milli << CPU_BITS) + left

    def rooms_to_take(self, facts: ShapeFacts, node: int) -> Rooms:
        """Free MiB of the devices that a sharer should go to; none if it does not fit."""
        nodes = self.columns.nodes
        left = nodes.cpu_idle[node] + nodes.cpu_releasing[node] - facts.cpu_milli
        return self._state(node).best_way(self._ask(facts, node), min(left // CORE_MILLI, CORES_MAX))

    def _ask(self, facts: ShapeFacts, node: int) -> Ask:
        mib = self.columns.nodes.device_mib[node]
        return (facts.shared, facts.occupied_mib(mib)) if facts.shared else (facts.whole, mib)

    def _state(self, node: int) -> _State:
        nodes = self.columns.nodes
        known = self._states[node]
        if known is None or self._versions[node] != nodes.version[node]:
            known = self._states[node] = self._kinds.of_node[node].state(self._rooms(node))
            self._versions[node] = nodes.version[node]
        return known

    def _rooms(self, node: int) -> Rooms:
        """What is idle or being released; a device that all pods leave counts as whole."""
        nodes = self.columns.nodes
        mib = nodes.device_mib[node]
        whole = (mib,) * (nodes.gpus_idle[node] + nodes.gpus_releasing[node])
        if not nodes.shared[node]:
            return whole
        used = (device[STAYING] + device[COMING] for device in nodes.shared[node].values())
        return (*sorted(mib - each for each in used if 0 < each < mib), *whole)


class _Kind:
    """Nodes that the same typical shapes may use, with devices of one size."""

    def __init__(
        self, typical: Sequence[TypicalShape], charges: Charges, mib: int, total_weight: int, most_cores: int
    ) -> None:
        self.mib = mib
        self._grain = 1 + (mib >> ROOM_BITS)
        self.unit = 2 * total_weight * (mib // self._grain)
        """One GPU that every request can use, in the units of expected use; twice, because of the halves below."""
        self.price = 0
        """Of a GPU, in the same units."""
        portions = [
            mib if each.shape.gpu.kind is GpuKind.WHOLE else charges.occupied_mib(each.shape, mib) for each in typical
        ]
        self._weight = _figures(each.weight for each in typical)
        self._devices = _figures(min(each.shape.gpu.devices, DEVICES_MAX) for each in typical)
        self._portion = _figures(-(-min(portion, mib + 1) // self._grain) for portion in portions)
        cores = _figures(range(0, (most_cores + 1) * CORE_MILLI, CORE_MILLI))
        most_milli = CORE_MILLI * (most_cores + 1)
        need = _figures(min(each.shape.cpu_milli, most_milli) for each in typical)[:, None]
        asked = (self._devices * self._portion)[:, None]
        self._runs = cores >= need
        self._fed = np.where(need > 0, cores * asked // np.maximum(need, 1), np.iinfo(np.int64).max)
        """GPU that requests of each shape could take if only CPU were short."""
        self._states: dict[Rooms, _State] = {}

    def state(self, rooms: Rooms) -> _State:
        known = self._states.get(rooms)
        if known is None:
            known = self._states[rooms] = _State(self, rooms, self._expected_use(rooms))
        return known

    def _expected_use(self, rooms: Rooms) -> Figures:
        """For every number of idle cores.

        Half of it as if CPU were given to this shape alone, half as if others left it enough.
        """
        free = _figures(room // self._grain for room in rooms)
        fits = free >= self._portion[:, None]
        able = fits.sum(axis=1) >= self._devices
        room = (fits[able] * free).sum(axis=1)[:, None]
        usable = (room + np.minimum(room, self._fed[able])) * self._runs[able]
        use: Figures = self._weight[able] @ usable
        return use


class _State:
    """Nodes of one kind with the same room on their devices."""

    def __init__(self, kind: _Kind, rooms: Rooms, use: Figures) -> None:
        self.kind = kind
        self.rooms = rooms
        self.idle_milli = WHOLE_GPU_MILLI * sum(rooms) // kind.mib
        self.figures = use
        self.use = array("q", use.tobytes())
        """Expected use for every number of idle cores."""
        self.terms: dict[ShapeFacts, Terms] = {}
        self._after: dict[Ask, array[int]] = {}
        self._ways: dict[Ask, list[tuple[Rooms, _State]]] = {}

    def terms_for(self, facts: ShapeFacts, ask: Ask) -> Terms:
        """What the cost of a shape here is worked out from, remembered."""
        devices, mib = ask
        asked_milli = WHOLE_GPU_MILLI * devices * mib // self.kind.mib
        step = STEP_MILLI * self.kind.unit
        terms = self.terms[facts] = (self._best_after(ask), asked_milli * self.kind.price, step)
        return terms

    def best_way(self, ask: Ask, left: int) -> Rooms:
        """Rooms to take for a request: those that leave most expected use, among equals the tightest."""
        ways = self.ways(ask)
        most = max((after.use[left] for _, after in ways), default=0)
        enough = most - EQUAL_MILLI * self.kind.unit // WHOLE_GPU_MILLI
        return next((rooms for rooms, after in ways if after.use[left] >= enough), ())

    def ways(self, ask: Ask) -> list[tuple[Rooms, _State]]:
        """Rooms that a request may take and what that leaves, tightest first."""
        known = self._ways.get(ask)
        if known is None:
            known = self._ways[ask] = [(taken, self._without(taken, ask[1])) for taken in self._choices(ask)]
        return known

    def _choices(self, ask: Ask) -> list[Rooms]:
        devices, mib = ask
        fitting = [room for room in self.rooms if room >= mib]
        return list(dict.fromkeys(tuple(fitting[at : at + devices]) for at in range(len(fitting) - devices + 1)))

    def _without(self, taken: Rooms, mib: int) -> _State:
        rest = list(self.rooms)
        for room in taken:
            rest.remove(room)
        return self.kind.state(tuple(sorted([*rest, *(room - mib for room in taken if room > mib)])))

    def _best_after(self, ask: Ask) -> array[int]:
        """Expected use that the best way leaves, for every number of cores left."""
        if not ask[0]:
            return self.use
        known = self._after.get(ask)
        if known is None:
            best = np.maximum.reduce([state.figures for _, state in self.ways(ask)] or [0 * self.figures])
            known = self._after[ask] = array("q", best.tobytes())
        return known


class _Kinds:
    """Nodes sorted by the shapes that may use them."""

    def __init__(
        self, columns: Columns, typical: Sequence[TypicalShape], nodes_for: Callable[[PodShape], Sequence[int]]
    ) -> None:
        self.columns = columns
        grain = 1 + (sum(each.weight for each in typical) >> WEIGHT_BITS)
        self.typical = [TypicalShape(each.shape, max(1, each.weight // grain)) for each in typical]
        self.usable_by = [frozenset(nodes_for(each.shape)) for each in typical]
        self.gpus_for = [sum(columns.nodes.gpus[node] for node in usable) for usable in self.usable_by]
        self.total_weight = max(1, sum(each.weight for each in self.typical))
        most_milli = max((node.cpu_milli for node in columns.nodes.rows), default=0)
        self.most_cores = min(most_milli // CORE_MILLI, CORES_MAX)
        self.loads: dict[_Kind, int] = {}
        self.of_node: list[_Kind] = []
        self._sort_nodes()
        least = min((load for load in self.loads.values() if load), default=0)
        for kind, load in self.loads.items():
            kind.price = max(0, load - least) * kind.unit // MILLION

    def _sort_nodes(self) -> None:
        different = list(dict.fromkeys(self.usable_by))
        known: dict[tuple[tuple[bool, ...], int], _Kind] = {}
        for node, mib in enumerate(self.columns.nodes.device_mib):
            usable_by = tuple(node in usable for usable in different)
            kind = known.get((usable_by, mib))
            if kind is None:
                mine = [number for number, usable in enumerate(self.usable_by) if node in usable]
                typical = [self.typical[number] for number in mine]
                kind = known[usable_by, mib] = _Kind(
                    typical, self.columns.charges, mib, self.total_weight, self.most_cores
                )
                self.loads[kind] = self._load(mine)
            self.of_node.append(kind)

    def _load(self, shapes: Iterable[int]) -> int:
        """Millionths of its GPUs that would be asked of a kind if every shape were spread evenly over what it may use,
        and all of them asked for as many GPUs as there are.
        """
        demand = [each.weight * self.columns.charges.waiting_milli(each.shape) for each in self.typical]
        gpus = sum(self.columns.nodes.gpus)
        return sum(
            demand[number] * gpus * MILLION // (sum(demand) * self.gpus_for[number])
            for number in shapes
            if self.gpus_for[number]
        )


def typical_shapes(columns: Columns) -> list[TypicalShape]:
    """The shapes of the pods in a snapshot, running or waiting, as far as they matter here; most frequent first."""
    counts: Counter[PodShape] = Counter()
    pods = Counter(columns.shape_of)
    for number, count in pods.items():
        shape = columns.facts[number].shape
        counts[
            PodShape(
                gpu=shape.gpu, cpu_milli=shape.cpu_milli, node_rules=shape.node_rules, tolerations=shape.tolerations
            )
        ] += count
    asking = [(shape, count) for shape, count in counts.items() if _is_on_devices(shape)]
    asking.sort(key=lambda item: (-item[1], repr(item[0])))
    return [TypicalShape(shape, count) for shape, count in asking[:TYPICAL_MAX]]


def _is_on_devices(shape: PodShape) -> bool:
    """Whether a shape takes devices or parts of them, as opposed to MIG instances or nothing."""
    return shape.gpu.kind in (GpuKind.WHOLE, GpuKind.PORTION, GpuKind.MEMORY)


def _figures(values: Iterable[int]) -> Figures:
    return np.fromiter(values, dtype=np.int64)
