"""The Alibaba GPU-sharing trace of 2023 as rows of a snapshot, and the order in which its pods arrive.

Everything follows from the name of a list and a seed. The data and where it comes from: bench/data/alibaba-gpu-2023.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node, NodePool, Placement
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import (
    NO_GPU,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodGroup,
    PodShape,
    gpu_portion,
    whole_gpus,
)
from fairpool.scheduler.policy import Policy, TypicalShape
from fairpool.scheduler.snapshot import Snapshot

DATA = Path(__file__).parent / "data" / "alibaba-gpu-2023"
LISTS = (
    "default",
    *("cpu050", "cpu100", "cpu200", "cpu250"),
    *("gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
    *("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
)
SATURATED = 1.3
"""GPUs asked for in the end, as a part of those there are."""
GPU_MODEL = "nvidia.com/gpu.product"
QUEUE = QueueId("all")
MIB = 1 << 20
PODS_MAX = 1000
"""Slots of a node: the trace has no such limit, and its fullest nodes go beyond the usual 110."""

Place = tuple[NodeName, tuple[int, ...]]
"""Node and devices."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod of the trace asks for."""

    shape: PodShape
    models: tuple[str, ...]
    """GPU models it may use; none named: any."""
    is_best_effort: bool = False
    """May be moved."""
    arrives_s: int = 0
    lasts_s: int | None = None
    """None: it was never started, and so never left."""

    @property
    def gpu_milli(self) -> int:
        return self.shape.gpu.devices * self.shape.gpu.portion_milli if self.shape.gpu.devices else 0


@cache
def nodes() -> tuple[Node, ...]:
    """The 1213 nodes with their 6212 GPUs."""
    return tuple(
        Node(
            name=NodeName(row["sn"]),
            cpu_milli=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * MIB,
            gpus=int(row["gpu"]),
            labels={GPU_MODEL: row["model"]},
            pods_max=PODS_MAX,
        )
        for row in _rows("openb_node_list_gpu_node")
    )


@cache
def asks(name: str) -> tuple[Ask, ...]:
    """The pods of a list."""
    return tuple(_ask(row) for row in _rows(f"openb_pod_list_{name}"))


def published(name: str, arrived_percent: int) -> float | None:
    """What FGD leaves unallocated of a list according to its authors, in %, the mean of their ten runs."""
    for row in _rows("fgd_reference"):
        wanted = (f"openb_pod_list_{name}", "06-FGD", "alloc_pct", str(arrived_percent))
        if (row["workload"], row["policy"], row["metric"], row["arrived_pct"]) == wanted:
            return 100 - float(row["mean"])
    return None


def _rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as lines:
        yield from csv.DictReader(lines)


def _ask(row: dict[str, str]) -> Ask:
    models = row.get("gpu_spec") or ""
    started, ended = row.get("scheduled_time"), row.get("deletion_time")
    return Ask(
        shape=_shape(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"]), models),
        models=tuple(models.split("|")) if models else (),
        is_best_effort=row.get("qos") == "BE",
        arrives_s=int(float(row.get("creation_time") or 0)),
        lasts_s=int(float(ended) - float(started)) if started and ended else None,
    )


@cache
def _shape(cpu_milli: int, memory_mib: int, gpus: int, milli: int, models: str) -> PodShape:
    rule = NodeSelectorRequirement(GPU_MODEL, NodeSelectorOperator.IN, tuple(sorted(models.split("|"))))
    return PodShape(
        gpu=NO_GPU if not gpus else whole_gpus(gpus) if milli == WHOLE_GPU_MILLI else gpu_portion(milli, gpus),
        cpu_milli=cpu_milli,
        memory_bytes=memory_mib * MIB,
        node_rules=((rule,),) if models else (),
    )


def arrivals(listed: Sequence[Ask], gpus_milli: int, seed: int) -> list[Ask]:
    """The pods of a list in random order, then pods drawn from it until so much is asked for."""
    dice = np.random.default_rng(seed)
    order = [listed[int(number)] for number in dice.permutation(len(listed))]
    asked = sum(ask.gpu_milli for ask in order)
    while True:
        ask = listed[int(dice.integers(len(listed)))]
        # One device, not all it asks for: what `tools/fgd_metric.py` does, to have the same arrivals as it.
        if asked + (ask.shape.gpu.portion_milli if ask.gpu_milli else 0) > gpus_milli:
            return order
        order.append(ask)
        asked += ask.gpu_milli


def typical(listed: Sequence[Ask]) -> tuple[TypicalShape, ...]:
    """The shapes of a list that ask for GPUs, each as often as it occurs."""
    counts = Counter(
        PodShape(gpu=ask.shape.gpu, cpu_milli=ask.shape.cpu_milli, node_rules=ask.shape.node_rules)
        for ask in listed
        if ask.gpu_milli
    )
    return tuple(TypicalShape(shape, count) for shape, count in counts.items())


def snapshot(
    arrived: Sequence[Ask],
    strategy: Placement,
    known: tuple[TypicalShape, ...] = (),
    places: Sequence[Place | None] = (),
    *,
    moves: bool = False,
) -> Snapshot:
    """The cluster with one queue that owns everything; pods are older the earlier they arrived, and wait, or run on
    their places. With `moves` those marked best-effort may be moved, otherwise none.
    """
    groups = tuple(
        PodGroup(id=GroupId(f"pod-{number:05d}"), queue=QUEUE, created_at=Instant(number), movable=ask.is_best_effort)
        for number, ask in enumerate(arrived)
    )
    return Snapshot(
        now=Instant(len(arrived)),
        nodes=nodes(),
        queues=(Queue(id=QUEUE, gpu=Entitlement()),),
        groups=groups,
        pods=tuple(map(_pod, groups, arrived, places or [None] * len(arrived))),
        pool=NodePool(gpu_placement=strategy, cpu_placement=strategy),
        policy=Policy(typical=known) if moves else Policy(typical=known, max_moved_groups=0),
    )


def _pod(group: PodGroup, ask: Ask, place: Place | None) -> Pod:
    node, devices = place or (None, ())
    return Pod(
        id=PodId(group.id),
        group=group.id,
        shape=ask.shape,
        phase=PodPhase.RUNNING if place else PodPhase.WAITING,
        node=node,
        devices=devices,
        created_at=group.created_at,
    )
