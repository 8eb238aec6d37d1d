"""Shortages: what a node has too little of for a pod, when it is empty and as it is now."""

from __future__ import annotations

from dataclasses import replace

from fairpool.model.empty_node import copies_when_empty
from fairpool.model.node import DRAIN, Node
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, PodShape
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.decision import GPUS_WITHHELD
from fairpool.scheduler.free_gpus import idle_milli, largest_on_a_device


def in_service(row: Node) -> Node:
    """A node as it would be if no administrator kept pods off it; the same one where none does."""
    taints = tuple(taint for taint in row.taints if taint != DRAIN)
    return row if not row.cordoned and taints == row.taints else replace(row, cordoned=False, taints=taints)


def too_small(columns: Columns, shape: PodShape, node: int) -> str | None:
    """What a node has too little of even when it is empty."""
    row = columns.nodes.rows[node]
    gpu = shape.gpu
    if gpu.devices > row.gpus:
        return "too few GPUs" if row.gpus else "no GPUs"
    if gpu.devices > columns.nodes.gpus[node]:
        return GPUS_WITHHELD
    if gpu.kind is GpuKind.MEMORY and not row.gpu_memory_mib:
        return "unknown GPU memory"
    if gpu.kind is GpuKind.MEMORY and gpu.memory_mib > columns.nodes.device_mib[node]:
        return "too little GPU memory"
    if shape.cpu_milli > row.cpu_milli:
        return "too few CPUs"
    if shape.memory_bytes > row.memory_bytes:
        return "too little memory"
    for name, amount in (*shape.extended, *gpu.mig):
        if amount > row.extended.get(name, 0) + row.mig_instances.get(name, 0):
            return f"too little {name}"
    return None


def short_of(columns: Columns, shape: PodShape, node: int) -> str:
    """What keeps a pod without GPU off a node now."""
    nodes = columns.nodes
    if shape.cpu_milli > nodes.cpu_idle[node] + nodes.cpu_releasing[node]:
        return "CPU in use"
    if shape.memory_bytes > nodes.memory_idle[node] + nodes.memory_releasing[node]:
        return "memory in use"
    if nodes.slots_idle[node] + nodes.slots_releasing[node] < 1:
        return "no free pod slot"
    for name, amount in shape.extended:
        if name in nodes.other_idle and amount > nodes.other_idle[name][node] + nodes.other_releasing[name][node]:
            return f"{name} in use"
    return "other pods or device claims"


def copies_now(columns: Columns, node: int, row: Node, shape: PodShape) -> int:
    """How many pods of a shape find room beside what is there; portions are counted on whole devices and one shared."""
    nodes, gpu = columns.nodes, shape.gpu
    room = [copies_when_empty(row, shape), nodes.slots_idle[node] + nodes.slots_releasing[node]]
    if shape.cpu_milli:
        room.append((nodes.cpu_idle[node] + nodes.cpu_releasing[node]) // shape.cpu_milli)
    if shape.memory_bytes:
        room.append((nodes.memory_idle[node] + nodes.memory_releasing[node]) // shape.memory_bytes)
    whole = idle_milli(columns, node) // WHOLE_GPU_MILLI
    if gpu.kind is GpuKind.WHOLE:
        room.append(whole // gpu.devices)
    elif gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY):
        room.append(whole // gpu.devices if whole else int(_fits_beside(columns, node, shape)))
    return max(0, min(room))


def _fits_beside(columns: Columns, node: int, shape: PodShape) -> bool:
    asked_milli = gpus_charged_milli(shape.gpu, columns.nodes.device_mib[node])
    return shape.gpu.devices == 1 and asked_milli <= largest_on_a_device(columns, node)
