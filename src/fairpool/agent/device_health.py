"""Which real GPUs are withheld from scheduling, and why: broken, not responding, or used by processes outside our pods.

The driver lists processes of this PID namespace only. Work in another container, or on the host of ours, shows only by
its memory, so memory that no listed process explains counts too. It must be there at two checks in a row, except at the
first: a process that is ending leaves the list and its memory in no particular order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from fairpool.agent import process_table
from fairpool.agent.devices import LogicalNode
from fairpool.agent.nvml import MIB, Gpu, Gpus
from fairpool.model.ids import NodeName
from fairpool.model.node import Node

UNEXPLAINED_BYTES = 200 * MIB
"""More than any rounding: the lists of an H200 fell short by 9 MiB a process, and one that computes has 500."""
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node without the devices that are withheld, and why they are."""

    node: Node
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Which processes and devices belong to our pods."""

    ours: Callable[[Collection[int]], Collection[int]]
    """Those of these processes that belong to our pods."""
    holds: Callable[[NodeName, int], bool]
    """Whether a pod of ours holds a device of a node."""
    is_there: Callable[[int], bool] = lambda pid: process_table.start_time(pid) is not None
    """Whether a process is alive and visible from here."""


class DeviceHealth:
    """Checks the devices of this machine."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._unexplained: set[str] = set()
        """Devices with memory in use that no process explained at the last check."""
        self._has_checked = False

    def check(self, nodes: Sequence[LogicalNode], ownership: Ownership) -> list[CheckedNode]:
        """All nodes, without the devices that must not be scheduled now."""
        unexplained: set[str] = set()
        checked = [self._check_node(node, ownership, unexplained) for node in nodes]
        self._unexplained, self._has_checked = unexplained, True
        return checked

    def _check_node(self, node: LogicalNode, ownership: Ownership, unexplained: set[str]) -> CheckedNode:
        if node.is_simulated or not node.gpus:
            return CheckedNode(node.node)
        reasons = [(gpu.index, self._why_withheld(node.node.name, gpu, ownership, unexplained)) for gpu in node.gpus]
        withheld = tuple(index for index, words in reasons if words)
        words = "; ".join(f"GPU {index} is not scheduled: {words}" for index, words in reasons if words)
        is_same = withheld == node.node.gpus_withheld
        return CheckedNode(node.node if is_same else replace(node.node, gpus_withheld=withheld), words)

    def _why_withheld(self, node: NodeName, gpu: Gpu, ownership: Ownership, unexplained: set[str]) -> str:
        """Why a device is withheld; empty if it is not."""
        if gpu.error:
            return gpu.error
        use = self._gpus.use(gpu.uuid)
        if use is None:
            return "the driver does not respond for it"
        there = {pid for pid, _ in use.by_process if ownership.is_there(pid)}
        there.update(pid for pid in use.computing if ownership.is_there(pid))
        ours = ownership.ours(use.computing)
        foreign = [pid for pid in sorted(use.computing) if pid in there and pid not in ours]
        if foreign:
            return f"used by {_named(foreign)}, which {'is' if len(foreign) == 1 else 'are'} not part of a pod"
        explained = sum(used for pid, used in use.by_process if pid in there)
        # On a device that our pod holds it cannot be decided: a driver in a container may not list even that pod.
        is_explained = use.memory_bytes is None or use.memory_bytes - explained < UNEXPLAINED_BYTES
        if is_explained or ownership.holds(node, gpu.index):
            return ""
        unexplained.add(gpu.uuid)
        is_certain = gpu.uuid in self._unexplained or not self._has_checked
        return "its memory is used by a process that is not visible from here" if is_certain else ""


def _named(pids: Sequence[int]) -> str:
    """`process 490 (python3)`, `processes 490 (python3) and 491 (python3)`."""
    words = [f"{pid} ({process_table.name(pid) or 'unknown'})" for pid in pids[:NAMED_MAX]]
    if len(pids) > NAMED_MAX:
        words.append(f"{len(pids) - NAMED_MAX} more")
    if len(words) == 1:
        return f"process {words[0]}"
    return f"processes {', '.join(words[:-1])} and {words[-1]}"
