"""Pods that come and go at their recorded times, on a part of the cluster small enough to be short at times.

On the whole cluster the recorded lifetimes never need more than about 65 of the 6212 GPUs at once, so that every
strategy places every pod. Each arrival is one plan on what runs then; who does not fit is refused and does not come
back.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

from bench._trace import Ask, Place, asks, nodes, snapshot, typical
from fairpool.model.node import Placement
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot


def departures(name: str, strategy: Placement, every: int, most: int | None = None) -> dict[str, float]:
    """Mean allocation over time and refusals, for a list with recorded times, on every so manieth node."""
    cluster = nodes()[::every]
    listed = sorted((ask for ask in asks(name) if ask.lasts_s is not None), key=lambda ask: ask.arrives_s)[:most]
    rows = replace(snapshot(listed, strategy, typical(listed)), nodes=cluster)
    capacity = WHOLE_GPU_MILLI * sum(node.gpus for node in cluster)
    running: dict[int, Place] = {}
    leaving: list[tuple[int, int]] = []
    used, area, clock, refused, refused_milli = 0, 0, 0, 0, 0
    for number, ask in enumerate(listed):
        while leaving and leaving[0][0] <= ask.arrives_s:
            at, gone = heappop(leaving)
            area, clock = area + used * (at - clock), at
            used -= listed[gone].gpu_milli
            del running[gone]
        area, clock = area + used * (ask.arrives_s - clock), ask.arrives_s
        binds = plan(_with(rows, listed, running, number)).binds
        if not binds:
            refused, refused_milli = refused + 1, refused_milli + ask.gpu_milli
            continue
        running[number] = (binds[0].node, binds[0].devices)
        used += ask.gpu_milli
        heappush(leaving, (ask.arrives_s + (ask.lasts_s or 0), number))
    return {
        "gpus": capacity / WHOLE_GPU_MILLI,
        "pods": len(listed),
        "mean_allocated_percent": 100 * area / (capacity * max(clock, 1)),
        "refused": refused,
        "refused_gpus": refused_milli / WHOLE_GPU_MILLI,
    }


def _with(rows: Snapshot, listed: list[Ask], running: dict[int, Place], number: int) -> Snapshot:
    """Those who run, and one who waits."""
    there = [*running, number]
    places = [*running.values(), None]
    few = snapshot([listed[each] for each in there], rows.pool.gpu_placement, rows.policy.typical, places)
    return replace(few, nodes=rows.nodes)
