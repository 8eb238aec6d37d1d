"""Fragmentation as the FGD paper measures it, and FGD itself, to compare with on the same arrivals.

"Beware of Fragmentation" (Weng et al., USENIX ATC 2023): the fragmentation of a node is the expected idle GPU that a
typical pod cannot use, and FGD places each pod where that grows least, in whole score steps from 0 to 100, the first
node by name when several have the same. Own code, with none of the scheduler's: it is also the judge of where pods
were put, since taking what is not there fails.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench._trace import GPU_MODEL, Ask
from fairpool.model.node import Node
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import PodShape

COVERED = 0.95
"""Typical are the most frequent requests, up to this share of all."""

Free = tuple[int, ...]
"""Thousandths left of each device."""
Need = tuple[int, int, int]
"""CPU, devices, thousandths of each."""


class Typical:
    """The typical pods of a list, and the fragmentation they make of a node."""

    def __init__(self, listed: Sequence[Ask]) -> None:
        counts = Counter((*need(ask), "|".join(ask.models)) for ask in listed)
        chosen: list[tuple[int, int, int, str]] = []
        covered = 0
        for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if covered >= COVERED * len(listed):
                break
            chosen.append(shape)
            covered += count
        weight = np.array([counts[shape] for shape in chosen], dtype=np.float64)
        self.weight = weight / weight.sum()
        self.cpu = np.array([shape[0] for shape in chosen])
        self.devices = np.array([shape[1] for shape in chosen])
        self.milli = np.array([shape[2] for shape in chosen])
        self.models = [shape[3].split("|") if shape[3] else [] for shape in chosen]
        self._may_use: dict[str, npt.NDArray[np.bool_]] = {}
        self._known: dict[tuple[int, Free, str], float] = {}

    def fragments(self, cpu: int, free: Free, model: str) -> float:
        """Expected idle GPU of a node that typical pods cannot use, in thousandths."""
        key = (cpu, free, model)
        known = self._known.get(key)
        if known is None:
            left = np.array(free)
            fits = left >= self.milli[:, None]
            runs = (
                (fits.sum(axis=1) >= self.devices) & (cpu >= self.cpu) & (self.devices > 0) & self._model_suits(model)
            )
            too_small = np.where(fits, 0, left).sum(axis=1)
            known = self._known[key] = float((self.weight * np.where(runs, too_small, left.sum())).sum())
        return known

    def _model_suits(self, model: str) -> npt.NDArray[np.bool_]:
        if model not in self._may_use:
            self._may_use[model] = np.array([not models or model in models for models in self.models])
        return self._may_use[model]


def need(ask: Ask) -> Need:
    """What one pod asks for, memory and models aside."""
    gpu = ask.shape.gpu
    return (ask.shape.cpu_milli, gpu.devices, gpu.portion_milli if gpu.devices else 0)


class Cluster:
    """What is left on each node, and how fragmented it is."""

    def __init__(self, rows: Sequence[Node], typical: Typical) -> None:
        self.typical = typical
        self.names = {node.name: number for number, node in enumerate(rows)}
        self.cpu = [node.cpu_milli for node in rows]
        self.memory = [node.memory_bytes for node in rows]
        self.free = [[WHOLE_GPU_MILLI] * node.gpus for node in rows]
        self.model = [node.labels[GPU_MODEL] for node in rows]
        self.total_milli = sum(map(sum, self.free))
        self.used_milli = 0
        self.node_fragments = [self._fragments(node) for node in range(len(rows))]
        self.fragments_milli = sum(self.node_fragments)

    def take(self, node: int, ask: Ask, devices: Sequence[int]) -> None:
        """Put a pod on some devices of a node. What is taken must be there."""
        cpu, count, milli = need(ask)
        free = self.free[node]
        assert cpu <= self.cpu[node]
        assert ask.shape.memory_bytes <= self.memory[node]
        assert len(set(devices)) == count
        assert all(milli <= free[device] for device in devices)
        assert not ask.models or self.model[node] in ask.models
        self.cpu[node] -= cpu
        self.memory[node] -= ask.shape.memory_bytes
        for device in devices:
            free[device] -= milli
        self.used_milli += count * milli
        now = self._fragments(node)
        self.fragments_milli += now - self.node_fragments[node]
        self.node_fragments[node] = now

    def state(self, node: int) -> Free:
        """Its devices, whichever is which."""
        return tuple(sorted(self.free[node]))

    def _fragments(self, node: int) -> float:
        return self.typical.fragments(self.cpu[node], self.state(node), self.model[node])


@dataclass(slots=True)
class _Scores:
    """Scores of all nodes for one kind of request, and how many changes they know of."""

    score: npt.NDArray[np.int64]
    read: int = 0


@dataclass(slots=True)
class Fgd:
    """Fragmentation gradient descent."""

    cluster: Cluster
    changes: list[int] = field(default_factory=list)
    """Nodes in the order in which they changed."""
    _scores: dict[PodShape, _Scores] = field(default_factory=dict)
    _steps: dict[tuple[int, Free, str, Need], tuple[int, Sequence[int]]] = field(default_factory=dict)

    def place(self, ask: Ask) -> tuple[int, Sequence[int]] | None:
        """Put a pod where it fragments least; None if it fits nowhere."""
        scores = self._up_to_date(ask)
        node = int(np.argmax(scores.score))
        if scores.score[node] < 0:
            return None
        devices = self._step(node, need(ask))[1]
        self.cluster.take(node, ask, devices)
        self.changes.append(node)
        return node, devices

    def _up_to_date(self, ask: Ask) -> _Scores:
        """Only nodes that changed since the last pod like this one are scored anew."""
        known = self._scores.get(ask.shape)
        if known is None:
            nodes = range(len(self.cluster.cpu))
            known = self._scores[ask.shape] = _Scores(np.array([self._score(node, ask) for node in nodes]))
        else:
            for node in dict.fromkeys(self.changes[known.read :]):
                known.score[node] = self._score(node, ask)
        known.read = len(self.changes)
        return known

    def _score(self, node: int, ask: Ask) -> int:
        """0 to 100, or -1 where it does not fit."""
        cluster = self.cluster
        if (
            ask.shape.cpu_milli > cluster.cpu[node]
            or ask.shape.memory_bytes > cluster.memory[node]
            or (ask.models and cluster.model[node] not in ask.models)
        ):
            return -1
        return self._step(node, need(ask))[0]

    def _step(self, node: int, asked: Need) -> tuple[int, Sequence[int]]:
        """The score of the best way to put a request on a node, and its devices; the first of equal ways."""
        cluster = self.cluster
        free, model = tuple(cluster.free[node]), cluster.model[node]
        key = (cluster.cpu[node], free, model, asked)
        known = self._steps.get(key)
        if known is None:
            known = (-1, ())
            cpu, _, milli = asked
            for devices in _ways(free, asked):
                left = [room - milli * (device in devices) for device, room in enumerate(free)]
                after = cluster.typical.fragments(cluster.cpu[node] - cpu, tuple(sorted(left)), model)
                gain = cluster.node_fragments[node] - after
                score = math.floor(100.0 / (1.0 + math.exp(-gain / 1000.0)))
                if score > known[0]:
                    known = (score, devices)
            self._steps[key] = known
        return known


def _ways(free: Free, asked: Need) -> list[Sequence[int]]:
    """Devices that a request could take: any with room for a part, the first free ones for whole devices."""
    _, count, milli = asked
    fitting = [device for device, room in enumerate(free) if room >= milli]
    if count == 1 and milli < WHOLE_GPU_MILLI:
        return [(device,) for device in fitting]
    return [fitting[:count]] if len(fitting) >= count else []
